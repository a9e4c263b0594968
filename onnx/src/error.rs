//! The crate's error: what is wrong, where, and what to do about it.

use std::path::PathBuf;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file can't be cut.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file that can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A graph that can't be cut: its message has the place, the cause and the remedy.
    #[error("{}: {what}", path.display())]
    Graph {
        /// The file.
        path: PathBuf,
        /// The place in it, the cause and the remedy.
        what: String,
    },
}
