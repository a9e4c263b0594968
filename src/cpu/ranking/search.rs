//! Ranks of a byte: 64 rows of one column at a time.

use super::{
    super::{cache_line::CacheLine, nodes::Compare},
    count::FAN,
};
use crate::forest::CategoryRule;

/// Rows that are ranked together.
pub(crate) use super::column_block::BLOCK;
/// Levels of the largest search: 255 thresholds.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
pub(crate) const MOST_LEVELS: u32 = 8;

/// Where a level's pivots begin among those of its search. The first four levels are a line's fifteen, any other begins with a line.
pub(crate) const fn first_of(level: u32) -> usize {
    if level < FAN.ilog2() { (1 << level) - 1 } else { 1 << level }
}

/// Lines of the pivots of so many levels.
pub(crate) const fn lines_of(levels: u32) -> usize {
    (1usize << levels).div_ceil(FAN)
}

/// What a missing value's rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// That of a value below all thresholds.
    Least,
    /// That of a value which has reached them all.
    Most,
}

/// NaN with a sign. That a value less it is NaN with a sign, too, is the instruction's doing.
const NONE: f32 = f32::from_bits(0xffc0_0000);
/// Pivots that one permute of two registers reaches.
const PAIR: usize = 2 * FAN;

/// Lays out ascending thresholds, at most 255, as the levels of a binary search from the root down, unless an infinite one or NaN keeps
/// them from that. A level's pivots stand from the greatest down. Missing values have the least rank.
///
/// A value is below a pivot where it has a sign bit after the pivot has been subtracted from it: no value leaves -0 of a pivot that
/// is -0, none is infinite less a pivot that is finite, and NaN with a sign, which stands past the last threshold, stays what it is.
///
/// All levels but the last are full. The last has pivots for its first places only, where that spares a kernel registers of them:
/// see [`Search::rank`].
pub(crate) fn lay_out(thresholds: &[f32], lines: &mut Vec<CacheLine<[f32; FAN]>>) -> Option<Search> {
    if thresholds.len() > usize::from(u8::MAX) || !thresholds.iter().all(|t| t.is_finite()) {
        return None;
    }
    let levels = (thresholds.len() + 1).next_power_of_two().ilog2();
    // Places of the last level, and how many of them need a pivot.
    let places = (1usize << levels) / 2;
    let needed = thresholds.len() + 1 - places;
    let pairs = needed.div_ceil(PAIR).next_power_of_two();
    let count = if pairs * PAIR < places { thresholds.len() } else { (1 << levels) - 1 };
    let begin = lines.len();
    lines.resize(begin + lines_of(levels), CacheLine([NONE; FAN]));
    let own = |t: f32| if t == 0.0 { -0.0 } else { t };
    let from_greatest = |i: usize| thresholds.get(count - 1 - i).map_or(NONE, |t| own(*t));
    let last = count + 1 - places;
    for level in 0..levels {
        // A place's number is that of the place of the last level which is behind its pivot, or which has it.
        let step = places >> level;
        for place in 0..1usize << level {
            let number = place * step + step / 2;
            let pivot = match step {
                1 if number >= last => NONE,
                1 => from_greatest(2 * number),
                _ => from_greatest(number + number.min(last) - 1),
            };
            let at = first_of(level) + place;
            lines[begin + at / FAN].0[at % FAN] = pivot;
        }
    }
    Some(Search {
        begin: begin as u32,
        levels: levels as u8,
        pairs: pairs as u8,
        count: count as u8,
        missing: Missing::Least,
    })
}

/// A search among the thresholds of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The first of its lines, as [`lay_out`] laid them out.
    pub(crate) begin: u32,
    pub(crate) levels: u8,
    /// Pairs of lines, of the last level, that have its pivots.
    pub(crate) pairs: u8,
    /// Pivots, those that stand past the last threshold where the last level is full included.
    count: u8,
    pub(crate) missing: Missing,
}

impl Search {
    /// The same of another rank of missing values.
    pub(crate) fn of_missing(self, missing: Missing) -> Self {
        Self { missing, ..self }
    }

    /// Which kernel it takes.
    pub(crate) fn kernel(&self) -> (u8, u8) {
        (self.levels, self.pairs)
    }

    /// What a rank is made of: with `[count, double]`, `p` the place of a value behind the last level, counted from the right, and `u` the
    /// half of `p + double + 1`, the rank is `count` less the smaller of `p` and `u`.
    ///
    /// Where the last level has no pivots, what was found there is anybody's, and only half of `p` counts: there all pivots of the last
    /// level and as many others as half of `p` are above the value, which are `p` at most. Elsewhere they would be that at least.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub(in crate::cpu) fn rank(&self) -> [u8; 2] {
        let double = 2 * u32::from(self.count) + 1 - (1 << self.levels);
        [self.count, double as u8]
    }
}

/// A column's search, among columns of 64 values and columns of as many ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnSearch {
    pub(crate) search: Search,
    /// Which of the columns of values it reads, …
    pub(crate) from: u32,
    /// … and which of the columns of ranks it writes.
    pub(crate) to: u32,
    /// From it on, how many that follow each other take its kernel: what [`ColumnSearch::count_runs`] has found.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) alike: u32,
}

impl ColumnSearch {
    /// A column that stands alone.
    pub(crate) fn new(search: Search, from: u32, to: u32) -> Self {
        Self { search, from, to, alike: 1 }
    }

    /// Counts, from each column on, neighbours that take the same kernel. A run's length that is looked up is foreseen, one that is
    /// counted is not.
    pub(crate) fn count_runs(columns: &mut [Self]) {
        let mut next: Option<Self> = None;
        for column in columns.iter_mut().rev() {
            let same = next.filter(|next| next.search.kernel() == column.search.kernel());
            column.alike = 1 + same.map_or(0, |next| next.alike);
            next = Some(*column);
        }
    }
}

/// Columns of 64 values, or of 64 ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<V> {
    pub(crate) of: V,
    /// From one to the next.
    pub(crate) apart: usize,
}

impl<'v> Columns<&'v [f32]> {
    pub(crate) fn column(&self, c: u32) -> &'v [f32; BLOCK] {
        self.of[c as usize * self.apart..].first_chunk().expect("a block of values")
    }
}

impl Columns<&mut [u8]> {
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub(in crate::cpu) fn column(&mut self, c: u32) -> &mut [u8; BLOCK] {
        self.of[c as usize * self.apart..].first_chunk_mut().expect("a block of room")
    }
}

/// A column of few thresholds, which stand in layers: the least of each of sixteen columns of rows that lie side by side, the second of
/// each, and so on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayeredColumn {
    /// The column of ranks.
    pub(crate) column: u32,
    /// Which of the sixteen columns of rows.
    pub(crate) lane: u8,
    /// Thresholds, in the first layers.
    pub(crate) count: u8,
}

/// Ranks columns one after the other, each by the kernel that is compiled for its levels.
macro_rules! by_levels {
    ($columns:expr, $pivots:expr, $values:expr, $out:expr, $within:ident) => {
        for $crate::cpu::ranking::search::ColumnSearch { search, from, to, .. } in $columns {
            let lines = $crate::cpu::ranking::search::lines_of(search.levels.into());
            let pivots = $crate::cpu::cache_line::flat(&$pivots[search.begin as usize..][..lines]);
            let (values, out) = ($values.column(*from), $out.column(*to));
            match search.levels {
                0 => $within::<0>(pivots, *search, values, out),
                1 => $within::<1>(pivots, *search, values, out),
                2 => $within::<2>(pivots, *search, values, out),
                3 => $within::<3>(pivots, *search, values, out),
                4 => $within::<4>(pivots, *search, values, out),
                5 => $within::<5>(pivots, *search, values, out),
                6 => $within::<6>(pivots, *search, values, out),
                7 => $within::<7>(pivots, *search, values, out),
                _ => $within::<{ $crate::cpu::ranking::search::MOST_LEVELS }>(pivots, *search, values, out),
            }
        }
    };
}
/// Does something for each level by its number: what a level permutes is known only where that is written out.
macro_rules! each_level {
    ($level:ident) => {
        $level!(0);
        $level!(1);
        $level!(2);
        $level!(3);
        $level!(4);
        $level!(5);
        $level!(6);
        $level!(7);
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(in crate::cpu) use {by_levels, each_level};

/// A missing value's code; …
pub(crate) const MISSING: u8 = 255;
/// … and that of any value that is no category below it.
pub(crate) const OTHER: u8 = 254;

/// A value's code.
pub(crate) fn code<C: Compare>(rule: CategoryRule, value: C) -> u8 {
    let value: f64 = value.into();
    let category = rule.category(value).and_then(|c| u8::try_from(c).ok()).filter(|c| *c < OTHER);
    if value.is_nan() { MISSING } else { category.unwrap_or(OTHER) }
}

/// A code's bit in a table.
pub(crate) fn bit(table: &[u8; 32], code: u8) -> u8 {
    table[usize::from(code / 8)] >> (code % 8) & 1
}

/// 64 values as categories, each as a byte of a table of 256 bits, and a bit of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CategoryBits {
    pub(in crate::cpu) byte: [u8; BLOCK],
    pub(in crate::cpu) bit: [u8; BLOCK],
}

impl CategoryBits {
    /// The codes of values.
    pub(crate) fn new<C: Compare>(rule: CategoryRule, values: &[C; BLOCK]) -> Self {
        let codes = values.map(|value| code(rule, value));
        Self { byte: codes.map(|code| code / 8), bit: codes.map(|code| 1 << (code % 8)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_one_kernel() {
        let mut lines = Vec::new();
        let mut column = |count: u32| {
            let thresholds: Vec<f32> = (0..count).map(|i| i as f32).collect();
            ColumnSearch::new(lay_out(&thresholds, &mut lines).expect("finite thresholds"), 0, 0)
        };
        let mut columns = [64, 95, 96, 3, 2, 3, 128, 90].map(&mut column);
        ColumnSearch::count_runs(&mut columns);
        assert_eq!(columns.map(|column| column.alike), [2, 1, 1, 3, 2, 1, 1, 1]);
        assert_eq!(columns.map(|column| column.search.pairs), [1, 1, 2, 1, 1, 1, 1, 1]);
        ColumnSearch::count_runs(&mut []);
    }
}
