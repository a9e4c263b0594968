//! Predicts tables, given as one slice for each column. The table is never copied as a whole: a thread ranks
//! or copies a few row blocks at a time.

use std::ops::Range;

use super::{Predictor, blocks::BlockSource};
use crate::{
    cost::ROW_BLOCK,
    cpu::{COLUMNS_AHEAD, ColumnReader, Program, ROW_BLOCKS_TOGETHER, Ranker, Rows},
    error::{Error, Result},
    forest::CompareType,
    table::{Column, Number},
};

/// Unused values between two columns of a row block. Without them, columns whose distance is a power of two would
/// compete for a few sets of the L1 cache.
const GAP: usize = 16;

/// The columns of a table, all with the same number of rows.
struct Columns<'c, 'a> {
    columns: &'c [Column<'a>],
    /// The columns that some tree reads.
    used: &'c [u32],
    rows: usize,
    /// Whether the forest compares values of some column in `f64`.
    in_doubles: bool,
}

impl<'c, 'a> Columns<'c, 'a> {
    fn new(columns: &'c [Column<'a>], used: &'c [u32], compare: CompareType) -> Result<Self> {
        let rows = columns.first().map_or(0, Column::len);
        match columns.iter().position(|column| column.len() != rows) {
            None => {
                let in_doubles = compare == CompareType::F64 && !columns.iter().all(Column::holds_singles);
                Ok(Self { columns, used, rows, in_doubles })
            }
            Some(other) => Err(Error::Rows(format!(
                "column 0 has {rows} rows, column {other} has {}; give as many rows of each",
                columns[other].len()
            ))),
        }
    }
}

/// The rows of a table from some row on.
struct ColumnsFrom<'c, 'a> {
    columns: &'c [Column<'a>],
    first: usize,
}

macro_rules! column_reader {
    ($type:ty, $lend:ident) => {
        impl ColumnReader<$type> for ColumnsFrom<'_, '_> {
            fn read(&self, column: usize, first: usize, into: &mut [$type]) {
                self.columns[column].read(self.first + first, into);
            }

            fn lend(&self, column: usize, first: usize, count: usize) -> Option<&[$type]> {
                self.columns[column].$lend(self.first + first, count)
            }

            fn prefetch(&self, column: usize, first: usize, count: usize) {
                self.columns[column].prefetch(self.first + first, count);
            }
        }
    };
}
column_reader!(f32, lend_singles);
column_reader!(f64, lend_doubles);

impl<T: Number + Default + Send + Sync> BlockSource<T> for Columns<'_, '_> {
    const TOGETHER: usize = ROW_BLOCKS_TOGETHER;

    fn rank_blocks(&self, ranker: &Ranker, first: usize, count: usize, out: &mut [u8]) {
        let columns = ColumnsFrom { columns: self.columns, first };
        match self.in_doubles {
            true => ranker.rank_wide_columns(&columns, count, out),
            false => ranker.rank_columns(&columns, count, out),
        }
    }

    fn shape(&self) -> [usize; 2] {
        [self.rows, self.columns.len()]
    }

    /// The buffer of one row block has no gaps, because the trees read it as it is if they read values of `f32`.
    fn strides(&self, rows: usize) -> [usize; 2] {
        let is_window = rows == ROW_BLOCK && size_of::<T>() == size_of::<f32>();
        let gap = if is_window { 0 } else { GAP };
        [1, rows + gap]
    }

    fn buffer(&self, length: usize) -> Vec<T> {
        vec![T::default(); length]
    }

    /// Reads all rows of a column before the next column. The room of columns that no tree reads stays as it is.
    fn write(&self, rows: Range<usize>, strides: [usize; 2], block: usize, length: usize, buffers: &mut [T]) {
        // The processor fetches the values of longer columns in time.
        let is_short = rows.len() <= ROW_BLOCKS_TOGETHER * ROW_BLOCK;
        for (at, number) in self.used.iter().map(|number| *number as usize).enumerate() {
            if let Some(ahead) = self.used.get(at + COLUMNS_AHEAD).filter(|_| is_short) {
                self.columns[*ahead as usize].prefetch(rows.start, rows.len());
            }
            for (first, buffer) in rows.clone().step_by(block).zip(buffers.chunks_mut(length)) {
                let count = block.min(rows.end - first);
                self.columns[number].read(first, &mut buffer[number * strides[1]..][..count]);
            }
        }
    }
}

impl Predictor {
    /// Returns the values of a table, `rows x width`, given its columns in the model's order. [`Predictor::values`]
    /// says what values are; [`Column`] has an example.
    ///
    /// # Errors
    /// The number of columns is not the forest's number of features, columns have different numbers of rows, or
    /// there is no memory for the results.
    pub fn values_of_columns(&self, columns: &[Column<'_>]) -> Result<Vec<f32>> {
        let width = self.width();
        self.of_columns(
            columns,
            width,
            |program, rows, out| self.values_by(program, rows, out),
            |program, rows, out| self.values_by(program, rows, out),
        )
    }

    /// Returns the margins of a table, `rows x outputs`, given its columns in the model's order.
    ///
    /// # Errors
    /// Those of [`values_of_columns`](Self::values_of_columns).
    pub fn margins_of_columns(&self, columns: &[Column<'_>]) -> Result<Vec<f32>> {
        let outputs = self.plans.large().outputs();
        self.of_columns(
            columns,
            outputs,
            |program, rows, out| self.margins_by(program, rows, out),
            |program, rows, out| self.margins_by(program, rows, out),
        )
    }

    /// Returns the leaf slot that each row of a table reaches in each tree, `rows x trees`, trees in the
    /// producer's order. The table is given as its columns in the model's order.
    ///
    /// # Errors
    /// Those of [`values_of_columns`](Self::values_of_columns).
    pub fn leaf_slots_of_columns(&self, columns: &[Column<'_>]) -> Result<Vec<u32>> {
        let trees = self.plans.large().trees();
        self.of_columns(
            columns,
            trees,
            |program, rows, out| program.slots(rows, out),
            |program, rows, out| program.slots(rows, out),
        )
    }

    /// Predicts row blocks with `singles` or `doubles`, and returns `width` results for each row. Rows are
    /// `f64` if the producer compares in `f64` and rounding a value to `f32` could change a comparison.
    fn of_columns<R: Clone + Default + Send>(
        &self,
        columns: &[Column<'_>],
        width: usize,
        singles: impl Fn(&Program, &Rows<'_, f32>, &mut [R]) -> Result<()> + Sync,
        doubles: impl Fn(&Program, &Rows<'_, f64>, &mut [R]) -> Result<()> + Sync,
    ) -> Result<Vec<R>> {
        let source = Columns::new(columns, &self.used, self.compare)?;
        match source.in_doubles {
            true => self.predict_in_blocks(&source, width, doubles),
            false => self.predict_in_blocks(&source, width, singles),
        }
    }
}
