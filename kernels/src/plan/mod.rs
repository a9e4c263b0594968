//! LIR: the shape of a kernel, and nothing of a model's values.
//!
//! A [`Plan`] is what one schedule on one layout comes to: loops with their mapping, the walk, caches, partial sums
//! and the stages that reduce them. It is plain data. As a cubecl comptime argument it *is* the kernel's identity:
//! whatever is a number here is compiled in, whatever is a slot of [`Plan::sizes`] is read at run time, so that one
//! kernel serves every batch and every model of the same shape.

pub mod question;
mod size;
mod text;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

pub use size::{Extents, Size};

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
}

impl LayoutKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Array, Self::Sparse];

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
    /// The node holds its left child's address; `right = left + 1`.
    Linked,
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
    /// A private copy: `partial[copy][row][output]` of a buffer of [`Plan::partials`].
    Partial {
        /// The buffer.
        buffer: u32,
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

/// `walkDecisionTree`, and `reduce` of what it finds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Walks that advance together, if more than one does.
    pub lanes: Option<Lanes>,
    /// Steps taken in straight-line code, with no test for a leaf.
    pub steps: u32,
    /// Whether those steps reach every leaf; otherwise a loop goes on until the leaf.
    pub complete: bool,
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
    /// `cacheRows`: the `rows` rows from the running row on are put into shared memory as keys, between two
    /// barriers (cube).
    CacheRows {
        /// Rows of the window.
        rows: u32,
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
        /// Whether the sum stays in the buffer.
        in_place: bool,
    },
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
    /// Leaf slots: `rows x trees` in the producer's tree order, u32.
    Slots,
    /// For each visit its worker and its place in the worker's order: `rows x trees x 2`, u32.
    Trace,
}

/// Where a plan runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Native code on the CPU.
    Cpu,
    /// A cubecl kernel.
    Cube,
}

/// The type of the rows in memory; each is widened exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowType {
    /// 32-bit.
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    BF16,
}

/// A kernel's shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// Where it runs.
    pub target: Target,
    /// What it writes.
    pub emit: Emit,
    /// The layout.
    pub layout: LayoutKind,
    /// How walks step through it.
    pub children: Children,
    /// Words (u32) of a node on a cube target.
    pub node_words: u32,
    /// Whether some node asks more than a threshold: see [`question`].
    pub questions: bool,
    /// Outputs a row.
    pub outputs: u32,
    /// Whether a leaf holds a value for each output.
    pub vector_leaves: bool,
    /// Columns of a row, where rows are cached; otherwise they are known at run time only.
    pub features: u32,
    /// The type of the rows.
    pub rows: RowType,
    /// Units of a cube; `[1, 1, 1]` on a CPU.
    pub cube_dim: [u32; 3],
    /// Iterations mapped to each axis of the grid.
    pub grid: [Option<Value>; 3],
    /// Rows of the row cache, if there is one.
    pub cached_rows: Option<u32>,
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
        let cache = self.cached_rows.map_or(0, |rows| rows.saturating_mul(self.features));
        let sums = self
            .shared_sums
            .as_ref()
            .map_or(0, |s| s.copies().saturating_mul(s.rows).saturating_mul(self.outputs));
        cache.saturating_add(sums).saturating_mul(4)
    }

    /// Whether every row's result is written once, from the base score on, so that it needs no start.
    pub fn sums_once(&self) -> bool {
        fn once(ops: &[Op]) -> bool {
            let first = |s: &Sum| !matches!(s, Sum::Result { first: false });
            ops.iter().all(|op| match op {
                Op::Loop(l) => once(&l.body),
                Op::Walk(w) => w.into.iter().all(first),
                Op::Accumulate { body, into } => first(into) && once(body),
                Op::ReduceShared { into, .. } => first(into),
                Op::CacheRows { .. } | Op::ClearShared => true,
                Op::ReduceDimension { .. } => false,
            })
        }
        self.partials.is_empty() && once(&self.body)
    }

    /// Barriers in the kernel's text.
    pub fn barriers(&self) -> u32 {
        fn count(ops: &[Op]) -> u32 {
            let barriers = |op: &Op| match op {
                Op::Loop(l) => count(&l.body),
                Op::Accumulate { body, .. } => count(body),
                Op::CacheRows { .. } => 2,
                Op::ReduceShared { rows, .. } => 1 + rows.len() as u32,
                Op::ClearShared => 1,
                Op::Walk(_) | Op::ReduceDimension { .. } => 0,
            };
            ops.iter().map(barriers).sum()
        }
        count(&self.body)
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

    /// What is wrong with the plan, if anything is: a register read before it is set, a slot or a buffer that
    /// is not there, a statement of the other target, a barrier inside a block loop.
    pub fn verify(&self) -> Result<(), String> {
        self.verify_ops(&self.body, 0, false)
    }

    fn verify_ops(&self, ops: &[Op], depth: u32, in_block: bool) -> Result<(), String> {
        ops.iter().try_for_each(|op| self.verify_op(op, depth, in_block))
    }

    fn verify_op(&self, op: &Op, depth: u32, in_block: bool) -> Result<(), String> {
        let value = |v: Value| match v {
            Value::Slot(s) if s as usize >= self.sizes.len() => {
                Err(format!("slot {s} of {}", self.sizes.len()))
            }
            _ => Ok(()),
        };
        let limit = |l: &Limit| match l.minus.iter().find(|r| **r >= depth) {
            Some(r) => Err(format!("register {r} is read at depth {depth}, before it is set")),
            None => value(l.end),
        };
        let range = |r: &Range| {
            value(r.start)?;
            value(r.step)?;
            r.limits.iter().try_for_each(limit)
        };
        let sum = |s: &Sum| match s {
            Sum::Partial { buffer } if *buffer as usize >= self.partials.len() => {
                Err(format!("no partial {buffer}"))
            }
            Sum::Shared if self.shared_sums.is_none() => Err("no shared sums".to_owned()),
            _ => Ok(()),
        };
        let only = |target: Target, name: &str| match self.target == target {
            true => Ok(()),
            false => Err(format!("{name} belongs to the other target")),
        };
        let barrier = |name: &str| match in_block {
            true => Err(format!("{name} has a barrier and stands in a block loop")),
            false => only(Target::Cube, name),
        };
        let row_loops = |rows: &[Vec<RowLoop>]| {
            rows.iter().flatten().try_for_each(|l| {
                value(l.range.start)?;
                value(l.range.step)?;
                l.range.limits.iter().try_for_each(|l| value(l.end))
            })
        };
        match op {
            Op::Loop(l) => {
                if l.register != depth {
                    return Err(format!("loop {} keeps register {} at depth {depth}", l.var, l.register));
                }
                range(&l.range)?;
                match l.map {
                    Map::Parallel => only(Target::Cpu, "a parallel loop")?,
                    Map::Gpu { .. } => only(Target::Cube, "a mapped loop")?,
                    Map::Serial => {}
                }
                let block = matches!(l.map, Map::Gpu { dim: GpuDim::Block(_), .. });
                self.verify_ops(&l.body, depth + 1, in_block || block)
            }
            Op::Walk(w) => {
                w.lanes.iter().try_for_each(|l| range(&l.range))?;
                w.into.iter().try_for_each(sum)
            }
            Op::Accumulate { body, into } => {
                only(Target::Cube, "Accumulate")?;
                sum(into)?;
                self.verify_ops(body, depth, in_block)
            }
            Op::CacheRows { .. } => barrier("CacheRows"),
            Op::ClearShared => barrier("ClearShared"),
            Op::ReduceShared { into, rows } => {
                barrier("ReduceShared")?;
                sum(into)?;
                row_loops(rows)
            }
            Op::ReduceDimension { buffer, rows, .. } => {
                only(Target::Cpu, "ReduceDimension")?;
                sum(&Sum::Partial { buffer: *buffer })?;
                row_loops(rows)
            }
        }
    }
}

/// A plan shared by reference whose hash and comparison cost a stored id, not a walk: what a launch hands to cubecl.
#[derive(Clone)]
pub struct PlanRef(Arc<(u64, Plan)>);

impl PlanRef {
    /// Stores the plan with its content's hash.
    pub fn new(plan: Plan) -> Self {
        let mut hasher = std::hash::DefaultHasher::new();
        plan.hash(&mut hasher);
        Self(Arc::new((hasher.finish(), plan)))
    }

    /// The content's hash.
    pub fn id(&self) -> u64 {
        self.0.0
    }
}

impl std::ops::Deref for PlanRef {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.0.1
    }
}

impl PartialEq for PlanRef {
    fn eq(&self, other: &Self) -> bool {
        // Equal ids of different plans would launch the wrong kernel, so the walk is made then, and only then.
        Arc::ptr_eq(&self.0, &other.0) || (self.id() == other.id() && **self == **other)
    }
}

impl Eq for PlanRef {}

impl Hash for PlanRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for PlanRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan#{:016x}", self.id())
    }
}
