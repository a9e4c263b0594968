//! Ranks the elements that sparse rows hold, one by one. All other elements of a column have the same rank.
//!
//! The thresholds of a column are at most 16 groups of 16. One compare of a value with the last threshold of each group
//! tells its group, and one with the group's thresholds its rank. No branch depends on a value.

use std::ops::Range;

use super::{
    super::{arch::CountingLoops, nodes::Compare, rows::Read},
    count::FAN,
    search::ROW_BLOCK,
};
use crate::sparse::SparseMatrix;

/// Elements of a row that are listed before they are ranked.
const LISTED: usize = 64;

/// How one element ranks in a column of ranks.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) enum ElementRank {
    /// It counts the thresholds of a table of at most two levels.
    Count {
        /// The index of the group of the thresholds that end a group, or of a group of NaN if there is one group.
        root: u32,
        /// The index of the first group.
        groups: u32,
        /// The rank of a missing value.
        missing: u8,
    },
    /// It takes another rule.
    Other,
}

/// A row block of sparse rows, and what their elements are ranked by.
pub(in crate::cpu) struct Elements<'e, C, T, O> {
    /// The thresholds of all columns.
    pub(super) thresholds: &'e [[C; FAN]],
    /// By column of the rows, the number of its first column of ranks; then the number of all columns of ranks.
    pub(super) firsts: &'e [u32],
    /// By column of ranks.
    pub(super) ranks: &'e [ElementRank],
    pub(super) matrix: &'e SparseMatrix<T>,
    /// The rows, at most 64.
    pub(super) rows: Range<usize>,
    /// Returns the rank of a value in a column of ranks with another rule.
    pub(super) other: O,
    /// The ranks, `[column of ranks][row]`.
    pub(super) out: &'e mut [[u8; ROW_BLOCK]],
}

impl<C: Compare, T: Read<C> + Copy + Default + PartialEq, O: Fn(usize, C) -> u8> Elements<'_, C, T, O> {
    /// Returns the rank of a value in a column of ranks.
    #[inline(always)]
    fn rank_of(&self, at_most: &impl Fn(&[C; FAN], C) -> u32, c: usize, value: C) -> u8 {
        match self.ranks[c] {
            ElementRank::Count { root, groups, missing } => {
                let group = at_most(&self.thresholds[root as usize], value);
                let within = at_most(&self.thresholds[(groups + group) as usize], value);
                // Only NaN differs from itself. No threshold is at most NaN, so its count is 0.
                #[allow(clippy::eq_op)]
                let missing = if value != value { missing } else { 0 };
                (group * FAN as u32 + within) as u8 | missing
            }
            ElementRank::Other => (self.other)(c, value),
        }
    }

    /// Ranks the elements. `at_most` returns how many thresholds of a group are at most a value.
    #[inline(always)]
    pub(super) fn rank(self, at_most: impl Fn(&[C; FAN], C) -> u32) {
        // The column of ranks and the value of each element to be ranked. Most columns of rows have none, one or two
        // columns of ranks, which no branch depends on.
        let mut listed = [(0, C::NAN); 2 * LISTED];
        for (row, of_matrix) in self.rows.clone().take(ROW_BLOCK).enumerate() {
            let (columns, values) = self.matrix.elements_of(of_matrix);
            for (columns, values) in columns.chunks(LISTED).zip(values.chunks(LISTED)) {
                let mut length = 0;
                for (column, value) in columns.iter().zip(values) {
                    let column = *column as usize;
                    let (first, end) = (self.firsts[column] as usize, self.firsts[column + 1] as usize);
                    let value = value.read();
                    for c in first + 2..end {
                        self.out[c][row] = self.rank_of(&at_most, c, value);
                    }
                    if let Some(next) = listed[length..].first_chunk_mut() {
                        *next = [(first, value), (first + 1, value)];
                    }
                    length += (end - first).min(2);
                }
                for (c, value) in &listed[..length] {
                    self.out[*c][row] = self.rank_of(&at_most, *c, *value);
                }
            }
        }
    }
}

impl<T: Read<f32> + Copy + Default + PartialEq, O: Fn(usize, f32) -> u8> CountingLoops
    for Elements<'_, f32, T, O>
{
    #[inline(always)]
    fn run(self, at_most: impl Fn(&[f32; FAN], f32) -> u32) {
        self.rank(at_most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::{ColumnReader, CompressedColumns, Ranker, Rows},
        forest::{CategoryRule, CompareType, Forest, Predicate, Real, Side},
        ranks::{Choice, Ranks},
    };

    // Nine columns with each number of thresholds, so there are eight searches with each kernel and some more.
    const FEATURES: usize = 90;

    /// Returns stumps that ask for thresholds: none, few, or more than one column of ranks counts, on one missing side
    /// or on both. Some ask questions.
    fn forest(compare: CompareType) -> Forest {
        let mut builder = Forest::builder(FEATURES, 1);
        let set = builder.set([1, 2, 5, 40], CategoryRule::NotNegative);
        let mut stump = |feature: usize, predicate: Predicate, missing: Side| {
            let mut tree = builder.tree(0);
            tree.split(feature as u32, predicate, missing, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[2.0]);
        };
        for feature in 0..FEATURES {
            let count = [0, 1, 2, 15, 16, 17, 31, 255, 256, 600][feature % 10];
            for k in 0..count {
                let sides = [Side::Left, Side::Right];
                let missing = sides[[0, 1, k % 2][feature % 3]];
                let t = f64::from(k as f32 * 0.37 - 20.0);
                stump(feature, Predicate::Less { threshold: Real(t) }, missing);
            }
            match feature {
                10 => stump(feature, Predicate::InSet { set, inside: Side::Left }, Side::Right),
                20 => stump(feature, Predicate::LessZeroAside { threshold: Real(-0.5) }, Side::Left),
                21 => stump(feature, Predicate::Equal { value: Real(1.5) }, Side::Right),
                31 => stump(feature, Predicate::Less { threshold: Real(f64::INFINITY) }, Side::Left),
                32 => stump(feature, Predicate::Less { threshold: Real(f64::NEG_INFINITY) }, Side::Right),
                _ => {}
            }
        }
        let mut forest = builder.build().expect("stumps");
        forest.compare = compare;
        forest
    }

    /// A table of doubles, column by column.
    struct Table<'t> {
        columns: &'t [Vec<f64>],
        lends: bool,
    }

    impl ColumnReader<f64> for Table<'_> {
        fn read(&self, column: usize, first: usize, into: &mut [f64]) {
            into.copy_from_slice(&self.columns[column][first..][..into.len()]);
        }
        fn lend(&self, column: usize, first: usize, count: usize) -> Option<&[f64]> {
            self.columns[column].get(first..first + count).filter(|_| self.lends)
        }
        fn prefetch(&self, _: usize, _: usize, _: usize) {}
    }

    impl ColumnReader<f32> for Table<'_> {
        fn read(&self, column: usize, first: usize, into: &mut [f32]) {
            let values = &self.columns[column][first..];
            into.iter_mut().zip(values).for_each(|(into, value)| *into = *value as f32);
        }
        fn lend(&self, _: usize, _: usize, _: usize) -> Option<&[f32]> {
            None
        }
        fn prefetch(&self, _: usize, _: usize, _: usize) {}
    }

    /// Elements alone, columns alone and compressed columns have the ranks of the same rows written out.
    #[test]
    fn elements_and_columns_rank_as_rows_do() {
        let mut compressed = CompressedColumns::default();
        let mut seed = 7u64;
        let mut below = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % limit
        };
        for compare in [CompareType::F32, CompareType::F64] {
            let ranks = Ranks::new(&forest(compare), Choice::U8).expect("ranks");
            let (ranker, columns) = (Ranker::new(&ranks), ranks.columns().len());
            for (count, most) in
                [(1usize, 100), (63, 20), (64, 100), (65, 50), (200, 30), (256, 100), (300, 10)]
            {
                for absent in [0.0, f64::NAN] {
                    let mut dense = vec![absent; count * FEATURES];
                    let (mut offsets, mut indices, mut held) = (vec![0], Vec::new(), Vec::new());
                    for row in 0..count {
                        let density = [most / 3, most, 5, 0][row % 4];
                        for column in (0..FEATURES).filter(|_| below(100) < density).collect::<Vec<_>>() {
                            let threshold = f64::from(below(620) as f32 * 0.37 - 20.0);
                            let value = match below(12) {
                                0 => f64::NAN,
                                1 => f64::INFINITY,
                                2 => f64::NEG_INFINITY,
                                3 => -0.0,
                                4 => below(42) as f64,
                                // Only a compare of doubles tells these from their thresholds.
                                5 => threshold - 1e-12,
                                6 => f64::from((threshold as f32).next_down()),
                                _ => threshold,
                            };
                            dense[row * FEATURES + column] = value;
                            indices.push(column as u32);
                            held.push(value);
                        }
                        offsets.push(held.len());
                    }
                    let in_columns: Vec<Vec<f64>> = (0..FEATURES)
                        .map(|column| dense[column..].iter().step_by(FEATURES).copied().collect())
                        .collect();
                    let mut expected = vec![0u8; count * columns];
                    ranker.rank(&Rows::new(&dense, FEATURES).expect("rows"), &mut expected).expect("room");
                    let check = |expected: &[u8], found: &[u8], what: &str| {
                        for (i, rank) in expected.iter().enumerate() {
                            let (row, c) = (i / columns, i % columns);
                            let at = (row / ROW_BLOCK * columns + c) * ROW_BLOCK + row % ROW_BLOCK;
                            assert_eq!(
                                found[at], *rank,
                                "{what}, {compare:?}, row {row} of {count}, column {c}"
                            );
                        }
                    };
                    let room = vec![0xee; count.div_ceil(ROW_BLOCK) * ROW_BLOCK * columns];
                    for lends in [false, true] {
                        let (mut out, table) = (room.clone(), Table { columns: &in_columns, lends });
                        match compare {
                            CompareType::F64 => ranker.rank_wide_columns(&table, count, &mut out),
                            CompareType::F32 => ranker.rank_columns(&table, count, &mut out),
                        }
                        check(&expected, &out, "columns");
                    }
                    let arrays = (offsets.clone(), indices.clone());
                    let matrix = SparseMatrix::new([count, FEATURES], offsets, indices, held).expect("rows");
                    let mut of_absent = vec![0; columns];
                    let row = [absent; FEATURES];
                    ranker.rank(&Rows::new(&row, FEATURES).expect("a row"), &mut of_absent).expect("room");
                    let mut out = room;
                    for (first, out) in (0..count).step_by(ROW_BLOCK).zip(out.chunks_mut(ROW_BLOCK * columns))
                    {
                        let rows = first..count.min(first + ROW_BLOCK);
                        ranker.rank_elements(&matrix, &of_absent, rows, out);
                    }
                    check(&expected, &out, "elements");
                    // The same elements in singles, which every forest takes.
                    let singles: Vec<f32> = dense.iter().map(|value| *value as f32).collect();
                    ranker.rank(&Rows::new(&singles, FEATURES).expect("rows"), &mut expected).expect("room");
                    let elements = (0..count).flat_map(|row| matrix.row(row));
                    let held = elements.map(|(_, value)| value as f32).collect();
                    let (offsets, indices) = arrays;
                    let matrix = SparseMatrix::new([count, FEATURES], offsets, indices, held).expect("rows");
                    let row = row.map(|value| value as f32);
                    ranker.rank(&Rows::new(&row, FEATURES).expect("a row"), &mut of_absent).expect("room");
                    for (first, out) in (0..count).step_by(ROW_BLOCK).zip(out.chunks_mut(ROW_BLOCK * columns))
                    {
                        ranker.rank_elements(&matrix, &of_absent, first..count.min(first + ROW_BLOCK), out);
                    }
                    check(&expected, &out, "elements in singles");
                    if !ranker.compresses::<f32>() {
                        continue;
                    }
                    out.fill(0xee);
                    for (first, out) in (0..count).step_by(ROW_BLOCK).zip(out.chunks_mut(ROW_BLOCK * columns))
                    {
                        let rows = first..count.min(first + ROW_BLOCK);
                        ranker.rank_compressed((&matrix, rows), (row[0], &of_absent), &mut compressed, out);
                    }
                    check(&expected, &out, "compressed columns");
                }
            }
        }
    }
}
