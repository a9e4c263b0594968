//! One `serde` deserialiser for JSON and UBJSON, so that the code that reads a schema is compiled once.
//!
//! The readers of the two encodings know syntax alone. This file hands their values to visitors, and adds to
//! a schema error the path of the field that failed.

use std::borrow::Cow;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, Visitor};

use super::decode::{DecodeError, Scalar};
use super::{json, ubjson};

/// The offset of a value that may nest to any depth, in a JSON text. The deserialiser skips the value without
/// recursion. Code that needs the value reads it with a [`json::Reader`] of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct NestedValue {
    /// The offset of the value's first byte in the document.
    pub(super) start: usize,
}

/// The name by which a [`Value`] recognises that a [`NestedValue`] is wanted.
const NESTED_VALUE: &str = "fangorn::NestedValue";

impl<'de> Deserialize<'de> for NestedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(NESTED_VALUE, NestedValueVisitor)
    }
}

struct NestedValueVisitor;

impl Visitor<'_> for NestedValueVisitor {
    type Value = NestedValue;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_u64<E: de::Error>(self, start: u64) -> Result<NestedValue, E> {
        Ok(NestedValue { start: start as usize })
    }
}

/// The next value of a document.
pub(super) enum Value<'r, 'de> {
    Json(&'r mut json::Reader<'de>),
    Ubjson(ubjson::Value<'r, 'de>),
}

impl<'r, 'de> Value<'r, 'de> {
    fn is_container(&mut self) -> Result<bool, DecodeError> {
        match self {
            Self::Json(reader) => reader.is_at_container(),
            Self::Ubjson(value) => Ok(value.is_container()),
        }
    }

    /// Returns whether the value is a null, and reads it.
    fn takes_null(&mut self) -> Result<bool, DecodeError> {
        match self {
            Self::Json(reader) => reader.takes_null(),
            Self::Ubjson(value) => Ok(value.is_null()),
        }
    }

    fn scalar(self) -> Result<Scalar<'de>, DecodeError> {
        match self {
            Self::Json(reader) => reader.scalar(),
            Self::Ubjson(value) => value.scalar(),
        }
    }

    /// Enters an array or an object. Returns its items, and whether it is an object.
    fn enter(self) -> Result<(Items<'r, 'de>, bool), DecodeError> {
        let (source, is_object) = match self {
            Self::Json(reader) => {
                let (items, is_object) = reader.items()?;
                (Source::Json(items), is_object)
            }
            Self::Ubjson(value) => {
                let is_object = value.is_object();
                (Source::Ubjson(value.items()?), is_object)
            }
        };
        Ok((Items { source, index: 0, name: 0 }, is_object))
    }

    fn container<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let (mut items, is_object) = self.enter()?;
        let value = if is_object { visitor.visit_map(&mut items)? } else { visitor.visit_seq(&mut items)? };
        items.leave().map(|()| value)
    }

    /// Skips a value. Checks its syntax, and neither computes numbers nor decodes strings.
    fn skip(self) -> Result<(), DecodeError> {
        match self {
            Self::Json(reader) => reader.skip_shallow(),
            Self::Ubjson(value) => value.skip(),
        }
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
            match &mut self {
                // Almost every value of a file is in one of a tree's arrays, whose types these are.
                Self::Ubjson(value) if value.is_i32() => return visitor.visit_i32(value.i32()?),
                Self::Ubjson(value) if value.is_u8() => return visitor.visit_u8(value.u8()?),
                _ => {}
            }
            if self.is_container()? { self.container(visitor) } else { self.scalar()?.visit_integer(visitor) }
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.is_container()? { self.container(visitor) } else { self.scalar()?.visit(visitor) }
    }

    fn deserialize_f32<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        match &mut self {
            Self::Ubjson(value) if value.is_f32() => return visitor.visit_f32(value.f32()?),
            _ => {}
        }
        if self.is_container()? { self.container(visitor) } else { self.scalar()?.visit_single(visitor) }
    }

    integers! { deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u32 deserialize_u64 }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.takes_null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self {
            Self::Json(reader) if name == NESTED_VALUE => {
                let start = reader.offset();
                reader.skip()?;
                visitor.visit_u64(start as u64)
            }
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.skip()?;
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i128 u16 u128 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

/// The items of an array or an object.
struct Items<'r, 'de> {
    source: Source<'r, 'de>,
    /// The index of the next item.
    index: usize,
    /// The offset of the last name, in an object.
    name: usize,
}

enum Source<'r, 'de> {
    Json(json::Items<'r, 'de>),
    Ubjson(ubjson::Items<'r, 'de>),
}

impl<'de> Items<'_, 'de> {
    /// Moves to the next item of an array.
    fn next(&mut self) -> Result<bool, DecodeError> {
        self.index += 1;
        match &mut self.source {
            Source::Json(items) => items.has_next(),
            Source::Ubjson(items) => items.has_next(),
        }
    }

    fn item(&mut self) -> Result<Value<'_, 'de>, DecodeError> {
        match &mut self.source {
            Source::Json(items) => Ok(Value::Json(items.reader())),
            Source::Ubjson(items) => items.item().map(Value::Ubjson),
        }
    }

    /// Moves to the next name of an object.
    fn next_name(&mut self) -> Result<Option<Value<'_, 'de>>, DecodeError> {
        if !self.next()? {
            return Ok(None);
        }
        match &mut self.source {
            Source::Json(items) => {
                let reader = items.reader();
                self.name = reader.name_offset()?;
                Ok(Some(Value::Json(reader)))
            }
            Source::Ubjson(items) => {
                let name = items.name();
                self.name = name.offset();
                Ok(Some(Value::Ubjson(name)))
            }
        }
    }

    /// Moves from a name to its value.
    fn value(&mut self) -> Result<Value<'_, 'de>, DecodeError> {
        if let Source::Json(items) = &mut self.source {
            items.reader().colon()?;
        }
        self.item()
    }

    /// Reads what ends the items.
    fn leave(self) -> Result<(), DecodeError> {
        match self.source {
            Source::Json(items) => items.leave(),
            Source::Ubjson(items) => items.leave(),
        }
    }

    #[cold]
    fn in_item(&self, error: DecodeError) -> DecodeError {
        error.within(&format!("[{}]", self.index - 1))
    }

    #[cold]
    fn in_field(&self, error: DecodeError) -> DecodeError {
        let name = match &self.source {
            Source::Json(items) => items.name_at(self.name),
            Source::Ubjson(items) => items.name_at(self.name),
        };
        error.within(&name.unwrap_or(Cow::Borrowed("?")))
    }
}

impl<'de> de::SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        if !self.next()? {
            return Ok(None);
        }
        match seed.deserialize(self.item()?) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(self.in_item(error)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        match &self.source {
            Source::Json(_) => None,
            Source::Ubjson(items) => items.left(),
        }
    }
}

impl<'de> de::MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        self.next_name()?.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        match seed.deserialize(self.value()?) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.in_field(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::Limits;
    use super::super::decode::{Encoding, decode};

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only the errors are looked at")]
    struct Outer {
        list: Vec<Inner>,
        #[serde(default)]
        none: Option<i32>,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only the errors are looked at")]
    struct Inner {
        number: f32,
        #[serde(default)]
        pairs: Vec<(u8, String)>,
    }

    fn error(bytes: &[u8], encoding: Encoding) -> String {
        decode::<Outer>(bytes, encoding, &Limits::default()).expect_err("an error").to_string()
    }

    #[test]
    fn a_schema_error_names_the_path_of_its_field() {
        for (text, path) in [
            (r#"{"list": [{"number": 1}, {"number": []}]}"#, "list[1].number"),
            (r#"{"list": [{"number": 1, "pairs": [[1, "a"], [2, 3]]}]}"#, "list[0].pairs[1][1]"),
            (r#"{"list": [{"number": 1, "pairs": [[1, "a"], [300, "b"]]}]}"#, "list[0].pairs[1][0]"),
            (r#"{"list": [{"number": 1}, {}]}"#, "list[1]"),
            (r#"{"list": [{"number": 1}], "n\u006fne": "x"}"#, "none"),
            (r#"{"list": {"number": 1}}"#, "list"),
        ] {
            let error = error(text.as_bytes(), Encoding::Json);
            assert!(error.starts_with(&format!("{path}: ")), "{text}: {error}");
        }
        assert!(error(b"{}", Encoding::Json).starts_with("model: missing field"));
    }

    #[test]
    fn a_schema_error_in_ubjson_names_the_path_of_its_field() {
        for (bytes, path) in [
            (&b"{U\x04list[{U\x06numberi\x01}{U\x06number[]}]}"[..], "list[1].number"),
            (
                &b"{U\x04list[#U\x01{U\x06numberi\x01U\x05pairs[[i\x01SU\x01a][i\x02i\x03]]}]}"[..],
                "list[0].pairs[1][1]",
            ),
            (&b"{U\x04list[{U\x06numberi\x01}{}]}"[..], "list[1]"),
            (&b"{U\x04list[]U\x04noneSU\x01x}"[..], "none"),
        ] {
            let error = error(bytes, Encoding::Ubjson);
            assert!(error.starts_with(&format!("{path}: ")), "{error}");
        }
        // A pair of three.
        let pair = b"{U\x04list[{U\x06numberi\x01U\x05pairs[[i\x01SU\x01ai\x02]]}]}";
        assert!(error(pair, Encoding::Ubjson).contains("more items"));
        let pairs = b"{U\x04list[{U\x06numberi\x01U\x05pairs[[i\x01SU\x01a][#U\x02i\x02SU\x01b]}]}";
        let read = decode::<Outer>(pairs, Encoding::Ubjson, &Limits::default()).expect("two pairs");
        assert_eq!(read.list[0].pairs, [(1, "a".to_owned()), (2, "b".to_owned())]);
    }
}
