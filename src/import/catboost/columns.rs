//! The columns of a row, and the condition that a split tests.

use std::collections::{HashMap, HashSet};

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location};
use super::schema::{Features, FloatFeature, Split};
use crate::forest::{Feature, Side};

/// The condition of a split. In an oblivious tree, the answer yes sets the split's bit of the leaf id. In a
/// nested tree, it selects the right child.
#[derive(Clone, Copy, Debug)]
pub(super) enum Condition {
    /// Whether `x > border`, compared in `f32`. A missing value goes to the side `missing`: left means no.
    Over { column: u32, border: f32, missing: Side },
    /// Whether the category's string has this hash.
    Category { column: u32, hash: u32 },
}

struct Numeric {
    column: u32,
    missing: Side,
    borders: Vec<f32>,
    first: u64,
}

struct Categorical {
    column: u32,
    hashes: Vec<i32>,
    first: u64,
}

/// The model's features, by the numbers that splits use for them.
pub(super) struct Columns {
    pub features: Vec<Feature>,
    numeric: HashMap<u64, Numeric>,
    categorical: HashMap<u64, Categorical>,
}

impl Columns {
    pub(super) fn new(info: Features, budget: &Budget<'_>) -> Result<Self, ImportError> {
        let path = "features_info";
        for (count, sort) in
            [(info.text_features.len(), "text"), (info.embedding_features.len(), "embedding")]
        {
            if count > 0 {
                let location = format!("{path}.{sort}_features");
                return Err(at(
                    ErrorKind::Unsupported,
                    location,
                    format!("{sort} features are not supported"),
                )
                .with_remedy(format!("compute numbers from the {sort} features before training")));
            }
        }
        let flat = info.float_features.iter().map(|f| f.flat_feature_index);
        let flat = flat.chain(info.categorical_features.iter().map(|f| f.flat_feature_index));
        let width = flat.max().map_or(0, |last| last.saturating_add(1));
        let width = usize::try_from(width).unwrap_or(usize::MAX);
        budget.features(width, || Location::Field(path.into()))?;
        let mut columns = Self {
            features: vec![Feature::default(); width],
            numeric: HashMap::new(),
            categorical: HashMap::new(),
        };
        let mut taken = HashSet::new();
        let mut first = 0;
        for (i, feature) in info.float_features.into_iter().enumerate() {
            let location = format!("{path}.float_features[{i}]");
            let column = columns.take(feature.flat_feature_index, &mut taken, &location)?;
            columns.name(column, &feature.feature_id, feature.feature_name.as_deref());
            let missing = missing(&feature, &location)?;
            let next = first + feature.borders.len() as u64;
            let numeric = Numeric { column, missing, borders: feature.borders, first };
            if columns.numeric.insert(feature.feature_index, numeric).is_some() {
                return Err(listed_twice(feature.feature_index, &location));
            }
            first = next;
        }
        for (i, feature) in info.categorical_features.into_iter().enumerate() {
            let location = format!("{path}.categorical_features[{i}]");
            let column = columns.take(feature.flat_feature_index, &mut taken, &location)?;
            columns.name(column, &feature.feature_id, feature.feature_name.as_deref());
            let next = first + feature.values.len() as u64;
            let categorical = Categorical { column, hashes: feature.values, first };
            if columns.categorical.insert(feature.feature_index, categorical).is_some() {
                return Err(listed_twice(feature.feature_index, &location));
            }
            first = next;
        }
        Ok(columns)
    }

    fn take(&self, flat: u64, taken: &mut HashSet<u64>, location: &str) -> Result<u32, ImportError> {
        if !taken.insert(flat) {
            let cause = format!("column {flat} belongs to another feature");
            return Err(at(ErrorKind::Structure, format!("{location}.flat_feature_index"), cause));
        }
        // `Budget::features` has checked that the column is below the limit on features.
        Ok(u32::try_from(flat).unwrap_or(u32::MAX))
    }

    fn name(&mut self, column: u32, id: &str, name: Option<&str>) {
        let name = if id.is_empty() { name.unwrap_or_default() } else { id };
        if let Some(feature) = self.features.get_mut(column as usize).filter(|_| !name.is_empty()) {
            feature.name = Some(name.to_owned());
        }
    }

    /// Returns what a split asks. `location` returns the location of one of the split's fields in the file.
    pub(super) fn condition(
        &self,
        split: &Split,
        location: impl Fn(&str) -> Location,
    ) -> Result<Condition, ImportError> {
        let fail = |kind, field: &str, cause: String| Err(ImportError::new(kind, location(field), cause));
        let missing = |field: &str| {
            ImportError::new(ErrorKind::Schema, location(field), format!("missing field `{field}`"))
        };
        match split.split_type.as_str() {
            "FloatFeature" => {
                let index = split.float_feature_index.ok_or_else(|| missing("float_feature_index"))?;
                let border = split.border.ok_or_else(|| missing("border"))?;
                let Some(feature) = self.numeric.get(&index) else {
                    let cause = format!("numeric feature {index}, which the model does not list");
                    return fail(ErrorKind::Value, "float_feature_index", cause);
                };
                if !border.is_finite() {
                    return fail(ErrorKind::Value, "border", format!("the border is {border:?}"));
                }
                let listed = |i: usize| feature.borders.get(i).is_some_and(|b| *b == border);
                if split.split_index.is_some_and(|index| !at_index(index, feature.first, listed)) {
                    let cause = format!("the split's border {border:?} is not the one of that number");
                    return fail(ErrorKind::Structure, "split_index", cause);
                }
                Ok(Condition::Over { column: feature.column, border, missing: feature.missing })
            }
            "OneHotFeature" => {
                let index = split.cat_feature_index.ok_or_else(|| missing("cat_feature_index"))?;
                let value = split.value.ok_or_else(|| missing("value"))?;
                let Some(feature) = self.categorical.get(&index) else {
                    let cause = format!("categorical feature {index}, which the model does not list");
                    return fail(ErrorKind::Value, "cat_feature_index", cause);
                };
                let listed = |i: usize| feature.hashes.get(i) == Some(&value);
                if split.split_index.is_some_and(|index| !at_index(index, feature.first, listed)) {
                    let cause = format!("the split's value {value} is not the one of that number");
                    return fail(ErrorKind::Structure, "split_index", cause);
                }
                Ok(Condition::Category { column: feature.column, hash: value.cast_unsigned() })
            }
            "OnlineCtr" => Err(ImportError::new(
                ErrorKind::Unsupported,
                location("split_type"),
                "a split on a counter (CTR) of a categorical feature is not supported",
            )
            .with_remedy(
                "train with one_hot_max_size above the number of categories, or encode the column as numbers",
            )),
            other => Err(ImportError::new(
                ErrorKind::Unsupported,
                location("split_type"),
                format!("a split of type `{other}` is not supported"),
            )
            .with_remedy(
                "train on numeric features, or with one_hot_max_size above the number of categories",
            )),
        }
    }
}

fn at_index(index: u64, first: u64, listed: impl Fn(usize) -> bool) -> bool {
    index.checked_sub(first).and_then(|i| usize::try_from(i).ok()).is_some_and(listed)
}

fn listed_twice(index: u64, location: &str) -> ImportError {
    let cause = format!("feature {index} is listed twice");
    at(ErrorKind::Structure, format!("{location}.feature_index"), cause)
}

/// Returns the side that a missing value takes. `AsIs` compares the NaN itself, which is over no border.
fn missing(feature: &FloatFeature, location: &str) -> Result<Side, ImportError> {
    match feature.nan_value_treatment.as_deref() {
        None | Some("AsIs" | "AsFalse") => Ok(Side::Left),
        Some("AsTrue") => Ok(Side::Right),
        Some(other) => {
            let cause = format!("`{other}` is none of AsIs, AsFalse, AsTrue");
            Err(at(ErrorKind::Value, format!("{location}.nan_value_treatment"), cause))
        }
    }
}
