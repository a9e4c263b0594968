//! The largest files, rows and results of a page: a tab has at most 4 GiB, and it ends if they don't suffice.

use fangorn::import::Limits;

use crate::error::{Error, Result};

/// The size of the largest file of a model, in bytes.
pub const MODEL_BYTES: usize = 128 << 20;
/// The size of the largest file of rows, in bytes.
pub const ROWS_BYTES: usize = 64 << 20;
/// The maximum number of values in all rows together.
pub const VALUES: usize = 1 << 24;
/// The maximum number of results of all rows together.
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
                "the file has {bytes} bytes, but the page takes up to {most}; use the command `fangorn` for it"
            ),
        )),
    }
}

/// Returns the limits for reading a model's file.
pub fn of_models() -> Limits {
    Limits { file_bytes: MODEL_BYTES as u64, memory_bytes: 512 << 20, features: 1 << 18, ..Limits::default() }
}
