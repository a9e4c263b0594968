//! The lines of a LightGBM file, the fields on them, and the lists of numbers in the fields, each with its
//! location.

use std::str::FromStr;

use super::super::{ErrorKind, ImportError, Location};
use super::{ENDS, damaged};

/// The lines of a file, without the `\n` or `\r\n` that ends them.
pub(super) struct Lines<'f> {
    rest: &'f [u8],
    number: usize,
}

/// One line of a file.
#[derive(Clone, Copy)]
pub(super) struct Line<'f> {
    /// The line's number, counted from 1.
    pub number: usize,
    pub text: &'f [u8],
}

impl<'f> Lines<'f> {
    pub(super) fn of(file: &'f [u8]) -> Self {
        Self { rest: file, number: 0 }
    }

    /// Returns the error of a file that ends too soon.
    pub(super) fn cut(&self) -> ImportError {
        let location = Location::Text { line: self.number.max(1), column: 1 };
        damaged(ErrorKind::Syntax, location, "the file ends before `end of trees`")
    }
}

impl<'f> Iterator for Lines<'f> {
    type Item = Line<'f>;

    fn next(&mut self) -> Option<Line<'f>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|b| *b == b'\n');
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.get(1..).unwrap_or_default();
        self.number += 1;
        Some(Line { number: self.number, text: text.strip_suffix(b"\r").unwrap_or(text) })
    }
}

impl<'f> Line<'f> {
    pub(super) fn is_blank(&self) -> bool {
        self.text.trim_ascii().is_empty()
    }

    pub(super) fn error(&self, kind: ErrorKind, cause: impl AsRef<str>) -> ImportError {
        damaged(kind, Location::Text { line: self.number, column: 1 }, cause)
    }

    /// Returns at most 80 bytes of the line for messages, with bytes that are not UTF-8 replaced.
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.text[..self.text.len().min(80)]).into_owned()
    }

    /// Splits the line at the first `=` into a field's name and value. Without a `=` the value is empty.
    fn split(self) -> (&'f [u8], Value<'f>) {
        let equals = self.text.iter().position(|b| *b == b'=').unwrap_or(self.text.len());
        let (name, value) = self.text.split_at(equals);
        let column = (equals + 2).min(self.text.len() + 1);
        (name, Value { line: self.number, column, text: value.get(1..).unwrap_or_default() })
    }
}

/// The value of a field, with its location.
#[derive(Clone, Copy)]
pub(super) struct Value<'f> {
    line: usize,
    column: usize,
    pub text: &'f [u8],
}

impl<'f> Value<'f> {
    pub(super) fn location(&self) -> Location {
        Location::Text { line: self.line, column: self.column }
    }

    pub(super) fn error(&self, kind: ErrorKind, cause: impl AsRef<str>) -> ImportError {
        damaged(kind, self.location(), cause)
    }

    /// Returns the words of the value, which spaces separate.
    pub(super) fn words(self) -> ValueWords<'f> {
        ValueWords { value: self, at: 0 }
    }

    /// Returns the value as text.
    pub(super) fn str(&self) -> Result<&'f str, ImportError> {
        std::str::from_utf8(self.text).map_err(|_| self.error(ErrorKind::Syntax, "text that is not UTF-8"))
    }

    /// Parses the value as a number.
    pub(super) fn number<T: FromStr>(&self) -> Result<T, ImportError> {
        std::str::from_utf8(self.text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let shown = String::from_utf8_lossy(&self.text[..self.text.len().min(40)]);
            let what = std::any::type_name::<T>();
            self.error(ErrorKind::Syntax, format!("`{shown}`, but a number ({what}) is expected"))
        })
    }
}

/// The words of a value, each with its own location.
pub(super) struct ValueWords<'f> {
    value: Value<'f>,
    at: usize,
}

impl<'f> Iterator for ValueWords<'f> {
    type Item = Value<'f>;

    fn next(&mut self) -> Option<Value<'f>> {
        let Value { line, column, text } = self.value;
        let start = self.at + text[self.at..].iter().position(|b| *b != b' ')?;
        let end = text[start..].iter().position(|b| *b == b' ').map_or(text.len(), |length| start + length);
        self.at = end;
        Some(Value { line, column: column + start, text: &text[start..end] })
    }
}

/// The named fields of a header or a tree.
pub(super) struct Fields<'f> {
    /// Names of the fields that the importer reads.
    read: &'static [&'static str],
    /// Names of the fields that the importer ignores.
    ignored: &'static [&'static str],
    found: Vec<Option<Value<'f>>>,
    /// The line at which the fields begin.
    line: Line<'f>,
}

impl<'f> Fields<'f> {
    pub(super) fn new(
        line: Line<'f>,
        read: &'static [&'static str],
        ignored: &'static [&'static str],
    ) -> Self {
        Self { read, ignored, found: vec![None; read.len()], line }
    }

    /// Reads fields up to a line that begins a tree or ends the trees. Returns that line.
    pub(super) fn fill(&mut self, lines: &mut Lines<'f>) -> Result<Line<'f>, ImportError> {
        while let Some(line) = lines.next() {
            if line.text.starts_with(b"Tree=") || ENDS.contains(&line.text) {
                return Ok(line);
            }
            // The file ends without a line that ends the trees. Its last line may be cut, so it is not read.
            if lines.rest.is_empty() {
                break;
            }
            if !line.is_blank() {
                self.take(line)?;
            }
        }
        Err(lines.cut())
    }

    /// Reads the field on a line. Refuses a field with an unknown name, since it may change what other fields
    /// mean.
    pub(super) fn take(&mut self, line: Line<'f>) -> Result<(), ImportError> {
        let (name, value) = line.split();
        let Some(i) = self.read.iter().position(|n| n.as_bytes() == name) else {
            if self.ignored.iter().any(|n| n.as_bytes() == name) {
                return Ok(());
            }
            return Err(
                line.error(ErrorKind::Syntax, format!("no line of a known field: `{}`", line.shown()))
            );
        };
        match self.found[i].replace(value) {
            None => Ok(()),
            Some(_) => {
                Err(line.error(ErrorKind::Structure, format!("`{}` is stated a second time", self.read[i])))
            }
        }
    }

    /// Returns the location at which the fields begin.
    pub(super) fn location(&self) -> Location {
        Location::Text { line: self.line.number, column: 1 }
    }

    /// Returns the value of a field, or `None` if the field is missing.
    pub(super) fn get(&self, name: &str) -> Option<Value<'f>> {
        self.read.iter().position(|n| *n == name).and_then(|i| self.found[i])
    }

    /// Returns the value of a field that must not be missing.
    pub(super) fn need(&self, name: &str) -> Result<Value<'f>, ImportError> {
        self.get(name).ok_or_else(|| {
            self.line.error(ErrorKind::Schema, format!("missing field `{name}` in `{}`", self.line.shown()))
        })
    }

    /// Returns the list in a field, which must hold `expected` numbers.
    pub(super) fn list(&self, name: &str, expected: usize) -> Result<List<'f>, ImportError> {
        let value = self.need(name)?;
        match value.words().count() {
            count if count == expected => Ok(List(value.words())),
            count => {
                let cause = format!("{count} values of `{name}`, expected {expected}");
                Err(value.error(ErrorKind::Structure, cause))
            }
        }
    }
}

/// A list of numbers, read one by one. [`Fields::list`] has checked its length.
pub(super) struct List<'f>(ValueWords<'f>);

impl<'f> List<'f> {
    /// Reads the next number. Returns the number and its location.
    pub(super) fn next<T: FromStr>(&mut self) -> Result<(T, Value<'f>), ImportError> {
        let ends = self.0.value;
        let word = self.0.next().ok_or_else(|| ends.error(ErrorKind::Structure, "the list ends too soon"))?;
        word.number().map(|number| (number, word))
    }
}
