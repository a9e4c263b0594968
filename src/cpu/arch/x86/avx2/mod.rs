//! AVX2: eight rows a register, eight registers a tree.
//!
//! A walk is a chain of loads, so 64 of them advance together, as many as the registers of AVX-512 hold. A step is a gather of
//! each word of a node and one of the rows' values. The first three levels of a tree are seven nodes, which fit a register of
//! thresholds and one of columns: there a step is a permute, and the values of a window's rows are loaded and blended.

pub(in crate::cpu) mod abreast;
pub(in crate::cpu) mod blend;
pub(super) mod copy;
pub(super) mod layers;
pub(super) mod rank;
pub(super) mod tiles;

use std::arch::x86_64::*;

use super::RowSpans;
use crate::{
    cpu::{
        engine::walk::{LeafAddresses, Shape, Span, WalkStarts},
        nodes::{
            DepthFirstNode, FEATURE, LEAF, LinkedNode, Node, Nodes, RANK_LEAF_SHIFT, RANK_MASK, RANK_SHIFTS,
            RankNode, SHORT_FEATURE, SHORT_LINK, SHORT_SHIFT, ShortNode, TOP_LEVELS_8, WalkRule,
        },
        rows::{Row, Rows},
        window::{BLOCK, Window},
    },
    plan::Remainder,
};

/// Rows in a register.
const LANES: usize = 8;
/// Registers that advance together.
const GROUPS: usize = 8;
/// Rows that do.
const ALL: usize = LANES * GROUPS;
/// From a column's number to its place in a block of a window.
const BLOCK_SHIFT: i32 = BLOCK.ilog2() as i32;

/// Eight of 64 rows: where the first of all begins, and each one's offset from there.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Lanes<T> {
    data: *const T,
    offsets: __m256i,
}

/// Where rows are read from.
pub(in crate::cpu) trait Source8: RowSpans {
    /// What rows are made of.
    type Value8: Copy;
    /// Whether [`Source8::column8`] loads.
    const LOADED: bool;
    /// Lanes for the rows from `row + begin` on, where `row + last` is the last that counts.
    ///
    /// # Safety
    /// AVX2; the rows are there.
    unsafe fn lanes8(&self, row: usize, begin: usize, last: usize) -> Lanes<Self::Value8>;
    /// The rows' values of these columns.
    ///
    /// # Safety
    /// AVX2; the columns are the rows'.
    unsafe fn values8(column: __m256i, rows: Lanes<Self::Value8>) -> __m256;
    /// The rows' values of a column, of which one stands there, as far as values of a column follow each other.
    ///
    /// # Safety
    /// AVX2; eight values stand there.
    unsafe fn column8(at: *const Self::Value8) -> __m256;
}

impl Source8 for &Rows<'_> {
    type Value8 = f32;
    const LOADED: bool = false;
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn lanes8(&self, row: usize, begin: usize, last: usize) -> Lanes<f32> {
        // Lanes past the last row walk it again; what they find is dropped.
        let own = _mm256_min_epi32(count(begin), _mm256_set1_epi32(last as i32));
        let stride = _mm256_set1_epi32(self.row_stride() as i32);
        Lanes { data: self.from(row).as_ptr(), offsets: _mm256_mullo_epi32(own, stride) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn values8(column: __m256i, rows: Lanes<f32>) -> __m256 {
        // SAFETY: the index is a row's offset plus a column.
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
        // SAFETY: as promised to this function.
        unsafe { lanes(*self, row, begin) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn values8(column: __m256i, rows: Lanes<f32>) -> __m256 {
        let index = _mm256_add_epi32(rows.offsets, _mm256_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is a row's place in a column's block.
        unsafe { _mm256_i32gather_ps::<4>(rows.data, index) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn column8(at: *const f32) -> __m256 {
        // SAFETY: as promised to this function.
        unsafe { _mm256_loadu_ps(at) }
    }
}

/// Ranks of a byte, widened as they are read.
impl Source8 for Window<'_, u8> {
    type Value8 = u8;
    const LOADED: bool = true;
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn lanes8(&self, row: usize, begin: usize, _last: usize) -> Lanes<u8> {
        // SAFETY: as promised to this function.
        unsafe { lanes(*self, row, begin) }
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn values8(column: __m256i, rows: Lanes<u8>) -> __m256 {
        let index = _mm256_add_epi32(rows.offsets, _mm256_slli_epi32::<BLOCK_SHIFT>(column));
        // SAFETY: the index is a row's place in a column's block; a window has room for a word behind its last byte.
        let words = unsafe { _mm256_i32gather_epi32::<1>(rows.data.cast(), index) };
        _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(0xff)))
    }
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn column8(at: *const u8) -> __m256 {
        // SAFETY: as promised to this function.
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(at.cast()) }))
    }
}

/// Lanes past the last row read what is beside it, or the room that a window has behind its last column.
///
/// # Safety
/// AVX2; the row is in the window.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lanes<T: Row>(window: Window<'_, T>, row: usize, begin: usize) -> Lanes<T> {
    let (data, place) = window.block(row);
    Lanes { data: data.as_ptr().wrapping_add(place), offsets: count(begin) }
}

/// The numbers from `begin` on.
#[inline]
#[target_feature(enable = "avx2")]
fn count(begin: usize) -> __m256i {
    _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(begin as i32))
}

/// A node a lane.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct LaneNodes {
    threshold: __m256,
    /// Flags.
    meta: __m256i,
    column: __m256i,
    /// The left child's address.
    left: __m256i,
    /// From there to the right one.
    apart: __m256i,
}

/// A layout rule with a step of eight lanes.
pub(in crate::cpu) trait WalkRule8: WalkRule<Compare = f32> {
    /// Of the nodes from there on those at these addresses, in a tree with this constant, of a layout with this stride.
    ///
    /// # Safety
    /// AVX2; addresses are reachable.
    unsafe fn gather8(nodes: *const Self, at: __m256i, constant: __m256i, stride: __m256i) -> LaneNodes;
}

/// The words at `base` and behind them, `SCALE x index` bytes on.
///
/// # Safety
/// AVX2; there are nodes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pairs<const SCALE: i32>(base: *const i32, index: __m256i) -> (__m256, __m256i) {
    // Measured: as many gathers of both words at once, of half the lanes each, are slower by what puts them in order.
    // SAFETY: as promised to this function.
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
        // SAFETY: addresses are in range; a node is a threshold and its flags, eight bytes.
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
        // SAFETY: addresses are in range; a node is eight bytes.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.cast(), at) };
        let column = _mm256_srli_epi32::<{ SHORT_SHIFT as i32 }>(meta);
        let column = _mm256_and_si256(column, _mm256_set1_epi32(SHORT_FEATURE as i32));
        let way = _mm256_and_si256(meta, _mm256_set1_epi32(SHORT_LINK as i32));
        LaneNodes { threshold, meta, column, left: _mm256_add_epi32(at, way), apart }
    }
}

impl WalkRule8 for RankNode {
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather8(nodes: *const Self, at: __m256i, _constant: __m256i, apart: __m256i) -> LaneNodes {
        // SAFETY: addresses are in range; a node is four bytes.
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
        // A node is a threshold, its flags and a link, twelve bytes.
        let index = _mm256_add_epi32(_mm256_add_epi32(at, at), at);
        // SAFETY: addresses are in range.
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
        // SAFETY: as promised to this function; a `DepthFirstNode` is what it holds.
        let named = unsafe { N::gather8(nodes.cast(), at, constant, apart) };
        let left = _mm256_add_epi32(at, _mm256_set1_epi32(1));
        LaneNodes { left, apart: _mm256_sub_epi32(named.left, left), ..named }
    }
}

/// All ones in the lanes whose value goes right at a node with this threshold and these flags.
#[inline]
#[target_feature(enable = "avx2")]
fn right(x: __m256, threshold: __m256, meta: __m256i) -> __m256i {
    let reached = _mm256_cmp_ps::<_CMP_GE_OQ>(x, threshold);
    let missing = _mm256_and_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x), _mm256_castsi256_ps(meta));
    // The highest bit of flags says where a missing value goes.
    _mm256_srai_epi32::<31>(_mm256_castps_si256(_mm256_or_ps(reached, missing)))
}

/// Addresses after a step from these nodes.
///
/// # Safety
/// AVX2; the columns are the rows'.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn next<F: Source8>(node: LaneNodes, rows: Lanes<F::Value8>) -> __m256i {
    // SAFETY: as promised to this function.
    let x = unsafe { F::values8(node.column, rows) };
    let right = right(x, node.threshold, node.meta);
    _mm256_add_epi32(node.left, _mm256_and_si256(node.apart, right))
}

/// A block with rows inside, `row.step` 1: each tree against 64 rows at a time.
///
/// # Safety
/// AVX2; otherwise as for [`super::block`].
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
            // SAFETY: as promised to this function.
            unsafe { walk::<R, F>(nodes, tree.at(t), rows, (first, count), shape, &mut ends) };
            found[done..done + count].copy_from_slice(&ends[..count]);
            done += count;
        }
    }
}

/// Walks a tree on from an address for each of at most 64 rows.
///
/// # Safety
/// AVX2; otherwise as for [`super::walk_on`].
pub(super) unsafe fn walk_on<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    let mut ends: [u32; ALL] = from.addresses.try_into().expect("64 addresses");
    // SAFETY: as promised to this function.
    unsafe { walk_from::<R, F>(nodes, from.position, rows, (row.start, row.count), &mut ends) };
    found[..row.count].copy_from_slice(&ends[..row.count]);
}

/// Walks of a tree, 64 at most.
struct Walks<'a, R, T> {
    nodes: &'a Nodes<R>,
    constant: __m256i,
    stride: __m256i,
    rows: [Lanes<T>; GROUPS],
    groups: usize,
}

impl<'a, R: WalkRule8, T> Walks<'a, R, T> {
    /// # Safety
    /// AVX2; the rows, a first and how many, are there.
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
            // SAFETY: as promised to this function.
            rows: unsafe { std::array::from_fn(|g| rows.lanes8(first, g * LANES, count - 1)) },
            groups: count.div_ceil(LANES).min(GROUPS),
        }
    }

    /// # Safety
    /// AVX2; addresses are reachable.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather(&self, at: __m256i) -> LaneNodes {
        // SAFETY: as promised to this function.
        unsafe { R::gather8(self.nodes.nodes.as_ptr(), at, self.constant, self.stride) }
    }

    /// # Safety
    /// AVX2; the columns of the forest are the rows', and so many steps stay inside it.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn steps<F: Source8<Value8 = T>>(&self, steps: u32, at: &mut [__m256i; GROUPS])
    where
        T: Copy,
    {
        // A number of registers that the compiler knows is a twentieth faster.
        match self.groups {
            // SAFETY: as promised to this function.
            GROUPS => (0..steps).for_each(|_| unsafe { self.step::<F>(GROUPS, at) }),
            // SAFETY: as promised to this function.
            groups => (0..steps).for_each(|_| unsafe { self.step::<F>(groups, at) }),
        }
    }

    /// # Safety
    /// As for [`Walks::steps`].
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn step<F: Source8<Value8 = T>>(&self, groups: usize, at: &mut [__m256i; GROUPS])
    where
        T: Copy,
    {
        for (at, rows) in at.iter_mut().zip(self.rows).take(groups) {
            // SAFETY: as promised to this function.
            *at = unsafe { next::<F>(self.gather(*at), rows) };
        }
    }

    /// Walks on until the leaves. A register whose lanes have all come there takes no further step.
    ///
    /// # Safety
    /// As for [`Walks::steps`].
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
                // SAFETY: as promised to this function.
                let node = unsafe { self.gather(*at) };
                let leaf = _mm256_and_si256(node.meta, _mm256_set1_epi32(LEAF as i32));
                let inside = _mm256_cmpeq_epi32(leaf, zero);
                if _mm256_movemask_epi8(inside) == 0 {
                    open &= !(1 << g);
                    continue;
                }
                // SAFETY: as promised to this function; what a leaf that does not hold leads to does not count.
                let next = unsafe { next::<F>(node, rows) };
                *at = if R::HOLDS { next } else { _mm256_blendv_epi8(*at, next, inside) };
            }
        }
    }
}

/// The first nodes of a full tree.
struct Registers {
    thresholds: __m256,
    metas: __m256i,
    /// Columns' places in a block of a window.
    columns: [u32; LANES],
}

impl Registers {
    /// # Safety
    /// AVX2; eight nodes stand there.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(nodes: *const Node) -> Self {
        // SAFETY: as promised to this function; a node is a threshold and its flags, eight bytes.
        let [a, b] = unsafe { [0, 4].map(|place| _mm256_loadu_ps(nodes.add(place).cast())) };
        // Thresholds and flags in turns, put apart in pairs, which then stand in the order 0, 2, 1, 3.
        let ordered = |v: __m256| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(v));
        let thresholds = _mm256_castsi256_ps(ordered(_mm256_shuffle_ps::<0b10_00_10_00>(a, b)));
        let metas = ordered(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
        let column = _mm256_and_si256(metas, _mm256_set1_epi32(FEATURE as i32));
        let mut columns = [0; LANES];
        let place = _mm256_slli_epi32::<BLOCK_SHIFT>(column);
        // SAFETY: there is room for eight words.
        unsafe { _mm256_storeu_si256(columns.as_mut_ptr().cast(), place) };
        Self { thresholds, metas, columns }
    }

    /// The level-order places of eight rows after `L` levels.
    ///
    /// # Safety
    /// AVX2; the source's columns are loaded, and eight values stand at each from `data` on.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn places<F: Source8, const L: u32>(&self, data: *const F::Value8) -> __m256i {
        // SAFETY: as promised to this function.
        let column = |place: usize| unsafe { F::column8(data.add(self.columns[place] as usize)) };
        let pick = |left: __m256, other: __m256, went: __m256i| {
            _mm256_blendv_ps(left, other, _mm256_castsi256_ps(went))
        };
        let one = _mm256_set1_epi32(1);
        // What goes right is -1.
        let below = |place: __m256i, went: __m256i| {
            _mm256_sub_epi32(_mm256_add_epi32(_mm256_add_epi32(place, place), one), went)
        };
        let decide = |x: __m256, place: __m256i| {
            let threshold = _mm256_permutevar8x32_ps(self.thresholds, place);
            right(x, threshold, _mm256_permutevar8x32_epi32(self.metas, place))
        };
        let first = decide(column(0), _mm256_setzero_si256());
        let mut place = _mm256_sub_epi32(one, first);
        if L > 1 {
            let second = decide(pick(column(1), column(2), first), place);
            place = below(place, second);
            if L > 2 {
                let [left, other] = [3, 5].map(|c| pick(column(c), column(c + 1), second));
                place = below(place, decide(pick(left, other, first), place));
            }
        }
        place
    }
}

/// Walks the top of a tree in registers, and says how many levels that were.
///
/// # Safety
/// As for [`block`]; the source's columns are loaded.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn top<R: WalkRule8, F: Source8>(
    walks: &Walks<'_, R, F::Value8>,
    position: usize,
    steps: u32,
    at: &mut [__m256i; GROUPS],
) -> u32 {
    let nodes = walks.nodes;
    let root = nodes.roots[position];
    let own = nodes.tops.get(position);
    let first: *const Node = match own {
        Some(top) => top.nodes.as_ptr(),
        // Level order with children side by side, and eight nodes to load. A rule whose leaves hold has its tops made.
        None if !R::HOLDS && nodes.stride == 1 && root as usize + LANES <= nodes.nodes.len() => {
            // SAFETY: the root is in range; such a rule's nodes are `Node`s.
            unsafe { nodes.nodes.as_ptr().add(root as usize).cast() }
        }
        None => return 0,
    };
    let levels = if own.is_some() { nodes.depths[position] } else { steps }.min(TOP_LEVELS_8);
    if levels == 0 {
        return 0;
    }
    // SAFETY: eight nodes from the first on are in range.
    let registers = unsafe { Registers::load(first) };
    let begin = (1 << levels) - 1;
    let exits = match own {
        // SAFETY: a top has more than eight exits.
        Some(top) => unsafe { _mm256_loadu_si256(top.exits.as_ptr().cast()) },
        None => _mm256_add_epi32(count(begin), _mm256_set1_epi32(root as i32)),
    };
    // A permute looks at a place's lowest three bits: exits stand where those of a level's places point.
    let exits =
        _mm256_permutevar8x32_epi32(exits, _mm256_sub_epi32(count(0), _mm256_set1_epi32(begin as i32)));
    let data = walks.rows[0].data;
    for (g, at) in at.iter_mut().enumerate().take(walks.groups) {
        // SAFETY: as promised to this function.
        let place = unsafe {
            let data = data.add(g * LANES);
            match levels {
                1 => registers.places::<F, 1>(data),
                2 => registers.places::<F, 2>(data),
                _ => registers.places::<F, 3>(data),
            }
        };
        *at = _mm256_permutevar8x32_epi32(exits, place);
    }
    levels
}

/// Puts the leaves that rows, a first and how many, come to into `found`.
///
/// # Safety
/// As for [`block`].
#[target_feature(enable = "avx2")]
unsafe fn walk<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    position: usize,
    rows: F,
    row: (usize, usize),
    shape: Shape,
    found: &mut [u32; ALL],
) {
    let (steps, rest) = match shape.rest {
        Remainder::Counted => (nodes.depths[position], Remainder::Nothing),
        // Where leaves hold, the tree's own depth bounds its walks.
        rest if R::HOLDS => (shape.steps.min(nodes.depths[position]), rest),
        rest => (shape.steps, rest),
    };
    let mut at = [_mm256_set1_epi32(nodes.roots[position] as i32); GROUPS];
    // SAFETY: as promised to this function.
    unsafe {
        let walks = Walks::new(nodes, position, rows, row);
        let taken = if F::LOADED { top::<R, F>(&walks, position, steps, &mut at) } else { 0 };
        walks.steps::<F>(steps.saturating_sub(taken), &mut at);
        if rest == Remainder::UntilLeaf {
            walks.until_leaf::<F>(&mut at);
        }
    }
    store(&at, found);
}

/// The same from the addresses in `found` on, until the leaves.
///
/// # Safety
/// As for [`walk_on`].
#[target_feature(enable = "avx2")]
unsafe fn walk_from<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    position: usize,
    rows: F,
    row: (usize, usize),
    found: &mut [u32; ALL],
) {
    // SAFETY: as promised to this function; there are 64 addresses.
    let at = unsafe {
        let mut at = std::array::from_fn(|g| _mm256_loadu_si256(found.as_ptr().add(g * LANES).cast()));
        Walks::new(nodes, position, rows, row).until_leaf::<F>(&mut at);
        at
    };
    store(&at, found);
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(at: &[__m256i; GROUPS], found: &mut [u32; ALL]) {
    for (at, found) in at.iter().zip(found.chunks_exact_mut(LANES)) {
        // SAFETY: eight words of room.
        unsafe { _mm256_storeu_si256(found.as_mut_ptr().cast(), *at) };
    }
}
