//! Finds ranks of one byte for 64 rows of a column: by a search that looks up its pivots with permutes of
//! registers, or by a table of bits.

use std::arch::aarch64::*;

use super::{LANES, four, load};
use crate::{
    arrays::MapInline,
    cpu::{
        cache_line::CacheLine,
        ranking::count::FAN,
        ranking::search::{
            CategoryBits, ColumnSearch, Columns, MOST_LEVELS, Missing, ROW_BLOCK, Search, by_levels,
            cache_lines_of, each_level, first_pivot,
        },
    },
};

/// Levels of a search whose pivots are looked up in registers, with permutes. The last of these levels has
/// 32 pivots, which are two tables of four registers. Deeper levels load their pivots.
const NEAR: u32 = 6;

/// Writes each value's rank: the number of its column's thresholds that it reaches. Columns follow one another.
#[target_feature(enable = "neon")]
pub(in crate::cpu) fn ranks(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    mut out: Columns<&mut [u8]>,
) {
    by_levels!(columns, pivots, values, out, within);
}

/// Searches the thresholds of one column for 64 rows, from the root of the search down. Every byte of a
/// row's 32-bit word holds the row's index on the current level, counted from the left. Byte permutes
/// need the index in every byte, and one instruction (`vsliq_n_u8`) shifts it up and inserts the next
/// decision.
#[target_feature(enable = "neon")]
fn within<const L: u32>(
    pivots: &[f32],
    search: Search,
    values: &[f32; ROW_BLOCK],
    out: &mut [u8; ROW_BLOCK],
) {
    assert!(pivots.len() == const { FAN * cache_lines_of(L) });
    let stands = vdupq_n_f32(match search.missing {
        Missing::Least => f32::NEG_INFINITY,
        Missing::Most => f32::INFINITY,
    });
    let rightmost = vdupq_n_u8(((1u32 << L) - 1) as u8);
    let [count, double] = search.rank().map_inline(|byte| vdupq_n_u8(byte));
    for (values, out) in values.as_chunks::<16>().0.iter().zip(out.as_chunks_mut().0) {
        let mut x = [stands; LANES];
        for (x, values) in x.iter_mut().zip(values.as_chunks().0) {
            let values = four(values);
            *x = vbslq_f32(vceqq_f32(values, values), values, stands);
        }
        let mut at = [vdupq_n_u8(0); LANES];
        macro_rules! level {
            ($level:literal) => {
                if $level < L {
                    for (at, x) in at.iter_mut().zip(x) {
                        // No value reaches NaN, which stands past the last threshold.
                        let reached = vcgeq_f32(x, pick::<$level>(pivots, *at));
                        *at = vsliq_n_u8::<1>(vreinterpretq_u8_u32(reached), *at);
                    }
                }
            };
        }
        each_level!(level);
        // Takes one byte of each word.
        let [a, b, c, d] = at.map_inline(|at| vreinterpretq_u16_u8(at));
        let [low, high] = [vuzp1q_u16(a, b), vuzp1q_u16(c, d)].map_inline(|v| vreinterpretq_u8_u16(v));
        let indices = veorq_u8(vuzp1q_u8(low, high), rightmost);
        let above = vminq_u8(indices, vrhaddq_u8(indices, double));
        super::store(vsubq_u8(count, above), out);
    }
}

/// Returns the pivots of level `LEVEL` at the indices `at`. Pivots are stored from the greatest down, so
/// the last pivot is the leftmost.
#[inline]
#[target_feature(enable = "neon")]
fn pick<const LEVEL: u32>(pivots: &[f32], at: uint8x16_t) -> float32x4_t {
    const { assert!(LEVEL < MOST_LEVELS) };
    let (last, table) = (const { (1usize << LEVEL) - 1 }, &pivots[const { first_pivot(LEVEL) }..]);
    if LEVEL >= NEAR {
        let table = &table[..=last];
        let at = vreinterpretq_u64_u8(at);
        let [low, high] = [vgetq_lane_u64::<0>(at), vgetq_lane_u64::<1>(at)];
        let indices = [low, low >> 32, high, high >> 32].map_inline(|index| usize::from(index as u8));
        // SAFETY: `within` has put one bit into `index` for each level above this one, so `index` is at most `last`.
        return four(&indices.map_inline(|index| unsafe { *table.get_unchecked(last - index) }));
    }
    let register = |i: usize| {
        let values = table[LANES * i..].first_chunk().expect("whole registers");
        vreinterpretq_u8_f32(four(values))
    };
    let tables = |i: usize| uint8x16x4_t(register(i), register(i + 1), register(i + 2), register(i + 3));
    // The byte indices of the leftmost pivot, less four for each pivot to the right.
    let first = vreinterpretq_u8_u32(vdupq_n_u32(0x0302_0100 + 0x0404_0404 * last as u32));
    let bytes = vsubq_u8(first, vshlq_n_u8::<{ LANES.ilog2() as i32 }>(at));
    vreinterpretq_f32_u8(match LEVEL {
        0 => vreinterpretq_u8_f32(vdupq_n_f32(table[0])),
        1 | 2 => vqtbl1q_u8(register(0), bytes),
        3 => vqtbl2q_u8(uint8x16x2_t(register(0), register(1)), bytes),
        4 => vqtbl4q_u8(tables(0), bytes),
        // Each byte index falls into one of the two tables, and `vqtbx4q_u8` keeps the bytes that the first
        // table gave.
        _ => {
            let low = vqtbl4q_u8(tables(0), bytes);
            vqtbx4q_u8(low, tables(4), vsubq_u8(bytes, vdupq_n_u8(64)))
        }
    })
}

/// Looks up the bit of each of 64 codes in a table of 256 bits, and writes it as 0 or 1.
#[target_feature(enable = "neon")]
pub(in crate::cpu) fn bits(table: &[u8; 32], codes: &CategoryBits, out: &mut [u8; ROW_BLOCK]) {
    let [low, high] = [0, 1].map_inline(|half| load(&table.as_chunks().0[half]));
    let codes = codes.byte.as_chunks().0.iter().zip(codes.bit.as_chunks().0);
    for ((byte, bit), out) in codes.zip(out.as_chunks_mut().0) {
        let found = vqtbl2q_u8(uint8x16x2_t(low, high), load(byte));
        super::store(vandq_u8(vtstq_u8(found, load(bit)), vdupq_n_u8(1)), out);
    }
}
