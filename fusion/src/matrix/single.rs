//! Matrices with all their elements, of single precision.

use std::{fmt, sync::Arc};

use crate::dag::Shape;

/// A matrix with all its elements, row-major, of single precision. It may stand in memory that something else owns, a
/// tensor for example. A clone shares the elements.
///
/// Operators compute in double precision. They widen the elements that they read, a tile at a time, so that such a matrix
/// takes half of the memory and of the bandwidth of a [`DenseMatrix`](crate::DenseMatrix).
///
/// ```
/// use std::sync::Arc;
///
/// use fangorn_fusion::{
///     Bindings, Matrix, SingleMatrix,
///     dag::Builder,
///     select::{Costs, Plan, Policy},
/// };
///
/// let single = SingleMatrix::new((2, 2), Arc::new(vec![1.0_f32, 2.0, 3.0, 4.0])).expect("four elements");
/// let builder = Builder::new();
/// builder.output("sum", builder.dense("X", 2, 2).square().sum());
/// let dag = builder.finish()?;
/// let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
/// let sum = plan.run(&dag, &Bindings::from([("X".to_owned(), Matrix::Single(single))]))?["sum"].scalar();
/// assert_eq!(sum, 30.0);
/// # Ok::<(), fangorn_fusion::FusionError>(())
/// ```
#[derive(Clone)]
pub struct SingleMatrix {
    shape: Shape,
    owner: Arc<dyn AsRef<[f32]> + Send + Sync>,
}

impl SingleMatrix {
    /// Makes a matrix of row-major elements and what owns them, which must return the same elements each time. Returns
    /// `None` if the shape has another number of elements.
    pub fn new(shape: Shape, owner: Arc<dyn AsRef<[f32]> + Send + Sync>) -> Option<Self> {
        (shape.0.checked_mul(shape.1)? == (*owner).as_ref().len()).then_some(Self { shape, owner })
    }

    /// Returns the number of rows and of columns.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the elements, row-major.
    pub fn values(&self) -> &[f32] {
        (*self.owner).as_ref()
    }
}

impl fmt::Debug for SingleMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleMatrix").field("shape", &self.shape).field("values", &self.values()).finish()
    }
}
