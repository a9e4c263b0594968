//! The error of an import: one line with the file, the location in it, the cause and the remedy.

use std::fmt;
use std::path::{Path, PathBuf};

/// The default remedy for a damaged file. It suits XGBoost, and importers of other formats replace it.
pub(super) const SAVE_AGAIN: &str =
    "the file is damaged or incomplete: save the model again with Booster.save_model('model.ubj')";

/// Returns an error at a field of a file, by the format's own name for the field.
pub(super) fn at(kind: ErrorKind, path: impl Into<String>, cause: impl AsRef<str>) -> ImportError {
    ImportError::new(kind, Location::Field(path.into()), cause)
}

/// Longest text that a message takes from a file, in characters.
const LONGEST_TEXT: usize = 240;

/// The kind of an import's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is in no format that can be read.
    Format,
    /// The bytes break the rules of their encoding, or end too soon.
    Syntax,
    /// A field is missing or has the wrong type.
    Schema,
    /// A number is out of its range, for example a feature, a class, a threshold or a leaf value.
    Value,
    /// The nodes of a tree form no tree, or the fields of the model do not fit each other.
    Structure,
    /// The model asks for more than the [`Limits`](super::Limits) allow.
    Limit,
    /// The model is sound, but uses something that is not supported.
    Unsupported,
    /// The load options do not fit the model.
    Options,
}

impl ErrorKind {
    fn remedy(self) -> &'static str {
        match self {
            Self::Format | Self::Syntax | Self::Schema | Self::Value | Self::Structure => SAVE_AGAIN,
            Self::Limit => "raise the limit if you trust the file",
            Self::Unsupported => "train the model with a supported setting",
            Self::Options => "change the load options",
        }
    }
}

/// The location in a model file where something is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Location {
    /// The file as a whole.
    File,
    /// The offset of a byte in a binary file, counted from 0.
    Byte(usize),
    /// A location in a text file.
    Text {
        /// Line, counted from 1.
        line: usize,
        /// Byte in the line, counted from 1.
        column: usize,
    },
    /// The path of a field, for example `learner.gradient_booster.model.trees[3].left_children[7]`.
    Field(String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("model"),
            Self::Byte(at) => write!(f, "byte {at}"),
            Self::Text { line, column } => write!(f, "line {line}, column {column}"),
            Self::Field(path) => f.write_str(path),
        }
    }
}

/// Why a model can't be read: one line that names the location, the cause and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(Box<Report>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    file: Option<PathBuf>,
    location: Location,
    kind: ErrorKind,
    cause: String,
    remedy: String,
    /// The name of the field of `Limits` that the file exceeds, if it exceeds one.
    limit: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", one_line(&file.to_string_lossy(), usize::MAX))?;
        }
        write!(f, "{}: {}; {}", self.location, self.cause, self.remedy)
    }
}

impl ImportError {
    pub(super) fn new(kind: ErrorKind, location: Location, cause: impl AsRef<str>) -> Self {
        let location = match location {
            Location::Field(path) => Location::Field(one_line(&path, LONGEST_TEXT)),
            other => other,
        };
        let cause = one_line(cause.as_ref(), LONGEST_TEXT);
        Self(Box::new(Report {
            file: None,
            location,
            kind,
            cause,
            remedy: kind.remedy().into(),
            limit: None,
        }))
    }

    pub(super) fn limit(location: Location, cause: impl AsRef<str>, field: &str) -> Self {
        Self::new(ErrorKind::Limit, location, cause).with_limit(field)
    }

    /// Records the field of [`Limits`](super::Limits) that the file exceeds, and sets the remedy to raise
    /// that field.
    pub(super) fn with_limit(mut self, field: &str) -> Self {
        self.0.limit = Some(field.into());
        self.with_remedy(format!("raise `Limits::{field}` if you trust the file"))
    }

    pub(super) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = remedy.into();
        self
    }

    pub(super) fn in_file(mut self, path: &Path) -> Self {
        self.0.file = Some(path.to_path_buf());
        self
    }

    /// Returns the path of the model's file, or `None` if the model was read from bytes.
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// Returns the location in the file.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns what is wrong at the location.
    pub fn cause(&self) -> &str {
        &self.0.cause
    }

    /// Returns the name of the field of [`Limits`](super::Limits) that the file exceeds, for example
    /// `file_bytes`.
    pub fn limit_name(&self) -> Option<&str> {
        self.0.limit.as_deref()
    }

    /// Returns what the user can do about the error.
    pub fn remedy(&self) -> &str {
        &self.0.remedy
    }
}

/// Returns whether `c` disturbs a line on a terminal although it is no control character: a line or paragraph
/// separator, a mark of text direction, or a character without width.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns `text` with control characters and invisible ones escaped, cut after `longest` characters.
fn one_line(text: &str, longest: usize) -> String {
    let mut line = String::with_capacity(text.len().min(longest));
    for (i, c) in text.chars().enumerate() {
        if i == longest {
            line.push('…');
            break;
        }
        match c {
            _ if is_invisible(c) => line.extend(c.escape_unicode()),
            _ if c.is_control() => line.extend(c.escape_default()),
            _ => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_not_show_is_spelled_out() {
        let line = one_line("a\u{202e}b\u{1b}[31m\u{feff}c\nd\u{2028}e", 100);
        assert_eq!(line, "a\\u{202e}b\\u{1b}[31m\\u{feff}c\\nd\\u{2028}e");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }
}
