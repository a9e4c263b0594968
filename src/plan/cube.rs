//! MIR to a cube plan: launch dimensions, the row cache, partial sums in shared and global memory.
//!
//! Barriers stand only between block loops, never inside them: what a block loop's units have summed is added up at
//! the end of the outermost block loop, where control flow is the same for every unit of the cube. Sums that no
//! barrier can complete (trees over the grid, or over a block without `sharedReduce`) stay in global copies, which a
//! second launch adds up.

use super::{CopyDim, Emit, GpuDim, Loop, Map, Op, Partial, SharedSums, Sum, Value, lower::Builder};
use crate::{
    error::Result,
    forest::Forest,
    mir::{self, BufferId, Dim, LoopNest, Mode},
    schedule::{Axis, Device, IndexVar, Schedule, ScheduleError},
};

/// Units given to a block dimension whose extent only the call knows.
const OPEN_EXTENT: u32 = 256;

/// What surrounds the statement being lowered.
#[derive(Clone, Copy, Default)]
struct Around {
    depth: usize,
    /// Inside a block loop.
    block: bool,
    /// Inside a loop over trees, or beside another loop: a row's sum is added to more than once.
    trees: bool,
    /// Inside [`Op::Accumulate`].
    accumulating: bool,
    /// Rows that an iteration of the loop immediately around can touch, where it caches them.
    window: Option<u32>,
}

impl Builder {
    pub(super) fn cube(
        &mut self,
        nest: &LoopNest,
        schedule: &Schedule,
        forest: &Forest,
        device: Device,
    ) -> Result<()> {
        let Device::Gpu { max_units, max_dim, shared_bytes, .. } = device else { return Ok(()) };
        self.launch(&nest.body, max_units, max_dim, forest.trees.len() as u32);
        self.plan.body = self.cube_ops(nest, &nest.body, Around::default())?;
        if self.plan.cached_rows.is_some() {
            self.plan.features = forest.features.len() as u32;
        }
        let bytes = self.plan.shared_bytes();
        if bytes > shared_bytes {
            let marked = nest_marks(&nest.body);
            let remedy = format!(
                "{bytes} bytes of shared memory, the device has {shared_bytes}; make tiles of rows smaller or leave the directive out"
            );
            return Err(match marked {
                Some(var) => schedule.blame(&var, remedy),
                None => ScheduleError::whole(remedy),
            }
            .into());
        }
        Ok(())
    }

    /// Settles the units of each block axis and the iterations of each grid axis.
    fn launch(&mut self, ops: &[mir::Op], max_units: u32, max_dim: [u32; 3], trees: u32) {
        let mut block = [1u32; 3];
        self.mapped(ops, &mut |builder, l, dim| match dim {
            GpuDim::Block(axis) => {
                // An open loop over trees is as long as the forest, in steps of a plane so that models share kernels.
                let open = if l.var.dim == Dim::Tree { trees.next_multiple_of(32) } else { OPEN_EXTENT };
                let wanted = l.var.extent().constant().unwrap_or(open.min(OPEN_EXTENT));
                let axis = axis as usize;
                block[axis] = block[axis].max(wanted.clamp(1, max_dim[axis].max(1)));
            }
            GpuDim::Grid(axis) => {
                let extent = l.var.extent();
                let at = axis as usize;
                let value = match builder.plan.grid[at] {
                    None => extent,
                    Some(Value::Const(n)) => larger(super::Size::Const(n), extent),
                    Some(Value::Slot(s)) => larger(builder.plan.sizes[s as usize].clone(), extent),
                };
                builder.plan.grid[at] = Some(builder.value(&value));
            }
        });
        // Longer block dimensions wrap, so any cut is right; halve the longest until the cube fits.
        while block.iter().product::<u32>() > max_units.max(1) {
            let longest = (0..3).max_by_key(|a| block[*a]).unwrap_or(0);
            block[longest] = block[longest].div_ceil(2);
        }
        self.plan.cube_dim = block;
    }

    fn mapped(&mut self, ops: &[mir::Op], visit: &mut impl FnMut(&mut Self, &mir::Loop, GpuDim)) {
        for op in ops {
            if let mir::Op::Loop(l) = op {
                if let Mode::Gpu(dim) = l.mode {
                    visit(self, l, dim);
                }
                self.mapped(&l.body, visit);
            }
        }
    }

    fn cube_ops(&mut self, nest: &LoopNest, ops: &[mir::Op], around: Around) -> Result<Vec<Op>> {
        let loops: Vec<&mir::Loop> = ops.iter().filter_map(as_loop).collect();
        let is_block = |l: &&mir::Loop| matches!(l.mode, Mode::Gpu(GpuDim::Block(_)));
        let opens_block = !around.block && loops.iter().all(is_block) && !loops.is_empty();
        // Loops side by side that visit the same rows add to the same sums, unless one register sum holds them all.
        let one_row = loops.iter().all(|l| only_trees(l)) && !loops.is_empty();
        let one_sum =
            one_row && loops.windows(2).all(|w| first_buffer(&w[0].body) == first_buffer(&w[1].body));
        // Shared sums that open further in have barriers, which a register sum can't hold.
        let shares = |l: &&mir::Loop| {
            let mut buffers = Vec::new();
            buffers_of(&l.body, &mut buffers);
            buffers.into_iter().any(|b| nest.shared(b))
        };
        let opens_inside = !around.block && loops.iter().any(|l| !is_block(l) && shares(l));
        if !around.block && !loops.iter().all(is_block) && loops.iter().any(|l| is_block(l) && shares(l)) {
            return Err(ScheduleError::whole(
                "sharedReduce over a block loop beside a loop that holds block loops; map both branches at the same \
                 depth, or leave sharedReduce out",
            )
            .into());
        }
        let accumulate =
            one_sum && self.plan.outputs == 1 && self.sums() && !around.accumulating && !opens_inside;
        let inside = Around {
            accumulating: around.accumulating || accumulate,
            trees: around.trees || (loops.len() > 1 && !accumulate),
            ..around
        };
        // The shared sums of the block loops that open here, if their reduces have any.
        let shared = opens_block && self.sums() && self.shared_sums(nest, &loops)?;
        let mut out = Vec::new();
        for op in ops {
            match op {
                mir::Op::Loop(l) => self.cube_loop(nest, l, inside, &mut out)?,
                mir::Op::Walk(w) => {
                    let into = (self.sums() && !around.accumulating).then(|| self.sum(nest, w.into, true));
                    let walk = self.walk(w, around.depth, into);
                    out.push(Op::Walk(walk));
                }
                mir::Op::CacheRows => {
                    let rows = around.window.unwrap_or(1);
                    self.plan.cached_rows = Some(self.plan.cached_rows.map_or(rows, |r| r.max(rows)));
                    out.push(Op::CacheRows { rows });
                }
                // Stages are placed where block loops open.
                mir::Op::Reduce(_) => {}
            }
        }
        if accumulate {
            let into = self.sum(nest, first_buffer(&loops[0].body), around.trees);
            // The row cache is filled outside a register sum: it has barriers.
            let filled = out.iter().take_while(|op| matches!(op, Op::CacheRows { .. })).count();
            let body = out.split_off(filled);
            out.push(Op::Accumulate { body, into });
        }
        if shared {
            out.insert(
                out.iter().take_while(|op| matches!(op, Op::CacheRows { .. })).count(),
                Op::ClearShared,
            );
            // What the cube has summed goes on: to the result, or to a copy where the grid shares out trees too.
            let grid: Vec<_> = match first_buffer(&loops[0].body) {
                BufferId::Result => Vec::new(),
                BufferId::Partial(b) => {
                    let on_grid = |l: &&(usize, IndexVar, Mode)| matches!(l.2, Mode::Gpu(GpuDim::Grid(_)));
                    nest.partials[b].loops.iter().filter(on_grid).cloned().collect()
                }
            };
            let mut rows: Vec<_> = ops.iter().flat_map(|op| self.row_loops(op, around.depth)).collect();
            rows.dedup();
            let into = match grid.is_empty() {
                true => Sum::Result { first: !around.trees && rows.len() == 1 },
                false => Sum::Partial { buffer: self.global(&grid) },
            };
            out.push(Op::ReduceShared { into, rows });
        }
        Ok(out)
    }

    fn cube_loop(&mut self, nest: &LoopNest, l: &mir::Loop, around: Around, out: &mut Vec<Op>) -> Result<()> {
        let range = self.range(&l.var);
        let map = match l.mode {
            Mode::Gpu(dim) => Map::Gpu { dim, single: self.single(l, dim) },
            Mode::Serial | Mode::Parallel => Map::Serial,
        };
        let window = match l.body.contains(&mir::Op::CacheRows) {
            true => Some(self.window(l, "cache")?),
            false => None,
        };
        let inside = Around {
            depth: around.depth + 1,
            block: around.block || matches!(l.mode, Mode::Gpu(GpuDim::Block(_))),
            trees: around.trees || l.var.dim == Dim::Tree,
            accumulating: around.accumulating,
            window,
        };
        let body = self.cube_ops(nest, &l.body, inside)?;
        let register = around.depth as u32;
        out.push(Op::Loop(Loop { var: l.var.name.clone(), dim: l.var.dim, register, range, map, body }));
        Ok(())
    }

    /// Whether the plan adds leaves up at all.
    fn sums(&self) -> bool {
        self.plan.emit == Emit::Margins
    }

    /// Whether a mapped loop has at most one iteration a unit.
    fn single(&self, l: &mir::Loop, dim: GpuDim) -> bool {
        match dim {
            GpuDim::Block(axis) => {
                l.var.extent().constant().is_some_and(|n| n <= self.plan.cube_dim[axis as usize])
            }
            // Cubes past a dimension's limit are folded into strides.
            GpuDim::Grid(_) => false,
        }
    }

    /// Where a reduce into a legalised buffer goes on this target; `again` says that other sums go to the same rows.
    fn sum(&mut self, nest: &LoopNest, into: BufferId, again: bool) -> Sum {
        match into {
            BufferId::Result => Sum::Result { first: !again },
            BufferId::Partial(b) if nest.shared(b) => Sum::Shared,
            BufferId::Partial(b) => Sum::Partial { buffer: self.global(&nest.partials[b].loops) },
        }
    }

    /// The global buffer with a copy for each index of these loops' launch dimensions.
    fn global(&mut self, loops: &[(usize, IndexVar, Mode)]) -> u32 {
        let mut dims = Vec::new();
        for (depth, var, mode) in loops {
            if let Mode::Gpu(dim) = mode {
                let count = match dim {
                    GpuDim::Block(axis) => Value::Const(self.plan.cube_dim[*axis as usize]),
                    GpuDim::Grid(axis) => self.plan.grid[*axis as usize].unwrap_or(Value::Const(1)),
                };
                let (start, step) = (self.value(&var.start), self.value(&var.step));
                dims.push(CopyDim { count, gpu: Some(*dim), register: *depth as u32, start, step });
            }
        }
        // Loops on the same dimensions share copies: a unit adds to its own.
        let same = |p: &Partial| p.dims.iter().map(|d| d.gpu).eq(dims.iter().map(|d| d.gpu));
        let found = self.plan.partials.iter().position(same);
        found.unwrap_or_else(|| {
            self.plan.partials.push(Partial { dims });
            self.plan.partials.len() - 1
        }) as u32
    }

    /// Sets up the shared sums of the block loops that open side by side; false if they have none.
    fn shared_sums(&mut self, nest: &LoopNest, loops: &[&mir::Loop]) -> Result<bool> {
        let mut buffers = Vec::new();
        loops.iter().for_each(|l| buffers_of(&l.body, &mut buffers));
        let mut chains = Vec::new();
        for b in buffers.into_iter().filter(|b| nest.shared(*b)) {
            // Every block loop of the chain has its own copies, whichever of them the directive named.
            let block = |(_, _, mode): &(usize, IndexVar, Mode)| match mode {
                Mode::Gpu(GpuDim::Block(axis)) => Some(*axis),
                _ => None,
            };
            let mut axes: Vec<Axis> = nest.partials[b].loops.iter().filter_map(block).collect();
            axes.sort_unstable();
            chains.push(axes);
        }
        chains.dedup();
        let axes = match &chains[..] {
            [] => return Ok(false),
            [one] => one.iter().map(|a| (*a, self.plan.cube_dim[*a as usize])).collect(),
            _ => {
                return Err(ScheduleError::whole(
                    "sharedReduce over different block dimensions side by side; use the same dimensions in each branch",
                )
                .into());
            }
        };
        let mut rows = 1;
        for l in loops {
            let own = if l.var.dim == Dim::Batch { self.own_reach(l)? } else { 0 };
            rows = rows.max(self.window(l, "sharedReduce")?.saturating_add(own));
        }
        let sums = SharedSums { axes, rows };
        match &mut self.plan.shared_sums {
            Some(have) if have.axes != sums.axes => {
                return Err(ScheduleError::whole(
                    "sharedReduce over different block dimensions in one kernel; use the same dimensions in each branch",
                )
                .into());
            }
            Some(have) => have.rows = have.rows.max(rows),
            none => *none = Some(sums),
        }
        Ok(true)
    }

    fn window(&self, l: &mir::Loop, directive: &str) -> Result<u32> {
        l.window.ok_or_else(|| {
            ScheduleError::whole(format!(
                "{directive}: an iteration of `{}` covers a number of rows that only the call knows; tile the rows, \
                 tile(batch, b0, b1, 64)",
                l.var.name
            ))
            .into()
        })
    }

    /// The last offset of a loop over rows.
    fn own_reach(&self, l: &mir::Loop) -> Result<u32> {
        let end = l.var.bounds.iter().filter_map(|b| b.end.constant()).min();
        match (end, l.var.step.constant()) {
            (Some(end), Some(step)) => Ok(end.saturating_sub(1) / step.max(1) * step.max(1)),
            _ => Err(ScheduleError::whole(format!(
                "sharedReduce: `{}` covers a number of rows that only the call knows; tile the rows, \
                 tile(batch, b0, b1, 64)",
                l.var.name
            ))
            .into()),
        }
    }
}

fn larger(a: super::Size, b: super::Size) -> super::Size {
    match (a.constant(), b.constant()) {
        (Some(x), Some(y)) => super::Size::Const(x.max(y)),
        _ if a == b => a,
        // A sum is at least either.
        _ => a.plus(b),
    }
}

/// Whether a loop and all inside it go over trees, so that the row stays the same.
fn only_trees(l: &mir::Loop) -> bool {
    l.var.dim == Dim::Tree
        && l.body.iter().all(|op| match op {
            mir::Op::Loop(inner) => only_trees(inner),
            mir::Op::Walk(w) => w.lanes.as_ref().is_none_or(|v| v.dim == Dim::Tree),
            mir::Op::CacheRows => false,
            mir::Op::Reduce(_) => true,
        })
}

/// The buffer of the first walk in these statements.
fn first_buffer(ops: &[mir::Op]) -> BufferId {
    fn find(ops: &[mir::Op]) -> Option<BufferId> {
        ops.iter().find_map(|op| match op {
            mir::Op::Loop(l) => find(&l.body),
            mir::Op::Walk(w) => Some(w.into),
            mir::Op::CacheRows | mir::Op::Reduce(_) => None,
        })
    }
    find(ops).unwrap_or(BufferId::Result)
}

/// The partial buffers that the walks in these statements reduce into.
fn buffers_of(ops: &[mir::Op], buffers: &mut Vec<usize>) {
    for op in ops {
        match op {
            mir::Op::Loop(l) => buffers_of(&l.body, buffers),
            mir::Op::Walk(w) => {
                buffers.extend(if let BufferId::Partial(b) = w.into { Some(b) } else { None })
            }
            mir::Op::CacheRows | mir::Op::Reduce(_) => {}
        }
    }
}

fn as_loop(op: &mir::Op) -> Option<&mir::Loop> {
    if let mir::Op::Loop(l) = op { Some(l) } else { None }
}

/// The first loop that asks for shared memory.
fn nest_marks(ops: &[mir::Op]) -> Option<String> {
    ops.iter().find_map(|op| match op {
        mir::Op::Loop(l) if l.shared_reduce || l.body.contains(&mir::Op::CacheRows) => {
            Some(l.var.name.clone())
        }
        mir::Op::Loop(l) => nest_marks(&l.body),
        _ => None,
    })
}
