//! Walks by tiles: a register holds one tile of eight splits.

use std::arch::x86_64::*;

use super::super::tiles::{MOST, Walks, kernels};
use crate::{
    arrays::MapInline,
    cpu::{
        engine::tiles::tables::Tiles,
        engine::walk::{Ending, NodeStore, Shape},
        nodes::{FEATURE, Node},
    },
};

kernels!("avx2", 8);

/// Returns a bit for each lane, set where the row goes right at the lane's split.
///
/// # Safety
/// The machine has AVX2. `at` has the addresses of as many tiles as a register has room for. Each offset
/// leads from `data` to a row with the forest's columns.
#[inline]
#[target_feature(enable = "avx2")]
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
        // The first four splits in the register, and the other four.
        let [low, high] = match P {
            8 => [0, 4].map_inline(|first| _mm256_loadu_ps(tile(0).add(first).cast())),
            4 => [0, 1].map_inline(|i| _mm256_loadu_ps(tile(i).cast())),
            _ => [0, 2].map_inline(|i| {
                let [a, b] = [tile(i), tile(i + 1)].map_inline(|tile| _mm_loadu_ps(tile.cast()));
                _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), b)
            }),
        };
        // Thresholds and flags alternate. The shuffles separate them in pairs, which come out in the order 0,
        // 2, 1, 3.
        let ordered =
            |v: __m256| _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(v)));
        let thresholds = ordered(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
        let metas = ordered(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
        let columns = _mm256_and_si256(_mm256_castps_si256(metas), _mm256_set1_epi32(FEATURE as i32));
        let index = _mm256_add_epi32(columns, _mm256_loadu_si256(offsets.as_ptr().cast()));
        let x = _mm256_i32gather_ps::<4>(data, index);
        let reached = _mm256_cmp_ps::<_CMP_GE_OQ>(x, thresholds);
        let missing = _mm256_and_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x), metas);
        // The highest bit of each lane counts. In flags it is set where a missing value goes right.
        _mm256_movemask_ps(_mm256_or_ps(reached, missing)) as u32
    }
}
