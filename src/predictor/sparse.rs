//! Predictions of sparse rows: blocks of them are written out, each into a buffer that stays in a core's cache where a row
//! has up to 1024 columns.

use rayon::prelude::*;

use super::{Predictor, room};
use crate::{
    cost::BLOCK,
    cpu::{Row, Rows},
    error::{Error, Result},
    sparse::SparseMatrix,
};

/// Bytes of a block of rows that are written out.
const BLOCK_BYTES: usize = 1 << 18;

/// Values that are filled one after the other in the time of one that is found by its place
/// (`fangorn-benches sparse-rows`).
const FILL: usize = 16;

/// The most rows of a block.
const MOST_ROWS: usize = 4096;

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
        self.of_blocks(rows, absent, self.width(), |block, out| self.values_into(block, out))
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
        self.of_blocks(rows, absent, outputs, |block, out| self.margins_into(block, out))
    }

    /// Returns what `predict` makes of each row: `width` numbers.
    fn of_blocks<T: Row + Default + PartialEq>(
        &self,
        rows: &SparseMatrix<T>,
        absent: T,
        width: usize,
        predict: impl Fn(&Rows<'_, T>, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<Vec<f32>> {
        let (count, columns) = rows.shape();
        let features = self.plans.large().features();
        if columns != features {
            return Err(Error::Rows(format!(
                "rows of {columns} columns, the forest has {features} features"
            )));
        }
        let mut out = room(count, width)?;
        let of_cache = BLOCK_BYTES / (columns * size_of::<T>()).max(1) / BLOCK * BLOCK;
        let block = of_cache.clamp(BLOCK, MOST_ROWS);
        // A copy of whole columns is faster than one of rows. Ranks are made from a few columns of a row at a time.
        let strides = if self.plans.of(block).ranks_rows() { [columns, 1] } else { [1, block.min(count)] };
        let buffer = || vec![absent; block.min(count) * columns];
        let run = |buffer: &mut Vec<T>, (at, out): (usize, &mut [f32])| {
            let first = at * block;
            let of_block = block.min(count - first);
            let places = |row: usize| {
                let place = move |column| row * strides[0] + column * strides[1];
                rows.row(first + row).map(move |(column, value)| (place(column), value))
            };
            (0..of_block).flat_map(places).for_each(|(place, value)| buffer[place] = value);
            let dense = Rows::strided(buffer, [of_block, columns], strides)?;
            predict(&dense, out)?;
            // The buffer is as it was.
            match rows.filled_in(first..first + of_block) * FILL > buffer.len() {
                true => buffer.fill(absent),
                false => (0..of_block).flat_map(places).for_each(|(place, _)| buffer[place] = absent),
            }
            Ok::<(), Error>(())
        };
        let of_block = (block * width).max(1);
        let several = self.plans.large().threads() > 1 && count > block;
        self.on_threads(count, || match several {
            true => out.par_chunks_mut(of_block).enumerate().try_for_each_init(buffer, run),
            false => {
                let mut buffer = buffer();
                out.chunks_mut(of_block).enumerate().try_for_each(|part| run(&mut buffer, part))
            }
        })?;
        Ok(out)
    }
}
