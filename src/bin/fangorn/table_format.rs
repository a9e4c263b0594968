//! The formats of table files that have a schema.

use std::path::Path;

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
