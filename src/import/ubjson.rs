//! A `serde` deserialiser for UBJSON (draft 12) as XGBoost writes it.
//!
//! Every value opens with a marker byte, and numbers are big-endian. An array or an object may state its
//! count (`#`) and its items' type (`$`) up front. The reader checks a count against the bytes that are left
//! before it trusts it.

use std::borrow::Cow;

use serde::de::{self, DeserializeSeed, Deserializer, Visitor};

use super::decode::{DecodeError, MAX_NESTING, Scalar};

/// Reads values from UBJSON bytes.
pub(super) struct Reader<'de> {
    bytes: &'de [u8],
    at: usize,
    nesting: u32,
    longest_string: usize,
}

/// A value whose marker has been read.
pub(super) struct Value<'r, 'de> {
    reader: &'r mut Reader<'de>,
    marker: u8,
}

impl<'de> Reader<'de> {
    pub(super) fn new(bytes: &'de [u8], longest_string: usize) -> Self {
        Self { bytes, at: 0, nesting: 0, longest_string }
    }

    /// Reads the marker of the next value.
    pub(super) fn value(&mut self) -> Result<Value<'_, 'de>, DecodeError> {
        let marker = self.marker()?;
        Ok(Value { reader: self, marker })
    }

    /// Checks that only no-ops follow.
    pub(super) fn finish(mut self) -> Result<(), DecodeError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("bytes after the end of the model")),
        }
    }

    fn error(&self, message: impl Into<String>) -> DecodeError {
        DecodeError::syntax(self.at, message)
    }

    fn ends(&self) -> DecodeError {
        self.error("the file ends too soon")
    }

    /// Skips no-ops and returns the next byte, which stays unread.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at) == Some(&b'N') {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn marker(&mut self) -> Result<u8, DecodeError> {
        let marker = self.peek().ok_or_else(|| self.ends())?;
        self.at += 1;
        Ok(marker)
    }

    fn take(&mut self, count: usize) -> Result<&'de [u8], DecodeError> {
        let bytes = self.bytes[self.at..].get(..count).ok_or_else(|| self.ends())?;
        self.at += count;
        Ok(bytes)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let bytes = self.bytes[self.at..].first_chunk::<N>().ok_or_else(|| self.ends())?;
        self.at += N;
        Ok(*bytes)
    }

    /// Reads an integer of the type that `marker` names.
    fn integer(&mut self, marker: u8) -> Result<i64, DecodeError> {
        Ok(match marker {
            b'i' => i8::from_be_bytes(self.array()?).into(),
            b'U' | b'C' => u8::from_be_bytes(self.array()?).into(),
            b'I' => i16::from_be_bytes(self.array()?).into(),
            b'l' => i32::from_be_bytes(self.array()?).into(),
            b'L' => i64::from_be_bytes(self.array()?),
            _ => return Err(self.bad_marker(marker, "an integer")),
        })
    }

    fn bad_marker(&self, marker: u8, expected: &str) -> DecodeError {
        let marker = char::from(marker).escape_default().to_string();
        DecodeError::syntax(
            self.at.saturating_sub(1),
            format!("marker `{marker}`, but {expected} is expected"),
        )
    }

    /// Reads a count of items, and checks that the file has at least `width` bytes left for each item.
    fn count(&mut self, width: usize) -> Result<usize, DecodeError> {
        let start = self.at;
        let marker = self.marker()?;
        let count = self.integer(marker)?;
        let left = self.bytes.len() - self.at;
        let fits =
            usize::try_from(count).ok().filter(|c| c.checked_mul(width).is_some_and(|bytes| bytes <= left));
        fits.ok_or_else(|| {
            DecodeError::syntax(
                start,
                format!("a count of {count} items, but the file has {left} bytes left"),
            )
        })
    }

    fn text(&mut self) -> Result<Cow<'de, str>, DecodeError> {
        let start = self.at;
        let length = self.count(1)?;
        if length > self.longest_string {
            let message = format!("a string of {length} bytes, over the limit of {}", self.longest_string);
            return Err(DecodeError::syntax(start, message));
        }
        let text = std::str::from_utf8(self.take(length)?);
        text.map(Cow::Borrowed).map_err(|_| DecodeError::syntax(start, "a string that is not UTF-8"))
    }

    fn scalar(&mut self, marker: u8) -> Result<Scalar<'de>, DecodeError> {
        Ok(match marker {
            b'Z' => Scalar::Null,
            b'T' => Scalar::Bool(true),
            b'F' => Scalar::Bool(false),
            b'd' => Scalar::Single(f32::from_be_bytes(self.array()?)),
            b'D' => Scalar::Double(f64::from_be_bytes(self.array()?)),
            b'S' => Scalar::Text(self.text()?),
            b'i' | b'U' | b'C' | b'I' | b'l' | b'L' => Scalar::Integer(self.integer(marker)?),
            _ => return Err(self.bad_marker(marker, "a value")),
        })
    }

    /// Reads what an array or object states about its items before the first one: their type and their count.
    fn header(&mut self, close: u8) -> Result<Items<'_, 'de>, DecodeError> {
        let mut marker = None;
        if self.peek() == Some(b'$') {
            self.at += 1;
            let stated = self.marker()?;
            if width(stated).is_none() {
                return Err(self.bad_marker(stated, "the type of numbers or strings"));
            }
            marker = Some(stated);
        }
        if self.peek() == Some(b'#') {
            self.at += 1;
            // An item of a stated type takes a number's bytes, or a string's length. Any other item takes a
            // marker at least.
            let left = self.count(marker.and_then(width).unwrap_or(1))?;
            return Ok(Items { reader: self, marker, left: Some(left), close });
        }
        match marker {
            Some(_) => Err(self.error("a type without a count")),
            None => Ok(Items { reader: self, marker, left: None, close }),
        }
    }

    fn container<V: Visitor<'de>>(&mut self, marker: u8, visitor: V) -> Result<V::Value, DecodeError> {
        if self.nesting == MAX_NESTING {
            return Err(self.error(format!("values nest more than {MAX_NESTING} deep")));
        }
        self.nesting += 1;
        let value = match marker {
            b'{' => visitor.visit_map(self.header(b'}')?)?,
            _ => visitor.visit_seq(self.header(b']')?)?,
        };
        self.nesting -= 1;
        Ok(value)
    }
}

/// Returns the least number of bytes that an item of a stated type takes. Returns `None` for a type that
/// can't be stated. Items that take no bytes are among these, because a file could claim any number of them.
fn width(marker: u8) -> Option<usize> {
    match marker {
        b'i' | b'U' | b'C' => Some(1),
        b'I' | b'S' => Some(2),
        b'l' | b'd' => Some(4),
        b'L' | b'D' => Some(8),
        _ => None,
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            match self.marker {
                // The types of a tree's arrays come first, since almost every value of a file is in such an
                // array.
                b'l' => visitor.visit_i32(i32::from_be_bytes(self.reader.array()?)),
                b'U' => visitor.visit_u8(u8::from_be_bytes(self.reader.array()?)),
                b'{' | b'[' => self.reader.container(self.marker, visitor),
                marker => self.reader.scalar(marker)?.visit_integer(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Value<'_, 'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.marker {
            b'{' | b'[' => self.reader.container(self.marker, visitor),
            marker => self.reader.scalar(marker)?.visit(visitor),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.marker {
            b'd' => visitor.visit_f32(f32::from_be_bytes(self.reader.array()?)),
            b'{' | b'[' => self.reader.container(self.marker, visitor),
            marker => self.reader.scalar(marker)?.visit_single(visitor),
        }
    }

    integers! { deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u32 deserialize_u64 }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.marker == b'Z' { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    // Skips a value. Skips an array of numbers in one step.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let reader = self.reader;
        match self.marker {
            b'[' => {
                let start = reader.at;
                let items = reader.header(b']')?;
                if let (Some(marker), Some(left)) =
                    (items.marker.filter(|marker| *marker != b'S'), items.left)
                {
                    // `header` has checked that the file has this many bytes left.
                    reader.take(left * width(marker).unwrap_or(1))?;
                    return visitor.visit_unit();
                }
                reader.at = start;
                reader.container(b'[', visitor)
            }
            b'{' => reader.container(b'{', visitor),
            b'S' => {
                let length = reader.count(1)?;
                reader.take(length)?;
                visitor.visit_unit()
            }
            marker => reader.scalar(marker).and_then(|_| visitor.visit_unit()),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i128 u16 u128 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier
    }
}

/// The items of an array or an object.
struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    /// The marker of the items' type, if the container states one type for all items.
    marker: Option<u8>,
    /// The number of items left, if the container states a count. Otherwise `close` ends the items.
    left: Option<usize>,
    close: u8,
}

impl<'de> Items<'_, 'de> {
    #[inline]
    fn has_next(&mut self) -> Result<bool, DecodeError> {
        match &mut self.left {
            Some(0) => return Ok(false),
            Some(left) => *left -= 1,
            None if self.reader.peek() == Some(self.close) => {
                self.reader.at += 1;
                // The next call must not read past the closing bracket.
                self.left = Some(0);
                return Ok(false);
            }
            None => {}
        }
        Ok(true)
    }

    fn item<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DecodeError> {
        let marker = match self.marker {
            Some(marker) => marker,
            None => self.reader.marker()?,
        };
        seed.deserialize(Value { reader: self.reader, marker })
    }
}

impl<'de> de::SeqAccess<'de> for Items<'_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        if self.has_next()? { self.item(seed).map(Some) } else { Ok(None) }
    }

    fn size_hint(&self) -> Option<usize> {
        self.left
    }
}

impl<'de> de::MapAccess<'de> for Items<'_, 'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        if !self.has_next()? {
            return Ok(None);
        }
        // A name in an object is a string without a marker.
        seed.deserialize(Value { reader: self.reader, marker: b'S' }).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        self.item(seed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::IgnoredAny;

    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, DecodeError> {
        let mut reader = Reader::new(bytes, 100);
        let value = T::deserialize(reader.value()?)?;
        reader.finish().map(|()| value)
    }

    #[test]
    fn arrays_with_and_without_type_and_count() {
        let expected = Some(vec![1, -2, 3]);
        assert_eq!(read::<Vec<i32>>(b"[i\x01i\xfei\x03]").ok(), expected);
        assert_eq!(read::<Vec<i32>>(b"[#i\x03U\x01I\xff\xfel\0\0\0\x03").ok(), expected);
        assert_eq!(read::<Vec<i32>>(b"[$i#U\x03\x01\xfe\x03").ok(), expected);
        assert_eq!(read::<Vec<i32>>(b"N[N$I#U\x03\0\x01\xff\xfe\0\x03N").ok(), expected);
        assert_eq!(read::<Vec<i32>>(b"[$l#U\x01\x80\0\0\0").ok(), Some(vec![i32::MIN]));
        assert_eq!(read::<Vec<f32>>(b"[$d#U\x02\x3f\0\0\0\x7f\x80\0\0").ok(), Some(vec![0.5, f32::INFINITY]));
        assert_eq!(read::<Vec<f32>>(b"[D\x3f\xe0\0\0\0\0\0\0Su\0]").ok(), None);
        assert_eq!(
            read::<Vec<f32>>(b"[D\x3f\xe0\0\0\0\0\0\0SU\x032.5i\x07]").ok(),
            Some(vec![0.5, 2.5, 7.0])
        );
        let strings = Some(vec!["ab".to_owned(), String::new()]);
        assert_eq!(read::<Vec<String>>(b"[$S#U\x02U\x02abU\0").ok(), strings);
        assert_eq!(read::<Vec<u8>>(b"[$l#U\x01\0\0\x01\0").ok(), None);
    }

    #[test]
    fn objects_with_and_without_count() {
        let expected = Some(BTreeMap::from([("a".to_owned(), 1), ("bc".to_owned(), 2)]));
        assert_eq!(read::<BTreeMap<String, i32>>(b"{U\x01ai\x01I\0\x02bci\x02}").ok(), expected);
        assert_eq!(read::<BTreeMap<String, i32>>(b"{#U\x02U\x01ai\x01U\x02bci\x02").ok(), expected);
        assert_eq!(read::<BTreeMap<String, i32>>(b"{$i#U\x02U\x01a\x01U\x02bc\x02").ok(), expected);
    }

    #[test]
    fn any_value_is_passed_over() {
        let values: [&[u8]; 9] = [
            b"Z",
            b"T",
            b"[]",
            b"{}",
            b"SU\x03abc",
            b"[$d#U\x02\0\0\0\0\0\0\0\0",
            b"[$S#U\x01U\x02ab",
            b"[[#U\x00[{U\x01aC\x01}]]",
            b"L\0\0\0\0\0\0\0\x01",
        ];
        for value in values {
            assert!(read::<IgnoredAny>(value).is_ok(), "{value:?}");
            for end in 0..value.len() {
                assert!(read::<IgnoredAny>(&value[..end]).is_err(), "{value:?} cut at {end}");
            }
        }
    }

    #[test]
    fn null_is_none() {
        assert_eq!(read::<Option<i32>>(b"Z").ok(), Some(None));
        assert_eq!(read::<Option<i32>>(b"i\x05").ok(), Some(Some(5)));
    }
}
