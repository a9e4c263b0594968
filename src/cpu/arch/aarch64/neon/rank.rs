//! Ranks of a byte: 64 rows of a column by a search whose pivots are permuted, or by a table of bits.

use std::arch::aarch64::*;

use super::{LANES, four, load};
use crate::cpu::{
    cache_line::CacheLine,
    ranking::count::FAN,
    ranking::search::{
        BLOCK, CategoryBits, ColumnSearch, Columns, MOST_LEVELS, Missing, Search, by_levels, each_level,
        first_of, lines_of,
    },
};

/// Levels whose pivots are permuted: 32 of the last of them are two tables of four registers. Those below are loaded.
const NEAR: u32 = 6;

/// Writes how many thresholds are at most each value, a column after the other.
#[target_feature(enable = "neon")]
pub(in crate::cpu) fn ranks(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    mut out: Columns<&mut [u8]>,
) {
    by_levels!(columns, pivots, values, out, within);
}

/// The search of each row, from the root down. A row's place on a level, counted from the left, is in each byte of its word: what
/// permutes bytes wants it there, and one instruction moves it up and puts the next decision behind it.
#[target_feature(enable = "neon")]
fn within<const L: u32>(pivots: &[f32], search: Search, values: &[f32; BLOCK], out: &mut [u8; BLOCK]) {
    assert!(pivots.len() == const { FAN * lines_of(L) });
    let stands = vdupq_n_f32(match search.missing {
        Missing::Least => f32::NEG_INFINITY,
        Missing::Most => f32::INFINITY,
    });
    let rightmost = vdupq_n_u8(((1u32 << L) - 1) as u8);
    let [count, double] = search.rank().map(|byte| vdupq_n_u8(byte));
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
                        // No value has reached NaN, which stands past the last threshold.
                        let reached = vcgeq_f32(x, pick::<$level>(pivots, *at));
                        *at = vsliq_n_u8::<1>(vreinterpretq_u8_u32(reached), *at);
                    }
                }
            };
        }
        each_level!(level);
        // A byte of each word.
        let [a, b, c, d] = at.map(|at| vreinterpretq_u16_u8(at));
        let [low, high] = [vuzp1q_u16(a, b), vuzp1q_u16(c, d)].map(|v| vreinterpretq_u8_u16(v));
        let places = veorq_u8(vuzp1q_u8(low, high), rightmost);
        let above = vminq_u8(places, vrhaddq_u8(places, double));
        super::store(vsubq_u8(count, above), out);
    }
}

/// The pivots of a level at these places. They stand from the greatest down, so the last is the leftmost.
#[inline]
#[target_feature(enable = "neon")]
fn pick<const LEVEL: u32>(pivots: &[f32], at: uint8x16_t) -> float32x4_t {
    const { assert!(LEVEL < MOST_LEVELS) };
    let (last, table) = (const { (1usize << LEVEL) - 1 }, &pivots[const { first_of(LEVEL) }..]);
    if LEVEL >= NEAR {
        let table = &table[..=last];
        let at = vreinterpretq_u64_u8(at);
        let [low, high] = [vgetq_lane_u64::<0>(at), vgetq_lane_u64::<1>(at)];
        let places = [low, low >> 32, high, high >> 32].map(|place| usize::from(place as u8));
        // SAFETY: a place has a bit for each level above, so it is at most the last.
        return four(&places.map(|place| unsafe { *table.get_unchecked(last - place) }));
    }
    let register = |i: usize| {
        let values = table[LANES * i..].first_chunk().expect("whole registers");
        vreinterpretq_u8_f32(four(values))
    };
    let tables = |i: usize| uint8x16x4_t(register(i), register(i + 1), register(i + 2), register(i + 3));
    // The bytes of the leftmost pivot, and from there as many pivots back as the place says.
    let first = vreinterpretq_u8_u32(vdupq_n_u32(0x0302_0100 + 0x0404_0404 * last as u32));
    let bytes = vsubq_u8(first, vshlq_n_u8::<{ LANES.ilog2() as i32 }>(at));
    vreinterpretq_f32_u8(match LEVEL {
        0 => vreinterpretq_u8_f32(vdupq_n_f32(table[0])),
        1 | 2 => vqtbl1q_u8(register(0), bytes),
        3 => vqtbl2q_u8(uint8x16x2_t(register(0), register(1)), bytes),
        4 => vqtbl4q_u8(tables(0), bytes),
        // What one table does not have the other has.
        _ => {
            let low = vqtbl4q_u8(tables(0), bytes);
            vqtbx4q_u8(low, tables(4), vsubq_u8(bytes, vdupq_n_u8(64)))
        }
    })
}

/// The bits of a table at 64 codes.
#[target_feature(enable = "neon")]
pub(in crate::cpu) fn bits(table: &[u8; 32], codes: &CategoryBits, out: &mut [u8; BLOCK]) {
    let [low, high] = [0, 1].map(|half| load(&table.as_chunks().0[half]));
    let codes = codes.byte.as_chunks().0.iter().zip(codes.bit.as_chunks().0);
    for ((byte, bit), out) in codes.zip(out.as_chunks_mut().0) {
        let found = vqtbl2q_u8(uint8x16x2_t(low, high), load(byte));
        super::store(vandq_u8(vtstq_u8(found, load(bit)), vdupq_n_u8(1)), out);
    }
}
