//! The engines. Each is a file or a folder, and finds the leaves of a block of rows in a block of
//! trees.
//!
//! | engine | serves |
//! |---|---|
//! | [`walks`] | every forest, on every machine: one split in each step |
//! | [`vectors`] | 24 rows and more: the walks of one tree in vectors |
//! | [`tiles`] | schedules with `tileNodes`: a tile of splits in each step |
//! | [`blend`] | blocks of 64 rows: every split of a tree at once |
//! | [`registers`] | a few rows: a row in registers, all splits of a tile at once; an engine for each kind of tiles |
//! | [`abreast`] | a few rows: a row through 64 trees abreast, by gathers |
//! | [`full`] | a few rows: trees filled up, four side by side |
//!
//! Every engine implements [`BlockEngine`]: whether it can serve a plan on this machine, its tables, a
//! run, its cost. [`select`](super::select) chooses the engine that runs a block. [`arch`](super::arch)
//! has the kernels of each instruction set.

pub(super) mod abreast;
pub(super) mod blend;
pub(super) mod full;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) mod registers;
pub(super) mod tiles;
pub(super) mod vectors;
pub(super) mod walk;
pub(super) mod walks;

use super::{
    block::BlocksByTree,
    encoded::EncodedNodes,
    engines::Engine,
    rows::{Row, Rows},
    sink::Sink,
    window::Window,
};
use crate::{
    cost::{Machine, RankColumns},
    forest::Forest,
    layout::PackedForest,
    plan::{Plan, cpu::Cpu},
    schedule::FewRows,
};
use walk::{LeafAddresses, MOST_ADDRESSES, Shape, Span};

/// The data that an engine is built from.
pub(super) struct EngineRequest<'a> {
    pub(super) plan: &'a Plan<Cpu>,
    pub(super) forest: &'a Forest,
    pub(super) packed: &'a PackedForest,
    /// The number of the tree at each position.
    pub(super) order: &'a [u32],
    /// The forest's nodes, in the encoding that walks read.
    pub(super) nodes: &'a EncodedNodes<f32>,
    /// The columns of a ranked row. There are none if rows are not ranked.
    pub(super) ranked: RankColumns,
    /// Rows of an iteration of the plan's parallel loop, if that is the only one and goes over rows.
    pub(super) rows_a_task: Option<u32>,
    /// Whether rows are values and not ranks.
    pub(super) values: bool,
    /// The blocks that walk one tree for all their rows.
    pub(super) blocks: BlocksByTree,
    /// The engine for a few rows that the schedule asks for.
    pub(super) by: FewRows,
    /// Whether the program may use only walks in the order of the loops.
    pub(super) scalar: bool,
}

impl EngineRequest<'_> {
    /// Returns whether an engine for a few rows can get a block. It can if rows are values, no node is a tile, some block
    /// walks one tree for all its rows, and no node asks a question, unless the engine `takes_questions`.
    fn has_few_rows(&self, takes_questions: bool) -> bool {
        let able = takes_questions || !self.plan.questions;
        able && self.values && self.plan.children.tile() == 1 && self.blocks.exist
    }
}

/// Seconds of a batch on one thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSeconds {
    /// Ranking or copying the rows. If the trees are divided among threads, each thread does all of it.
    pub(super) of_rows: f64,
    /// Finding leaves, and bringing the trees near.
    pub(super) of_trees: f64,
}

/// The trees of a program as encoded nodes. Engines read them besides tables of their own.
#[derive(Clone, Copy)]
pub(super) struct Trees<'a> {
    pub(super) nodes: &'a EncodedNodes<f32>,
    /// Nodes for `f64` rows, if the forest compares in `f64`.
    pub(super) wide: Option<&'a EncodedNodes<f64>>,
    /// Whether some node asks a question instead of comparing with a threshold.
    pub(super) questions: bool,
    /// Number of addresses that nodes have.
    pub(super) addresses: usize,
}

impl Trees<'_> {
    /// Returns whether a gather can reach every address with a signed 32-bit offset. A node has at most
    /// 12 bytes.
    fn can_be_gathered(&self) -> bool {
        self.addresses < i32::MAX as usize / 12
    }
}

/// A span of rows, a span of trees, and the shape of the walks of these rows through these trees.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) row: Span,
    pub(super) tree: Span,
    pub(super) shape: Shape,
}

impl Block {
    /// Returns the block with only the `k`th of its trees.
    fn of_tree(self, k: usize) -> Self {
        Self { tree: self.tree.one(k), ..self }
    }
}

/// The source from which an engine reads a block's rows.
#[derive(Clone, Copy)]
pub(super) enum Source<'r, 'a, T> {
    /// The rows as the caller handed them over.
    Rows(&'r Rows<'a, T>),
    /// A copy of the rows, column by column.
    Window(Window<'a>),
    /// The ranks of the rows, column by column.
    Ranks(Window<'a, u8>),
}

impl<'r, 'a, T: Row> Source<'r, 'a, T> {
    /// Returns the rows if they are `f32` rows as the caller handed them over.
    fn singles(self) -> Option<&'r Rows<'a, f32>> {
        match self {
            Self::Rows(rows) => T::singles(rows),
            Self::Window(_) | Self::Ranks(_) => None,
        }
    }
}

/// The interface of every engine.
pub(super) trait BlockEngine: Sized {
    /// Builds the engine with its tables. Returns `None` if it can't serve the plan on this machine.
    fn build(wanted: &EngineRequest<'_>) -> Option<Self>;

    /// Returns whether the engine can run a block of rows from `source`. The block's spans lie inside
    /// rows and trees.
    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool;

    /// Hands the leaf of each row in each tree of the block to `sink`. The engine named `rest` runs the
    /// trees or rows that this engine leaves out.
    ///
    /// # Safety
    /// The engine [serves](BlockEngine::serves) the block, whose spans lie inside rows and trees. Rows
    /// have the forest's columns. `trees` are the trees that the engine was built for.
    unsafe fn run<T: Row, S: Sink>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: Block,
        rest: Engine,
        sink: S,
    );

    /// Estimates the seconds that `rows` rows take through all trees.
    fn seconds(&self, rows: usize) -> f64;

    /// Estimates the seconds of a batch of `rows` rows by what they are spent on.
    fn parts(&self, rows: usize) -> BatchSeconds {
        BatchSeconds { of_rows: 0.0, of_trees: self.seconds(rows) }
    }

    /// Returns the number of rows from which on an engine for a few rows no longer takes less time than engines for
    /// many rows.
    fn rows_end(&self) -> usize {
        Machine::here().walk.rows_one_by_one()
    }

    /// Describes the engine in a program's text.
    fn text(&self) -> String {
        String::new()
    }

    /// Returns the size in bytes of the engine's tables, without the nodes that every program has.
    fn bytes(&self) -> usize {
        0
    }
}

/// Runs `find` on chunks of a block and hands the leaves that it finds to `sink`. A chunk has at most as many
/// walks as [`LeafAddresses`] has room for. `find` gets the chunk's rows and trees. It stores the leaves of a
/// tree's rows side by side if rows are inside, otherwise the leaves of a row's trees. `sink` gets the number
/// of each row plus `by`. The caller lends the room `found`, so that it is cleared only once.
#[inline(never)]
fn hand_over<S: Sink>(
    block: Block,
    by: usize,
    found: &mut LeafAddresses,
    sink: S,
    find: &mut dyn FnMut(Span, Span, &mut LeafAddresses),
) {
    let Block { row, tree, shape } = block;
    if shape.rows_inside {
        let rows = row.count.clamp(1, MOST_ADDRESSES);
        for tree in tree.chunks(MOST_ADDRESSES / rows) {
            for row in row.chunks(rows) {
                find(row, tree, found);
                for (t, found) in found.chunks_exact(row.count).enumerate().take(tree.count) {
                    let position = tree.at(t);
                    let each = found.iter().enumerate();
                    each.for_each(|(r, address)| sink.leaf(row.at(r) + by, position, *address));
                }
            }
        }
        return;
    }
    let trees = tree.count.clamp(1, MOST_ADDRESSES);
    for row in row.chunks(MOST_ADDRESSES / trees) {
        // A row may have more trees than there is room for. Its chunks then follow each other, and `sum`
        // adds up all of them.
        let mut sum = S::Value::default();
        for tree in tree.chunks(trees) {
            find(row, tree, found);
            for (r, found) in found.chunks_exact(tree.count).enumerate().take(row.count) {
                let row = row.at(r) + by;
                if !S::TAKES_ROW_SUMS {
                    let each = found.iter().enumerate();
                    each.for_each(|(t, address)| sink.leaf(row, tree.at(t), *address));
                    continue;
                }
                found.iter().for_each(|address| sum += sink.value(*address));
                if tree.end() == block.tree.end() {
                    sink.add(row, std::mem::take(&mut sum));
                }
            }
        }
    }
}
