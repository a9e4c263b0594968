//! Walks a split a step, on every machine: what runs where no other engine serves.

use super::{
    Block, BlockEngine, EngineRequest, Source, Trees, hand_over,
    walk::{self, LeafAddresses, MOST_ADDRESSES, NodeStore, Span, WalkStarts},
};
use crate::{
    cost::Machine,
    cpu::{
        encoded::of_encoding,
        engines::Engine,
        rows::{Read, Row, Rows},
        sink::Sink,
        window::Window,
    },
};

/// Walks in the order of a block's loops; it has no tables but the nodes.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Walks {
    /// Seconds of a row.
    row: f64,
}

impl Walks {
    /// [`BlockEngine::build`], which never fails: they serve every plan.
    pub(in crate::cpu) fn new(wanted: &EngineRequest<'_>) -> Self {
        Self { row: Machine::here().walk.one * wanted.nodes.steps() as f64 }
    }
}

impl BlockEngine for Walks {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        Some(Self::new(wanted))
    }

    fn serves<T: Row>(&self, _: &Trees<'_>, _: Source<'_, '_, T>, _: &Block) -> bool {
        true
    }

    unsafe fn run<T: Row, S: Sink>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: Block,
        _: Engine,
        sink: S,
    ) {
        let found = &mut [0; MOST_ADDRESSES];
        match source {
            Source::Rows(rows) => {
                // SAFETY: as promised to this function.
                hand_over(block, 0, found, sink, &mut |row, tree, found| unsafe {
                    in_rows(trees, rows, Block { row, tree, ..block }, found);
                });
            }
            Source::Copy(window) => by_block(window, block.row, |rows, row, by| {
                // SAFETY: as promised to this function; the part of the window has the rows.
                hand_over(Block { row, ..block }, by, found, sink, &mut |row, tree, found| unsafe {
                    portable(trees, rows, Block { row, tree, ..block }, found);
                });
            }),
            // SAFETY: as promised to this function.
            Source::Ranks(ranks) => unsafe { in_ranks(trees, ranks, block, found, sink) },
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.row * rows as f64
    }
}

/// Calls `f` for each block of a window that has some of the rows: with its rows, which of them it is about, and how many rows come
/// before them.
fn by_block<T: Row>(window: Window<'_, T>, row: Span, mut f: impl FnMut(&Rows<'_, T>, Span, usize)) {
    let mut done = 0;
    while done < row.count {
        let first = row.at(done);
        let (rows, place) = window.rows(first);
        let count = (rows.len() - place).div_ceil(row.step).min(row.count - done);
        f(&rows, Span { start: place, step: row.step, count }, first - place);
        done += count;
    }
}

/// # Safety
/// As for [`BlockEngine::run`]; the block has room in `found`.
unsafe fn in_rows<T: Row>(trees: &Trees<'_>, rows: &Rows<'_, T>, block: Block, found: &mut LeafAddresses) {
    // SAFETY: as promised to this function.
    unsafe {
        match (T::doubles(rows), T::singles(rows), trees.wide) {
            (Some(rows), _, Some(wide)) => of_encoding!(wide, nodes => plain(nodes, rows, block, found)),
            (Some(rows), _, None) => of_encoding!(trees.nodes, nodes => plain(nodes, rows, block, found)),
            (None, Some(rows), _) => portable(trees, rows, block, found),
            (None, None, _) => of_encoding!(trees.nodes, nodes => plain(nodes, rows, block, found)),
        }
    }
}

/// Walks on ranks, each tree through all rows before the next where rows are inside.
///
/// # Safety
/// As for [`BlockEngine::run`].
pub(in crate::cpu) unsafe fn in_ranks<S: Sink>(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    block: Block,
    found: &mut LeafAddresses,
    sink: S,
) {
    let mut walk = |block: Block| {
        by_block(ranks, block.row, |rows, row, by| {
            // SAFETY: as promised to this function; the part of the window has the rows.
            hand_over(Block { row, ..block }, by, found, sink, &mut |row, tree, found| unsafe {
                in_rows(trees, rows, Block { row, tree, ..block }, found);
            });
        });
    };
    // Of rows that are in one block a tree comes before the next anyway.
    match block.shape.rows_inside && !ranks.together(block.row) {
        true => (0..block.tree.count).for_each(|t| walk(block.of_tree(t))),
        false => walk(block),
    }
}

/// Walks of a tree that go on from an address for each row; all of the rows are in one block of the window.
///
/// # Safety
/// As for [`BlockEngine::run`]; the addresses are of nodes of the tree.
pub(in crate::cpu) unsafe fn walk_on(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    let (rows, place) = ranks.rows(row.start);
    let part = Span { start: place, ..row };
    // SAFETY: as promised to this function. Blends, which come before, are of layouts without tiles.
    unsafe { of_encoding!(trees.nodes, nodes => walk::walk_on(nodes, &rows, part, from, found), _ => {}) }
}

/// The one kernel for rows other than `f32`: any strides, any question, four walks side by side.
///
/// # Safety
/// As for [`BlockEngine::run`]; the block has room in `found`.
unsafe fn plain<N: NodeStore, D: Row + Read<N::Compare>>(
    nodes: &N,
    rows: &Rows<'_, D>,
    Block { row, tree, shape }: Block,
    found: &mut LeafAddresses,
) {
    // SAFETY: as promised to this function; `lower` has settled steps that stay inside the nodes.
    unsafe { walk::lanes::<N, D, true, false, 4>(nodes, rows, row, tree, shape, found) }
}

/// Walks of `f32` rows.
///
/// # Safety
/// As for [`BlockEngine::run`]; the block has room in `found`.
pub(in crate::cpu) unsafe fn portable(
    trees: &Trees<'_>,
    rows: &Rows<'_>,
    Block { row, tree, shape }: Block,
    found: &mut LeafAddresses,
) {
    // SAFETY: as promised to this function; `lower` has settled steps that stay inside the nodes.
    unsafe {
        of_encoding!(trees.nodes, nodes => match (trees.questions, rows.is_unit()) {
            (false, true) => walk::block::<_, f32, false, true>(nodes, rows, row, tree, shape, found),
            (false, false) => walk::block::<_, f32, false, false>(nodes, rows, row, tree, shape, found),
            (true, _) => walk::block::<_, f32, true, false>(nodes, rows, row, tree, shape, found),
        })
    }
}
