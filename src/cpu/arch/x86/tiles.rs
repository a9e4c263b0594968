//! Walks by tiles: one compare decides all splits of a tile, and a register holds as many tiles as fit
//! (Treebeard, section 5.1).
//!
//! An AVX-512 register has room for two tiles of eight splits, an AVX2 register for one. Each tile in a
//! register belongs to a different walk. A table turns the outcome of the compares into the walk's next tile.
//! Several registers advance together.

use super::{avx2, avx512};
use crate::{
    arrays,
    cpu::{
        engine::tiles::tables::Tiles,
        engine::walk::{LeafAddresses, NodeStore, Shape, Span},
        isa::{Isa, isa},
        nodes::Node,
        rows::Rows,
    },
};

/// Maximum number of walks that advance together.
pub(super) const MOST: usize = 16;

/// Walks that advance together. For each walk: the offset of its row from `data` in values, its address, and
/// its tree's constant.
pub(super) struct Walks {
    pub(super) data: *const f32,
    pub(super) rows: [u32; MOST],
    pub(super) at: [u32; MOST],
    pub(super) constants: [u32; MOST],
}

/// A kernel that takes a fixed number of walks to their leaves.
type Walk = unsafe fn(&Tiles<f32>, &mut Walks, Shape);

/// Whether the machine has a kernel for these tiles, rows and order of walks.
pub(in crate::cpu) fn available(tiles: &Tiles<f32>, rows: &Rows<'_>, row: Span, shape: Shape) -> bool {
    // Kernels gather splits, two words each, with signed 32-bit offsets.
    let small = tiles.len() < i32::MAX as usize / 64;
    let ordered = row.stride == 1 || !shape.rows_inside;
    isa() >= Isa::Avx2 && small && ordered && rows.columns() > 0 && super::fits(rows)
}

/// Returns the kernel for tiles with room for `width` splits, and its number of walks: `lanes`, or the next number that
/// has a kernel.
fn kernel(width: usize, lanes: usize) -> (Walk, usize) {
    match (isa(), width, lanes) {
        (Isa::Avx512, 2, ..=8) => (avx512::tiles::walk::<2, 8>, 8),
        (Isa::Avx512, 2, _) => (avx512::tiles::walk::<2, 16>, 16),
        (Isa::Avx512, 4, ..=4) => (avx512::tiles::walk::<4, 4>, 4),
        (Isa::Avx512, 4, ..=8) => (avx512::tiles::walk::<4, 8>, 8),
        (Isa::Avx512, 4, _) => (avx512::tiles::walk::<4, 16>, 16),
        (Isa::Avx512, _, ..=2) => (avx512::tiles::walk::<8, 2>, 2),
        (Isa::Avx512, _, ..=8) => (avx512::tiles::walk::<8, 8>, 8),
        (Isa::Avx512, ..) => (avx512::tiles::walk::<8, 16>, 16),
        (_, 2, ..=4) => (avx2::tiles::walk::<2, 4>, 4),
        (_, 2, ..=8) => (avx2::tiles::walk::<2, 8>, 8),
        (_, 2, _) => (avx2::tiles::walk::<2, 16>, 16),
        (_, 4, ..=2) => (avx2::tiles::walk::<4, 2>, 2),
        (_, 4, ..=8) => (avx2::tiles::walk::<4, 8>, 8),
        (_, 4, _) => (avx2::tiles::walk::<4, 16>, 16),
        (_, _, ..=1) => (avx2::tiles::walk::<8, 1>, 1),
        (_, _, ..=8) => (avx2::tiles::walk::<8, 8>, 8),
        _ => (avx2::tiles::walk::<8, 16>, 16),
    }
}

/// Walks a block of rows through a block of trees, and writes the addresses of leaves to `found`. The rows of
/// a tree are adjacent there if the loop over rows is inside, otherwise the trees of a row are.
///
/// # Safety
/// [`available`] is true. Tiles compare with thresholds only. The conditions of
/// [`crate::cpu::engine::walk::block`] hold: rows are in range and have the forest's columns, trees are
/// positions, and the shape's walks stay inside the tiles.
pub(in crate::cpu) unsafe fn block(
    tiles: &Tiles<f32>,
    rows: &Rows<'_>,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    let (walk, lanes) = kernel(tiles.width(), shape.lanes);
    let stride = rows.row_stride() as u32;
    let mut walks =
        Walks { data: rows.from(0).as_ptr(), rows: [0; MOST], at: [0; MOST], constants: [0; MOST] };
    if shape.rows_inside {
        for (t, found) in found.chunks_exact_mut(row.count.max(1)).enumerate().take(tree.count) {
            let position = tree.at(t);
            let (root, constant) = tiles.start(position);
            let shape = shape.of_trees(tiles, &[position]);
            walks.constants = [constant; MOST];
            for (k, found) in found.chunks_mut(lanes).enumerate() {
                walks.data = rows.from(row.at(k * lanes)).as_ptr();
                // Walks past the last row repeat it. Their results are dropped.
                walks.rows = arrays::from_fn(|l| l.min(found.len() - 1) as u32 * stride);
                walks.at = [root; MOST];
                // SAFETY: `available` is true and `kernel` has chosen by `isa`, so the machine has the
                // instructions. Every walk starts at a root. The caller upholds that rows are in range and
                // walks stay inside the tiles.
                unsafe { walk(tiles, &mut walks, shape) };
                found.copy_from_slice(&walks.at[..found.len()]);
            }
        }
        return;
    }
    for (r, found) in found.chunks_exact_mut(tree.count.max(1)).enumerate().take(row.count) {
        walks.data = rows.from(row.at(r)).as_ptr();
        for (k, found) in found.chunks_mut(lanes).enumerate() {
            let mut positions = [0; MOST];
            for (l, position) in positions.iter_mut().enumerate() {
                *position = tree.at(k * lanes + l.min(found.len() - 1));
                (walks.at[l], walks.constants[l]) = tiles.start(*position);
            }
            let shape = shape.of_trees(tiles, &positions[..found.len()]);
            // SAFETY: `available` is true and `kernel` has chosen by `isa`, so the machine has the
            // instructions. Every walk starts at a root. The caller upholds that rows are in range and walks
            // stay inside the tiles.
            unsafe { walk(tiles, &mut walks, shape) };
            found.copy_from_slice(&walks.at[..found.len()]);
        }
    }
}

/// The kernel of an instruction set for `L` walks of tiles with room for `P` splits. A register has room for `LANES`
/// splits. Each instruction set has a function `outcomes` that decides the tiles in a register.
macro_rules! kernels {
    ($features:literal, $lanes:literal) => {
        /// Lanes of a register, each with one split.
        const LANES: usize = $lanes;

        /// Takes `L` walks to their leaves.
        ///
        /// # Safety
        /// The machine has the instruction set. `walks.at` has the addresses of roots, and `walks.constants`
        /// the constants of their trees. Each offset in `walks.rows` leads from `walks.data` to a row with
        /// the forest's columns. Tiles compare with thresholds only, and the shape's walks stay inside them: see
        /// [`block`](super::super::tiles::block).
        #[target_feature(enable = $features)]
        pub(in crate::cpu::arch::x86) unsafe fn walk<const P: usize, const L: usize>(
            tiles: &Tiles<f32>,
            walks: &mut Walks,
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
                    // SAFETY: the caller upholds that walks stay inside the tiles and rows have the forest's
                    // columns. A closed walk steps from an address that `readable` has made safe to read.
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
                    // SAFETY: the caller upholds that walks stay inside the tiles. No entry without a
                    // split sets a bit of `own`, because such an entry sends every row left.
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
            while shape.ending != Ending::AfterSteps {
                let (mut open, mut from, mut some) = (all, at, false);
                for l in 0..L {
                    // SAFETY: the caller upholds that walks stay inside the tiles. So walks can reach `at[l]`, and
                    // the leaf that `leaf_behind_padding` finds after it.
                    unsafe {
                        if tested > 0 {
                            at[l] = tiles.leaf_behind_padding(at[l]);
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

pub(super) use kernels;

// Kernels load a node as eight bytes: a threshold and its flags.
const _: () = assert!(size_of::<Node>() == 8);
