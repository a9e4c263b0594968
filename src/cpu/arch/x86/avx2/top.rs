//! Walks the first levels of a tree in registers.

use std::arch::x86_64::*;

use super::{BLOCK_SHIFT, GROUPS, LANES, Lanes, Source8, WalkRule8, count, right};
use crate::{
    arrays::MapInline,
    cpu::nodes::{FEATURE, Node, Nodes, TOP_LEVELS_8},
};

/// The first three levels of a full tree in registers: seven nodes in level order, and an entry that is not
/// used.
struct Registers {
    thresholds: __m256,
    metas: __m256i,
    /// For each node, the offset of its column in a row block of a window.
    columns: [u32; LANES],
}

impl Registers {
    /// Loads eight nodes.
    ///
    /// # Safety
    /// The machine has AVX2. Eight nodes can be read from `nodes` on.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn load(nodes: *const Node) -> Self {
        // SAFETY: the caller upholds that eight nodes can be read. A node is eight bytes, a threshold and its
        // flags.
        let [a, b] = unsafe { [0, 4].map_inline(|first| _mm256_loadu_ps(nodes.add(first).cast())) };
        // Thresholds and flags alternate. The shuffles separate them in pairs, which come out in the order 0,
        // 2, 1, 3.
        let ordered = |v: __m256| _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(v));
        let thresholds = _mm256_castsi256_ps(ordered(_mm256_shuffle_ps::<0b10_00_10_00>(a, b)));
        let metas = ordered(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
        let column = _mm256_and_si256(metas, _mm256_set1_epi32(FEATURE as i32));
        let mut columns = [0; LANES];
        let offsets = _mm256_slli_epi32::<BLOCK_SHIFT>(column);
        // SAFETY: `columns` has room for eight words.
        unsafe { _mm256_storeu_si256(columns.as_mut_ptr().cast(), offsets) };
        Self { thresholds, metas, columns }
    }

    /// Returns the indices of eight rows' nodes after `L` levels, in level order.
    ///
    /// # Safety
    /// The machine has AVX2. The source is [`Source8::LOADED`]. Eight values of each node's column can be
    /// read, with `data` at the first row of the row block.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn indices<F: Source8, const L: u32>(&self, data: *const F::Value8) -> __m256i {
        // SAFETY: the caller upholds that eight values of each node's column can be read.
        let column = |node: usize| unsafe { F::column8(data.add(self.columns[node] as usize)) };
        let pick = |left: __m256, other: __m256, went: __m256i| {
            _mm256_blendv_ps(left, other, _mm256_castsi256_ps(went))
        };
        let one = _mm256_set1_epi32(1);
        // `went` is -1 in the lanes of rows that go right.
        let below = |index: __m256i, went: __m256i| {
            _mm256_sub_epi32(_mm256_add_epi32(_mm256_add_epi32(index, index), one), went)
        };
        let decide = |x: __m256, index: __m256i| {
            let threshold = _mm256_permutevar8x32_ps(self.thresholds, index);
            right(x, threshold, _mm256_permutevar8x32_epi32(self.metas, index))
        };
        let first = decide(column(0), _mm256_setzero_si256());
        let mut index = _mm256_sub_epi32(one, first);
        if L > 1 {
            let second = decide(pick(column(1), column(2), first), index);
            index = below(index, second);
            if L > 2 {
                let [left, other] = [3, 5].map_inline(|c| pick(column(c), column(c + 1), second));
                index = below(index, decide(pick(left, other, first), index));
            }
        }
        index
    }
}

/// Walks the first levels of a tree in registers. Returns how many levels that were.
///
/// # Safety
/// The machine has AVX2. The source is [`Source8::LOADED`], and `rows` are its lanes. The rows have the
/// forest's columns, and the position is a tree's.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn top<R: WalkRule8, F: Source8>(
    nodes: &Nodes<R>,
    position: usize,
    steps: u32,
    rows: &[Lanes<F::Value8>; GROUPS],
    groups: usize,
    at: &mut [__m256i; GROUPS],
) -> u32 {
    let root = nodes.roots[position];
    let own = nodes.tops.get(position);
    let first: *const Node = match own {
        Some(top) => top.nodes.as_ptr(),
        // The nodes are in level order with children side by side, and eight nodes can be loaded. A rule
        // whose leaves hold loads tops only.
        None if !R::LEAVES_HOLD && nodes.stride == 1 && root as usize + LANES <= nodes.nodes.len() => {
            // SAFETY: the guard checks that eight nodes from the root on are in range. A rule whose leaves
            // don't hold has `Node`s.
            unsafe { nodes.nodes.as_ptr().add(root as usize).cast() }
        }
        None => return 0,
    };
    let levels = if own.is_some() { nodes.depths[position] } else { steps }.min(TOP_LEVELS_8);
    if levels == 0 {
        return 0;
    }
    // SAFETY: eight nodes can be read: a top has 32, and the guard checks a layout's own nodes.
    let registers = unsafe { Registers::load(first) };
    let begin = (1 << levels) - 1;
    let exits = match own {
        // SAFETY: a top has 32 exits.
        Some(top) => unsafe { _mm256_loadu_si256(top.exits.as_ptr().cast()) },
        None => _mm256_add_epi32(count(begin), _mm256_set1_epi32(root as i32)),
    };
    // A permute reads the lowest three bits of an index. So each exit moves to the lane that these bits of
    // its index name.
    let exits =
        _mm256_permutevar8x32_epi32(exits, _mm256_sub_epi32(count(0), _mm256_set1_epi32(begin as i32)));
    let data = rows[0].data;
    for (g, at) in at.iter_mut().enumerate().take(groups) {
        // SAFETY: the caller upholds that the source holds the rows by column. Lanes past the last row stay
        // inside the room that a window has after its last column.
        let index = unsafe {
            let data = data.add(g * LANES);
            match levels {
                1 => registers.indices::<F, 1>(data),
                2 => registers.indices::<F, 2>(data),
                _ => registers.indices::<F, 3>(data),
            }
        };
        *at = _mm256_permutevar8x32_epi32(exits, index);
    }
    levels
}
