//! Ranks of one byte, for 64 rows of a column in eight registers. A search looks up the pivots of its first
//! levels with permutes of registers.

use std::arch::x86_64::*;

use super::super::rank::pairs_of;
use crate::{
    arrays::MapInline,
    cpu::{
        arch::CountingLoops,
        cache_line::CacheLine,
        nodes::Compare,
        ranking::{
            count::FAN,
            search::{
                CategoryBits, ColumnSearch, Columns, Missing, ROW_BLOCK, Search, ZeroAside, by_levels,
                cache_lines_of, each_level, first_pivot,
            },
        },
    },
};

/// Runs loops that count thresholds.
#[target_feature(enable = "avx2,popcnt")]
pub(in crate::cpu::arch::x86) fn counting(loops: impl CountingLoops) {
    loops.run(|group, value| {
        let value = _mm256_set1_ps(value);
        let (low, high) = (group.as_ptr(), group[FAN / 2..].as_ptr());
        // SAFETY: `group` has sixteen thresholds, eight from each of these.
        let [low, high] = [low, high].map(|half| unsafe { _mm256_loadu_ps(half) });
        let [low, high] =
            [low, high].map(|half| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_LE_OQ>(half, value)));
        (low | high << 8).count_ones()
    });
}

/// Ranks 64 rows of each column.
#[target_feature(enable = "avx2")]
pub(in crate::cpu::arch::x86) fn each(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    mut out: Columns<&mut [u8]>,
) {
    by_levels!(columns, pivots, values, out, within);
}

/// Searches the thresholds of a column for 64 rows, in eight registers. Permutes of registers look up the
/// pivots of the first five levels, and gathers load those of further levels.
#[target_feature(enable = "avx2")]
fn within<const L: u32>(
    pivots: &[f32],
    search: Search,
    values: &[f32; ROW_BLOCK],
    out: &mut [u8; ROW_BLOCK],
) {
    const EIGHT: usize = 8;
    assert!(pivots.len() == const { FAN * cache_lines_of(L) });
    let mut x = [_mm256_setzero_ps(); ROW_BLOCK / EIGHT];
    for (x, values) in x.iter_mut().zip(values.as_chunks::<EIGHT>().0) {
        // SAFETY: `as_chunks` gives eight values.
        let values = unsafe { _mm256_loadu_ps(values.as_ptr()) };
        // If one of two operands is NaN, both instructions return the second.
        *x = match search.missing {
            Missing::Least => _mm256_max_ps(values, _mm256_set1_ps(f32::NEG_INFINITY)),
            Missing::Most => _mm256_min_ps(values, _mm256_set1_ps(f32::INFINITY)),
        };
    }
    let mut at = [_mm256_setzero_si256(); ROW_BLOCK / EIGHT];
    macro_rules! level {
        ($level:literal) => {
            if $level < L {
                for (at, x) in at.iter_mut().zip(x) {
                    // SAFETY: an index has one bit for each level above, so it is below the number of the
                    // level's pivots.
                    let pivot = unsafe { pick::<$level>(&pivots[const { first_pivot($level) }..], *at) };
                    let lower = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_NLE_UQ>(pivot, x));
                    *at = in_order(_mm256_sub_epi32(_mm256_add_epi32(*at, *at), lower));
                }
            }
        };
    }
    each_level!(level);
    let turn = _mm256_set1_epi8(((1u32 << L) - 1) as i8);
    let [count, double] = search.rank().map_inline(|byte| _mm256_set1_epi8(byte as i8));
    for (at, out) in at.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let words = [_mm256_packus_epi32(at[0], at[1]), _mm256_packus_epi32(at[2], at[3])];
        // Packing works within the halves of registers, so each half has four rows of each of the four
        // registers.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let indices = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words[0], words[1]), order);
        let ranks = match const { pairs_of(L.saturating_sub(1)) } {
            1 => _mm256_xor_si256(indices, turn),
            _ => _mm256_sub_epi8(count, _mm256_min_epu8(indices, _mm256_avg_epu8(indices, double))),
        };
        // SAFETY: `as_chunks_mut` gives room for 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), ranks) };
    }
}

/// Returns the pivots of a level at eight indices. `pivots` begins with the level's first pivot.
///
/// # Safety
/// The machine has AVX2. The indices are below the number of the level's pivots.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pick<const LEVEL: u32>(pivots: &[f32], at: __m256i) -> __m256 {
    let eight = |i: usize| {
        let own: &[f32; 8] = pivots[8 * i..].first_chunk().expect("eight pivots of a cache line");
        // SAFETY: `own` has eight pivots.
        unsafe { _mm256_loadu_ps(own.as_ptr()) }
    };
    match LEVEL {
        0 => _mm256_set1_ps(pivots[0]),
        1..=3 => _mm256_permutevar8x32_ps(eight(0), at),
        4 => {
            let [low, high] = [0, 1].map_inline(|i| _mm256_permutevar8x32_ps(eight(i), at));
            // The fourth bit of an index, moved to the sign bit, selects the upper eight pivots.
            let half = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
            _mm256_blendv_ps(low, high, half)
        }
        // SAFETY: the caller upholds that the indices are below the number of the level's pivots.
        _ => unsafe { _mm256_i32gather_ps::<4>(pivots.as_ptr(), at) },
    }
}

/// Returns its argument, and keeps the compiler from moving the instructions around it: see `shifted_in` in
/// the AVX-512 kernel.
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(mut word: __m256i) -> __m256i {
    // SAFETY: the assembly is a comment without an instruction.
    unsafe { std::arch::asm!("/* {0} */", inout(ymm_reg) word, options(nomem, nostack, preserves_flags)) };
    word
}

/// Writes for each of 64 codes its bit in a table.
#[target_feature(enable = "avx2")]
pub(in crate::cpu::arch::x86) fn bits(table: &[u8; 32], codes: &CategoryBits, out: &mut [u8; ROW_BLOCK]) {
    for i in 0..2 {
        // SAFETY: a table has two halves of sixteen bytes. The codes and `out` have two halves of 32 bytes.
        unsafe {
            let half =
                |i: usize| _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().add(16 * i).cast()));
            let byte = _mm256_loadu_si256(codes.byte.as_ptr().add(32 * i).cast());
            let bit = _mm256_loadu_si256(codes.bit.as_ptr().add(32 * i).cast());
            let high = _mm256_cmpgt_epi8(byte, _mm256_set1_epi8(15));
            let [low, above] = [0, 1].map_inline(|i| _mm256_shuffle_epi8(half(i), byte));
            let found = _mm256_blendv_epi8(low, above, high);
            let none = _mm256_cmpeq_epi8(_mm256_and_si256(found, bit), _mm256_setzero_si256());
            let set = _mm256_andnot_si256(none, _mm256_set1_epi8(1));
            _mm256_storeu_si256(out.as_mut_ptr().add(32 * i).cast(), set);
        }
    }
}

/// Writes for each of 64 values 1 if a split that sends zeros aside sends it right, and 0 otherwise.
#[target_feature(enable = "avx2")]
pub(in crate::cpu::arch::x86) fn zero_aside<C: Compare>(
    split: &ZeroAside<C>,
    values: &[C; ROW_BLOCK],
    out: &mut [u8; ROW_BLOCK],
) {
    split.answer(values, out);
}
