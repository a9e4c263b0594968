//! Walks by tiles: a register holds two tiles of eight splits.

use std::arch::x86_64::*;

use super::{
    super::tiles::{MOST, Walks, kernels},
    pairs, right, words,
};
use crate::{
    arrays::{self, MapInline},
    cpu::{
        engine::tiles::tables::Tiles,
        engine::walk::{Ending, NodeStore, Shape},
        nodes::{FEATURE, Node},
    },
};

kernels!("avx512f,avx512dq", 16);

/// Returns a bit for each lane, set if the row goes right at the lane's split.
///
/// # Safety
/// The machine has AVX-512 F and DQ. `at` holds the addresses of as many tiles as a register has room for. Each
/// offset leads from `data` to a row with the forest's columns.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn outcomes<const P: usize>(
    nodes: *const Node,
    at: &[u32],
    data: *const f32,
    offsets: &[u32; LANES],
) -> u32 {
    // SAFETY: the caller upholds that the addresses are those of tiles and the rows have the forest's
    // columns. A node is eight bytes, a threshold and its flags.
    unsafe {
        let tile = |i: usize| nodes.add(at[i] as usize * P);
        let (thresholds, metas) = match P {
            8 => {
                let [a, b] = [tile(0), tile(1)].map_inline(|tile| _mm512_loadu_si512(tile.cast()));
                let (thresholds, metas) = words(a, b);
                (_mm512_castsi512_ps(thresholds), metas)
            }
            4 => {
                let two = |i: usize| {
                    let [a, b] = [tile(i), tile(i + 1)].map_inline(|tile| _mm256_loadu_si256(tile.cast()));
                    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b)
                };
                let (thresholds, metas) = words(two(0), two(2));
                (_mm512_castsi512_ps(thresholds), metas)
            }
            _ => {
                let own: [i32; LANES] = arrays::from_fn(|l| (at[l / P] as usize * P + l % P) as i32);
                pairs::<8>(nodes.cast(), _mm512_loadu_si512(own.as_ptr().cast()))
            }
        };
        let columns = _mm512_and_si512(metas, _mm512_set1_epi32(FEATURE as i32));
        let index = _mm512_add_epi32(columns, _mm512_loadu_si512(offsets.as_ptr().cast()));
        let x = _mm512_i32gather_ps::<4>(index, data);
        right(x, thresholds, metas).into()
    }
}
