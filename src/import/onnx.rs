//! ONNX graphs.

use super::{ErrorKind, ImportError, LoadOptions, Place};
use crate::Forest;

/// The forest that a file describes.
pub(super) fn forest(_bytes: &[u8], _options: &LoadOptions) -> Result<Forest, ImportError> {
    Err(ImportError::new(ErrorKind::Unsupported, Place::File, "this format is not read yet"))
}
