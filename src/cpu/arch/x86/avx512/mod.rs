//! AVX-512: sixteen rows a register, four registers a tree.
//!
//! A walk is a chain of loads, so 64 of them advance together. The first five levels of a tree are 31 nodes, which fit
//! two registers of thresholds and two of columns: there a step is a permute and the rows' values, gathered, or
//! loaded and blended where a [`Window`] holds them by column. Further down it is two gathers of a node's two words and one
//! of a value.

pub(in crate::cpu) mod blend;
pub(super) mod copy;
pub(in crate::cpu) mod count;
pub(super) mod layers;
pub(super) mod rank;
pub(in crate::cpu) mod registers;
pub(super) mod tiles;
mod top;

use std::arch::x86_64::*;

use top::top;

use super::RowSpans;
use crate::{
    cpu::{
        engine::walk::{LeafAddresses, Shape, Span, WalkStarts},
        nodes::{
            DepthFirstNode, FEATURE, LEAF, LinkedNode, Node, Nodes, RANK_LEAF_SHIFT, RANK_MASK, RANK_SHIFTS,
            RankNode, SHORT_FEATURE, SHORT_LINK, SHORT_SHIFT, ShortNode, WalkRule,
        },
        rows::{Row, Rows},
        window::{BLOCK, Window},
    },
    plan::Remainder,
};

/// Rows in a register.
pub(super) const LANES: usize = 16;
/// Registers that advance together.
pub(super) const GROUPS: usize = 4;
/// From a column's number to its place in a block of a window.
const BLOCK_SHIFT: u32 = BLOCK.ilog2();

/// Sixteen of 64 rows: where the first of all begins, and each one's offset from there.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Lanes<T = f32> {
    data: *const T,
    offsets: __m512i,
}

/// Where rows are read from.
pub(in crate::cpu) trait Source16: RowSpans {
    /// What rows are made of.
    type Value: Copy;
    /// Whether values of a column are `f32` that follow each other.
    const BY_COLUMN: bool;
    /// Lanes for the rows from `row + begin` on, where `row + last` is the last that counts.
    ///
    /// # Safety
    /// AVX-512 F and DQ; the rows are there.
    unsafe fn lanes(&self, row: usize, begin: usize, last: usize) -> Lanes<Self::Value>;
    /// The rows' values of these columns.
    ///
    /// # Safety
    /// AVX-512 F and DQ; the columns are the rows'.
    unsafe fn values(column: __m512i, rows: Lanes<Self::Value>) -> __m512;
}

impl Source16 for &Rows<'_> {
    type Value = f32;
    const BY_COLUMN: bool = false;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, last: usize) -> Lanes {
        // Lanes past the last row walk it again; what they find is dropped.
        let own = _mm512_add_epi32(count(), _mm512_set1_epi32(begin as i32));
        let own = _mm512_min_epi32(own, _mm512_set1_epi32(last as i32));
        let stride = _mm512_set1_epi32(self.row_stride() as i32);
        Lanes { data: self.from(row).as_ptr(), offsets: _mm512_mullo_epi32(own, stride) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn values(column: __m512i, rows: Lanes) -> __m512 {
        // SAFETY: the index is a row's offset plus a column.
        unsafe { _mm512_i32gather_ps::<4>(_mm512_add_epi32(rows.offsets, column), rows.data) }
    }
}

impl Source16 for Window<'_> {
    type Value = f32;
    const BY_COLUMN: bool = true;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, _last: usize) -> Lanes {
        // SAFETY: as promised to this function.
        unsafe { lanes(*self, row, begin) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn values(column: __m512i, rows: Lanes) -> __m512 {
        let index = _mm512_add_epi32(rows.offsets, _mm512_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is a row's place in a column's block.
        unsafe { _mm512_i32gather_ps::<4>(index, rows.data) }
    }
}

/// Ranks of a byte, widened as they are read.
impl Source16 for Window<'_, u8> {
    type Value = u8;
    const BY_COLUMN: bool = false;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, _last: usize) -> Lanes<u8> {
        // SAFETY: as promised to this function.
        unsafe { lanes(*self, row, begin) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn values(column: __m512i, rows: Lanes<u8>) -> __m512 {
        let index = _mm512_add_epi32(rows.offsets, _mm512_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is a row's place in a column's block; a window has room for a word behind its last byte.
        let words = unsafe { _mm512_i32gather_epi32::<1>(index, rows.data.cast()) };
        _mm512_cvtepi32_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xff)))
    }
}

/// Lanes past the last row read what is beside it, or the room that a window has behind its last column.
///
/// # Safety
/// AVX-512 F; the row is in the window.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lanes<T: Row>(window: Window<'_, T>, row: usize, begin: usize) -> Lanes<T> {
    let (data, place) = window.block(row);
    let own = _mm512_add_epi32(count(), _mm512_set1_epi32(begin as i32));
    Lanes { data: data.as_ptr().wrapping_add(place), offsets: own }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn count() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// A node a lane.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct LaneNodes {
    threshold: __m512,
    /// Flags.
    meta: __m512i,
    column: __m512i,
    /// The left child's address.
    left: __m512i,
    /// From there to the right one.
    apart: __m512i,
}

/// A layout rule with a vector step.
pub(in crate::cpu) trait WalkRule16: WalkRule<Compare = f32> {
    /// Of the nodes from there on those at these addresses, in a tree with this constant, of a layout with this stride.
    ///
    /// # Safety
    /// AVX-512 F and DQ; addresses are reachable.
    unsafe fn gather(nodes: *const Self, at: __m512i, constant: __m512i, stride: __m512i) -> LaneNodes;
}

/// The two words of the nodes at `base`, `SCALE x index` bytes on.
///
/// # Safety
/// AVX-512 F; there are nodes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn pairs<const SCALE: i32>(base: *const i64, index: __m512i) -> (__m512, __m512i) {
    // Two words at a time: what a gather costs it costs by element.
    // SAFETY: as promised to this function.
    let (low, high) = unsafe {
        (
            _mm512_i32gather_epi64::<SCALE>(_mm512_castsi512_si256(index), base),
            _mm512_i32gather_epi64::<SCALE>(_mm512_extracti64x4_epi64::<1>(index), base),
        )
    };
    let (first, second) = words(low, high);
    (_mm512_castsi512_ps(first), second)
}

/// The even and the odd words of two registers.
#[inline]
#[target_feature(enable = "avx512f")]
fn words(low: __m512i, high: __m512i) -> (__m512i, __m512i) {
    let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    (_mm512_permutex2var_epi32(low, even, high), _mm512_permutex2var_epi32(low, odd, high))
}

impl WalkRule16 for Node {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: *const Self, at: __m512i, constant: __m512i, apart: __m512i) -> LaneNodes {
        // SAFETY: addresses are in range; a node is a threshold and its flags, eight bytes.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.cast(), at) };
        let column = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
        let left = _mm512_add_epi32(_mm512_add_epi32(at, at), constant);
        LaneNodes { threshold, meta, column, left, apart }
    }
}

impl WalkRule16 for ShortNode {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: *const Self, at: __m512i, _constant: __m512i, apart: __m512i) -> LaneNodes {
        // SAFETY: addresses are in range; a node is eight bytes.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.cast(), at) };
        let column = _mm512_srli_epi32::<SHORT_SHIFT>(meta);
        let column = _mm512_and_si512(column, _mm512_set1_epi32(SHORT_FEATURE as i32));
        let way = _mm512_and_si512(meta, _mm512_set1_epi32(SHORT_LINK as i32));
        LaneNodes { threshold, meta, column, left: _mm512_add_epi32(at, way), apart }
    }
}

impl WalkRule16 for RankNode {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: *const Self, at: __m512i, _constant: __m512i, apart: __m512i) -> LaneNodes {
        // SAFETY: addresses are in range; a node is four bytes.
        let word = unsafe { _mm512_i32gather_epi32::<4>(at, nodes.cast()) };
        let threshold = _mm512_cvtepi32_ps(_mm512_srli_epi32::<{ RANK_SHIFTS[0] }>(word));
        let mask = _mm512_set1_epi32(RANK_MASK as i32);
        let column = _mm512_and_si512(_mm512_srli_epi32::<{ RANK_SHIFTS[1] }>(word), mask);
        let leaf = _mm512_slli_epi32::<RANK_LEAF_SHIFT>(word);
        let meta = _mm512_and_si512(leaf, _mm512_set1_epi32(LEAF as i32));
        let left = _mm512_add_epi32(at, _mm512_and_si512(word, mask));
        LaneNodes { threshold, meta, column, left, apart }
    }
}

impl WalkRule16 for LinkedNode {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: *const Self, at: __m512i, _constant: __m512i, apart: __m512i) -> LaneNodes {
        let base: *const i32 = nodes.cast();
        // A node is a threshold, its flags and a link, twelve bytes.
        let index = _mm512_add_epi32(_mm512_add_epi32(at, at), at);
        // SAFETY: addresses are in range.
        let ((threshold, meta), left) =
            unsafe { (pairs::<4>(base.cast(), index), _mm512_i32gather_epi32::<4>(index, base.add(2))) };
        let column = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
        LaneNodes { threshold, meta, column, left, apart }
    }
}

impl<N: WalkRule16> WalkRule16 for DepthFirstNode<N> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: *const Self, at: __m512i, constant: __m512i, apart: __m512i) -> LaneNodes {
        // SAFETY: as promised to this function; a `DepthFirstNode` is what it holds.
        let named = unsafe { N::gather(nodes.cast(), at, constant, apart) };
        let left = _mm512_add_epi32(at, _mm512_set1_epi32(1));
        LaneNodes { left, apart: _mm512_sub_epi32(named.left, left), ..named }
    }
}

/// Lanes whose value goes right at a node with this threshold and these flags.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn right(x: __m512, threshold: __m512, meta: __m512i) -> __mmask16 {
    let ge = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, threshold);
    let missing = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    ge | (missing & _mm512_movepi32_mask(meta))
}

/// Addresses after a step from these nodes.
///
/// # Safety
/// AVX-512 F and DQ; the columns are the rows'.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn next<F: Source16>(node: LaneNodes, rows: Lanes<F::Value>) -> __m512i {
    // SAFETY: as promised to this function.
    let x = unsafe { F::values(node.column, rows) };
    let right = right(x, node.threshold, node.meta);
    _mm512_mask_add_epi32(node.left, right, node.left, node.apart)
}

/// A block with rows inside, `row.step` 1: each tree against 64 rows at a time.
///
/// # Safety
/// AVX-512 F and DQ; otherwise as for [`super::block`].
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn block<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    for (t, found) in found.chunks_exact_mut(row.count.max(1)).enumerate().take(tree.count) {
        let mut done = 0;
        while done < row.count {
            let first = row.start + done;
            let count = (row.count - done).min(rows.together(first)).min(LANES * GROUPS);
            // SAFETY: the rows are there.
            let lanes: [Lanes<F::Value>; GROUPS] =
                unsafe { std::array::from_fn(|g| rows.lanes(first, g * LANES, count - 1)) };
            let groups = count.div_ceil(LANES);
            // SAFETY: as promised to this function.
            let ends = unsafe { walk::<R, F>(nodes, tree.at(t), &lanes, groups, shape) };
            store(&ends, &mut found[done..done + count]);
            done += count;
        }
    }
}

/// Stores the leaves that rows have come to, at most 64 of them.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(ends: &[__m512i; GROUPS], found: &mut [u32]) {
    for (found, ends) in found.chunks_mut(LANES).zip(ends) {
        let rows = ((1u32 << found.len()) - 1) as __mmask16;
        // SAFETY: there is room for the lanes of the mask.
        unsafe { _mm512_mask_storeu_epi32(found.as_mut_ptr().cast(), rows, *ends) };
    }
}

/// Walks a tree on from an address for each of at most 64 rows.
///
/// # Safety
/// AVX-512 F and DQ; otherwise as for [`super::walk_on`].
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn walk_on<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    assert!(from.addresses.len() == GROUPS * LANES);
    let constant = _mm512_set1_epi32(nodes.constants[from.position] as i32);
    let stride = _mm512_set1_epi32(nodes.stride as i32);
    let root = _mm512_set1_epi32(nodes.roots[from.position] as i32);
    // SAFETY: as promised to this function; there are 64 addresses.
    unsafe {
        let lanes: [Lanes<F::Value>; GROUPS] =
            std::array::from_fn(|g| rows.lanes(row.start, g * LANES, row.count - 1));
        let mut at =
            std::array::from_fn(|g| _mm512_loadu_si512(from.addresses.as_ptr().add(g * LANES).cast()));
        let groups = row.count.div_ceil(LANES);
        until_leaf::<R, F>(nodes, root, constant, stride, &lanes, groups, &mut at);
        store(&at, &mut found[..row.count]);
    }
}

/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn walk<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    position: usize,
    rows: &[Lanes<F::Value>; GROUPS],
    groups: usize,
    shape: Shape,
) -> [__m512i; GROUPS] {
    let constant = _mm512_set1_epi32(nodes.constants[position] as i32);
    let stride = _mm512_set1_epi32(nodes.stride as i32);
    let root = _mm512_set1_epi32(nodes.roots[position] as i32);
    let mut at = [root; GROUPS];
    let base = nodes.nodes.as_ptr();
    let (steps, rest) = match shape.rest {
        Remainder::Counted => (nodes.depths[position], Remainder::Nothing),
        // Where leaves hold, the tree's own depth bounds its walks.
        rest if R::HOLDS => (shape.steps.min(nodes.depths[position]), rest),
        rest => (shape.steps, rest),
    };
    // SAFETY: as promised to this function.
    unsafe {
        let taken = top::<R, F>(nodes, position, steps, rows, groups, &mut at);
        if groups == GROUPS {
            for _ in taken..steps {
                // What does not wait for each other comes first.
                let node = [
                    R::gather(base, at[0], constant, stride),
                    R::gather(base, at[1], constant, stride),
                    R::gather(base, at[2], constant, stride),
                    R::gather(base, at[3], constant, stride),
                ];
                for g in 0..GROUPS {
                    at[g] = next::<F>(node[g], rows[g]);
                }
            }
        } else {
            for _ in taken..steps {
                for g in 0..groups {
                    at[g] = next::<F>(R::gather(base, at[g], constant, stride), rows[g]);
                }
            }
        }
        if rest == Remainder::UntilLeaf {
            // Straight on while most walks are on their way; what stays behind makes no room yet.
            for _ in 0..shape.tested {
                let open = step_groups::<R, F>(nodes, constant, stride, rows, groups, &mut at);
                if open == [0; GROUPS] {
                    return at;
                }
            }
            until_leaf::<R, F>(nodes, root, constant, stride, rows, groups, &mut at);
        }
    }
    at
}

/// A step of each group, all node gathers first; says which lanes were not at a leaf before it. Lanes at a leaf stay.
///
/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn step<R: WalkRule16, F: Source16, const G: usize>(
    nodes: &Nodes<R>,
    constant: __m512i,
    stride: __m512i,
    rows: &[Lanes<F::Value>; GROUPS],
    at: &mut [__m512i; GROUPS],
) -> [__mmask16; GROUPS] {
    let leaf = _mm512_set1_epi32(LEAF as i32);
    let mut open = [0; GROUPS];
    let base = nodes.nodes.as_ptr();
    // SAFETY: as promised to this function.
    unsafe {
        let zero = _mm512_setzero_si512();
        let none =
            LaneNodes { threshold: _mm512_setzero_ps(), meta: zero, column: zero, left: zero, apart: zero };
        let mut node = [none; GROUPS];
        for g in 0..G {
            node[g] = R::gather(base, at[g], constant, stride);
        }
        for g in 0..G {
            open[g] = _mm512_testn_epi32_mask(node[g].meta, leaf);
            let next = next::<F>(node[g], rows[g]);
            at[g] = if R::HOLDS { next } else { _mm512_mask_mov_epi32(at[g], open[g], next) };
        }
    }
    open
}

/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn step_groups<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    constant: __m512i,
    stride: __m512i,
    rows: &[Lanes<F::Value>; GROUPS],
    groups: usize,
    at: &mut [__m512i; GROUPS],
) -> [__mmask16; GROUPS] {
    // SAFETY: as promised to this function.
    unsafe {
        match groups {
            1 => step::<R, F, 1>(nodes, constant, stride, rows, at),
            2 => step::<R, F, 2>(nodes, constant, stride, rows, at),
            3 => step::<R, F, 3>(nodes, constant, stride, rows, at),
            _ => step::<R, F, 4>(nodes, constant, stride, rows, at),
        }
    }
}

/// Walks on until the leaves. Lanes that have come there make room: what is open moves together as soon as that frees
/// a register.
///
/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn until_leaf<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    root: __m512i,
    constant: __m512i,
    stride: __m512i,
    rows: &[Lanes<F::Value>; GROUPS],
    mut groups: usize,
    at: &mut [__m512i; GROUPS],
) {
    const ALL: usize = LANES * GROUPS;
    let mut rows = *rows;
    // Whose walks the lanes are; a lane past the last open one walks for nobody.
    let mut who: [__m512i; GROUPS] = [count(); GROUPS];
    for (g, who) in who.iter_mut().enumerate() {
        *who = _mm512_add_epi32(*who, _mm512_set1_epi32((g * LANES) as i32));
    }
    let started = groups;
    let mut valid = [0xffff as __mmask16; GROUPS];
    let mut moved = false;
    // Walks that have come to their leaf, in the order in which they did, with room for a whole register behind.
    let mut ended = ([0u32; ALL + LANES], [0u32; ALL + LANES], 0usize);
    loop {
        // SAFETY: as promised to this function.
        let mut open = unsafe { step_groups::<R, F>(nodes, constant, stride, &rows, groups, at) };
        let mut left = 0;
        for g in 0..groups {
            open[g] &= valid[g];
            left += open[g].count_ones() as usize;
        }
        if left == 0 && !moved {
            return;
        }
        if left.div_ceil(LANES) == groups {
            continue;
        }
        moved = true;
        let mut next = ([0u32; ALL + LANES], [0u32; ALL + LANES], [0u32; ALL + LANES], 0usize);
        for g in 0..groups {
            let done = valid[g] & !open[g];
            // SAFETY: at most 64 lanes end and at most 64 stay, and there is room for sixteen more.
            unsafe {
                let put = |to: &mut [u32], place: usize, mask, v| {
                    let to = to.as_mut_ptr().add(place);
                    _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(mask, v));
                };
                put(&mut ended.0, ended.2, done, who[g]);
                put(&mut ended.1, ended.2, done, at[g]);
                put(&mut next.0, next.3, open[g], who[g]);
                put(&mut next.1, next.3, open[g], at[g]);
                put(&mut next.2, next.3, open[g], rows[g].offsets);
            }
            ended.2 += done.count_ones() as usize;
            next.3 += open[g].count_ones() as usize;
        }
        if left == 0 {
            break;
        }
        groups = left.div_ceil(LANES);
        for g in 0..groups {
            let begin = g * LANES;
            valid[g] = if left - begin >= LANES { 0xffff } else { (1 << (left - begin)) - 1 };
            // Lanes for nobody stand at the root, from where every step is one that the forest has.
            // SAFETY: there is room for sixteen words from each begin on.
            unsafe {
                let load = |from: &[u32]| _mm512_loadu_si512(from.as_ptr().add(begin).cast());
                who[g] = load(&next.0);
                at[g] = _mm512_mask_mov_epi32(root, valid[g], load(&next.1));
                rows[g].offsets = load(&next.2);
            }
        }
    }
    let mut found = [0u32; ALL];
    for (who, at) in ended.0.iter().zip(&ended.1).take(ended.2) {
        found[*who as usize % ALL] = *at;
    }
    for (g, at) in at.iter_mut().enumerate().take(started) {
        // SAFETY: sixteen words from there on.
        *at = unsafe { _mm512_loadu_si512(found.as_ptr().add(g * LANES).cast()) };
    }
}
