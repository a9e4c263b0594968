//! Turns the columns of a row into ranks, one column block at a time: some columns are compared where they
//! lie in the row, the others are copied and searched.
//!
//! The copy of a column block of 64 rows takes the same time whether one column is wanted or all sixteen. A
//! column with one threshold needs no copy: one compare finds, for sixteen columns of a row, which of their
//! values reach their thresholds. A column with more thresholds takes one such compare for each threshold.
//! The method with the least [cost](crate::cost) is chosen for each column block.

use super::{
    super::cache_line::CacheLine,
    column_block::{BLOCK_COLUMNS, ColumnBlock, MOST_LAYERS},
    row_block::{ColumnBlockRoom, RowBlock},
    search::{ColumnSearch, Columns, LayeredColumn, Missing, Search},
};
use crate::cost::{self, Machine};

/// Distance of a prefetch, in column blocks.
const AHEAD: usize = 2;

/// A column of ranks, and the feature that it ranks.
#[derive(Clone, Debug)]
pub(super) struct RankedColumn {
    pub(super) feature: u32,
    /// The binary search, and the ascending, finite thresholds that it searches. `None` if the column has no
    /// such search.
    pub(super) thresholds: Option<(Search, Vec<f32>)>,
}

impl RankedColumn {
    /// Whether the column is ranked in layers, given how many thresholds such a column may have.
    fn in_layers(&self, most: Layering) -> bool {
        self.thresholds.as_ref().is_some_and(|(search, own)| own.len() <= most[search.missing as usize])
    }
}

/// How column blocks are ranked: which columns are ranked in layers, which are searched, and which are
/// neither.
#[derive(Clone, Debug)]
pub(super) struct ColumnBlocks {
    column_blocks: Vec<Entry>,
    /// The layers of all column blocks.
    layers: Vec<CacheLine<[f32; BLOCK_COLUMNS]>>,
    layered: Vec<LayeredColumn>,
    /// Columns of ranks that are searched. Each reads one of the sixteen columns of its column block.
    searched: Vec<ColumnSearch>,
    /// Columns of ranks that take neither layers nor a search: the column of ranks, and the column of the
    /// rows within its column block.
    others: Vec<(u32, u8)>,
}

/// One column block, and its ranges in the lists of [`ColumnBlocks`].
#[derive(Clone, Debug)]
struct Entry {
    column_block: ColumnBlock,
    sheets: [LayerGroup; 2],
    searched: (u32, u32),
    others: (u32, u32),
}

/// The layers of the columns whose missing values have the same rank: the ranges of the layers and of their
/// columns.
#[derive(Clone, Copy, Debug, Default)]
struct LayerGroup {
    layers: (u32, u32),
    columns: (u32, u32),
}

const MISSING: [Missing; 2] = [Missing::Least, Missing::Most];

/// Seconds that a row block takes for the columns of one column block, if columns with few thresholds are
/// `layered`.
fn seconds(costs: &cost::ColumnBlock, columns: &[(u32, RankedColumn)], layered: Layering) -> f64 {
    let mut layers = [0; 2];
    let mut seconds = 0.0;
    let mut copied = false;
    for (_, column) in columns {
        match &column.thresholds {
            Some((search, own)) if column.in_layers(layered) => {
                let layers: &mut usize = &mut layers[search.missing as usize];
                *layers = own.len().max(*layers);
                seconds += costs.threshold * own.len() as f64;
            }
            Some((search, _)) => {
                seconds += costs.search + costs.level * f64::from(search.levels);
                copied = true;
            }
            None => copied = true,
        }
    }
    seconds + costs.layer * layers.iter().sum::<usize>() as f64 + if copied { costs.copy } else { 0.0 }
}

/// Returns the fastest layering of the columns of one column block.
fn best(costs: &cost::ColumnBlock, columns: &[(u32, RankedColumn)]) -> Layering {
    let layerings = (0..=MOST_LAYERS).flat_map(|least| (0..=MOST_LAYERS).map(move |most| [least, most]));
    let seconds = |layering: &Layering| seconds(costs, columns, *layering);
    layerings.min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap_or_default()
}

/// How many thresholds a column may have to be ranked in layers, indexed by [`Missing`].
type Layering = [usize; 2];

impl ColumnBlocks {
    /// Groups columns of ranks, which come in the order of their features, into column blocks. Chooses the
    /// fastest layering for each.
    pub(super) fn new(columns: impl Iterator<Item = RankedColumn>) -> Self {
        let columns: Vec<(u32, RankedColumn)> = (0..).zip(columns).collect();
        let mut new = Self {
            column_blocks: Vec::new(),
            layers: Vec::new(),
            layered: Vec::new(),
            searched: Vec::new(),
            others: Vec::new(),
        };
        let costs = Machine::here().ranking.column_block;
        for column_block in
            columns.chunk_by(|a, b| a.1.feature / BLOCK_COLUMNS as u32 == b.1.feature / BLOCK_COLUMNS as u32)
        {
            new.push(column_block, costs.map_or_else(Layering::default, |costs| best(&costs, column_block)));
        }
        ColumnBlock::prefetch_ahead(new.column_blocks.iter_mut().map(|entry| &mut entry.column_block), AHEAD);
        new
    }

    /// Adds a column block with the given layering.
    fn push(&mut self, columns: &[(u32, RankedColumn)], layered: Layering) {
        let first = columns[0].1.feature / BLOCK_COLUMNS as u32 * BLOCK_COLUMNS as u32;
        let lane = |of: &RankedColumn| (of.feature - first) as u8;
        let mut column_block = ColumnBlock { first, wanted: 0, ahead: None };
        let sheets = MISSING.map(|missing| {
            let mut own: Vec<_> = columns
                .iter()
                .filter_map(|(column, of)| {
                    let (search, thresholds) = of.thresholds.as_ref().filter(|_| of.in_layers(layered))?;
                    (search.missing == missing).then_some((*column, lane(of), thresholds))
                })
                .collect();
            // Columns with equally many thresholds stand side by side, so that branches on that number
            // repeat.
            own.sort_by_key(|(.., thresholds)| thresholds.len());
            let begins = (self.layers.len() as u32, self.layered.len() as u32);
            for j in 0..own.last().map_or(0, |(.., thresholds)| thresholds.len()) {
                let mut layer = [f32::NAN; BLOCK_COLUMNS];
                for (_, lane, thresholds) in own.iter().filter(|(.., thresholds)| j < thresholds.len()) {
                    debug_assert!(layer[usize::from(*lane)].is_nan(), "a feature has one such column a side");
                    layer[usize::from(*lane)] = thresholds[j];
                }
                self.layers.push(CacheLine(layer));
            }
            let layered = |(column, lane, thresholds): (u32, u8, &Vec<f32>)| LayeredColumn {
                column,
                lane,
                count: thresholds.len() as u8,
            };
            self.layered.extend(own.into_iter().map(layered));
            LayerGroup {
                layers: (begins.0, self.layers.len() as u32),
                columns: (begins.1, self.layered.len() as u32),
            }
        });
        let begins = (self.searched.len() as u32, self.others.len() as u32);
        for (column, of) in columns {
            match &of.thresholds {
                Some(_) if of.in_layers(layered) => continue,
                Some((search, _)) => self.searched.push(ColumnSearch::new(*search, lane(of).into(), *column)),
                None => self.others.push((*column, lane(of))),
            }
            column_block.wanted |= 1 << lane(of);
        }
        // Columns that take the same kernel stand side by side: the kernel is called once for a run of
        // columns, and ranks them two at a time.
        let own = &mut self.searched[begins.0 as usize..];
        own.sort_by_key(|column| column.search.kernel());
        ColumnSearch::count_runs(own);
        let searched = (begins.0, self.searched.len() as u32);
        let others = (begins.1, self.others.len() as u32);
        self.column_blocks.push(Entry { column_block, sheets, searched, others });
    }

    /// The column blocks in the order of their columns.
    pub(super) fn iter(&self) -> impl Iterator<Item = ColumnBlockRef<'_>> {
        self.column_blocks.iter().map(|entry| ColumnBlockRef { of: self, entry })
    }
}

/// One column block, with the columns of ranks that it serves.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnBlockRef<'l> {
    of: &'l ColumnBlocks,
    entry: &'l Entry,
}

impl<'l> ColumnBlockRef<'l> {
    /// Ranks the columns that are compared where they lie. Returns the column block, whose `wanted` columns
    /// are still to be copied.
    pub(super) fn layered(
        &self,
        rows: &RowBlock<'_>,
        room: &mut ColumnBlockRoom,
        out: &mut [u8],
        apart: usize,
    ) -> ColumnBlock {
        let mut column_block = self.entry.column_block;
        // The arrays are borrowed. An array that is moved into an iterator is loaded as a whole before the
        // stores of its elements have completed, and the load waits for these stores.
        for (sheet, missing) in self.entry.sheets.iter().zip(&MISSING) {
            let columns = within(&self.of.layered, sheet.columns);
            if !columns.is_empty() {
                let layers = within(&self.of.layers, sheet.layers);
                let out = Columns { of: &mut *out, apart };
                rows.layered(column_block, layers, *missing, columns, room, out);
                column_block.ahead = None;
            }
        }
        column_block
    }

    /// The columns of ranks that are searched.
    pub(super) fn searched(&self) -> &'l [ColumnSearch] {
        within(&self.of.searched, self.entry.searched)
    }

    /// The columns of ranks that take neither layers nor a search.
    pub(super) fn others(&self) -> &'l [(u32, u8)] {
        within(&self.of.others, self.entry.others)
    }
}

fn within<T>(all: &[T], (begin, end): (u32, u32)) -> &[T] {
    &all[begin as usize..end as usize]
}

#[cfg(test)]
mod tests {
    use crate::{
        cpu::{
            Ranker, Rows,
            ranking::{column_block::BLOCK_COLUMNS, search::ROW_BLOCK},
        },
        forest::{Forest, Predicate, Real, Side},
        ranks::{Choice, ColumnKind, Ranks},
    };

    /// Features with their number of thresholds, and the side of missing values.
    type Columns = Vec<(u32, u32, Side)>;

    /// Row blocks with fewer than 64 rows, and features with a few more thresholds than a column of ranks
    /// holds.
    #[test]
    fn blocks_are_ranked_as_rows_are() {
        let mixed = |feature: u32| {
            let side = if feature.is_multiple_of(3) { Side::Right } else { Side::Left };
            (feature, [1, 2, 0, 256, 7, 1, 258, 1][feature as usize % 8], side)
        };
        let forests: [(u32, Columns); 6] = [
            (2, (0..2).map(mixed).collect()),
            (16, (0..16).map(mixed).collect()),
            (19, (0..19).map(mixed).collect()),
            (35, (0..35).map(mixed).collect()),
            // Layers rank a whole column block, whose last column has the fewest thresholds.
            (16, (0..16).map(|f| (f, [2, 1][f as usize % 2], Side::Left)).collect()),
            // Two adjacent columns of ranks are of features that are far apart.
            (300, vec![(1, 3, Side::Left), (256, 3, Side::Left)]),
        ];
        for (features, of_features) in forests {
            let mut builder = Forest::builder(features as usize, 1);
            for (feature, thresholds, side) in of_features {
                for k in 0..thresholds {
                    let threshold = Predicate::Less { threshold: Real(f64::from(k) - 3.0) };
                    let mut tree = builder.tree(0);
                    tree.split(feature, threshold, side, 1, 2);
                    tree.leaf(1, &[1.0]);
                    tree.leaf(2, &[2.0]);
                }
            }
            let ranks = Ranks::new(&builder.build().expect("stumps"), Choice::U8).expect("ranks");
            let (ranker, columns) = (Ranker::new(&ranks), ranks.columns().len());
            for count in [1, 15, 16, 17, 40, 63, 64] {
                let value =
                    |i: usize| if i.is_multiple_of(13) { f32::NAN } else { (i * 7919 % 263) as f32 - 4.0 };
                let values: Vec<f32> = (0..count * features as usize).map(value).collect();
                let rows = Rows::new(&values, features as usize).expect("rows");
                let mut expected = vec![0u8; count * columns];
                ranker.rank(&rows, &mut expected).expect("room for all");
                let mut found = vec![0xee; columns * ROW_BLOCK];
                ranker.rank_blocks(&rows, &mut found).expect("room for all");
                for (i, rank) in expected.iter().enumerate() {
                    let (r, c) = (i / columns, i % columns);
                    assert_eq!(
                        found[c * ROW_BLOCK + r],
                        *rank,
                        "row {r} of {count}, column {c} of {columns}"
                    );
                }
            }
        }
    }

    /// Values on, next to and between thresholds. Missing values with either rank. Thresholds that are
    /// spread, clustered, whole numbers, or far from 0.
    #[test]
    fn lines_rank_as_thresholds_are_counted() {
        // Three column blocks: missing values have the least rank, the greatest rank, or either.
        const FEATURES: usize = 48;
        let spread = |f: usize, k: usize| ((k * k + 31 * k + f) as f32).sqrt() * 1.7 - 40.0;
        let threshold = |f: usize, k: usize| match f % 6 {
            0 | 1 => spread(f, k),
            2 => k as f32 * 3.0 - 100.0,
            3 if k.is_multiple_of(5) => spread(f, k),
            3 => spread(f, k - k % 5) + (k % 5) as f32 * 1e-5,
            4 => 4096.0 + spread(f, k),
            _ => (spread(f, k) / 90.0).exp(),
        };
        let count = |f: usize| [90, 200, 120, 60, 254, 300][f % 6] - f / 6;
        let mut builder = Forest::builder(FEATURES, 1);
        for f in 0..FEATURES {
            for k in 0..count(f) {
                let right = [false, true, (f + f / 6 * k) % 3 == 1][f / BLOCK_COLUMNS];
                let side = if right { Side::Right } else { Side::Left };
                let threshold = Predicate::Less { threshold: Real(threshold(f, k).into()) };
                let mut tree = builder.tree(0);
                tree.split(f as u32, threshold, side, 1, 2);
                tree.leaf(1, &[1.0]);
                tree.leaf(2, &[2.0]);
            }
        }
        let ranks = Ranks::new(&builder.build().expect("stumps"), Choice::U8).expect("ranks");
        let (ranker, columns) = (Ranker::new(&ranks), ranks.columns().len());
        // Some values lie on a threshold or just above it. In every fourth row block the remaining values lie
        // just below one.
        let value = |i: usize| {
            let (r, f) = (i / FEATURES, i % FEATURES);
            let own = threshold(f, (r * 7919 + f) % count(f));
            match (r * 31 + f * 17) % 64 {
                0 => f32::NAN,
                1 => f32::INFINITY,
                2 => f32::NEG_INFINITY,
                3 => f32::MAX,
                4 => -0.0,
                5 => own.next_up(),
                6 => own,
                _ if r / ROW_BLOCK % 4 == 3 => own.next_down(),
                _ => own + spread(f, r) * 0.01,
            }
        };
        let all: Vec<f32> = (0..16 * ROW_BLOCK * FEATURES).map(value).collect();
        for (first, count) in
            [(0, 16 * ROW_BLOCK), (64, 64), (5, 65), (9, 127), (1, 129), (100, 150), (192, 17)]
        {
            let values = &all[first * FEATURES..][..count * FEATURES];
            let rows = Rows::new(values, FEATURES).expect("rows");
            let mut found = vec![0xee; columns * count.next_multiple_of(ROW_BLOCK)];
            ranker.rank_blocks(&rows, &mut found).expect("room for all");
            let mut strided = vec![0xee; columns * count];
            ranker.rank_strided(&rows, &mut strided, [1, count]).expect("room for all");
            // The same rows, column by column.
            let apart: Vec<f32> =
                (0..values.len()).map(|i| values[i % count * FEATURES + i / count]).collect();
            let apart = Rows::strided(&apart, [count, FEATURES], [1, count]).expect("rows");
            let mut blocks_apart = vec![0xee; found.len()];
            ranker.rank_blocks(&apart, &mut blocks_apart).expect("room for all");
            for (i, value) in values.iter().enumerate() {
                let (r, f) = (i / FEATURES, i % FEATURES);
                let of_feature = ranks.columns().iter().enumerate().filter(|(_, c)| c.feature as usize == f);
                for (c, column) in of_feature {
                    let ColumnKind::Thresholds { first, count: own } = column.asks else { unreachable!() };
                    let own = &ranks.thresholds()[first as usize..][..own as usize];
                    let expected = match value.is_nan() {
                        true if column.missing == Side::Right => own.len(),
                        true => 0,
                        false => own.partition_point(|t| t.0 <= f64::from(*value)),
                    };
                    let rank = found[(r / ROW_BLOCK * columns + c) * ROW_BLOCK + r % ROW_BLOCK];
                    assert_eq!(usize::from(rank), expected, "{value:e} in row {r} of {count}, column {c}");
                    assert_eq!(strided[c * count + r], rank, "{value:e} in row {r} of {count}, column {c}");
                    let apart = blocks_apart[(r / ROW_BLOCK * columns + c) * ROW_BLOCK + r % ROW_BLOCK];
                    assert_eq!(apart, rank, "{value:e} in row {r} of {count}, column {c}, columns apart");
                }
            }
        }
    }
}
