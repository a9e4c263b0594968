//! The buffers, the scalars and the shared memory of a plan's kernel.
//!
//! `Box<[T]>` is cubecl's handle of a buffer that a struct can hold, not an allocation.

use cubecl::prelude::*;

use super::epilogue_steps::EpilogueOperands;
use fangorn_ir::{
    Combine,
    cube::{CachedTrees, PlanRef},
};

/// Number of words of a tree's record: root, constant, output, producer's index, depth.
pub const TREE_WORDS: u32 = 5;

/// The buffers that the kernel binds.
#[derive(CubeType, CubeLaunch)]
pub struct Buffers {
    /// The rows, as words.
    pub rows: Box<[u32]>,
    /// Nodes, trees, leaf slots, questions, columns, rank tables and base scores.
    pub model: Box<[u32]>,
    /// Leaf values by leaf slot, as words: the bits of an `f32`, or the two words of an integer.
    pub leaves: Box<[u32]>,
    /// The result: margins or values by their bits, leaf slots, or a trace.
    pub out: Box<[u32]>,
    /// Private copies of sums, as words.
    pub partial: Box<[u32]>,
    /// The margins, if they are f32 that are added to atomically. `out` is then not written.
    pub atomic: Sequence<Box<[Atomic<f32>]>>,
    /// The words of the sums, if they are integers that are added to atomically. `out` is then not written.
    pub atomic_words: Sequence<Box<[Atomic<u32>]>>,
    /// The operands of the epilogue, if the kernel computes it.
    pub beside: EpilogueOperands,
}

/// The scalars that only the call knows.
#[derive(CubeType, CubeLaunch)]
pub struct Call {
    /// Number of rows.
    pub batch: u32,
    /// Number of trees.
    pub trees: u32,
    /// Distance between two rows, in values.
    pub row_stride: u32,
    /// Distance between two columns, in values.
    pub column_stride: u32,
    /// Index of the first row's first value.
    pub row_offset: u32,
    /// Index of the first word of the trees in the model.
    pub trees_at: u32,
    /// Index of the first word of the leaf slots in the model, one word for each address.
    pub slots_at: u32,
    /// Index of the first word of the questions in the model.
    pub questions_at: u32,
    /// Index of the first word of the list of columns that the model uses.
    pub columns_at: u32,
    /// Index of the first word of the tables that turn values into ranks.
    pub ranks_at: u32,
    /// Index of the first word of the base scores in the model. After them comes the sum of no leaves.
    pub base_at: u32,
    /// Factor of margins before the transform.
    pub scale: f32,
    /// The plan's run-time sizes.
    pub sizes: Sequence<u32>,
    /// Index of the first word of each buffer of partial sums.
    pub partials_at: Sequence<u32>,
}

/// The shared memory of a cube and the private variables of a unit.
#[derive(CubeType)]
pub struct Local {
    /// The row cache: keys, column after column.
    pub keys: Sequence<Shared<[u32]>>,
    /// The tree cache: the words of nodes.
    pub nodes: Sequence<Shared<[u32]>>,
    /// Partial sums in shared memory, as words.
    pub sums: Sequence<Shared<[u32]>>,
    /// Number of visits so far, for a trace.
    pub clock: RuntimeCell<u32>,
    /// The register sum, or its low word.
    pub sum: RuntimeCell<u32>,
    /// The high word of the register sum, if a sum has two words.
    pub high: RuntimeCell<u32>,
}

/// The context of all functions that expand a plan.
#[derive(CubeType)]
pub struct Context {
    /// The buffers that the kernel binds.
    pub buffers: Buffers,
    /// The scalars that only the call knows.
    pub call: Call,
    /// The shared memory of a cube and the private variables of a unit.
    pub local: Local,
    /// The plan that is expanded.
    #[cube(comptime)]
    pub plan: PlanRef,
}

#[cube]
impl Local {
    /// Allocates the shared memory and the variables that the plan needs.
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

/// Returns the number of words of the shared sums.
pub fn shared_len(plan: &PlanRef) -> u32 {
    plan.own.shared_sums.as_ref().map_or(0, |s| s.copies() * s.rows * plan.sum_words())
}

/// Returns the sum of no leaves: zero, or a number that no leaf value is above (for a minimum) or below (for
/// a maximum).
#[cube]
pub fn nothing(cx: &Context) -> u32 {
    if comptime![matches!(cx.plan.combine, Combine::Sum | Combine::Fixed)] {
        0u32.runtime()
    } else {
        cx.buffers.model[(cx.call.base_at + comptime![cx.plan.outputs]) as usize]
    }
}

/// Combines one word of two sums into one.
#[cube]
pub fn combine(a: u32, b: u32, #[comptime] how: Combine) -> u32 {
    match how {
        Combine::Sum => u32::reinterpret(f32::reinterpret(a) + f32::reinterpret(b)),
        Combine::Min => select(f32::reinterpret(b) < f32::reinterpret(a), b, a),
        Combine::Max => select(f32::reinterpret(b) > f32::reinterpret(a), b, a),
        Combine::Fixed => a + b,
    }
}

/// Returns a margin: the base score plus the combined leaf values, or the base score alone if there were no
/// leaves.
#[cube]
pub fn margin(base: u32, sum: u32, nothing: u32, #[comptime] how: Combine) -> u32 {
    match how {
        Combine::Sum | Combine::Fixed => combine(base, sum, how),
        // The sum is compared by its bits, because a device may assume that there is no infinity.
        Combine::Min | Combine::Max => select(sum == nothing, base, combine(base, sum, Combine::Sum)),
    }
}
