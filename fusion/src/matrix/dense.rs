//! Matrices with all their elements.

use crate::dag::Shape;

/// A matrix with all its elements, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseMatrix {
    shape: Shape,
    values: Vec<f64>,
}

impl DenseMatrix {
    /// Makes a matrix of row-major elements. Returns `None` if the shape has another number of elements.
    pub fn new(shape: Shape, values: Vec<f64>) -> Option<Self> {
        (shape.0.checked_mul(shape.1)? == values.len()).then_some(Self { shape, values })
    }

    /// Returns the number of rows and of columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the elements, row-major.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the elements of a row.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.shape.1..][..self.shape.1]
    }
}
