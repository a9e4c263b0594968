//! Numbers and texts for JavaScript.

use fangorn::Forest;
use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

/// A number. JSON has no literal for one that is not finite, so such a number becomes a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Num(pub f64);

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("∞"),
            f64::NEG_INFINITY => serializer.serialize_str("-∞"),
            value => serializer.serialize_f64(value),
        }
    }
}

/// Returns a value as JSON.
///
/// # Errors
/// None that is known: the values have only texts as keys.
pub fn text_of(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::request(format!("internal: {error}")))
}

/// Returns the name of a feature, or `f` and its column if it has none.
pub fn feature_name(forest: &Forest, feature: usize) -> String {
    forest.features[feature].name.clone().unwrap_or_else(|| format!("f{feature}"))
}

/// Returns the name of a value's category, if the model's file names it.
pub fn category_name(forest: &Forest, feature: usize, value: f64) -> Option<String> {
    let is_code = value >= 0.0 && value.fract() == 0.0;
    forest.features[feature].categories.get(value as usize).filter(|_| is_code).cloned()
}
