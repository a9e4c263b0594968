//! Walks many rows through a tree until all are at leaves. A lane whose walk has ended takes the next one that waits, so
//! that lanes stay busy although walks differ in length.

use std::arch::x86_64::*;

use super::{BLOCK_SHIFT, GROUPS, LANES, Lanes, WalkRule16, count, next};
use crate::{
    arrays,
    cpu::{
        engine::walk::MOST_ADDRESSES,
        nodes::{LEAF, Nodes},
        window::{ROW_BLOCK, Window},
    },
};

/// Lanes of ended walks from which on they take others. With fewer, the branch and the moves cost more than idle lanes.
/// `fangorn bench` on a random forest of deep trees says which number is fastest.
const TAKEN_TOGETHER: u32 = 16;

/// Walks of ended lanes, in the order in which they ended: their numbers, and the addresses of their leaves. There is room
/// for a whole register after the last one.
struct Ended {
    walks: [u32; MOST_ADDRESSES + LANES],
    leaves: [u32; MOST_ADDRESSES + LANES],
    count: usize,
}

impl Ended {
    /// Adds the walks of the lanes `done`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add(&mut self, done: __mmask16, walks: __m512i, leaves: __m512i) {
        let begin = self.count.min(MOST_ADDRESSES);
        // SAFETY: `begin` is at most `MOST_ADDRESSES`, so the arrays have room for sixteen words from there on.
        unsafe {
            let put = |to: &mut [u32], v| {
                _mm512_storeu_si512(to.as_mut_ptr().add(begin).cast(), _mm512_maskz_compress_epi32(done, v));
            };
            put(&mut self.walks, walks);
            put(&mut self.leaves, leaves);
        }
        self.count += done.count_ones() as usize;
    }
}

/// Returns the lanes of all registers, those of the first one in the lowest bits.
#[inline(always)]
fn together(lanes: [__mmask16; GROUPS]) -> u64 {
    const { assert!(GROUPS * LANES == 64) };
    (0..GROUPS).fold(0, |all, g| all | u64::from(lanes[g]) << (g * LANES))
}

/// Returns whether the offsets of so many rows of a window are small enough for gathers.
pub(super) fn can_serve(window: Window<'_>) -> bool {
    // The rows may begin within a row block.
    window.columns <= i32::MAX as usize / (MOST_ADDRESSES + ROW_BLOCK)
}

/// Returns the lanes of a window's rows with the numbers `own`, counted from the row `first`.
///
/// # Safety
/// The machine has AVX-512 F and DQ. The window has the rows, and the queue [can serve](can_serve) it.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn lanes_of(window: Window<'_>, first: usize, own: __m512i) -> Lanes {
    let (data, offset) = window.block(first);
    let own = _mm512_add_epi32(own, _mm512_set1_epi32(offset as i32));
    let block = _mm512_set1_epi32((window.columns * ROW_BLOCK) as i32);
    let in_block = _mm512_and_si512(own, _mm512_set1_epi32(ROW_BLOCK as i32 - 1));
    let before = _mm512_mullo_epi32(_mm512_srli_epi32::<BLOCK_SHIFT>(own), block);
    Lanes { data: data.as_ptr(), offsets: _mm512_add_epi32(before, in_block) }
}

/// Takes the walks of the rows from `first` on through the tree at a position to their leaves. `addresses` has the node
/// that each row has reached, and then its leaf.
///
/// # Safety
/// The machine has AVX-512 F and DQ. The position is a tree's. The window holds as many rows as there are addresses, at
/// least as many as lanes, and the queue [can serve](can_serve) it. Walks reach the addresses, and the rows have the
/// forest's columns.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn walk_on<R: WalkRule16>(
    nodes: &Nodes<R>,
    position: usize,
    window: Window<'_>,
    first: usize,
    addresses: &mut [u32],
) {
    assert!((GROUPS * LANES..=MOST_ADDRESSES).contains(&addresses.len()));
    let constant = _mm512_set1_epi32(nodes.constants[position] as i32);
    let stride = _mm512_set1_epi32(nodes.stride as i32);
    let leaf = _mm512_set1_epi32(LEAF as i32);
    let base = nodes.nodes.as_ptr();
    let all = _mm512_set1_epi32(addresses.len() as i32);
    // The walks of each register: their numbers, the nodes that they are at, and their rows. `open` says which lanes have
    // one, those of the first register in the lowest bits.
    let mut walks: [__m512i; GROUPS] =
        arrays::from_fn(|g| _mm512_add_epi32(count(), _mm512_set1_epi32((g * LANES) as i32)));
    // SAFETY: the assertion above checks that there are as many addresses as lanes, and the caller upholds that the window
    // has the first rows.
    let (mut at, mut lanes): ([__m512i; GROUPS], [Lanes; GROUPS]) = unsafe {
        (
            arrays::from_fn(|g| _mm512_loadu_si512(addresses.as_ptr().add(g * LANES).cast())),
            arrays::from_fn(|g| lanes_of(window, first, walks[g])),
        )
    };
    let mut open = u64::MAX;
    let mut waiting = GROUPS * LANES;
    let mut ended =
        Ended { walks: [0; MOST_ADDRESSES + LANES], leaves: [0; MOST_ADDRESSES + LANES], count: 0 };
    while ended.count < addresses.len() {
        // SAFETY: the caller upholds that walks reach the addresses and that the rows have the forest's columns. A leaf is
        // a node that can be read, too, and a lane at a leaf stays there. The address after a step from a leaf that does
        // not hold is dropped.
        let at_leaf: [__mmask16; GROUPS] = unsafe {
            let node: [_; GROUPS] = arrays::from_fn(|g| R::gather(base, at[g], constant, stride));
            arrays::from_fn(|g| {
                let at_leaf = _mm512_test_epi32_mask(node[g].meta, leaf);
                let next = next::<Window<'_>>(node[g], lanes[g]);
                at[g] = if R::LEAVES_HOLD { next } else { _mm512_mask_mov_epi32(next, at_leaf, at[g]) };
                at_leaf
            })
        };
        let done = open & together(at_leaf);
        let takes = waiting < addresses.len() && done.count_ones() >= TAKEN_TOGETHER;
        if !takes && done != open {
            continue;
        }
        open &= !done;
        for g in 0..GROUPS {
            let done = (done >> (g * LANES)) as __mmask16;
            ended.add(done, walks[g], at[g]);
            let some = ((1u32 << (addresses.len() - waiting).min(LANES)) - 1) as __mmask16;
            // SAFETY: the mask leaves out the addresses past the last one.
            let next = unsafe { _mm512_maskz_loadu_epi32(some, addresses.as_ptr().add(waiting).cast()) };
            let number = _mm512_add_epi32(count(), _mm512_set1_epi32(waiting as i32));
            let number = _mm512_mask_expand_epi32(all, done, number);
            let taken = done & _mm512_cmplt_epi32_mask(number, all);
            open |= u64::from(taken) << (g * LANES);
            walks[g] = _mm512_mask_mov_epi32(walks[g], taken, number);
            at[g] = _mm512_mask_expand_epi32(at[g], taken, next);
            // SAFETY: every lane has the number of a row.
            lanes[g] = unsafe { lanes_of(window, first, walks[g]) };
            waiting += taken.count_ones() as usize;
        }
    }
    for (walk, leaf) in ended.walks.iter().zip(&ended.leaves).take(addresses.len()) {
        if let Some(address) = addresses.get_mut(*walk as usize) {
            *address = *leaf;
        }
    }
}
