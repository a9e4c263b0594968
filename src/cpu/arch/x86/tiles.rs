//! Walks by tiles: the compares of all splits of a tile at once, as many tiles a register as fit (Treebeard, section 5.1).
//!
//! A register of AVX-512 has room for two tiles of eight splits, one of AVX2 for one, and each tile in it is another walk's.
//! What the compares say is looked up, and so the walk has its next tile; several registers advance together.

use super::{avx2, avx512};
use crate::cpu::{
    engine::tiles::tables::Tiles,
    engine::walk::{LeafAddresses, NodeStore, Shape, Span},
    isa::{Isa, isa},
    nodes::Node,
    rows::Rows,
};

/// Walks that advance together, at most.
pub(super) const MOST: usize = 16;

/// Walks that advance together: how far each one's row is from the first, where it stands, and its tree's constant.
pub(super) struct Walks {
    pub(super) data: *const f32,
    pub(super) rows: [u32; MOST],
    pub(super) at: [u32; MOST],
    pub(super) constants: [u32; MOST],
}

/// Takes so many walks, the number beside it, to their leaves.
type Walk = unsafe fn(&Tiles<f32>, &mut Walks, Shape);

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

/// Runs a block: a tree's rows lie side by side in `found` where rows are inside, otherwise a row's trees.
///
/// # Safety
/// [`available`]; no tile asks more than thresholds; otherwise as for [`crate::cpu::engine::walk::block`].
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
            for (part, found) in found.chunks_mut(lanes).enumerate() {
                walks.data = rows.from(row.at(part * lanes)).as_ptr();
                // Walks past the last repeat it, and what they find is dropped.
                walks.rows = std::array::from_fn(|l| l.min(found.len() - 1) as u32 * stride);
                walks.at = [root; MOST];
                // SAFETY: as promised to this function; the kernel is one of this machine's.
                unsafe { walk(tiles, &mut walks, shape) };
                found.copy_from_slice(&walks.at[..found.len()]);
            }
        }
        return;
    }
    for (r, found) in found.chunks_exact_mut(tree.count.max(1)).enumerate().take(row.count) {
        walks.data = rows.from(row.at(r)).as_ptr();
        for (part, found) in found.chunks_mut(lanes).enumerate() {
            let mut positions = [0; MOST];
            for (l, position) in positions.iter_mut().enumerate() {
                *position = tree.at(part * lanes + l.min(found.len() - 1));
                (walks.at[l], walks.constants[l]) = tiles.start(*position);
            }
            let shape = shape.of_trees(tiles, &positions[..found.len()]);
            // SAFETY: as promised to this function; the kernel is one of this machine's.
            unsafe { walk(tiles, &mut walks, shape) };
            found.copy_from_slice(&walks.at[..found.len()]);
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
            while shape.rest != Remainder::Nothing {
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

pub(super) use kernels;

// What kernels take a node for.
const _: () = assert!(size_of::<Node>() == 8);
