//! The formats of table files that have a schema.

use std::path::Path;

use crate::error::{Error, Result};
#[cfg(feature = "tables")]
use crate::standard_input::{is_arrow_stream, is_standard_input};

/// A format of tables with a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Parquet.
    Parquet,
    /// Arrow's IPC file or stream.
    Arrow,
}

impl TableFormat {
    /// Returns the format that a file's name stands for, or `None` if it is no format with a schema.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        match extension.as_str() {
            "parquet" | "pq" => Some(Self::Parquet),
            "arrow" | "feather" | "ipc" | "arrows" => Some(Self::Arrow),
            _ => None,
        }
    }

    /// Returns the format of rows, or `None` if they have no schema. Standard input is a stream of Arrow if it begins as
    /// one does.
    #[cfg(feature = "tables")]
    pub fn of_rows(path: &Path) -> Option<Self> {
        match is_standard_input(path) {
            true => is_arrow_stream().then_some(Self::Arrow),
            false => Self::of(path),
        }
    }
}

/// The endings of files whose columns have names, for messages.
pub const NAMED_TABLES: &str = if cfg!(feature = "tables") { ".csv, .parquet or .arrow" } else { ".csv" };

/// The endings of outputs, for messages.
pub const OUTPUTS: &str =
    if cfg!(feature = "tables") { ".npy, .csv, .parquet or .arrow" } else { ".npy or .csv" };

/// Checks that this build reads and writes the file's format.
///
/// # Errors
/// The file has a schema, and the build is without the feature `tables`.
pub fn require(path: &Path) -> Result<()> {
    match TableFormat::of(path) {
        Some(format) if !cfg!(feature = "tables") => {
            let remedy = "build fangorn with --features tables, or give .csv";
            Err(Error::file(path, format!("this build reads and writes no {format:?}; {remedy}")))
        }
        _ => Ok(()),
    }
}
