//! Predictions of sparse rows.

use std::ops::Range;

use super::{Predictor, blocks::BlockSource};
use crate::{cpu::Row, error::Result, sparse::SparseMatrix};

/// How many adjacent values can be filled in the time of writing one value at an index that is looked up
/// (`fangorn-benches sparse-rows`).
const FILL: usize = 16;

/// Sparse rows, and the value of the elements that they don't store.
struct SparseRows<'r, T> {
    rows: &'r SparseMatrix<T>,
    absent: T,
}

impl<T: Row + Default + PartialEq> SparseRows<'_, T> {
    /// Returns the stored values of some rows, each with its index in the buffer.
    fn indexed(&self, rows: Range<usize>, strides: [usize; 2]) -> impl Iterator<Item = (usize, T)> {
        rows.enumerate().flat_map(move |(row, of_matrix)| {
            let index = move |column| row * strides[0] + column * strides[1];
            self.rows.row(of_matrix).map(move |(column, value)| (index(column), value))
        })
    }
}

impl<T: Row + Default + PartialEq> BlockSource<T> for SparseRows<'_, T> {
    const TOGETHER: usize = 1;

    fn shape(&self) -> [usize; 2] {
        self.rows.shape().into()
    }

    /// The buffer holds column after column, which trees read as it is or copy fast. For ranks it holds row after row,
    /// because a few columns of one row are ranked at a time.
    fn strides(&self, rows: usize, by_ranks: bool) -> [usize; 2] {
        if by_ranks { [self.rows.shape().1, 1] } else { [1, rows] }
    }

    fn buffer(&self, length: usize) -> Vec<T> {
        vec![self.absent; length]
    }

    fn write(&self, rows: Range<usize>, strides: [usize; 2], _: usize, _: usize, buffer: &mut [T]) {
        self.indexed(rows, strides).for_each(|(index, value)| buffer[index] = value);
    }

    fn clear(&self, rows: Range<usize>, strides: [usize; 2], buffer: &mut [T]) {
        match self.rows.filled_in(rows.clone()) * FILL > buffer.len() {
            true => buffer.fill(self.absent),
            false => self.indexed(rows, strides).for_each(|(index, _)| buffer[index] = self.absent),
        }
    }
}

impl Predictor {
    /// Returns the values of sparse rows, `rows x width`. `absent` is the value of every element that a row does not
    /// store; [`Forest::absent_value`](crate::Forest::absent_value) returns the one that the model's producer takes.
    ///
    /// ```
    /// use fangorn::{Predictor, import, sparse::SparseMatrix};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let predictor = Predictor::new(&forest)?;
    /// // Two rows: the first holds the columns 0 and 3, the second none.
    /// let (offsets, columns, values) = (vec![0, 2, 2], vec![0, 3], vec![0.5f32, 2.0]);
    /// let rows = SparseMatrix::new([2, forest.features.len()], offsets, columns, values).expect("two rows");
    /// // To XGBoost, what a sparse row does not hold is missing.
    /// let absent = forest.absent_value() as f32;
    /// assert!(absent.is_nan());
    /// assert_eq!(predictor.values_of_sparse(&rows, absent)?.len(), 2);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub fn values_of_sparse<T: Row + Default + PartialEq>(
        &self,
        rows: &SparseMatrix<T>,
        absent: T,
    ) -> Result<Vec<f32>> {
        self.predict_in_blocks(&SparseRows { rows, absent }, self.width(), |block, out| {
            self.values_into(block, out)
        })
    }

    /// Returns the margins of sparse rows, `rows x outputs`. The arguments are those of
    /// [`values_of_sparse`](Self::values_of_sparse).
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub fn margins_of_sparse<T: Row + Default + PartialEq>(
        &self,
        rows: &SparseMatrix<T>,
        absent: T,
    ) -> Result<Vec<f32>> {
        let outputs = self.plans.large().outputs();
        self.predict_in_blocks(&SparseRows { rows, absent }, outputs, |block, out| {
            self.margins_into(block, out)
        })
    }
}
