//! The crate's error. A message says what is wrong, where, and what to do about it.

use std::path::PathBuf;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a file can't be cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A graph that can't be cut.
    #[error("{}: {what}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// The location in the file, the cause and the remedy.
        what: String,
    },
}
