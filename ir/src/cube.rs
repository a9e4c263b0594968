//! The dialect of cubecl kernels: launch dimensions, caches in shared memory, sums that units share,
//! epilogues.

mod cache;
mod interned;
mod sums;

use std::fmt;

pub use interned::{Facts, PlanRef};
pub use sums::EpilogueSite;

use crate::{
    Axis, Children, Dialect, Emit, EpiloguePlan, GpuDim, Op, Plan, RowLoop, RowType, Scope, Target, Value,
    plan,
};

/// The GPU target: a cubecl kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cube;

/// A loop whose iterations are spread over a dimension of the launch. If the loop is longer than the
/// dimension, each unit or cube takes further iterations in strides of the dimension's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MappedLoop {
    /// The dimension of the launch.
    pub dim: GpuDim,
    /// Whether the dimension is at least as long as the loop, so that no unit has a second iteration.
    pub single: bool,
}

/// Where a leaf value or a sum is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sum {
    /// The result itself: `result[row][output]`.
    Result {
        /// Whether this is the only sum that goes to the result. It then starts from the base score.
        /// Otherwise it is added to the number in the result.
        first: bool,
    },
    /// The result itself, by an atomic addition.
    Atomic,
    /// A private copy of the sums: `partial[copy][row][output]` of a buffer of [`Head::partials`].
    Partial {
        /// Index of the buffer in [`Head::partials`].
        buffer: u32,
    },
    /// A private copy of the sums in the cube's shared memory: `shared[copy][row - first row][output]`.
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

/// The kernel's own data of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Whether the walk reads rows from the row cache.
    pub cached_rows: bool,
    /// Whether the walk reads nodes from the tree cache.
    pub cached_trees: bool,
    /// Where the leaf value is added. `None` inside [`Statement::Accumulate`], where it is added to the
    /// register sum.
    pub into: Option<Sum>,
}

/// The units that add up the private copies of a row's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Adders {
    /// One unit for each row. Chosen if there are enough rows to keep units busy.
    Unit,
    /// All units of the cube together. They halve the number of copies again and again, with a barrier each
    /// time (the reduction draft, section 4.1.2).
    Cube,
    /// All units of a plane together, by a plane operation.
    Plane,
}

/// A statement that only kernels have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Sets a register sum for the running row to the sum of no leaves, runs the body, and adds the register
    /// to `into`.
    Accumulate {
        /// The statements that add to the register sum.
        body: Vec<Op<Cube>>,
        /// Where the register sum is added.
        into: Sum,
    },
    /// Runs the body only in the first unit or cube along `dims`.
    Only {
        /// Dimensions of the launch that no enclosing loop is mapped to.
        dims: Vec<GpuDim>,
        /// The statements that run once.
        body: Vec<Op<Cube>>,
    },
    /// `cacheRows`: copies the `rows` rows from the running row on into shared memory, as keys, between two
    /// barriers.
    CacheRows {
        /// Number of rows to cache.
        rows: u32,
    },
    /// `cacheTrees`: copies the nodes of the `trees` trees from the running tree on into shared memory,
    /// between two barriers.
    CacheTrees {
        /// Number of trees to cache.
        trees: u32,
    },
    /// Sets the cube's partial sums to the sum of no leaves, then waits at a barrier. They are the sums
    /// of the rows from the running row on.
    ClearShared,
    /// Waits at a barrier, adds the partial sums of each row to `into`, resets them to the sum of no leaves,
    /// and waits at a barrier again.
    ReduceShared {
        /// Where the sums are added.
        into: Sum,
        /// The rows to add up, from the running row on: the union of the rows that each chain of loops goes
        /// over. The cube's units share out the iterations of a chain's first loop.
        rows: Vec<Vec<RowLoop>>,
        /// The units that add up the copies of one row.
        by: Adders,
    },
}

/// The words of a node: as few as the model allows.
///
/// | words | content |
/// |---|---|
/// | 1 | the threshold's high bits; below them flags, column and, if a child is named, the distance to it |
/// | 2 | the threshold; flags, column and, if a child is named, the distance to it |
/// | 3 | the threshold; flags and column; the named child's address |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeFormat {
    /// Number of words (u32).
    pub words: u32,
    /// Number of bits of the column.
    pub column_bits: u32,
    /// Number of low bits that are zero in every threshold. A node of one word keeps its flags and column in
    /// them.
    pub spare_bits: u32,
}

impl NodeFormat {
    /// Returns the format with room for everything: the threshold, the column and, if nodes name a child, its
    /// address.
    pub fn whole(children: Children) -> Self {
        let words = if children.named() { 3 } else { 2 };
        Self { words, column_bits: 24, spare_bits: 0 }
    }

    /// Returns the number of bits below the column in a node of one word that names a child, otherwise 0.
    /// Those bits hold the distance to the child. They are the lowest ones so that one operation reads the
    /// distance.
    pub fn column_shift(self, children: Children) -> u32 {
        if self.words == 1 && children.named() { self.link_bits() } else { 0 }
    }

    /// Returns the number of bits that hold the distance to the named child. They are bits of the second
    /// word, or of the only word if rows are ranks.
    pub fn link_bits(self) -> u32 {
        match self.words {
            1 => self.spare_bits.saturating_sub(self.column_bits + 1),
            _ => 28 - self.column_bits,
        }
    }
}

/// The tree cache in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CachedTrees {
    /// Number of trees in the cache.
    pub trees: u32,
    /// Maximum number of words that the nodes of as many trees take.
    pub words: u32,
}

/// A buffer of partial sums in global memory, `[copies…][batch][outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partial {
    /// The launch dimensions that have copies, outermost first. A unit's indices in them make up the index of
    /// its copy.
    pub dims: Vec<GpuDim>,
    /// Number of the assignment of rows to units that these sums belong to. Walks that assign rows to units
    /// otherwise have copies of their own, so that no two units add to the same copy of a row.
    pub owner: u32,
}

/// Partial sums in shared memory, `[copies][rows][outputs]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SharedSums {
    /// Block axes whose units have a copy each, with the number of units of each axis.
    pub axes: Vec<(Axis, u32)>,
    /// Number of rows that have sums there.
    pub rows: u32,
}

impl SharedSums {
    /// Returns the number of private copies.
    pub fn copies(&self) -> u32 {
        self.axes.iter().map(|(_, n)| n).product()
    }
}

/// The kernel's own data of a whole plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Head {
    /// The epilogue: the steps after the margins or values, and the result's type.
    pub epilogue: EpiloguePlan,
    /// The words of a node.
    pub node: NodeFormat,
    /// Number of columns of the row cache. It is 0 without a row cache: the number of columns is then known
    /// at run time only.
    pub features: u32,
    /// Whether a node's column is an index into a list of the columns that the model uses. The list is a
    /// table of the model.
    pub used_columns: bool,
    /// Number of trees of a group, if the row cache holds only the columns that the running group's trees
    /// read. A node's column is then an index into its group's own list.
    pub column_group: Option<u32>,
    /// The type of the rows in memory, if a row's values become ranks when the row is cached.
    pub ranks_from: Option<RowType>,
    /// Number of units of a cube along each axis.
    pub cube_dim: [u32; 3],
    /// Number of iterations that are mapped to each axis of the grid.
    pub grid: [Option<Value>; 3],
    /// Number of rows of the row cache, if there is one.
    pub cached_rows: Option<u32>,
    /// The tree cache, if there is one.
    pub cached_trees: Option<CachedTrees>,
    /// Partial sums in shared memory, if there are any.
    pub shared_sums: Option<SharedSums>,
    /// Partial sums in global memory.
    pub partials: Vec<Partial>,
}

impl Head {
    /// Returns the head of a kernel whose cubes have one unit and cache nothing.
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

    /// Returns the number of units of a cube.
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
    /// Returns the number of words of a row's sums.
    pub fn sum_words(&self) -> u32 {
        self.outputs.saturating_mul(self.combine.words())
    }

    /// Returns the size of the cube's shared memory in bytes.
    pub fn shared_bytes(&self) -> u32 {
        let cache = self.cached_keys();
        let trees = self.own.cached_trees.map_or(0, |c| c.words);
        let sums = |s: &SharedSums| s.copies().saturating_mul(s.rows).saturating_mul(self.sum_words());
        let sums = self.own.shared_sums.as_ref().map_or(0, sums);
        cache.saturating_add(trees).saturating_add(sums).saturating_mul(4)
    }

    /// Returns the number of barriers in the kernel's text.
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
            Emit::Values(t) => format!("values({}, {})", t.name(), plan.epilogue_site().name()),
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
            writeln!(f, "  epilogue ({}): {}", plan.epilogue_site().name(), own.epilogue)?;
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
            // Not every unit runs the body, so no barrier may stand in it.
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
