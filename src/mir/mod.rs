//! MIR: loops over rows and trees, walks, caches and reductions, without any decision on how nodes lie in
//! memory.
//!
//! [`LoopNest::build`] turns a schedule's loops into statements. A `reduce` among them stands for an atomic
//! addition, which is right whatever runs in parallel. [`LoopNest::legalise`] replaces each `reduce` with plain
//! additions. A *conflicting* loop, a parallel loop over trees around a reduce, gets private partial sums,
//! and stages at the end of the loop add these sums up (SilvanForge, section 5; the reduction draft, section 4).

mod build;
mod legalise;
mod specialize;
mod text;
mod visits;

pub(crate) use fangorn_ir::{Dim, Extents, Size, Target};
pub use specialize::{SharedCodeReason, UnspecializedLoop};
pub use visits::Visit;

use crate::schedule::{Evaluation, GpuDim, IndexVar, ReduceMarks};

/// How the iterations of a loop run on the nest's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One after the other.
    Serial,
    /// At the same time.
    Parallel,
    /// On the cubes or the units of a dimension of a GPU launch.
    Gpu(GpuDim),
}

/// A loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// The loop's index variable.
    pub var: IndexVar,
    /// How the loop's iterations run.
    pub mode: Mode,
    /// Whether the loop's iterations are straight-line code.
    pub unrolled: bool,
    /// Whether [`LoopNest::specialize`] gives the loop's iterations code of their own.
    pub specialize: bool,
    /// How the private sums of the loop are kept and added up.
    pub reduce: ReduceMarks,
    /// Number of rows, from the current row on, that one iteration can touch, if it is a constant.
    pub touched_rows: Option<u32>,
    /// The statements of each iteration.
    pub body: Vec<Op>,
}

/// `walkDecisionTree` on the tree and the row that the enclosing loops have reached, and `reduce` of its leaf
/// values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// The variable of the innermost loop, if the loop's walks advance together.
    pub lanes: Option<IndexVar>,
    /// Number of straight-line steps: `None` for none, `Some(Some(n))` for `n`, `Some(None)` for as many as
    /// the trees are deep.
    pub unroll: Option<Option<u32>>,
    /// The greatest number of first steps without a leaf test. These steps end at the depth of the shallowest
    /// leaf at the latest.
    pub peel: Option<u32>,
    /// A share of a profile's rows in percent. Straight-line steps test for a leaf down to the depth at which
    /// this share of the rows has reached a leaf.
    pub likely: Option<u32>,
    /// How a tree finds the leaf of a row.
    pub evaluate: Evaluation,
    /// Whether `unroll` means a counted loop that reads each tree's depth from a table, because the nest has
    /// more groups of trees than a kernel may have code for.
    pub table: bool,
    /// The buffer to which the leaf values are added. A partial buffer knows the loops that own its copy
    /// dimensions.
    pub into: BufferId,
    /// Whether the addition is an atomic operation.
    pub atomic: bool,
}

/// A choice among several bodies, according to the offset of an enclosing loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cases {
    /// Depth of the enclosing loop whose offset decides.
    pub depth: usize,
    /// The bodies in order. Each is for offsets below its end, and the last is for all other offsets too.
    pub cases: Vec<Case>,
}

/// A body of [`Cases`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// One past the last offset that the body is for.
    pub end: u32,
    /// The statements of the body.
    pub body: Vec<Op>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A loop.
    Loop(Loop),
    /// A walk and its reduce.
    Walk(Walk),
    /// A choice of code for an iteration of an enclosing parallel loop.
    Cases(Cases),
    /// A cache of the rows that the current iteration can touch.
    CacheRows,
    /// A cache of the trees that the current iteration can touch.
    CacheTrees,
    /// A stage of a reduction: `reduceDimInplace` or `reduceDimension`.
    Reduce(Reduce),
}

impl Op {
    /// Returns the statement's bodies: a loop's body, or the body of every case.
    pub fn bodies(&self) -> Vec<&[Self]> {
        match self {
            Self::Loop(l) => vec![&l.body],
            Self::Cases(c) => c.cases.iter().map(|c| &c.body[..]).collect(),
            Self::Walk(_) | Self::CacheRows | Self::CacheTrees | Self::Reduce(_) => Vec::new(),
        }
    }
}

/// A buffer of sums: the result, or the n-th buffer of partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferId {
    /// `result[batch][outputs]`.
    Result,
    /// `partial[copies…][batch][outputs]`.
    Partial(usize),
}

/// A stage that adds up one dimension of private copies of sums.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// Index of the partial buffer.
    pub buffer: usize,
    /// The copy dimension that the stage adds up.
    pub dimension: usize,
    /// Whether the sum goes into the result, as it does for the outermost dimension that a stage adds up. For
    /// any other dimension the sum goes into copy 0 of that dimension.
    pub last: bool,
    /// Whether the stage adds to the result with an atomic operation.
    pub atomic: bool,
    /// Number of private sums that the stage adds at a time.
    pub vector: Option<u32>,
    /// Depths of the enclosing loops over rows. The stage covers only the rows of their current iterations.
    pub rows: Vec<usize>,
}

/// A conflicting loop: a parallel loop over trees around a reduce.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Private {
    /// Depth of the loop in the nest.
    pub depth: usize,
    /// The loop's index variable.
    pub var: IndexVar,
    /// How the loop's iterations run.
    pub mode: Mode,
    /// How the private sums of the loop are kept and added up.
    pub reduce: ReduceMarks,
}

/// A buffer of partial sums. It has one copy dimension for each conflicting loop, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partial {
    /// The conflicting loops that own the copy dimensions.
    pub loops: Vec<Private>,
}

impl Partial {
    /// Returns whether the copies belong in shared memory. They do if any loop of the chain asks for it.
    pub fn shared(&self) -> bool {
        self.loops.iter().any(|l| l.reduce.shared)
    }

    /// Returns the index of the first loop whose copies a stage adds up. Atomic operations add up the loops
    /// before it.
    pub fn staged(&self) -> usize {
        self.loops.iter().position(|l| !l.reduce.is_atomic()).unwrap_or(self.loops.len())
    }
}

/// A schedule's program of loops and statements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopNest {
    /// The target, which decides which loops run in parallel.
    pub target: Target,
    /// Number of nodes of a tile, all decided by one step of a walk. It is 1 if walks decide single nodes.
    pub tile: u32,
    /// Whether the nest comes from [`LoopNest::legalise`]. Reduces are then plain additions, except for those
    /// that are marked as atomic.
    pub legal: bool,
    /// The partial buffers of the nest.
    pub partials: Vec<Partial>,
    /// The statements.
    pub body: Vec<Op>,
}
