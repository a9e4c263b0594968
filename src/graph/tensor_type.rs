//! The type and the shape of a tensor, as far as they are known without running a graph.

use super::tensor::{Dtype, Tensor};

/// The type of a tensor's elements, and what is known of its shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The type of its elements.
    pub dtype: Dtype,
    /// The lengths of its dimensions, or `None` if their number is not known. A length is `None` if it depends
    /// on the rows.
    pub shape: Option<Vec<Option<usize>>>,
}

impl TensorType {
    /// Returns the type of a tensor.
    pub fn of(tensor: &Tensor) -> Self {
        let shape = tensor.shape().iter().map(|length| Some(*length)).collect();
        Self { dtype: tensor.dtype(), shape: Some(shape) }
    }

    pub(super) fn new(dtype: Dtype, shape: Option<Vec<Option<usize>>>) -> Self {
        Self { dtype, shape }
    }

    /// Returns the length of the last dimension, if it is known.
    pub fn width(&self) -> Option<usize> {
        self.shape.as_ref()?.last().copied().flatten()
    }

    /// Returns the number of elements, or `None` if a length depends on the rows.
    pub(super) fn count(&self) -> Option<usize> {
        product_of(self.shape.as_ref()?.iter().copied())
    }

    /// Returns the number of dimensions, if it is known.
    pub fn dimensions(&self) -> Option<usize> {
        self.shape.as_ref().map(Vec::len)
    }
}

/// Returns the product of lengths, or `None` if one is not known or the product overflows.
pub(super) fn product_of(mut lengths: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    lengths.try_fold(1usize, |product, length| product.checked_mul(length?))
}
