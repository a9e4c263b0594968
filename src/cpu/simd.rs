//! AVX-512: sixteen rows a register, four registers a tree.
//!
//! A walk is a chain of loads, so 64 of them advance together. The first five levels of a tree are 31 nodes, which fit
//! two registers of thresholds and two of columns: there a step is a permute and the rows' values, gathered, or
//! loaded and blended where a [`Window`] holds them by column. Further down it is two gathers of a node's two words and one
//! of a value.

use std::arch::x86_64::*;

use super::{
    nodes::{FEATURE, LEAF, LinkedNode, Node, Nodes, SHORT_FEATURE, SHORT_LINK, SHORT_SHIFT, ShortNode, TOP_LEVELS},
    rows::Rows,
    sink::Sink,
    walk::{Shape, Span},
    window::{BLOCK, Window},
};
use crate::plan::Rest;

/// Rows in a register.
const LANES: usize = 16;
/// Registers that advance together.
const GROUPS: usize = 4;
/// From a column's number to its place in a block of a window.
const BLOCK_SHIFT: u32 = BLOCK.ilog2();

/// Whether the machine has what the kernels here need.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")
}

/// Whether rows can be addressed with 32-bit offsets from a group's first.
pub(super) fn fits(rows: &Rows<'_>) -> bool {
    rows.is_unit()
        && rows.row_stride().checked_mul(LANES).is_some_and(|n| n + rows.columns() < i32::MAX as usize / 4)
}

/// Sixteen rows: where the first begins, and each one's offset from there.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    data: *const f32,
    offsets: __m512i,
}

/// Where rows are read from.
pub(super) trait Source: Copy {
    /// Whether values of a column follow each other.
    const BY_COLUMN: bool;
    /// Rows from `row` on that can be walked together.
    fn together(&self, row: usize) -> usize;
    /// Lanes for the rows from `row + begin` on, where `row + last` is the last that counts.
    ///
    /// # Safety
    /// AVX-512 F and DQ; the rows are there.
    unsafe fn lanes(&self, row: usize, begin: usize, last: usize) -> Lanes;
}

impl Source for &Rows<'_> {
    const BY_COLUMN: bool = false;
    fn together(&self, _row: usize) -> usize {
        usize::MAX
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, last: usize) -> Lanes {
        // Lanes past the last row walk it again; what they find is dropped.
        let begin = begin.min(last);
        let most = (last - begin).min(LANES - 1);
        let own = _mm512_min_epi32(count(), _mm512_set1_epi32(most as i32));
        let stride = _mm512_set1_epi32(self.row_stride() as i32);
        Lanes { data: self.from(row + begin).as_ptr(), offsets: _mm512_mullo_epi32(own, stride) }
    }
}

impl Source for Window<'_> {
    const BY_COLUMN: bool = true;
    fn together(&self, row: usize) -> usize {
        BLOCK - self.block(row).1
    }
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn lanes(&self, row: usize, begin: usize, _last: usize) -> Lanes {
        // Lanes past the last row read what is beside it, or the room that a window has behind its last column.
        let (data, place) = self.block(row);
        Lanes { data: data.as_ptr().wrapping_add(place + begin), offsets: count() }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn count() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// A node a lane.
#[derive(Clone, Copy)]
pub(super) struct Gathered {
    threshold: __m512,
    /// Flags.
    meta: __m512i,
    column: __m512i,
    /// The left child's address.
    left: __m512i,
}

/// A layout rule with a vector step.
pub(super) trait VectorRule: Sized + Copy {
    /// Whether a step from a leaf stays there.
    const HOLDS: bool;
    /// The nodes at these addresses.
    ///
    /// # Safety
    /// AVX-512 F and DQ; addresses are reachable.
    unsafe fn gather(nodes: &Nodes<Self>, at: __m512i, constant: __m512i) -> Gathered;
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

impl VectorRule for Node {
    const HOLDS: bool = false;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: &Nodes<Self>, at: __m512i, constant: __m512i) -> Gathered {
        // SAFETY: addresses are in range; a node is a threshold and its flags, eight bytes.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.nodes.as_ptr().cast(), at) };
        let column = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
        let left = _mm512_add_epi32(_mm512_add_epi32(at, at), constant);
        Gathered { threshold, meta, column, left }
    }
}

impl VectorRule for ShortNode {
    const HOLDS: bool = true;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: &Nodes<Self>, at: __m512i, _constant: __m512i) -> Gathered {
        // SAFETY: addresses are in range; a node is eight bytes.
        let (threshold, meta) = unsafe { pairs::<8>(nodes.nodes.as_ptr().cast(), at) };
        let column = _mm512_srli_epi32::<SHORT_SHIFT>(meta);
        let column = _mm512_and_si512(column, _mm512_set1_epi32(SHORT_FEATURE as i32));
        let way = _mm512_and_si512(meta, _mm512_set1_epi32(SHORT_LINK as i32));
        Gathered { threshold, meta, column, left: _mm512_add_epi32(at, way) }
    }
}

impl VectorRule for LinkedNode {
    const HOLDS: bool = true;
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(nodes: &Nodes<Self>, at: __m512i, _constant: __m512i) -> Gathered {
        let base: *const i32 = nodes.nodes.as_ptr().cast();
        // A node is a threshold, its flags and a link, twelve bytes.
        let index = _mm512_add_epi32(_mm512_add_epi32(at, at), at);
        // SAFETY: addresses are in range.
        let ((threshold, meta), left) =
            unsafe { (pairs::<4>(base.cast(), index), _mm512_i32gather_epi32::<4>(index, base.add(2))) };
        let column = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
        Gathered { threshold, meta, column, left }
    }
}

/// The rows' values of these columns.
///
/// # Safety
/// AVX-512 F; the columns are the rows'.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn values<F: Source>(column: __m512i, rows: Lanes) -> __m512 {
    let column = if F::BY_COLUMN { _mm512_slli_epi32::<BLOCK_SHIFT>(column) } else { column };
    let index = _mm512_add_epi32(rows.offsets, column);
    // SAFETY: the index is a row's offset plus a column's.
    unsafe { _mm512_i32gather_ps::<4>(index, rows.data) }
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
unsafe fn next<F: Source>(node: Gathered, stride: __m512i, rows: Lanes) -> __m512i {
    // SAFETY: as promised to this function.
    let x = unsafe { values::<F>(node.column, rows) };
    let right = right(x, node.threshold, node.meta);
    _mm512_mask_add_epi32(node.left, right, node.left, stride)
}

/// Of the columns at `C`, each lane's: those of a level of `2 x LEN` nodes, by the decisions above it.
///
/// # Safety
/// AVX-512 F; sixteen values stand at each column.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick2(data: *const f32, columns: &[u32], went: __mmask16) -> __m512 {
    // SAFETY: as promised to this function.
    unsafe {
        let left = _mm512_loadu_ps(data.add(columns[0] as usize));
        _mm512_mask_loadu_ps(left, went, data.add(columns[1] as usize))
    }
}

/// # Safety
/// As for [`pick2`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick4(data: *const f32, columns: &[u32], went: &[__mmask16]) -> __m512 {
    // SAFETY: as promised to this function.
    let (left, right) =
        unsafe { (pick2(data, &columns[..2], went[1]), pick2(data, &columns[2..4], went[1])) };
    _mm512_mask_blend_ps(went[0], left, right)
}

/// # Safety
/// As for [`pick2`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick8(data: *const f32, columns: &[u32], went: &[__mmask16]) -> __m512 {
    // SAFETY: as promised to this function.
    let (left, right) =
        unsafe { (pick4(data, &columns[..4], &went[1..]), pick4(data, &columns[4..8], &went[1..])) };
    _mm512_mask_blend_ps(went[0], left, right)
}

/// # Safety
/// As for [`pick2`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick16(data: *const f32, columns: &[u32], went: &[__mmask16]) -> __m512 {
    // SAFETY: as promised to this function.
    let (left, right) =
        unsafe { (pick8(data, &columns[..8], &went[1..]), pick8(data, &columns[8..16], &went[1..])) };
    _mm512_mask_blend_ps(went[0], left, right)
}

/// The first nodes of a full tree.
#[derive(Clone, Copy)]
struct Registers {
    thresholds: [__m512i; 2],
    metas: [__m512i; 2],
    /// Columns' places in a block of a window.
    columns: [u32; 1 << TOP_LEVELS],
}

impl Registers {
    /// # Safety
    /// AVX-512 F; 32 nodes stand there.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn load<F: Source>(nodes: *const Node) -> Self {
        // SAFETY: as promised to this function.
        let raw: [__m512i; 4] =
            unsafe { std::array::from_fn(|i| _mm512_loadu_si512(nodes.cast::<__m512i>().add(i))) };
        let (a, b) = (words(raw[0], raw[1]), words(raw[2], raw[3]));
        let mut columns = [0u32; 1 << TOP_LEVELS];
        if F::BY_COLUMN {
            for (i, meta) in [a.1, b.1].into_iter().enumerate() {
                let column = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
                let place = _mm512_slli_epi32::<BLOCK_SHIFT>(column);
                // SAFETY: there is room for twice sixteen words.
                unsafe { _mm512_storeu_si512(columns.as_mut_ptr().add(i * LANES).cast(), place) };
            }
        }
        Self { thresholds: [a.0, b.0], metas: [a.1, b.1], columns }
    }

    /// The level-order places of sixteen rows after `L` levels.
    ///
    /// # Safety
    /// AVX-512 F and DQ; the nodes' columns are the rows'.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn walk<F: Source, const L: u32>(&self, rows: Lanes) -> __m512i {
        let one = _mm512_set1_epi32(1);
        let mut local = _mm512_setzero_si512();
        let mut went = [0 as __mmask16; TOP_LEVELS as usize];
        macro_rules! level {
            ($level:literal, $pick:expr) => {
                if L > $level {
                    let [thresholds, metas] = match $level {
                        4 => [self.thresholds, self.metas].map(|r| _mm512_permutex2var_epi32(r[0], local, r[1])),
                        _ => [self.thresholds, self.metas].map(|r| _mm512_permutexvar_epi32(local, r[0])),
                    };
                    // SAFETY: as promised to this function.
                    let x = unsafe {
                        match F::BY_COLUMN {
                            true => $pick,
                            false => {
                                let column = _mm512_and_si512(metas, _mm512_set1_epi32(FEATURE as i32));
                                values::<F>(column, rows)
                            }
                        }
                    };
                    went[$level] = right(x, _mm512_castsi512_ps(thresholds), metas);
                    let left = _mm512_add_epi32(_mm512_add_epi32(local, local), one);
                    local = _mm512_mask_add_epi32(left, went[$level], left, one);
                }
            };
        }
        level!(0, _mm512_loadu_ps(rows.data.add(self.columns[0] as usize)));
        level!(1, pick2(rows.data, &self.columns[1..3], went[0]));
        level!(2, pick4(rows.data, &self.columns[3..7], &went[..2]));
        level!(3, pick8(rows.data, &self.columns[7..15], &went[..3]));
        level!(4, pick16(rows.data, &self.columns[15..31], &went[..4]));
        local
    }
}

/// Walks the top of a tree in registers, and says how many levels that were.
///
/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn top<R: VectorRule, F: Source>(
    nodes: &Nodes<R>,
    position: usize,
    levels: u32,
    rows: &[Lanes; GROUPS],
    groups: usize,
    at: &mut [__m512i; GROUPS],
) -> u32 {
    let root = nodes.roots[position];
    let own = nodes.tops.get(position);
    let first: *const Node = match own {
        Some(top) => top.nodes.as_ptr(),
        // Level order with children side by side, and 32 nodes to load. A rule whose leaves hold has its tops made.
        None if !R::HOLDS && nodes.stride == 1 && root as usize + 32 <= nodes.nodes.len() => {
            // SAFETY: the root is in range; such a rule's nodes are `Node`s.
            unsafe { nodes.nodes.as_ptr().add(root as usize).cast() }
        }
        None => return 0,
    };
    let levels = if own.is_some() { nodes.depths[position] } else { levels }.min(TOP_LEVELS);
    // SAFETY: 32 nodes from the first on are in range.
    let registers = unsafe { Registers::load::<F>(first) };
    for g in 0..groups {
        // SAFETY: as promised to this function.
        let local = unsafe {
            match levels {
                0 => return 0,
                1 => registers.walk::<F, 1>(rows[g]),
                2 => registers.walk::<F, 2>(rows[g]),
                3 => registers.walk::<F, 3>(rows[g]),
                4 => registers.walk::<F, 4>(rows[g]),
                _ => registers.walk::<F, 5>(rows[g]),
            }
        };
        at[g] = match own {
            None => _mm512_add_epi32(local, _mm512_set1_epi32(root as i32)),
            Some(top) => {
                let place = _mm512_sub_epi32(local, _mm512_set1_epi32((1 << levels) - 1));
                // SAFETY: a top has twice sixteen exits.
                let [low, high] = unsafe {
                    [0, 1].map(|i| _mm512_loadu_si512(top.exits.as_ptr().add(i * LANES).cast()))
                };
                _mm512_permutex2var_epi32(low, place, high)
            }
        };
    }
    levels
}

/// A block with rows inside, `row.step` 1: each tree against 64 rows at a time.
///
/// # Safety
/// [`available`]; the rows [`fits`] or hold the span; otherwise as for [`super::walk::block`].
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn block<R: VectorRule, F: Source, S: Sink>(
    nodes: &Nodes<R>,
    rows: F,
    row: Span,
    tree: Span,
    shape: Shape,
    sink: S,
) {
    for t in 0..tree.count {
        let position = tree.at(t);
        let mut done = 0;
        while done < row.count {
            let first = row.start + done;
            let count = (row.count - done).min(rows.together(first)).min(LANES * GROUPS);
            // SAFETY: the rows are there.
            let lanes: [Lanes; GROUPS] =
                unsafe { std::array::from_fn(|g| rows.lanes(first, g * LANES, count - 1)) };
            let groups = count.div_ceil(LANES);
            // SAFETY: as promised to this function.
            let found = unsafe { walk::<R, F>(nodes, position, &lanes, groups, shape) };
            for (g, found) in found.iter().enumerate().take(groups) {
                let mut addresses = [0u32; LANES];
                // SAFETY: sixteen words of room.
                unsafe { _mm512_storeu_si512(addresses.as_mut_ptr().cast(), *found) };
                let begin = g * LANES;
                for (l, address) in addresses.iter().enumerate().take(count - begin) {
                    sink.leaf(first + begin + l, position, *address);
                }
            }
            done += count;
        }
    }
}

/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn walk<R: VectorRule, F: Source>(
    nodes: &Nodes<R>,
    position: usize,
    rows: &[Lanes; GROUPS],
    groups: usize,
    shape: Shape,
) -> [__m512i; GROUPS] {
    let constant = _mm512_set1_epi32(nodes.constants[position] as i32);
    let stride = _mm512_set1_epi32(nodes.stride as i32);
    let mut at = [_mm512_set1_epi32(nodes.roots[position] as i32); GROUPS];
    let (steps, rest) = match shape.rest {
        Rest::Counted => (nodes.depths[position], Rest::Nothing),
        // Where leaves hold, the tree's own depth bounds its walks.
        rest if R::HOLDS => (shape.steps.min(nodes.depths[position]), rest),
        rest => (shape.steps, rest),
    };
    // SAFETY: as promised to this function.
    unsafe {
        let taken = top::<R, F>(nodes, position, steps, rows, groups, &mut at);
        if groups == GROUPS {
            for _ in taken..steps {
                for g in 0..GROUPS {
                    at[g] = next::<F>(R::gather(nodes, at[g], constant), stride, rows[g]);
                }
            }
        } else {
            for _ in taken..steps {
                for g in 0..groups {
                    at[g] = next::<F>(R::gather(nodes, at[g], constant), stride, rows[g]);
                }
            }
        }
        if rest == Rest::UntilLeaf {
            until_leaf::<R, F>(nodes, constant, stride, rows, groups, &mut at);
        }
    }
    at
}

/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn until_leaf<R: VectorRule, F: Source>(
    nodes: &Nodes<R>,
    constant: __m512i,
    stride: __m512i,
    rows: &[Lanes; GROUPS],
    groups: usize,
    at: &mut [__m512i; GROUPS],
) {
    let leaf = _mm512_set1_epi32(LEAF as i32);
    let mut open = (1u32 << groups) - 1;
    while open != 0 {
        for g in 0..GROUPS {
            if open >> g & 1 == 0 {
                continue;
            }
            // SAFETY: as promised to this function.
            unsafe {
                let node = R::gather(nodes, at[g], constant);
                let active = _mm512_testn_epi32_mask(node.meta, leaf);
                if active == 0 {
                    open &= !(1 << g);
                    continue;
                }
                at[g] = _mm512_mask_mov_epi32(at[g], active, next::<F>(node, stride, rows[g]));
            }
        }
    }
}

/// Copies the used columns of `count` rows from `first` on to `[column][BLOCK]`.
///
/// # Safety
/// [`available`] and [`fits`]; the rows are there, at most [`BLOCK`]; `into` has a block for each column.
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn transpose(
    rows: &Rows<'_>,
    first: usize,
    count: usize,
    lines: &[(u32, u16)],
    into: &mut [f32],
) {
    /// Lines that are asked for before they are read.
    const AHEAD: usize = 4;
    for begin in (0..count).step_by(LANES) {
        let here = (count - begin).min(LANES);
        let row: [*const f32; LANES] =
            std::array::from_fn(|r| rows.from(first + begin + r.min(here - 1)).as_ptr());
        for (k, &(line, mask)) in lines.iter().enumerate() {
            let line = line as usize;
            if let Some((ahead, _)) = lines.get(k + AHEAD) {
                for r in row {
                    _mm_prefetch::<_MM_HINT_T0>(r.wrapping_add(*ahead as usize).cast());
                }
            }
            let most = (rows.columns() - line).min(LANES);
            let some = (((1u32 << most) - 1) & 0xffff) as __mmask16;
            // SAFETY: the mask keeps to the row's columns.
            let values: [__m512i; LANES] = unsafe {
                std::array::from_fn(|r| _mm512_maskz_loadu_epi32(some, row[r].add(line).cast()))
            };
            for (c, column) in transposed(values).into_iter().enumerate() {
                if mask >> c & 1 == 1 {
                    let place = (line + c) * BLOCK + begin;
                    // SAFETY: a used column is one of the rows', and has its block.
                    unsafe { _mm512_storeu_si512(into.as_mut_ptr().add(place).cast(), column) };
                }
            }
        }
    }
}

/// Sixteen rows of sixteen words to columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut a = rows;
    // Words of neighbouring rows side by side, then pairs of words: four rows' columns in each quarter.
    let mut b = a;
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..4 {
        a[4 * i] = _mm512_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
        a[4 * i + 1] = _mm512_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
        a[4 * i + 2] = _mm512_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
        a[4 * i + 3] = _mm512_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
    }
    // `a[4 i + j]` has in quarter `q` column `4 q + j` of rows `4 i` to `4 i + 3`: a transposition of quarters is left.
    for j in 0..4 {
        let [p, q] = [0, 8].map(|i| _mm512_shuffle_i32x4::<0x88>(a[i + j], a[i + 4 + j]));
        let [r, s] = [0, 8].map(|i| _mm512_shuffle_i32x4::<0xdd>(a[i + j], a[i + 4 + j]));
        b[j] = _mm512_shuffle_i32x4::<0x88>(p, q);
        b[8 + j] = _mm512_shuffle_i32x4::<0xdd>(p, q);
        b[4 + j] = _mm512_shuffle_i32x4::<0x88>(r, s);
        b[12 + j] = _mm512_shuffle_i32x4::<0xdd>(r, s);
    }
    b
}
