//! Compares sixteen columns of a row, each with its own threshold, in two compares.

use std::arch::x86_64::*;

use super::super::layers::of_column;
use crate::cpu::{
    cache_line::CacheLine,
    ranking::{
        column_block::{BLOCK_COLUMNS, ColumnBlock, ROW_BLOCK, ThresholdMasks},
        search::LayeredColumn,
    },
};

/// Writes which values reach their thresholds in `L` layers: see [`reach`](super::super::layers::reach).
/// `MOST` says that a missing value reaches every threshold.
///
/// # Safety
/// The machine has AVX2. Otherwise the conditions of [`reach`](super::super::layers::reach): the column block
/// begins within the rows, which have `most` of its columns.
#[target_feature(enable = "avx2")]
pub(in crate::cpu::arch::x86) unsafe fn reach<const L: usize, const MOST: bool>(
    rows: &[*const f32; ROW_BLOCK],
    most: usize,
    column_block: ColumnBlock,
    layers: &[CacheLine<[f32; BLOCK_COLUMNS]>],
    reached: &mut [ThresholdMasks],
) {
    const HALF: usize = BLOCK_COLUMNS / 2;
    let layers: &[_; L] = layers.first_chunk().expect("so many layers");
    let reached: &mut [_; L] = reached.first_chunk_mut().expect("an element for each");
    for half in 0..2 {
        let mut thresholds = [_mm256_setzero_ps(); L];
        for (threshold, layer) in thresholds.iter_mut().zip(layers) {
            // SAFETY: a layer has sixteen thresholds, and a half takes eight of them.
            *threshold = unsafe { _mm256_loadu_ps(layer.0.as_ptr().add(half * HALF)) };
        }
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let left = most.saturating_sub(half * HALF).min(HALF);
        let there = _mm256_cmpgt_epi32(_mm256_set1_epi32(left as i32), lanes);
        for (r, row) in rows.iter().enumerate() {
            if let Some(ahead) = column_block.ahead.filter(|_| half == 0) {
                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead as usize).cast());
            }
            let from = row.wrapping_add(column_block.first as usize + half * HALF);
            let values = match left {
                // SAFETY: the caller upholds that the row has `most` columns of the column block. All eight
                // of this half are among them.
                HALF => unsafe { _mm256_loadu_ps(from) },
                // SAFETY: the mask leaves out the columns from `most` on. The caller upholds that the row has
                // the others.
                _ => unsafe { _mm256_maskload_ps(from, there) },
            };
            for (reached, threshold) in reached.iter_mut().zip(thresholds) {
                let is = match MOST {
                    true => _mm256_cmp_ps::<_CMP_NLT_UQ>(values, threshold),
                    false => _mm256_cmp_ps::<_CMP_GE_OQ>(values, threshold),
                };
                reached.0[half][r] = _mm256_movemask_ps(is) as u8;
            }
        }
    }
}

/// Writes the ranks of columns: in how many of its layers a value reaches the threshold.
#[target_feature(enable = "avx2")]
pub(in crate::cpu::arch::x86) fn add_up(
    columns: &[LayeredColumn],
    reached: &[ThresholdMasks],
    out: &mut [u8],
    apart: usize,
) {
    for few in columns {
        let (layers, bit, out) = of_column(few, reached, out, apart);
        let bit = _mm256_set1_epi8(bit);
        let mut ranks = [_mm256_setzero_si256(); 2];
        for layer in layers {
            for (ranks, layer) in ranks.iter_mut().zip(layer.as_chunks::<32>().0) {
                // SAFETY: `as_chunks` gives 32 bytes.
                let layer = unsafe { _mm256_loadu_si256(layer.as_ptr().cast()) };
                *ranks = _mm256_sub_epi8(*ranks, _mm256_cmpeq_epi8(_mm256_and_si256(layer, bit), bit));
            }
        }
        for (ranks, out) in ranks.into_iter().zip(out.as_chunks_mut::<32>().0) {
            // SAFETY: `as_chunks_mut` gives room for 32 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), ranks) };
        }
    }
}
