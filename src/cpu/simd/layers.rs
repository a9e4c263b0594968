//! Columns of few thresholds, ranked where they lie: sixteen of them are compared with a threshold each, a row at a time, and what
//! comes of 64 rows is turned as bits.

use std::arch::x86_64::*;

use super::{
    super::{
        isa::{Isa, isa},
        line::Line,
        ranking::{
            row_block::{BLOCK, LINE, LineOf, MOST_LAYERS, Reached},
            search::{Layered, Missing},
        },
    },
    LANES,
};

/// Says for each row and column whether the value reaches the column's threshold in a layer, if the machine has vectors for that.
///
/// # Safety
/// The line begins within the rows, which have columns up to `most` of it; every layer has its place in `reached`.
pub(in crate::cpu) unsafe fn reach(
    rows: &[*const f32; BLOCK],
    most: usize,
    line: LineOf,
    layers: &[Line<[f32; LINE]>],
    missing: Missing,
    reached: &mut [Reached],
) -> bool {
    let isa = isa();
    if isa < Isa::Avx2 {
        return false;
    }
    macro_rules! each {
        ($($count:literal)*) => {
            match (isa, missing, layers.len()) {
                $(
                    (Isa::Avx512, Missing::Least, $count) => reach_512::<$count, false>(rows, most, line, layers, reached),
                    (Isa::Avx512, Missing::Most, $count) => reach_512::<$count, true>(rows, most, line, layers, reached),
                    (_, Missing::Least, $count) => reach_256::<$count, false>(rows, most, line, layers, reached),
                    (_, Missing::Most, $count) => reach_256::<$count, true>(rows, most, line, layers, reached),
                )*
                (_, _, count) => return count == 0,
            }
        };
    }
    const { assert!(MOST_LAYERS == 4) };
    // SAFETY: the machine is able; as promised to this function.
    unsafe { each!(1 2 3 4) };
    true
}

/// # Safety
/// AVX-512 F, DQ and BW; `L` layers; otherwise as for [`reach`].
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn reach_512<const L: usize, const MOST: bool>(
    rows: &[*const f32; BLOCK],
    most: usize,
    line: LineOf,
    layers: &[Line<[f32; LINE]>],
    reached: &mut [Reached],
) {
    const { assert!(LINE == LANES) };
    let some = (((1u32 << most.min(LANES)) - 1) & 0xffff) as __mmask16;
    let mut thresholds = [_mm512_setzero_ps(); L];
    for (threshold, layer) in thresholds.iter_mut().zip(layers) {
        // SAFETY: there are sixteen of them.
        *threshold = unsafe { _mm512_loadu_ps(layer.0.as_ptr()) };
    }
    let mut bits = [const { Line([0u16; BLOCK]) }; L];
    for (r, row) in rows.iter().enumerate() {
        if let Some(ahead) = line.ahead {
            _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead as usize).cast());
        }
        // SAFETY: the mask keeps to the row's columns.
        let values = unsafe { _mm512_maskz_loadu_ps(some, row.add(line.first as usize)) };
        for (bits, threshold) in bits.iter_mut().zip(thresholds) {
            bits.0[r] = match MOST {
                true => _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(values, threshold),
                false => _mm512_cmp_ps_mask::<_CMP_GE_OQ>(values, threshold),
            };
        }
    }
    for (bits, reached) in bits.iter().zip(reached) {
        // SAFETY: they are 64 words.
        let words = unsafe { [0, BLOCK / 2].map(|place| bits.0.as_ptr().add(place).cast::<__m512i>()) };
        for (half, reached) in reached.0.iter_mut().enumerate() {
            // SAFETY: twice 32 words are there, and room for 64 bytes.
            unsafe {
                let [mut low, mut high] = [_mm512_load_si512(words[0]), _mm512_load_si512(words[1])];
                if half == 1 {
                    (low, high) = (_mm512_srli_epi16::<8>(low), _mm512_srli_epi16::<8>(high));
                }
                let low = _mm512_castsi256_si512(_mm512_cvtepi16_epi8(low));
                let both = _mm512_inserti64x4::<1>(low, _mm512_cvtepi16_epi8(high));
                // At once, because it is read so.
                _mm512_storeu_si512(reached.as_mut_ptr().cast(), both);
            }
        }
    }
}

/// # Safety
/// AVX2; `L` layers; otherwise as for [`reach`].
#[target_feature(enable = "avx2")]
unsafe fn reach_256<const L: usize, const MOST: bool>(
    rows: &[*const f32; BLOCK],
    most: usize,
    line: LineOf,
    layers: &[Line<[f32; LINE]>],
    reached: &mut [Reached],
) {
    const HALF: usize = LINE / 2;
    let layers: &[_; L] = layers.first_chunk().expect("so many layers");
    let reached: &mut [_; L] = reached.first_chunk_mut().expect("a place for each");
    for half in 0..2 {
        let mut thresholds = [_mm256_setzero_ps(); L];
        for (threshold, layer) in thresholds.iter_mut().zip(layers) {
            // SAFETY: there are sixteen of them.
            *threshold = unsafe { _mm256_loadu_ps(layer.0.as_ptr().add(half * HALF)) };
        }
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let left = most.saturating_sub(half * HALF).min(HALF);
        let there = _mm256_cmpgt_epi32(_mm256_set1_epi32(left as i32), lanes);
        for (r, row) in rows.iter().enumerate() {
            if let Some(ahead) = line.ahead.filter(|_| half == 0) {
                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead as usize).cast());
            }
            let from = row.wrapping_add(line.first as usize + half * HALF);
            let values = match left {
                // SAFETY: the row has these columns.
                HALF => unsafe { _mm256_loadu_ps(from) },
                // SAFETY: the mask keeps to the row's columns.
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

/// Ranks of columns: how many of its thresholds each value reaches.
///
/// # Safety
/// [`reach`] has just said that the machine is able.
pub(in crate::cpu) unsafe fn add_up(columns: &[Layered], reached: &[Reached], out: &mut [u8], apart: usize) {
    // SAFETY: as promised to this function.
    unsafe {
        match isa() {
            Isa::Avx512 => add_up_512(columns, reached, out, apart),
            _ => add_up_256(columns, reached, out, apart),
        }
    }
}

/// A column's layers, its half of them and its bit there, and where its ranks go.
fn places<'r, 'o>(
    few: &Layered,
    reached: &'r [Reached],
    out: &'o mut [u8],
    apart: usize,
) -> (impl Iterator<Item = &'r [u8; BLOCK]>, i8, &'o mut [u8; BLOCK]) {
    let half = usize::from(few.lane / 8 % 2);
    let layers = reached[..usize::from(few.count)].iter().map(move |layer| &layer.0[half]);
    let out = out[few.column as usize * apart..].first_chunk_mut().expect("a block of room");
    (layers, 1u8.wrapping_shl(few.lane.into()) as i8, out)
}

#[target_feature(enable = "avx512f,avx512bw")]
fn add_up_512(columns: &[Layered], reached: &[Reached], out: &mut [u8], apart: usize) {
    let one = _mm512_set1_epi8(1);
    for few in columns {
        let (layers, bit, out) = places(few, reached, out, apart);
        let bit = _mm512_set1_epi8(bit);
        let mut ranks = _mm512_setzero_si512();
        for layer in layers {
            // SAFETY: there are 64 of them.
            let is = unsafe { _mm512_test_epi8_mask(_mm512_loadu_si512(layer.as_ptr().cast()), bit) };
            ranks = _mm512_mask_add_epi8(ranks, is, ranks, one);
        }
        // SAFETY: 64 bytes have the room of 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), ranks) };
    }
}

#[target_feature(enable = "avx2")]
fn add_up_256(columns: &[Layered], reached: &[Reached], out: &mut [u8], apart: usize) {
    for few in columns {
        let (layers, bit, out) = places(few, reached, out, apart);
        let bit = _mm256_set1_epi8(bit);
        let mut ranks = [_mm256_setzero_si256(); 2];
        for layer in layers {
            for (ranks, layer) in ranks.iter_mut().zip(layer.as_chunks::<32>().0) {
                // SAFETY: there are 32 of them.
                let layer = unsafe { _mm256_loadu_si256(layer.as_ptr().cast()) };
                *ranks = _mm256_sub_epi8(*ranks, _mm256_cmpeq_epi8(_mm256_and_si256(layer, bit), bit));
            }
        }
        for (ranks, out) in ranks.into_iter().zip(out.as_chunks_mut::<32>().0) {
            // SAFETY: 32 bytes have the room of 32 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), ranks) };
        }
    }
}
