//! The dialect of cubecl kernels: launch dimensions, caches in shared memory, sums that units share, what follows them.

mod cache;
mod interned;
mod sums;

use std::fmt;

pub use interned::{Facts, PlanRef};
pub use sums::EpiloguePlace;

use crate::{
    Axis, Children, Dialect, Emit, EpiloguePlan, GpuDim, Op, Plan, RowLoop, RowType, Scope, Target, Value,
    plan,
};

/// A cubecl kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cube;

/// A loop on a dimension of the launch; iterations past its size are taken in strides of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedLoop {
    /// The dimension.
    pub dim: GpuDim,
    /// Whether the dimension is as long as the loop, so that no unit has a second iteration.
    pub single: bool,
}

/// Where sums are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sum {
    /// The result: `result[row][output]`.
    Result {
        /// Whether this is the only sum there, so that it starts from the base score; otherwise it is added.
        first: bool,
    },
    /// The result, by an atomic addition.
    Atomic,
    /// A private copy: `partial[copy][row][output]` of a buffer of [`Head::partials`].
    Partial {
        /// The buffer.
        buffer: u32,
    },
    /// A private copy in the cube's shared memory: `shared[copy][row - window][output]`.
    Shared,
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result { first: true } => write!(f, "result = base +"),
            Self::Result { first: false } => write!(f, "result +="),
            Self::Atomic => write!(f, "result atomic +="),
            Self::Partial { buffer } => write!(f, "partial{buffer} +="),
            Self::Shared => write!(f, "shared +="),
        }
    }
}

/// What a kernel's plan says of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Whether rows are read from the row cache.
    pub cached_rows: bool,
    /// Whether nodes are read from the tree cache.
    pub cached_trees: bool,
    /// Where the leaf is added; `None` inside [`Statement::Accumulate`].
    pub into: Option<Sum>,
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

/// A statement of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// A register sum for the row at hand: zero, the body, then added to `into`.
    Accumulate {
        /// What adds to it.
        body: Vec<Op<Cube>>,
        /// Where the sum goes.
        into: Sum,
    },
    /// The body, by the first unit or cube of dimensions that no loop round it is mapped to.
    Only {
        /// The dimensions.
        dims: Vec<GpuDim>,
        /// What is done once.
        body: Vec<Op<Cube>>,
    },
    /// `cacheRows`: the `rows` rows from the running row on are put into shared memory as keys, between two barriers.
    CacheRows {
        /// Rows of the window.
        rows: u32,
    },
    /// `cacheTrees`: the nodes of the `trees` trees from the running tree on are put into shared memory, between two
    /// barriers.
    CacheTrees {
        /// Trees of the window.
        trees: u32,
    },
    /// The cube's partial sums are set to zero, then a barrier; the window starts at the running row.
    ClearShared,
    /// A barrier, the partial sums of each row are added to `into` and are zero afterwards, a barrier.
    ReduceShared {
        /// Where they go.
        into: Sum,
        /// The rows, from the running row on: those that each chain of loops goes over. The first loop of a chain
        /// is shared out over the cube's units.
        rows: Vec<Vec<RowLoop>>,
        /// Who adds up the copies of one row.
        by: Adders,
    },
}

/// A node's words: as few as the model allows.
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

/// A buffer of partial sums, `[copies…][batch][outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partial {
    /// The launch dimensions whose indices are the copy's, outermost first.
    pub dims: Vec<GpuDim>,
    /// Whose sums these are, where a row is not always the same unit's.
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

/// What a kernel's plan says as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// What follows what is written.
    pub epilogue: EpiloguePlan,
    /// A node's words.
    pub node: NodeFormat,
    /// Columns that are cached, where rows are; otherwise their number is known at run time only.
    pub features: u32,
    /// Whether nodes count columns among those the model uses, which a table of the model names.
    pub used_columns: bool,
    /// Trees of a group, where the row cache holds the columns of the running group's trees only: their places are in the
    /// group's own list.
    pub column_group: Option<u32>,
    /// Where rows are ranks that are made as rows are cached: the type of the rows in memory.
    pub ranks_from: Option<RowType>,
    /// Units of a cube.
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
}

impl Head {
    /// One unit, and nothing cached.
    pub fn new(children: Children) -> Self {
        Self {
            epilogue: EpiloguePlan::default(),
            node: NodeFormat::whole(children),
            features: 0,
            used_columns: false,
            column_group: None,
            ranks_from: None,
            cube_dim: [1; 3],
            grid: [None; 3],
            cached_rows: None,
            cached_trees: None,
            shared_sums: None,
            partials: Vec::new(),
        }
    }

    /// Units of a cube.
    pub fn units(&self) -> u32 {
        self.cube_dim.iter().product()
    }

    fn sum(&self, sum: Sum) -> Result<(), String> {
        match sum {
            Sum::Partial { buffer } if buffer as usize >= self.partials.len() => {
                Err(format!("no partial {buffer}"))
            }
            Sum::Shared if self.shared_sums.is_none() => Err("no shared sums".to_owned()),
            _ => Ok(()),
        }
    }
}

impl Plan<Cube> {
    /// Words of a row's sums.
    pub fn sum_words(&self) -> u32 {
        self.outputs.saturating_mul(self.combine.words())
    }

    /// Shared memory in bytes.
    pub fn shared_bytes(&self) -> u32 {
        let cache = self.cached_keys();
        let trees = self.own.cached_trees.map_or(0, |c| c.words);
        let sums = |s: &SharedSums| s.copies().saturating_mul(s.rows).saturating_mul(self.sum_words());
        let sums = self.own.shared_sums.as_ref().map_or(0, sums);
        cache.saturating_add(trees).saturating_add(sums).saturating_mul(4)
    }

    /// Barriers in the kernel's text.
    pub fn barriers(&self) -> u32 {
        let barriers = |op: &Op<Cube>| match op {
            Op::Own(Statement::CacheRows { .. } | Statement::CacheTrees { .. }) => 2,
            Op::Own(Statement::ReduceShared { rows, by, .. }) => {
                let copies = self.own.shared_sums.as_ref().map_or(1, SharedSums::copies);
                let halvings = if *by == Adders::Cube { copies.next_power_of_two().ilog2() } else { 0 };
                1 + rows.len() as u32 + halvings
            }
            Op::Own(Statement::ClearShared) => 1,
            _ => 0,
        };
        self.ops().into_iter().map(barriers).sum()
    }
}

impl Dialect for Cube {
    const TARGET: Target = Target::Cube;
    type Op = Statement;
    type Map = MappedLoop;
    type Walk = Walk;
    type Head = Head;

    fn body(op: &Statement) -> Option<&[Op<Self>]> {
        match op {
            Statement::Accumulate { body, .. } | Statement::Only { body, .. } => Some(body),
            Statement::CacheRows { .. }
            | Statement::CacheTrees { .. }
            | Statement::ClearShared
            | Statement::ReduceShared { .. } => None,
        }
    }

    fn emit_text(plan: &Plan<Self>) -> String {
        match plan.emit {
            Emit::Values(t) => format!("values({}, {})", t.name(), plan.place().name()),
            emit => emit.to_string(),
        }
    }

    fn node_text(plan: &Plan<Self>) -> String {
        let NodeFormat { words, column_bits, spare_bits } = plan.own.node;
        match spare_bits {
            0 => format!(" words={words} column={column_bits}"),
            _ => format!(" words={words} column={column_bits} threshold={}", 32 - spare_bits),
        }
    }

    fn write_launch(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let grid = plan.own.grid.map(|g| g.map_or("1".to_owned(), |v| v.to_string()));
        writeln!(f, "  launch grid=[{}] block={:?}", grid.join(", "), plan.own.cube_dim)?;
        writeln!(f, "  shared {} bytes, {} barriers", plan.shared_bytes(), plan.barriers())
    }

    fn write_buffers(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = &plan.own;
        if own.cached_rows.is_some() {
            let which = if own.used_columns { "used " } else { "" };
            let from = own.ranks_from.map_or(String::new(), |from| format!(", ranks of {from:?} rows"));
            let group = own.column_group.map_or(String::new(), |trees| format!(" of each {trees} trees"));
            let stride = plan.cached_stride();
            writeln!(f, "  row cache: keys[{which}{}{group}, {stride}]{from}", own.features)?;
        }
        if let Some(CachedTrees { trees, words }) = own.cached_trees {
            writeln!(f, "  tree cache: {words} words for {trees} trees")?;
        }
        if let Some(sums) = &own.shared_sums {
            writeln!(f, "  shared sums: f32[{}, {}, {}]", sums.copies(), sums.rows, plan.outputs)?;
        }
        for (i, partial) in own.partials.iter().enumerate() {
            let copies: Vec<String> = partial.dims.iter().map(ToString::to_string).collect();
            writeln!(f, "  partial{i}: f32[{}, batch, {}]", copies.join(", "), plan.outputs)?;
        }
        if !own.epilogue.is_empty() {
            writeln!(f, "  epilogue ({}): {}", plan.place().name(), own.epilogue)?;
        }
        Ok(())
    }

    fn map_text(map: MappedLoop) -> String {
        format!("{}{} for", map.dim, if map.single { " once" } else { "" })
    }

    fn walk_text(walk: &plan::Walk<Self>, start: &str, rest: &str) -> String {
        let cached = match (walk.own.cached_rows, walk.own.cached_trees) {
            (false, false) => "",
            (true, false) => ", rows cached",
            (false, true) => ", trees cached",
            (true, true) => ", rows and trees cached",
        };
        let into = walk.own.into.map_or(String::new(), |into| format!("{into} "));
        format!("{into}{start}{rest}{cached}")
    }

    fn write_op(plan: &Plan<Self>, op: &Statement, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        let units = plan.own.units();
        match op {
            Statement::Accumulate { body, into } => {
                writeln!(f, "{into} accumulate:")?;
                plan.write_ops(f, body, depth + 1)
            }
            Statement::Only { dims, body } => {
                let dims: Vec<String> = dims.iter().map(|d| format!("{d} = 0")).collect();
                writeln!(f, "only {}:", dims.join(", "))?;
                plan.write_ops(f, body, depth + 1)
            }
            Statement::CacheTrees { trees } => {
                writeln!(f, "barrier; cacheTrees {trees} by {units} units; barrier")
            }
            Statement::CacheRows { rows } => {
                let columns = plan.own.features;
                writeln!(f, "barrier; cacheRows {rows} x {columns} by {units} units; barrier")
            }
            Statement::ClearShared => writeln!(f, "clear shared sums; barrier"),
            Statement::ReduceShared { into, rows, by } => {
                let by = match by {
                    Adders::Unit => "a unit a row",
                    Adders::Cube => "the cube's units together",
                    Adders::Plane => "a plane a row",
                };
                let rows = plan.chains(rows);
                writeln!(f, "barrier; {into} reduce shared sums by {by}, {rows}; barrier")
            }
        }
    }

    fn verify(plan: &Plan<Self>) -> Result<(), String> {
        if plan.own.ranks_from.is_some() && !plan.caches_each_row_once() {
            return Err("rows become ranks in a cache that not each of them is read into once".into());
        }
        let all_cached = || plan.walks().all(|w| w.own.cached_rows);
        if plan.own.column_group.is_some() && (!plan.own.used_columns || !all_cached()) {
            return Err(
                "groups of trees have columns of their own, and a walk reads a row where it lies".into()
            );
        }
        if plan.children.tile() > 1 {
            return Err("a cube's units walk node by node, and the layout holds tiles".into());
        }
        Ok(())
    }

    fn divides(map: MappedLoop) -> bool {
        matches!(map.dim, GpuDim::Block(_))
    }

    fn verify_walk(plan: &Plan<Self>, walk: &plan::Walk<Self>) -> Result<(), String> {
        walk.own.into.map_or(Ok(()), |into| plan.own.sum(into))
    }

    fn verify_op(plan: &Plan<Self>, op: &Statement, scope: Scope) -> Result<(), String> {
        let barrier = |name: &str| match scope.divided {
            true => Err(format!("{name} has a barrier and stands in a block loop")),
            false => Ok(()),
        };
        match op {
            Statement::Accumulate { body, into } => {
                plan.own.sum(*into)?;
                plan.verify_ops(body, scope)
            }
            // Not every unit comes here, so no barrier may.
            Statement::Only { body, .. } => plan.verify_ops(body, Scope { divided: true, ..scope }),
            Statement::CacheRows { .. } => barrier("CacheRows"),
            Statement::CacheTrees { .. } => barrier("CacheTrees"),
            Statement::ClearShared => barrier("ClearShared"),
            Statement::ReduceShared { into, rows, .. } => {
                barrier("ReduceShared")?;
                plan.own.sum(*into)?;
                plan.verify_row_loops(rows)
            }
        }
    }
}
