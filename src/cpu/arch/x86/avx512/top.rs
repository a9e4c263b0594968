//! Walks the first levels of a tree in registers.

use std::arch::x86_64::*;

use super::{BLOCK_SHIFT, GROUPS, LANES, Lanes, Source16, WalkRule16, right, words};
use crate::{
    arrays::{self, MapInline},
    cpu::nodes::{FEATURE, Node, Nodes, TOP_LEVELS},
};

/// Returns each lane's value in one of the first two `columns`, as the decision above them chooses. The
/// functions for 4, 8 and 16 columns take several decisions, the topmost first.
///
/// # Safety
/// The machine has AVX-512 F. Sixteen values can be read at each column's offset from `data`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick2(data: *const f32, columns: &[u32], went: __mmask16) -> __m512 {
    // SAFETY: the caller upholds that sixteen values can be read at each column.
    unsafe {
        let left = _mm512_loadu_ps(data.add(columns[0] as usize));
        _mm512_mask_loadu_ps(left, went, data.add(columns[1] as usize))
    }
}

/// Like [`pick2`], but for four columns and two decisions.
///
/// # Safety
/// The machine has AVX-512 F. Sixteen values can be read at each column's offset from `data`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick4(data: *const f32, columns: &[u32], went: &[__mmask16]) -> __m512 {
    // SAFETY: the caller upholds that sixteen values can be read at each column.
    let (left, right) =
        unsafe { (pick2(data, &columns[..2], went[1]), pick2(data, &columns[2..4], went[1])) };
    _mm512_mask_blend_ps(went[0], left, right)
}

/// Like [`pick2`], but for eight columns and three decisions.
///
/// # Safety
/// The machine has AVX-512 F. Sixteen values can be read at each column's offset from `data`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick8(data: *const f32, columns: &[u32], went: &[__mmask16]) -> __m512 {
    // SAFETY: the caller upholds that sixteen values can be read at each column.
    let (left, right) =
        unsafe { (pick4(data, &columns[..4], &went[1..]), pick4(data, &columns[4..8], &went[1..])) };
    _mm512_mask_blend_ps(went[0], left, right)
}

/// Like [`pick2`], but for sixteen columns and four decisions.
///
/// # Safety
/// The machine has AVX-512 F. Sixteen values can be read at each column's offset from `data`.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn pick16(data: *const f32, columns: &[u32], went: &[__mmask16]) -> __m512 {
    // SAFETY: the caller upholds that sixteen values can be read at each column.
    let (left, right) =
        unsafe { (pick8(data, &columns[..8], &went[1..]), pick8(data, &columns[8..16], &went[1..])) };
    _mm512_mask_blend_ps(went[0], left, right)
}

/// The first five levels of a full tree in registers: 31 nodes in level order, and an entry that is not used.
#[derive(Clone, Copy)]
struct Registers {
    thresholds: [__m512i; 2],
    metas: [__m512i; 2],
    /// For each node, the offset of its column in a row block of a window.
    columns: [u32; 1 << TOP_LEVELS],
}

impl Registers {
    /// Loads 32 nodes.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. 32 nodes can be read from `nodes` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn load<F: Source16>(nodes: *const Node) -> Self {
        // SAFETY: the caller upholds that 32 nodes can be read. They fill four registers.
        let raw: [__m512i; 4] =
            unsafe { arrays::from_fn(|i| _mm512_loadu_si512(nodes.cast::<__m512i>().add(i))) };
        let (a, b) = (words(raw[0], raw[1]), words(raw[2], raw[3]));
        let mut columns = [0u32; 1 << TOP_LEVELS];
        if F::BY_COLUMN {
            for (i, meta) in [a.1, b.1].into_iter().enumerate() {
                let column = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
                let offsets = _mm512_slli_epi32::<BLOCK_SHIFT>(column);
                // SAFETY: `columns` has room for two registers of sixteen words.
                unsafe { _mm512_storeu_si512(columns.as_mut_ptr().add(i * LANES).cast(), offsets) };
            }
        }
        Self { thresholds: [a.0, b.0], metas: [a.1, b.1], columns }
    }

    /// Returns the indices of all rows' nodes after `levels` levels, in level order, with values that are gathered. A
    /// step waits for its gather, so all registers take a level before the next one.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. `rows` are lanes of the source `F`, and the nodes' columns are the
    /// rows'.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather<F: Source16>(&self, levels: u32, rows: &[Lanes<F::Value>; GROUPS]) -> [__m512i; GROUPS] {
        let one = _mm512_set1_epi32(1);
        let mut local = [_mm512_setzero_si512(); GROUPS];
        for _ in 0..levels {
            for g in 0..GROUPS {
                let at = |r: [__m512i; 2]| _mm512_permutex2var_epi32(r[0], local[g], r[1]);
                let (threshold, meta) = (at(self.thresholds), at(self.metas));
                let column = _mm512_and_si512(meta, _mm512_set1_epi32(FEATURE as i32));
                // SAFETY: the caller upholds that the nodes' columns are the rows'.
                let x = unsafe { F::values(column, rows[g]) };
                let right = right(x, _mm512_castsi512_ps(threshold), meta);
                let left = _mm512_add_epi32(_mm512_add_epi32(local[g], local[g]), one);
                local[g] = _mm512_mask_add_epi32(left, right, left, one);
            }
        }
        local
    }

    /// Returns the indices of the nodes of all rows of a window after `L` levels, in level order, with values that are
    /// loaded and blended.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. The source is [`Source16::BY_COLUMN`]. Sixteen values of each node's
    /// column can be read for each register, with `data` at the first row of the row block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn blend<F: Source16, const L: u32>(
        &self,
        rows: &[Lanes<F::Value>; GROUPS],
        groups: usize,
    ) -> [__m512i; GROUPS] {
        let mut local = [_mm512_setzero_si512(); GROUPS];
        for g in 0..groups {
            // SAFETY: the caller upholds that values are `f32` by column and sixteen of each node's column
            // can be read for each register.
            local[g] = unsafe { self.blend16::<L>(rows[g].data.cast::<f32>().add(g * LANES)) };
        }
        local
    }

    /// Returns the indices of the nodes of sixteen rows of a window after `L` levels, in level order.
    ///
    /// # Safety
    /// The machine has AVX-512 F and DQ. Sixteen values of each node's column can be read, with `data` at the
    /// first row of the row block.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn blend16<const L: u32>(&self, data: *const f32) -> __m512i {
        let one = _mm512_set1_epi32(1);
        let mut local = _mm512_setzero_si512();
        let mut went = [0 as __mmask16; TOP_LEVELS as usize];
        macro_rules! level {
            ($level:literal, $pick:expr) => {
                if L > $level {
                    let [thresholds, metas] = match $level {
                        4 => [self.thresholds, self.metas]
                            .map_inline(|r| _mm512_permutex2var_epi32(r[0], local, r[1])),
                        _ => [self.thresholds, self.metas]
                            .map_inline(|r| _mm512_permutexvar_epi32(local, r[0])),
                    };
                    // SAFETY: the caller upholds that sixteen values of each node's column can be read.
                    let x = unsafe { $pick };
                    went[$level] = right(x, _mm512_castsi512_ps(thresholds), metas);
                    let left = _mm512_add_epi32(_mm512_add_epi32(local, local), one);
                    local = _mm512_mask_add_epi32(left, went[$level], left, one);
                }
            };
        }
        level!(0, _mm512_loadu_ps(data.add(self.columns[0] as usize)));
        level!(1, pick2(data, &self.columns[1..3], went[0]));
        level!(2, pick4(data, &self.columns[3..7], &went[..2]));
        level!(3, pick8(data, &self.columns[7..15], &went[..3]));
        level!(4, pick16(data, &self.columns[15..31], &went[..4]));
        local
    }
}

/// Walks the first levels of a tree in registers. Returns how many levels that were.
///
/// # Safety
/// The conditions of [`super::block`]: the machine has AVX-512 F and DQ, the rows have the forest's columns,
/// and the position is a tree's.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
pub(super) unsafe fn top<R: WalkRule16, F: Source16>(
    nodes: &Nodes<R>,
    position: usize,
    levels: u32,
    rows: &[Lanes<F::Value>; GROUPS],
    groups: usize,
    at: &mut [__m512i; GROUPS],
) -> u32 {
    let root = nodes.roots[position];
    let own = nodes.tops.get(position);
    let first: *const Node = match own {
        Some(top) => top.nodes.as_ptr(),
        // The nodes are in level order with children side by side, and 32 nodes can be loaded. Rules whose
        // leaves hold have tops made for them instead.
        None if !R::LEAVES_HOLD && nodes.stride == 1 && root as usize + 32 <= nodes.nodes.len() => {
            // SAFETY: the guard checks that 32 nodes from the root on are in range. A rule whose leaves don't
            // hold has `Node`s.
            unsafe { nodes.nodes.as_ptr().add(root as usize).cast() }
        }
        None => return 0,
    };
    let levels = if own.is_some() { nodes.depths[position] } else { levels }.min(TOP_LEVELS);
    // SAFETY: 32 nodes can be read: a top has 32, and the guard checks a layout's own nodes.
    let registers = unsafe { Registers::load::<F>(first) };
    if levels == 0 {
        return 0;
    }
    // SAFETY: the caller upholds that the source holds the rows, which have the forest's columns. Lanes past
    // the last row stay inside the room that a window has after its last column.
    let local = unsafe {
        match (F::BY_COLUMN, levels) {
            (false, _) => registers.gather::<F>(levels, rows),
            (true, 1) => registers.blend::<F, 1>(rows, groups),
            (true, 2) => registers.blend::<F, 2>(rows, groups),
            (true, 3) => registers.blend::<F, 3>(rows, groups),
            (true, 4) => registers.blend::<F, 4>(rows, groups),
            (true, _) => registers.blend::<F, 5>(rows, groups),
        }
    };
    for g in 0..groups {
        let local = local[g];
        at[g] = match own {
            None => _mm512_add_epi32(local, _mm512_set1_epi32(root as i32)),
            Some(top) => {
                let index = _mm512_sub_epi32(local, _mm512_set1_epi32((1 << levels) - 1));
                // SAFETY: a top has 32 exits, which fill two registers.
                let [low, high] = unsafe {
                    [0, 1].map_inline(|i| _mm512_loadu_si512(top.exits.as_ptr().add(i * LANES).cast()))
                };
                _mm512_permutex2var_epi32(low, index, high)
            }
        };
    }
    levels
}
