//! Walks by tiles: the compares of all splits of a tile at once, as many tiles a register as fit (Treebeard, section 5.1).
//!
//! A register of AVX-512 has room for two tiles of eight splits, one of AVX2 for one, and each tile in it is another walk's.
//! What the compares say is looked up, and so the walk has its next tile; several registers advance together.

use std::arch::x86_64::*;

use crate::{
    cpu::{
        isa::{Isa, isa},
        nodes::{FEATURE, Node},
        rows::Rows,
        sink::Sink,
        tiles::Tiles,
        walk::{Shape, Span, Walkable},
    },
    plan::Rest,
};

/// Walks that advance together, at most.
const MOST: usize = 16;

/// Walks that advance together: how far each one's row is from the first, where it stands, and its tree's constant.
struct Together {
    data: *const f32,
    rows: [u32; MOST],
    at: [u32; MOST],
    constants: [u32; MOST],
}

/// Takes so many walks, the number beside it, to their leaves.
type Walk = unsafe fn(&Tiles<f32>, &mut Together, Shape);

/// Whether tiles have kernels here for these rows and this order, on this machine.
pub(in crate::cpu) fn available(tiles: &Tiles<f32>, rows: &Rows<'_>, row: Span, shape: Shape) -> bool {
    // Splits are gathered with 32-bit signed offsets of two words.
    let small = tiles.len() < i32::MAX as usize / 64;
    let ordered = row.step == 1 || !shape.rows_inside;
    isa() >= Isa::Avx2 && small && ordered && rows.columns() > 0 && super::fits(rows)
}

/// The kernel for tiles in so many places, and how many walks it takes: `lanes`, or as many as the machine has for them.
fn kernel(width: usize, lanes: usize) -> (Walk, usize) {
    match (isa(), width, lanes) {
        (Isa::Avx512, 2, ..=8) => (wide::walk::<2, 8>, 8),
        (Isa::Avx512, 2, _) => (wide::walk::<2, 16>, 16),
        (Isa::Avx512, 4, ..=4) => (wide::walk::<4, 4>, 4),
        (Isa::Avx512, 4, ..=8) => (wide::walk::<4, 8>, 8),
        (Isa::Avx512, 4, _) => (wide::walk::<4, 16>, 16),
        (Isa::Avx512, _, ..=2) => (wide::walk::<8, 2>, 2),
        (Isa::Avx512, _, ..=8) => (wide::walk::<8, 8>, 8),
        (Isa::Avx512, ..) => (wide::walk::<8, 16>, 16),
        (_, 2, ..=4) => (narrow::walk::<2, 4>, 4),
        (_, 2, ..=8) => (narrow::walk::<2, 8>, 8),
        (_, 2, _) => (narrow::walk::<2, 16>, 16),
        (_, 4, ..=2) => (narrow::walk::<4, 2>, 2),
        (_, 4, ..=8) => (narrow::walk::<4, 8>, 8),
        (_, 4, _) => (narrow::walk::<4, 16>, 16),
        (_, _, ..=1) => (narrow::walk::<8, 1>, 1),
        (_, _, ..=8) => (narrow::walk::<8, 8>, 8),
        _ => (narrow::walk::<8, 16>, 16),
    }
}

/// Of fewer rows than this walks of several trees advance together.
pub(in crate::cpu) const FEW_ROWS: usize = 8;

/// Runs a block.
///
/// # Safety
/// [`available`]; no tile asks more than thresholds; otherwise as for [`crate::cpu::walk::block`].
pub(in crate::cpu) unsafe fn block<S: Sink>(
    tiles: &Tiles<f32>,
    rows: &Rows<'_>,
    row: Span,
    tree: Span,
    shape: Shape,
    sink: S,
) {
    let (walk, lanes) = kernel(tiles.width(), shape.lanes);
    let stride = rows.row_stride() as u32;
    let mut walks =
        Together { data: rows.from(0).as_ptr(), rows: [0; MOST], at: [0; MOST], constants: [0; MOST] };
    if shape.rows_inside {
        for t in 0..tree.count {
            let position = tree.at(t);
            let (root, constant) = tiles.start(position);
            let shape = shape.of_trees(tiles, &[position]);
            walks.constants = [constant; MOST];
            for first in (0..row.count).step_by(lanes) {
                let count = lanes.min(row.count - first);
                walks.data = rows.from(row.at(first)).as_ptr();
                // Walks past the last repeat it, and what they find is dropped.
                walks.rows = std::array::from_fn(|l| l.min(count - 1) as u32 * stride);
                walks.at = [root; MOST];
                // SAFETY: as promised to this function; the kernel is one of this machine's.
                unsafe { walk(tiles, &mut walks, shape) };
                for (l, at) in walks.at.iter().enumerate().take(count) {
                    sink.leaf(row.at(first + l), position, *at);
                }
            }
        }
        return;
    }
    for r in 0..row.count {
        let row = row.at(r);
        walks.data = rows.from(row).as_ptr();
        let mut sum = S::Value::default();
        for first in (0..tree.count).step_by(lanes) {
            let count = lanes.min(tree.count - first);
            let mut positions = [0; MOST];
            for (l, position) in positions.iter_mut().enumerate() {
                *position = tree.at(first + l.min(count - 1));
                (walks.at[l], walks.constants[l]) = tiles.start(*position);
            }
            let shape = shape.of_trees(tiles, &positions[..count]);
            // SAFETY: as promised to this function; the kernel is one of this machine's.
            unsafe { walk(tiles, &mut walks, shape) };
            for (position, at) in positions.iter().zip(&walks.at).take(count) {
                match S::ONE_VALUE {
                    true => sum += sink.value(*at),
                    false => sink.leaf(row, *position, *at),
                }
            }
        }
        if S::ONE_VALUE {
            sink.add(row, sum);
        }
    }
}

/// The kernels of an instruction set: `L` walks of tiles in `P` places, `LANES` of which a register has room for.
/// `outcomes` decides the tiles of a register.
macro_rules! kernels {
    ($features:literal, $lanes:literal) => {
        /// A register's lanes.
        const LANES: usize = $lanes;

        /// Takes walks to their leaves.
        ///
        /// # Safety
        /// The instruction set; the addresses are those of roots, and the rows lie where they are said to; otherwise as for
        /// [`super::block`].
        #[target_feature(enable = $features)]
        pub(super) unsafe fn walk<const P: usize, const L: usize>(
            tiles: &Tiles<f32>,
            walks: &mut Together,
            shape: Shape,
        ) {
            let each = LANES / P;
            let mut offsets = [[0u32; LANES]; MOST];
            for (register, offsets) in offsets.iter_mut().enumerate().take(L / each) {
                for (lane, offset) in offsets.iter_mut().enumerate() {
                    *offset = walks.rows[register * each + lane / P];
                }
            }
            let step = |from: &[u32; MOST], at: &mut [u32; MOST], open: &[bool; MOST]| {
                let mut outcome = [0u32; MOST];
                for register in 0..L / each {
                    // SAFETY: as promised to this function.
                    outcome[register] = unsafe {
                        outcomes::<P>(
                            tiles.nodes(),
                            &from[register * each..][..each],
                            walks.data,
                            &offsets[register],
                        )
                    };
                }
                for l in 0..L {
                    let own = outcome[l / each] >> (l % each * P) & ((1 << P) - 1);
                    // SAFETY: as promised to this function.
                    let next = unsafe { tiles.child(from[l], walks.constants[l], own) };
                    at[l] = if open[l] { next } else { at[l] };
                }
            };
            let all = [true; MOST];
            let mut at = walks.at;
            for _ in 0..shape.steps {
                let from = at;
                step(&from, &mut at, &all);
            }
            let mut tested = shape.tested;
            while shape.rest != Rest::Nothing {
                let (mut open, mut from, mut some) = (all, at, false);
                for l in 0..L {
                    // SAFETY: as promised to this function; what lies behind padding is one that walks reach, too.
                    unsafe {
                        if tested > 0 {
                            at[l] = tiles.past_hop(at[l]);
                        }
                        open[l] = !tiles.is_leaf(at[l]);
                    }
                    from[l] = tiles.readable(at[l]);
                    some |= open[l];
                }
                if !some {
                    break;
                }
                tested = tested.saturating_sub(1);
                step(&from, &mut at, &open);
            }
            walks.at = at;
        }
    };
}

/// AVX-512.
mod wide {
    use super::{
        super::{pairs, right, words},
        *,
    };

    kernels!("avx512f,avx512dq", 16);

    /// A bit for each lane whose row goes right.
    ///
    /// # Safety
    /// AVX-512 F and DQ; there are tiles at these addresses, as many as a register has room for.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn outcomes<const P: usize>(
        nodes: *const Node,
        at: &[u32],
        data: *const f32,
        offsets: &[u32; LANES],
    ) -> u32 {
        // SAFETY: as promised to this function; a node is a threshold and its flags, eight bytes.
        unsafe {
            let tile = |i: usize| nodes.add(at[i] as usize * P);
            let (thresholds, metas) = match P {
                8 => {
                    let [a, b] = [tile(0), tile(1)].map(|tile| _mm512_loadu_si512(tile.cast()));
                    let (thresholds, metas) = words(a, b);
                    (_mm512_castsi512_ps(thresholds), metas)
                }
                4 => {
                    let two = |i: usize| {
                        let [a, b] = [tile(i), tile(i + 1)].map(|tile| _mm256_loadu_si256(tile.cast()));
                        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b)
                    };
                    let (thresholds, metas) = words(two(0), two(2));
                    (_mm512_castsi512_ps(thresholds), metas)
                }
                _ => {
                    let own: [i32; LANES] = std::array::from_fn(|l| (at[l / P] as usize * P + l % P) as i32);
                    pairs::<8>(nodes.cast(), _mm512_loadu_si512(own.as_ptr().cast()))
                }
            };
            let columns = _mm512_and_si512(metas, _mm512_set1_epi32(FEATURE as i32));
            let index = _mm512_add_epi32(columns, _mm512_loadu_si512(offsets.as_ptr().cast()));
            let x = _mm512_i32gather_ps::<4>(index, data);
            right(x, thresholds, metas).into()
        }
    }
}

/// AVX2.
mod narrow {
    use super::*;

    kernels!("avx2", 8);

    /// A bit for each lane whose row goes right.
    ///
    /// # Safety
    /// AVX2; there are tiles at these addresses, as many as a register has room for.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn outcomes<const P: usize>(
        nodes: *const Node,
        at: &[u32],
        data: *const f32,
        offsets: &[u32; LANES],
    ) -> u32 {
        // SAFETY: as promised to this function; a node is a threshold and its flags, eight bytes.
        unsafe {
            let tile = |i: usize| nodes.add(at[i] as usize * P);
            // The first four splits, and the others.
            let [low, high] = match P {
                8 => [0, 4].map(|place| _mm256_loadu_ps(tile(0).add(place).cast())),
                4 => [0, 1].map(|i| _mm256_loadu_ps(tile(i).cast())),
                _ => [0, 2].map(|i| {
                    let [a, b] = [tile(i), tile(i + 1)].map(|tile| _mm_loadu_ps(tile.cast()));
                    _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(a), b)
                }),
            };
            // Thresholds and flags in turns, put apart in pairs, which then stand in the order 0, 2, 1, 3.
            let ordered =
                |v: __m256| _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(_mm256_castps_pd(v)));
            let thresholds = ordered(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
            let metas = ordered(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
            let columns = _mm256_and_si256(_mm256_castps_si256(metas), _mm256_set1_epi32(FEATURE as i32));
            let index = _mm256_add_epi32(columns, _mm256_loadu_si256(offsets.as_ptr().cast()));
            let x = _mm256_i32gather_ps::<4>(data, index);
            let reached = _mm256_cmp_ps::<_CMP_GE_OQ>(x, thresholds);
            let missing = _mm256_and_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(x, x), metas);
            // The highest bit of each lane, which of flags says where a missing value goes.
            _mm256_movemask_ps(_mm256_or_ps(reached, missing)) as u32
        }
    }
}

// What kernels take a node for.
const _: () = assert!(size_of::<Node>() == 8);
