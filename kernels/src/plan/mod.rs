//! LIR: the shape of a kernel, and nothing of a model's values.
//!
//! A [`Plan`] is what one schedule on one layout comes to: loops with their mapping, the walk, caches, partial sums
//! and the stages that reduce them. It is plain data. As a cubecl comptime argument it *is* the kernel's identity:
//! whatever is a number here is compiled in, whatever is a slot of [`Plan::sizes`] is read at run time, so that one
//! kernel serves every batch and every model of the same shape.

mod cache;
mod interned;
mod key;
pub mod question;
mod size;
mod tail;
mod text;
mod transform;
mod verify;

use std::fmt;

pub use interned::{Facts, PlanRef};
pub use key::{MISSING, key};
pub use size::{Extents, Size};
pub use tail::{Number, Place, Tail, TailStep};
pub use transform::{LEAST_STEP, Transform, argmax};

/// An axis of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// The fastest.
    X,
    /// The second.
    Y,
    /// The slowest.
    Z,
}

impl Axis {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::X, Self::Y, Self::Z];
}

/// A dimension of a GPU launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GpuDim {
    /// Cubes of the launch.
    Grid(Axis),
    /// Units of a cube.
    Block(Axis),
}

impl GpuDim {
    /// Reads `grid.x` to `block.z`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, axis) = text.trim().split_once('.')?;
        let axis = match axis {
            "x" => Axis::X,
            "y" => Axis::Y,
            "z" => Axis::Z,
            _ => return None,
        };
        match kind {
            "grid" => Some(Self::Grid(axis)),
            "block" => Some(Self::Block(axis)),
            _ => None,
        }
    }
}

impl fmt::Display for GpuDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, axis) = match self {
            Self::Grid(axis) => ("grid", axis),
            Self::Block(axis) => ("block", axis),
        };
        write!(f, "{kind}.{}", ["x", "y", "z"][*axis as usize])
    }
}

/// A way to lay nodes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// Every tree a full binary tree in level order; a child's place is computed.
    Array,
    /// Only the nodes there are; a node names its children.
    Sparse,
    /// Full binary trees, interleaved: all roots, then all their left children, and so on.
    Reorg,
    /// Only the nodes there are, each followed by its left child; a node names its right one.
    DepthFirst,
}

impl LayoutKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Array, Self::Sparse, Self::Reorg, Self::DepthFirst];

    /// Reads a layout's name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.to_string() == text)
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Array => "array",
            Self::Sparse => "sparse",
            Self::Reorg => "reorg",
            Self::DepthFirst => "depth_first",
        })
    }
}

/// How a walk gets from a node's address to its children's: all a target knows of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Children {
    /// `left = 2 x address + c(tree)`, `right = left + stride`, with a constant `c` a tree.
    Affine {
        /// From the left child to the right.
        stride: u32,
    },
    /// The same with a stride of as many as there are trees.
    Interleaved,
    /// The node holds its left child's address; `right = left + 1`.
    Linked,
    /// `left = address + 1`; the node holds its right child's address.
    Near,
    /// Tiles of so many nodes and one more child: the child number `k`, from the left, lies at
    /// `(nodes + 1) x address + c(tree) + k` (CPU).
    TilesComputed {
        /// Nodes of a tile, at most.
        nodes: u32,
    },
    /// The tile holds its leftmost child's address, and the others lie behind that (CPU).
    TilesLinked {
        /// Nodes of a tile, at most.
        nodes: u32,
    },
}

impl Children {
    /// Whether a node names one of its children.
    pub fn named(self) -> bool {
        matches!(self, Self::Linked | Self::Near | Self::TilesLinked { .. })
    }

    /// Nodes that a walk decides at once: 1 where there are no tiles.
    pub fn tile(self) -> u32 {
        match self {
            Self::TilesComputed { nodes } | Self::TilesLinked { nodes } => nodes,
            Self::Affine { .. } | Self::Interleaved | Self::Linked | Self::Near => 1,
        }
    }
}

/// What a loop goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Rows.
    Batch,
    /// Trees.
    Tree,
}

/// A number of the plan: compiled in, or a slot of [`Plan::sizes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Compiled in.
    Const(u32),
    /// Read at run time.
    Slot(u32),
}

/// `offset < end - Σ registers`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The limit before anything is taken off.
    pub end: Value,
    /// Registers (offsets of enclosing loops) that are taken off.
    pub minus: Vec<u32>,
}

/// The offsets `start, start + step, …` that every limit allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// First.
    pub start: Value,
    /// From one to the next.
    pub step: Value,
    /// Limits.
    pub limits: Vec<Limit>,
}

/// A loop over rows, without what it does.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowLoop {
    /// Register of its offset.
    pub register: u32,
    /// Its offsets.
    pub range: Range,
}

/// How a loop's iterations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Map {
    /// One after the other.
    Serial,
    /// One after the other, in straight-line code: so many times, unless the range ends before.
    Unrolled {
        /// Copies of the body.
        count: u32,
    },
    /// On threads (CPU).
    Parallel,
    /// On a dimension of the launch; iterations past its size are taken in strides of it.
    Gpu {
        /// The dimension.
        dim: GpuDim,
        /// Whether the dimension is as long as the loop, so that no unit has a second iteration.
        single: bool,
    },
}

/// A loop. Its offset is added to the running row or tree, and kept in its register.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Loop {
    /// The schedule's name for it.
    pub var: String,
    /// What it goes over.
    pub dim: Dim,
    /// Register of its offset: its depth in the nest.
    pub register: u32,
    /// Its offsets.
    pub range: Range,
    /// How they run.
    pub map: Map,
    /// What each does.
    pub body: Vec<Op>,
}

/// Where sums are kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Sum {
    /// The result: `result[row][output]`.
    Result {
        /// Whether this is the only sum there, so that it starts from the base score; otherwise it is added.
        first: bool,
    },
    /// The result, by an atomic addition.
    Atomic,
    /// A private copy: `partial[copy][row][output]` of a buffer of [`Plan::partials`].
    Partial {
        /// The buffer.
        buffer: u32,
        /// Whether the addition is atomic (CPU).
        atomic: bool,
    },
    /// A private copy in the cube's shared memory: `shared[copy][row - window][output]`.
    Shared,
}

/// Rows or trees that are walked together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lanes {
    /// What the lanes go over.
    pub dim: Dim,
    /// How many.
    pub count: u32,
    /// Their offsets.
    pub range: Range,
    /// Register of the loop they were.
    pub register: u32,
}

/// How a walk goes on after its straight-line steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rest {
    /// Not at all: the steps reach every leaf.
    Nothing,
    /// Until the leaf, which each step tests for.
    UntilLeaf,
    /// For as many steps as the tree's depth in the table of trees says, with no test for a leaf.
    Counted,
}

/// `walkDecisionTree`, and `reduce` of what it finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Walks that advance together, if more than one does.
    pub lanes: Option<Lanes>,
    /// Steps taken in straight-line code, with no test for a leaf.
    pub steps: u32,
    /// Steps after those that each test for a leaf: by then most walks have come to theirs (CPU).
    pub tested: u32,
    /// What follows them.
    pub rest: Rest,
    /// Levels of each tree from the root down that blends evaluate instead (CPU), `u32::MAX` where those are all: the steps
    /// are for trees and rows that blends have no room for.
    pub blend: Option<u32>,
    /// Whether rows are read from the row cache (cube).
    pub cached_rows: bool,
    /// Whether nodes are read from the tree cache (cube).
    pub cached_trees: bool,
    /// Where the leaf is added; `None` inside [`Op::Accumulate`].
    pub into: Option<Sum>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A loop.
    Loop(Loop),
    /// A walk.
    Walk(Walk),
    /// A register sum for the row at hand: zero, the body, then added to `into` (cube).
    Accumulate {
        /// What adds to it.
        body: Vec<Op>,
        /// Where the sum goes.
        into: Sum,
    },
    /// One of several bodies, by a loop's offset.
    Cases {
        /// The loop's register.
        register: u32,
        /// The bodies in order, each for offsets below a number; the last also for all others.
        cases: Vec<(u32, Vec<Op>)>,
    },
    /// The body, by the first unit or cube of dimensions that no loop round it is mapped to (cube).
    Only {
        /// The dimensions.
        dims: Vec<GpuDim>,
        /// What is done once.
        body: Vec<Op>,
    },
    /// `cacheRows`: on a cube, the `rows` rows from the running row on are put into shared memory as keys, between two
    /// barriers; on a CPU they are brought close.
    CacheRows {
        /// Rows of the window; as many as there are, where that is not a number (CPU).
        rows: u32,
    },
    /// `cacheTrees`: the nodes of the `trees` trees from the running tree on are put into shared memory, between two
    /// barriers; on a CPU they are brought close.
    CacheTrees {
        /// Trees of the window.
        trees: u32,
    },
    /// The cube's partial sums are set to zero, then a barrier; the window starts at the running row (cube).
    ClearShared,
    /// A barrier, the partial sums of each row are added to `into` and are zero afterwards, a barrier (cube).
    ReduceShared {
        /// Where they go.
        into: Sum,
        /// The rows, from the running row on: those that each chain of loops goes over. The first loop of a chain
        /// is shared out over the cube's units.
        rows: Vec<Vec<RowLoop>>,
        /// Who adds up the copies of one row.
        by: Adders,
    },
    /// `reduceDimension`: copies of a partial buffer are added up over one dimension, into copy 0 of it
    /// (`reduceDimensionInplace`) or into the result, and are zero afterwards (CPU).
    ReduceDimension {
        /// The buffer.
        buffer: u32,
        /// The dimension.
        dimension: u32,
        /// The registers of the copies it stands in, one for each outer dimension.
        outer: Vec<u32>,
        /// The rows it covers, from the running row on: those that each chain of loops goes over. A row that two
        /// chains cover is added once, since its copies are zero the second time.
        rows: Vec<Vec<RowLoop>>,
        /// Whether the sum stays in the buffer; otherwise it goes into the result.
        in_place: bool,
        /// Whether it is added to the result with an atomic operation.
        atomic: bool,
        /// Sums at a time.
        vector: u32,
    },
}

impl Op {
    /// The statements inside: a loop's body, or every case's.
    pub fn bodies(&self) -> Vec<&[Self]> {
        match self {
            Self::Loop(l) => vec![&l.body],
            Self::Accumulate { body, .. } | Self::Only { body, .. } => vec![body],
            Self::Cases { cases, .. } => cases.iter().map(|(_, body)| &body[..]).collect(),
            Self::Walk(_)
            | Self::CacheRows { .. }
            | Self::CacheTrees { .. }
            | Self::ClearShared
            | Self::ReduceShared { .. }
            | Self::ReduceDimension { .. } => Vec::new(),
        }
    }
}

/// Who adds up the private copies of a row's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adders {
    /// One unit, a row each: there are rows enough.
    Unit,
    /// All units of the cube, halving the copies with a barrier between (the reduction draft, section 4.1.2).
    Cube,
    /// The units of a plane, by its own operation.
    Plane,
}

/// How leaves become a row's margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// They are added up.
    Sum,
    /// The least.
    Min,
    /// The largest.
    Max,
    /// They are added up as whole numbers of two words each, in any order the same sum.
    Fixed,
}

impl Combine {
    /// Words of a sum.
    pub fn words(self) -> u32 {
        if self == Self::Fixed { 2 } else { 1 }
    }
}

/// A node's words on a cube target: as few as the model allows.
///
/// | words | what they hold |
/// |---|---|
/// | 1 | the threshold's high bits; below them flags and the column, and where a child is named the way to it |
/// | 2 | the threshold; flags and the column, and where a child is named the way to it |
/// | 3 | the threshold; flags and the column; the named child's address |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeFormat {
    /// Words (u32).
    pub words: u32,
    /// Bits of the column.
    pub column_bits: u32,
    /// Low bits that all thresholds have clear, and that a node of one word keeps flags and column in.
    pub spare_bits: u32,
}

impl NodeFormat {
    /// Room for everything: the threshold, the column, and a child's address where one is named.
    pub fn whole(children: Children) -> Self {
        let words = if children.named() { 3 } else { 2 };
        Self { words, column_bits: 24, spare_bits: 0 }
    }

    /// Bits below the column in the only word of a node that names a child: the way to it, lowest, so that it takes one
    /// operation to read.
    pub fn column_shift(self, children: Children) -> u32 {
        if self.words == 1 && children.named() { self.link_bits() } else { 0 }
    }

    /// Bits that hold the way to the named child: of a second word, or, of ranks, of the only one.
    pub fn link_bits(self) -> u32 {
        match self.words {
            1 => self.spare_bits.saturating_sub(self.column_bits + 1),
            _ => 28 - self.column_bits,
        }
    }
}

/// The tree cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CachedTrees {
    /// Trees of the window.
    pub trees: u32,
    /// Words that the nodes of any such window take, at most.
    pub words: u32,
}

/// A partial sum's dimension: a private copy for each iteration of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyDim {
    /// Copies: iterations of the loop on a CPU.
    pub count: Value,
    /// On a GPU, the launch dimension whose index is the copy's.
    pub gpu: Option<GpuDim>,
    /// On a CPU, the register and the range that give the copy's index.
    pub register: u32,
    /// First offset of the loop.
    pub start: Value,
    /// Step of the loop.
    pub step: Value,
}

/// A buffer of partial sums, `[copies…][batch][outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partial {
    /// Its copy dimensions, outermost first.
    pub dims: Vec<CopyDim>,
    /// Whose sums these are, where a row is not always the same unit's (cube).
    pub owner: u32,
}

/// Partial sums in shared memory, `[copies][rows][outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedSums {
    /// Block axes whose units have a copy each, and how many.
    pub axes: Vec<(Axis, u32)>,
    /// Rows of the window.
    pub rows: u32,
}

impl SharedSums {
    /// Private copies.
    pub fn copies(&self) -> u32 {
        self.axes.iter().map(|(_, n)| n).product()
    }
}

/// What a run writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Emit {
    /// Margins: `rows x outputs`, f32.
    Margins,
    /// Values: margins times the forest's scale, transformed, f32.
    Values(Transform),
    /// Leaf slots: `rows x trees` in the producer's tree order, u32.
    Slots,
    /// For each visit its worker and its place in the worker's order: `rows x trees x 2`, u32.
    Trace,
}

impl Emit {
    /// Whether leaves are added up at all.
    pub fn sums(self) -> bool {
        matches!(self, Self::Margins | Self::Values(_))
    }

    /// What becomes of margins before they are written.
    pub fn transform(self) -> Transform {
        if let Self::Values(transform) = self { transform } else { Transform::Identity }
    }

    /// Words a row, for a forest of so many outputs and trees.
    pub fn width(self, outputs: u32, trees: u32) -> u32 {
        match self {
            Self::Margins => outputs,
            Self::Values(transform) => transform.width(outputs),
            Self::Slots => trees,
            Self::Trace => trees.saturating_mul(2),
        }
    }
}

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Native code on the CPU.
    Cpu,
    /// A cubecl kernel.
    Cube,
}

/// The type of the rows in memory; values of each are widened exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowType {
    /// 32-bit.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    BF16,
    /// Ranks of one byte.
    U8,
    /// Ranks of two bytes.
    U16,
}

impl RowType {
    /// Values in a word.
    pub fn per_word(self) -> u32 {
        match self {
            Self::F32 => 1,
            Self::F16 | Self::BF16 | Self::U16 => 2,
            Self::U8 => 4,
        }
    }

    /// Of ranks, the bits of a key below the rank; all of them are set. There is one bit more above than a rank takes, so
    /// that a word can stand above every key.
    pub fn rank_shift(self) -> Option<u32> {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => None,
            Self::U8 => Some(23),
            Self::U16 => Some(15),
        }
    }
}

/// A kernel's shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Where it runs.
    pub target: Target,
    /// What it writes.
    pub emit: Emit,
    /// What follows that.
    pub tail: Tail,
    /// The layout.
    pub layout: LayoutKind,
    /// How walks step through it.
    pub children: Children,
    /// A node's words on a cube target.
    pub node: NodeFormat,
    /// How leaves become margins.
    pub combine: Combine,
    /// Whether some node asks more than a threshold: see [`question`].
    pub questions: bool,
    /// Outputs a row.
    pub outputs: u32,
    /// Whether a leaf holds a value for each output.
    pub vector_leaves: bool,
    /// Columns that are cached, where rows are; otherwise their number is known at run time only.
    pub features: u32,
    /// Whether nodes count columns among those the model uses, which a table of the model names.
    pub used_columns: bool,
    /// Trees of a group, where the row cache holds the columns of the running group's trees only: their places are in the
    /// group's own list.
    pub column_group: Option<u32>,
    /// The type of the rows that are walked.
    pub rows: RowType,
    /// Where those are ranks that are made as rows are cached: the type of the rows in memory.
    pub ranks_from: Option<RowType>,
    /// Units of a cube; `[1, 1, 1]` on a CPU.
    pub cube_dim: [u32; 3],
    /// Iterations mapped to each axis of the grid.
    pub grid: [Option<Value>; 3],
    /// Rows of the row cache, if there is one.
    pub cached_rows: Option<u32>,
    /// The tree cache, if there is one.
    pub cached_trees: Option<CachedTrees>,
    /// Partial sums in shared memory, if there are any.
    pub shared_sums: Option<SharedSums>,
    /// Partial sums in global memory.
    pub partials: Vec<Partial>,
    /// What the slots stand for.
    pub sizes: Vec<Size>,
    /// The statements.
    pub body: Vec<Op>,
}

impl Plan {
    /// Shared memory in bytes.
    pub fn shared_bytes(&self) -> u32 {
        let cache = self.cached_keys();
        let trees = self.cached_trees.map_or(0, |c| c.words);
        let sums = self
            .shared_sums
            .as_ref()
            .map_or(0, |s| s.copies().saturating_mul(s.rows).saturating_mul(self.sum_words()));
        cache.saturating_add(trees).saturating_add(sums).saturating_mul(4)
    }

    /// Words of a row's sums.
    pub fn sum_words(&self) -> u32 {
        self.outputs.saturating_mul(self.combine.words())
    }

    /// Every statement, outermost first.
    pub fn ops(&self) -> Vec<&Op> {
        fn all<'a>(ops: &'a [Op], out: &mut Vec<&'a Op>) {
            for op in ops {
                out.push(op);
                op.bodies().into_iter().for_each(|body| all(body, out));
            }
        }
        let mut out = Vec::new();
        all(&self.body, &mut out);
        out
    }

    /// Whether every row's result is written once, from the base score on, so that it needs no start.
    pub fn sums_once(&self) -> bool {
        let first = |s: &Sum| !matches!(s, Sum::Result { first: false } | Sum::Atomic);
        let once = |op: &&Op| match op {
            Op::Walk(w) => w.into.iter().all(first),
            Op::Accumulate { into, .. } | Op::ReduceShared { into, .. } => first(into),
            Op::ReduceDimension { .. } => false,
            _ => true,
        };
        self.partials.is_empty() && self.ops().iter().all(once)
    }

    /// Whether some sum is added to the result with atomic operations.
    pub fn is_atomic(&self) -> bool {
        self.ops().iter().any(|op| match op {
            Op::Walk(w) => w.into == Some(Sum::Atomic),
            Op::Accumulate { into, .. } | Op::ReduceShared { into, .. } => *into == Sum::Atomic,
            _ => false,
        })
    }

    /// Barriers in the kernel's text.
    pub fn barriers(&self) -> u32 {
        let barriers = |op: &&Op| match op {
            Op::CacheRows { .. } | Op::CacheTrees { .. } => 2,
            Op::ReduceShared { rows, by, .. } => {
                let copies = self.shared_sums.as_ref().map_or(1, SharedSums::copies);
                let halvings = if *by == Adders::Cube { copies.next_power_of_two().ilog2() } else { 0 };
                1 + rows.len() as u32 + halvings
            }
            Op::ClearShared => 1,
            _ => 0,
        };
        match self.target {
            Target::Cpu => 0,
            Target::Cube => self.ops().iter().map(barriers).sum(),
        }
    }

    /// Units of a cube.
    pub fn units(&self) -> u32 {
        self.cube_dim.iter().product()
    }

    /// A value for these extents.
    pub fn resolve(&self, value: Value, at: Extents) -> u32 {
        match value {
            Value::Const(n) => n,
            Value::Slot(s) => self.sizes[s as usize].resolve(at),
        }
    }
}
