//! A row through many trees abreast, eight trees a register: what a few rows of any width take.
//!
//! Walks of different trees don't wait for each other, so a row's are as good as those of many rows through one tree. They end
//! after different numbers of steps; a register whose walks have all ended goes on with the next eight trees.

use std::arch::x86_64::*;

use super::{GROUPS, LANES, Lanes, WalkRule8, next as step};
use crate::cpu::{
    engine::walk::{LeafAddresses, MOST_ADDRESSES, Span},
    nodes::{LEAF, Nodes},
    rows::Rows,
};

// Trees go eight at a time, the last ones with others beside them.
const _: () = assert!(MOST_ADDRESSES.is_multiple_of(LANES));

/// Puts the leaves that a row comes to in trees, at most [`MOST_ADDRESSES`] of them side by side, into `found`. Eight registers of eight trees
/// advance together; whose trees have all come to their leaves goes on with the next eight.
///
/// # Safety
/// AVX2; [`fits`](crate::cpu::arch::x86::fits); `tree.step` is 1; otherwise as for [`super::block`].
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
    // Eight from there on; lanes past the last tree walk it again.
    let eight = |all: &[u32], begin: usize| match all[begin..].first_chunk::<LANES>() {
        // SAFETY: there are eight words.
        Some(own) => unsafe { _mm256_loadu_si256(own.as_ptr().cast()) },
        None => {
            let own: [u32; LANES] = std::array::from_fn(|l| all[(begin + l).min(count - 1)]);
            // SAFETY: as above.
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
            // SAFETY: as promised to this function; a leaf, too, is a node that can be read.
            let node = unsafe { R::gather8(nodes.nodes.as_ptr(), at[g], constant[g], stride) };
            let inside = _mm256_cmpeq_epi32(_mm256_and_si256(node.meta, leaf), zero);
            if _mm256_movemask_epi8(inside) != 0 {
                // SAFETY: as promised to this function; what a leaf that does not hold leads to does not count.
                let below = unsafe { step::<&Rows<'_>>(node, lanes) };
                at[g] = if R::HOLDS { below } else { _mm256_blendv_epi8(at[g], below, inside) };
                continue;
            }
            // SAFETY: trees are eight at a time, and there is room for whole eights.
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
