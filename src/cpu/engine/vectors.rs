//! A tree's walks of many rows in vectors, 64 rows at a time: AVX-512's and AVX2's.

use super::{Block, BlockEngine, EngineRequest, Source, Trees};
#[cfg(target_arch = "x86_64")]
use super::{
    hand_over,
    walk::{LeafAddresses, MOST_ADDRESSES, Span, WalkStarts},
};
#[cfg(target_arch = "x86_64")]
use crate::cpu::{arch::x86, encoded::of_encoding, window::Window};
use crate::{
    cost::Machine,
    cpu::{
        engines::Engine,
        rows::{Row, Rows},
        sink::Sink,
    },
    plan::{Cpu, Plan},
};

/// Walks in vectors; it has no tables but the nodes and their tops.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Vectors {
    /// Seconds of a row.
    row: f64,
}

impl Vectors {
    /// Whether the machine has vector kernels for the nodes of a plan, which then have [tops](top_levels).
    pub(in crate::cpu) fn can_serve(plan: &Plan<Cpu>, columns: usize, scalar: bool) -> bool {
        // A step from a leaf reads a value, too.
        top_levels() > 0 && plan.children.tile() == 1 && !plan.questions && columns > 0 && !scalar
    }
}

/// Levels of a tree that the machine's vector kernels hold in registers; 0 where it has no such kernels.
pub(in crate::cpu) fn top_levels() -> u32 {
    #[cfg(target_arch = "x86_64")]
    if x86::available() {
        return x86::top_levels();
    }
    0
}

/// Whether vector kernels reach every value of these rows.
pub(in crate::cpu) fn fits(rows: &Rows<'_>) -> bool {
    #[cfg(target_arch = "x86_64")]
    return x86::fits(rows);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = rows;
        false
    }
}

impl BlockEngine for Vectors {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        Self::can_serve(wanted.plan, wanted.forest.features.len(), wanted.scalar)
            .then(|| Self { row: Machine::here().walk.many * wanted.nodes.steps() as f64 })
    }

    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool {
        let reached = match source {
            Source::Rows(rows) => T::singles(rows).is_some_and(fits),
            Source::Copy(_) | Source::Ranks(_) => true,
        };
        reached && block.shape.rows_inside && block.row.step == 1 && trees.can_be_gathered()
    }

    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    unsafe fn run<T: Row, S: Sink>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: Block,
        _: Engine,
        sink: S,
    ) {
        #[cfg(not(target_arch = "x86_64"))]
        unreachable!("it is built on x86-64 only");
        #[cfg(target_arch = "x86_64")]
        let found = &mut [0; MOST_ADDRESSES];
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the engine serves the block, so that rows fit; otherwise as promised to this function.
        unsafe {
            match source {
                Source::Rows(rows) => match T::singles(rows) {
                    Some(rows) => in_vectors(trees, rows, block, found, sink),
                    None => unreachable!("vectors serve rows of `f32`"),
                },
                Source::Copy(window) => in_vectors(trees, window, block, found, sink),
                Source::Ranks(ranks) => in_ranks(trees, ranks, block, found, sink),
            }
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.row * rows as f64
    }
}

/// # Safety
/// As for [`BlockEngine::run`]; rows [fit](fits).
#[cfg(target_arch = "x86_64")]
unsafe fn in_vectors<F: x86::Source, S: Sink>(
    trees: &Trees<'_>,
    rows: F,
    block: Block,
    found: &mut LeafAddresses,
    sink: S,
) {
    hand_over(block, 0, found, sink, &mut |row, tree, found| {
        // SAFETY: as promised to this function; `lower` has settled steps that stay inside the nodes. Tiles have kernels of their own.
        unsafe {
            of_encoding!(trees.nodes, nodes => x86::block(nodes, rows, row, tree, block.shape, found), _ => {})
        }
    });
}

/// Walks on ranks.
///
/// # Safety
/// As for [`BlockEngine::run`].
#[cfg(target_arch = "x86_64")]
pub(in crate::cpu) unsafe fn in_ranks<S: Sink>(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    block: Block,
    found: &mut LeafAddresses,
    sink: S,
) {
    // SAFETY: as promised to this function.
    unsafe { in_vectors(trees, ranks, block, found, sink) }
}

/// Walks of a tree that go on from an address for each row; all of the rows are in one block of the window.
///
/// # Safety
/// As for [`BlockEngine::run`]; the addresses are of nodes of the tree, 64 of them.
#[cfg(target_arch = "x86_64")]
pub(in crate::cpu) unsafe fn walk_on(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    // SAFETY: as promised to this function. Blends, which come before, are of layouts without tiles.
    unsafe { of_encoding!(trees.nodes, nodes => x86::walk_on(nodes, ranks, row, from, found), _ => {}) }
}
