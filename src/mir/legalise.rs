//! Makes reductions legal by privatisation (the reduction draft, section 4).

use super::{BufferId, Case, Cases, Dim, Loop, LoopNest, Mode, Op, Partial, Private, Reduce, Walk};
use crate::schedule::{IndexVar, ReduceMarks};

impl LoopNest {
    /// Gives each chain of conflicting loops private partial sums, and inserts the stages that add the
    /// partial sums up. The stage of an inner conflicting loop follows that loop and works in place. The
    /// stage of the outermost one adds into the result.
    ///
    /// Loops that are marked for atomic additions get no private sums in two cases. If they are the innermost
    /// loops of their chain, their walks add atomically to the buffer of the loops outside them, which may be
    /// the result. If they are the outermost loops, the last stage inside them adds atomically to the result.
    /// Between other conflicting loops the mark has no effect.
    #[must_use]
    pub fn legalise(&self) -> Self {
        let mut pass = Pass { partials: Vec::new() };
        let body = pass.ops(&self.body, &mut Vec::new());
        Self { target: self.target, tile: self.tile, legal: true, partials: pass.partials, body }
    }
}

/// A loop that encloses the current statement: its index variable, its marks, and whether it conflicts.
struct EnclosingLoop {
    var: IndexVar,
    mode: Mode,
    reduce: ReduceMarks,
    conflicting: bool,
}

struct Pass {
    partials: Vec<Partial>,
}

impl Pass {
    fn ops(&mut self, ops: &[Op], path: &mut Vec<EnclosingLoop>) -> Vec<Op> {
        let mut out = Vec::new();
        for op in ops {
            match op {
                Op::Loop(l) => {
                    let conflicting = l.mode != Mode::Serial && l.var.dim == Dim::Tree;
                    path.push(EnclosingLoop {
                        var: l.var.clone(),
                        mode: l.mode,
                        reduce: l.reduce,
                        conflicting,
                    });
                    let body = self.ops(&l.body, path);
                    path.pop();
                    if conflicting {
                        let mut buffers = Vec::new();
                        collect_partials(&body, &mut buffers);
                        out.push(Op::Loop(Loop { body, ..l.clone() }));
                        out.extend(self.stages(&buffers, path));
                    } else {
                        out.push(Op::Loop(Loop { body, ..l.clone() }));
                    }
                }
                Op::Walk(walk) => {
                    let (into, atomic) = self.buffer(path);
                    out.push(Op::Walk(Walk { into, atomic, ..walk.clone() }));
                }
                Op::Cases(cases) => {
                    let mut case = |c: &Case| Case { end: c.end, body: self.ops(&c.body, path) };
                    let each = cases.cases.iter().map(&mut case).collect();
                    out.push(Op::Cases(Cases { depth: cases.depth, cases: each }));
                }
                Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => out.push(op.clone()),
            }
        }
        out
    }

    /// Returns the buffer for a reduce inside the loops of `path`, and whether the reduce is atomic. The
    /// buffer is the result if no loop conflicts, or if atomic additions settle all conflicts. Otherwise it
    /// is a partial buffer, which all reduces inside the same chain of conflicting loops share.
    fn buffer(&mut self, path: &[EnclosingLoop]) -> (BufferId, bool) {
        let conflicting = path.iter().enumerate().filter(|(_, e)| e.conflicting);
        let private = |(depth, e): (usize, &EnclosingLoop)| Private {
            depth,
            var: e.var.clone(),
            mode: e.mode,
            reduce: e.reduce,
        };
        let mut loops: Vec<_> = conflicting.map(private).collect();
        let conflicts = loops.len();
        while loops.pop_if(|l| l.reduce.is_atomic()).is_some() {}
        let atomic = loops.len() < conflicts;
        if loops.is_empty() {
            return (BufferId::Result, atomic);
        }
        let found = self.partials.iter().position(|p| p.loops == loops);
        let buffer = BufferId::Partial(found.unwrap_or_else(|| {
            self.partials.push(Partial { loops });
            self.partials.len() - 1
        }));
        (buffer, atomic)
    }

    /// Returns the stages that follow the conflicting loop inside `path`, for the partial buffers `buffers`
    /// into which walks in the loop reduce.
    fn stages(&self, buffers: &[usize], path: &[EnclosingLoop]) -> Vec<Op> {
        let rows: Vec<usize> = (0..path.len()).filter(|d| path[*d].var.dim == Dim::Batch).collect();
        let depth = path.len();
        let stage = |buffer: usize| {
            let partial = &self.partials[buffer];
            let dimension = partial.loops.iter().position(|l| l.depth == depth)?;
            let first = partial.staged();
            if dimension < first {
                return None;
            }
            let (last, atomic) = (dimension == first, dimension == first && first > 0);
            let vector = partial.loops[dimension].reduce.vector;
            Some(Op::Reduce(Reduce { buffer, dimension, last, atomic, vector, rows: rows.clone() }))
        };
        buffers.iter().copied().filter_map(stage).collect()
    }
}

/// Collects the partial buffers into which walks in `ops` reduce, each once.
fn collect_partials(ops: &[Op], buffers: &mut Vec<usize>) {
    for op in ops {
        match op {
            Op::Loop(l) => collect_partials(&l.body, buffers),
            Op::Walk(Walk { into: BufferId::Partial(b), .. }) if !buffers.contains(b) => buffers.push(*b),
            Op::Cases(c) => c.cases.iter().for_each(|c| collect_partials(&c.body, buffers)),
            Op::Walk(_) | Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {}
        }
    }
}
