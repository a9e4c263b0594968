//! Lowers MIR to a cube plan: launch dimensions, caches, partial sums in shared and global memory.
//!
//! Barriers stand only between block loops, never inside them. The sums of a block loop's units are added up
//! at the end of the outermost block loop, where control flow is the same for every unit of the cube. Sums
//! that no barrier can complete (trees over the grid, or over a block without `sharedReduce`) stay in global
//! copies, which a second launch adds up.
//!
//! No directive is refused here. If the device, the model or the rest of the schedule leaves no room for a
//! directive, the plan is built again without it, and a [`Note`](super::Note) names what is done instead.

use super::{
    Extents, GpuDim, Loop, Map, Op, Size, Value,
    cube::{Adders, CachedTrees, Cube, MappedLoop, Partial, SharedSums, Statement, Sum, Walk},
    lower::Builder,
};
use crate::{
    cost::FEW_COPIES,
    forest::Forest,
    layout::Sizes,
    mir::{self, BufferId, Dim, LoopNest, Mode, Private},
    schedule::{Axis, Gpu, IndexVar},
};

mod atomics;
mod format;
mod paths;

pub(super) use atomics::without_atomics;
#[cfg(feature = "kernels")]
pub(crate) use format::group_columns;
use paths::{Range, Surroundings, as_loop, buffers_of, each_op, entered, only_trees, owners, walk_paths};

/// Number of units along a block dimension if the loop's extent is known only at a call.
const OPEN_EXTENT: u32 = 256;
/// The size of the tree cache is a multiple of this number of words, so that models of about the same size
/// share a kernel.
const CACHE_MULTIPLE: u32 = 256;

/// The features that a plan may have.
#[derive(Clone, Copy)]
struct PlanFeatures {
    cached_rows: bool,
    cached_trees: bool,
    shared_sums: bool,
}

/// Why a plan has to be built again with fewer features.
enum PlanReduction {
    SharedSums(String),
}

impl Builder<Cube> {
    pub(super) fn cube(&mut self, nest: &LoopNest, forest: &Forest, order: &[u32], sizes: &Sizes, gpu: Gpu) {
        let mut allowed = PlanFeatures { cached_rows: true, cached_trees: true, shared_sums: true };
        let (empty, before) = (self.plan.clone(), self.notes.len());
        let mut given_up = Vec::new();
        loop {
            self.plan = empty.clone();
            self.next_walk = 0;
            self.notes.truncate(before);
            if let Err(PlanReduction::SharedSums(why)) =
                self.attempt(nest, forest, order, sizes, gpu, allowed)
            {
                allowed.shared_sums = false;
                given_up.push(("sharedReduce", format!("{why}; partial sums are global")));
                continue;
            }
            let (bytes, have) = (self.plan.shared_bytes(), gpu.shared_bytes);
            if bytes <= have {
                break;
            }
            let over = format!("{bytes} bytes of shared memory, the device has {have}");
            if self.plan.own.cached_trees.is_some() {
                allowed.cached_trees = false;
                given_up.push(("cache of trees", format!("{over}; trees are read from global memory")));
            } else if self.plan.own.cached_rows.is_some() {
                allowed.cached_rows = false;
                given_up.push(("cache of rows", format!("{over}; rows are read from global memory")));
            } else {
                allowed.shared_sums = false;
                given_up.push(("sharedReduce", format!("{over}; partial sums are global")));
            }
        }
        given_up.into_iter().for_each(|(directive, instead)| self.note(directive, instead));
        self.unheeded(nest);
    }

    fn attempt(
        &mut self,
        nest: &LoopNest,
        forest: &Forest,
        order: &[u32],
        sizes: &Sizes,
        gpu: Gpu,
        allowed: PlanFeatures,
    ) -> Result<(), PlanReduction> {
        self.launch(&nest.body, gpu.max_units, gpu.max_dim);
        let mut paths = Vec::new();
        walk_paths(&nest.body, &Surroundings::default(), &mut paths);
        let mut dims: Vec<GpuDim> = paths.iter().flat_map(|p| p.dims.clone()).collect();
        dims.sort_unstable();
        dims.dedup();
        let mut lowering = Lowering {
            owners: owners(&paths),
            dims,
            builder: self,
            nest,
            gpu,
            allowed,
            forest,
            cached_trees: None,
            groups: Vec::new(),
        };
        if allowed.shared_sums {
            lowering.same_shared_sums()?;
        }
        let body = lowering.ops(&nest.body, &Surroundings::default())?;
        let (cached_trees, groups) = (lowering.cached_trees, lowering.groups);
        self.plan.body = body;
        let same = groups.windows(2).all(|pair| pair[0] == pair[1]);
        self.format(forest, order, sizes, groups.first().copied().flatten().filter(|_| same));
        if let Some(trees) = cached_trees {
            set_cached_trees(&mut self.plan.body, trees);
            let words = self.cached_words(sizes, trees);
            self.plan.own.cached_trees =
                Some(CachedTrees { trees, words: words.next_multiple_of(CACHE_MULTIPLE) });
        }
        Ok(())
    }

    /// Adds a note for each mark of a reduction that this plan does not use.
    fn unheeded(&mut self, nest: &LoopNest) {
        if !self.plan.emit.sums() {
            return;
        }
        let mut marked = Vec::new();
        each_op(&nest.body, &mut |op| {
            if let mir::Op::Loop(l) = op
                && l.var.dim == Dim::Tree
            {
                marked.push((l.var.name.clone(), l.mode, l.reduce));
            }
        });
        for (name, mode, reduce) in marked {
            if reduce.atomic && mode != Mode::Serial && !self.plan.is_atomic() {
                let directive = format!("atomicReduce({name})");
                if !self.notes.iter().any(|n| n.directive == directive) {
                    self.note(directive, "its private sums are added up with those of the loops inside it, by a launch after the kernel");
                }
            }
            if let Some(width) = reduce.vector.filter(|n| *n > 1) {
                let directive = format!("vectorReduce({name}, {width})");
                self.note(directive, "a unit adds up one sum at a time; adjacent units take adjacent sums");
            }
        }
    }

    /// Determines the units of each block axis and the iterations of each grid axis.
    fn launch(&mut self, ops: &[mir::Op], max_units: u32, max_dim: [u32; 3]) {
        let (trees, threads) = (self.trees, self.threads);
        let mut block = [1u32; 3];
        let mut asked = Vec::new();
        self.mapped(ops, &mut |builder, l, dim| match dim {
            GpuDim::Block(axis) => {
                let extent = l.var.extent();
                let wanted = match extent.constant() {
                    Some(n) => n,
                    None if extent.depends_on_batch() => OPEN_EXTENT,
                    // As many units as trees, in whole planes, so that models share kernels.
                    None if extent == Size::Trees => trees.next_multiple_of(32).min(OPEN_EXTENT),
                    None => extent.resolve(Extents { batch: 1, trees, threads }).min(OPEN_EXTENT),
                };
                if !extent.depends_on_batch() {
                    asked.push((l.var.name.clone(), axis, wanted));
                }
                let axis = axis as usize;
                block[axis] = block[axis].max(wanted.clamp(1, max_dim[axis].max(1)));
            }
            GpuDim::Grid(axis) => {
                let extent = l.var.extent();
                let at = axis as usize;
                let value = match builder.plan.own.grid[at] {
                    None => extent,
                    Some(Value::Const(n)) => larger(Size::Const(n), extent),
                    Some(Value::Size(s)) => larger(builder.plan.sizes[s as usize].clone(), extent),
                };
                builder.plan.own.grid[at] = Some(builder.value(&value));
            }
        });
        // Loops that are longer than a block dimension wrap, so any cut is right. Halve the longest dimension
        // until the cube fits.
        while block.iter().product::<u32>() > max_units.max(1) {
            let longest = (0..3).max_by_key(|a| block[*a]).unwrap_or(0);
            block[longest] = block[longest].div_ceil(2);
        }
        for (name, axis, wanted) in asked {
            let units = block[axis as usize];
            if units < wanted {
                let each = wanted.div_ceil(units);
                let instead = format!(
                    "{wanted} units, a cube has room for {units} there; each takes up to {each} of the iterations in turn"
                );
                self.note(format!("gpuDimension({name}, {})", GpuDim::Block(axis)), instead);
            }
        }
        self.plan.own.cube_dim = block;
    }

    fn mapped(&mut self, ops: &[mir::Op], visit: &mut impl FnMut(&mut Self, &mir::Loop, GpuDim)) {
        for op in ops {
            if let mir::Op::Loop(l) = op
                && let Mode::Gpu(dim) = l.mode
            {
                visit(self, l, dim);
            }
            op.bodies().into_iter().for_each(|body| self.mapped(body, visit));
        }
    }
}

/// The lowering of a plan's statements.
struct Lowering<'a> {
    builder: &'a mut Builder<Cube>,
    nest: &'a LoopNest,
    gpu: Gpu,
    allowed: PlanFeatures,
    forest: &'a Forest,
    /// Every launch dimension that some walk's loops are mapped to.
    dims: Vec<GpuDim>,
    /// The different assignments of rows to units among the walks. There is one if a row always belongs to
    /// the same unit.
    owners: Vec<Vec<(GpuDim, Range)>>,
    /// Number of trees of the tree cache.
    cached_trees: Option<u32>,
    /// For each row cache, the number of trees of a group if the walks that read the cached rows always walk
    /// whole groups of adjacent trees.
    groups: Vec<Option<u32>>,
}

impl Lowering<'_> {
    fn sums(&self) -> bool {
        self.builder.plan.emit.sums()
    }

    fn is_shared(&self, buffer: BufferId) -> bool {
        let BufferId::Partial(b) = buffer else { return false };
        self.allowed.shared_sums && self.sums() && self.nest.partials[b].shared()
    }

    /// Checks that either all walks of a kernel have shared sums, in the same way, or none: any of the cube's
    /// units adds up a row's copies.
    fn same_shared_sums(&mut self) -> Result<(), PlanReduction> {
        let mut walks = Vec::new();
        each_op(&self.nest.body, &mut |op| {
            if let mir::Op::Walk(w) = op {
                walks.push(w.into);
            }
        });
        let shared: Vec<bool> = walks.iter().map(|into| self.is_shared(*into)).collect();
        if !shared.contains(&true) {
            let mut marked = None;
            each_op(&self.nest.body, &mut |op| match op {
                mir::Op::Loop(l) if l.reduce.shared && self.sums() => marked = Some(l.var.name.clone()),
                _ => {}
            });
            if let Some(name) = marked {
                let why = format!("`{name}` is not parallel, so it has no private sums");
                self.builder.note(format!("sharedReduce({name})"), why);
            }
            return Ok(());
        }
        if shared.contains(&false) {
            return Err(PlanReduction::SharedSums(
                "walks of another branch have no sums in shared memory".into(),
            ));
        }
        if self.owners.len() > 1 {
            return Err(PlanReduction::SharedSums("a row belongs to different units in two branches".into()));
        }
        let mut paths = Vec::new();
        walk_paths(&self.nest.body, &Surroundings::default(), &mut paths);
        if paths.windows(2).any(|w| w[0].dims != w[1].dims) {
            return Err(PlanReduction::SharedSums("branches are mapped to different dimensions".into()));
        }
        let axes = |into: &BufferId| self.block_axes(*into);
        let first = axes(&walks[0]);
        if first.is_empty() {
            return Err(PlanReduction::SharedSums("only a block loop's units share memory".into()));
        }
        if walks.iter().any(|w| axes(w) != first) {
            return Err(PlanReduction::SharedSums(
                "branches share trees out over different block dimensions".into(),
            ));
        }
        Ok(())
    }

    /// Returns the block axes that have private sums in a buffer.
    fn block_axes(&self, into: BufferId) -> Vec<Axis> {
        let BufferId::Partial(b) = into else { return Vec::new() };
        let block = |l: &Private| match l.mode {
            Mode::Gpu(GpuDim::Block(axis)) => Some(axis),
            _ => None,
        };
        // Every block loop of the chain has its own copies, whichever loop the directive named.
        let mut axes: Vec<Axis> = self.nest.partials[b].loops.iter().filter_map(block).collect();
        axes.sort_unstable();
        axes
    }

    fn ops(&mut self, ops: &[mir::Op], around: &Surroundings) -> Result<Vec<Op<Cube>>, PlanReduction> {
        let loops: Vec<&mir::Op> =
            ops.iter().filter(|op| matches!(op, mir::Op::Loop(_) | mir::Op::Cases(_))).collect();
        let is_block =
            |op: &&mir::Op| matches!(op, mir::Op::Loop(l) if matches!(l.mode, Mode::Gpu(GpuDim::Block(_))));
        // Adjacent loops that visit the same rows add to the same sums, unless one register sum holds the
        // sums of all.
        let one_row = loops.iter().all(|op| only_trees(op)) && !loops.is_empty();
        let mut buffers: Vec<(BufferId, bool)> = Vec::new();
        loops.iter().for_each(|op| buffers_of(op, &mut buffers));
        buffers.dedup();
        let shares = |op: &mir::Op| {
            let mut buffers = Vec::new();
            buffers_of(op, &mut buffers);
            buffers.into_iter().any(|(b, _)| self.is_shared(b))
        };
        // Block loops open here if all of these loops are block loops. If a block loop stands beside a loop
        // that holds block loops, both open further in.
        let any_block = loops.iter().any(is_block);
        let opens_block = !around.block && any_block && loops.iter().all(is_block);
        if !around.block && any_block && !opens_block && loops.iter().any(|op| shares(op)) {
            return Err(PlanReduction::SharedSums(
                "block loops of two branches open at different depths".into(),
            ));
        }
        // Shared sums that open further in have barriers, which can't stand inside a register sum.
        let opens_inside = !around.block && loops.iter().any(|op| !is_block(op) && shares(op));
        let shared = opens_block && loops.iter().any(|op| shares(op));
        let caches_inside = loops.iter().any(|op| self.caches(op));
        let one_dims = {
            let mut paths = Vec::new();
            walk_paths(ops, around, &mut paths);
            paths.windows(2).all(|w| w[0].dims == w[1].dims)
        };
        let accumulate = one_row
            && buffers.len() == 1
            && one_dims
            && self.builder.plan.outputs == 1
            && self.sums()
            && !around.accumulating
            && !opens_inside
            && !caches_inside;
        let mut inside = Surroundings {
            accumulating: around.accumulating || accumulate,
            trees: around.trees || (loops.len() > 1 && !accumulate),
            ..around.clone()
        };
        let mut out = Vec::new();
        // The cube fills its caches before anything else.
        for op in ops {
            match op {
                mir::Op::CacheRows => self.cache_rows(ops, &mut inside, &mut out),
                mir::Op::CacheTrees => self.cache_trees(ops, &mut inside, &mut out),
                _ => {}
            }
        }
        let filled = out.len();
        // Dimensions that no loop on the way to these walks is mapped to: only their first unit or cube
        // walks. A barrier can't stand in such a guard. The guard may then stand further in.
        let guarded = match shared || opens_inside || caches_inside {
            false => self.unmapped(ops, &inside),
            true => Vec::new(),
        };
        inside.dims.extend(&guarded);
        for op in ops {
            out.extend(self.guard(op, &mut inside.clone(), |s, inside, out| s.one(op, inside, out))?);
        }
        if accumulate {
            let (buffer, atomic) = buffers[0];
            let into = self.sum(buffer, atomic, around.trees, &around.owner);
            let body = out.split_off(filled);
            out.push(Op::Own(Statement::Accumulate { body, into }));
        }
        if !guarded.is_empty() {
            let body = out.split_off(filled);
            out.push(Op::Own(Statement::Only { dims: guarded, body }));
        }
        if shared {
            self.shared_sums(ops, &buffers, around, filled, &mut out)?;
        }
        Ok(out)
    }

    /// Adds the statements for the shared sums of the block loops that open here: cleared before the loops,
    /// reduced after them.
    fn shared_sums(
        &mut self,
        ops: &[mir::Op],
        buffers: &[(BufferId, bool)],
        around: &Surroundings,
        filled: usize,
        out: &mut Vec<Op<Cube>>,
    ) -> Result<(), PlanReduction> {
        let loops = || ops.iter().filter_map(as_loop);
        let open = |l: &mir::Loop| {
            let name = &l.var.name;
            PlanReduction::SharedSums(format!(
                "an iteration of `{name}` covers a number of rows that is known only at the call (tile the rows, tile(batch, b0, b1, 64))"
            ))
        };
        // A cube adds up the shared sums of all rows, so all of these rows have to be its own.
        let mut shared_out = None;
        each_op(ops, &mut |op| {
            if let mir::Op::Loop(l) = op
                && l.var.dim == Dim::Batch
                && matches!(l.mode, Mode::Gpu(GpuDim::Grid(_)))
            {
                shared_out = Some(l.var.name.clone());
            }
        });
        if let Some(name) = shared_out {
            return Err(PlanReduction::SharedSums(format!(
                "the grid loop `{name}` shares rows out inside the block loops"
            )));
        }
        let mut rows = 1;
        for l in loops() {
            let own = if l.var.dim == Dim::Batch { last_offset(&l.var).ok_or_else(|| open(l))? } else { 0 };
            rows = rows.max(l.touched_rows.ok_or_else(|| open(l))?.saturating_add(own));
        }
        let axes: Vec<(Axis, u32)> = self
            .block_axes(buffers[0].0)
            .into_iter()
            .map(|a| (a, self.builder.plan.own.cube_dim[a as usize]))
            .collect();
        let plan = &mut self.builder.plan;
        match &mut plan.own.shared_sums {
            Some(have) => have.rows = have.rows.max(rows),
            none => *none = Some(SharedSums { axes, rows }),
        }
        // One unit adds up a row's copies if that keeps units busy. Otherwise several units add up each row's
        // copies together.
        let sums = plan.own.shared_sums.as_ref().map_or(1, SharedSums::copies);
        let by = match sums >= FEW_COPIES && rows.saturating_mul(plan.outputs) < sums {
            false => Adders::Unit,
            true if self.gpu.plane_ops => Adders::Plane,
            true => Adders::Cube,
        };
        out.insert(filled, Op::Own(Statement::ClearShared));
        // The cube's sums go to the result, or to a global copy if the grid shares out trees, too.
        let BufferId::Partial(b) = buffers[0].0 else { return Ok(()) };
        let partial = &self.nest.partials[b];
        let on_grid = |l: &&Private| matches!(l.mode, Mode::Gpu(GpuDim::Grid(_)));
        let grid: Vec<Private> = partial.loops.iter().filter(on_grid).cloned().collect();
        let atomic = !grid.is_empty() && grid.iter().all(|l| l.reduce.is_atomic());
        let mut chains: Vec<_> = ops.iter().flat_map(|op| self.builder.row_loops(op, around.depth)).collect();
        chains.dedup();
        let into = match (grid.is_empty(), atomic) {
            (true, _) => Sum::Result { first: !around.trees && chains.len() == 1 },
            (false, true) => Sum::Atomic,
            (false, false) => Sum::Partial { buffer: self.global(&grid, &[]) },
        };
        out.push(Op::Own(Statement::ReduceShared { into, rows: chains, by }));
        Ok(())
    }

    /// Lowers a statement, without the guard around it.
    fn one(
        &mut self,
        op: &mir::Op,
        around: &Surroundings,
        out: &mut Vec<Op<Cube>>,
    ) -> Result<(), PlanReduction> {
        match op {
            mir::Op::Loop(l) => self.one_loop(l, around, out)?,
            mir::Op::Cases(c) => {
                let mut cases = Vec::new();
                for case in &c.cases {
                    cases.push((case.end, self.ops(&case.body, around)?));
                }
                out.push(Op::Cases { register: c.depth as u32, cases });
            }
            mir::Op::Walk(w) => {
                let sums = self.sums() && !around.accumulating;
                let into = sums.then(|| self.sum(w.into, w.atomic, true, &around.owner));
                let (cached_rows, cached_trees) = (around.cached_rows, around.cached_trees);
                let own = Walk { cached_rows, cached_trees, into };
                // A kernel's walk tests at each step, so no schedule has tested straight-line steps on a GPU.
                let own = |tested| {
                    debug_assert_eq!(tested, 0, "a kernel's walk has no tested steps");
                    own
                };
                out.push(Op::Walk(self.builder.walk(w, around.depth, own)));
            }
            // Caches are filled earlier, and stages are placed where block loops open.
            mir::Op::CacheRows | mir::Op::CacheTrees | mir::Op::Reduce(_) => {}
        }
        Ok(())
    }

    fn one_loop(
        &mut self,
        l: &mir::Loop,
        around: &Surroundings,
        out: &mut Vec<Op<Cube>>,
    ) -> Result<(), PlanReduction> {
        let range = self.builder.range(&l.var);
        let map = match l.mode {
            Mode::Gpu(dim) => Map::Own(MappedLoop { dim, single: self.single(l, dim) }),
            Mode::Serial | Mode::Parallel => self.builder.serial(l),
        };
        let inside = entered(l, around);
        let body = self.ops(&l.body, &inside)?;
        let register = around.depth as u32;
        out.push(Op::Loop(Loop { var: l.var.name.clone(), dim: l.var.dim, register, range, map, body }));
        Ok(())
    }

    /// Wraps the statements that `make` returns in a guard for the dimensions that no walk inside is mapped
    /// to, unless a barrier stands inside.
    fn guard(
        &mut self,
        op: &mir::Op,
        inside: &mut Surroundings,
        make: impl FnOnce(&mut Self, &Surroundings, &mut Vec<Op<Cube>>) -> Result<(), PlanReduction>,
    ) -> Result<Vec<Op<Cube>>, PlanReduction> {
        let dims = match self.has_barrier(op, inside) {
            true => Vec::new(),
            false => self.unmapped(std::slice::from_ref(op), inside),
        };
        inside.dims.extend(&dims);
        let mut out = Vec::new();
        make(self, inside, &mut out)?;
        Ok(if dims.is_empty() { out } else { vec![Op::Own(Statement::Only { dims, body: out })] })
    }

    fn has_barrier(&self, op: &mir::Op, around: &Surroundings) -> bool {
        let mut buffers = Vec::new();
        buffers_of(op, &mut buffers);
        self.caches(op) || (!around.block && buffers.iter().any(|(b, _)| self.is_shared(*b)))
    }

    /// Whether some rows or trees are cached inside.
    fn caches(&self, op: &mir::Op) -> bool {
        let mut found = false;
        each_op(std::slice::from_ref(op), &mut |op| {
            found |= match op {
                mir::Op::CacheRows => self.allowed.cached_rows,
                mir::Op::CacheTrees => self.allowed.cached_trees,
                _ => false,
            };
        });
        found
    }

    /// Returns the launch dimensions that no loop on the way to any walk of these statements is mapped to.
    fn unmapped(&self, ops: &[mir::Op], around: &Surroundings) -> Vec<GpuDim> {
        let mut paths = Vec::new();
        walk_paths(ops, around, &mut paths);
        let none = |dim: &GpuDim| !paths.is_empty() && paths.iter().all(|p| !p.dims.contains(dim));
        self.dims.iter().copied().filter(none).collect()
    }

    fn cache_rows(&mut self, ops: &[mir::Op], around: &mut Surroundings, out: &mut Vec<Op<Cube>>) {
        let Some((name, touched_rows)) = &around.inside else { return };
        let directive = format!("cache({name})");
        if !self.allowed.cached_rows {
            return;
        }
        let why = match touched_rows {
            _ if around.block => {
                "a cube fills its row cache together, outside its block loops; rows are read from global memory"
            }
            _ if around.cached_rows => "a loop around it has cached its rows already",
            None => {
                "an iteration covers a number of rows that is known only at the call (tile the rows, tile(batch, b0, b1, 64)); \
                 rows are read from global memory"
            }
            Some(rows) => {
                let rows = *rows;
                let plan = &mut self.builder.plan;
                plan.own.cached_rows = Some(plan.own.cached_rows.map_or(rows, |r| r.max(rows)));
                let group = self.group(ops, around);
                self.groups.push(group);
                around.cached_rows = true;
                out.push(Op::Own(Statement::CacheRows { rows }));
                return;
            }
        };
        self.builder.note(directive, why);
    }

    /// Returns the number of trees of a group, if enclosing loops divide the forest into groups of that many
    /// adjacent trees and these statements walk no tree outside a group. The running tree is then always the
    /// first of its group.
    fn group(&self, ops: &[mir::Op], around: &Surroundings) -> Option<u32> {
        let at = Extents { batch: 1, trees: self.builder.trees, threads: self.builder.threads };
        let number = |size: &Size| (!size.depends_on_batch()).then(|| size.resolve(at));
        let (_, stride) = around.tree_loops.last()?;
        let group = number(stride).filter(|n| *n >= self.builder.touched_trees(ops))?;
        let whole = |size| number(size).is_some_and(|n| n.is_multiple_of(group));
        around.tree_loops.iter().all(|(start, stride)| whole(start) && whole(stride)).then_some(group)
    }

    fn cache_trees(&mut self, ops: &[mir::Op], around: &mut Surroundings, out: &mut Vec<Op<Cube>>) {
        let Some((name, _)) = &around.inside else { return };
        let directive = format!("cache({name})");
        if !self.allowed.cached_trees {
            return;
        }
        let why = if around.block {
            "a cube fills its tree cache together, outside its block loops; trees are read from global memory"
        } else if around.cached_trees {
            "a loop around it has cached its trees already"
        } else if self.forest.trees.is_empty() {
            "the model has no trees"
        } else {
            let trees = self.builder.touched_trees(ops);
            // All tree caches have the same size, so that one rule gives a node's address in any of them.
            let trees = self.cached_trees.map_or(trees, |t| t.max(trees));
            self.cached_trees = Some(trees);
            around.cached_trees = true;
            out.push(Op::Own(Statement::CacheTrees { trees }));
            return;
        };
        self.builder.note(directive, why);
    }

    /// Whether a mapped loop has at most one iteration for each unit.
    fn single(&self, l: &mir::Loop, dim: GpuDim) -> bool {
        match dim {
            GpuDim::Block(axis) => {
                let units = self.builder.plan.own.cube_dim[axis as usize];
                l.var.extent().constant().is_some_and(|n| n <= units)
            }
            // Cubes past a dimension's limit become strides of the loop.
            GpuDim::Grid(_) => false,
        }
    }

    /// Returns where a reduce into a legalised buffer goes on this target. `again` says that other sums go to
    /// the same rows.
    fn sum(&mut self, into: BufferId, atomic: bool, again: bool, owner: &[(GpuDim, Range)]) -> Sum {
        if self.is_shared(into) {
            return Sum::Shared;
        }
        if atomic {
            return Sum::Atomic;
        }
        let loops = match into {
            BufferId::Result if self.owners.len() < 2 => return Sum::Result { first: !again },
            BufferId::Result => Vec::new(),
            BufferId::Partial(b) => self.nest.partials[b].loops.clone(),
        };
        // If a row belongs to different units in different walks, each assignment has its own copies.
        let owner = if self.owners.len() < 2 { &[] } else { owner };
        Sum::Partial { buffer: self.global(&loops, owner) }
    }

    /// Returns the global buffer with a copy for each index of these loops' launch dimensions.
    fn global(&mut self, loops: &[Private], owner: &[(GpuDim, Range)]) -> u32 {
        let mapped = |l: &Private| if let Mode::Gpu(dim) = l.mode { Some(dim) } else { None };
        let dims: Vec<GpuDim> = loops.iter().filter_map(mapped).collect();
        let owner = self.owners.iter().position(|o| o == owner).unwrap_or(0) as u32;
        // Loops on the same dimensions share copies, since a unit adds to its own copy.
        let wanted = Partial { dims, owner };
        let partials = &mut self.builder.plan.own.partials;
        let found = partials.iter().position(|have| *have == wanted);
        found.unwrap_or_else(|| {
            partials.push(wanted);
            partials.len() - 1
        }) as u32
    }
}

/// Makes every tree cache hold `count` trees.
fn set_cached_trees(ops: &mut [Op<Cube>], count: u32) {
    for op in ops {
        match op {
            Op::Own(Statement::CacheTrees { trees }) => *trees = count,
            Op::Own(Statement::Accumulate { body, .. } | Statement::Only { body, .. }) => {
                set_cached_trees(body, count);
            }
            Op::Loop(l) => set_cached_trees(&mut l.body, count),
            Op::Cases { cases, .. } => cases.iter_mut().for_each(|(_, body)| set_cached_trees(body, count)),
            Op::Walk(_)
            | Op::Own(
                Statement::CacheRows { .. } | Statement::ClearShared | Statement::ReduceShared { .. },
            ) => {}
        }
    }
}

fn larger(a: Size, b: Size) -> Size {
    match (a.constant(), b.constant()) {
        (Some(x), Some(y)) => Size::Const(x.max(y)),
        _ if a == b => a,
        // A sum is at least as large as either size.
        _ => a.plus(b),
    }
}

/// Returns the last offset of a loop, if that is a constant.
fn last_offset(var: &IndexVar) -> Option<u32> {
    let end = var.bounds.iter().filter_map(|b| b.end.constant()).min()?;
    let stride = var.stride.constant()?.max(1);
    Some(end.saturating_sub(1) / stride * stride)
}
