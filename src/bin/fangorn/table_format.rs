//! The formats of table files that have a schema.

use std::path::Path;

use crate::error::Result;

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
}

/// Checks that this build reads and writes the file's format.
///
/// # Errors
/// The file has a schema, and the build is without the feature `tables`.
#[cfg_attr(
    feature = "tables",
    allow(clippy::unnecessary_wraps, reason = "a build without tables refuses them")
)]
pub fn require(path: &Path) -> Result<()> {
    #[cfg(not(feature = "tables"))]
    if let Some(format) = TableFormat::of(path) {
        return Err(crate::error::Error::file(
            path,
            format!(
                "this build reads and writes no {format:?}; build fangorn with --features tables, or give .csv"
            ),
        ));
    }
    let _ = path;
    Ok(())
}
