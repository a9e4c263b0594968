//! The order a loop nest prescribes, spelled out: what a traced run is held against.

use super::{Dim, Extents, LoopNest, Mode, Op};
use crate::schedule::{GpuDim, IndexVar};

/// A walk of one tree for one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Visit {
    /// Who: the index of each parallel or mapped loop on the way, outermost first, with its dimension.
    pub worker: Vec<(Mode, u32)>,
    /// Which walk statement, counted through the nest.
    pub walk: usize,
    /// The row.
    pub row: u32,
    /// The tree's position in the schedule's tree order.
    pub tree: u32,
}

impl LoopNest {
    /// Every visit, in an order in which each worker's visits keep theirs. `size` gives the units or cubes of a
    /// launch dimension, over which longer loops wrap; `u32::MAX` for dimensions that never wrap.
    pub fn visits(&self, extents: Extents, size: impl Fn(GpuDim) -> u32) -> Vec<Visit> {
        let mut all = Enumeration {
            extents,
            size,
            rows: true,
            offsets: Vec::new(),
            worker: Vec::new(),
            walk: 0,
            out: Vec::new(),
        };
        all.ops(&self.body);
        all.out
    }

    /// The positions of the trees that each walk statement visits, by the statement's number; `None` where they
    /// depend on the batch.
    pub fn trees_of_walks(&self, trees: u32, threads: u32) -> Vec<Option<Vec<u32>>> {
        let count = walks(&self.body);
        let Some(visits) = self.tree_visits(Extents { batch: 1, trees, threads }) else {
            return vec![None; count];
        };
        let mut of = vec![Some(Vec::new()); count];
        for visit in visits {
            if let Some(Some(trees)) = of.get_mut(visit.walk) {
                trees.push(visit.tree);
            }
        }
        of
    }

    /// Whether each row's walks come one after the other, by position; `false` where that depends on the batch, or where
    /// loops over rows stand side by side.
    pub fn keeps_order(&self, trees: u32, threads: u32) -> bool {
        fn conflicts(ops: &[Op]) -> bool {
            let own = |op: &Op| matches!(op, Op::Loop(l) if l.mode != Mode::Serial && l.var.dim == Dim::Tree);
            ops.iter().any(|op| own(op) || op.bodies().into_iter().any(conflicts))
        }
        let visits = || self.tree_visits(Extents { batch: 1, trees, threads });
        !conflicts(&self.body) && visits().is_some_and(|visits| visits.iter().map(|v| v.tree).eq(0..trees))
    }

    /// The visits with every loop over rows at its first; `None` where the trees depend on the batch.
    pub(super) fn tree_visits(&self, extents: Extents) -> Option<Vec<Visit>> {
        if self.trees_depend_on_batch(&self.body) {
            return None;
        }
        let mut all = Enumeration {
            extents,
            size: |_| u32::MAX,
            rows: false,
            offsets: Vec::new(),
            worker: Vec::new(),
            walk: 0,
            out: Vec::new(),
        };
        all.ops(&self.body);
        Some(all.out)
    }

    fn trees_depend_on_batch(&self, ops: &[Op]) -> bool {
        let depends = |v: &IndexVar| {
            let sizes = [&v.start, &v.step].into_iter().chain(v.bounds.iter().map(|b| &b.end));
            v.dim == Dim::Tree && sizes.into_iter().any(|s| s.depends_on_batch())
        };
        ops.iter().any(|op| match op {
            Op::Loop(l) => depends(&l.var) || self.trees_depend_on_batch(&l.body),
            Op::Walk(w) => w.lanes.as_ref().is_some_and(depends),
            Op::Cases(c) => c.cases.iter().any(|c| self.trees_depend_on_batch(&c.body)),
            Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => false,
        })
    }
}

struct Enumeration<F> {
    extents: Extents,
    size: F,
    /// Whether loops over rows run; otherwise each stands at its first row.
    rows: bool,
    offsets: Vec<(Dim, u32)>,
    worker: Vec<(Mode, u32)>,
    walk: usize,
    out: Vec<Visit>,
}

impl<F: Fn(GpuDim) -> u32> Enumeration<F> {
    fn ops(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Loop(l) => {
                    let offsets = self.offsets_of(&l.var);
                    let first_walk = self.walk;
                    let mut last_walk = first_walk + walks(&l.body);
                    for (k, offset) in offsets.into_iter().enumerate() {
                        self.walk = first_walk;
                        self.offsets.push((l.var.dim, offset));
                        match l.mode {
                            Mode::Serial => self.ops(&l.body),
                            mode => {
                                let wrap =
                                    if let Mode::Gpu(dim) = mode { (self.size)(dim) } else { u32::MAX };
                                self.worker.push((mode, k as u32 % wrap.max(1)));
                                self.ops(&l.body);
                                self.worker.pop();
                            }
                        }
                        self.offsets.pop();
                        last_walk = self.walk;
                    }
                    self.walk = last_walk;
                }
                Op::Walk(walk) => {
                    let lanes = match &walk.lanes {
                        Some(var) => self.offsets_of(var).into_iter().map(|o| Some((var.dim, o))).collect(),
                        None => vec![None],
                    };
                    for lane in lanes {
                        let at = |dim| {
                            let all = self.offsets.iter().chain(&lane);
                            all.filter(|(d, _)| *d == dim).map(|(_, o)| o).sum()
                        };
                        let visit = Visit {
                            worker: self.worker.clone(),
                            walk: self.walk,
                            row: at(Dim::Batch),
                            tree: at(Dim::Tree),
                        };
                        self.out.push(visit);
                    }
                    self.walk += 1;
                }
                Op::Cases(cases) => {
                    let first_walk = self.walk;
                    let offset = self.offsets[cases.depth].1;
                    let last = cases.cases.len() - 1;
                    let taken = cases.cases.iter().position(|c| offset < c.end).unwrap_or(last);
                    let before = |n: usize| cases.cases[..n].iter().map(|c| walks(&c.body)).sum::<usize>();
                    self.walk = first_walk + before(taken);
                    self.ops(&cases.cases[taken].body);
                    self.walk = first_walk + before(cases.cases.len());
                }
                Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {}
            }
        }
    }

    fn offsets_of(&self, var: &IndexVar) -> Vec<u32> {
        if !self.rows && var.dim == Dim::Batch {
            return vec![0];
        }
        let at = self.extents;
        let limit = |b: &crate::schedule::Bound| {
            let taken: u64 = b.minus.iter().map(|d| u64::from(self.offsets[*d].1)).sum();
            u64::from(b.end.resolve(at)).saturating_sub(taken)
        };
        // A tile longer than what it tiles has no further iterations.
        let most = if var.dim == Dim::Batch { at.batch } else { at.trees };
        let end = var.bounds.iter().map(limit).min().unwrap_or(0).min(u64::from(most));
        let step = var.step.resolve(at).max(1);
        (u64::from(var.start.resolve(at))..end).step_by(step as usize).map(|o| o as u32).collect()
    }
}

/// Walk statements in these.
pub(super) fn walks(ops: &[Op]) -> usize {
    let count = |op: &Op| match op {
        Op::Loop(l) => walks(&l.body),
        Op::Walk(_) => 1,
        Op::Cases(c) => c.cases.iter().map(|c| walks(&c.body)).sum(),
        Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => 0,
    };
    ops.iter().map(count).sum()
}
