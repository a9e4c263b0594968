//! From a forest and a schedule, through MIR and a layout, to a plan.

use super::{Children, Emit, Plan, RowType, Size, Target, Value};
use crate::{
    error::{Error, Result},
    forest::{self, Forest, Predicate},
    layout::{self, Layout, LayoutKind, Packed},
    mir::{self, LoopNest},
    schedule::{Device, Schedule, TreeOrder},
};

/// What is to be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The device.
    pub device: Device,
    /// What a run writes.
    pub emit: Emit,
    /// The type of the rows in memory.
    pub rows: RowType,
    /// Worker threads, what `threads` means in a schedule.
    pub threads: u32,
}

impl Request {
    /// Margins of `f32` rows on the CPU, on all threads of the current pool.
    pub fn cpu() -> Self {
        let threads = rayon::current_num_threads() as u32;
        Self { device: Device::Cpu, emit: Emit::Margins, rows: RowType::F32, threads }
    }
}

/// A forest compiled down to LIR, with each stage on the way. Only [`lower`] makes one, so targets may rest on what
/// it has checked: walks stay inside the packed nodes and end in leaves.
#[derive(Clone, Debug)]
pub struct Lowered {
    order: Vec<u32>,
    loops: LoopNest,
    legal: LoopNest,
    packed: Packed,
    plan: Plan,
}

impl Lowered {
    /// The producer's index of the tree at each position.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// The loops as the schedule spells them out.
    pub fn loops(&self) -> &LoopNest {
        &self.loops
    }

    /// The same with legal reductions.
    pub fn legal(&self) -> &LoopNest {
        &self.legal
    }

    /// The nodes in memory.
    pub fn packed(&self) -> &Packed {
        &self.packed
    }

    /// The kernel's shape.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// Lowers a forest that verifies. A pure function: the same input gives the same plan.
///
/// # Errors
/// A schedule that the device can't carry out, or a forest that the layout can't hold, with the remedy.
pub fn lower(forest: &Forest, schedule: &Schedule, request: Request) -> Result<Lowered> {
    let Settled { order, loops, legal, layout, least, plan } = settle(forest, schedule, request)?;
    let packed = layout.pack(forest, &order, &least)?;
    packed.verify().map_err(Error::Internal)?;
    Ok(Lowered { order, loops, legal, packed, plan })
}

/// Whether [`lower`] would do it, without laying nodes out.
///
/// # Errors
/// As [`lower`].
pub fn check(forest: &Forest, schedule: &Schedule, request: Request) -> Result<()> {
    settle(forest, schedule, request).map(drop)
}

/// Everything but the nodes in memory.
struct Settled {
    order: Vec<u32>,
    loops: LoopNest,
    legal: LoopNest,
    layout: &'static dyn Layout,
    least: Vec<u32>,
    plan: Plan,
}

fn settle(forest: &Forest, schedule: &Schedule, request: Request) -> Result<Settled> {
    let target = match request.device {
        Device::Cpu => Target::Cpu,
        Device::Gpu { .. } => Target::Cube,
    };
    let nest = schedule.verify(forest, request.device)?;
    let order = match schedule.tree_order() {
        Some(TreeOrder::Depth) => forest::passes::by_depth(forest),
        None => (0..forest.trees.len() as u32).collect(),
    };
    let loops = LoopNest::build(&nest, target);
    let legal = loops.legalise();
    let layout = layout::layout(schedule.layout_kind().unwrap_or(LayoutKind::Sparse));
    let (least, walks) = walks(forest, layout, &order, &loops, request.threads)?;
    let mut builder = Builder { plan: empty(forest, layout, target, request), walks, next_walk: 0 };
    match request.device {
        Device::Cpu => builder.cpu(&legal),
        Device::Gpu { .. } => builder.cube(&legal, schedule, forest, request.device)?,
    }
    builder.plan.verify().map_err(Error::Internal)?;
    Ok(Settled { order, loops, legal, layout, least, plan: builder.plan })
}

/// Straight-line steps of a walk, and whether they reach every leaf.
pub(super) type Steps = (u32, bool);

/// Settles each walk's straight-line steps, and with them the least depth of each tree's leaves, by position.
fn walks(
    forest: &Forest,
    layout: &dyn Layout,
    order: &[u32],
    loops: &LoopNest,
    threads: u32,
) -> Result<(Vec<u32>, Vec<Steps>)> {
    let depths: Vec<u32> = order.iter().map(|t| forest.trees[*t as usize].depth()).collect();
    let everything = || (0..order.len() as u32).collect::<Vec<_>>();
    let visited: Vec<Vec<u32>> = loops
        .trees_of_walks(order.len() as u32, threads)
        .into_iter()
        .map(|trees| trees.unwrap_or_else(everything))
        .collect();
    let deepest = |trees: &[u32]| trees.iter().map(|k| depths[*k as usize]).max().unwrap_or(0);
    let unrolls = walk_unrolls(&loops.body);
    let steps: Vec<u32> = unrolls
        .iter()
        .zip(&visited)
        .map(|(u, trees)| u.map_or(0, |n| n.unwrap_or_else(|| deepest(trees))))
        .collect();
    let mut least = vec![0; order.len()];
    if !layout.leaves_hold() {
        for (n, trees) in steps.iter().zip(&visited) {
            trees.iter().for_each(|k| least[*k as usize] = least[*k as usize].max(*n));
        }
    }
    let laid = layout.depths(forest, order, &least)?;
    let complete = |(n, trees): (&u32, &Vec<u32>)| (*n, trees.iter().all(|k| laid[*k as usize] <= *n));
    let walks = steps.iter().zip(&visited).map(complete).collect();
    Ok((least, walks))
}

fn walk_unrolls(ops: &[mir::Op]) -> Vec<Option<Option<u32>>> {
    let unrolls = |op: &mir::Op| match op {
        mir::Op::Loop(l) => walk_unrolls(&l.body),
        mir::Op::Walk(w) => vec![w.unroll],
        mir::Op::CacheRows | mir::Op::Reduce(_) => Vec::new(),
    };
    ops.iter().flat_map(unrolls).collect()
}

fn empty(forest: &Forest, layout: &dyn Layout, target: Target, request: Request) -> Plan {
    let asks = |n: &forest::Node| match n {
        forest::Node::Split { predicate, .. } => {
            !matches!(predicate, Predicate::Less { .. } | Predicate::Always)
        }
        forest::Node::Leaf { .. } => false,
    };
    Plan {
        target,
        emit: request.emit,
        layout: layout.kind(),
        children: layout.children(),
        node_words: if layout.children() == Children::Linked { 3 } else { 2 },
        questions: forest.trees.iter().any(|t| t.nodes.iter().any(asks)),
        outputs: forest.outputs,
        vector_leaves: forest.targets == forest::Targets::All,
        features: 0,
        rows: request.rows,
        cube_dim: [1; 3],
        grid: [None; 3],
        cached_rows: None,
        shared_sums: None,
        partials: Vec::new(),
        sizes: Vec::new(),
        body: Vec::new(),
    }
}

/// A plan in the making.
pub(super) struct Builder {
    pub(super) plan: Plan,
    pub(super) walks: Vec<Steps>,
    pub(super) next_walk: usize,
}

impl Builder {
    /// The value of a size: compiled in where it is a number, otherwise a slot.
    pub(super) fn value(&mut self, size: &Size) -> Value {
        if let Some(n) = size.constant() {
            return Value::Const(n);
        }
        let slot = self.plan.sizes.iter().position(|s| s == size).unwrap_or_else(|| {
            self.plan.sizes.push(size.clone());
            self.plan.sizes.len() - 1
        });
        Value::Slot(slot as u32)
    }

    pub(super) fn range(&mut self, var: &crate::schedule::IndexVar) -> super::Range {
        let limit = |b: &mut Self, bound: &crate::schedule::Bound| super::Limit {
            end: b.value(&bound.end),
            minus: bound.minus.iter().map(|d| *d as u32).collect(),
        };
        let start = self.value(&var.start);
        let step = self.value(&var.step);
        super::Range { start, step, limits: var.bounds.iter().map(|b| limit(self, b)).collect() }
    }

    /// A walk at `depth`, its sum going to `into`.
    pub(super) fn walk(&mut self, walk: &mir::Walk, depth: usize, into: Option<super::Sum>) -> super::Walk {
        let (steps, complete) = self.walks.get(self.next_walk).copied().unwrap_or((0, false));
        self.next_walk += 1;
        let lanes = walk.lanes.as_ref().map(|var| super::Lanes {
            dim: var.dim,
            count: var.extent().constant().unwrap_or(1),
            range: self.range(var),
            register: depth as u32,
        });
        super::Walk { lanes, steps, complete, into }
    }
}
