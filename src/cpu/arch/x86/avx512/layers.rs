//! Compares sixteen columns of a row, each with its own threshold, in one compare.

use std::arch::x86_64::*;

use super::{super::layers::of_column, LANES};
use crate::{
    arrays::MapInline,
    cpu::{
        cache_line::CacheLine,
        ranking::{
            column_block::{BLOCK_COLUMNS, ColumnBlock, ROW_BLOCK, ThresholdMasks},
            search::LayeredColumn,
        },
    },
};

/// Writes which values reach their thresholds in `L` layers: see [`reach`](super::super::layers::reach).
/// `MOST` says that a missing value reaches every threshold.
///
/// # Safety
/// The machine has AVX-512 F, DQ and BW. Otherwise the conditions of [`reach`](super::super::layers::reach):
/// the column block begins within the rows, which have `most` of its columns.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
pub(in crate::cpu::arch::x86) unsafe fn reach<const L: usize, const MOST: bool>(
    rows: &[*const f32; ROW_BLOCK],
    most: usize,
    column_block: ColumnBlock,
    layers: &[CacheLine<[f32; BLOCK_COLUMNS]>],
    reached: &mut [ThresholdMasks],
) {
    const { assert!(BLOCK_COLUMNS == LANES) };
    let some = (((1u32 << most.min(LANES)) - 1) & 0xffff) as __mmask16;
    let mut thresholds = [_mm512_setzero_ps(); L];
    for (threshold, layer) in thresholds.iter_mut().zip(layers) {
        // SAFETY: a layer has sixteen thresholds.
        *threshold = unsafe { _mm512_loadu_ps(layer.0.as_ptr()) };
    }
    let mut bits = [const { CacheLine([0u16; ROW_BLOCK]) }; L];
    for (r, row) in rows.iter().enumerate() {
        if let Some(ahead) = column_block.ahead {
            _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead as usize).cast());
        }
        // SAFETY: the mask leaves out the columns from `most` on. The caller upholds that the row has the
        // others.
        let values = unsafe { _mm512_maskz_loadu_ps(some, row.add(column_block.first as usize)) };
        for (bits, threshold) in bits.iter_mut().zip(thresholds) {
            bits.0[r] = match MOST {
                true => _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(values, threshold),
                false => _mm512_cmp_ps_mask::<_CMP_GE_OQ>(values, threshold),
            };
        }
    }
    for (bits, reached) in bits.iter().zip(reached) {
        // SAFETY: `bits` has 64 words of two bytes, so 32 of them follow each pointer.
        let words =
            unsafe { [0, ROW_BLOCK / 2].map_inline(|first| bits.0.as_ptr().add(first).cast::<__m512i>()) };
        for (half, reached) in reached.0.iter_mut().enumerate() {
            // SAFETY: 32 words of two bytes follow each pointer, which a `CacheLine` aligns to 64 bytes.
            // `reached` has room for 64 bytes.
            unsafe {
                let [mut low, mut high] = [_mm512_load_si512(words[0]), _mm512_load_si512(words[1])];
                if half == 1 {
                    (low, high) = (_mm512_srli_epi16::<8>(low), _mm512_srli_epi16::<8>(high));
                }
                let low = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(low));
                let both = _mm512_inserti64x4::<1>(low, _mm512_cvtepi16_epi8(high));
                // All 64 bytes are stored at once, because `add_up` loads them at once.
                _mm512_storeu_si512(reached.as_mut_ptr().cast(), both);
            }
        }
    }
}

/// Writes the ranks of columns: in how many of its layers a value reaches the threshold.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::cpu::arch::x86) fn add_up(
    columns: &[LayeredColumn],
    reached: &[ThresholdMasks],
    out: &mut [u8],
    apart: usize,
) {
    let one = _mm512_set1_epi8(1);
    for few in columns {
        let (layers, bit, out) = of_column(few, reached, out, apart);
        let bit = _mm512_set1_epi8(bit);
        let mut ranks = _mm512_setzero_si512();
        for layer in layers {
            // SAFETY: `layer` has 64 bytes.
            let is = unsafe { _mm512_test_epi8_mask(_mm512_loadu_si512(layer.as_ptr().cast()), bit) };
            ranks = _mm512_mask_add_epi8(ranks, is, ranks, one);
        }
        // SAFETY: `out` has room for 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), ranks) };
    }
}
