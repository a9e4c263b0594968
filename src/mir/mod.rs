//! MIR: loops over rows and trees, walks, caches and reductions, with no word on how nodes lie in memory.
//!
//! [`LoopNest::build`] turns a schedule's loops into statements, with a `reduce` that means an atomic addition
//! whatever runs in parallel. [`LoopNest::legalise`] makes that true with plain additions: each *conflicting* loop,
//! a parallel loop over trees round a reduce, gets private partial sums, which are added up stage by stage at the
//! loop's end (SilvanForge, section 5; the reduction draft, section 4).

mod build;
mod legalise;
mod specialize;
mod text;
mod visits;

pub(crate) use fangorn_ir::{Dim, Extents, Size, Target};
pub use specialize::{SharedCodeReason, Unspecialized};
pub use visits::Visit;

use crate::schedule::{Evaluation, GpuDim, IndexVar, ReduceMarks};

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
    /// Whether its iterations are straight-line code.
    pub unrolled: bool,
    /// Whether its iterations are to have code of their own: [`LoopNest::specialize`].
    pub specialize: bool,
    /// What becomes of its private sums.
    pub reduce: ReduceMarks,
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
    /// Steps without a leaf test, above the first leaf.
    pub peel: Option<u32>,
    /// Percent of a profile's rows down to whose leaves each step tests for one, in straight-line code.
    pub likely: Option<u32>,
    /// How leaves are found.
    pub evaluate: Evaluation,
    /// Whether `unroll` means a counted loop, each tree's depth read from a table: there were more groups of trees than
    /// a kernel may have code for.
    pub table: bool,
    /// Where the leaf is added: a buffer, and for each of its copy dimensions the depth of the loop that owns it.
    pub into: BufferId,
    /// Whether it is added with an atomic operation.
    pub atomic: bool,
}

/// One of several bodies, by the offset of an enclosing loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cases {
    /// That loop's depth.
    pub depth: usize,
    /// The bodies in order, each for offsets below its end; the last also for all others.
    pub cases: Vec<Case>,
}

/// A body of [`Cases`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// One past the last offset it is for.
    pub end: u32,
    /// What it does.
    pub body: Vec<Op>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A loop.
    Loop(Loop),
    /// A walk and its reduce.
    Walk(Walk),
    /// Code of its own for iterations of an enclosing loop that runs in parallel.
    Cases(Cases),
    /// The rows that the current iteration can touch are kept close.
    CacheRows,
    /// The trees that the current iteration can touch are kept close.
    CacheTrees,
    /// `reduceDimInplace` or `reduceDimension`.
    Reduce(Reduce),
}

impl Op {
    /// The statements inside: a loop's body, or every case's.
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

/// Adds up one dimension of private copies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// The partial buffer.
    pub buffer: usize,
    /// The dimension that is added up.
    pub dimension: usize,
    /// Whether the sum goes into the result: it does for the outermost dimension that is not added up by atomic
    /// operations; for any other it goes into copy 0 of itself.
    pub last: bool,
    /// Whether it is added to the result with an atomic operation.
    pub atomic: bool,
    /// Private sums at a time.
    pub vector: Option<u32>,
    /// Depths of the enclosing loops over rows: only the rows of their current iterations are covered.
    pub rows: Vec<usize>,
}

/// A conflicting loop: a parallel one over trees round a reduce.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Private {
    /// Its depth.
    pub depth: usize,
    /// Its variable.
    pub var: IndexVar,
    /// How it runs.
    pub mode: Mode,
    /// What becomes of its private sums.
    pub reduce: ReduceMarks,
}

/// A buffer of partial sums: one copy dimension for each conflicting loop, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partial {
    /// The loops.
    pub loops: Vec<Private>,
}

impl Partial {
    /// Whether the copies belong in shared memory: some loop of the chain says so.
    pub fn shared(&self) -> bool {
        self.loops.iter().any(|l| l.reduce.shared)
    }

    /// The first loop whose copies are added up in a stage; those before it are added up by atomic operations.
    pub fn staged(&self) -> usize {
        self.loops.iter().position(|l| !l.reduce.is_atomic()).unwrap_or(self.loops.len())
    }
}

/// The program of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoopNest {
    /// The target, which says what runs in parallel.
    pub target: Target,
    /// Nodes of the trees' tiles, of which a walk's step decides one; 1 where nodes are walked one by one.
    pub tile: u32,
    /// Whether reduces are plain additions already.
    pub legal: bool,
    /// Buffers of partial sums.
    pub partials: Vec<Partial>,
    /// The statements.
    pub body: Vec<Op>,
}
