//! Ranks of one byte, for 64 rows of one column at a time: by a binary search, or by a table of categories.

use super::{
    super::{cache_line::CacheLine, nodes::Compare},
    count::FAN,
};
use crate::{
    arrays::MapInline,
    forest::{CategoryRule, Side, ZERO_ZONE},
};

/// Rows that are ranked together.
pub(crate) use super::column_block::ROW_BLOCK;
/// Levels of the largest search, which has 255 thresholds.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
pub(crate) const MOST_LEVELS: u32 = 8;

/// Returns the index of a level's first pivot among the pivots of its search. The first four levels have
/// fifteen pivots and share a cache line. Each later level begins with a cache line.
pub(crate) const fn first_pivot(level: u32) -> usize {
    if level < FAN.ilog2() { (1 << level) - 1 } else { 1 << level }
}

/// Returns how many cache lines the pivots of `levels` levels take.
pub(crate) const fn cache_lines_of(levels: u32) -> usize {
    (1usize << levels).div_ceil(FAN)
}

/// Which rank a missing value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The rank of a value below all thresholds: 0.
    Least,
    /// The rank of a value that reaches all thresholds: their number.
    Most,
}

/// A split on a threshold that sends values in the zone of zeros to the side that the threshold does not: the
/// answers are those of `Predicate::LessZeroAside`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZeroAside<C> {
    threshold: C,
    /// The zone of zeros reaches from the first of these values to the second.
    zone: [C; 2],
    missing_goes_right: bool,
}

impl<C: Compare> ZeroAside<C> {
    pub(crate) fn new(threshold: f64, missing: Side) -> Self {
        let zone = f64::from(ZERO_ZONE);
        Self {
            threshold: C::threshold(threshold),
            zone: [C::threshold(-zone), C::threshold(zone)],
            missing_goes_right: missing == Side::Right,
        }
    }

    /// Returns whether a value goes right. It has no branch, so a loop over values becomes vectors.
    #[inline(always)]
    pub(crate) fn goes_right(&self, value: C) -> bool {
        let [low, high] = self.zone;
        let zero = (value >= low) & (value <= high);
        // Only NaN differs from itself.
        #[allow(clippy::eq_op)]
        let is_missing = value != value;
        (((value < self.threshold) == zero) & !is_missing) | (self.missing_goes_right & is_missing)
    }

    /// Writes for each value 1 if it goes right, and 0 if it goes left.
    #[inline(always)]
    pub(crate) fn answer(&self, values: &[C; ROW_BLOCK], out: &mut [u8; ROW_BLOCK]) {
        for (out, value) in out.iter_mut().zip(values) {
            *out = self.goes_right(*value).into();
        }
    }
}

/// A NaN whose sign bit is set. `value - NONE` is again a NaN whose sign bit is set, because the instruction
/// passes its NaN operand on.
const NONE: f32 = f32::from_bits(0xffc0_0000);
/// Pivots that one permute of two registers reaches.
const PAIR: usize = 2 * FAN;

/// Lays out ascending thresholds as the levels of a binary search, from the root down. Returns `None` for
/// more than 255 thresholds, and if one is infinite or NaN. The pivots of a level stand in descending order.
/// Missing values get the least rank.
///
/// A value is below a pivot if and only if `value - pivot` has its sign bit set. A pivot of 0 is stored as
/// -0, so no difference is -0. Pivots are finite, so an infinite value leaves an infinite difference and not
/// NaN. Entries past the last threshold hold `NONE`, whose difference has its sign bit set for every value.
///
/// All levels but the last are full. The last level has pivots at its beginning only, if that saves a
/// kernel registers of pivots: see [`Search::rank`].
pub(crate) fn lay_out(thresholds: &[f32], lines: &mut Vec<CacheLine<[f32; FAN]>>) -> Option<Search> {
    if thresholds.len() > usize::from(u8::MAX) || !thresholds.iter().all(|t| t.is_finite()) {
        return None;
    }
    let levels = (thresholds.len() + 1).next_power_of_two().ilog2();
    // The number of pivots of a full last level, and how many it needs.
    let full = (1usize << levels) / 2;
    let needed = thresholds.len() + 1 - full;
    let pairs = needed.div_ceil(PAIR).next_power_of_two();
    let count = if pairs * PAIR < full { thresholds.len() } else { (1 << levels) - 1 };
    let begin = lines.len();
    lines.resize(begin + cache_lines_of(levels), CacheLine([NONE; FAN]));
    let own = |t: f32| if t == 0.0 { -0.0 } else { t };
    let from_greatest = |i: usize| thresholds.get(count - 1 - i).map_or(NONE, |t| own(*t));
    let last = count + 1 - full;
    for level in 0..levels {
        // `number` is an index on the last level: on the last level the pivot's own index, on any other level
        // the first index after the pivot.
        let stride = full >> level;
        for index in 0..1usize << level {
            let number = index * stride + stride / 2;
            let pivot = match stride {
                1 if number >= last => NONE,
                1 => from_greatest(2 * number),
                _ => from_greatest(number + number.min(last) - 1),
            };
            let at = first_pivot(level) + index;
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

/// A binary search of the thresholds of one column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The index of its first cache line of pivots, where [`lay_out`] put it.
    #[cfg_attr(
        not(any(target_arch = "x86_64", target_arch = "aarch64")),
        allow(dead_code, reason = "only kernels for an instruction set read it")
    )]
    pub(crate) begin: u32,
    pub(crate) levels: u8,
    /// Pairs of cache lines that hold the pivots of the last level.
    pub(crate) pairs: u8,
    /// The number of pivots. If the last level is full, it includes the pivots past the last threshold.
    count: u8,
    pub(crate) missing: Missing,
}

impl Search {
    /// Returns the search with another rank for missing values.
    pub(crate) fn with_missing(self, missing: Missing) -> Self {
        Self { missing, ..self }
    }

    /// Returns the numbers that select a kernel: the levels, and the pairs of cache lines of the last level.
    pub(crate) fn kernel(&self) -> (u8, u8) {
        (self.levels, self.pairs)
    }

    /// Returns `[count, double]`, from which kernels compute a rank as `count - min(p, u)`. Here `p` is the
    /// value's index below the last level, counted from the right, and `u` is `(p + double + 1) / 2`, rounded
    /// down.
    ///
    /// If the value meets a pivot on the last level, `p` pivots are above the value, and `u` is at least `p`.
    /// If it meets none there, the lowest bit of `p` is arbitrary. Then all pivots of the last level are
    /// above the value, and `p / 2` pivots of the other levels: together `u`, which is at most `p`.
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub(in crate::cpu) fn rank(&self) -> [u8; 2] {
        let double = 2 * u32::from(self.count) + 1 - (1 << self.levels);
        [self.count, double as u8]
    }
}

/// A binary search that reads a column of 64 values and writes a column of 64 ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ColumnSearch {
    pub(crate) search: Search,
    /// The number of the column of values that it reads.
    pub(crate) from: u32,
    /// The number of the column of ranks that it writes.
    pub(crate) to: u32,
    /// The length of the run that begins here: how many searches in a row, this one included, take the same
    /// kernel. [`ColumnSearch::count_runs`] sets it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) run: u32,
}

impl ColumnSearch {
    /// Makes a search that is a run of its own.
    pub(crate) fn new(search: Search, from: u32, to: u32) -> Self {
        Self { search, from, to, run: 1 }
    }

    /// Sets the length of the run that begins at each search. A processor predicts the end of a run whose
    /// length is loaded, but not of one whose length is counted at the same time.
    pub(crate) fn count_runs(columns: &mut [Self]) {
        let mut next: Option<Self> = None;
        for column in columns.iter_mut().rev() {
            let same = next.filter(|next| next.search.kernel() == column.search.kernel());
            column.run = 1 + same.map_or(0, |next| next.run);
            next = Some(*column);
        }
    }
}

/// Columns of 64 values, or of 64 ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<V> {
    pub(crate) of: V,
    /// The distance from one column to the next.
    pub(crate) apart: usize,
}

impl<'v> Columns<&'v [f32]> {
    pub(crate) fn column(&self, c: u32) -> &'v [f32; ROW_BLOCK] {
        self.of[c as usize * self.apart..].first_chunk().expect("64 values")
    }
}

impl Columns<&mut [u8]> {
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub(in crate::cpu) fn column(&mut self, c: u32) -> &mut [u8; ROW_BLOCK] {
        self.of[c as usize * self.apart..].first_chunk_mut().expect("room for 64 ranks")
    }
}

/// A column with few thresholds, which stand in layers. The first layer holds the least threshold of each of
/// the sixteen columns of a column block, the second layer the second threshold of each, and so on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LayeredColumn {
    /// The number of the column of ranks.
    pub(crate) column: u32,
    /// The number of the column within its column block, 0 to 15.
    pub(crate) lane: u8,
    /// The number of thresholds, which stand in the first `count` layers.
    pub(crate) count: u8,
}

/// Ranks columns one after the other, each by the kernel that is compiled for its number of levels.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! by_levels {
    ($columns:expr, $pivots:expr, $values:expr, $out:expr, $within:ident) => {
        for $crate::cpu::ranking::search::ColumnSearch { search, from, to, .. } in $columns {
            let lines = $crate::cpu::ranking::search::cache_lines_of(search.levels.into());
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
/// Expands a macro for each level, with the level as a literal: the instructions that pick a level's pivots
/// depend on it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
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

/// The code of a missing value.
pub(crate) const MISSING: u8 = 255;
/// The code of a value that is not missing and is no category below this code.
pub(crate) const OTHER: u8 = 254;

/// Returns the code of a value: its category, [`OTHER`] or [`MISSING`].
pub(crate) fn code<C: Compare>(rule: CategoryRule, value: C) -> u8 {
    let value: f64 = value.into();
    let category = rule.category(value).and_then(|c| u8::try_from(c).ok()).filter(|c| *c < OTHER);
    if value.is_nan() { MISSING } else { category.unwrap_or(OTHER) }
}

/// Returns the bit of a code in a table: 0 or 1.
pub(crate) fn bit(table: &[u8; 32], code: u8) -> u8 {
    table[usize::from(code / 8)] >> (code % 8) & 1
}

/// The codes of 64 values, each as a byte's index in a table of 256 bits and a mask of one bit in that byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CategoryBits {
    pub(in crate::cpu) byte: [u8; ROW_BLOCK],
    pub(in crate::cpu) bit: [u8; ROW_BLOCK],
}

impl CategoryBits {
    /// Encodes 64 values.
    pub(crate) fn new<C: Compare>(rule: CategoryRule, values: &[C; ROW_BLOCK]) -> Self {
        let codes = values.map_inline(|value| code(rule, value));
        Self { byte: codes.map_inline(|code| code / 8), bit: codes.map_inline(|code| 1 << (code % 8)) }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::kernels, *};
    use crate::forest::{
        Predicate,
        reference::{self, side_of_cast},
    };

    #[test]
    fn runs_are_of_one_kernel() {
        let mut lines = Vec::new();
        let mut column = |count: u32| {
            let thresholds: Vec<f32> = (0..count).map(|i| i as f32).collect();
            ColumnSearch::new(lay_out(&thresholds, &mut lines).expect("finite thresholds"), 0, 0)
        };
        let mut columns = [64, 95, 96, 3, 2, 3, 128, 90].map(&mut column);
        ColumnSearch::count_runs(&mut columns);
        assert_eq!(columns.map(|column| column.run), [2, 1, 1, 3, 2, 1, 1, 1]);
        assert_eq!(columns.map(|column| column.search.pairs), [1, 1, 2, 1, 1, 1, 1, 1]);
        ColumnSearch::count_runs(&mut []);
    }

    type Kernel<C> = fn(&ZeroAside<C>, &[C; ROW_BLOCK], &mut [u8; ROW_BLOCK]);

    /// Compares the answers for values of one type with those of the reference, through every kernel.
    fn zeros_aside_are_answered_as<C: Compare + reference::Input>(values: &[f64], cast: impl Fn(f64) -> C) {
        let values: Vec<C> = values.iter().map(|x| cast(*x)).collect();
        for threshold in [-1.5, -1e-30, f64::from(1e-34f32), 0.25, 3.0, f64::INFINITY, f64::NEG_INFINITY] {
            for missing in [Side::Left, Side::Right] {
                let split = ZeroAside::<C>::new(threshold, missing);
                let predicate = Predicate::LessZeroAside { threshold: threshold.into() };
                let all: [Kernel<C>; 2] = [ZeroAside::answer, kernels::zero_aside];
                for (kernel, block) in
                    all.into_iter().flat_map(|k| values.chunks(ROW_BLOCK).map(move |b| (k, b)))
                {
                    let block: [C; ROW_BLOCK] = std::array::from_fn(|i| block[i % block.len()]);
                    let mut answers = [9; ROW_BLOCK];
                    kernel(&split, &block, &mut answers);
                    let right = |x: C| side_of_cast(&[], predicate, missing, x.into()) == Side::Right;
                    assert_eq!(
                        answers,
                        block.map(|x| u8::from(right(x))),
                        "{threshold} {missing:?} {block:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn zeros_aside_go_where_the_reference_sends_them() {
        let zone = f64::from(ZERO_ZONE);
        let mut values =
            vec![f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, 1e-40, -1e-40];
        for near in [zone, -1.5, -1e-30, f64::from(1e-34f32), 0.25, 3.0] {
            for x in [near, -near] {
                values.extend([x, x.next_up(), x.next_down()]);
                values.extend([(x as f32).next_up(), (x as f32).next_down()].map(f64::from));
            }
        }
        assert_ne!(values.len() % ROW_BLOCK, 0);
        zeros_aside_are_answered_as::<f64>(&values, |x| x);
        zeros_aside_are_answered_as::<f32>(&values, |x| x as f32);
    }
}
