//! Ranks rows on the CPU: 64 rows at a time, one column or one column block at a time. [`RankSources`] is the data,
//! and `by_column` ranks rows that are no matrix.

use std::{cell::RefCell, slice};

use super::{
    super::{
        Ranking,
        nodes::Compare,
        rows::{Read, Row, Rows},
    },
    column_block::ROW_BLOCKS_TOGETHER,
    column_blocks::ColumnBlocks,
    row_block::{ColumnBlockRoom, RowBlock},
    search::{self, Columns, ROW_BLOCK},
    sources::{CategoryCodes, Distances, RankRule, RankSources},
};
use crate::{
    cost::Machine,
    error::{Error, Result},
    forest::{CategorySet, CompareType, Side, reference::side_of_cast},
    ranks::{Ranks, Width},
};

mod sealed {
    /// Restricts `Rank` to the two types that a ranker writes.
    pub trait Sealed: Sized {
        /// Returns the ranks as bytes, if they are bytes.
        fn bytes(_ranks: &mut [Self]) -> Option<&mut [u8]> {
            None
        }
    }
    impl Sealed for u8 {
        fn bytes(ranks: &mut [Self]) -> Option<&mut [u8]> {
            Some(ranks)
        }
    }
    impl Sealed for u16 {}
}

/// A type that ranks are stored in: `u8` or `u16`.
pub trait Rank:
    sealed::Sealed + Copy + Default + Into<u32> + Send + Sync + std::fmt::Debug + 'static
{
    /// The width of this type.
    const WIDTH: Width;
    /// Narrows a rank to this type. The rank fits, so no bit is lost.
    fn of(rank: u32) -> Self;
}

impl Rank for u8 {
    const WIDTH: Width = Width::U8;
    #[inline(always)]
    fn of(rank: u32) -> Self {
        rank as Self
    }
}

impl Rank for u16 {
    const WIDTH: Width = Width::U16;
    #[inline(always)]
    fn of(rank: u32) -> Self {
        rank as Self
    }
}

/// Room for ranks in one column of ranks.
pub(super) struct ColumnRoom<'o, R> {
    /// Begins with the first rank.
    pub(super) of: &'o mut [R],
    /// Number of ranks.
    pub(super) count: usize,
    /// The distance from one rank to the next.
    pub(super) apart: usize,
}

/// Ranks rows on the CPU. It is immutable and `Send + Sync`. To rank a row it takes no lock and allocates
/// nothing.
#[derive(Clone, Debug)]
pub struct Ranker {
    width: Width,
    /// Columns of the rows that are ranked.
    features: usize,
    /// Columns of ranks.
    pub(super) columns: usize,
    sets: Vec<CategorySet>,
    pub(super) singles: RankSources<f32>,
    /// How `f32` rows become ranks of one byte, one column block at a time. `None` if ranks are wider, or if the caller
    /// asked for one column at a time.
    column_blocks: Option<ColumnBlocks>,
    /// The sources of ranks for `f64` rows of a forest that compares in `f64`.
    pub(super) doubles: Option<RankSources<f64>>,
}

impl Ranker {
    /// Makes a ranker for the rows of a forest.
    pub fn new(ranks: &Ranks) -> Self {
        Self::by(ranks, Ranking::Chosen)
    }

    /// Like [`Self::new`], but ranks by the given method only.
    pub fn by(ranks: &Ranks, ranking: Ranking) -> Self {
        let singles = RankSources::new(ranks);
        Self {
            width: ranks.width(),
            features: ranks.features(),
            columns: ranks.columns().len(),
            sets: ranks.sets().to_vec(),
            column_blocks: (ranks.width() == Width::U8 && ranking != Ranking::Columns)
                .then(|| singles.column_blocks(ranks)),
            singles,
            doubles: (ranks.compare() == CompareType::F64).then(|| RankSources::new(ranks)),
        }
    }

    /// Returns the width of a rank and the number of columns of a ranked row.
    pub fn shape(&self) -> (Width, usize) {
        (self.width, self.columns)
    }

    /// Writes the ranks of rows into `out`, `rows x columns`, one row after the other.
    ///
    /// Rows are `f32` or `f64`. Their values are cast as the forest casts them before they are compared.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has another length or another
    /// type than the ranks' [`Width`].
    pub fn rank<T: Row, R: Rank>(&self, rows: &Rows<'_, T>, out: &mut [R]) -> Result<()> {
        if out.len() != rows.len().saturating_mul(self.columns) {
            return Err(Error::Rows(format!(
                "room for {} ranks, {} rows of {} rank columns need {}",
                out.len(),
                rows.len(),
                self.columns,
                rows.len().saturating_mul(self.columns)
            )));
        }
        self.rank_strided(rows, out, [self.columns, 1])
    }

    /// Like [`Self::rank`], but writes the rank of row `r` in column `c` to `out[r * strides[0] + c * strides[1]]`.
    /// Columns whose ranks are adjacent (`strides[0] == 1`, `strides[1] >= 64`) are the fastest to write.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, the strides reach past `out`, or `out` has
    /// another type than the ranks' [`Width`].
    pub fn rank_strided<T: Row, R: Rank>(
        &self,
        rows: &Rows<'_, T>,
        out: &mut [R],
        strides: [usize; 2],
    ) -> Result<()> {
        if rows.columns() != self.features {
            return Err(Error::Columns { found: rows.columns(), expected: self.features });
        }
        if R::WIDTH != self.width {
            let (given, width) = (R::WIDTH.name(), self.width.name());
            return Err(Error::Rows(format!(
                "room for ranks of {given}, these are {width}; give room for {width}"
            )));
        }
        if rows.is_empty() || self.columns == 0 {
            return Ok(());
        }
        let reach = |n: usize, stride: usize| (n - 1).checked_mul(stride);
        let last = reach(rows.len(), strides[0])
            .and_then(|r| reach(self.columns, strides[1])?.checked_add(r))
            .filter(|last| *last < out.len());
        if last.is_none() {
            return Err(Error::Rows(format!(
                "ranks of {} rows in {} columns with strides {strides:?} reach past the room for {}",
                rows.len(),
                self.columns,
                out.len()
            )));
        }
        let [row, column] = strides;
        // One row may have any stride.
        self.all(rows, out, Distances { row, column, row_block: row.saturating_mul(ROW_BLOCK) });
        Ok(())
    }

    /// Writes the ranks of rows as bytes, in row blocks of 64: row block after row block, and in each one column
    /// after column of 64 ranks. Rows past the last one get arbitrary ranks.
    pub(crate) fn rank_blocks<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u8]) -> Result<()> {
        let room = self.columns * ROW_BLOCK;
        let column_blocks = self.column_blocks.as_ref().filter(|_| {
            rows.columns() == self.features && out.len() >= rows.len().div_ceil(ROW_BLOCK) * room
        });
        let mut first = 0;
        if column_blocks.is_some() && rows.has_adjacent_columns() {
            first = rows.len() / ROW_BLOCK * ROW_BLOCK;
            self.all(&rows.slice(0, first), out, Distances { row: 1, column: ROW_BLOCK, row_block: room });
        }
        while first < rows.len() {
            let out = &mut out[first / ROW_BLOCK * room..];
            let done = column_blocks.is_some_and(|column_blocks| {
                self.rank_column_blocks(
                    column_blocks,
                    rows,
                    first,
                    Machine::here().ranking.columns.rows(),
                    Columns { of: &mut *out, apart: ROW_BLOCK },
                )
            });
            if !done {
                self.rank_strided(&rows.slice(first, ROW_BLOCK), out, [1, ROW_BLOCK])?;
            }
            first += ROW_BLOCK;
        }
        Ok(())
    }

    /// Ranks all rows.
    fn all<T: Row, R: Rank>(&self, rows: &Rows<'_, T>, out: &mut [R], distances: Distances) {
        match (&self.doubles, T::doubles(rows)) {
            (Some(sources), Some(rows)) => self.all_by(sources, rows, out, distances),
            _ => self.all_by(&self.singles, rows, out, distances),
        }
    }

    fn all_by<T: Row + Read<C>, C: Compare, R: Rank>(
        &self,
        sources: &RankSources<C>,
        rows: &Rows<'_, T>,
        out: &mut [R],
        distances: Distances,
    ) {
        let mut first = 0;
        let least = Machine::here().ranking.columns.rows();
        let column_blocks =
            self.column_blocks.as_ref().filter(|_| distances.row == 1 && distances.column >= ROW_BLOCK);
        let together =
            if rows.has_adjacent_columns() && distances.row == 1 { ROW_BLOCKS_TOGETHER } else { 1 };
        while first < rows.len() {
            let left = rows.len() - first;
            let out = &mut out[distances.first_of(first)..];
            if let (Some(column_blocks), Some(out)) = (column_blocks, R::bytes(out))
                && self.rank_column_blocks(
                    column_blocks,
                    rows,
                    first,
                    ROW_BLOCK,
                    Columns { of: out, apart: distances.column },
                )
            {
                first += ROW_BLOCK;
                continue;
            }
            if left >= least {
                let row_blocks = (left / ROW_BLOCK).clamp(1, together);
                self.some::<T, C, R, ROW_BLOCK>(sources, rows, first, row_blocks, out, distances);
                first += left.min(row_blocks * ROW_BLOCK);
            } else {
                self.some::<T, C, R, 1>(sources, rows, first, 1, out, distances);
                first += 1;
            }
        }
    }

    /// Ranks `row_blocks` times `N` rows from `first` on, or as many rows as there are. Ranks go to `out`, which begins
    /// with the first row's.
    fn some<T: Row + Read<C>, C: Compare, R: Rank, const N: usize>(
        &self,
        sources: &RankSources<C>,
        rows: &Rows<'_, T>,
        first: usize,
        row_blocks: usize,
        out: &mut [R],
        distances: Distances,
    ) {
        let count = N.min(rows.len() - first);
        let mut room = [C::NAN; N];
        let mut next = 0;
        while next < sources.columns.len() {
            let begin = next;
            let is_searched =
                |c: usize| count == ROW_BLOCK && distances.row == 1 && sources.searches[c].is_some();
            // Columns that are searched together, then those that are not.
            if is_searched(begin)
                && let Some(out) = R::bytes(out)
            {
                next += sources.searched(rows, first, row_blocks, begin, out, distances);
            }
            if next > begin {
                continue;
            }
            next += 1;
            while next < sources.columns.len() && !is_searched(next) {
                next += 1;
            }
            for row_block in 0..row_blocks {
                let first = first + row_block * N;
                let mut close = None;
                let mut coded: Option<CategoryCodes> = None;
                for (c, source) in (begin..next).zip(&sources.columns[begin..next]) {
                    let values = match rows.column(first, source.feature as usize) {
                        Some(values) => values,
                        None => {
                            if close != Some(source.feature) {
                                rows.read_column(first, source.feature as usize, &mut room);
                                close = Some(source.feature);
                            }
                            &room
                        }
                    };
                    let out = &mut out[row_block * distances.row_block + c * distances.column..];
                    let out = ColumnRoom { of: out, count, apart: distances.row };
                    self.one(sources, c, values, &mut coded, out);
                }
            }
        }
    }

    /// Writes the ranks of values in column `c` of ranks, as many as there is room for. `coded` keeps the category
    /// codes of the last feature.
    pub(super) fn one<C: Compare, R: Rank, const N: usize>(
        &self,
        sources: &RankSources<C>,
        c: usize,
        values: &[C; N],
        coded: &mut Option<CategoryCodes>,
        out: ColumnRoom<'_, R>,
    ) {
        let ColumnRoom { of: out, count, apart } = out;
        if apart == 1
            && let (Some(values), Some(out)) = (values.first_chunk(), R::bytes(out))
            && sources.bytes(c, values, coded, &mut out[..count])
        {
            return;
        }
        let mut ranks = [0u32; N];
        match sources.columns[c].by {
            RankRule::Count { table, missing } => {
                sources.tables.count(table, values, &mut ranks);
                for (rank, value) in ranks.iter_mut().zip(values) {
                    // Only NaN differs from itself. No threshold is at most NaN, so its count is 0.
                    #[allow(clippy::eq_op)]
                    let is_missing = *value != *value;
                    *rank |= if is_missing { missing } else { 0 };
                }
            }
            RankRule::ZeroAside(question) => {
                for (rank, value) in ranks.iter_mut().zip(values) {
                    *rank = question.goes_right(*value).into();
                }
            }
            RankRule::Question { predicate, missing } => {
                for (rank, value) in ranks.iter_mut().zip(values) {
                    let side = side_of_cast(&self.sets, predicate, missing, (*value).into());
                    *rank = u32::from(side == Side::Right);
                }
            }
            RankRule::Coded { rule, table } => {
                for (rank, value) in ranks.iter_mut().zip(values) {
                    *rank = search::bit(&table, search::code(rule, *value)).into();
                }
            }
        }
        if apart == 1 {
            let out = out[..count].iter_mut();
            out.zip(&ranks).for_each(|(out, rank)| *out = R::of(*rank));
            return;
        }
        for (r, rank) in ranks[..count].iter().enumerate() {
            out[r * apart] = R::of(*rank);
        }
    }

    /// Writes the ranks of the row block from `first` on, as bytes, one column block at a time. Returns
    /// `false` if fewer than `least` rows are left, or if the values of a row are not adjacent `f32`. Rows past
    /// the last one get arbitrary ranks.
    fn rank_column_blocks<T: Row>(
        &self,
        column_blocks: &ColumnBlocks,
        rows: &Rows<'_, T>,
        first: usize,
        least: usize,
        out: Columns<&mut [u8]>,
    ) -> bool {
        thread_local!(static ROOM: RefCell<ColumnBlockRoom> = const { RefCell::new(ColumnBlockRoom::EMPTY) });
        // Rows with one column already are that column, so a copy would gain nothing.
        let rows = T::singles(rows).filter(|rows| rows.columns() > 1 && rows.len() >= first + least);
        let Some(block) = rows.and_then(|rows| RowBlock::new(rows, first, ROW_BLOCK)) else { return false };
        // The code in here never lets rayon run another task on this thread, so nobody borrows the room
        // twice.
        ROOM.with_borrow_mut(|room| self.rank_column_blocks_in(column_blocks, &block, room, out));
        true
    }

    fn rank_column_blocks_in(
        &self,
        column_blocks: &ColumnBlocks,
        rows: &RowBlock<'_>,
        room: &mut ColumnBlockRoom,
        out: Columns<&mut [u8]>,
    ) {
        let Columns { of: out, apart } = out;
        // Category codes are kept for this row block only.
        let mut coded = None;
        for column_block in column_blocks.iter() {
            let left = column_block.layered(rows, room, out, apart);
            if left.wanted == 0 {
                continue;
            }
            // `left` is borrowed. A copy would be loaded before the stores to `left` have completed, and that
            // load waits for them.
            rows.columns(slice::from_ref(&left), &mut room.columns.0);
            let values = Columns { of: &room.columns.0[..], apart: ROW_BLOCK };
            let searched = column_block.searched();
            let done = self.singles.tables.searched(searched, values, Columns { of: &mut *out, apart });
            let left = if done { &[] } else { searched };
            let left = left.iter().map(|of| (of.to, of.from));
            for (column, lane) in left.chain(column_block.others().iter().map(|of| (of.0, of.1.into()))) {
                let out = &mut out[column as usize * apart..][..ROW_BLOCK];
                let values = values.column(lane);
                let out = ColumnRoom { of: out, count: ROW_BLOCK, apart: 1 };
                self.one(&self.singles, column as usize, values, &mut coded, out);
            }
        }
    }
}
