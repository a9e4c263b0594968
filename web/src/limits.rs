//! How much a page takes: a tab has 4 GiB at most, and what does not fit ends it.

use fangorn::import::Limits;

use crate::error::{Error, Result};

/// Bytes of the largest file of a model.
pub const MODEL_BYTES: usize = 128 << 20;
/// Bytes of the largest file of rows.
pub const ROWS_BYTES: usize = 64 << 20;
/// The most values in all rows together.
pub const VALUES: usize = 1 << 24;
/// The most results of all rows together.
pub const RESULTS: usize = 1 << 24;

/// Refuses a file that is too large.
///
/// # Errors
/// The file has more bytes than `most`.
pub fn check_size(name: &str, bytes: usize, most: usize) -> Result<()> {
    match bytes <= most {
        true => Ok(()),
        false => Err(Error::file(
            name,
            format!(
                "the file has {bytes} bytes, the page takes up to {most}; use the command `fangorn` for it"
            ),
        )),
    }
}

/// Returns the bounds on what a model's file may ask for.
pub fn of_models() -> Limits {
    Limits { file_bytes: MODEL_BYTES as u64, memory_bytes: 512 << 20, features: 1 << 18, ..Limits::default() }
}
