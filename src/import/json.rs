//! Reads JSON as XGBoost writes it.
//!
//! It differs from a general JSON reader in three points. `NaN`, `Infinity` and `-Infinity` are numbers. A
//! number is rounded once, to the type that is asked for, so an `f32` never goes through `f64`. A number may
//! stand in a string.

use std::borrow::Cow;

use super::Location;
use super::decode::{DecodeError, MAX_NESTING, Scalar};

/// Reads values from a JSON text.
pub(super) struct Reader<'de> {
    bytes: &'de [u8],
    at: usize,
    nesting: u32,
    longest_string: usize,
}

/// Returns the line and column of a byte of the text.
pub(super) fn location(bytes: &[u8], offset: usize) -> Location {
    let before = &bytes[..offset.min(bytes.len())];
    let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1);
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    Location::Text { line, column: before.len() - line_start + 1 }
}

impl<'de> Reader<'de> {
    pub(super) fn new(bytes: &'de [u8], longest_string: usize) -> Self {
        Self { bytes, at: 0, nesting: 0, longest_string }
    }

    /// Returns a reader of the value that begins at byte `at`.
    pub(super) fn at(bytes: &'de [u8], at: usize, longest_string: usize) -> Self {
        Self { bytes, at, nesting: 0, longest_string }
    }

    /// Skips white space and returns the offset of the byte where the next value, name or bracket begins.
    pub(super) fn offset(&mut self) -> usize {
        self.peek();
        self.at
    }

    /// Enters an array or an object: reads its opening bracket, which must be next.
    pub(super) fn open(&mut self, bracket: u8) -> Result<(), DecodeError> {
        self.expect(bracket, if bracket == b'{' { "an object" } else { "an array" })
    }

    /// Moves to the next item of an array or an object. `first` tells that no item has been read yet. Returns
    /// `false` after the last item, and reads the closing bracket.
    pub(super) fn next_item(&mut self, close: u8, first: &mut bool) -> Result<bool, DecodeError> {
        match self.peek() {
            Some(byte) if byte == close => {
                self.at += 1;
                return Ok(false);
            }
            Some(_) if *first => {}
            _ => self.expect(b',', after(close))?,
        }
        *first = false;
        Ok(true)
    }

    /// Reads the name of an object's item, and the colon after it.
    pub(super) fn name(&mut self) -> Result<Cow<'de, str>, DecodeError> {
        let name = self.string()?;
        self.colon().map(|()| name)
    }

    /// Skips a value of any depth.
    pub(super) fn skip(&mut self) -> Result<(), DecodeError> {
        self.skip_within(usize::MAX)
    }

    /// Skips a value. It may nest only as deep as values that are read.
    pub(super) fn skip_shallow(&mut self) -> Result<(), DecodeError> {
        self.skip_within((MAX_NESTING - self.nesting) as usize)
    }

    /// Skips a value whose containers nest at most `depth` deep. Open brackets are kept in a vector, so there is
    /// no recursion.
    fn skip_within(&mut self, depth: usize) -> Result<(), DecodeError> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            let mut first = false;
            match self.peek_value()? {
                b'{' | b'[' if open.len() == depth => return Err(self.nests_too_deep()),
                bracket @ (b'{' | b'[') => {
                    self.at += 1;
                    open.push(if bracket == b'{' { b'}' } else { b']' });
                    first = true;
                }
                b'"' => drop(self.raw_string()?),
                _ => drop(self.scalar()?),
            }
            loop {
                let Some(close) = open.last().copied() else { return Ok(()) };
                if self.next_item(close, &mut first)? {
                    if close == b'}' {
                        self.raw_string()?;
                        self.expect(b':', "`:`")?;
                    }
                    break;
                }
                open.pop();
                first = false;
            }
        }
    }

    /// Checks that only white space follows.
    pub(super) fn finish(mut self) -> Result<(), DecodeError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("text after the end of the model")),
        }
    }

    fn error(&self, message: impl Into<String>) -> DecodeError {
        DecodeError::syntax(self.at, message)
    }

    fn nests_too_deep(&self) -> DecodeError {
        self.error(format!("values nest more than {MAX_NESTING} deep"))
    }

    /// Skips white space and returns the next byte, which stays unread.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn peek_value(&mut self) -> Result<u8, DecodeError> {
        self.peek().ok_or_else(|| self.error("the text ends where a value is expected"))
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), DecodeError> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(self.error(format!("expected {what}"))),
            None => Err(self.error(format!("the text ends where {what} is expected"))),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), DecodeError> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.error("expected a value"))
    }

    /// Reads a value that is neither an array nor an object.
    pub(super) fn scalar(&mut self) -> Result<Scalar<'de>, DecodeError> {
        match self.peek_value()? {
            b'"' => self.string().map(Scalar::Text),
            b'n' => self.word("null").map(|()| Scalar::Null),
            b't' => self.word("true").map(|()| Scalar::Bool(true)),
            b'f' => self.word("false").map(|()| Scalar::Bool(false)),
            _ => self.number().map(Scalar::Number),
        }
    }

    /// Reads a number and returns its text, which Rust's parsers read as JSON means it.
    fn number(&mut self) -> Result<&'de str, DecodeError> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') if self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit) => {
                return Err(self.error("a number begins with a 0 too many"));
            }
            Some(b'0'..=b'9') => self.digits_and_fraction()?,
            Some(b'I') => self.word("Infinity")?,
            Some(b'N') if self.at == start => self.word("NaN")?,
            Some(_) => return Err(self.error("expected a value")),
            None => return Err(self.error("the text ends inside a number")),
        }
        // The code above reads only ASCII, so the bytes are UTF-8.
        Ok(std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or("NaN"))
    }

    fn digits_and_fraction(&mut self) -> Result<(), DecodeError> {
        self.digits()?;
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), DecodeError> {
        let rest = &self.bytes[self.at..];
        let count = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        if count == 0 {
            return Err(self.error("expected a digit"));
        }
        self.at += count;
        Ok(())
    }

    /// Reads a string. Returns its raw text, and whether the text contains escapes.
    fn raw_string(&mut self) -> Result<(&'de [u8], bool), DecodeError> {
        self.expect(b'"', "a string")?;
        let start = self.at;
        let mut escaped = false;
        loop {
            let rest = &self.bytes[self.at..];
            let stop = rest.iter().position(|b| matches!(b, b'"' | b'\\') || *b < 0x20);
            self.at += stop.unwrap_or(rest.len());
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at = (self.at + 2).min(self.bytes.len());
                }
                Some(_) => return Err(self.error("a control character stands in a string")),
                None => return Err(self.error("the text ends inside a string")),
            }
        }
        let raw = &self.bytes[start..self.at];
        self.at += 1;
        Ok((raw, escaped))
    }

    fn string(&mut self) -> Result<Cow<'de, str>, DecodeError> {
        let start = self.at;
        let (raw, escaped) = self.raw_string()?;
        let fail = |message: String| DecodeError::syntax(start, message);
        if raw.len() > self.longest_string {
            let limit = self.longest_string;
            return Err(fail(format!("a string of {} bytes, over the limit of {limit}", raw.len())));
        }
        let text = std::str::from_utf8(raw).map_err(|_| fail("a string that is not UTF-8".into()))?;
        if !escaped {
            return Ok(Cow::Borrowed(text));
        }
        unescape(text).map(Cow::Owned).ok_or_else(|| fail("a string with an unknown escape".into()))
    }

    fn enter(&mut self) -> Result<(), DecodeError> {
        if self.nesting == MAX_NESTING {
            return Err(self.nests_too_deep());
        }
        self.nesting += 1;
        self.at += 1;
        Ok(())
    }

    /// Enters the array or object that is next. Returns its items, and whether it is an object.
    pub(super) fn items(&mut self) -> Result<(Items<'_, 'de>, bool), DecodeError> {
        let is_object = self.peek_value()? == b'{';
        self.enter()?;
        let close = if is_object { b'}' } else { b']' };
        Ok((Items { reader: self, close, first: true }, is_object))
    }

    pub(super) fn is_at_container(&mut self) -> Result<bool, DecodeError> {
        Ok(matches!(self.peek_value()?, b'{' | b'['))
    }

    /// Returns whether a `null` is next, and reads it.
    pub(super) fn takes_null(&mut self) -> Result<bool, DecodeError> {
        if self.peek_value()? != b'n' {
            return Ok(false);
        }
        self.word("null").map(|()| true)
    }

    /// Returns the offset of the name that is next.
    pub(super) fn name_offset(&mut self) -> Result<usize, DecodeError> {
        match self.peek() {
            Some(b'"') => Ok(self.at),
            _ => Err(self.error("expected a name in quotes")),
        }
    }

    /// Reads the colon after a name.
    pub(super) fn colon(&mut self) -> Result<(), DecodeError> {
        self.expect(b':', "`:`")
    }
}

/// Replaces the escapes in a string by their characters. Returns `None` for an unknown escape.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let escape = *rest.as_bytes().get(at + 1)?;
        // A known escape is ASCII, so a character begins after it.
        let mut after = rest.get(at + 2..)?;
        out.push(match escape {
            b'"' | b'\\' | b'/' => char::from(escape),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => unicode(&mut after)?,
            _ => return None,
        });
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// Reads the digits of a `\u` escape from `text` and returns its character. A pair of surrogates is one
/// character.
fn unicode(text: &mut &str) -> Option<char> {
    let high = hex(text)?;
    if !(0xD800..0xDC00).contains(&high) {
        return char::from_u32(high);
    }
    *text = text.strip_prefix("\\u")?;
    let low = hex(text)?.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
    char::from_u32(0x10000 + ((high - 0xD800) << 10) + low)
}

fn hex(text: &mut &str) -> Option<u32> {
    let digits = text.get(..4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
    *text = &text[4..];
    u32::from_str_radix(digits, 16).ok()
}

/// The items of an array or an object.
pub(super) struct Items<'r, 'de> {
    reader: &'r mut Reader<'de>,
    close: u8,
    first: bool,
}

impl<'de> Items<'_, 'de> {
    /// Moves to the next item. Returns `false` at the closing bracket, which stays unread.
    pub(super) fn has_next(&mut self) -> Result<bool, DecodeError> {
        match self.reader.peek() {
            Some(byte) if byte == self.close => return Ok(false),
            Some(_) if self.first => {}
            _ => self.reader.expect(b',', after(self.close))?,
        }
        self.first = false;
        Ok(true)
    }

    pub(super) fn reader(&mut self) -> &mut Reader<'de> {
        self.reader
    }

    /// Reads the closing bracket.
    pub(super) fn leave(self) -> Result<(), DecodeError> {
        self.reader.expect(self.close, after(self.close))?;
        self.reader.nesting -= 1;
        Ok(())
    }

    /// Returns the name that begins at byte `at`.
    pub(super) fn name_at(&self, at: usize) -> Option<Cow<'de, str>> {
        Reader::at(self.reader.bytes, at, self.reader.longest_string).string().ok()
    }
}

/// Says what comes after an item.
fn after(close: u8) -> &'static str {
    if close == b'}' { "`,` or `}`" } else { "`,` or `]`" }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde::de::IgnoredAny;

    use super::super::document::{NestedValue, Value};
    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, DecodeError> {
        let mut reader = Reader::new(text.as_bytes(), 100);
        let value = T::deserialize(Value::Json(&mut reader))?;
        reader.finish().map(|()| value)
    }

    #[test]
    fn a_number_is_rounded_once() {
        // This number is just below the midpoint of two adjacent f32. Rounded to f64 first, it would become
        // the midpoint, and then the even f32 above.
        let text = "1.00000017881393432617187499";
        assert_eq!(read::<f32>(text).ok(), Some(f32::from_bits(0x3f80_0001)));
        assert_eq!(text.parse::<f64>().map(|wide| wide as f32), Ok(f32::from_bits(0x3f80_0002)));
        let texts =
            ["0", "-0", "16777217", "1e-45", "7e-46", "3.4028235E38", "1E39", "-2.5e+1", "123456789.125"];
        for text in texts {
            let expected = text.parse::<f32>().map(f32::to_bits);
            assert_eq!(read::<f32>(text).map(f32::to_bits).ok(), expected.ok(), "{text}");
        }
    }

    #[test]
    fn numbers_that_json_lacks_and_numbers_in_strings() {
        let values: Vec<f32> = read("[NaN, Infinity, -Infinity, \"0.5\", \" -Infinity \"]").expect("numbers");
        assert!(values[0].is_nan());
        assert_eq!(values[1..], [f32::INFINITY, f32::NEG_INFINITY, 0.5, f32::NEG_INFINITY]);
        assert_eq!(read::<Vec<i32>>("[\"-7\", true, false, 12]").ok(), Some(vec![-7, 1, 0, 12]));
        for text in ["-NaN", "+1", "nan", "inf", "1.", ".5", "0x1", "1e", "--1", "01", "-00.5", "Infinit"] {
            assert!(read::<f32>(text).is_err(), "{text}");
        }
        assert!(read::<i32>("1.5").is_err());
        assert!(read::<i64>("9223372036854775808").is_err());
    }

    #[test]
    fn strings_are_decoded() {
        let decoded = |text: &str| read::<String>(text).ok();
        assert_eq!(decoded(r#""a\"\\\/\b\f\n\r\t""#).as_deref(), Some("a\"\\/\u{8}\u{c}\n\r\t"));
        assert_eq!(decoded(r#""\u00e9\ud83c\udf32\u6728""#).as_deref(), Some("é🌲木"));
        for text in [
            r#""\x""#,
            r#""\u12""#,
            r#""\ud83c""#,
            r#""\ud83c\u0041""#,
            r#""\udf32""#,
            r#""\u+123""#,
            "\"\\é\"",
        ] {
            assert_eq!(decoded(text), None, "{text}");
        }
        assert!(read::<String>(&format!("\"{}\"", "a".repeat(101))).is_err());
    }

    #[test]
    fn containers_nest_and_are_skipped() {
        let text = r#" { "a" : [ 1 , 2 ] , "b" : [ ] , "c" : { } } "#;
        let map: BTreeMap<String, serde_json::Value> = read(text).expect("an object");
        assert_eq!(serde_json::to_string(&map).ok().as_deref(), Some(r#"{"a":[1,2],"b":[],"c":{}}"#));
        assert!(read::<IgnoredAny>(r#"[{"a": "x\"]", "b": [NaN, -1.5e-7, null, true]}, "\\"]"#).is_ok());
        for text in [
            "[1 2]",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":1,}",
            "[1}",
            "[01.]",
            "[\"",
            "[nul]",
            "1 2",
            "[{} 1]",
        ] {
            assert!(read::<IgnoredAny>(text).is_err(), "{text}");
            assert!(read::<NestedValue>(text).is_err(), "{text}");
        }
        let deep: BTreeMap<String, NestedValue> = read(text).expect("an object");
        assert_eq!(deep.values().map(|value| value.start).collect::<Vec<_>>(), [9, 27, 39]);
        assert!(read::<NestedValue>(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000))).is_ok());
    }

    #[test]
    fn locations_count_lines_and_columns_from_one() {
        assert_eq!(location(b"ab\ncd", 0), Location::Text { line: 1, column: 1 });
        assert_eq!(location(b"ab\ncd", 4), Location::Text { line: 2, column: 2 });
        assert_eq!(location(b"ab\ncd", 99), Location::Text { line: 2, column: 3 });
    }
}
