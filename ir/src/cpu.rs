//! The CPU's dialect: loops on threads, tested steps, blends, staged reductions.

use std::fmt;

use crate::{
    Dialect, Dim, Op, Plan, RowLoop, Scope, Target, Value,
    plan::{self, any},
};

/// Native code on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cpu;

/// A loop's iterations run on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parallel;

/// Where sums are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sum {
    /// The result: `result[row][output]`.
    Result {
        /// Whether the addition is atomic.
        atomic: bool,
    },
    /// A private copy: `partial[copy][row][output]` of a buffer of [`Head::partials`].
    Partial {
        /// The buffer.
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

/// What a CPU's plan says of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Steps after the straight-line ones that each test for a leaf: by then most walks have come to theirs.
    pub tested: u32,
    /// Levels of each tree from the root down that blends evaluate instead, `u32::MAX` where those are all: the steps are
    /// for trees and rows that blends have no room for.
    pub blend: Option<u32>,
    /// Where the leaf is added.
    pub into: Sum,
}

/// A partial sum's dimension: a private copy for each iteration of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CopyDim {
    /// Copies: iterations of the loop.
    pub count: Value,
    /// Register of the loop: the copy's index is `(register - start) / step`.
    pub register: u32,
    /// First offset of the loop.
    pub start: Value,
    /// Step of the loop.
    pub step: Value,
}

/// What a CPU's plan says as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Head {
    /// Buffers of partial sums, `[copies…][batch][outputs]`: the copy dimensions of each, outermost first.
    pub partials: Vec<Vec<CopyDim>>,
}

/// A statement of the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// `cacheRows`: rows are brought close.
    CacheRows {
        /// Rows of the window, from the running row on; `u32::MAX` where those are as many as there are.
        rows: u32,
    },
    /// `cacheTrees`: trees are brought close.
    CacheTrees {
        /// Trees of the window, from the running tree on.
        trees: u32,
    },
    /// `reduceDimension`: copies of a partial buffer are added up over one dimension, into copy 0 of it
    /// (`reduceDimensionInplace`) or into the result, and are zero afterwards.
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

impl Plan<Cpu> {
    /// The rows of the one window that each row is read into once, outside all loops over trees, where there are blends that
    /// find their rows in it.
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

    fn write_launch(_: &Plan<Self>, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
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
