//! AVX2: eight rows in a register, and eight registers that walk a tree together.
//!
//! A walk is a chain of loads, so 64 walks advance together, as many as in the AVX-512 kernels. A step
//! gathers each word of a node, and then the rows' values. The first three levels of a tree are seven nodes,
//! which fit one register of thresholds and one of columns. There a step permutes registers, and the values
//! of rows in a window are loaded and blended.

pub(in crate::cpu) mod abreast;
pub(in crate::cpu) mod blend;
pub(super) mod copy;
pub(in crate::cpu) mod full;
pub(super) mod layers;
pub(super) mod rank;
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
const LANES: usize = 8;
/// Registers that advance together.
const GROUPS: usize = 8;
/// Rows that advance together.
const ALL: usize = LANES * GROUPS;
/// Shift from a column's number to its offset in a row block of a window.
const BLOCK_SHIFT: i32 = ROW_BLOCK.ilog2() as i32;

/// Eight of 64 rows: a pointer to the first of the 64 rows, and the offset of each of the eight from there,
/// in values.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Lanes<T> {
    data: *const T,
    offsets: __m256i,
}

/// A source of rows for kernels of eight lanes.
pub(in crate::cpu) trait Source8: RowSpans {
    /// The type of a row's values.
    type Value8: Copy;
    /// Whether the values of a column are adjacent, so that [`Source8::column8`] loads them.
    const LOADED: bool;
    /// Returns the lanes of the rows from `row + begin` on. Row `row + last` is the last one that counts.
    ///
    /// # Safety
    /// The machine has AVX2. The source holds the rows from `row` to `row + last`.
    unsafe fn lanes8(&self, row: usize, begin: usize, last: usize) -> Lanes<Self::Value8>;
    /// Returns the value of each lane's row in each lane's column.
    ///
    /// # Safety
    /// The machine has AVX2. `rows` are lanes of this source, and every column is one of the rows'.
    unsafe fn values8(column: __m256i, rows: Lanes<Self::Value8>) -> __m256;
    /// Returns eight adjacent values of a column, the first of them at `at`, if the source is
    /// [`Source8::LOADED`]. Otherwise the result has no meaning.
    ///
    /// # Safety
    /// The machine has AVX2. Eight values can be read from `at` on.
    unsafe fn column8(at: *const Self::Value8) -> __m256;
}

impl Source8 for &Rows<'_> {
    type Value8 = f32;
    const LOADED: bool = false;
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn lanes8(&self, row: usize, begin: usize, last: usize) -> Lanes<f32> {
        // Lanes past the last row repeat it. Their results are dropped.
        let own = _mm256_min_epi32(count(begin), _mm256_set1_epi32(last as i32));
        let stride = _mm256_set1_epi32(self.row_stride() as i32);
        Lanes { data: self.from(row).as_ptr(), offsets: _mm256_mullo_epi32(own, stride) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn values8(column: __m256i, rows: Lanes<f32>) -> __m256 {
        // SAFETY: the index is the offset of a row in the source plus a column, which the caller upholds is
        // one of the rows'.
        unsafe { _mm256_i32gather_ps::<4>(rows.data, _mm256_add_epi32(rows.offsets, column)) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn column8(_at: *const f32) -> __m256 {
        _mm256_setzero_ps()
    }
}

impl Source8 for Window<'_> {
    type Value8 = f32;
    const LOADED: bool = true;
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn lanes8(&self, row: usize, begin: usize, _last: usize) -> Lanes<f32> {
        // SAFETY: the caller upholds that the row is in the window.
        unsafe { lanes(*self, row, begin) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn values8(column: __m256i, rows: Lanes<f32>) -> __m256 {
        let index = _mm256_add_epi32(rows.offsets, _mm256_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is that of a row's value in a column, which the caller upholds is one of the
        // rows'.
        unsafe { _mm256_i32gather_ps::<4>(rows.data, index) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn column8(at: *const f32) -> __m256 {
        // SAFETY: the caller upholds that eight values can be read from `at` on.
        unsafe { _mm256_loadu_ps(at) }
    }
}

/// Ranks of one byte, which are widened as they are read.
impl Source8 for Window<'_, u8> {
    type Value8 = u8;
    const LOADED: bool = true;
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn lanes8(&self, row: usize, begin: usize, _last: usize) -> Lanes<u8> {
        // SAFETY: the caller upholds that the row is in the window.
        unsafe { lanes(*self, row, begin) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn values8(column: __m256i, rows: Lanes<u8>) -> __m256 {
        let index = _mm256_add_epi32(rows.offsets, _mm256_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is that of a row's value in a column, which the caller upholds is one of the
        // rows'. The gather reads four bytes there, and a window has room for a word after its last byte.
        let words = unsafe { _mm256_i32gather_epi32::<1>(rows.data.cast(), index) };
        _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(0xff)))
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn column8(at: *const u8) -> __m256 {
        // SAFETY: the caller upholds that eight ranks can be read from `at` on.
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(at.cast()) }))
    }
}

/// Returns the lanes of a window's rows from `row + begin` on. Lanes past the last row read the values beside
/// it, or the room that a window has after its last column.
///
/// # Safety
/// The machine has AVX2. The row is in the window.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lanes<T: Row>(window: Window<'_, T>, row: usize, begin: usize) -> Lanes<T> {
    let (data, offset) = window.block(row);
    Lanes { data: data.as_ptr().wrapping_add(offset), offsets: count(begin) }
}

/// Returns eight consecutive numbers from `begin` on.
#[inline]
#[target_feature(enable = "avx2")]
fn count(begin: usize) -> __m256i {
    _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(begin as i32))
}

/// A node in each lane.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct LaneNodes {
    threshold: __m256,
    /// The flags, in the highest bits.
    meta: __m256i,
    column: __m256i,
    /// The left child's address.
    left: __m256i,
    /// The distance from the left child's address to the right child's.
    apart: __m256i,
}

/// A layout rule whose nodes are gathered eight at a time.
pub(in crate::cpu) trait WalkRule8: WalkRule<Compare = f32> {
    /// Gathers the nodes at the addresses `at`, which count from `nodes`. `constant` is the tree's, `stride`
    /// the layout's.
    ///
    /// # Safety
    /// The machine has AVX2. Walks of the packed forest reach the addresses, so `PackedForest::verify` bounds them.
    unsafe fn gather8(nodes: *const Self, at: __m256i, constant: __m256i, stride: __m256i) -> LaneNodes;
}

/// Gathers two adjacent words for each lane, `SCALE x index` bytes after `base`.
///
/// # Safety
/// The machine has AVX2. Both words of each lane can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pairs<const SCALE: i32>(base: *const i32, index: __m256i) -> (__m256, __m256i) {
    // Measured: two gathers of both words at once, for half of the lanes each, are slower, because their
    // results have to be put in order.
    // SAFETY: the caller upholds that both words of each lane can be read.
    unsafe {
        (
            _mm256_i32gather_ps::<SCALE>(base.cast(), index),
            _mm256_i32gather_epi32::<SCALE>(base.add(1), index),
        )
    }
}

impl WalkRule8 for Node {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather8(nodes: *const Self, at: __m256i, constant: __m256i, apart: __m256i) -> LaneNodes {
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range. A node is eight
        // bytes, a threshold and its flags.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.cast(), at) };
        let column = _mm256_and_si256(meta, _mm256_set1_epi32(FEATURE as i32));
        let left = _mm256_add_epi32(_mm256_add_epi32(at, at), constant);
        LaneNodes { threshold, meta, column, left, apart }
    }
}

impl WalkRule8 for ShortNode {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather8(nodes: *const Self, at: __m256i, _constant: __m256i, apart: __m256i) -> LaneNodes {
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range. A node is eight
        // bytes.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.cast(), at) };
        let column = _mm256_srli_epi32::<{ SHORT_SHIFT as i32 }>(meta);
        let column = _mm256_and_si256(column, _mm256_set1_epi32(SHORT_FEATURE as i32));
        let distance = _mm256_and_si256(meta, _mm256_set1_epi32(SHORT_LINK as i32));
        LaneNodes { threshold, meta, column, left: _mm256_add_epi32(at, distance), apart }
    }
}

impl WalkRule8 for RankNode {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather8(nodes: *const Self, at: __m256i, _constant: __m256i, apart: __m256i) -> LaneNodes {
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range. A node is four
        // bytes.
        let word = unsafe { _mm256_i32gather_epi32::<4>(nodes.cast(), at) };
        let threshold = _mm256_cvtepi32_ps(_mm256_srli_epi32::<{ RANK_SHIFTS[0] as i32 }>(word));
        let mask = _mm256_set1_epi32(RANK_MASK as i32);
        let column = _mm256_and_si256(_mm256_srli_epi32::<{ RANK_SHIFTS[1] as i32 }>(word), mask);
        let leaf = _mm256_slli_epi32::<{ RANK_LEAF_SHIFT as i32 }>(word);
        let meta = _mm256_and_si256(leaf, _mm256_set1_epi32(LEAF as i32));
        let left = _mm256_add_epi32(at, _mm256_and_si256(word, mask));
        LaneNodes { threshold, meta, column, left, apart }
    }
}

impl WalkRule8 for LinkedNode {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather8(nodes: *const Self, at: __m256i, _constant: __m256i, apart: __m256i) -> LaneNodes {
        let base: *const i32 = nodes.cast();
        // A node is twelve bytes: a threshold, its flags and a link.
        let index = _mm256_add_epi32(_mm256_add_epi32(at, at), at);
        // SAFETY: the caller upholds that walks reach the addresses, so they are in range.
        let ((threshold, meta), left) =
            unsafe { (pairs::<4>(base, index), _mm256_i32gather_epi32::<4>(base.add(2), index)) };
        let column = _mm256_and_si256(meta, _mm256_set1_epi32(FEATURE as i32));
        LaneNodes { threshold, meta, column, left, apart }
    }
}

impl<N: WalkRule8> WalkRule8 for DepthFirstNode<N> {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather8(nodes: *const Self, at: __m256i, constant: __m256i, apart: __m256i) -> LaneNodes {
        // SAFETY: the caller upholds that walks reach the addresses. A `DepthFirstNode` has the layout of the
        // node in it.
        let named = unsafe { N::gather8(nodes.cast(), at, constant, apart) };
        let left = _mm256_add_epi32(at, _mm256_set1_epi32(1));
        LaneNodes { left, apart: _mm256_sub_epi32(named.left, left), ..named }
    }
}

/// Returns all ones in each lane whose value goes right at a node with this threshold and these flags.
#[inline]
#[target_feature(enable = "avx2")]
fn right(x: __m256, threshold: __m256, meta: __m256i) -> __m256i {
    let reached = _mm256_cmp_ps::<_CMP_GE_OQ>(x, threshold);
    let missing = _mm256_and_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x), _mm256_castsi256_ps(meta));
    // The highest bit of the flags is set where a missing value goes right.
    _mm256_srai_epi32::<31>(_mm256_castps_si256(_mm256_or_ps(reached, missing)))
}

/// Returns the addresses after one step from these nodes.
///
/// # Safety
/// The machine has AVX2. `rows` are lanes of the source `F`, and the nodes' columns are the rows'.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn next<F: Source8>(node: LaneNodes, rows: Lanes<F::Value8>) -> __m256i {
    // SAFETY: the caller upholds that the nodes' columns are the rows'.
    let x = unsafe { F::values8(node.column, rows) };
    let right = right(x, node.threshold, node.meta);
    _mm256_add_epi32(node.left, _mm256_and_si256(node.apart, right))
}

/// Walks a block of rows through a block of trees, 64 rows at a time through each tree. `row.stride` is 1.
///
/// # Safety
/// The machine has AVX2. Otherwise the conditions of [`super::block`]: rows are in range and have the
/// forest's columns, trees are positions, and the shape's walks stay inside the nodes.
pub(super) unsafe fn block<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    let mut ends = [0; ALL];
    for (t, found) in found.chunks_exact_mut(row.count.max(1)).enumerate().take(tree.count) {
        let mut done = 0;
        while done < row.count {
            let first = row.start + done;
            let count = (row.count - done).min(rows.together(first)).min(ALL);
            // SAFETY: the caller upholds that rows are in range and have the forest's columns, trees are
            // positions, and walks stay inside the nodes.
            unsafe { walk::<R, F>(nodes, tree.at(t), rows, (first, count), shape, &mut ends) };
            found[done..done + count].copy_from_slice(&ends[..count]);
            done += count;
        }
    }
}

/// Walks a tree on from one address for each of at most 64 rows, until every row is at a leaf.
///
/// # Safety
/// The machine has AVX2. Otherwise the conditions of [`super::walk_on`]: the source holds the rows, and the
/// 64 addresses are nodes of the tree.
pub(super) unsafe fn walk_on<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    let mut ends: [u32; ALL] = from.addresses.try_into().expect("64 addresses");
    // SAFETY: the caller upholds that the source holds the rows and that the 64 addresses are nodes of the
    // tree.
    unsafe { walk_from::<R, F>(nodes, from.position, rows, (row.start, row.count), &mut ends) };
    found[..row.count].copy_from_slice(&ends[..row.count]);
}

/// Walks of at most 64 rows through one tree.
struct Walks<'a, R, T> {
    nodes: &'a Nodes<R>,
    constant: __m256i,
    stride: __m256i,
    rows: [Lanes<T>; GROUPS],
    groups: usize,
}

impl<'a, R: WalkRule8, T: Copy> Walks<'a, R, T> {
    /// Prepares the walks of `count` rows from `first` on.
    ///
    /// # Safety
    /// The machine has AVX2. The source holds the rows.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn new<F: Source8<Value8 = T>>(
        nodes: &'a Nodes<R>,
        position: usize,
        rows: F,
        (first, count): (usize, usize),
    ) -> Self {
        Self {
            nodes,
            constant: _mm256_set1_epi32(nodes.constants[position] as i32),
            stride: _mm256_set1_epi32(nodes.stride as i32),
            // SAFETY: the caller upholds that the source holds the rows.
            rows: unsafe { arrays::from_fn(|g| rows.lanes8(first, g * LANES, count - 1)) },
            groups: count.div_ceil(LANES).min(GROUPS),
        }
    }

    /// Gathers the nodes at eight addresses.
    ///
    /// # Safety
    /// The machine has AVX2. Walks reach the addresses.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather(&self, at: __m256i) -> LaneNodes {
        // SAFETY: the caller upholds that walks reach the addresses.
        unsafe { R::gather8(self.nodes.nodes.as_ptr(), at, self.constant, self.stride) }
    }

    /// Takes `steps` steps with all walks, without a test for leaves.
    ///
    /// # Safety
    /// The machine has AVX2. The rows have the forest's columns, and `steps` steps from `at` stay inside the
    /// nodes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn steps<F: Source8<Value8 = T>>(&self, steps: u32, at: &mut [__m256i; GROUPS])
    where
        T: Copy,
    {
        // The loop is a twentieth faster if the compiler knows the number of registers.
        match self.groups {
            // SAFETY: the caller upholds that the rows have the forest's columns and the steps stay inside
            // the nodes.
            GROUPS => (0..steps).for_each(|_| unsafe { self.step::<F>(GROUPS, at) }),
            // SAFETY: the caller upholds that the rows have the forest's columns and the steps stay inside
            // the nodes.
            groups => (0..steps).for_each(|_| unsafe { self.step::<F>(groups, at) }),
        }
    }

    /// Takes one step with the walks in the first `groups` registers.
    ///
    /// # Safety
    /// The machine has AVX2. The rows have the forest's columns, and one step from `at` stays inside the
    /// nodes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn step<F: Source8<Value8 = T>>(&self, groups: usize, at: &mut [__m256i; GROUPS])
    where
        T: Copy,
    {
        for (at, rows) in at.iter_mut().zip(self.rows).take(groups) {
            // SAFETY: the caller upholds that the rows have the forest's columns and the step stays inside
            // the nodes.
            *at = unsafe { next::<F>(self.gather(*at), rows) };
        }
    }

    /// Walks on until every row is at a leaf. A register whose rows are all at leaves takes no further step.
    ///
    /// # Safety
    /// The machine has AVX2. The rows have the forest's columns, and walks reach the addresses `at`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn until_leaf<F: Source8<Value8 = T>>(&self, at: &mut [__m256i; GROUPS])
    where
        T: Copy,
    {
        let zero = _mm256_setzero_si256();
        let mut open = (1u32 << self.groups) - 1;
        while open != 0 {
            for (g, (at, rows)) in at.iter_mut().zip(self.rows).enumerate() {
                if open >> g & 1 == 0 {
                    continue;
                }
                // SAFETY: the caller upholds that walks reach the addresses. A leaf is a node that can be
                // read, too.
                let node = unsafe { self.gather(*at) };
                let leaf = _mm256_and_si256(node.meta, _mm256_set1_epi32(LEAF as i32));
                let inside = _mm256_cmpeq_epi32(leaf, zero);
                if _mm256_movemask_epi8(inside) == 0 {
                    open &= !(1 << g);
                    continue;
                }
                // SAFETY: the caller upholds that the rows have the forest's columns. A step from a leaf that
                // does not hold may give any address, but the blend below keeps the leaf's.
                let next = unsafe { next::<F>(node, rows) };
                *at = if R::LEAVES_HOLD { next } else { _mm256_blendv_epi8(*at, next, inside) };
            }
        }
    }
}

/// Walks rows through the tree at a position, and writes the addresses of their leaves to `found`. `row` is
/// the first row and the number of rows.
///
/// # Safety
/// The machine has AVX2. The source holds the rows, which have the forest's columns. The position is a
/// tree's, and the shape's walks stay inside the nodes.
#[target_feature(enable = "avx2")]
unsafe fn walk<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    position: usize,
    rows: F,
    row: (usize, usize),
    shape: Shape,
    found: &mut [u32; ALL],
) {
    let (steps, ending) = match shape.ending {
        Ending::AtDepth => (nodes.depths[position], Ending::AfterSteps),
        // If leaves hold, no walk needs more steps than the tree is deep.
        ending if R::LEAVES_HOLD => (shape.steps.min(nodes.depths[position]), ending),
        ending => (shape.steps, ending),
    };
    let mut at = [_mm256_set1_epi32(nodes.roots[position] as i32); GROUPS];
    // SAFETY: the caller upholds that the source holds the rows, rows have the forest's columns, and walks
    // stay inside the nodes.
    unsafe {
        let walks = Walks::new(nodes, position, rows, row);
        let taken = if F::LOADED {
            top::<R, F>(nodes, position, steps, &walks.rows, walks.groups, &mut at)
        } else {
            0
        };
        walks.steps::<F>(steps.saturating_sub(taken), &mut at);
        if ending == Ending::AtLeaf {
            walks.until_leaf::<F>(&mut at);
        }
    }
    store(&at, found);
}

/// Walks on from the addresses in `found` until every row is at a leaf, and writes the leaves' addresses
/// there.
///
/// # Safety
/// The machine has AVX2. The source holds the rows, which have the forest's columns. The 64 addresses are
/// nodes of the tree at the position.
#[target_feature(enable = "avx2")]
unsafe fn walk_from<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    position: usize,
    rows: F,
    row: (usize, usize),
    found: &mut [u32; ALL],
) {
    // SAFETY: the caller upholds that the source holds the rows and the 64 addresses are nodes of the tree.
    let at = unsafe {
        let mut at = arrays::from_fn(|g| _mm256_loadu_si256(found.as_ptr().add(g * LANES).cast()));
        Walks::new(nodes, position, rows, row).until_leaf::<F>(&mut at);
        at
    };
    store(&at, found);
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(at: &[__m256i; GROUPS], found: &mut [u32; ALL]) {
    for (at, found) in at.iter().zip(found.chunks_exact_mut(LANES)) {
        // SAFETY: `chunks_exact_mut` gives room for eight words.
        unsafe { _mm256_storeu_si256(found.as_mut_ptr().cast(), *at) };
    }
}
