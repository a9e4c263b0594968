//! The data that ranks are computed from, and the kernels that search it.

use std::ops::Range;

use super::{
    super::{
        nodes::Compare,
        rows::{Read, Rows},
    },
    column_block::ROW_BLOCKS_TOGETHER,
    column_blocks::{ColumnBlocks, RankedColumn},
    elements::{ElementRank, Elements},
    kernels,
    search::{self, CategoryBits, ColumnSearch, Columns, Missing, ROW_BLOCK, Search, ZeroAside},
    tables::{Table, Tables},
};
use crate::{
    cpu::rows::Row,
    forest::{CategoryRule, CategorySet, Predicate, Side, reference::side_of_cast},
    ranks::{Column, ColumnKind, Ranks},
    sparse::SparseMatrix,
};

/// Columns whose values are fetched while as many columns before them are ranked.
pub(super) const PREFETCHED: usize = 4;

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
    pub(super) by: RankRule<C>,
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

/// The category codes of 64 values of a feature.
pub(super) struct CategoryCodes {
    /// The feature.
    feature: u32,
    /// The rule that turns its values into codes.
    rule: CategoryRule,
    /// The codes.
    bits: CategoryBits,
}

/// Distances between the ranks of neighbouring rows, columns and row blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distances {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) row_block: usize,
}

impl Distances {
    /// Returns the index of a row's first rank.
    pub(super) fn first_of(self, row: usize) -> usize {
        row / ROW_BLOCK * self.row_block + row % ROW_BLOCK * self.row
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

impl<C: Compare> RankSources<C> {
    pub(super) fn new(ranks: &Ranks) -> Self {
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

    /// Ranks some row blocks from row `first` on, in the columns from `c` on, as long as these are searches and their
    /// values are adjacent. Returns the number of columns. `out` begins with the first row's rank in column 0.
    pub(super) fn searched<T: Row + Read<C>>(
        &self,
        rows: &Rows<'_, T>,
        first: usize,
        row_blocks: usize,
        c: usize,
        out: &mut [u8],
        distances: Distances,
    ) -> usize {
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
    pub(super) fn elements<'e, T, O>(
        &'e self,
        matrix: &'e SparseMatrix<T>,
        rows: Range<usize>,
        other: O,
        out: &'e mut [[u8; ROW_BLOCK]],
    ) -> Elements<'e, C, T, O> {
        let (thresholds, firsts) = (self.tables.groups(), &self.firsts);
        Elements { thresholds, firsts, ranks: &self.elements, matrix, rows, other, out }
    }

    /// Writes the ranks of up to four row blocks of values in column `c` of ranks, if it has a search and the machine a
    /// kernel for that. Otherwise returns `false`. The ranks of a row block begin `apart` bytes after those of the row
    /// block before.
    pub(super) fn searched_together(&self, c: usize, values: &[C], out: &mut [u8], apart: usize) -> bool {
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
    pub(super) fn bytes(
        &self,
        c: usize,
        values: &[C; ROW_BLOCK],
        coded: &mut Option<CategoryCodes>,
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
                let of_feature =
                    || CategoryCodes { feature: source.feature, rule, bits: CategoryBits::new(rule, values) };
                let codes = coded.get_or_insert_with(of_feature);
                if (codes.feature, codes.rule) != (source.feature, rule) {
                    *codes = of_feature();
                }
                kernels::bits(&codes.bits, &table, ranks);
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
    pub(super) fn column_blocks(&self, ranks: &Ranks) -> ColumnBlocks {
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
