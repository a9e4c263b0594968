//! The fields of a CatBoost JSON model that the importer reads. It ignores all other keys.
//!
//! CatBoost writes a list without entries as `null`, and the keys of an object in alphabetical order.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::super::document::{self, NestedValue};
use super::super::json::Reader;

/// The whole file.
#[derive(Debug, Deserialize)]
pub(crate) struct Document {
    #[serde(default, deserialize_with = "object")]
    pub features_info: Features,
    #[serde(default, deserialize_with = "object")]
    pub model_info: ModelInfo,
    /// Oblivious trees, which test one condition on each level.
    #[serde(default, deserialize_with = "present")]
    pub oblivious_trees: Option<Vec<Oblivious>>,
    /// Trees of any shape (`Depthwise`, `Lossguide`), whose nodes are objects inside objects.
    pub trees: Option<NestedValue>,
    pub scale_and_bias: Option<ScaleAndBias>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Features {
    #[serde(default, deserialize_with = "list")]
    pub float_features: Vec<FloatFeature>,
    #[serde(default, deserialize_with = "list")]
    pub categorical_features: Vec<CategoricalFeature>,
    #[serde(default, deserialize_with = "list")]
    pub text_features: Vec<de::IgnoredAny>,
    #[serde(default, deserialize_with = "list")]
    pub embedding_features: Vec<de::IgnoredAny>,
    /// The strings of the categories, if the model was saved with its pool.
    #[serde(default, deserialize_with = "list")]
    pub cat_features_hash: Vec<CategoryName>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FloatFeature {
    #[serde(default, deserialize_with = "list")]
    pub borders: Vec<f32>,
    /// The feature's number among the numeric features. Splits refer to the feature by it.
    pub feature_index: u64,
    /// The feature's column.
    pub flat_feature_index: u64,
    #[serde(default)]
    pub feature_id: String,
    pub feature_name: Option<String>,
    pub nan_value_treatment: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CategoricalFeature {
    pub feature_index: u64,
    pub flat_feature_index: u64,
    #[serde(default)]
    pub feature_id: String,
    pub feature_name: Option<String>,
    /// Hashes of the categories that one-hot splits ask for.
    #[serde(default, deserialize_with = "list")]
    pub values: Vec<i32>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct CategoryName {
    pub hash: u32,
    pub value: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Oblivious {
    #[serde(default, deserialize_with = "list")]
    pub splits: Vec<Split>,
    /// The values of all leaves, leaf after leaf. The values of one leaf are adjacent.
    pub leaf_values: Vec<f64>,
    /// The weight of the training rows in each leaf.
    #[serde(default, deserialize_with = "list")]
    pub leaf_weights: Vec<f64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Split {
    pub split_type: String,
    /// The split's number among all conditions of the model. CatBoost itself reads a split by it.
    pub split_index: Option<u64>,
    pub float_feature_index: Option<u64>,
    pub border: Option<f32>,
    pub cat_feature_index: Option<u64>,
    pub value: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ModelInfo {
    pub params: Option<NestedObject<Params>>,
    /// The loss function of a model that is a sum of models.
    pub loss_function: Option<NestedObject<Loss>>,
    pub class_params: Option<NestedObject<ClassParams>>,
    /// The threshold of a binary classifier, which CatBoost writes as a number in a string.
    pub binclass_probability_threshold: Option<Threshold>,
    pub catboost_version_info: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Params {
    pub loss_function: Option<NestedObject<Loss>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Loss {
    #[serde(rename = "type")]
    pub name: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ClassParams {
    #[serde(default, deserialize_with = "list")]
    pub class_names: Vec<Label>,
    #[serde(default, deserialize_with = "list")]
    pub class_to_label: Vec<Label>,
    #[serde(default)]
    pub classes_count: u64,
    /// The type of the labels: `Integer`, `Float`, `Boolean` or `String`.
    pub class_label_type: Option<String>,
}

fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn object<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    list(deserializer).map(Some)
}

/// An object, or a string that contains an object in JSON. In CatBoost the name of the key decides which.
#[derive(Debug)]
pub(crate) struct NestedObject<T>(pub T);

impl<'de, T: de::DeserializeOwned> Deserialize<'de> for NestedObject<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EmbeddedVisitor(PhantomData))
    }
}

struct EmbeddedVisitor<T>(PhantomData<T>);

impl<'de, T: de::DeserializeOwned> Visitor<'de> for EmbeddedVisitor<T> {
    type Value = NestedObject<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or a string that holds one")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<NestedObject<T>, A::Error> {
        T::deserialize(de::value::MapAccessDeserializer::new(map)).map(NestedObject)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<NestedObject<T>, E> {
        let mut reader = Reader::new(text.as_bytes(), text.len());
        let value = T::deserialize(document::Value::Json(&mut reader))
            .and_then(|value| reader.finish().map(|()| value));
        value.map(NestedObject).map_err(|e| E::custom(format!("the object in this string: {e}")))
    }
}

/// The label of a class.
#[derive(Debug)]
pub(crate) struct Label {
    /// The label as text, also if the file has a number or a truth value.
    pub text: String,
    /// Whether the label is a string in the file.
    pub is_word: bool,
}

impl Label {
    fn plain(text: String) -> Self {
        Self { text, is_word: false }
    }
}

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LabelVisitor)
    }
}

struct LabelVisitor;

impl Visitor<'_> for LabelVisitor {
    type Value = Label;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a class")
    }

    fn visit_str<E>(self, text: &str) -> Result<Label, E> {
        Ok(Label { text: text.to_owned(), is_word: true })
    }

    fn visit_i64<E>(self, value: i64) -> Result<Label, E> {
        Ok(Label::plain(value.to_string()))
    }

    // CatBoost keeps labels that are not integers in f32.
    fn visit_f64<E>(self, value: f64) -> Result<Label, E> {
        let short = value as f32;
        Ok(Label::plain(if f64::from(short) == value { short.to_string() } else { value.to_string() }))
    }

    // Python's spelling, because labels that are truth values come from Python.
    fn visit_bool<E>(self, value: bool) -> Result<Label, E> {
        Ok(Label::plain(if value { "True" } else { "False" }.to_owned()))
    }
}

/// A number, or a string that contains a number.
#[derive(Debug)]
pub(crate) struct Threshold(pub f64);

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ThresholdVisitor)
    }
}

struct ThresholdVisitor;

impl Visitor<'_> for ThresholdVisitor {
    type Value = Threshold;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Threshold, E> {
        let number = text.trim().parse().map(Threshold);
        number.map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Threshold, E> {
        Ok(Threshold(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Threshold, E> {
        Ok(Threshold(value as f64))
    }
}

/// The scale and the bias in `raw = scale x sum of leaves + bias`. The bias is a list, or one number in old
/// versions.
#[derive(Debug, Deserialize)]
pub(crate) struct ScaleAndBias(pub f64, pub Numbers);

/// A number or a list of numbers.
#[derive(Debug, Default)]
pub(crate) struct Numbers(pub Vec<f64>);

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumbersVisitor)
    }
}

struct NumbersVisitor;

impl<'de> Visitor<'de> for NumbersVisitor {
    type Value = Numbers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a list of numbers")
    }

    fn visit_i64<E>(self, value: i64) -> Result<Numbers, E> {
        Ok(Numbers(vec![value as f64]))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Numbers, E> {
        Ok(Numbers(vec![value]))
    }

    fn visit_unit<E>(self) -> Result<Numbers, E> {
        Ok(Numbers::default())
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Numbers, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element()? {
            values.push(value);
        }
        Ok(Numbers(values))
    }
}
