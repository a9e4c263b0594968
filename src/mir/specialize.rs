//! `specialize`: gives separate code to the iterations of a loop that visit different trees.
//!
//! A serial loop becomes several loops, one after the other, each over iterations that have the same code.
//! The iterations of a parallel or mapped loop can't be told apart outside the loop, so its body becomes
//! [`Cases`]. If the nest would then have more walks than the target allows, the loop stays as it is and its
//! walks read each tree's depth from a table.

use super::{Case, Cases, Dim, Extents, Loop, LoopNest, Mode, Op, Walk, visits};
use crate::schedule::{Bound, Size};

/// A loop that is marked `specialize` and stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnspecializedLoop {
    /// The loop's name.
    pub name: String,
    /// Why the loop stays as it is.
    pub why: SharedCodeReason,
}

/// Why the iterations of a marked loop share their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedCodeReason {
    /// The nest would have too many walks. One walk reads each tree's depth from the table of trees instead.
    Table,
    /// The loop goes over rows.
    Rows,
    /// The batch decides which trees the loop's iterations visit.
    Batch,
}

/// The path to a statement: from the outside in, the statement's index in each body, and the index of the
/// case if that statement is [`Cases`].
type Path = Vec<(usize, usize)>;

impl LoopNest {
    /// Gives separate code to iterations of marked loops if `differ` returns different keys for their walks.
    /// `differ` gets each walk in the loop, with the positions of the trees that the walk visits in an
    /// iteration. The result holds at most `most` walks. If a loop would need more of them, its walks read
    /// depths from the table.
    ///
    /// Also returns the marked loops that stay as they are, except for those whose iterations all have the
    /// same code.
    #[must_use]
    pub fn specialize<K: PartialEq>(
        &self,
        trees: u32,
        threads: u32,
        most: usize,
        differ: impl Fn(&Walk, &[u32]) -> K,
    ) -> (Self, Vec<UnspecializedLoop>) {
        let mut nest = self.clone();
        let mut left = Vec::new();
        while let Some(path) = marked(&nest.body) {
            let at = Extents { batch: 1, trees, threads };
            let on_batch = visits::trees_depend_on_batch(&nest.body);
            let all = visits::walks(&nest.body);
            let l = loop_at(&mut nest.body, &path);
            l.specialize = false;
            let (name, stride) = (l.var.name.clone(), fixed(&l.var.stride, at));
            let inside = visits::walks(&l.body);
            let why = match l.var.dim {
                Dim::Batch => Some(SharedCodeReason::Rows),
                Dim::Tree if on_batch => Some(SharedCodeReason::Batch),
                Dim::Tree => None,
            };
            if let Some(why) = why {
                left.push(UnspecializedLoop { name, why });
                continue;
            }
            let Some(stride) = stride else { continue };
            // More walks than `most` can't be specialized, so the search for groups, which takes memory for
            // each walk in each iteration, is skipped.
            let groups = if inside > most { None } else { Some(nest.groups(&path, at, &differ)) };
            if groups.as_ref().is_some_and(|g| g.len() < 2) {
                continue;
            }
            let Some(groups) = groups.filter(|g| all - inside + inside * g.len() <= most) else {
                read_from_table(&mut loop_at(&mut nest.body, &path).body);
                left.push(UnspecializedLoop { name, why: SharedCodeReason::Table });
                continue;
            };
            let start = fixed(&loop_at(&mut nest.body, &path).var.start, at).unwrap_or(0);
            let end = |k: u32| start.saturating_add(k.saturating_mul(stride));
            let l = loop_at(&mut nest.body, &path).clone();
            match l.mode {
                Mode::Serial => {
                    let loops = groups.iter().enumerate().map(|(i, (from, to))| {
                        let mut var = l.var.clone();
                        var.name = format!("{}_{i}", l.var.name);
                        var.start = Size::Const(end(*from));
                        var.bounds.push(Bound { end: Size::Const(end(*to)), minus: Vec::new() });
                        Op::Loop(Loop { var, ..l.clone() })
                    });
                    let loops: Vec<Op> = loops.collect();
                    let (index, _) = path[path.len() - 1];
                    body_at(&mut nest.body, &path[..path.len() - 1]).splice(index..=index, loops);
                }
                Mode::Parallel | Mode::Gpu(_) => {
                    let depth = depth_of(&nest.body, &path);
                    let l = loop_at(&mut nest.body, &path);
                    let caches = l.body.iter().take_while(|op| matches!(op, Op::CacheRows | Op::CacheTrees));
                    let caches = caches.count();
                    let body = l.body.split_off(caches);
                    let case = |(_, to): &(u32, u32)| Case { end: end(*to), body: body.clone() };
                    l.body.push(Op::Cases(Cases { depth, cases: groups.iter().map(case).collect() }));
                }
            }
        }
        (nest, left)
    }

    /// Returns the ranges of neighbouring iterations whose walks have the same code. The loop at `path` goes
    /// over trees, and its iterations visit the same trees for every batch.
    fn groups<K: PartialEq>(
        &self,
        path: &Path,
        at: Extents,
        differ: &impl Fn(&Walk, &[u32]) -> K,
    ) -> Vec<(u32, u32)> {
        let mut isolated = isolated(&self.body, path);
        serial(&mut isolated);
        let at_first: Path = path.iter().map(|(_, case)| (0, *case)).collect();
        let l = loop_at(&mut isolated, &at_first);
        // The loop at `path` is the only parallel loop, so the worker of each visit is the iteration of this
        // loop.
        l.mode = Mode::Parallel;
        let mut walks = Vec::new();
        walks_of(&l.body, &mut walks);
        let mut iterations: Vec<Vec<Vec<u32>>> = Vec::new();
        visits::tree_visits(&isolated, at, |worker, walk, tree| {
            let Some((_, k)) = worker.first() else { return };
            let k = *k as usize;
            if iterations.len() <= k {
                iterations.resize(k + 1, vec![Vec::new(); walks.len()]);
            }
            iterations[k][walk].push(tree);
        });
        let kind = |of: &Vec<Vec<u32>>| {
            walks.iter().zip(of).map(|(walk, trees)| differ(walk, trees)).collect::<Vec<K>>()
        };
        let kinds: Vec<Vec<K>> = iterations.iter().map(kind).collect();
        let mut groups: Vec<(u32, u32)> = Vec::new();
        for k in 0..kinds.len() {
            match groups.last_mut() {
                Some((_, to)) if kinds[k] == kinds[k - 1] => *to = k as u32 + 1,
                _ => groups.push((k as u32, k as u32 + 1)),
            }
        }
        groups
    }
}

/// Returns the statement at `path` with the loops and cases around it, and without the statements beside
/// them.
fn isolated(ops: &[Op], path: &[(usize, usize)]) -> Vec<Op> {
    let ((index, case), rest) = path.split_first().expect("a path is not empty");
    match &ops[*index] {
        op if rest.is_empty() => vec![op.clone()],
        Op::Loop(l) => {
            let Loop { ref var, mode, unrolled, specialize, reduce, touched_rows, ref body } = *l;
            let (var, body) = (var.clone(), isolated(body, rest));
            vec![Op::Loop(Loop { var, mode, unrolled, specialize, reduce, touched_rows, body })]
        }
        Op::Cases(c) => {
            let of = |(i, c): (usize, &Case)| {
                let body = if i == *case { isolated(&c.body, rest) } else { Vec::new() };
                Case { end: c.end, body }
            };
            vec![Op::Cases(Cases { depth: c.depth, cases: c.cases.iter().enumerate().map(of).collect() })]
        }
        Op::Walk(_) | Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => Vec::new(),
    }
}

fn walks_of(ops: &[Op], walks: &mut Vec<Walk>) {
    for op in ops {
        if let Op::Walk(w) = op {
            walks.push(w.clone());
        }
        op.bodies().into_iter().for_each(|body| walks_of(body, walks));
    }
}

fn fixed(size: &Size, at: Extents) -> Option<u32> {
    (!size.depends_on_batch()).then(|| size.resolve(at))
}

/// Returns the path of the first marked loop, outer loops first.
fn marked(ops: &[Op]) -> Option<Path> {
    ops.iter().enumerate().find_map(|(index, op)| {
        if matches!(op, Op::Loop(l) if l.specialize) {
            return Some(vec![(index, 0)]);
        }
        op.bodies().into_iter().enumerate().find_map(|(case, body)| {
            let mut path = marked(body)?;
            path.insert(0, (index, case));
            Some(path)
        })
    })
}

fn inside(op: &mut Op, case: usize) -> &mut Vec<Op> {
    match op {
        Op::Loop(l) => &mut l.body,
        Op::Cases(c) => &mut c.cases[case].body,
        Op::Walk(_) | Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {
            unreachable!("a path goes through loops and cases")
        }
    }
}

fn body_at<'a>(ops: &'a mut Vec<Op>, path: &[(usize, usize)]) -> &'a mut Vec<Op> {
    path.iter().fold(ops, |ops, (index, case)| inside(&mut ops[*index], *case))
}

fn loop_at<'a>(ops: &'a mut Vec<Op>, path: &[(usize, usize)]) -> &'a mut Loop {
    let (last, outer) = path.split_last().expect("a path is not empty");
    match &mut body_at(ops, outer)[last.0] {
        Op::Loop(l) => l,
        _ => unreachable!("a path ends at a loop"),
    }
}

/// Returns how many loops enclose the statement at `path`.
fn depth_of(mut ops: &[Op], path: &[(usize, usize)]) -> usize {
    let mut depth = 0;
    for (index, case) in &path[..path.len() - 1] {
        let op = &ops[*index];
        depth += usize::from(matches!(op, Op::Loop(_)));
        ops = op.bodies()[*case];
    }
    depth
}

fn serial(ops: &mut [Op]) {
    for op in ops {
        match op {
            Op::Loop(l) => {
                l.mode = Mode::Serial;
                serial(&mut l.body);
            }
            Op::Cases(c) => c.cases.iter_mut().for_each(|c| serial(&mut c.body)),
            Op::Walk(_) | Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {}
        }
    }
}

fn read_from_table(ops: &mut [Op]) {
    for op in ops {
        match op {
            Op::Loop(l) => read_from_table(&mut l.body),
            Op::Cases(c) => c.cases.iter_mut().for_each(|c| read_from_table(&mut c.body)),
            Op::Walk(w) => w.table = w.unroll == Some(None),
            Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {}
        }
    }
}
