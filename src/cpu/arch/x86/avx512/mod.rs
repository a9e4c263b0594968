//! AVX-512: sixteen rows in a register, and four registers that walk a tree together.
//!
//! A walk is a chain of loads, so 64 walks advance together. The first five levels of a tree are 31 nodes,
//! which fit two registers of thresholds and two of columns. There a step permutes registers, and the rows'
//! values are gathered, or loaded and blended if a [`Window`] holds them by column. Further down a step takes
//! two gathers for the two words of its nodes and one gather for values.

pub(in crate::cpu) mod blend;
pub(super) mod copy;
pub(in crate::cpu) mod count;
pub(super) mod layers;
mod queue;
pub(super) mod rank;
pub(in crate::cpu) mod registers;
pub(super) mod tiles;
mod top;

use std::arch::x86_64::*;

use top::top;

use super::RowSpans;
use crate::{
    arrays,
    cpu::{
        engine::walk::{Ending, LeafAddresses, Shape, Span, WalkStarts},
        nodes::{
            DepthFirstNode, FEATURE, LEAF, LinkedNode, Node, Nodes, RANK_LEAF_SHIFT, RANK_MASK, RANK_SHIFTS,
            RankNode, SHORT_FEATURE, SHORT_LINK, SHORT_SHIFT, ShortNode, WalkRule,
        },
        rows::{Row, Rows},
        window::{ROW_BLOCK, Window},
    },
};

/// Rows in a register.
pub(super) const LANES: usize = 16;
/// Registers that advance together.
pub(super) const GROUPS: usize = 4;
/// Shift from a column's number to its offset in a row block of a window.
const BLOCK_SHIFT: u32 = ROW_BLOCK.ilog2();

/// Sixteen of 64 rows: a pointer to the first of the 64 rows, and the offset of each of the sixteen from
/// there, in values.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Lanes<T = f32> {
    data: *const T,
    offsets: __m512i,
}

/// A source of rows for kernels of sixteen lanes.
pub(in crate::cpu) trait Source16: RowSpans {
    /// The type of a row's values.
    type Value: Copy;
    /// Whether values are `f32`, and those of a column are adjacent.
    const BY_COLUMN: bool;
    /// Returns the lanes of the rows from `row + begin` on. Row `row + last` is the last one that counts.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. The source holds the rows from `row` to `row + last`.
    unsafe fn lanes(&self, row: usize, begin: usize, last: usize) -> Lanes<Self::Value>;
    /// Returns the window, if the source is one of values.
    fn window(&self) -> Option<Window<'_>> {
        None
    }
    /// Returns the value of each lane's row in each lane's column.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. `rows` are lanes of this source, and every column is one of the
    /// rows'.
    unsafe fn values(column: __m512i, rows: Lanes<Self::Value>) -> __m512;
}

impl Source16 for &Rows<'_> {
    type Value = f32;
    const BY_COLUMN: bool = false;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, last: usize) -> Lanes {
        // Lanes past the last row repeat it. Their results are dropped.
        let own = _mm512_add_epi32(count(), _mm512_set1_epi32(begin as i32));
        let own = _mm512_min_epi32(own, _mm512_set1_epi32(last as i32));
        let stride = _mm512_set1_epi32(self.row_stride() as i32);
        Lanes { data: self.from(row).as_ptr(), offsets: _mm512_mullo_epi32(own, stride) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn values(column: __m512i, rows: Lanes) -> __m512 {
        // SAFETY: the index is the offset of a row in the source plus a column, which the caller upholds is
        // one of the rows'.
        unsafe { _mm512_i32gather_ps::<4>(_mm512_add_epi32(rows.offsets, column), rows.data) }
    }
}

impl Source16 for Window<'_> {
    type Value = f32;
    const BY_COLUMN: bool = true;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, _last: usize) -> Lanes {
        // SAFETY: the caller upholds that the row is in the window.
        unsafe { lanes(*self, row, begin) }
    }
    fn window(&self) -> Option<Window<'_>> {
        Some(*self)
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn values(column: __m512i, rows: Lanes) -> __m512 {
        let index = _mm512_add_epi32(rows.offsets, _mm512_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is that of a row's value in a column, which the caller upholds is one of the
        // rows'.
        unsafe { _mm512_i32gather_ps::<4>(index, rows.data) }
    }
}

/// Ranks of one byte, which are widened as they are read.
impl Source16 for Window<'_, u8> {
    type Value = u8;
    const BY_COLUMN: bool = false;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, _last: usize) -> Lanes<u8> {
        // SAFETY: the caller upholds that the row is in the window.
        unsafe { lanes(*self, row, begin) }
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn values(column: __m512i, rows: Lanes<u8>) -> __m512 {
        let index = _mm512_add_epi32(rows.offsets, _mm512_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is that of a row's value in a column, which the caller upholds is one of the
        // rows'. The gather reads four bytes there, and a window has room for a word after its last byte.
        let words = unsafe { _mm512_i32gather_epi32::<1>(index, rows.data.cast()) };
        _mm512_cvtepi32_ps(_mm512_and_si512(words, _mm512_set1_epi32(0xff)))
    }
}

/// Returns the lanes of a window's rows from `row + begin` on. Lanes past the last row read the values beside
/// it, or the room that a window has after its last column.
///
/// # Safety
/// The machine has AVX-512 F. The row is in the window.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lanes<T: Row>(window: Window<'_, T>, row: usize, begin: usize) -> Lanes<T> {
    let (data, offset) = window.block(row);
    let own = _mm512_add_epi32(count(), _mm512_set1_epi32(begin as i32));
    Lanes { data: data.as_ptr().wrapping_add(offset), offsets: own }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn count() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// A node in each lane.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct LaneNodes {
    threshold: __m512,
    /// The flags, in the highest bits.
    meta: __m512i,
    column: __m512i,
    /// The left child's address.
    left: __m512i,
    /// The distance from the left child's address to the right child's.
    apart: __m512i,
}

/// A layout rule whose nodes are gathered sixteen at a time.
pub(in crate::cpu) trait WalkRule16: WalkRule<Compare = f32> {
    /// Gathers the nodes at the addresses `at`, which count from `nodes`. `constant` is the tree's, `stride`
    /// the layout's.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. Walks of the packed forest reach the addresses, so `PackedForest::verify`
    /// bounds them.
    unsafe fn gather(nodes: *const Self, at: __m512i, constant: __m512i, stride: __m512i) -> LaneNodes;
}

/// Gathers two adjacent words for each lane, `SCALE x index` bytes after `base`.
///
/// # Safety
/// The machine has AVX-512 F and DQ. Both words of each lane can be read.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn pairs<const SCALE: i32>(base: *const i64, index: __m512i) -> (__m512, __m512i) {
    // An element of a gather is two words, because a gather costs by element.
    // SAFETY: the caller upholds that both words of each lane can be read.
    let (low, high) = unsafe {
        (
            _mm512_i32gather_epi64::<SCALE>(_mm512_castsi512_si256(index), base),
            _mm512_i32gather_epi64::<SCALE>(_mm512_extracti64x4_epi64::<1>(index), base),
        )
    };
    let (first, second) = words(low, high);
    (_mm512_castsi512_ps(first), second)
}

/// Returns the even and the odd words of two registers.
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
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range. A node is eight
        // bytes, a threshold and its flags.
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
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range. A node is eight
        // bytes.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.cast(), at) };
        let column = _mm512_srli_epi32::<SHORT_SHIFT>(meta);
        let column = _mm512_and_si512(column, _mm512_set1_epi32(SHORT_FEATURE as i32));
        let distance = _mm512_and_si512(meta, _mm512_set1_epi32(SHORT_LINK as i32));
        LaneNodes { threshold, meta, column, left: _mm512_add_epi32(at, distance), apart }
    }
}

impl WalkRule16 for RankNode {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: *const Self, at: __m512i, _constant: __m512i, apart: __m512i) -> LaneNodes {
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range. A node is four
        // bytes.
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
        // A node is twelve bytes: a threshold, its flags and a link.
        let index = _mm512_add_epi32(_mm512_add_epi32(at, at), at);
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range.
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
        // SAFETY: the caller upholds that walks reach the addresses. A `DepthFirstNode` has the layout of the
        // node in it.
        let named = unsafe { N::gather(nodes.cast(), at, constant, apart) };
        let left = _mm512_add_epi32(at, _mm512_set1_epi32(1));
        LaneNodes { left, apart: _mm512_sub_epi32(named.left, left), ..named }
    }
}

/// Returns the lanes whose value goes right at a node with this threshold and these flags.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn right(x: __m512, threshold: __m512, meta: __m512i) -> __mmask16 {
    let ge = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, threshold);
    let missing = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    ge | (missing & _mm512_movepi32_mask(meta))
}

/// Returns the addresses after one step from these nodes.
///
/// # Safety
/// The machine has AVX-512 F and DQ. `rows` are lanes of the source `F`, and the nodes' columns are the
/// rows'.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn next<F: Source16>(node: LaneNodes, rows: Lanes<F::Value>) -> __m512i {
    // SAFETY: the caller upholds that the nodes' columns are the rows'.
    let x = unsafe { F::values(node.column, rows) };
    let right = right(x, node.threshold, node.meta);
    _mm512_mask_add_epi32(node.left, right, node.left, node.apart)
}

/// Walks a block of rows through a block of trees, 64 rows at a time through each tree. Of more rows in a window, the others
/// wait for lanes whose walks end. `row.stride` is 1.
///
/// # Safety
/// The machine has AVX-512 F and DQ. Otherwise the conditions of [`super::block`]: rows are in range and have
/// the forest's columns, `tree` holds positions of trees, and the shape's walks stay inside the nodes.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn block<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    // Walks of more than a few rows wait for free lanes.
    let queue = rows.window().filter(|window| {
        shape.ending == Ending::AtLeaf && row.count > LANES * GROUPS && queue::can_serve(*window)
    });
    for (t, found) in found.chunks_exact_mut(row.count.max(1)).enumerate().take(tree.count) {
        let mut done = 0;
        while done < row.count {
            let first = row.start + done;
            let count = (row.count - done).min(rows.together(first)).min(LANES * GROUPS);
            // SAFETY: the caller upholds that the source holds the rows.
            let lanes: [Lanes<F::Value>; GROUPS] =
                unsafe { arrays::from_fn(|g| rows.lanes(first, g * LANES, count - 1)) };
            let groups = count.div_ceil(LANES);
            // SAFETY: the caller upholds that rows have the forest's columns, that `tree` holds positions of
            // trees, and that walks stay inside the nodes.
            let ends = unsafe { walk::<R, F>(nodes, tree.at(t), &lanes, groups, shape, queue.is_some()) };
            store(&ends, &mut found[done..done + count]);
            done += count;
        }
        if let Some(window) = queue {
            // SAFETY: the caller upholds that rows have the forest's columns and that walks stay inside the nodes. There
            // are more rows than lanes, and the queue can serve the window.
            unsafe { queue::walk_on(nodes, tree.at(t), window, row.start, &mut found[..row.count]) };
        }
    }
}

/// Writes the addresses of the leaves that at most 64 rows have reached to `found`.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(ends: &[__m512i; GROUPS], found: &mut [u32]) {
    for (found, ends) in found.chunks_mut(LANES).zip(ends) {
        let rows = ((1u32 << found.len()) - 1) as __mmask16;
        // SAFETY: the mask leaves out all lanes past the end of `found`.
        unsafe { _mm512_mask_storeu_epi32(found.as_mut_ptr().cast(), rows, *ends) };
    }
}

/// Walks a tree on from one address for each of at most 64 rows, until every row is at a leaf.
///
/// # Safety
/// The machine has AVX-512 F and DQ. Otherwise the conditions of [`super::walk_on`]: the source holds the
/// rows, and the 64 addresses are nodes of the tree.
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
    // SAFETY: the caller upholds that the source holds the rows and that the addresses are nodes of the tree.
    // The assertion above checks that there are 64.
    unsafe {
        let lanes: [Lanes<F::Value>; GROUPS] =
            arrays::from_fn(|g| rows.lanes(row.start, g * LANES, row.count - 1));
        let mut at = arrays::from_fn(|g| _mm512_loadu_si512(from.addresses.as_ptr().add(g * LANES).cast()));
        let groups = row.count.div_ceil(LANES);
        until_leaf::<R, F>(nodes, root, constant, stride, &lanes, groups, &mut at);
        store(&at, &mut found[..row.count]);
    }
}

/// Walks rows through the tree at a position, and returns the addresses that they reach. If the walks `end_later`, these
/// are where tests for leaves begin.
///
/// # Safety
/// The machine has AVX-512 F and DQ. `rows` are lanes of the source `F`, and the rows have the forest's
/// columns. The position is a tree's, and the shape's walks stay inside the nodes.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn walk<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    position: usize,
    rows: &[Lanes<F::Value>; GROUPS],
    groups: usize,
    shape: Shape,
    end_later: bool,
) -> [__m512i; GROUPS] {
    let constant = _mm512_set1_epi32(nodes.constants[position] as i32);
    let stride = _mm512_set1_epi32(nodes.stride as i32);
    let root = _mm512_set1_epi32(nodes.roots[position] as i32);
    let mut at = [root; GROUPS];
    let base = nodes.nodes.as_ptr();
    let (steps, ending) = match shape.ending {
        Ending::AtDepth => (nodes.depths[position], Ending::AfterSteps),
        // If leaves hold, no walk needs more steps than the tree is deep.
        ending if R::LEAVES_HOLD => (shape.steps.min(nodes.depths[position]), ending),
        ending => (shape.steps, ending),
    };
    // SAFETY: the caller upholds that the rows have the forest's columns and walks stay inside the nodes.
    unsafe {
        let taken = top::<R, F>(nodes, position, steps, rows, groups, &mut at);
        if groups == GROUPS {
            for _ in taken..steps {
                // The gathers of nodes come first, because they don't wait for each other.
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
        if ending == Ending::AtLeaf && !end_later {
            // While most walks are open, lanes at leaves wait. `until_leaf` then moves open walks into fewer registers.
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

/// Takes one step with each of `G` registers, after the gathers of all their nodes. Returns the lanes that
/// were not at a leaf before the step. Lanes at a leaf stay there.
///
/// # Safety
/// The machine has AVX-512 F and DQ. `rows` are lanes of the source `F`, the rows have the forest's columns,
/// and walks reach the addresses `at`.
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
    // SAFETY: the caller upholds that walks reach the addresses and the rows have the forest's columns. A
    // leaf is a node that can be read, too. The address after a step from a leaf that does not hold is
    // dropped.
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
            at[g] = if R::LEAVES_HOLD { next } else { _mm512_mask_mov_epi32(at[g], open[g], next) };
        }
    }
    open
}

/// Like [`step`], but for a number of registers that is known only when it runs.
///
/// # Safety
/// The machine has AVX-512 F and DQ. `rows` are lanes of the source `F`, the rows have the forest's columns,
/// and walks reach the addresses `at`.
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
    // SAFETY: the caller upholds that walks reach the addresses and the rows have the forest's columns.
    unsafe {
        match groups {
            1 => step::<R, F, 1>(nodes, constant, stride, rows, at),
            2 => step::<R, F, 2>(nodes, constant, stride, rows, at),
            3 => step::<R, F, 3>(nodes, constant, stride, rows, at),
            _ => step::<R, F, 4>(nodes, constant, stride, rows, at),
        }
    }
}

/// Walks on until every row is at a leaf. As soon as the open walks fit into fewer registers, they move into
/// these.
///
/// # Safety
/// The machine has AVX-512 F and DQ. `rows` are lanes of the source `F`, the rows have the forest's columns,
/// and walks reach `root` and the addresses `at`.
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
    // The number of each lane's walk. Lanes past the last open walk have none.
    let mut walks: [__m512i; GROUPS] = [count(); GROUPS];
    for (g, walks) in walks.iter_mut().enumerate() {
        *walks = _mm512_add_epi32(*walks, _mm512_set1_epi32((g * LANES) as i32));
    }
    let started = groups;
    let mut valid = [0xffff as __mmask16; GROUPS];
    let mut moved = false;
    // Walks that have ended, in the order in which they did: their numbers, their leaves' addresses, and how
    // many they are. There is room for a whole register after them.
    let mut ended = ([0u32; ALL + LANES], [0u32; ALL + LANES], 0usize);
    loop {
        // SAFETY: the caller upholds that walks reach the addresses and the rows have the forest's columns.
        // The end of this loop puts lanes without a walk at the root, which the caller's walks reach, too.
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
            // SAFETY: at most 64 walks end and at most 64 stay, so every offset is at most 64, and the arrays
            // have room for sixteen words from there on.
            unsafe {
                let put = |to: &mut [u32], offset: usize, mask, v| {
                    let to = to.as_mut_ptr().add(offset);
                    _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(mask, v));
                };
                put(&mut ended.0, ended.2, done, walks[g]);
                put(&mut ended.1, ended.2, done, at[g]);
                put(&mut next.0, next.3, open[g], walks[g]);
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
            // Lanes without a walk stand at the root, from where every step stays inside the forest.
            // SAFETY: `begin` is at most 48, and the arrays have sixteen words from there on.
            unsafe {
                let load = |from: &[u32]| _mm512_loadu_si512(from.as_ptr().add(begin).cast());
                walks[g] = load(&next.0);
                at[g] = _mm512_mask_mov_epi32(root, valid[g], load(&next.1));
                rows[g].offsets = load(&next.2);
            }
        }
    }
    let mut found = [0u32; ALL];
    for (walks, at) in ended.0.iter().zip(&ended.1).take(ended.2) {
        found[*walks as usize % ALL] = *at;
    }
    for (g, at) in at.iter_mut().enumerate().take(started) {
        // SAFETY: `g` is below 4, so `found` has sixteen words from there on.
        *at = unsafe { _mm512_loadu_si512(found.as_ptr().add(g * LANES).cast()) };
    }
}
