//! The crate's error: a message of one line, in the style of the library and the command line.

use std::fmt;

use wasm_bindgen::JsError;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with a file or a request.
#[derive(Clone, Debug)]
pub struct Error(String);

impl Error {
    /// Says what is wrong with a file.
    pub fn file(name: &str, what: impl fmt::Display) -> Self {
        Self(format!("{name}: {what}"))
    }

    /// Says what is wrong with a request.
    pub fn request(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<fangorn::Error> for Error {
    fn from(error: fangorn::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<Error> for JsError {
    fn from(error: Error) -> Self {
        Self::new(&error.0)
    }
}
