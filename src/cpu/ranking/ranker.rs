//! Ranks rows on the CPU: 64 rows at a time, one column or one column block at a time.

use std::{any::Any, cell::RefCell, ops::Range, slice};

use super::{
    super::{
        Ranking,
        nodes::Compare,
        rows::{Read, Row, Rows},
    },
    column_block::ROW_BLOCKS_TOGETHER,
    column_blocks::{ColumnBlocks, RankedColumn},
    elements::{self, ElementRank, Elements},
    kernels,
    row_block::{ColumnBlockRoom, RowBlock},
    search::{self, CategoryBits, ColumnSearch, Columns, Missing, ROW_BLOCK, Search, ZeroAside},
    tables::{Table, Tables},
};
use crate::{
    cost::Machine,
    error::{Error, Result},
    forest::{CategoryRule, CategorySet, CompareType, Predicate, Side, reference::side_of_cast},
    ranks::{Column, ColumnKind, Ranks, Width},
    sparse::SparseMatrix,
};

/// Reads rows column by column.
pub(crate) trait ColumnReader<C> {
    /// Reads a column from row `first` on, as many rows as `into` has room for.
    fn read(&self, column: usize, first: usize, into: &mut [C]);
    /// Returns `count` values of a column from row `first` on, if they lie in memory as they are read.
    fn lend(&self, column: usize, first: usize, count: usize) -> Option<&[C]>;
    /// Fetches `count` values of a column that is read soon, from row `first` on.
    fn prefetch(&self, column: usize, first: usize, count: usize);
}

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

/// Ranks rows on the CPU. It is immutable and `Send + Sync`. To rank a row it takes no lock and allocates
/// nothing.
#[derive(Clone, Debug)]
pub struct Ranker {
    width: Width,
    /// Columns of the rows that are ranked.
    features: usize,
    /// Columns of ranks.
    columns: usize,
    sets: Vec<CategorySet>,
    pub(super) singles: RankSources<f32>,
    /// How `f32` rows become ranks of one byte, one column block at a time. `None` if ranks are wider, or if the caller
    /// asked for one column at a time.
    column_blocks: Option<ColumnBlocks>,
    /// The sources of ranks for `f64` rows of a forest that compares in `f64`.
    pub(super) doubles: Option<RankSources<f64>>,
}

/// The data that ranks are computed from, for thresholds of one type.
#[derive(Clone, Debug)]
pub(super) struct RankSources<C> {
    pub(super) tables: Tables<C>,
    /// By column of ranks: the feature and the rule. Columns of the same feature stand side by side.
    pub(super) columns: Vec<RankColumn<C>>,
    /// By column of ranks: its binary search, if it has one.
    pub(super) searches: Vec<Option<Search>>,
    /// By feature, its first column of ranks; then the number of all columns of ranks.
    firsts: Vec<u32>,
    /// By column of ranks.
    elements: Vec<ElementRank>,
    /// All binary searches, in the order of their columns of ranks. Each reads a column of the rows.
    column_searches: Vec<ColumnSearch>,
    /// The same searches, those with the same kernel side by side.
    pub(super) searches_by_kernel: Vec<ColumnSearch>,
}

/// How a column of ranks follows from a feature.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankColumn<C> {
    pub(super) feature: u32,
    by: RankRule<C>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum RankRule<C> {
    /// The rank is a count of thresholds. A missing value has the rank `missing`.
    Count {
        table: Table,
        missing: u32,
    },
    /// The rank is the bit of a category in a table of 256 bits.
    Coded {
        rule: CategoryRule,
        table: [u8; 32],
    },
    /// The rank is the answer to [`Predicate::LessZeroAside`], which models that take zeros as missing ask once
    /// for each threshold.
    ZeroAside(ZeroAside<C>),
    Question {
        predicate: Predicate,
        missing: Side,
    },
}

/// Distances between the ranks of neighbouring rows, columns and row blocks.
#[derive(Clone, Copy, Debug)]
struct Distances {
    row: usize,
    column: usize,
    row_block: usize,
}

impl Distances {
    /// Returns the index of a row's first rank.
    fn first_of(self, row: usize) -> usize {
        row / ROW_BLOCK * self.row_block + row % ROW_BLOCK * self.row
    }
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
                    Machine::here().ranking.rows,
                    (&mut *out, ROW_BLOCK),
                )
            });
            if !done {
                self.rank_strided(&rows.slice(first, ROW_BLOCK), out, [1, ROW_BLOCK])?;
            }
            first += ROW_BLOCK;
        }
        Ok(())
    }

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
                    self.one::<C, u8, ROW_BLOCK>(sources, c, values, coded, out, (ROW_BLOCK, 1));
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
                sources.elements((matrix, rows), &self.by_rule(sources), out).rank(elements::at_most);
            }
            None => {
                kernels::elements(self.singles.elements((matrix, rows), &self.by_rule(&self.singles), out));
            }
        }
    }

    /// Returns a function that ranks a value in a column of ranks by the column's rule.
    fn by_rule<C: Compare>(&self, sources: &RankSources<C>) -> impl Fn(usize, C) -> u8 {
        |c, value| {
            let mut rank = [0];
            self.one::<C, u8, 1>(sources, c, &[value], &mut None, &mut rank, (1, 1));
            rank[0]
        }
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
        let least = Machine::here().ranking.rows;
        let column_blocks =
            self.column_blocks.as_ref().filter(|_| distances.row == 1 && distances.column >= ROW_BLOCK);
        let together =
            if rows.has_adjacent_columns() && distances.row == 1 { ROW_BLOCKS_TOGETHER } else { 1 };
        while first < rows.len() {
            let left = rows.len() - first;
            let out = &mut out[distances.first_of(first)..];
            if let (Some(column_blocks), Some(out)) = (column_blocks, R::bytes(out))
                && self.rank_column_blocks(column_blocks, rows, first, ROW_BLOCK, (out, distances.column))
            {
                first += ROW_BLOCK;
                continue;
            }
            if left >= least {
                let row_blocks = (left / ROW_BLOCK).clamp(1, together);
                self.some::<T, C, R, ROW_BLOCK>(sources, rows, (first, row_blocks), out, distances);
                first += left.min(row_blocks * ROW_BLOCK);
            } else {
                self.some::<T, C, R, 1>(sources, rows, (first, 1), out, distances);
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
        (first, row_blocks): (usize, usize),
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
            if is_searched(begin) {
                next += sources.searched(rows, (first, row_blocks), begin, out, distances);
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
                let mut coded: Option<(u32, CategoryRule, CategoryBits)> = None;
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
                    self.one(sources, c, values, &mut coded, out, (count, distances.row));
                }
            }
        }
    }

    /// Writes the ranks of the first `count` values in column `c` of ranks. Ranks lie `apart` elements from
    /// each other. `coded` keeps the category codes of the last feature.
    pub(super) fn one<C: Compare, R: Rank, const N: usize>(
        &self,
        sources: &RankSources<C>,
        c: usize,
        values: &[C; N],
        coded: &mut Option<(u32, CategoryRule, CategoryBits)>,
        out: &mut [R],
        (count, apart): (usize, usize),
    ) {
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
    /// `false` if fewer than `least` rows are left, or if the values of a row are not adjacent `f32`. `out`
    /// is the room and the distance between columns of ranks. Rows past the last one get arbitrary ranks.
    fn rank_column_blocks<T: Row>(
        &self,
        column_blocks: &ColumnBlocks,
        rows: &Rows<'_, T>,
        first: usize,
        least: usize,
        out: (&mut [u8], usize),
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
        (out, apart): (&mut [u8], usize),
    ) {
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
                self.one(&self.singles, column as usize, values, &mut coded, out, (ROW_BLOCK, 1));
            }
        }
    }
}

/// Turns a question about a set of categories into a table of the codes that go right. Returns `None` for any
/// other question, and for a set that has categories from [`search::OTHER`] on.
fn coded<C>(sets: &[CategorySet], predicate: Predicate, missing: Side) -> Option<RankRule<C>> {
    let Predicate::InSet { set, .. } = predicate else { return None };
    let set = &sets[set as usize];
    let fits = (u32::from(search::OTHER)..32 * set.words.len() as u32).all(|c| !set.contains(c));
    let mut table = [0; 32];
    for code in 0..=u8::MAX {
        let value = if code == search::MISSING { f64::NAN } else { f64::from(code) };
        if side_of_cast(sets, predicate, missing, value) == Side::Right {
            table[usize::from(code / 8)] |= 1 << (code % 8);
        }
    }
    fits.then_some(RankRule::Coded { rule: set.rule, table })
}

/// Columns whose values are fetched while as many columns before them are ranked.
const PREFETCHED: usize = 4;

impl<C: Compare> RankSources<C> {
    fn new(ranks: &Ranks) -> Self {
        let mut tables = Tables::new();
        let source = |column: &Column| {
            let by = match column.asks {
                ColumnKind::Thresholds { first, count } => {
                    let own = &ranks.thresholds()[first as usize..][..count as usize];
                    let narrowed: Vec<C> = own.iter().map(|t| C::threshold(t.0)).collect();
                    let missing = if column.missing == Side::Right { count } else { 0 };
                    RankRule::Count { table: tables.push(&narrowed), missing }
                }
                ColumnKind::Question { predicate: Predicate::LessZeroAside { threshold } } => {
                    RankRule::ZeroAside(ZeroAside::new(threshold.0, column.missing))
                }
                ColumnKind::Question { predicate } => coded(ranks.sets(), predicate, column.missing)
                    .unwrap_or(RankRule::Question { predicate, missing: column.missing }),
            };
            RankColumn { feature: column.feature, by }
        };
        let columns: Vec<RankColumn<C>> = ranks.columns().iter().map(source).collect();
        let below =
            |feature: usize| columns.partition_point(|column| (column.feature as usize) < feature) as u32;
        let firsts: Vec<u32> = (0..=ranks.features()).map(below).collect();
        let element = |source: &RankColumn<C>| match source.by {
            RankRule::Count { table, missing } => tables.element(table, missing),
            _ => ElementRank::Other,
        };
        let elements = columns.iter().map(element).collect();
        let search = |source: &RankColumn<C>| match source.by {
            RankRule::Count { table, missing: 0 } => tables.search(table, Missing::Least),
            RankRule::Count { table, .. } => tables.search(table, Missing::Most),
            _ => None,
        };
        let searches: Vec<Option<Search>> = columns.iter().map(search).collect();
        let column_searches = columns.iter().zip(&searches).zip(0..).filter_map(|((source, search), to)| {
            search.map(|search| ColumnSearch::new(search, source.feature, to))
        });
        let mut column_searches: Vec<ColumnSearch> = column_searches.collect();
        let mut searches_by_kernel = column_searches.clone();
        searches_by_kernel.sort_by_key(|column| column.search.kernel());
        ColumnSearch::count_runs(&mut searches_by_kernel);
        ColumnSearch::count_runs(&mut column_searches);
        Self { tables, columns, searches, firsts, elements, column_searches, searches_by_kernel }
    }

    /// Ranks row blocks from row `first` on, in the columns from `c` on, as long as these are searches and their
    /// values are adjacent. Returns the number of columns. `out` begins with the first row's rank in column 0.
    fn searched<T: Row + Read<C>, R: Rank>(
        &self,
        rows: &Rows<'_, T>,
        (first, row_blocks): (usize, usize),
        c: usize,
        out: &mut [R],
        distances: Distances,
    ) -> usize {
        let Some(out) = R::bytes(out) else { return 0 };
        let Some((values, between)) = rows.columns_of::<C, ROW_BLOCK>(first) else { return 0 };
        let Some(values) = C::singles(values) else { return 0 };
        let own =
            &self.column_searches[self.column_searches.partition_point(|column| (column.to as usize) < c)..];
        let last = row_blocks - 1;
        let fits = |column: &ColumnSearch| {
            column.from as usize * between + (last + 1) * ROW_BLOCK <= values.len()
                && last * distances.row_block + column.to as usize * distances.column + ROW_BLOCK <= out.len()
        };
        let those = own.iter().zip(c..).take_while(|(column, c)| column.to as usize == *c && fits(column));
        let own = &own[..those.count()];
        for (at, columns) in own.chunks(PREFETCHED).enumerate() {
            let ahead = own.iter().skip((at + 1) * PREFETCHED).take(PREFETCHED);
            for row_block in 0..row_blocks {
                // A few lines at a time: the processor waits if it has many to fetch.
                let first = first + row_block * ROW_BLOCK;
                ahead.clone().for_each(|column| rows.prefetch_column(first, column.from as usize, ROW_BLOCK));
                let values = Columns { of: &values[row_block * ROW_BLOCK..], apart: between };
                let out =
                    Columns { of: &mut out[row_block * distances.row_block..], apart: distances.column };
                if !self.tables.searched(columns, values, out) {
                    return 0;
                }
            }
        }
        own.len()
    }

    /// Returns the elements of a row block of sparse rows, and what they are ranked by.
    fn elements<'e, T, O>(
        &'e self,
        (matrix, rows): (&'e SparseMatrix<T>, Range<usize>),
        other: O,
        out: &'e mut [[u8; ROW_BLOCK]],
    ) -> Elements<'e, C, T, O> {
        let (thresholds, firsts) = (self.tables.groups(), &self.firsts);
        Elements { thresholds, firsts, ranks: &self.elements, matrix, rows, other, out }
    }

    /// Writes the ranks of up to four row blocks of values in column `c` of ranks, if it has a search and the machine a
    /// kernel for that. Otherwise returns `false`. The ranks of a row block begin `apart` bytes after those of the row
    /// block before.
    fn searched_together(&self, c: usize, values: &[C], out: &mut [u8], apart: usize) -> bool {
        let (Some(search), Some(values)) = (self.searches[c], C::singles(values)) else { return false };
        let row_blocks = values.len() / ROW_BLOCK;
        // One run: all of them take the same kernel.
        let searches: [_; ROW_BLOCKS_TOGETHER] = std::array::from_fn(|row_block| ColumnSearch {
            run: row_blocks.saturating_sub(row_block) as u32,
            ..ColumnSearch::new(search, row_block as u32, row_block as u32)
        });
        let searches = &searches[..row_blocks];
        let values = Columns { of: values, apart: ROW_BLOCK };
        self.tables.searched(searches, values, Columns { of: out, apart })
    }

    /// Writes the ranks of 64 values in column `c` as bytes, if the column has a kernel for that. Otherwise
    /// returns `false`. `coded` keeps the category codes of the last feature.
    fn bytes(
        &self,
        c: usize,
        values: &[C; ROW_BLOCK],
        coded: &mut Option<(u32, CategoryRule, CategoryBits)>,
        out: &mut [u8],
    ) -> bool {
        let mut room = [0; ROW_BLOCK];
        let whole = out.first_chunk_mut();
        let ranks = match whole {
            Some(ranks) => ranks,
            None => &mut room,
        };
        let source = &self.columns[c];
        match source.by {
            RankRule::Count { .. } => {
                let values = C::singles(values);
                let (Some(search), Some(values)) = (self.searches[c], values) else { return false };
                let values = Columns { of: values, apart: 0 };
                let ranks = Columns { of: &mut ranks[..], apart: 0 };
                if !self.tables.searched(&[ColumnSearch::new(search, 0, 0)], values, ranks) {
                    return false;
                }
            }
            RankRule::Coded { rule, table } => {
                let (feature, of, codes) =
                    coded.get_or_insert_with(|| (source.feature, rule, CategoryBits::new(rule, values)));
                if (*feature, *of) != (source.feature, rule) {
                    (*feature, *of, *codes) = (source.feature, rule, CategoryBits::new(rule, values));
                }
                kernels::bits(codes, &table, ranks);
            }
            RankRule::ZeroAside(question) => kernels::zero_aside(&question, values, ranks),
            RankRule::Question { .. } => return false,
        }
        if out.len() < ROW_BLOCK {
            out.copy_from_slice(&room[..out.len()]);
        }
        true
    }
}

impl RankSources<f32> {
    /// Decides how these sources rank rows one column block at a time.
    fn column_blocks(&self, ranks: &Ranks) -> ColumnBlocks {
        let column = |(c, column): (usize, &Column)| {
            let thresholds = match (self.searches[c], column.asks) {
                (Some(search), ColumnKind::Thresholds { first, count }) => {
                    let own = &ranks.thresholds()[first as usize..][..count as usize];
                    Some((search, own.iter().map(|t| f32::threshold(t.0)).collect()))
                }
                _ => None,
            };
            RankedColumn { feature: column.feature, thresholds }
        };
        ColumnBlocks::new(ranks.columns().iter().enumerate().map(column))
    }
}
