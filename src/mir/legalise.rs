//! Reductions made legal by privatisation (the reduction draft, section 4).

use super::{BufferId, Dim, Loop, LoopNest, Mode, Op, Partial, Reduce, Walk};
use crate::schedule::IndexVar;

impl LoopNest {
    /// Gives each chain of conflicting loops private partial sums and inserts the stages that add them up: in place
    /// at the end of each inner conflicting loop, into the result at the end of the outermost.
    #[must_use]
    pub fn legalise(&self) -> Self {
        let mut pass = Pass { partials: Vec::new() };
        let body = pass.ops(&self.body, &mut Vec::new());
        Self { target: self.target, legal: true, partials: pass.partials, body }
    }
}

/// A loop on the way down: what it counts, and whether it conflicts.
struct Enclosing {
    var: IndexVar,
    mode: Mode,
    conflicting: bool,
}

struct Pass {
    partials: Vec<Partial>,
}

impl Pass {
    fn ops(&mut self, ops: &[Op], path: &mut Vec<Enclosing>) -> Vec<Op> {
        let mut out = Vec::new();
        for op in ops {
            match op {
                Op::Loop(l) => {
                    let conflicting = l.mode != Mode::Serial && l.var.dim == Dim::Tree;
                    path.push(Enclosing { var: l.var.clone(), mode: l.mode, conflicting });
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
                    let mut walk = walk.clone();
                    walk.into = self.buffer(path);
                    out.push(Op::Walk(walk));
                }
                Op::CacheRows | Op::Reduce(_) => out.push(op.clone()),
            }
        }
        out
    }

    /// The buffer for a reduce in the loops of `path`: the result where none conflicts; otherwise one that the
    /// chain of conflicting loops owns, shared by every reduce with the very same chain.
    fn buffer(&mut self, path: &[Enclosing]) -> BufferId {
        let conflicting = path.iter().enumerate().filter(|(_, e)| e.conflicting);
        let loops: Vec<_> = conflicting.map(|(depth, e)| (depth, e.var.clone(), e.mode)).collect();
        if loops.is_empty() {
            return BufferId::Result;
        }
        let found = self.partials.iter().position(|p| p.loops == loops);
        BufferId::Partial(found.unwrap_or_else(|| {
            self.partials.push(Partial { loops });
            self.partials.len() - 1
        }))
    }

    /// The stages at the end of the conflicting loop that stood below `path`, for the buffers reduced into inside it.
    fn stages(&self, buffers: &[usize], path: &[Enclosing]) -> Vec<Op> {
        let rows: Vec<usize> = (0..path.len()).filter(|d| path[*d].var.dim == Dim::Batch).collect();
        let depth = path.len();
        let stage = |buffer: usize| {
            let dimension = self.partials[buffer].loops.iter().position(|(d, ..)| *d == depth)?;
            Some(Op::Reduce(Reduce { buffer, dimension, rows: rows.clone() }))
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
            Op::Walk(_) | Op::CacheRows | Op::Reduce(_) => {}
        }
    }
}
