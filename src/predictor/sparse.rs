//! Predictions of sparse rows.

use std::ops::Range;

use super::{Predictor, blocks::BlockSource};
use crate::{cpu::Row, error::Result, sparse::SparseMatrix};

/// Values that are filled one after the other in the time of one that is found by its place
/// (`fangorn-benches sparse-rows`).
const FILL: usize = 16;

/// Sparse rows, and what a value is that they don't hold.
struct SparseRows<'r, T> {
    rows: &'r SparseMatrix<T>,
    absent: T,
}

impl<T: Row + Default + PartialEq> SparseRows<'_, T> {
    /// Returns the place in a buffer of each value that some rows hold.
    fn places(&self, rows: Range<usize>, strides: [usize; 2]) -> impl Iterator<Item = (usize, T)> {
        rows.enumerate().flat_map(move |(row, of_matrix)| {
            let place = move |column| row * strides[0] + column * strides[1];
            self.rows.row(of_matrix).map(move |(column, value)| (place(column), value))
        })
    }
}

impl<T: Row + Default + PartialEq> BlockSource<T> for SparseRows<'_, T> {
    fn shape(&self) -> [usize; 2] {
        self.rows.shape().into()
    }

    /// A copy of whole columns is faster than one of rows. Ranks are made from a few columns of a row at a time.
    fn strides(&self, rows: usize, by_ranks: bool) -> [usize; 2] {
        if by_ranks { [self.rows.shape().1, 1] } else { [1, rows] }
    }

    fn buffer(&self, length: usize) -> Vec<T> {
        vec![self.absent; length]
    }

    fn write(&self, rows: Range<usize>, strides: [usize; 2], buffer: &mut [T]) {
        self.places(rows, strides).for_each(|(place, value)| buffer[place] = value);
    }

    fn clear(&self, rows: Range<usize>, strides: [usize; 2], buffer: &mut [T]) {
        match self.rows.filled_in(rows.clone()) * FILL > buffer.len() {
            true => buffer.fill(self.absent),
            false => self.places(rows, strides).for_each(|(place, _)| buffer[place] = self.absent),
        }
    }
}

impl Predictor {
    /// Returns the values of sparse rows, `rows x width`. `absent` is what a value that a row does not hold is; the
    /// model's producer says what it is with [`Forest::absent_value`](crate::Forest::absent_value).
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
        self.in_blocks(&SparseRows { rows, absent }, self.width(), |block, out| self.values_into(block, out))
    }

    /// Returns the margins of sparse rows, `rows x outputs`, as [`values_of_sparse`](Self::values_of_sparse) returns
    /// values.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub fn margins_of_sparse<T: Row + Default + PartialEq>(
        &self,
        rows: &SparseMatrix<T>,
        absent: T,
    ) -> Result<Vec<f32>> {
        let outputs = self.plans.large().outputs();
        self.in_blocks(&SparseRows { rows, absent }, outputs, |block, out| self.margins_into(block, out))
    }
}
