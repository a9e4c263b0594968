//! MIR: loops over rows and trees, walks, caches and reductions, with no word on how nodes lie in memory.
//!
//! [`LoopNest::build`] turns a schedule's loops into statements, with a `reduce` that means an atomic addition
//! whatever runs in parallel. [`LoopNest::legalise`] makes that true with plain additions: each *conflicting* loop,
//! a parallel loop over trees round a reduce, gets private partial sums, which are added up stage by stage at the
//! loop's end (SilvanForge, section 5; the reduction draft, section 4).

mod build;
mod legalise;
mod text;
mod visits;

pub use fangorn_kernels::plan::{Dim, Extents, Size, Target};
pub use visits::Visit;

use crate::schedule::{GpuDim, IndexVar};

/// How a loop's iterations run on the target at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One after the other.
    Serial,
    /// At the same time.
    Parallel,
    /// Over a dimension of a GPU launch.
    Gpu(GpuDim),
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// Its index variable.
    pub var: IndexVar,
    /// How its iterations run.
    pub mode: Mode,
    /// Whether its partial sums belong in shared memory.
    pub shared_reduce: bool,
    /// Rows below the running row that an iteration can touch, where that is a constant.
    pub window: Option<u32>,
    /// What each iteration does.
    pub body: Vec<Op>,
}

/// `walkDecisionTree` on the tree and the row that the enclosing loops have reached, and `reduce` of its leaf.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// The innermost loop, if its walks advance together.
    pub lanes: Option<IndexVar>,
    /// Straight-line steps: none, given, or as many as the trees are deep.
    pub unroll: Option<Option<u32>>,
    /// Where the leaf is added: a buffer, and for each of its copy dimensions the depth of the loop that owns it.
    pub into: BufferId,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A loop.
    Loop(Loop),
    /// A walk and its reduce.
    Walk(Walk),
    /// The rows that the current iteration can touch are kept close.
    CacheRows,
    /// `reduceDimInplace` or `reduceDimension`.
    Reduce(Reduce),
}

/// A buffer of sums: the result, or the n-th buffer of partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferId {
    /// `result[batch][outputs]`.
    Result,
    /// `partial[copies…][batch][outputs]`.
    Partial(usize),
}

/// Adds up one dimension of private copies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// The partial buffer.
    pub buffer: usize,
    /// The dimension that is added up; 0 goes into the result, any other into copy 0 of itself.
    pub dimension: usize,
    /// Depths of the enclosing loops over rows: only the rows of their current iterations are covered.
    pub rows: Vec<usize>,
}

/// A buffer of partial sums: one copy dimension for each conflicting loop, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partial {
    /// The loops, by depth and variable.
    pub loops: Vec<(usize, IndexVar, Mode)>,
}

/// The program of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopNest {
    /// The target, which says what runs in parallel.
    pub target: Target,
    /// Whether reduces are plain additions already.
    pub legal: bool,
    /// Buffers of partial sums.
    pub partials: Vec<Partial>,
    /// The statements.
    pub body: Vec<Op>,
}
