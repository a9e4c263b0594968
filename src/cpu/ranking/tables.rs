//! Counts, for many values at once, the thresholds that are less than or equal to each value.
//!
//! A sorted table is a tree of groups of sixteen thresholds. All values of a row block are compared with the
//! root's thresholds together, a vector of rows at a time. Below the root, each value is compared with the
//! one group it belongs to, a vector of thresholds at a time. No branch depends on a value.

use super::{
    super::{cache_line::CacheLine, nodes::Compare},
    count::{FAN, count_at_most},
    elements::ElementRank,
    kernels::ranks,
    search::{ColumnSearch, Columns, Missing, Search, lay_out},
};

/// The index of a group without a threshold.
const NO_THRESHOLDS: u32 = 0;

/// Levels of the largest table.
const MOST_LEVELS: usize = 4;

/// The thresholds of many columns.
#[derive(Clone, Debug)]
pub(super) struct Tables<C> {
    /// The groups of all tables. Entries past a level's last threshold hold NaN, which no compare counts.
    groups: Vec<[C; FAN]>,
    /// The pivots of all binary searches.
    pivots: Vec<CacheLine<[f32; FAN]>>,
}

/// The thresholds of one column, in [`Tables`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// The index of each level's first group, the root's level first.
    levels: [u32; MOST_LEVELS],
    depth: u8,
    /// The number of thresholds in the root.
    root: u8,
    /// The binary search of the same thresholds. Only a table of at most 255 thresholds in `f32`, all finite,
    /// has one.
    pivots: Option<Search>,
}

impl<C: Compare> Tables<C> {
    pub(super) fn new() -> Self {
        Self { groups: vec![[C::NAN; FAN]], pivots: Vec::new() }
    }

    /// Adds a table of ascending thresholds, at most 65 535. NaN may stand at their end.
    pub(super) fn push(&mut self, thresholds: &[C]) -> Table {
        let mut table = Table { levels: [0; MOST_LEVELS], depth: 0, root: 0, pivots: None };
        table.pivots = C::singles(thresholds).and_then(|own| lay_out(own, &mut self.pivots));
        let mut level = thresholds.to_vec();
        loop {
            let begin = self.groups.len();
            table.levels.rotate_right(1);
            table.levels[0] = begin as u32;
            table.depth += 1;
            self.groups.extend(level.chunks(FAN).map(|chunk| {
                let mut group = [C::NAN; FAN];
                group[..chunk.len()].copy_from_slice(chunk);
                group
            }));
            if level.len() <= FAN {
                table.root = level.len() as u8;
                return table;
            }
            // A value at or above a group's last threshold belongs to a later group. No group comes after the
            // last one, so the level above needs no copy of its last threshold.
            level = self.groups[begin..self.groups.len() - 1].iter().map(|group| group[FAN - 1]).collect();
        }
    }

    /// Returns how one element ranks in a table's column, whose missing values have the rank `missing`.
    pub(super) fn element(&self, table: Table, missing: u32) -> ElementRank {
        let [root, groups, ..] = table.levels;
        let missing = u8::try_from(missing);
        match (table.depth, missing) {
            (_, Ok(missing)) if table.root == 0 => {
                ElementRank::Count { root: NO_THRESHOLDS, groups: NO_THRESHOLDS, missing }
            }
            (1, Ok(missing)) => ElementRank::Count { root: NO_THRESHOLDS, groups: root, missing },
            (2, Ok(missing)) => ElementRank::Count { root, groups, missing },
            _ => ElementRank::Other,
        }
    }

    /// Returns the thresholds of all tables, in groups.
    pub(super) fn groups(&self) -> &[[C; FAN]] {
        &self.groups
    }

    /// Returns the binary search of a table, if it has one, with the given rank for missing values.
    pub(super) fn search(&self, table: Table, missing: Missing) -> Option<Search> {
        table.pivots.map(|search| search.with_missing(missing))
    }

    /// Writes, for each of 64 values in each column, the number of thresholds that are less than or equal to
    /// it, if the machine has a kernel for that. Otherwise returns `false`.
    pub(super) fn searched(
        &self,
        columns: &[ColumnSearch],
        values: Columns<&[f32]>,
        out: Columns<&mut [u8]>,
    ) -> bool {
        ranks(&self.pivots, columns, values, out)
    }

    /// Returns the pivots of all searches.
    pub(super) fn pivots(&self) -> &[CacheLine<[f32; FAN]>] {
        &self.pivots
    }

    /// Writes, for each value, the number of the table's thresholds that are less than or equal to it. The
    /// count of NaN is 0.
    #[inline(always)]
    pub(super) fn count<const N: usize>(&self, table: Table, values: &[C; N], found: &mut [u32; N]) {
        found.fill(0);
        if table.root == 0 {
            return;
        }
        let levels = &table.levels[..usize::from(table.depth)];
        count_at_most(&self.groups, levels, usize::from(table.root), values, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::ranking::search::ROW_BLOCK,
        isa::{Isa, isa},
    };

    /// Ranks one column to bytes. Returns `false` if the table has no search or the machine no kernel.
    fn ranked(
        tables: &Tables<f32>,
        table: Table,
        values: &[f32; ROW_BLOCK],
        missing: Missing,
        out: &mut [u8; ROW_BLOCK],
    ) -> bool {
        let (values, out) = (Columns { of: &values[..], apart: 0 }, Columns { of: &mut out[..], apart: 0 });
        let column = tables.search(table, missing).map(|search| ColumnSearch::new(search, 0, 0));
        column.is_some_and(|column| tables.searched(&[column], values, out))
    }

    /// Every size near a group's and a level's, with values on, below and above each threshold.
    #[test]
    fn counts_what_a_loop_counts() {
        let sizes = (0..258).chain([271, 272, 273, 300, 4095, 4096, 4097, 4112, 4400, 65_535]);
        let (mut tables, mut wide) = (Tables::new(), Tables::new());
        for size in sizes {
            let thresholds: Vec<f32> = (0..size).map(|i| i as f32 - 20.0).collect();
            let table = tables.push(&thresholds);
            let doubles: Vec<f64> = thresholds.iter().map(|t| f64::from(*t)).collect();
            let wide_table = wide.push(&doubles);
            let mut values: Vec<f32> = thresholds
                .iter()
                .step_by((size / 300).max(1))
                .chain(thresholds.last())
                .flat_map(|t| [t.next_down(), *t, t.next_up()])
                .chain([f32::NEG_INFINITY, f32::INFINITY, f32::NAN, -0.0, 1e-45])
                .collect();
            values.resize(values.len().next_multiple_of(64), 0.5);
            for values in values.as_chunks::<64>().0 {
                let mut found = [u32::MAX; 64];
                tables.count(table, values, &mut found);
                let mut in_doubles = [u32::MAX; 64];
                wide.count(wide_table, &values.map(f64::from), &mut in_doubles);
                assert_eq!(found, in_doubles);
                for (missing, rank) in [(Missing::Least, 0), (Missing::Most, size)] {
                    let mut bytes = [0; ROW_BLOCK];
                    let done = ranked(&tables, table, values, missing, &mut bytes);
                    assert_eq!(done, size < 256 && isa() != Isa::Portable, "{size} thresholds");
                    if done {
                        let expected: [u8; ROW_BLOCK] = std::array::from_fn(
                            |i| if values[i].is_nan() { rank } else { found[i] as usize } as u8,
                        );
                        assert_eq!(bytes, expected, "among {size}");
                    }
                }
                for (value, found) in values.iter().zip(found) {
                    let expected = thresholds.iter().filter(|t| **t <= *value).count();
                    assert_eq!(found as usize, expected, "{value:e} among {size}");
                    let mut alone = [u32::MAX];
                    tables.count(table, &[*value], &mut alone);
                    assert_eq!(alone[0], found, "{value:e} among {size}, alone");
                }
            }
        }
    }

    /// Searches of one kernel and of several, alone and in runs, with values and ranks in any columns.
    #[test]
    fn columns_are_ranked_together_as_alone() {
        let sizes =
            [90, 90, 3, 91, 3, 64, 100, 127, 96, 140, 128, 159, 160, 191, 192, 255, 0, 0, 31, 1, 1, 1];
        let mut tables = Tables::new();
        let thresholds = |c: usize| (0..sizes[c]).map(move |i| (i * (c + 1)) as f32 - 40.0);
        let mut columns: Vec<ColumnSearch> = (0..sizes.len())
            .map(|c| {
                let missing = if c % 3 == 0 { Missing::Most } else { Missing::Least };
                let table = tables.push(&thresholds(c).collect::<Vec<_>>());
                let search = tables.search(table, missing).expect("finite thresholds");
                ColumnSearch::new(search, c as u32, (c * 5 % sizes.len()) as u32)
            })
            .collect();
        let value = |i: usize| if i % 17 == 3 { f32::NAN } else { (i * 7919 % 2003) as f32 * 0.5 - 60.0 };
        let (between, apart) = (ROW_BLOCK + 5, ROW_BLOCK + 1);
        let values: Vec<f32> = (0..sizes.len() * between).map(value).collect();
        for sorted in [false, true] {
            if sorted {
                columns.sort_by_key(|column| column.search.kernel());
                ColumnSearch::count_runs(&mut columns);
            }
            for some in [&columns[..], &columns[1..], &columns[..7], &columns[3..4], &[]] {
                let mut out = vec![0xee; sizes.len() * apart];
                let of = Columns { of: &values[..], apart: between };
                if !tables.searched(some, of, Columns { of: &mut out[..], apart }) {
                    assert_eq!(isa(), Isa::Portable);
                    return;
                }
                for column in some {
                    let c = column.from as usize;
                    for (value, rank) in of.column(column.from).iter().zip(&out[column.to as usize * apart..])
                    {
                        let expected = match (value.is_nan(), column.search.missing) {
                            (true, Missing::Most) => sizes[c],
                            _ => thresholds(c).filter(|t| t <= value).count(),
                        };
                        assert_eq!(usize::from(*rank), expected, "{value:e} among {}", sizes[c]);
                    }
                }
                let written = out.chunks(apart).filter(|out| out[..ROW_BLOCK] != [0xee; ROW_BLOCK]).count();
                assert!(written == some.len() && out.chunks(apart).all(|out| out[ROW_BLOCK] == 0xee));
            }
        }
    }

    /// Both zeros, the smallest and the greatest numbers, infinities and NaN, as thresholds and as values.
    #[test]
    fn the_ends_of_the_line_count() {
        let line =
            [f32::NEG_INFINITY, f32::MIN, -1.0, -2e-38, -1e-45, -0.0, 0.0, 1e-45, 2e-38, 1.0, f32::MAX];
        let line: Vec<f32> = line.into_iter().chain([f32::INFINITY]).collect();
        let mut values = [f32::NAN; ROW_BLOCK];
        values[..line.len()].copy_from_slice(&line);
        values[line.len()] = -f32::NAN;
        values[line.len() + 1] = f32::from_bits(0x7f80_0001);
        for from in 0..line.len() {
            for to in from..=line.len() {
                let thresholds = &line[from..to];
                let mut tables = Tables::new();
                let table = tables.push(thresholds);
                for (missing, rank) in [(Missing::Least, 0), (Missing::Most, thresholds.len())] {
                    let mut found = [0; ROW_BLOCK];
                    let done = ranked(&tables, table, &values, missing, &mut found);
                    let finite = thresholds.iter().all(|t| t.is_finite());
                    assert_eq!(done, finite && isa() != Isa::Portable, "{thresholds:?}");
                    if !done {
                        continue;
                    }
                    for (value, found) in values.iter().zip(found) {
                        let counted = thresholds.iter().filter(|t| *t <= value).count();
                        let expected = if value.is_nan() { rank } else { counted };
                        assert_eq!(usize::from(found), expected, "{value:e} among {thresholds:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn repetitions_count_and_nan_does_not() {
        let mut tables = Tables::new();
        for size in [3, 40, 600] {
            let thresholds: Vec<f32> = (0..size).map(|i| (i / 3) as f32).chain([f32::NAN]).collect();
            let table = tables.push(&thresholds);
            let mut found = [0; 4];
            tables.count(table, &[-1.0, 0.0, f32::INFINITY, f32::NAN], &mut found);
            assert_eq!(found, [0, 3, size, 0], "{size}");
        }
    }
}
