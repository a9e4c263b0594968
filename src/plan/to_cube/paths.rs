//! The surroundings of a statement: the loops around it, and how they assign rows to units.

use crate::{
    mir::{self, BufferId, Dim, Mode},
    plan::{GpuDim, Size},
};

/// The surroundings of the statement that is being lowered.
#[derive(Clone, Default)]
pub(super) struct Surroundings {
    pub(super) depth: usize,
    /// Whether the statement is inside a block loop.
    pub(super) block: bool,
    /// Whether a row's sum is added to more than once, because the statement is inside a loop over trees or
    /// beside another loop.
    pub(super) trees: bool,
    /// Whether the statement is inside [`Statement::Accumulate`](crate::plan::cube::Statement::Accumulate).
    pub(super) accumulating: bool,
    /// The name of the innermost enclosing loop, and the number of rows that its iteration can touch if that
    /// is a constant.
    pub(super) inside: Option<(String, Option<u32>)>,
    /// Whether the row cache holds the running rows.
    pub(super) cached_rows: bool,
    /// Whether the tree cache holds the running trees.
    pub(super) cached_trees: bool,
    /// Launch dimensions of the enclosing loops, and those of which only the first unit or cube runs the
    /// statement.
    pub(super) dims: Vec<GpuDim>,
    /// The enclosing mapped loops over rows: they determine which unit has which rows.
    pub(super) owner: Vec<(GpuDim, Range)>,
    /// First offset and stride of each enclosing loop over trees.
    pub(super) tree_loops: Vec<(Size, Size)>,
}

/// The offsets of a mapped loop, without its name: start, stride and bounds.
pub(super) type Range = (Size, Size, Vec<crate::schedule::Bound>);

/// Returns the surroundings of the statements inside a loop.
pub(super) fn entered(l: &mir::Loop, around: &Surroundings) -> Surroundings {
    let mut inside = Surroundings {
        depth: around.depth + 1,
        block: around.block || matches!(l.mode, Mode::Gpu(GpuDim::Block(_))),
        trees: around.trees || l.var.dim == Dim::Tree,
        inside: Some((l.var.name.clone(), l.touched_rows)),
        ..around.clone()
    };
    if l.var.dim == Dim::Tree {
        inside.tree_loops.push((l.var.start.clone(), l.var.stride.clone()));
    }
    if let Mode::Gpu(dim) = l.mode {
        inside.dims.push(dim);
        if l.var.dim == Dim::Batch {
            inside.owner.push((dim, (l.var.start.clone(), l.var.stride.clone(), l.var.bounds.clone())));
        }
    }
    inside
}

/// Appends the surroundings of each walk to `out`.
pub(super) fn walk_paths(ops: &[mir::Op], around: &Surroundings, out: &mut Vec<Surroundings>) {
    for op in ops {
        match op {
            mir::Op::Loop(l) => walk_paths(&l.body, &entered(l, around), out),
            mir::Op::Cases(c) => c.cases.iter().for_each(|c| walk_paths(&c.body, around, out)),
            mir::Op::Walk(_) => {
                let mut path = around.clone();
                path.dims.sort_unstable();
                out.push(path);
            }
            mir::Op::CacheRows | mir::Op::CacheTrees | mir::Op::Reduce(_) => {}
        }
    }
}

/// Returns the different assignments of rows to units among the walks.
pub(super) fn owners(paths: &[Surroundings]) -> Vec<Vec<(GpuDim, Range)>> {
    let mut owners: Vec<Vec<(GpuDim, Range)>> = Vec::new();
    for path in paths {
        if !owners.contains(&path.owner) {
            owners.push(path.owner.clone());
        }
    }
    owners
}

/// Whether a statement and everything inside it goes over trees only, so that the row stays the same.
pub(super) fn only_trees(op: &mir::Op) -> bool {
    let inside = || op.bodies().into_iter().flatten().all(only_trees);
    match op {
        mir::Op::Loop(l) => l.var.dim == Dim::Tree && inside(),
        mir::Op::Walk(w) => w.lanes.as_ref().is_none_or(|v| v.dim == Dim::Tree),
        mir::Op::Cases(_) => inside(),
        mir::Op::CacheRows => false,
        mir::Op::CacheTrees | mir::Op::Reduce(_) => true,
    }
}

pub(super) fn each_op(ops: &[mir::Op], visit: &mut impl FnMut(&mir::Op)) {
    for op in ops {
        visit(op);
        op.bodies().into_iter().for_each(|body| each_op(body, visit));
    }
}

/// Appends the buffers that the walks in a statement reduce into, and whether they do so atomically.
pub(super) fn buffers_of(op: &mir::Op, buffers: &mut Vec<(BufferId, bool)>) {
    each_op(std::slice::from_ref(op), &mut |op| {
        if let mir::Op::Walk(w) = op
            && !buffers.contains(&(w.into, w.atomic))
        {
            buffers.push((w.into, w.atomic));
        }
    });
}

pub(super) fn as_loop(op: &mir::Op) -> Option<&mir::Loop> {
    if let mir::Op::Loop(l) = op { Some(l) } else { None }
}
