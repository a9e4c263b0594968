//! Reads UBJSON (draft 12) as XGBoost writes it.
//!
//! Every value begins with a marker byte, and numbers are big-endian. An array or an object may state its
//! count (`#`) and its items' type (`$`) up front. The reader checks a count against the bytes that are left
//! before it trusts it.

use std::borrow::Cow;

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

    /// Enters an array or an object, whose marker has been read.
    fn enter(&mut self, marker: u8) -> Result<Items<'_, 'de>, DecodeError> {
        if self.nesting == MAX_NESTING {
            return Err(self.error(format!("values nest more than {MAX_NESTING} deep")));
        }
        self.nesting += 1;
        self.header(if marker == b'{' { b'}' } else { b']' })
    }

    /// Skips a value whose marker has been read. Skips an array of numbers in one step.
    fn skip(&mut self, marker: u8) -> Result<(), DecodeError> {
        match marker {
            b'[' | b'{' => {
                let mut items = self.enter(marker)?;
                if let (b'[', Some(width), Some(left)) =
                    (marker, items.marker.and_then(width_of_number), items.left)
                {
                    // `header` has checked that the file has this many bytes left.
                    items.reader.take(left * width)?;
                    items.left = Some(0);
                }
                while items.has_next()? {
                    if marker == b'{' {
                        items.reader.skip(b'S')?;
                    }
                    let item = items.item()?;
                    item.skip()?;
                }
                items.leave()
            }
            b'S' => {
                let length = self.count(1)?;
                self.take(length).map(drop)
            }
            marker => self.scalar(marker).map(drop),
        }
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

/// Returns the number of bytes of a number of a stated type.
fn width_of_number(marker: u8) -> Option<usize> {
    width(marker).filter(|_| marker != b'S')
}

impl<'r, 'de> Value<'r, 'de> {
    pub(super) fn is_container(&self) -> bool {
        matches!(self.marker, b'{' | b'[')
    }

    pub(super) fn is_object(&self) -> bool {
        self.marker == b'{'
    }

    pub(super) fn is_null(&self) -> bool {
        self.marker == b'Z'
    }

    pub(super) fn is_i32(&self) -> bool {
        self.marker == b'l'
    }

    pub(super) fn is_u8(&self) -> bool {
        self.marker == b'U'
    }

    pub(super) fn is_f32(&self) -> bool {
        self.marker == b'd'
    }

    /// Reads a value that [is an `i32`](Self::is_i32).
    #[inline]
    pub(super) fn i32(&mut self) -> Result<i32, DecodeError> {
        self.reader.array().map(i32::from_be_bytes)
    }

    /// Reads a value that [is a `u8`](Self::is_u8).
    #[inline]
    pub(super) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.reader.array().map(u8::from_be_bytes)
    }

    /// Reads a value that [is an `f32`](Self::is_f32).
    #[inline]
    pub(super) fn f32(&mut self) -> Result<f32, DecodeError> {
        self.reader.array().map(f32::from_be_bytes)
    }

    /// Reads a value that is neither an array nor an object.
    pub(super) fn scalar(self) -> Result<Scalar<'de>, DecodeError> {
        self.reader.scalar(self.marker)
    }

    /// Enters an array or an object.
    pub(super) fn items(self) -> Result<Items<'r, 'de>, DecodeError> {
        self.reader.enter(self.marker)
    }

    /// Skips the value.
    pub(super) fn skip(self) -> Result<(), DecodeError> {
        self.reader.skip(self.marker)
    }

    /// Returns the offset of what follows the marker.
    pub(super) fn offset(&self) -> usize {
        self.reader.at
    }
}

/// The items of an array or an object.
pub(super) struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    /// The marker of the items' type, if the container states one type for all items.
    marker: Option<u8>,
    /// The number of items left, if the container states a count. Otherwise `close` ends the items.
    left: Option<usize>,
    close: u8,
}

impl<'de> Items<'_, 'de> {
    #[inline]
    pub(super) fn has_next(&mut self) -> Result<bool, DecodeError> {
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

    /// Returns the number of items left, if the container states it.
    pub(super) fn left(&self) -> Option<usize> {
        self.left
    }

    /// Returns the next item of an array, or the value of the name that was read last.
    #[inline]
    pub(super) fn item(&mut self) -> Result<Value<'_, 'de>, DecodeError> {
        let marker = match self.marker {
            Some(marker) => marker,
            None => self.reader.marker()?,
        };
        Ok(Value { reader: self.reader, marker })
    }

    /// Returns the next name of an object: a string without a marker.
    pub(super) fn name(&mut self) -> Value<'_, 'de> {
        Value { reader: self.reader, marker: b'S' }
    }

    /// Leaves the array or object. Its last item must have been read.
    pub(super) fn leave(mut self) -> Result<(), DecodeError> {
        if self.has_next()? {
            return Err(self.reader.error("an array or object with more items than its field takes"));
        }
        self.reader.nesting -= 1;
        Ok(())
    }

    /// Returns the name that begins at byte `at`.
    pub(super) fn name_at(&self, at: usize) -> Option<Cow<'de, str>> {
        let mut reader = Reader { at, ..Reader::new(self.reader.bytes, self.reader.longest_string) };
        reader.text().ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::IgnoredAny;

    use super::super::document;
    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, DecodeError> {
        let mut reader = Reader::new(bytes, 100);
        let value = T::deserialize(document::Value::Ubjson(reader.value()?))?;
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
    fn any_value_is_skipped() {
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
