//! Lowers MIR to a CPU plan: loops keep their order and their mode, partial sums are buffers, stages are
//! statements.

use super::{
    Dialect, Dim, Extents, Loop, Map, Op, RowLoop, Size,
    cpu::{CopyDim, Cpu, Parallel, Statement, Sum, Walk},
    lower::Builder,
};
use crate::{
    mir::{self, BufferId, LoopNest, Mode},
    schedule::IndexVar,
};

impl Builder<Cpu> {
    pub(super) fn cpu(&mut self, nest: &LoopNest) {
        for partial in &nest.partials {
            let dims = partial.loops.iter().map(|l| CopyDim {
                count: self.value(&l.var.extent()),
                register: l.depth as u32,
                start: self.value(&l.var.start),
                stride: self.value(&l.var.stride),
            });
            let dims = dims.collect();
            self.plan.own.partials.push(dims);
        }
        self.plan.body = self.cpu_ops(nest, &nest.body, 0, None);
        if self.plan.walks().any(|walk| walk.own.blend.is_some()) && self.plan.blend_window().is_none() {
            let instead = "rows are not read in one cache outside the loops over trees (cache(b0)), so they are ranked \
                           first, and trees are walked";
            self.note("evaluate(…, blend)", instead);
        }
    }

    fn cpu_ops(
        &mut self,
        nest: &LoopNest,
        ops: &[mir::Op],
        depth: usize,
        touched_rows: Option<u32>,
    ) -> Vec<Op<Cpu>> {
        let mut out = Vec::new();
        // The loop before a stage says which rows the stage covers.
        let mut rows = Vec::new();
        for op in ops {
            match op {
                mir::Op::Loop(l) => {
                    let range = self.range(&l.var);
                    let body = self.cpu_ops(nest, &l.body, depth + 1, l.touched_rows);
                    let map = if l.mode == Mode::Serial { self.serial(l) } else { Map::Own(Parallel) };
                    rows = self.row_loops(op, depth);
                    out.push(Op::Loop(Loop {
                        var: l.var.name.clone(),
                        dim: l.var.dim,
                        register: depth as u32,
                        range,
                        map,
                        body,
                    }));
                }
                mir::Op::Walk(w) => {
                    let into = match (w.into, w.atomic) {
                        (BufferId::Result, atomic) => Sum::Result { atomic },
                        (BufferId::Partial(buffer), atomic) => Sum::Partial { buffer: buffer as u32, atomic },
                    };
                    let blend = w.evaluate.levels();
                    out.push(Op::Walk(self.walk(w, depth, |tested| Walk { tested, blend, into })));
                }
                mir::Op::Cases(cases) => {
                    let mut case = |c: &mir::Case| (c.end, self.cpu_ops(nest, &c.body, depth, None));
                    let lowered_cases = cases.cases.iter().map(&mut case).collect();
                    out.push(Op::Cases { register: cases.depth as u32, cases: lowered_cases });
                }
                mir::Op::CacheRows => {
                    out.push(Op::Own(Statement::CacheRows { rows: touched_rows.unwrap_or(u32::MAX) }));
                }
                mir::Op::CacheTrees => {
                    let trees = self.touched_trees(ops);
                    out.push(Op::Own(Statement::CacheTrees { trees }));
                }
                mir::Op::Reduce(r) => {
                    let partial = &nest.partials[r.buffer];
                    let outer = partial.loops[..r.dimension].iter().map(|l| l.depth as u32).collect();
                    out.push(Op::Own(Statement::ReduceDimension {
                        buffer: r.buffer as u32,
                        dimension: r.dimension as u32,
                        outer,
                        rows: rows.clone(),
                        in_place: !r.last,
                        atomic: r.atomic,
                        vector: r.vector.unwrap_or(1),
                    }));
                }
            }
        }
        out
    }
}

impl<D: Dialect> Builder<D> {
    /// Returns the chains of loops over rows in a statement. Together they cover the rows that the statement
    /// touches.
    pub(super) fn row_loops(&mut self, op: &mir::Op, depth: usize) -> Vec<Vec<RowLoop>> {
        let (var, below) = match op {
            mir::Op::Loop(l) => (Some(&l.var), depth + 1),
            mir::Op::Walk(w) => (w.lanes.as_ref(), depth + 1),
            mir::Op::Cases(_) => (None, depth),
            mir::Op::CacheRows | mir::Op::CacheTrees | mir::Op::Reduce(_) => return Vec::new(),
        };
        let body = op.bodies().into_iter().flatten();
        let mut inside: Vec<Vec<RowLoop>> = body.flat_map(|op| self.row_loops(op, below)).collect();
        if inside.is_empty() {
            inside.push(Vec::new());
        }
        if let Some(var) = var.filter(|v| v.dim == Dim::Batch) {
            let own = RowLoop { register: depth as u32, range: self.range(var) };
            inside.iter_mut().for_each(|chain| chain.insert(0, own.clone()));
        }
        inside.dedup();
        inside
    }

    /// Returns the number of trees beyond the running tree that a loop can reach: all trees, if it depends on
    /// the batch.
    pub(super) fn tree_reach(&self, l: &mir::Loop) -> u32 {
        let own = if l.var.dim == Dim::Tree { self.last_tree(&l.var) } else { 0 };
        own.saturating_add(self.trees_below(&l.body))
    }

    fn last_tree(&self, var: &IndexVar) -> u32 {
        let at = Extents { batch: 1, trees: self.trees, threads: self.threads };
        let known = |s: &&Size| !s.depends_on_batch();
        let ends = var.bounds.iter().map(|b| &b.end).filter(known).map(|s| s.resolve(at));
        ends.min().unwrap_or(self.trees).saturating_sub(1).min(self.trees)
    }

    fn trees_below(&self, ops: &[mir::Op]) -> u32 {
        let reach = |op: &mir::Op| match op {
            mir::Op::Loop(l) => self.tree_reach(l),
            mir::Op::Walk(w) => match &w.lanes {
                Some(var) if var.dim == Dim::Tree => self.last_tree(var),
                _ => 0,
            },
            op => op.bodies().into_iter().map(|body| self.trees_below(body)).max().unwrap_or(0),
        };
        ops.iter().map(reach).max().unwrap_or(0)
    }

    /// Returns the number of trees, from the running tree on, that these statements can touch.
    pub(super) fn touched_trees(&self, ops: &[mir::Op]) -> u32 {
        self.trees_below(ops).saturating_add(1).min(self.trees.max(1))
    }
}
