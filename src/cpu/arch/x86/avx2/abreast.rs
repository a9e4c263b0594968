//! One row through many trees abreast, eight trees in a register: for a few rows of any number of columns.
//!
//! Walks of different trees don't wait for each other, so one row in many trees advances as fast as many rows
//! in one tree. Walks end after different numbers of steps. A register whose walks have all ended goes on
//! with the next eight trees.

use std::arch::x86_64::*;

use super::{GROUPS, LANES, Lanes, WalkRule8, next as step};
use crate::{
    arrays,
    cpu::{
        engine::walk::{LeafAddresses, MOST_ADDRESSES, Span},
        nodes::{LEAF, Nodes},
        rows::Rows,
    },
};

// Trees are taken eight at a time, and the last register may have fewer.
const _: () = assert!(MOST_ADDRESSES.is_multiple_of(LANES));

/// Writes the addresses of the leaves that a row reaches in at most [`MOST_ADDRESSES`] trees to `found`, tree
/// by tree. Eight registers of eight trees advance together. A register whose walks have all ended goes on
/// with the next eight trees.
///
/// # Safety
/// The machine has AVX2. [`fits`](crate::cpu::arch::x86::fits) is true for the rows, and `tree.stride` is 1.
/// Otherwise the conditions of [`super::block`]: the row is in range, it has the forest's columns, and trees
/// are positions.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn row<R: WalkRule8>(
    nodes: &Nodes<R>,
    rows: &Rows<'_>,
    row: usize,
    tree: Span,
    found: &mut LeafAddresses,
) {
    let (first, count) = (tree.start, tree.count);
    assert!(count <= MOST_ADDRESSES);
    let lanes = Lanes { data: rows.from(row).as_ptr(), offsets: _mm256_setzero_si256() };
    let stride = _mm256_set1_epi32(nodes.stride as i32);
    let leaf = _mm256_set1_epi32(LEAF as i32);
    let zero = _mm256_setzero_si256();
    let (roots, constants) = (&nodes.roots[first..][..count], &nodes.constants[first..][..count]);
    // Loads eight words from `begin` on. Lanes past the last tree repeat it.
    let eight = |all: &[u32], begin: usize| match all[begin..].first_chunk::<LANES>() {
        // SAFETY: `own` has eight words.
        Some(own) => unsafe { _mm256_loadu_si256(own.as_ptr().cast()) },
        None => {
            let own: [u32; LANES] = arrays::from_fn(|l| all[(begin + l).min(count - 1)]);
            // SAFETY: `own` has eight words.
            unsafe { _mm256_loadu_si256(own.as_ptr().cast()) }
        }
    };
    let (mut at, mut constant) = ([zero; GROUPS], [zero; GROUPS]);
    let (mut begin, mut next, mut open) = ([0; GROUPS], 0, 0u32);
    for g in 0..GROUPS {
        if next < count {
            (at[g], constant[g], begin[g]) = (eight(roots, next), eight(constants, next), next);
            (next, open) = (next + LANES, open | 1 << g);
        }
    }
    while open != 0 {
        for g in 0..GROUPS {
            if open >> g & 1 == 0 {
                continue;
            }
            // SAFETY: walks reach every address in `at`, so `PackedForest::verify` bounds it. A leaf is a node that
            // can be read, too.
            let node = unsafe { R::gather8(nodes.nodes.as_ptr(), at[g], constant[g], stride) };
            let inside = _mm256_cmpeq_epi32(_mm256_and_si256(node.meta, leaf), zero);
            if _mm256_movemask_epi8(inside) != 0 {
                // SAFETY: the caller upholds that the row has the forest's columns. A step from a leaf that
                // does not hold may give any address, but the blend below keeps the leaf's.
                let below = unsafe { step::<&Rows<'_>>(node, lanes) };
                at[g] = if R::LEAVES_HOLD { below } else { _mm256_blendv_epi8(at[g], below, inside) };
                continue;
            }
            // SAFETY: `begin[g]` is a multiple of eight below `count`, and `found` has room for whole eights.
            unsafe { _mm256_storeu_si256(found.as_mut_ptr().add(begin[g]).cast(), at[g]) };
            if next < count {
                (at[g], constant[g], begin[g]) = (eight(roots, next), eight(constants, next), next);
                next += LANES;
            } else {
                open &= !(1 << g);
            }
        }
    }
}
