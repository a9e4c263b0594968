//! Counts thresholds sixteen at a time: each threshold of the root against sixteen rows, and below the root
//! sixteen thresholds against one row.

use std::arch::x86_64::*;

use super::LANES;
use crate::cpu::{
    isa::{Isa, isa, popcnt},
    ranking::count::FAN,
};

// A group of thresholds fills a register.
const _: () = assert!(FAN == LANES);

/// Counts as [`count_at_most`](crate::cpu::ranking::count::count_at_most) does, if the machine has the
/// instructions. Otherwise returns `false`.
pub(in crate::cpu) fn count<const N: usize>(
    groups: &[[f32; FAN]],
    levels: &[u32],
    root: usize,
    values: &[f32; N],
    found: &mut [u32; N],
) -> bool {
    let able = isa() == Isa::Avx512 && popcnt();
    if able {
        // SAFETY: `isa` has found AVX-512 F and DQ, and POPCNT has been detected.
        unsafe { within(groups, levels, root, values, found) };
    }
    able
}

#[target_feature(enable = "avx512f,avx512dq,popcnt")]
fn within<const N: usize>(
    groups: &[[f32; FAN]],
    levels: &[u32],
    root: usize,
    values: &[f32; N],
    found: &mut [u32; N],
) {
    let mut levels = levels;
    if let (true, Some((first, below))) = (N.is_multiple_of(LANES), levels.split_first()) {
        let root = &groups[*first as usize][..root];
        for (values, found) in values.as_chunks().0.iter().zip(found.as_chunks_mut().0) {
            let (values, one) = (load(values), _mm512_set1_epi32(1));
            let mut counts = _mm512_setzero_si512();
            for t in root {
                let reached = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(_mm512_set1_ps(*t), values);
                counts = _mm512_mask_add_epi32(counts, reached, counts, one);
            }
            // SAFETY: `found` has room for sixteen counts.
            unsafe { _mm512_storeu_si512(std::ptr::from_mut::<[u32; LANES]>(found).cast(), counts) };
        }
        levels = below;
    }
    for level in levels {
        let groups = &groups[*level as usize..];
        for (value, found) in values.iter().zip(found.iter_mut()) {
            let group = load(&groups[*found as usize]);
            let reached = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(group, _mm512_set1_ps(*value));
            *found = *found * FAN as u32 + reached.count_ones();
        }
    }
}

/// Loads sixteen values into a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; LANES]) -> __m512 {
    // SAFETY: `values` has sixteen values.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}
