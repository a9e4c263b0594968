//! Decodes a document in JSON or UBJSON. Converts scalars leniently, and names the location of a failure.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, Expected, Unexpected, Visitor};

use super::document::Value;
use super::{ErrorKind, ImportError, Limits, Location, json, ubjson};

/// The maximum depth of nested containers. XGBoost's documents nest 7 deep, and a deeper document must not
/// exhaust the stack.
pub(super) const MAX_NESTING: u32 = 64;

/// The encoding of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Ubjson,
}

/// A failure to decode. It is in a box, so that the result of reading a number fits registers.
#[derive(Debug)]
pub(super) struct DecodeError(Box<Failure>);

/// What a [`DecodeError`] says.
#[derive(Debug)]
pub(super) struct Failure {
    /// The offset of a syntax error, in bytes. `None` for a schema error.
    pub(super) offset: Option<usize>,
    pub(super) message: String,
    /// The path of the field that a schema error is in, for example `trees[2].id`.
    pub(super) path: String,
}

impl DecodeError {
    #[cold]
    pub(super) fn syntax(offset: usize, message: impl Into<String>) -> Self {
        Self(Box::new(Failure { offset: Some(offset), message: message.into(), path: String::new() }))
    }

    /// Adds the key of the value that the error is in: a name, or an index in brackets.
    pub(super) fn within(mut self, key: &str) -> Self {
        let path = &mut self.0.path;
        if !path.is_empty() && !path.starts_with('[') {
            path.insert(0, '.');
        }
        path.insert_str(0, key);
        self
    }
}

impl std::ops::Deref for DecodeError {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for DecodeError {}
impl serde::de::Error for DecodeError {
    #[cold]
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(Box::new(Failure { offset: None, message: message.to_string(), path: String::new() }))
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Unit => "null".to_owned(),
            Unexpected::Seq => "an array".to_owned(),
            Unexpected::Map => "an object".to_owned(),
            other => other.to_string(),
        };
        serde::de::Error::custom(format!("invalid type: {found}, expected {}", plain(expected)))
    }

    #[cold]
    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        let expected = plain(expected);
        // serde reads an array as an object's fields, and misses the first field that the array is too short for.
        if expected == OBJECT {
            return serde::de::Error::custom(format!("invalid type: an array, expected {OBJECT}"));
        }
        serde::de::Error::custom(format!("invalid length {length}, expected {expected}"))
    }
}

/// What JSON calls a struct.
const OBJECT: &str = "an object";

/// Returns what a visitor expects, in JSON's words. serde names the struct in Rust that an object becomes.
fn plain(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    if expected.starts_with("struct ") || expected == "a map" {
        OBJECT.to_owned()
    } else if expected == "a sequence" {
        "an array".to_owned()
    } else {
        expected
    }
}

/// Decodes a document.
pub(super) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    encoding: Encoding,
    limits: &Limits,
) -> Result<T, ImportError> {
    let result = match encoding {
        Encoding::Json => {
            let mut reader = json::Reader::new(bytes, limits.string_bytes);
            T::deserialize(Value::Json(&mut reader)).and_then(|document| reader.finish().map(|()| document))
        }
        Encoding::Ubjson => {
            let mut reader = ubjson::Reader::new(bytes, limits.string_bytes);
            let document = reader.value().and_then(|value| T::deserialize(Value::Ubjson(value)));
            document.and_then(|document| reader.finish().map(|()| document))
        }
    };
    result.map_err(|error| located(&error, bytes, encoding))
}

fn located(error: &DecodeError, bytes: &[u8], encoding: Encoding) -> ImportError {
    let Some(offset) = error.offset else {
        let location =
            if error.path.is_empty() { Location::File } else { Location::Field(error.path.clone()) };
        return ImportError::new(ErrorKind::Schema, location, &error.message);
    };
    let location = match encoding {
        Encoding::Json => json::location(bytes, offset),
        Encoding::Ubjson => Location::Byte(offset),
    };
    let refused = ImportError::new(ErrorKind::Syntax, location, &error.message);
    // The only limit that the readers check is the length of a string.
    match error.message.contains("over the limit of") {
        true => refused.with_limit("string_bytes"),
        false => refused,
    }
}

/// A value that is neither an array nor an object.
#[derive(Debug)]
pub(super) enum Scalar<'de> {
    Null,
    Bool(bool),
    Integer(i64),
    Single(f32),
    Double(f64),
    /// The text of a number. It is parsed, and so rounded, only once: to the type that the visitor asks for.
    Number(&'de str),
    Text(Cow<'de, str>),
}

impl<'de> Scalar<'de> {
    /// Hands the value to the visitor in the value's own type.
    pub(super) fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self {
            Self::Null => visitor.visit_unit(),
            Self::Bool(value) => visitor.visit_bool(value),
            Self::Integer(value) => visitor.visit_i64(value),
            Self::Single(value) => visitor.visit_f32(value),
            Self::Double(value) => visitor.visit_f64(value),
            Self::Number(text) => match text.parse() {
                Ok(value) => visitor.visit_i64(value),
                // The readers let only valid numbers through, so the fallback to NaN never runs.
                Err(_) => visitor.visit_f64(text.parse().unwrap_or(f64::NAN)),
            },
            Self::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Self::Text(Cow::Owned(text)) => visitor.visit_string(text),
        }
    }

    /// Hands the value to the visitor as an integer. XGBoost writes parameters as strings, and before 1.6 it
    /// wrote flags as booleans.
    pub(super) fn visit_integer<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self {
            Self::Bool(value) => visitor.visit_i64(value.into()),
            Self::Number(text) => match text.parse() {
                Ok(value) => visitor.visit_i64(value),
                Err(_) => Err(invalid_number(text, &visitor)),
            },
            Self::Text(text) => match text.trim().parse() {
                Ok(value) => visitor.visit_i64(value),
                Err(_) => Err(serde::de::Error::invalid_value(Unexpected::Str(&text), &visitor)),
            },
            other => other.visit(visitor),
        }
    }

    /// Hands the value to the visitor as an `f32`, rounded once.
    pub(super) fn visit_single<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self {
            Self::Integer(value) => visitor.visit_f32(value as f32),
            Self::Double(value) => visitor.visit_f32(value as f32),
            Self::Number(text) => match text.parse() {
                Ok(value) => visitor.visit_f32(value),
                Err(_) => Err(invalid_number(text, &visitor)),
            },
            Self::Text(text) => match text.trim().parse() {
                Ok(value) => visitor.visit_f32(value),
                Err(_) => Err(serde::de::Error::invalid_value(Unexpected::Str(&text), &visitor)),
            },
            other => other.visit(visitor),
        }
    }
}

fn invalid_number<'de, V: Visitor<'de>>(text: &str, expected: &V) -> DecodeError {
    serde::de::Error::invalid_value(Unexpected::Other(&format!("number `{text}`")), expected)
}
