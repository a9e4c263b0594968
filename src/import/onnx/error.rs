//! The errors of an ONNX file.

use super::super::{ErrorKind, ImportError, Location};

/// The remedy for a damaged file.
pub(super) const CONVERT_AGAIN: &str = "the file is damaged or incomplete: convert the model to ONNX again";

/// Returns an error at a field of the file.
pub(super) fn at(kind: ErrorKind, path: impl Into<String>, cause: impl AsRef<str>) -> ImportError {
    ImportError::new(kind, Location::Field(path.into()), cause).with_remedy(CONVERT_AGAIN)
}
