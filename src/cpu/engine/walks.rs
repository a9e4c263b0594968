//! Walks with one split in each step, on every machine. It runs if no other engine serves a block.

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

/// The engine that walks in the order of a block's loops. It has no tables besides the nodes.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Walks {
    /// Estimated seconds of one row through all trees.
    row: f64,
}

impl Walks {
    /// Builds the engine like [`BlockEngine::build`], but never fails: walks serve every plan.
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
                // SAFETY: the caller upholds that the spans lie inside rows and trees and that rows
                // have the forest's columns.
                hand_over(block, 0, found, sink, &mut |row, tree, found| unsafe {
                    in_rows(trees, rows, Block { row, tree, ..block }, found);
                });
            }
            Source::Window(window) => by_row_block(window, block.row, |rows, row, by| {
                // SAFETY: the caller upholds that the spans lie inside rows and trees and that rows
                // have the forest's columns. `row` counts rows of this row block of the window.
                hand_over(Block { row, ..block }, by, found, sink, &mut |row, tree, found| unsafe {
                    portable(trees, rows, Block { row, tree, ..block }, found);
                });
            }),
            // SAFETY: the caller upholds that the spans lie inside rows and trees and that the window
            // has the forest's columns.
            Source::Ranks(ranks) => unsafe { in_ranks(trees, ranks, block, found, sink) },
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.row * rows as f64
    }
}

/// Calls `f` for each row block of a window that holds some of the rows of `row`. `f` gets all rows of the
/// row block, the span of the wanted rows among them, and the index of the row block's first row.
fn by_row_block<T: Row>(window: Window<'_, T>, row: Span, mut f: impl FnMut(&Rows<'_, T>, Span, usize)) {
    let mut done = 0;
    while done < row.count {
        let first = row.at(done);
        let (rows, offset) = window.rows(first);
        let count = (rows.len() - offset).div_ceil(row.stride).min(row.count - done);
        f(&rows, Span { start: offset, stride: row.stride, count }, first - offset);
        done += count;
    }
}

/// Walks a block with the kernel for the type of its rows.
///
/// # Safety
/// The spans of `block` lie inside rows and trees, rows have the forest's columns, and `trees` are the
/// trees of the program. The block's walks have room in `found`.
unsafe fn in_rows<T: Row>(trees: &Trees<'_>, rows: &Rows<'_, T>, block: Block, found: &mut LeafAddresses) {
    // SAFETY: the caller upholds that the spans lie inside rows and trees, that rows have the forest's
    // columns and that the walks have room.
    unsafe {
        match (T::doubles(rows), T::singles(rows), trees.wide) {
            (Some(rows), _, Some(wide)) => of_encoding!(wide, nodes => plain(nodes, rows, block, found)),
            (Some(rows), _, None) => of_encoding!(trees.nodes, nodes => plain(nodes, rows, block, found)),
            (None, Some(rows), _) => portable(trees, rows, block, found),
            (None, None, _) => of_encoding!(trees.nodes, nodes => plain(nodes, rows, block, found)),
        }
    }
}

/// Walks a block of ranks. If rows are inside, all rows walk one tree before the next tree.
///
/// # Safety
/// The window holds the rows of `block`, whose spans lie inside rows and trees. `trees` are the trees
/// of the program.
pub(in crate::cpu) unsafe fn in_ranks<S: Sink>(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    block: Block,
    found: &mut LeafAddresses,
    sink: S,
) {
    let mut walk = |block: Block| {
        by_row_block(ranks, block.row, |rows, row, by| {
            // SAFETY: the caller upholds that the spans lie inside rows and trees and that the window
            // has the forest's columns. `row` counts rows of this row block of the window.
            hand_over(Block { row, ..block }, by, found, sink, &mut |row, tree, found| unsafe {
                in_rows(trees, rows, Block { row, tree, ..block }, found);
            });
        });
    };
    // Rows in one row block of the window are walked tree by tree anyway.
    match block.shape.rows_inside && !ranks.together(block.row) {
        true => (0..block.tree.count).for_each(|t| walk(block.of_tree(t))),
        false => walk(block),
    }
}

/// Takes the walks of one tree on, each row from its address in `from`. All rows lie in one row block of
/// the window.
///
/// # Safety
/// The window holds the rows, and `trees` are the trees of the program. `from` has an address for each
/// row, of a node of the tree at its position.
pub(in crate::cpu) unsafe fn walk_on(
    trees: &Trees<'_>,
    ranks: Window<'_, u8>,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    let (rows, offset) = ranks.rows(row.start);
    let own = Span { start: offset, ..row };
    // SAFETY: the caller upholds that the window holds the rows in one row block and that `from` has
    // addresses of nodes of the tree. Only blends call this, and they are built for plans without
    // questions and layouts without tiles.
    unsafe { of_encoding!(trees.nodes, nodes => walk::walk_on(nodes, &rows, own, from, found), _ => {}) }
}

/// Walks rows with any strides through nodes with any question, and four walks advance together. It is the
/// only kernel for rows other than `f32`.
///
/// # Safety
/// The spans of the block lie inside rows and trees, rows have the forest's columns, and `nodes` are
/// those of the program. The block's walks have room in `found`.
unsafe fn plain<N: NodeStore, D: Row + Read<N::Compare>>(
    nodes: &N,
    rows: &Rows<'_, D>,
    Block { row, tree, shape }: Block,
    found: &mut LeafAddresses,
) {
    // SAFETY: the caller upholds that the spans lie inside rows and trees and that rows have the
    // forest's columns. `lower` chooses steps that stay inside the nodes.
    unsafe { walk::lanes::<N, D, true, false, 4>(nodes, rows, row, tree, shape, found) }
}

/// Walks `f32` rows, with the kernel for their strides and for the questions of the forest.
///
/// # Safety
/// The spans of the block lie inside rows and trees, rows have the forest's columns, and `trees` are
/// the trees of the program. The block's walks have room in `found`.
pub(in crate::cpu) unsafe fn portable(
    trees: &Trees<'_>,
    rows: &Rows<'_>,
    Block { row, tree, shape }: Block,
    found: &mut LeafAddresses,
) {
    // SAFETY: the caller upholds that the spans lie inside rows and trees and that rows have the
    // forest's columns. `lower` chooses steps that stay inside the nodes.
    unsafe {
        of_encoding!(trees.nodes, nodes => match (trees.questions, rows.is_unit()) {
            (false, true) => walk::block::<_, f32, false, true>(nodes, rows, row, tree, shape, found),
            (false, false) => walk::block::<_, f32, false, false>(nodes, rows, row, tree, shape, found),
            (true, _) => walk::block::<_, f32, true, false>(nodes, rows, row, tree, shape, found),
        })
    }
}
