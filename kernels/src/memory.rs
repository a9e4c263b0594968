//! What a kernel reads and writes.
//!
//! `Box<[T]>` is cubecl's handle of a buffer that a struct can hold, not an allocation.

use cubecl::prelude::*;

use super::epilogue_steps::EpilogueOperands;
use fangorn_ir::{Combine, PlanRef, cube::CachedTrees};

/// Words of a tree's record: root, constant, output, producer's index, depth.
pub const TREE_WORDS: u32 = 5;

/// The buffers bound.
#[derive(CubeType, CubeLaunch)]
pub struct Buffers {
    /// Rows as words.
    pub rows: Box<[u32]>,
    /// Nodes, trees, slots, questions, columns and base scores.
    pub model: Box<[u32]>,
    /// Leaf values by slot, as words: an `f32` by its bits, or the two of a whole number.
    pub leaves: Box<[u32]>,
    /// Margins by their bits, slots, or a trace.
    pub out: Box<[u32]>,
    /// Private copies of sums, as words.
    pub partial: Box<[u32]>,
    /// The margins, where they are added to atomically: then `out` is not written.
    pub atomic: Sequence<Box<[Atomic<f32>]>>,
    /// The same where sums are whole numbers.
    pub atomic_words: Sequence<Box<[Atomic<u32>]>>,
    /// What follows the forest where its sums are written.
    pub beside: EpilogueOperands,
}

/// What only the call knows.
#[derive(CubeType, CubeLaunch)]
pub struct Call {
    /// Rows.
    pub batch: u32,
    /// Trees.
    pub trees: u32,
    /// From row to row, in values.
    pub row_stride: u32,
    /// From column to column, in values.
    pub column_stride: u32,
    /// The first row's first value, in values.
    pub row_offset: u32,
    /// Where the model's parts begin, in words: trees, …
    pub trees_at: u32,
    /// … slots by address, …
    pub slots_at: u32,
    /// … questions, …
    pub questions_at: u32,
    /// … the columns that the model uses, …
    pub columns_at: u32,
    /// … what rows become ranks by, …
    pub ranks_at: u32,
    /// … and base scores, after which the sum of no leaves stands.
    pub base_at: u32,
    /// What margins are multiplied with before a transform.
    pub scale: f32,
    /// The plan's run-time sizes.
    pub sizes: Sequence<u32>,
    /// Where the partial buffers begin.
    pub partials_at: Sequence<u32>,
}

/// What a cube shares, and a unit keeps.
#[derive(CubeType)]
pub struct Local {
    /// The row cache: keys, column after column.
    pub keys: Sequence<Shared<[u32]>>,
    /// The tree cache: nodes' words.
    pub nodes: Sequence<Shared<[u32]>>,
    /// Partial sums, as words.
    pub sums: Sequence<Shared<[u32]>>,
    /// Visits so far, for a trace.
    pub clock: RuntimeCell<u32>,
    /// The register sum, …
    pub sum: RuntimeCell<u32>,
    /// … and its second word, where it has one.
    pub high: RuntimeCell<u32>,
}

/// What all parts of a plan's kernel work on.
#[derive(CubeType)]
pub struct Context {
    /// The buffers bound.
    pub buffers: Buffers,
    /// What only the call knows.
    pub call: Call,
    /// What a cube shares, and a unit keeps.
    pub local: Local,
    /// The plan that is expanded.
    #[cube(comptime)]
    pub plan: PlanRef,
}

#[cube]
impl Local {
    /// What the plan needs.
    pub fn new(#[comptime] plan: &PlanRef) -> Self {
        let mut keys = Sequence::<Shared<[u32]>>::new();
        if comptime![plan.own.cached_rows.is_some()] {
            keys.push(Shared::new_slice(comptime![plan.cached_keys().max(1) as usize]));
        }
        let mut nodes = Sequence::<Shared<[u32]>>::new();
        if comptime![plan.own.cached_trees.is_some()] {
            nodes.push(Shared::new_slice(comptime![cached_tree_words(plan)]));
        }
        let mut sums = Sequence::<Shared<[u32]>>::new();
        if comptime![plan.own.shared_sums.is_some()] {
            sums.push(Shared::new_slice(comptime![shared_len(plan) as usize]));
        }
        Local {
            keys,
            nodes,
            sums,
            clock: RuntimeCell::<u32>::new(0u32),
            sum: RuntimeCell::<u32>::new(0u32),
            high: RuntimeCell::<u32>::new(0u32),
        }
    }
}

fn cached_tree_words(plan: &PlanRef) -> usize {
    plan.own.cached_trees.map_or(1, |CachedTrees { words, .. }| words.max(1)) as usize
}

/// Words of the shared sums.
pub fn shared_len(plan: &PlanRef) -> u32 {
    plan.own.shared_sums.as_ref().map_or(0, |s| s.copies() * s.rows * plan.sum_words())
}

/// The sum of no leaves: zero, or what any leaf is below or above.
#[cube]
pub fn nothing(cx: &Context) -> u32 {
    if comptime![matches!(cx.plan.combine, Combine::Sum | Combine::Fixed)] {
        0u32.runtime()
    } else {
        cx.buffers.model[(cx.call.base_at + comptime![cx.plan.outputs]) as usize]
    }
}

/// Two sums as one, word by word.
#[cube]
pub fn combine(a: u32, b: u32, #[comptime] how: Combine) -> u32 {
    match how {
        Combine::Sum => u32::reinterpret(f32::reinterpret(a) + f32::reinterpret(b)),
        Combine::Min => select(f32::reinterpret(b) < f32::reinterpret(a), b, a),
        Combine::Max => select(f32::reinterpret(b) > f32::reinterpret(a), b, a),
        Combine::Fixed => a + b,
    }
}

/// A margin: the base score and what the leaves come to, if there were any.
#[cube]
pub fn margin(base: u32, sum: u32, nothing: u32, #[comptime] how: Combine) -> u32 {
    match how {
        Combine::Sum | Combine::Fixed => combine(base, sum, how),
        // By their bits: a device may assume that there is no infinity.
        Combine::Min | Combine::Max => select(sum == nothing, base, combine(base, sum, Combine::Sum)),
    }
}
