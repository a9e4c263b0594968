//! Values of a JSON text whose types differ between models: labels, categories, base scores.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A JSON value. The items of a list or an object are dropped.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PlainValue {
    Null,
    Bool(bool),
    Integer(i64),
    Real(f64),
    Text(String),
    List,
}

impl fmt::Display for PlainValue {
    /// Writes the value as Python prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Real(number) => write!(f, "{number:?}"),
            Self::Text(text) => f.write_str(text),
            Self::List => f.write_str("a list"),
        }
    }
}

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor)
    }
}

struct PlainVisitor;

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = PlainValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<PlainValue, E> {
        Ok(PlainValue::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<PlainValue, E> {
        Ok(PlainValue::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<PlainValue, E> {
        Ok(PlainValue::Integer(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<PlainValue, E> {
        Ok(PlainValue::Real(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<PlainValue, E> {
        Ok(PlainValue::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PlainValue, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(PlainValue::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<PlainValue, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(PlainValue::List)
    }
}

/// Numbers in lists of any depth, flattened, because releases differ in the shape of a base score. A missing number is
/// NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Numbers(pub(super) Vec<f64>);

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

    fn visit_unit<E: de::Error>(self) -> Result<Numbers, E> {
        Ok(Numbers(vec![f64::NAN]))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Numbers, E> {
        Ok(Numbers(vec![value as f64]))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Numbers, E> {
        Ok(Numbers(vec![value]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Numbers, A::Error> {
        let mut all = Numbers::default();
        while let Some(Numbers(some)) = items.next_element()? {
            all.0.extend(some);
        }
        Ok(all)
    }
}
