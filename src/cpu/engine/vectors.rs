//! Walks many rows through one tree in vectors, 64 rows at a time, with AVX-512 or AVX2.

use super::{BatchSeconds, Block, BlockEngine, EngineRequest, Source, Trees};
#[cfg(target_arch = "x86_64")]
use super::{
    hand_over,
    walk::{LeafAddresses, MOST_ADDRESSES, Span, WalkStarts},
};
#[cfg(target_arch = "x86_64")]
use crate::cpu::{arch::x86, encoded::of_encoding, window::Window};
use crate::{
    cost::{Machine, ReachedSplits, RowTile, VectorWork},
    cpu::{
        engines::Engine,
        rows::{Row, Rows},
        sink::Sink,
    },
    plan::{Plan, cpu::Cpu},
};

/// The engine that walks in vectors. It has no tables besides the nodes and their tops.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Vectors {
    /// What rows go through, from which their time is estimated.
    work: VectorWork,
}

impl Vectors {
    /// Returns whether the machine has vector kernels for the nodes of a plan. Such nodes have
    /// [tops](top_levels).
    pub(in crate::cpu) fn can_serve(plan: &Plan<Cpu>, columns: usize, scalar: bool) -> bool {
        // A step from a leaf reads a value, too, so there has to be a column.
        top_levels() > 0 && plan.children.tile() == 1 && !plan.questions && columns > 0 && !scalar
    }
}

/// Returns how many levels of a tree the machine's vector kernels hold in registers. It is 0 if the machine
/// has no such kernels.
pub(in crate::cpu) fn top_levels() -> u32 {
    #[cfg(target_arch = "x86_64")]
    if x86::available() {
        return x86::top_levels();
    }
    0
}

/// Returns whether vector kernels can address every value of these rows.
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
        let able = Self::can_serve(wanted.plan, wanted.forest.features.len(), wanted.scalar);
        // Fewer rows are walked row by row.
        let reached = wanted.blocks.rows_together >= Machine::here().walk.rows_one_by_one();
        (able && reached).then(|| {
            let reached = ReachedSplits::new(wanted.forest.split_probabilities());
            let columns = wanted.forest.used_columns().len();
            let (steps, tile) =
                (wanted.nodes.steps() as f64, RowTile::of(wanted.rows_a_task.unwrap_or(0) as usize));
            Self { work: VectorWork { steps, reached, columns, tile } }
        })
    }

    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool {
        let reached = match source {
            Source::Rows(rows) => T::singles(rows).is_some_and(fits),
            Source::Window(_) | Source::Ranks(_) => true,
        };
        reached && block.shape.rows_inside && block.row.stride == 1 && trees.can_be_gathered()
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
        // SAFETY: `serves` has checked that the rows fit and that addresses can be gathered. The caller
        // upholds that the spans lie inside rows and trees and that rows have the forest's columns.
        unsafe {
            match source {
                Source::Rows(rows) => match T::singles(rows) {
                    Some(rows) => in_vectors(trees, rows, block, found, sink),
                    None => unreachable!("vectors serve rows of `f32`"),
                },
                Source::Window(window) => in_vectors(trees, window, block, found, sink),
                Source::Ranks(ranks) => in_ranks(trees, ranks, block, found, sink),
            }
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        Machine::here().walked(&self.work, rows)
    }

    fn parts(&self, rows: usize) -> BatchSeconds {
        let of_rows = Machine::here().copied(&self.work, rows);
        BatchSeconds { of_rows, of_trees: self.seconds(rows) - of_rows }
    }
}

/// Walks a block in vectors.
///
/// # Safety
/// The machine has vector kernels, and the rows [fit](fits). The spans of `block` lie inside rows and
/// trees, rows have the forest's columns, and `trees` are the trees of the program.
#[cfg(target_arch = "x86_64")]
unsafe fn in_vectors<F: x86::Source, S: Sink>(
    trees: &Trees<'_>,
    rows: F,
    block: Block,
    found: &mut LeafAddresses,
    sink: S,
) {
    hand_over(block, 0, found, sink, &mut |row, tree, found| {
        // SAFETY: the caller upholds that the machine has vector kernels, that the rows fit and that
        // the spans lie inside rows and trees. `lower` chooses steps that stay inside the nodes. No
        // node is a tile, because `Vectors::can_serve` refuses plans with tiles.
        unsafe {
            of_encoding!(trees.nodes, nodes => x86::block(nodes, rows, row, tree, block.shape, found), _ => {})
        }
    });
}

/// Walks a block of ranks in vectors.
///
/// # Safety
/// The machine has vector kernels. The window holds the rows of `block`, whose spans lie inside rows
/// and trees. `trees` are the trees of the program.
#[cfg(target_arch = "x86_64")]
pub(in crate::cpu) unsafe fn in_ranks<S: Sink>(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    block: Block,
    found: &mut LeafAddresses,
    sink: S,
) {
    // SAFETY: the caller upholds that the machine has vector kernels and that the spans lie inside
    // window and trees. The rows of a window always fit.
    unsafe { in_vectors(trees, ranks, block, found, sink) }
}

/// Takes the walks of one tree on, each row from its address in `from`. All rows lie in one row block of
/// the window.
///
/// # Safety
/// The machine has vector kernels. The window holds the rows, and `trees` are the trees of the program.
/// `from` has 64 addresses, each of a node of the tree at its position.
#[cfg(target_arch = "x86_64")]
pub(in crate::cpu) unsafe fn walk_on(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    // SAFETY: the caller upholds that the machine has vector kernels, that the window holds the rows in
    // one row block, and that `from` has 64 addresses of nodes of the tree. Only blends call this, and they
    // are built for layouts without tiles.
    unsafe { of_encoding!(trees.nodes, nodes => x86::walk_on(nodes, ranks, row, from, found), _ => {}) }
}
