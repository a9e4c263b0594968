//! AVX-512: sixteen rows a register, four registers a tree.
//!
//! A walk is a chain of loads, so 64 of them advance together. The first five levels of a full tree are 31 nodes,
//! which fit two registers of thresholds and two of columns: there a step is a permute and one gather (the row's
//! value); further down it is three gathers.

use std::arch::x86_64::*;

use super::{
    nodes::{FEATURE, LEAF, LinkedNode, Node, Nodes},
    rows::Rows,
    sink::Sink,
    walk::{Shape, Span},
};
use crate::plan::Rest;

/// Rows in a register.
const LANES: usize = 16;
/// Registers that advance together.
const GROUPS: usize = 4;
/// Levels of a full tree whose nodes are held in registers.
const TOP_LEVELS: u32 = 5;

/// Whether the machine has what the kernels here need.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")
}

/// Whether rows can be addressed with 32-bit offsets from a group's first.
pub(super) fn fits(rows: &Rows<'_>) -> bool {
    rows.is_unit()
        && rows.row_stride().checked_mul(LANES).is_some_and(|n| n + rows.columns() < i32::MAX as usize / 4)
}

/// A layout rule with a vector step.
pub(super) trait VectorRule: Sized + Copy {
    /// Addresses after a step; `top` holds the first nodes of a full tree.
    ///
    /// # Safety
    /// AVX-512 F and DQ; addresses are reachable; `x` gathers stay inside the rows.
    unsafe fn step(
        nodes: &Nodes<Self>,
        at: __m512i,
        constant: __m512i,
        rows: Lanes,
        active: __mmask16,
    ) -> __m512i;
    /// Flags of the nodes at these addresses.
    ///
    /// # Safety
    /// As for [`VectorRule::step`].
    unsafe fn meta(nodes: &Nodes<Self>, at: __m512i) -> __m512i;
    /// Whether `TOP_LEVELS` of a tree can be walked in registers, and the walk.
    ///
    /// # Safety
    /// As for [`VectorRule::step`].
    unsafe fn top(
        nodes: &Nodes<Self>,
        position: usize,
        rows: &[Lanes; GROUPS],
        at: &mut [__m512i; GROUPS],
    ) -> u32;
    /// The tree's depth bounds its walks, whatever the steps the plan unrolls.
    fn steps(nodes: &Nodes<Self>, position: usize, steps: u32) -> u32;
}

/// Sixteen rows: where the first begins, and each one's offset from there.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    data: *const f32,
    offsets: __m512i,
}

/// Lanes that go right at nodes with these thresholds and flags.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn right(threshold: __m512, meta: __m512i, rows: Lanes) -> __mmask16 {
    let feature = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
    let index = _mm512_add_epi32(rows.offsets, feature);
    // SAFETY: the index is a row's offset plus a column.
    let x = unsafe { _mm512_i32gather_ps::<4>(index, rows.data.cast()) };
    let ge = _mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, threshold);
    let missing = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x);
    ge | (missing & _mm512_movepi32_mask(meta))
}

impl VectorRule for Node {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn step(
        nodes: &Nodes<Self>,
        at: __m512i,
        constant: __m512i,
        rows: Lanes,
        active: __mmask16,
    ) -> __m512i {
        let base: *const f32 = nodes.nodes.as_ptr().cast();
        // SAFETY: addresses are in range; a node is a threshold and its flags, eight bytes.
        let (threshold, meta) = unsafe {
            (_mm512_i32gather_ps::<8>(at, base.cast()), _mm512_i32gather_epi32::<8>(at, base.add(1).cast()))
        };
        // SAFETY: as promised to this function.
        let right = unsafe { right(threshold, meta, rows) };
        let left = _mm512_add_epi32(_mm512_add_epi32(at, at), constant);
        let stride = _mm512_set1_epi32(nodes.stride as i32);
        let next = _mm512_mask_add_epi32(left, right, left, stride);
        _mm512_mask_mov_epi32(at, active, next)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn meta(nodes: &Nodes<Self>, at: __m512i) -> __m512i {
        let base: *const f32 = nodes.nodes.as_ptr().cast();
        // SAFETY: addresses are in range.
        unsafe { _mm512_i32gather_epi32::<8>(at, base.add(1).cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn top(
        nodes: &Nodes<Self>,
        position: usize,
        rows: &[Lanes; GROUPS],
        at: &mut [__m512i; GROUPS],
    ) -> u32 {
        let root = nodes.roots[position];
        // Level order with children side by side, and 32 nodes to load.
        if nodes.stride != 1 || root as usize + 32 > nodes.nodes.len() {
            return 0;
        }
        // SAFETY: 32 nodes from the root on are in range.
        let raw: [__m512i; 4] = unsafe {
            let first: *const __m512i = nodes.nodes.as_ptr().add(root as usize).cast();
            std::array::from_fn(|i| _mm512_loadu_si512(first.add(i)))
        };
        let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
        let thresholds = [
            _mm512_permutex2var_epi32(raw[0], even, raw[1]),
            _mm512_permutex2var_epi32(raw[2], even, raw[3]),
        ];
        let metas =
            [_mm512_permutex2var_epi32(raw[0], odd, raw[1]), _mm512_permutex2var_epi32(raw[2], odd, raw[3])];
        let one = _mm512_set1_epi32(1);
        let mut local = [_mm512_setzero_si512(); GROUPS];
        for _ in 0..TOP_LEVELS {
            for g in 0..GROUPS {
                let threshold = _mm512_permutex2var_epi32(thresholds[0], local[g], thresholds[1]);
                let meta = _mm512_permutex2var_epi32(metas[0], local[g], metas[1]);
                // SAFETY: as promised to this function.
                let right = unsafe { right(_mm512_castsi512_ps(threshold), meta, rows[g]) };
                let left = _mm512_add_epi32(_mm512_add_epi32(local[g], local[g]), one);
                local[g] = _mm512_mask_add_epi32(left, right, left, one);
            }
        }
        for g in 0..GROUPS {
            at[g] = _mm512_add_epi32(local[g], _mm512_set1_epi32(root as i32));
        }
        TOP_LEVELS
    }

    fn steps(_nodes: &Nodes<Self>, _position: usize, steps: u32) -> u32 {
        steps
    }
}

impl VectorRule for LinkedNode {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn step(
        nodes: &Nodes<Self>,
        at: __m512i,
        _constant: __m512i,
        rows: Lanes,
        active: __mmask16,
    ) -> __m512i {
        let base: *const f32 = nodes.nodes.as_ptr().cast();
        // A node is a threshold, its flags and a link, twelve bytes.
        let index = _mm512_add_epi32(_mm512_add_epi32(at, at), at);
        // SAFETY: addresses are in range.
        let (threshold, meta, link) = unsafe {
            (
                _mm512_i32gather_ps::<4>(index, base.cast()),
                _mm512_i32gather_epi32::<4>(index, base.add(1).cast()),
                _mm512_i32gather_epi32::<4>(index, base.add(2).cast()),
            )
        };
        // SAFETY: as promised to this function.
        let right = unsafe { right(threshold, meta, rows) };
        let next = _mm512_mask_add_epi32(link, right, link, _mm512_set1_epi32(1));
        _mm512_mask_mov_epi32(at, active, next)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn meta(nodes: &Nodes<Self>, at: __m512i) -> __m512i {
        let base: *const f32 = nodes.nodes.as_ptr().cast();
        let index = _mm512_add_epi32(_mm512_add_epi32(at, at), at);
        // SAFETY: addresses are in range.
        unsafe { _mm512_i32gather_epi32::<4>(index, base.add(1).cast()) }
    }

    unsafe fn top(_: &Nodes<Self>, _: usize, _: &[Lanes; GROUPS], _: &mut [__m512i; GROUPS]) -> u32 {
        0
    }

    fn steps(nodes: &Nodes<Self>, position: usize, steps: u32) -> u32 {
        steps.min(nodes.depths[position])
    }
}

/// A block with rows inside, `row.step` 1: each tree against 64 rows at a time.
///
/// # Safety
/// [`available`] and [`fits`]; otherwise as for [`super::walk::block`].
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn block<R: VectorRule, S: Sink>(
    nodes: &Nodes<R>,
    rows: &Rows<'_>,
    row: Span,
    tree: Span,
    shape: Shape,
    sink: S,
) {
    let stride = _mm512_set1_epi32(rows.row_stride() as i32);
    let lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for t in 0..tree.count {
        let position = tree.at(t);
        let mut done = 0;
        while done < row.count {
            let left = row.count - done;
            let first = row.start + done;
            // Lanes past the last row walk it again; what they find is dropped.
            let lanes: [Lanes; GROUPS] = std::array::from_fn(|g| {
                let begin = (g * LANES).min(left - 1);
                let most = (left - 1 - begin).min(LANES - 1);
                let own = _mm512_min_epi32(lane, _mm512_set1_epi32(most as i32));
                Lanes { data: rows.from(first + begin).as_ptr(), offsets: _mm512_mullo_epi32(own, stride) }
            });
            let groups = left.div_ceil(LANES).min(GROUPS);
            // SAFETY: as promised to this function.
            let found = unsafe { walk(nodes, position, &lanes, groups, shape) };
            for (g, found) in found.iter().enumerate().take(groups) {
                let mut addresses = [0u32; LANES];
                // SAFETY: sixteen words of room.
                unsafe { _mm512_storeu_si512(addresses.as_mut_ptr().cast(), *found) };
                let begin = g * LANES;
                for (l, address) in addresses.iter().enumerate().take(left - begin) {
                    sink.leaf(first + begin + l, position, *address);
                }
            }
            done += LANES * GROUPS;
        }
    }
}

/// # Safety
/// As for [`block`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn walk<R: VectorRule>(
    nodes: &Nodes<R>,
    position: usize,
    rows: &[Lanes; GROUPS],
    groups: usize,
    shape: Shape,
) -> [__m512i; GROUPS] {
    let constant = _mm512_set1_epi32(nodes.constants[position] as i32);
    let mut at = [_mm512_set1_epi32(nodes.roots[position] as i32); GROUPS];
    let (steps, rest) = match shape.rest {
        Rest::Counted => (nodes.depths[position], Rest::Nothing),
        rest => (R::steps(nodes, position, shape.steps), rest),
    };
    // SAFETY: as promised to this function.
    unsafe {
        let taken = if steps >= TOP_LEVELS { R::top(nodes, position, rows, &mut at) } else { 0 };
        if groups == GROUPS {
            for _ in taken..steps {
                for g in 0..GROUPS {
                    at[g] = R::step(nodes, at[g], constant, rows[g], 0xffff);
                }
            }
        } else {
            for _ in taken..steps {
                for g in 0..groups {
                    at[g] = R::step(nodes, at[g], constant, rows[g], 0xffff);
                }
            }
        }
        if rest == Rest::UntilLeaf {
            for g in 0..groups {
                loop {
                    let meta = R::meta(nodes, at[g]);
                    let active = _mm512_testn_epi32_mask(meta, _mm512_set1_epi32(LEAF as i32));
                    if active == 0 {
                        break;
                    }
                    at[g] = R::step(nodes, at[g], constant, rows[g], active);
                }
            }
        }
    }
    at
}
