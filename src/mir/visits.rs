//! Lists the visits that a loop nest prescribes, in order. Tests compare traced runs with the list.

use super::{Dim, Extents, LoopNest, Mode, Op};
use crate::schedule::{Bound, GpuDim, IndexVar};

/// A walk of one tree for one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Visit {
    /// The worker that walks: the index of each parallel or mapped loop on the way, outermost first, with the
    /// loop's mode.
    pub worker: Vec<(Mode, u32)>,
    /// Number of the walk statement, in the order of the nest's statements.
    pub walk: usize,
    /// Index of the row.
    pub row: u32,
    /// The tree's position in the schedule's tree order.
    pub tree: u32,
}

impl LoopNest {
    /// Returns every visit, in an order that keeps the order of each worker's visits. `size` returns the
    /// number of units or cubes of a launch dimension, over which longer loops wrap. It returns `u32::MAX`
    /// for a dimension that never wraps.
    pub fn visits(&self, extents: Extents, size: impl Fn(GpuDim) -> u32) -> Vec<Visit> {
        let mut out = Vec::new();
        let mut each = |worker: &[(Mode, u32)], walk, row, tree| {
            out.push(Visit { worker: worker.to_vec(), walk, row, tree });
        };
        Enumeration::new(extents, size, true, &mut each).ops(&self.body);
        out
    }

    /// Returns the positions of the trees that each walk statement visits, by the statement's number. They
    /// are `None` if they depend on the batch.
    pub fn trees_of_walks(&self, trees: u32, threads: u32) -> Vec<Option<Vec<u32>>> {
        let count = walks(&self.body);
        if trees_depend_on_batch(&self.body) {
            return vec![None; count];
        }
        let mut of = vec![Some(Vec::new()); count];
        tree_visits(&self.body, Extents { batch: 1, trees, threads }, |_, walk, tree| {
            if let Some(Some(trees)) = of.get_mut(walk) {
                trees.push(tree);
            }
        });
        of
    }

    /// Returns whether each row's walks come one after the other, in ascending order of positions. It is
    /// `false` if that depends on the batch, or if loops over rows stand side by side.
    pub fn keeps_order(&self, trees: u32, threads: u32) -> bool {
        fn conflicts(ops: &[Op]) -> bool {
            let own = |op: &Op| matches!(op, Op::Loop(l) if l.mode != Mode::Serial && l.var.dim == Dim::Tree);
            ops.iter().any(|op| own(op) || op.bodies().into_iter().any(conflicts))
        }
        if conflicts(&self.body) || trees_depend_on_batch(&self.body) {
            return false;
        }
        let (mut next, mut ordered) = (0, true);
        tree_visits(&self.body, Extents { batch: 1, trees, threads }, |_, _, tree| {
            ordered &= tree == next;
            next += 1;
        });
        ordered && next == trees
    }
}

/// Calls `each` for every visit, with each loop over rows at its first row. Its arguments are the worker, the walk
/// statement, and the tree's position. The trees must not depend on the batch.
pub(super) fn tree_visits(ops: &[Op], extents: Extents, mut each: impl FnMut(&[(Mode, u32)], usize, u32)) {
    let mut each = |worker: &[(Mode, u32)], walk, _, tree| each(worker, walk, tree);
    Enumeration::new(extents, |_| u32::MAX, false, &mut each).ops(ops);
}

/// Returns whether the batch decides which trees the iterations of some loop visit.
pub(super) fn trees_depend_on_batch(ops: &[Op]) -> bool {
    let depends = |v: &IndexVar| {
        let sizes = [&v.start, &v.stride].into_iter().chain(v.bounds.iter().map(|b| &b.end));
        v.dim == Dim::Tree && sizes.into_iter().any(|s| s.depends_on_batch())
    };
    ops.iter().any(|op| match op {
        Op::Loop(l) => depends(&l.var) || trees_depend_on_batch(&l.body),
        Op::Walk(w) => w.lanes.as_ref().is_some_and(depends),
        Op::Cases(c) => c.cases.iter().any(|c| trees_depend_on_batch(&c.body)),
        Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => false,
    })
}

struct Enumeration<'a, F, E> {
    extents: Extents,
    size: F,
    /// Whether loops over rows run. If not, each stays at its first row.
    rows: bool,
    offsets: Vec<(Dim, u32)>,
    worker: Vec<(Mode, u32)>,
    walk: usize,
    /// Receives each visit: the worker, the walk statement, the row and the tree's position.
    each: &'a mut E,
}

impl<'a, F, E> Enumeration<'a, F, E>
where
    F: Fn(GpuDim) -> u32,
    E: FnMut(&[(Mode, u32)], usize, u32, u32),
{
    fn new(extents: Extents, size: F, rows: bool, each: &'a mut E) -> Self {
        Self { extents, size, rows, offsets: Vec::new(), worker: Vec::new(), walk: 0, each }
    }

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
                        // Tiles that do not divide a range have iterations without a visit, and a nest of
                        // such tiles has exponentially many.
                        if !self.visits_any(&l.body) {
                            self.offsets.pop();
                            continue;
                        }
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
                        (self.each)(&self.worker, self.walk, at(Dim::Batch), at(Dim::Tree));
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

    /// Returns whether some walk in `ops` is in range, with the current offsets and with the first offset of
    /// each loop further in.
    fn visits_any(&self, ops: &[Op]) -> bool {
        ops.iter().any(|op| match op {
            Op::Loop(l) => self.end_of(&l.var) > self.start_of(&l.var) && self.visits_any(&l.body),
            Op::Walk(w) => w.lanes.as_ref().is_none_or(|v| self.end_of(v) > self.start_of(v)),
            Op::Cases(c) => c.cases.iter().any(|c| self.visits_any(&c.body)),
            Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => false,
        })
    }

    fn start_of(&self, var: &IndexVar) -> u64 {
        u64::from(var.start.resolve(self.extents))
    }

    /// Returns one past the loop's last offset. If enclosing loops have no offset yet, it returns the greatest possible
    /// end.
    fn end_of(&self, var: &IndexVar) -> u64 {
        if !self.rows && var.dim == Dim::Batch {
            return u64::MAX;
        }
        let limit = |b: &Bound| {
            let known = b.minus.iter().filter_map(|d| self.offsets.get(*d));
            let taken: u64 = known.map(|(_, offset)| u64::from(*offset)).sum();
            u64::from(b.end.resolve(self.extents)).saturating_sub(taken)
        };
        // A tile that is longer than the range it divides has no further iterations.
        let most = if var.dim == Dim::Batch { self.extents.batch } else { self.extents.trees };
        var.bounds.iter().map(limit).min().unwrap_or(0).min(u64::from(most))
    }

    fn offsets_of(&self, var: &IndexVar) -> Vec<u32> {
        if !self.rows && var.dim == Dim::Batch {
            return vec![0];
        }
        let stride = var.stride.resolve(self.extents).max(1);
        (self.start_of(var)..self.end_of(var)).step_by(stride as usize).map(|o| o as u32).collect()
    }
}

/// Returns the number of walk statements in `ops`.
pub(super) fn walks(ops: &[Op]) -> usize {
    let count = |op: &Op| match op {
        Op::Loop(l) => walks(&l.body),
        Op::Walk(_) => 1,
        Op::Cases(c) => c.cases.iter().map(|c| walks(&c.body)).sum(),
        Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => 0,
    };
    ops.iter().map(count).sum()
}
