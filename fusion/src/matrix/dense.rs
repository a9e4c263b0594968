//! Matrices with all their elements.

use std::{fmt, sync::Arc};

use crate::dag::Shape;

/// A matrix with all its elements, row-major. They may stand in memory that something else owns, a tensor for example.
#[derive(Clone)]
pub struct DenseMatrix {
    shape: Shape,
    values: Values,
}

#[derive(Clone)]
enum Values {
    Own(Vec<f64>),
    Shared(Arc<dyn AsRef<[f64]> + Send + Sync>),
}

impl DenseMatrix {
    /// Makes a matrix of row-major elements. Returns `None` if the shape has another number of elements.
    pub fn new(shape: Shape, values: Vec<f64>) -> Option<Self> {
        (shape.0.checked_mul(shape.1)? == values.len()).then_some(Self { shape, values: Values::Own(values) })
    }

    /// Makes a matrix of row-major elements and what owns them, which must return the same elements each time. Returns
    /// `None` if the shape has another number of elements.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use fangorn_fusion::DenseMatrix;
    ///
    /// let owner = Arc::new(vec![1.0, 2.0, 3.0, 4.0]);
    /// let matrix = DenseMatrix::shared((2, 2), owner.clone()).expect("four elements");
    /// assert_eq!(matrix.row(1), [3.0, 4.0]);
    /// assert_eq!(matrix.values().as_ptr(), owner.as_ptr());
    /// ```
    pub fn shared(shape: Shape, owner: Arc<dyn AsRef<[f64]> + Send + Sync>) -> Option<Self> {
        let fits = shape.0.checked_mul(shape.1)? == (*owner).as_ref().len();
        fits.then_some(Self { shape, values: Values::Shared(owner) })
    }

    /// Returns the number of rows and of columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the elements, row-major.
    pub fn values(&self) -> &[f64] {
        match &self.values {
            Values::Own(values) => values,
            Values::Shared(owner) => (**owner).as_ref(),
        }
    }

    /// Returns the elements, row-major. They are copied if something else owns them.
    pub fn into_values(self) -> Vec<f64> {
        match self.values {
            Values::Own(values) => values,
            Values::Shared(owner) => (*owner).as_ref().to_vec(),
        }
    }

    /// Returns the elements of a row.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values()[row * self.shape.1..][..self.shape.1]
    }
}

impl PartialEq for DenseMatrix {
    fn eq(&self, other: &Self) -> bool {
        self.shape == other.shape && self.values() == other.values()
    }
}

impl fmt::Debug for DenseMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenseMatrix").field("shape", &self.shape).field("values", &self.values()).finish()
    }
}
