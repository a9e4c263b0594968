//! The engines: each finds the leaves of a block of rows in a block of trees, a file or folder each.
//!
//! | engine | serves |
//! |---|---|
//! | [`walks`] | every forest, on every machine: a split a step |
//! | [`vectors`] | 24 rows and more: a tree's walks in vectors |
//! | [`tiles`] | schedules with `tileNodes`: a tile of splits a step |
//! | [`blend`] | blocks of 64 rows: every split of a tree at once |
//! | [`registers`] | a few rows: a row in registers, four levels a step |
//! | [`abreast`] | a few rows: a row through 64 trees abreast, by gathers |
//! | [`full`] | a few rows: trees filled up, four side by side |
//!
//! All have one face, [`BlockEngine`]: can it serve this plan here, its tables, a run, its cost. Which engine runs which block is chosen
//! in [`select`](super::select). Kernels for one instruction set are in [`arch`](super::arch).

pub(super) mod abreast;
pub(super) mod blend;
pub(super) mod full;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) mod registers;
pub(super) mod tiles;
pub(super) mod vectors;
pub(super) mod walk;
pub(super) mod walks;

use super::{
    encoded::Encoded,
    engines::Engine,
    rows::{Row, Rows},
    sink::Sink,
    window::Window,
};
use crate::{
    forest::Forest,
    layout::Packed,
    plan::{Cpu, Plan},
    schedule::FewRows,
};
use walk::{LeafAddresses, MOST_ADDRESSES, Shape, Span};

/// What an engine is built for.
pub(super) struct EngineRequest<'a> {
    pub(super) plan: &'a Plan<Cpu>,
    pub(super) forest: &'a Forest,
    pub(super) packed: &'a Packed,
    /// Trees by position.
    pub(super) order: &'a [u32],
    /// The forest's nodes, as walks read them.
    pub(super) nodes: &'a Encoded<f32>,
    /// Columns of a row that is ranked: of thresholds, and of questions. None where rows are not.
    pub(super) ranked: (usize, usize),
    /// Whether a block of a few `f32` rows reaches an engine for them: rows are no ranks, no node asks a question or is a tile, and the
    /// loops have some block walk a tree for all its rows.
    pub(super) few_rows: bool,
    /// What the schedule says of a few rows.
    pub(super) by: FewRows,
    /// Whether walks in the order of the loops are all that is allowed.
    pub(super) scalar: bool,
}

/// The trees of a program as nodes: what engines read besides tables of their own.
#[derive(Clone, Copy)]
pub(super) struct Trees<'a> {
    pub(super) nodes: &'a Encoded<f32>,
    /// For `f64` rows of a forest that compares in `f64`.
    pub(super) wide: Option<&'a Encoded<f64>>,
    /// Whether some node asks more than a threshold.
    pub(super) questions: bool,
    /// How many addresses nodes have.
    pub(super) addresses: usize,
}

impl Trees<'_> {
    /// Whether addresses can be gathered, with signed offsets of 32 bits.
    fn can_be_gathered(&self) -> bool {
        self.addresses < i32::MAX as usize / 12
    }
}

/// Rows against trees, and how their walks go.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) row: Span,
    pub(super) tree: Span,
    pub(super) shape: Shape,
}

impl Block {
    /// The same of the tree of number `k` alone.
    fn of_tree(self, k: usize) -> Self {
        Self { tree: self.tree.one(k), ..self }
    }
}

/// Where a block's rows are read from.
#[derive(Clone, Copy)]
pub(super) enum Source<'r, 'a, T> {
    /// As they were handed over.
    Rows(&'r Rows<'a, T>),
    /// A copy by column.
    Copy(Window<'a>),
    /// Their ranks, by column.
    Ranks(Window<'a, u8>),
}

impl<'r, 'a, T: Row> Source<'r, 'a, T> {
    /// `f32` rows as they were handed over.
    fn singles(self) -> Option<&'r Rows<'a, f32>> {
        match self {
            Self::Rows(rows) => T::singles(rows),
            Self::Copy(_) | Self::Ranks(_) => None,
        }
    }
}

/// What every engine answers.
pub(super) trait BlockEngine: Sized {
    /// The engine with its tables, if it can serve the plan on this machine.
    fn build(wanted: &EngineRequest<'_>) -> Option<Self>;

    /// Whether it can run a block of these rows, whose spans are inside rows and trees.
    fn serves<T: Row>(&self, trees: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool;

    /// Hands each row's leaf in each tree of the block to `sink`; trees or rows that the engine leaves are run by `rest`.
    ///
    /// # Safety
    /// The engine [serves](BlockEngine::serves) the block, whose spans are inside rows and trees; rows have the forest's columns; the
    /// trees are those that it was built for.
    unsafe fn run<T: Row, S: Sink>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: Block,
        rest: Engine,
        sink: S,
    );

    /// Seconds that so many rows take through all trees, about.
    fn seconds(&self, rows: usize) -> f64;

    /// Bytes of its tables, besides the nodes that every program has.
    fn bytes(&self) -> usize {
        0
    }
}

/// Has `find` find the leaves of a block, as many at a time as [`LeafAddresses`] has room for, and hands them to `sink`, which counts rows from
/// `by` on. `find` is given rows and trees, and puts a tree's rows side by side where rows are inside, otherwise a row's trees. The room
/// is the caller's, so that it is cleared once.
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
        for tree in tree.parts(MOST_ADDRESSES / rows) {
            for row in row.parts(rows) {
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
    for row in row.parts(MOST_ADDRESSES / trees) {
        // Of more trees than there is room for, a row at a time.
        let mut sum = S::Value::default();
        for tree in tree.parts(trees) {
            find(row, tree, found);
            for (r, found) in found.chunks_exact(tree.count).enumerate().take(row.count) {
                let row = row.at(r) + by;
                if !S::ONE_VALUE {
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
