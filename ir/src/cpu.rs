//! The CPU's dialect of plans: loops on threads, steps with a leaf test, blends, staged reductions.

use std::fmt;

use crate::{
    Dialect, Dim, FewRows, Op, Plan, RowLoop, Scope, Target, Value,
    plan::{self, any},
};

/// The CPU target: native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cpu;

/// The mapping of a loop whose iterations run on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parallel;

/// Where a walk adds its leaf value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sum {
    /// The result itself: `result[row][output]`.
    Result {
        /// Whether the addition is atomic.
        atomic: bool,
    },
    /// A private copy of the sums: `partial[copy][row][output]` of a buffer of [`Head::partials`].
    Partial {
        /// Index of the buffer in [`Head::partials`].
        buffer: u32,
        /// Whether the addition is atomic.
        atomic: bool,
    },
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Result { atomic: false } => write!(f, "result +="),
            Self::Result { atomic: true } => write!(f, "result atomic +="),
            Self::Partial { buffer, atomic: false } => write!(f, "partial{buffer} +="),
            Self::Partial { buffer, atomic: true } => write!(f, "partial{buffer} atomic +="),
        }
    }
}

/// The CPU's own data of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Number of steps after the straight-line steps, each with a leaf test. After them most walks have
    /// reached their leaf.
    pub tested: u32,
    /// Number of levels of each tree, from the root down, that blends evaluate instead of steps. `u32::MAX`
    /// stands for all levels. The steps then serve only trees and rows that blends can't serve. `None` means
    /// that nothing is blended.
    pub blend: Option<u32>,
    /// Where the leaf value is added.
    pub into: Sum,
}

/// A dimension of a buffer of partial sums: one private copy for each iteration of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyDim {
    /// Number of copies, which is the number of iterations of the loop.
    pub count: Value,
    /// Register of the loop. A copy's index is `(register - start) / stride`.
    pub register: u32,
    /// First offset of the loop.
    pub start: Value,
    /// Distance from one offset of the loop to the next.
    pub stride: Value,
}

/// The CPU's own data of a whole plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// The copy dimensions of each buffer of partial sums, outermost first. A buffer has the shape
    /// `[copies…][batch][outputs]`.
    pub partials: Vec<Vec<CopyDim>>,
    /// How blocks of a few rows are evaluated: as the schedule says in a plan that was just lowered, and by the engine
    /// that there is in the plan of a program.
    pub few_rows: FewRows,
    /// Number of rows from which on a block is evaluated like one of many rows. Only the plan of a program has it.
    pub few_rows_end: Option<u32>,
    /// How blocks of many rows are evaluated. Only the plan of a program has it.
    pub many_rows: Option<ManyRows>,
}

/// How a program evaluates blocks of many `f32` rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ManyRows {
    /// Name of the engine.
    pub engine: &'static str,
    /// Number of rows from which on a block goes through the engine. Blocks of fewer rows, if the engine for a few rows
    /// does not serve them, are walked.
    pub from: u32,
}

/// A statement that only CPU plans have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// `cacheRows`: brings rows close to the core. The CPU copies them into a window or prefetches them,
    /// whichever pays.
    CacheRows {
        /// Number of rows of the window, from the running row on. `u32::MAX` stands for all rows there are.
        rows: u32,
    },
    /// `cacheTrees`: asks for trees to be brought close to the core. The CPU drops it, because a prefetch of
    /// nodes that are read right after it does not pay.
    CacheTrees {
        /// Number of trees to bring close, from the running tree on.
        trees: u32,
    },
    /// `reduceDimension`: adds up the copies of a partial buffer over one dimension. The sum goes into copy 0
    /// of the dimension (`reduceDimensionInplace`) or into the result. The copies are zero afterwards.
    ReduceDimension {
        /// Index of the buffer in [`Head::partials`].
        buffer: u32,
        /// Index of the dimension that is added up.
        dimension: u32,
        /// Registers that select the copy in each outer dimension, outermost first.
        outer: Vec<u32>,
        /// The rows to add up, from the running row on: the union of the rows that each chain of loops goes
        /// over. A row that two chains cover is added once, since its copies are zero the second time.
        rows: Vec<Vec<RowLoop>>,
        /// Whether the sum stays in the buffer. Otherwise it goes into the result.
        in_place: bool,
        /// Whether the sum is added to the result with an atomic operation.
        atomic: bool,
        /// Number of sums that are added at a time.
        vector: u32,
    },
}

impl Plan<Cpu> {
    /// Returns the number of rows of the window that blends read their rows from. It is `None` unless the
    /// plan blends and has exactly one `cacheRows`, which stands outside all loops over trees so that each
    /// row is read into it once.
    pub fn blend_window(&self) -> Option<u32> {
        fn is_window(op: &Op<Cpu>) -> bool {
            matches!(op, Op::Own(Statement::CacheRows { .. }))
        }
        fn within(ops: &[Op<Cpu>], window: bool) -> bool {
            let mut window = window;
            ops.iter().all(|op| match op {
                op if is_window(op) => {
                    window = true;
                    true
                }
                Op::Walk(_) => window,
                Op::Loop(l) if l.dim == Dim::Tree && !window => {
                    !any(&l.body, &is_window) && within(&l.body, window)
                }
                op => op.bodies().into_iter().all(|body| within(body, window)),
            })
        }
        let window = |op: &Op<Cpu>| match op {
            Op::Own(Statement::CacheRows { rows }) => Some(*rows),
            _ => None,
        };
        let windows: Vec<u32> = self.ops().into_iter().filter_map(window).collect();
        match windows[..] {
            [rows] if self.walks().any(|w| w.own.blend.is_some()) && within(&self.body, false) => Some(rows),
            _ => None,
        }
    }
}

impl Dialect for Cpu {
    const TARGET: Target = Target::Cpu;
    type Op = Statement;
    type Map = Parallel;
    type Walk = Walk;
    type Head = Head;

    fn body(_: &Statement) -> Option<&[Op<Self>]> {
        None
    }

    fn emit_text(plan: &Plan<Self>) -> String {
        plan.emit.to_string()
    }

    fn node_text(_: &Plan<Self>) -> String {
        String::new()
    }

    fn write_launch(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  few rows: {}", plan.own.few_rows.name())?;
        if let Some(end) = plan.own.few_rows_end {
            write!(f, ", of blocks of fewer than {end}")?;
        }
        writeln!(f, "{}", plan.own.few_rows.out_of_reach())?;
        match plan.own.many_rows {
            Some(ManyRows { engine, from: 0 | 1 }) => writeln!(f, "  many rows: {engine}"),
            Some(ManyRows { engine, from }) => {
                let between = plan.own.few_rows_end.is_none_or(|end| end < from);
                let walked = if between { ", walks of smaller ones" } else { "" };
                writeln!(f, "  many rows: {engine}, of blocks of {from} and more{walked}")
            }
            None => Ok(()),
        }
    }

    fn write_buffers(plan: &Plan<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, dims) in plan.own.partials.iter().enumerate() {
            let copies: Vec<String> = dims.iter().map(|d| d.count.to_string()).collect();
            writeln!(f, "  partial{i}: f32[{}, batch, {}]", copies.join(", "), plan.outputs)?;
        }
        Ok(())
    }

    fn map_text(_: Parallel) -> String {
        "par.for".to_owned()
    }

    fn walk_text(walk: &plan::Walk<Self>, start: &str, rest: &str) -> String {
        let Walk { tested, blend, into } = &walk.own;
        let tested = if *tested > 0 { format!(" tested {tested}") } else { String::new() };
        let blend = match blend {
            None => String::new(),
            Some(u32::MAX) => ", or blend".to_owned(),
            Some(levels) => format!(", or from {levels} blended levels on"),
        };
        format!("{into} {start}{tested}{rest}{blend}")
    }

    fn write_op(plan: &Plan<Self>, op: &Statement, f: &mut fmt::Formatter<'_>, _: usize) -> fmt::Result {
        match op {
            Statement::CacheRows { .. } => writeln!(f, "cacheRows"),
            Statement::CacheTrees { .. } => writeln!(f, "cacheTrees"),
            Statement::ReduceDimension { buffer, dimension, outer, rows, in_place, atomic, vector } => {
                let name = match (in_place, atomic) {
                    (true, _) => "reduceDimensionInplace",
                    (false, false) => "result += reduceDimension",
                    (false, true) => "result atomic += reduceDimension",
                };
                let name = if *vector > 1 { format!("{name} by {vector}") } else { name.to_owned() };
                let outer: Vec<String> = outer.iter().map(|r| format!("r{r}")).collect();
                let rows = plan.chains(rows);
                writeln!(f, "{name}(partial{buffer}, {dimension}, [{}], {rows})", outer.join(", "))
            }
        }
    }

    fn verify(_: &Plan<Self>) -> Result<(), String> {
        Ok(())
    }

    fn verify_walk(plan: &Plan<Self>, walk: &plan::Walk<Self>) -> Result<(), String> {
        match walk.own.into {
            Sum::Partial { buffer, .. } => plan.own.partial(buffer),
            Sum::Result { .. } => Ok(()),
        }
    }

    fn verify_op(plan: &Plan<Self>, op: &Statement, _: Scope) -> Result<(), String> {
        match op {
            Statement::CacheRows { .. } | Statement::CacheTrees { .. } => Ok(()),
            Statement::ReduceDimension { buffer, rows, .. } => {
                plan.own.partial(*buffer)?;
                plan.verify_row_loops(rows)
            }
        }
    }
}

impl Head {
    fn partial(&self, buffer: u32) -> Result<(), String> {
        match self.partials.get(buffer as usize) {
            Some(_) => Ok(()),
            None => Err(format!("no partial {buffer}")),
        }
    }
}
