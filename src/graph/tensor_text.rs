//! The text of tensors and their types.

use std::fmt;

use super::{
    tensor::{Elements, Tensor},
    tensor_type::TensorType,
};

/// Writes a shape; `rows` stands for a length that may differ from batch to batch.
pub(super) fn shape(lengths: impl IntoIterator<Item = Option<usize>>) -> String {
    let text = |length: Option<usize>| length.map_or("rows".to_owned(), |length| length.to_string());
    let all: Vec<_> = lengths.into_iter().map(text).collect();
    format!("[{}]", all.join(", "))
}

/// Writes elements as a list.
pub(super) fn list(elements: &Elements) -> String {
    match elements {
        Elements::Bool(values) => format!("{values:?}"),
        Elements::I32(values) => format!("{values:?}"),
        Elements::I64(values) => format!("{values:?}"),
        Elements::F32(values) => format!("{values:?}"),
        Elements::F64(values) => format!("{values:?}"),
        Elements::Text(values) => format!("{values:?}"),
    }
}

/// Writes elements with their type.
pub(super) fn typed(elements: &Elements) -> String {
    format!("{}{}", elements.dtype(), list(elements))
}

/// Writes the type of the elements, and the shape if the number of dimensions is known.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = self.shape.as_ref().map(|lengths| shape(lengths.iter().copied()));
        write!(f, "{}{}", self.dtype, lengths.unwrap_or_default())
    }
}

/// Returns a tensor's text, for messages and tests.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lengths = shape(self.shape().iter().map(|length| Some(*length)));
        write!(f, "{}{lengths} = {}", self.dtype(), list(self.elements()))
    }
}
