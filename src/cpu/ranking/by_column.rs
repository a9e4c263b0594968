//! Ranks rows that are no matrix: columns that are read one by one, and sparse rows, element by element or as
//! compressed columns.

use std::{
    any::{Any, TypeId},
    ops::Range,
};

use super::{
    super::{arch::portable::rank as portable, nodes::Compare},
    column_block::ROW_BLOCKS_TOGETHER,
    compressed::{CompressedBlock, CompressedColumn, CompressedColumns},
    kernels,
    ranker::{ColumnRoom, Ranker},
    search::ROW_BLOCK,
    sources::{PREFETCHED, RankSources},
};
use crate::{cpu::rows::Row, sparse::SparseMatrix};

/// Reads rows column by column.
pub(crate) trait ColumnReader<C> {
    /// Reads a column from row `first` on, as many rows as `into` has room for.
    fn read(&self, column: usize, first: usize, into: &mut [C]);
    /// Returns `count` values of a column from row `first` on, if they lie in memory as they are read.
    fn lend(&self, column: usize, first: usize, count: usize) -> Option<&[C]>;
    /// Fetches `count` values of a column that is read soon, from row `first` on.
    fn prefetch(&self, column: usize, first: usize, count: usize);
}

impl Ranker {
    /// Like [`Self::rank_blocks`], for `count` rows whose columns are read one by one.
    pub(crate) fn rank_columns(&self, columns: &dyn ColumnReader<f32>, count: usize, out: &mut [u8]) {
        self.columns_by(&self.singles, columns, count, out);
    }

    /// Like [`Self::rank_columns`], for a forest that compares in `f64`.
    pub(crate) fn rank_wide_columns(&self, columns: &dyn ColumnReader<f64>, count: usize, out: &mut [u8]) {
        match &self.doubles {
            Some(sources) => self.columns_by(sources, columns, count, out),
            None => debug_assert!(false, "a forest that compares in f32"),
        }
    }

    fn columns_by<C: Compare>(
        &self,
        sources: &RankSources<C>,
        columns: &dyn ColumnReader<C>,
        count: usize,
        out: &mut [u8],
    ) {
        let room = self.columns * ROW_BLOCK;
        let mut room_of_values = [C::NAN; ROW_BLOCKS_TOGETHER * ROW_BLOCK];
        let parts = out.chunks_mut((ROW_BLOCKS_TOGETHER * room).max(1));
        for (first, out) in (0..count).step_by(ROW_BLOCKS_TOGETHER * ROW_BLOCK).zip(parts) {
            let rows = room_of_values.len().min(count - first);
            let row_blocks = rows.div_ceil(ROW_BLOCK);
            let mut coded = [const { None }; ROW_BLOCKS_TOGETHER];
            let mut close = None;
            let mut lent = None;
            for (c, source) in sources.columns.iter().enumerate() {
                if close != Some(source.feature) {
                    close = Some(source.feature);
                    if let Some(ahead) = sources.columns.get(c + PREFETCHED) {
                        columns.prefetch(ahead.feature as usize, first, rows);
                    }
                    let feature = source.feature as usize;
                    // Kernels read whole row blocks.
                    lent = columns.lend(feature, first, row_blocks * ROW_BLOCK);
                    if lent.is_none() {
                        columns.read(feature, first, &mut room_of_values[..rows]);
                    }
                }
                let values = lent.unwrap_or(&room_of_values[..row_blocks * ROW_BLOCK]);
                let out = &mut out[c * ROW_BLOCK..];
                if sources.searched_together(c, values, out, room) {
                    continue;
                }
                for (row_block, values) in values.as_chunks().0.iter().enumerate() {
                    let (coded, out) = (&mut coded[row_block], &mut out[row_block * room..]);
                    let out = ColumnRoom { of: out, count: ROW_BLOCK, apart: 1 };
                    self.one::<C, u8, ROW_BLOCK>(sources, c, values, coded, out);
                }
            }
        }
    }

    /// Writes the ranks of a row block of sparse rows as [`Self::rank_blocks`] does, element by element. `absent` are
    /// the ranks of the value of every element that the rows do not hold, by column of ranks.
    pub(crate) fn rank_elements<T: Row + Default + PartialEq>(
        &self,
        matrix: &SparseMatrix<T>,
        absent: &[u8],
        rows: Range<usize>,
        out: &mut [u8],
    ) {
        let out = out.as_chunks_mut().0;
        out.iter_mut().zip(absent).for_each(|(column, rank)| *column = [*rank; ROW_BLOCK]);
        let doubles = (matrix as &dyn Any).downcast_ref::<SparseMatrix<f64>>();
        match self.doubles.as_ref().zip(doubles) {
            Some((sources, matrix)) => {
                sources.elements(matrix, rows, &self.by_rule(sources), out).rank(portable::at_most);
            }
            None => {
                kernels::elements(self.singles.elements(matrix, rows, &self.by_rule(&self.singles), out));
            }
        }
    }

    /// Returns a function that ranks a value in a column of ranks by the column's rule.
    fn by_rule<C: Compare>(&self, sources: &RankSources<C>) -> impl Fn(usize, C) -> u8 {
        |c, value| {
            let mut rank = [0];
            let room = ColumnRoom { of: &mut rank, count: 1, apart: 1 };
            self.one::<C, u8, 1>(sources, c, &[value], &mut None, room);
            rank[0]
        }
    }

    /// Returns whether sparse rows of values of type `T` can be ranked as compressed columns: if the machine has a
    /// kernel for it, and no doubles are compared.
    pub fn compresses<T: 'static>(&self) -> bool {
        kernels::compresses() && !(self.doubles.is_some() && TypeId::of::<T>() == TypeId::of::<f64>())
    }

    /// Writes the ranks of a row block of sparse rows as [`Self::rank_blocks`] does, from compressed columns. `absent`
    /// is the value of every element that the rows do not hold, and its rank in each column of ranks.
    ///
    /// # Panics
    /// [`Self::compresses`] returns `false`.
    pub(crate) fn rank_compressed<T: Row + Default + PartialEq>(
        &self,
        (matrix, rows): (&SparseMatrix<T>, Range<usize>),
        (absent, absent_ranks): (T, &[u8]),
        room: &mut CompressedColumns,
        out: &mut [u8],
    ) {
        let sources = &self.singles;
        let (pivots, searches) = (sources.tables.pivots(), &sources.searches_by_kernel);
        let (out, columns) = (out.as_chunks_mut().0, &mut room.0);
        columns.resize(matrix.shape().1, CompressedColumn::EMPTY);
        kernels::compressed(CompressedBlock {
            matrix,
            rows,
            columns,
            pivots,
            searches,
            absent: absent_ranks,
            out,
        });
        // Columns of ranks of one feature stand side by side.
        let (mut coded, mut close, mut values) = (None, None, [0.0; ROW_BLOCK]);
        let others = sources.columns.iter().enumerate().filter(|(c, _)| sources.searches[*c].is_none());
        for (c, source) in others {
            if close != Some(source.feature) {
                close = Some(source.feature);
                values = columns[source.feature as usize].written_out(absent.read());
            }
            let out = ColumnRoom { of: &mut out[c], count: ROW_BLOCK, apart: 1 };
            self.one::<f32, u8, ROW_BLOCK>(sources, c, &values, &mut coded, out);
        }
    }
}
