//! Ranks of a byte: 64 rows of one column at a time.

#[cfg(target_arch = "aarch64")]
use super::isa::{Isa, isa};
use super::{count::FAN, line::Line, nodes::Compare};
use crate::forest::CategoryRule;

/// Rows that are ranked together.
pub(crate) use super::row_block::BLOCK;
/// Levels of the largest search: 255 thresholds.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
pub(crate) const MOST_LEVELS: u32 = 8;

/// Blocks of pivots above a level: a block at least for each.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
pub(crate) const fn blocks_of(level: u32) -> usize {
    let mut blocks = 0;
    let mut above = 0;
    while above < level {
        blocks += if above <= FAN.ilog2() { 1 } else { (1 << above) / FAN };
        above += 1;
    }
    blocks
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

/// Lays out ascending thresholds, at most 255, as the levels of a full binary search from the root down; says how many levels, or
/// that an infinite threshold or NaN keeps it from that. A level's pivots stand from the greatest down.
///
/// A value is below a pivot where it has a sign bit after the pivot has been subtracted from it: no value leaves -0 of a pivot that
/// is -0, none is infinite less a pivot that is finite, and NaN with a sign, which stands past the last threshold, stays what it is.
pub(crate) fn lay_out(thresholds: &[f32], blocks: &mut Vec<Line<[f32; FAN]>>) -> Option<u32> {
    if !thresholds.iter().all(|t| t.is_finite()) {
        return None;
    }
    let levels = (thresholds.len() + 1).next_power_of_two().ilog2();
    let own = |t: f32| if t == 0.0 { -0.0 } else { t };
    for level in 0..levels {
        let step = 1usize << (levels - level);
        let pivot = |place: usize| thresholds.get(place * step + step / 2 - 1).map_or(NONE, |t| own(*t));
        let count = 1usize << level;
        for first in (0..count).step_by(FAN) {
            let at = |i| if first + i < count { pivot(count - 1 - first - i) } else { NONE };
            blocks.push(Line(std::array::from_fn(at)));
        }
    }
    Some(levels)
}

/// A search among the thresholds of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search {
    /// The first of its blocks, as [`lay_out`] laid them out.
    pub(crate) begin: u32,
    pub(crate) levels: u8,
    pub(crate) missing: Missing,
}

/// 64 rows of a column: its search, where their values begin, and where their ranks go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Searched {
    pub(crate) search: Search,
    pub(crate) values: usize,
    pub(crate) out: usize,
}

/// A column of few thresholds, which stand in layers: the least of each of sixteen columns of rows that lie side by side, the second of
/// each, and so on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layered {
    /// The column of ranks.
    pub(crate) column: u32,
    /// Which of the sixteen columns of rows.
    pub(crate) lane: u8,
    /// Thresholds, in the first layers.
    pub(crate) count: u8,
}

/// Ranks columns one after the other, each by the kernel that is compiled for its levels; says how many.
macro_rules! by_levels {
    ($columns:expr, $pivots:expr, $values:expr, $out:expr, $within:ident $(, $more:ident)?) => {{
        let mut done = 0;
        for $crate::cpu::rank::Searched { search, values, out } in $columns {
            let $crate::cpu::rank::Search { begin, levels, missing } = search;
            let pivots = &$pivots[begin as usize..];
            let values = $values[values..].first_chunk().expect("a block of values");
            let out = $out[out..].first_chunk_mut().expect("a block of room");
            match levels {
                0 => $within::<0 $(, $more)?>(pivots, values, missing, out),
                1 => $within::<1 $(, $more)?>(pivots, values, missing, out),
                2 => $within::<2 $(, $more)?>(pivots, values, missing, out),
                3 => $within::<3 $(, $more)?>(pivots, values, missing, out),
                4 => $within::<4 $(, $more)?>(pivots, values, missing, out),
                5 => $within::<5 $(, $more)?>(pivots, values, missing, out),
                6 => $within::<6 $(, $more)?>(pivots, values, missing, out),
                7 => $within::<7 $(, $more)?>(pivots, values, missing, out),
                _ => $within::<{ $crate::cpu::rank::MOST_LEVELS } $(, $more)?>(pivots, values, missing, out),
            }
            done += 1;
        }
        done
    }};
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use by_levels;

/// Writes how many thresholds are at most each value, one column after the other, if the machine has vectors for that; says of how
/// many columns. Each has 64 values, and room for as many ranks, where it says.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused_variables))]
pub(crate) fn ranks(
    pivots: &[Line<[f32; FAN]>],
    columns: impl Iterator<Item = Searched>,
    values: &[f32],
    out: &mut [u8],
) -> usize {
    #[cfg(target_arch = "x86_64")]
    return super::simd::rank::ranks(pivots, columns, values, out);
    #[cfg(target_arch = "aarch64")]
    if isa() == Isa::Neon {
        // SAFETY: the machine is able.
        return unsafe { super::neon::rank::ranks(pivots, columns, values, out) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

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
pub(crate) struct Coded {
    pub(super) byte: [u8; BLOCK],
    pub(super) bit: [u8; BLOCK],
}

impl Coded {
    /// The codes of values.
    pub(crate) fn new<C: Compare>(rule: CategoryRule, values: &[C; BLOCK]) -> Self {
        let codes = values.map(|value| code(rule, value));
        Self { byte: codes.map(|code| code / 8), bit: codes.map(|code| 1 << (code % 8)) }
    }

    /// The bit of each code in a table.
    pub(crate) fn bits(&self, table: &[u8; 32], out: &mut [u8; BLOCK]) {
        #[cfg(target_arch = "x86_64")]
        if super::simd::rank::bits(table, self, out) {
            return;
        }
        #[cfg(target_arch = "aarch64")]
        if isa() == Isa::Neon {
            // SAFETY: the machine is able.
            return unsafe { super::neon::rank::bits(table, self, out) };
        }
        for ((out, byte), bit) in out.iter_mut().zip(self.byte).zip(self.bit) {
            *out = u8::from(table[usize::from(byte) % 32] & bit != 0);
        }
    }
}
