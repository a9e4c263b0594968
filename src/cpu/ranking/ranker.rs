//! Ranks rows on the CPU: 64 rows at a time, by column or by line of columns.

use std::{cell::RefCell, slice};

use super::{
    super::{
        Ranking,
        nodes::Compare,
        rows::{Read, Row, Rows},
    },
    column_blocks::{ColumnBlocks, RankedColumn},
    kernels,
    row_block::{ColumnBlockRoom, RowBlock},
    search::{self, BLOCK, CategoryBits, ColumnSearch, Columns, Missing, Search},
    tables::{Table, Tables},
};
use crate::{
    cost::Machine,
    error::{Error, Result},
    forest::{CategoryRule, CategorySet, CompareType, Predicate, Side, reference::side_of_cast},
    ranks::{Column, ColumnKind, Ranks, Width},
};

mod sealed {
    /// Keeps `Rank` to the two types that a ranker writes.
    pub trait Sealed: Sized {
        /// The ranks as bytes, if they are bytes.
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

/// A type ranks are stored in: `u8` or `u16`.
pub trait Rank:
    sealed::Sealed + Copy + Default + Into<u32> + Send + Sync + std::fmt::Debug + 'static
{
    /// Which of them.
    const WIDTH: Width;
    /// The low bits of a rank, which are all it has.
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

/// Ranks rows on the CPU: immutable and `Send + Sync`, no lock and no allocation on the way of a row.
#[derive(Clone, Debug)]
pub struct Ranker {
    width: Width,
    /// Columns of the rows.
    features: usize,
    /// Columns of ranks.
    columns: usize,
    sets: Vec<CategorySet>,
    singles: RankSources<f32>,
    /// How `f32` rows become ranks of a byte a line at a time.
    column_blocks: Option<ColumnBlocks>,
    /// For `f64` rows of a forest that compares there.
    doubles: Option<RankSources<f64>>,
}

/// How ranks come about in a type of compare.
#[derive(Clone, Debug)]
struct RankSources<C> {
    tables: Tables<C>,
    /// By rank column, those of a feature side by side.
    columns: Vec<RankColumn>,
    /// Those that are searches, …
    searches: Vec<Option<Search>>,
    /// … and these alone, which read the rows' columns.
    together: Vec<ColumnSearch>,
}

/// How a rank comes about.
#[derive(Clone, Copy, Debug)]
struct RankColumn {
    feature: u32,
    by: RankRule,
}

#[derive(Clone, Copy, Debug)]
enum RankRule {
    /// A count of thresholds; a missing value has the rank `missing`.
    Count {
        table: Table,
        missing: u32,
    },
    /// A category's bit in a table of 256.
    Coded {
        rule: CategoryRule,
        table: [u8; 32],
    },
    Question {
        predicate: Predicate,
        missing: Side,
    },
}

impl Ranker {
    /// What ranks rows of a forest.
    pub fn new(ranks: &Ranks) -> Self {
        Self::by(ranks, Ranking::Chosen)
    }

    /// The same by no other way than this.
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

    /// Bytes and columns of a ranked row.
    pub fn shape(&self) -> (Width, usize) {
        (self.width, self.columns)
    }

    /// Columns of thresholds, and of questions.
    pub(crate) fn columns(&self) -> (usize, usize) {
        let counts = |answer: &&RankColumn| matches!(answer.by, RankRule::Count { .. });
        let counted = self.singles.columns.iter().filter(counts).count();
        (counted, self.columns - counted)
    }

    /// Writes the ranks of rows into `out`, `rows x columns`, one row after the other.
    ///
    /// Rows are `f32` or `f64`, cast as the forest casts them before they are compared.
    ///
    /// # Errors
    /// Rows with another number of columns than the forest has features; `out` of another length, or of another type
    /// than the ranks' [`Width`].
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

    /// The same for any place of a rank: row `r`'s of column `c` is at `r * strides[0] + c * strides[1]`. Columns that
    /// lie apart (`strides[0] == 1`, `strides[1] >= 64`) are the quickest to write.
    ///
    /// # Errors
    /// Rows with another number of columns than the forest has features; strides that reach past `out`; `out` of another
    /// type than the ranks' [`Width`].
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
                "room for ranks of {given}, these are {width}; hand over {width}"
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
        match (&self.doubles, T::doubles(rows)) {
            (Some(answers), Some(rows)) => self.all(answers, rows, out, strides),
            _ => self.all(&self.singles, rows, out, strides),
        }
        Ok(())
    }

    /// The same for blocks of 64 rows, as bytes, column after column of 64 rows and block after block: what stands past the last row is
    /// somebody's rank.
    pub(crate) fn rank_blocks<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [u8]) -> Result<()> {
        let room = self.columns * BLOCK;
        let column_blocks = self
            .column_blocks
            .as_ref()
            .filter(|_| rows.columns() == self.features && out.len() >= rows.len().div_ceil(BLOCK) * room);
        let mut first = 0;
        while first < rows.len() {
            let out = &mut out[first / BLOCK * room..];
            let done = column_blocks.is_some_and(|column_blocks| {
                self.by_lines(column_blocks, rows, first, Machine::here().ranking.rows, (&mut *out, BLOCK))
            });
            if !done {
                self.rank_strided(&rows.slice(first, BLOCK), out, [1, BLOCK])?;
            }
            first += BLOCK;
        }
        Ok(())
    }

    fn all<T: Row + Read<C>, C: Compare, R: Rank>(
        &self,
        answers: &RankSources<C>,
        rows: &Rows<'_, T>,
        out: &mut [R],
        strides: [usize; 2],
    ) {
        let mut first = 0;
        let least = Machine::here().ranking.rows;
        let column_blocks = self.column_blocks.as_ref().filter(|_| strides[0] == 1 && strides[1] >= BLOCK);
        while first < rows.len() {
            let left = rows.len() - first;
            if let (Some(column_blocks), Some(out)) = (column_blocks, R::bytes(out))
                && self.by_lines(column_blocks, rows, first, BLOCK, (&mut out[first..], strides[1]))
            {
                first += BLOCK;
                continue;
            }
            if left >= least {
                self.some::<T, C, R, BLOCK>(answers, rows, first, out, strides);
                first += BLOCK.min(left);
            } else {
                self.some::<T, C, R, 1>(answers, rows, first, out, strides);
                first += 1;
            }
        }
    }

    /// Ranks `N` rows from `first` on, or as many as there are.
    fn some<T: Row + Read<C>, C: Compare, R: Rank, const N: usize>(
        &self,
        answers: &RankSources<C>,
        rows: &Rows<'_, T>,
        first: usize,
        out: &mut [R],
        strides: [usize; 2],
    ) {
        let count = N.min(rows.len() - first);
        let mut room = [C::NAN; N];
        let mut close = None;
        let mut coded: Option<(u32, CategoryRule, CategoryBits)> = None;
        let mut next = 0;
        while let Some(answer) = answers.columns.get(next) {
            let c = next;
            next += 1;
            if count == BLOCK && strides[0] == 1 && answers.searches[c].is_some() {
                let done = answers.searched(rows, first, c, &mut out[first..], strides[1]);
                if done > 0 {
                    next = c + done;
                    continue;
                }
            }
            let values = match rows.column(first, answer.feature as usize) {
                Some(values) => values,
                None => {
                    if close != Some(answer.feature) {
                        rows.read_column(first, answer.feature as usize, &mut room);
                        close = Some(answer.feature);
                    }
                    &room
                }
            };
            let begin = first * strides[0] + c * strides[1];
            self.one(answers, c, values, &mut coded, &mut out[begin..], (count, strides[0]));
        }
    }

    /// Writes what column `c` of ranks says of the first `count` values, `apart` from each other. `coded` keeps the categories of a
    /// feature.
    fn one<C: Compare, R: Rank, const N: usize>(
        &self,
        answers: &RankSources<C>,
        c: usize,
        values: &[C; N],
        coded: &mut Option<(u32, CategoryRule, CategoryBits)>,
        out: &mut [R],
        (count, apart): (usize, usize),
    ) {
        if apart == 1
            && let (Some(values), Some(out)) = (values.first_chunk(), R::bytes(out))
            && answers.bytes(c, values, coded, &mut out[..count])
        {
            return;
        }
        let mut ranks = [0u32; N];
        match answers.columns[c].by {
            RankRule::Count { table, missing } => {
                answers.tables.count(table, values, &mut ranks);
                for (rank, value) in ranks.iter_mut().zip(values) {
                    // Only NaN differs from itself, and no threshold is at most it.
                    #[allow(clippy::eq_op)]
                    let is_missing = *value != *value;
                    *rank |= if is_missing { missing } else { 0 };
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

    /// Writes the ranks of a block of rows from `first` on, as bytes, a line of the rows' columns at a time, if there are at least so
    /// many rows and their values follow each other. Somebody's ranks stand past the last row. Columns of ranks are `apart`.
    fn by_lines<T: Row>(
        &self,
        column_blocks: &ColumnBlocks,
        rows: &Rows<'_, T>,
        first: usize,
        least: usize,
        out: (&mut [u8], usize),
    ) -> bool {
        thread_local!(static ROOM: RefCell<ColumnBlockRoom> = const { RefCell::new(ColumnBlockRoom::NOTHING) });
        // Rows of one column lie there already.
        let rows = T::singles(rows).filter(|rows| rows.columns() > 1 && rows.len() >= first + least);
        let Some(block) = rows.and_then(|rows| RowBlock::new(rows, first, BLOCK)) else { return false };
        // Nothing in here hands over to another task of the thread.
        ROOM.with_borrow_mut(|room| self.in_room(column_blocks, &block, room, out));
        true
    }

    fn in_room(
        &self,
        column_blocks: &ColumnBlocks,
        rows: &RowBlock<'_>,
        room: &mut ColumnBlockRoom,
        (out, apart): (&mut [u8], usize),
    ) {
        // The codes of a feature are those of this block's rows.
        let mut coded = None;
        for column_block in column_blocks.iter() {
            let left = column_block.layered(rows, room, out, apart);
            if left.wanted == 0 {
                continue;
            }
            // A copy of it would be read before it has been written, which waits.
            rows.columns(slice::from_ref(&left), &mut room.columns.0);
            let values = Columns { of: &room.columns.0[..], apart: BLOCK };
            let searched = column_block.searched();
            let done = self.singles.tables.searched(searched, values, Columns { of: &mut *out, apart });
            let left = if done { &[] } else { searched };
            let left = left.iter().map(|of| (of.to, of.from));
            for (column, lane) in left.chain(column_block.others().iter().map(|of| (of.0, of.1.into()))) {
                let out = &mut out[column as usize * apart..][..BLOCK];
                let values = values.column(lane);
                self.one(&self.singles, column as usize, values, &mut coded, out, (BLOCK, 1));
            }
        }
    }
}

/// A question as a table of the codes that go right, where it has no other categories than those.
fn coded(sets: &[CategorySet], predicate: Predicate, missing: Side) -> Option<RankRule> {
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

impl<C: Compare> RankSources<C> {
    fn new(ranks: &Ranks) -> Self {
        let mut tables = Tables::new();
        let answer = |column: &Column| {
            let by = match column.asks {
                ColumnKind::Thresholds { first, count } => {
                    let own = &ranks.thresholds()[first as usize..][..count as usize];
                    let narrowed: Vec<C> = own.iter().map(|t| C::threshold(t.0)).collect();
                    let missing = if column.missing == Side::Right { count } else { 0 };
                    RankRule::Count { table: tables.push(&narrowed), missing }
                }
                ColumnKind::Question { predicate } => coded(ranks.sets(), predicate, column.missing)
                    .unwrap_or(RankRule::Question { predicate, missing: column.missing }),
            };
            RankColumn { feature: column.feature, by }
        };
        let columns: Vec<RankColumn> = ranks.columns().iter().map(answer).collect();
        let search = |answer: &RankColumn| match answer.by {
            RankRule::Count { table, missing: 0 } => tables.search(table, Missing::Least),
            RankRule::Count { table, .. } => tables.search(table, Missing::Most),
            _ => None,
        };
        let searches: Vec<Option<Search>> = columns.iter().map(search).collect();
        let together = columns.iter().zip(&searches).zip(0..).filter_map(|((answer, search), to)| {
            search.map(|search| ColumnSearch::new(search, answer.feature, to))
        });
        let mut together: Vec<ColumnSearch> = together.collect();
        ColumnSearch::count_runs(&mut together);
        Self { tables, columns, searches, together }
    }

    /// Ranks 64 rows from `first` on in the columns from `c` on, as far as these are searches and their values lie side by side; says
    /// in how many. Columns of ranks, of which the first is number 0, are `apart`.
    fn searched<T: Row + Read<C>, R: Rank>(
        &self,
        rows: &Rows<'_, T>,
        first: usize,
        c: usize,
        out: &mut [R],
        apart: usize,
    ) -> usize {
        let Some(out) = R::bytes(out) else { return 0 };
        let Some((values, between)) = rows.columns_of::<C, BLOCK>(first) else { return 0 };
        let Some(values) = C::singles(values) else { return 0 };
        let (values, out) = (Columns { of: values, apart: between }, Columns { of: out, apart });
        let own = &self.together[self.together.partition_point(|column| (column.to as usize) < c)..];
        let fits = |column: &ColumnSearch| {
            column.from as usize * between + BLOCK <= values.of.len()
                && column.to as usize * apart + BLOCK <= out.of.len()
        };
        let those = own.iter().zip(c..).take_while(|(column, c)| column.to as usize == *c && fits(column));
        let count = those.count();
        if self.tables.searched(&own[..count], values, out) { count } else { 0 }
    }

    /// Writes the ranks of a block of values as bytes, if a column has a way of its own for that. `coded` keeps the categories of a
    /// feature.
    fn bytes(
        &self,
        c: usize,
        values: &[C; BLOCK],
        coded: &mut Option<(u32, CategoryRule, CategoryBits)>,
        out: &mut [u8],
    ) -> bool {
        let mut room = [0; BLOCK];
        let whole = out.first_chunk_mut();
        let ranks = match whole {
            Some(ranks) => ranks,
            None => &mut room,
        };
        let answer = &self.columns[c];
        match answer.by {
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
                    coded.get_or_insert_with(|| (answer.feature, rule, CategoryBits::new(rule, values)));
                if (*feature, *of) != (answer.feature, rule) {
                    (*feature, *of, *codes) = (answer.feature, rule, CategoryBits::new(rule, values));
                }
                kernels::bits(codes, &table, ranks);
            }
            RankRule::Question { .. } => return false,
        }
        if out.len() < BLOCK {
            out.copy_from_slice(&room[..out.len()]);
        }
        true
    }
}

impl RankSources<f32> {
    /// How they come about a line of rows at a time.
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
