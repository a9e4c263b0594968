//! MIR to a CPU plan: loops keep their order and their mode, partial sums are buffers, stages are statements.

use super::{CopyDim, Dim, Loop, Map, Op, Partial, RowLoop, Sum, lower::Builder};
use crate::mir::{self, BufferId, LoopNest, Mode};

impl Builder {
    pub(super) fn cpu(&mut self, nest: &LoopNest) {
        for partial in &nest.partials {
            let dims = partial.loops.iter().map(|(depth, var, _)| CopyDim {
                count: self.value(&var.extent()),
                gpu: None,
                register: *depth as u32,
                start: self.value(&var.start),
                step: self.value(&var.step),
            });
            let dims = dims.collect();
            self.plan.partials.push(Partial { dims });
        }
        self.plan.body = self.cpu_ops(nest, &nest.body, 0);
    }

    fn cpu_ops(&mut self, nest: &LoopNest, ops: &[mir::Op], depth: usize) -> Vec<Op> {
        let mut out = Vec::new();
        // The loop that a stage follows says which rows the stage covers.
        let mut rows = Vec::new();
        for op in ops {
            match op {
                mir::Op::Loop(l) => {
                    let range = self.range(&l.var);
                    let body = self.cpu_ops(nest, &l.body, depth + 1);
                    let map = if l.mode == Mode::Serial { Map::Serial } else { Map::Parallel };
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
                    let into = match w.into {
                        BufferId::Result => Sum::Result { first: false },
                        BufferId::Partial(buffer) => Sum::Partial { buffer: buffer as u32 },
                    };
                    let walk = self.walk(w, depth, Some(into));
                    out.push(Op::Walk(walk));
                }
                // The processor caches rows by itself; what the directive gives here is the loop it names.
                mir::Op::CacheRows => {}
                mir::Op::Reduce(r) => {
                    let partial = &nest.partials[r.buffer];
                    let outer = partial.loops[..r.dimension].iter().map(|(d, ..)| *d as u32).collect();
                    out.push(Op::ReduceDimension {
                        buffer: r.buffer as u32,
                        dimension: r.dimension as u32,
                        outer,
                        rows: rows.clone(),
                        in_place: r.dimension > 0,
                    });
                }
            }
        }
        out
    }

    /// The chains of loops over rows in a statement: together they cover the rows that it touches.
    pub(super) fn row_loops(&mut self, op: &mir::Op, depth: usize) -> Vec<Vec<RowLoop>> {
        let (var, body) = match op {
            mir::Op::Loop(l) => (Some(&l.var), &l.body[..]),
            mir::Op::Walk(w) => (w.lanes.as_ref(), &[][..]),
            mir::Op::CacheRows | mir::Op::Reduce(_) => return Vec::new(),
        };
        let mut inside: Vec<Vec<RowLoop>> =
            body.iter().flat_map(|op| self.row_loops(op, depth + 1)).collect();
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
}
