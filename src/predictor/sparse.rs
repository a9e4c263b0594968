//! Predictions of sparse rows.

use std::{
    ops::Range,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use super::{Predictor, blocks::BlockSource};
use crate::{
    cost::{Machine, ROW_BLOCK, SparseWay},
    cpu::{CompressedColumns, Ranker, Row, Rows},
    error::Result,
    sparse::SparseMatrix,
};

/// Sparse rows, and the value of the elements that they don't store.
struct SparseRows<'r, T> {
    rows: &'r SparseMatrix<T>,
    absent: T,
    /// The ranks of `absent`, by column of ranks.
    absent_ranks: OnceLock<Vec<u8>>,
    /// Rooms that no thread uses at the moment.
    rooms: Mutex<Vec<Room<T>>>,
    /// A row without elements. It is made once the number of columns has been checked.
    empty: OnceLock<Vec<T>>,
}

/// Room for a row block.
#[derive(Default)]
struct Room<T> {
    /// The rows written out, row after row.
    written: Vec<T>,
    compressed: CompressedColumns,
}

impl<'r, T: Row + Default + PartialEq> SparseRows<'r, T> {
    fn new(rows: &'r SparseMatrix<T>, absent: T) -> Self {
        let (absent_ranks, empty) = (OnceLock::new(), OnceLock::new());
        Self { rows, absent, absent_ranks, rooms: Mutex::default(), empty }
    }

    fn empty(&self) -> &[T] {
        self.empty.get_or_init(|| vec![self.absent; self.rows.shape().1])
    }

    fn absent_ranks(&self, ranker: &Ranker) -> &[u8] {
        self.absent_ranks.get_or_init(|| {
            let mut ranks = vec![0; ranker.shape().1];
            let done =
                Rows::new(self.empty(), self.empty().len()).and_then(|row| ranker.rank(&row, &mut ranks));
            debug_assert!(done.is_ok(), "a row has the forest's columns");
            ranks
        })
    }

    fn rooms(&self) -> MutexGuard<'_, Vec<Room<T>>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self) -> Room<T> {
        let kept = self.rooms().pop();
        kept.unwrap_or_default()
    }

    /// Writes out a row block, and ranks what it has written.
    fn rank_written(&self, ranker: &Ranker, rows: Range<usize>, buffer: &mut Vec<T>, out: &mut [u8]) {
        let empty = self.empty();
        let columns = empty.len();
        buffer.resize(columns * ROW_BLOCK, self.absent);
        for (row, buffer) in rows.clone().zip(buffer.chunks_exact_mut(columns)) {
            buffer.copy_from_slice(empty);
            let (columns, values) = self.rows.elements_of(row);
            columns.iter().zip(values).for_each(|(column, value)| buffer[*column as usize] = *value);
        }
        let written = Rows::strided(buffer, [rows.len(), columns], [columns, 1]);
        let done = written.and_then(|rows| ranker.rank_blocks(&rows, out));
        debug_assert!(done.is_ok(), "rows and ranks have the forest's columns");
    }

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

    fn rank_blocks(&self, ranker: &Ranker, first: usize, count: usize, out: &mut [u8]) {
        let columns = ranker.shape().1;
        let costs = Machine::here().ranking.sparse;
        let mut room = self.room();
        for (begin, out) in
            (first..first + count).step_by(ROW_BLOCK).zip(out.chunks_mut((columns * ROW_BLOCK).max(1)))
        {
            let rows = begin..(first + count).min(begin + ROW_BLOCK);
            match costs.way(self.rows.filled_in(rows.clone()), columns, ranker.compresses::<T>()) {
                SparseWay::Elements => ranker.rank_elements(self.rows, self.absent_ranks(ranker), rows, out),
                SparseWay::CompressedColumns => {
                    let absent = (self.absent, self.absent_ranks(ranker));
                    ranker.rank_compressed((self.rows, rows), absent, &mut room.compressed, out);
                }
                SparseWay::WrittenOut => self.rank_written(ranker, rows, &mut room.written, out),
            }
        }
        self.rooms().push(room);
    }

    fn shape(&self) -> [usize; 2] {
        self.rows.shape().into()
    }

    /// The buffer holds column after column, which trees read as it is or copy fast.
    fn strides(&self, rows: usize) -> [usize; 2] {
        [1, rows]
    }

    fn buffer(&self, length: usize) -> Vec<T> {
        vec![self.absent; length]
    }

    fn write(&self, rows: Range<usize>, strides: [usize; 2], _: usize, _: usize, buffer: &mut [T]) {
        self.indexed(rows, strides).for_each(|(index, value)| buffer[index] = value);
    }

    fn clear(&self, rows: Range<usize>, strides: [usize; 2], buffer: &mut [T]) {
        let (costs, elements) = (Machine::here().writes, self.rows.filled_in(rows.clone()));
        match elements as f64 * costs.indexed > buffer.len() as f64 * costs.filled {
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
        self.predict_in_blocks(&SparseRows::new(rows, absent), self.width(), |program, block, out| {
            self.values_by(program, block, out)
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
        self.predict_in_blocks(&SparseRows::new(rows, absent), outputs, |program, block, out| {
            self.margins_by(program, block, out)
        })
    }
}
