//! Reductions made legal by privatisation (the reduction draft, section 4).

use super::{BufferId, Case, Cases, Dim, Loop, LoopNest, Mode, Op, Partial, Private, Reduce, Walk};
use crate::schedule::{IndexVar, ReduceMarks};

impl LoopNest {
    /// Gives each chain of conflicting loops private partial sums and inserts the stages that add them up: in place
    /// at the end of each inner conflicting loop, into the result at the end of the outermost.
    ///
    /// Loops marked for atomic additions have no private sums where they are the innermost of their chain: what is
    /// reduced there is added atomically. Where they are the outermost, the last stage inside them is. In between they
    /// are treated like the others.
    #[must_use]
    pub fn legalise(&self) -> Self {
        let mut pass = Pass { partials: Vec::new() };
        let body = pass.ops(&self.body, &mut Vec::new());
        Self { target: self.target, tile: self.tile, legal: true, partials: pass.partials, body }
    }
}

/// A loop on the way down: what it counts, and whether it conflicts.
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
                        reduced_into(&body, &mut buffers);
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

    /// The buffer for a reduce in the loops of `path`, and whether the reduce is atomic: the result where none conflicts
    /// or all conflicts are settled by atomic additions; otherwise one that the chain of conflicting loops owns, shared
    /// by every reduce with the very same chain.
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

    /// The stages at the end of the conflicting loop that stood below `path`, for the buffers reduced into inside it.
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

/// The buffers of partial sums that walks in these statements reduce into, each once.
fn reduced_into(ops: &[Op], buffers: &mut Vec<usize>) {
    for op in ops {
        match op {
            Op::Loop(l) => reduced_into(&l.body, buffers),
            Op::Walk(Walk { into: BufferId::Partial(b), .. }) if !buffers.contains(b) => buffers.push(*b),
            Op::Cases(c) => c.cases.iter().for_each(|c| reduced_into(&c.body, buffers)),
            Op::Walk(_) | Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {}
        }
    }
}
