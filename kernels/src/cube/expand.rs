//! The statements of a plan, expanded one by one.
//!
//! No unit returns early and barriers stand in uniform control flow: partial tiles bound loops, not barriers.

// A kernel's state is its arguments: slices of buffers can't be kept in a struct while a kernel is expanded.
#![allow(clippy::too_many_arguments)]
// `#[cube]` unrolls index loops over comptime vectors, and takes neither slices nor iterators there.
#![allow(clippy::needless_range_loop, clippy::ptr_arg)]
// What `#[cube]` makes of a recursive call.
#![allow(unused_qualifications)]

use cubecl::prelude::*;

use super::{
    keys::{key_of_bits, load_bits},
    node,
};
use crate::plan::{
    Axis, Dim, Emit, GpuDim, Lanes, Limit, Loop, Map, Op, PlanRef, Range, RowLoop, Sum, Value, Walk,
};

/// What only the call knows.
#[derive(CubeType, CubeLaunch)]
pub struct Call {
    /// Rows.
    pub batch: u32,
    /// Trees.
    pub trees: u32,
    /// From row to row, in values.
    pub row_stride: u32,
    /// From column to column, in values.
    pub column_stride: u32,
    /// The first row's first value, in values.
    pub row_offset: u32,
    /// Where the model's parts begin, in words: trees, slots, category sets, base scores.
    pub trees_at: u32,
    /// Slots by address.
    pub slots_at: u32,
    /// Category sets.
    pub questions_at: u32,
    /// Base scores.
    pub base_at: u32,
    /// The plan's run-time sizes.
    pub sizes: Sequence<u32>,
    /// Where the partial buffers begin.
    pub partials_at: Sequence<u32>,
}

/// Where the loops stand.
#[derive(CubeType, Clone)]
pub struct State {
    row: u32,
    tree: u32,
    /// The registers of the loops entered so far.
    offsets: Sequence<u32>,
    /// First row of the row cache.
    window: u32,
    /// First row of the shared sums.
    sums_row: u32,
}

/// The kernel of a plan. `model` holds nodes, trees, slots, sets and base scores; `out` is margins by their bits,
/// slots, or a trace.
#[cube(launch_unchecked, create_dummy_kernel)]
pub fn forest(
    rows: &[u32],
    model: &[u32],
    leaves: &[f32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    #[comptime] plan: PlanRef,
) {
    let mut cache = Sequence::<Shared<[u32]>>::new();
    if comptime![plan.cached_rows.is_some()] {
        cache.push(Shared::new_slice(comptime![
            (plan.cached_rows.unwrap_or(0) * plan.features).max(1) as usize
        ]));
    }
    let mut sums = Sequence::<Shared<[f32]>>::new();
    if comptime![plan.shared_sums.is_some()] {
        sums.push(Shared::new_slice(comptime![shared_len(&plan) as usize]));
    }
    let state = State { row: 0u32, tree: 0u32, offsets: Sequence::new(), window: 0u32, sums_row: 0u32 };
    let clock = RuntimeCell::<u32>::new(0u32);
    let sum = RuntimeCell::<f32>::new(0.0f32);
    let ops = comptime![plan.body.clone()];
    run(rows, model, leaves, out, partial, call, &mut cache, &mut sums, &state, &clock, &sum, &ops, &plan);
}

fn shared_len(plan: &PlanRef) -> u32 {
    plan.shared_sums.as_ref().map_or(0, |s| s.copies() * s.rows * plan.outputs)
}

/// The statements, in order.
#[cube]
fn run(
    rows: &[u32],
    model: &[u32],
    leaves: &[f32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    cache: &mut Sequence<Shared<[u32]>>,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    clock: &RuntimeCell<u32>,
    sum: &RuntimeCell<f32>,
    #[comptime] ops: &Vec<Op>,
    #[comptime] plan: &PlanRef,
) {
    // What is cached or cleared here begins at the running row, for all statements beside it.
    let caches = comptime![ops.iter().any(|op| matches!(op, Op::CacheRows { .. }))];
    let clears = comptime![ops.iter().any(|op| matches!(op, Op::ClearShared))];
    let here = State {
        row: state.row,
        tree: state.tree,
        offsets: state.offsets.clone(),
        window: if caches { state.row } else { state.window },
        sums_row: if clears { state.row } else { state.sums_row },
    };
    #[unroll]
    for i in 0..ops.len() {
        let op = comptime![ops[i].clone()];
        match op {
            Op::Loop(l) => {
                run_loop(rows, model, leaves, out, partial, call, cache, sums, &here, clock, sum, &l, plan)
            }
            Op::Walk(w) => {
                walk(rows, model, leaves, out, partial, call, &*cache, sums, &here, clock, sum, &w, plan)
            }
            Op::Accumulate { body, into } => {
                sum.store(0.0f32);
                run(rows, model, leaves, out, partial, call, cache, sums, &here, clock, sum, &body, plan);
                add(model, out, partial, call, sums, &here, here.row, 0u32, sum.read(), &into, plan);
            }
            Op::CacheRows { rows: count } => cache_rows(rows, call, cache, &here, count, plan),
            Op::ClearShared => clear_shared(sums, plan),
            Op::ReduceShared { into, rows: chains } => {
                reduce_shared(model, out, partial, call, sums, &here, &chains, &into, plan);
            }
            // A statement of the CPU; `Plan::verify` keeps it out.
            Op::ReduceDimension { .. } => {}
        }
    }
}

/// A number of the plan.
#[cube]
fn value(call: &Call, #[comptime] value: Value) -> u32 {
    match value {
        Value::Const(n) => n.runtime(),
        Value::Slot(s) => *call.sizes.index(s as usize),
    }
}

/// One past the last offset that every limit allows. A loop with numbers for limits ends with the rows or trees there
/// are, so that a tile larger than that has no further iterations.
#[cube]
fn end_of(
    call: &Call,
    offsets: &Sequence<u32>,
    #[comptime] limits: &Vec<Limit>,
    #[comptime] dim: Dim,
) -> u32 {
    let mut end = 0xffff_ffffu32;
    if comptime![!limits.iter().any(|l| matches!(l.end, Value::Slot(_)))] {
        end = if comptime![dim == Dim::Batch] { call.batch } else { call.trees };
    }
    #[unroll]
    for i in 0..limits.len() {
        let limit = comptime![limits[i].clone()];
        let mut this = value(call, limit.end);
        #[unroll]
        for m in 0..limit.minus.len() {
            let off = *offsets.index(comptime![limit.minus[m] as usize]);
            this = select(off < this, this - off, 0u32);
        }
        end = select(this < end, this, end);
    }
    end
}

/// The index of this unit, or of its cube, in a launch dimension.
#[cube]
fn index_of(#[comptime] dim: GpuDim) -> u32 {
    match dim {
        GpuDim::Grid(axis) => match axis {
            Axis::X => CUBE_POS_X,
            Axis::Y => CUBE_POS_Y,
            Axis::Z => CUBE_POS_Z,
        },
        GpuDim::Block(axis) => match axis {
            Axis::X => UNIT_POS_X,
            Axis::Y => UNIT_POS_Y,
            Axis::Z => UNIT_POS_Z,
        },
    }
}

/// The size of a launch dimension.
#[cube]
fn size_of_dim(#[comptime] dim: GpuDim, #[comptime] plan: &PlanRef) -> u32 {
    match dim {
        GpuDim::Grid(axis) => match axis {
            Axis::X => CUBE_COUNT_X,
            Axis::Y => CUBE_COUNT_Y,
            Axis::Z => CUBE_COUNT_Z,
        },
        GpuDim::Block(axis) => plan.cube_dim[axis as usize].runtime(),
    }
}

/// The state inside an iteration.
#[cube]
fn enter(state: &State, offset: u32, #[comptime] dim: Dim) -> State {
    let mut offsets = state.offsets.clone();
    offsets.push(offset);
    let batch = comptime![dim == Dim::Batch];
    State {
        row: if batch { state.row + offset } else { state.row },
        tree: if batch { state.tree } else { state.tree + offset },
        offsets,
        window: state.window,
        sums_row: state.sums_row,
    }
}

#[cube]
fn run_loop(
    rows: &[u32],
    model: &[u32],
    leaves: &[f32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    cache: &mut Sequence<Shared<[u32]>>,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    clock: &RuntimeCell<u32>,
    sum: &RuntimeCell<f32>,
    #[comptime] l: &Loop,
    #[comptime] plan: &PlanRef,
) {
    let end = end_of(call, &state.offsets, comptime![&l.range.limits], l.dim);
    let start = value(call, l.range.start);
    let step = value(call, l.range.step);
    match l.map {
        Map::Gpu { dim, single: true } => {
            let offset = start + index_of(dim) * step;
            if offset < end {
                let inside = enter(state, offset, l.dim);
                run(rows, model, leaves, out, partial, call, cache, sums, &inside, clock, sum, &l.body, plan);
            }
        }
        Map::Gpu { dim, single: false } => {
            let mut offset = start + index_of(dim) * step;
            let stride = size_of_dim(dim, plan) * step;
            while offset < end {
                let inside = enter(state, offset, l.dim);
                run(rows, model, leaves, out, partial, call, cache, sums, &inside, clock, sum, &l.body, plan);
                offset += stride;
            }
        }
        Map::Serial | Map::Parallel => {
            let mut offset = start;
            while offset < end {
                let inside = enter(state, offset, l.dim);
                run(rows, model, leaves, out, partial, call, cache, sums, &inside, clock, sum, &l.body, plan);
                offset += step;
            }
        }
    }
}

/// The key of a row's value.
#[cube]
fn value_key(
    rows: &[u32],
    call: &Call,
    cache: &Sequence<Shared<[u32]>>,
    window: u32,
    row: u32,
    feature: u32,
    #[comptime] plan: &PlanRef,
) -> u32 {
    if comptime![plan.cached_rows.is_some()] {
        cache[0][((row - window) * comptime![plan.features] + feature) as usize]
    } else {
        let at = call.row_offset + row * call.row_stride + feature * call.column_stride;
        key_of_bits(load_bits(rows, at, plan.rows))
    }
}

/// `walkDecisionTree`: one walk, or the walks of all lanes in step.
#[cube]
fn walk(
    rows: &[u32],
    model: &[u32],
    leaves: &[f32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    cache: &Sequence<Shared<[u32]>>,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    clock: &RuntimeCell<u32>,
    sum: &RuntimeCell<f32>,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    match comptime![w.lanes.clone()] {
        None => {
            let root = call.trees_at + state.tree * 4u32;
            let at = RuntimeCell::<u32>::new(model[root as usize]);
            let constant = model[(root + 1u32) as usize];
            #[unroll]
            for _ in 0..w.steps {
                one_step(rows, model, call, cache, state.window, state.row, constant, &at, plan);
            }
            if comptime![!w.complete] {
                finish(rows, model, call, cache, state.window, state.row, constant, &at, plan);
            }
            found(
                model,
                leaves,
                out,
                partial,
                call,
                sums,
                state,
                clock,
                sum,
                state.row,
                state.tree,
                at.read(),
                &w.into,
                plan,
            );
        }
        Some(lanes) => {
            walk_lanes(
                rows, model, leaves, out, partial, call, cache, sums, state, clock, sum, &lanes, w, plan,
            );
        }
    }
}

#[cube]
fn walk_lanes(
    rows: &[u32],
    model: &[u32],
    leaves: &[f32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    cache: &Sequence<Shared<[u32]>>,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    clock: &RuntimeCell<u32>,
    sum: &RuntimeCell<f32>,
    #[comptime] lanes: &Lanes,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    let end = end_of(call, &state.offsets, comptime![&lanes.range.limits], lanes.dim);
    let start = value(call, lanes.range.start);
    let step = value(call, lanes.range.step);
    // A partial group walks its first lane again in the lanes it has not, and drops what they find.
    if start < end {
        let count = comptime![lanes.count as usize];
        let mut row_of = Sequence::<u32>::new();
        let mut tree_of = Sequence::<u32>::new();
        let mut real = Sequence::<bool>::new();
        let mut constants = Sequence::<u32>::new();
        let mut ats = Sequence::<RuntimeCell<u32>>::new();
        #[unroll]
        for l in 0..count {
            let offset = start + comptime![l as u32] * step;
            let is_real = offset < end;
            let offset = select(is_real, offset, start);
            let batch = comptime![lanes.dim == Dim::Batch];
            let row = if batch { state.row + offset } else { state.row };
            let tree = if batch { state.tree } else { state.tree + offset };
            let root = call.trees_at + tree * 4u32;
            row_of.push(row);
            tree_of.push(tree);
            real.push(is_real);
            ats.push(RuntimeCell::<u32>::new(model[root as usize]));
            constants.push(model[(root + 1u32) as usize]);
        }
        #[unroll]
        for _ in 0..w.steps {
            #[unroll]
            for l in 0..count {
                one_step(rows, model, call, cache, state.window, row_of[l], constants[l], ats.index(l), plan);
            }
        }
        if comptime![!w.complete] {
            #[unroll]
            for l in 0..count {
                finish(rows, model, call, cache, state.window, row_of[l], constants[l], ats.index(l), plan);
            }
        }
        #[unroll]
        for l in 0..count {
            if real[l] {
                let at = ats.index(l).read();
                found(
                    model, leaves, out, partial, call, sums, state, clock, sum, row_of[l], tree_of[l], at,
                    &w.into, plan,
                );
            }
        }
    }
}

#[cube]
fn one_step(
    rows: &[u32],
    model: &[u32],
    call: &Call,
    cache: &Sequence<Shared<[u32]>>,
    window: u32,
    row: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] plan: &PlanRef,
) {
    let here = at.read();
    let column = node::feature(model, here, plan);
    let key = value_key(rows, call, cache, window, row, column, plan);
    at.store(node::step(model, call.questions_at, here, constant, key, plan));
}

/// Steps until the leaf.
#[cube]
fn finish(
    rows: &[u32],
    model: &[u32],
    call: &Call,
    cache: &Sequence<Shared<[u32]>>,
    window: u32,
    row: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] plan: &PlanRef,
) {
    while !node::is_leaf(model, at.read(), plan) {
        one_step(rows, model, call, cache, window, row, constant, at, plan);
    }
}

/// What is done with the leaf at an address.
#[cube]
fn found(
    model: &[u32],
    leaves: &[f32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    clock: &RuntimeCell<u32>,
    sum: &RuntimeCell<f32>,
    row: u32,
    tree: u32,
    at: u32,
    #[comptime] into: &Option<Sum>,
    #[comptime] plan: &PlanRef,
) {
    let entry = call.trees_at + tree * 4u32;
    match comptime![plan.emit] {
        Emit::Margins => {
            let slot = model[(call.slots_at + at) as usize];
            match comptime![into.clone()] {
                None => sum.store(sum.read() + leaves[slot as usize]),
                Some(into) => {
                    if comptime![plan.vector_leaves] {
                        for o in 0..plan.outputs {
                            let leaf = leaves[(slot * plan.outputs + o) as usize];
                            add(model, out, partial, call, sums, state, row, o, leaf, &into, plan);
                        }
                    } else {
                        let output = if comptime![plan.outputs == 1] {
                            0u32.runtime()
                        } else {
                            model[(entry + 2u32) as usize]
                        };
                        add(
                            model,
                            out,
                            partial,
                            call,
                            sums,
                            state,
                            row,
                            output,
                            leaves[slot as usize],
                            &into,
                            plan,
                        );
                    }
                }
            }
        }
        Emit::Slots => {
            let original = model[(entry + 3u32) as usize];
            out[(row * call.trees + original) as usize] = model[(call.slots_at + at) as usize];
        }
        Emit::Trace => {
            let original = model[(entry + 3u32) as usize];
            let place = (row * call.trees + original) * 2u32;
            out[place as usize] = CUBE_POS as u32 * CUBE_DIM + UNIT_POS;
            out[(place + 1u32) as usize] = clock.read();
            clock.store(clock.read() + 1u32);
        }
    }
}

/// Adds to a sum.
#[cube]
fn add(
    model: &[u32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    row: u32,
    output: u32,
    amount: f32,
    #[comptime] into: &Sum,
    #[comptime] plan: &PlanRef,
) {
    let outputs = comptime![plan.outputs];
    match comptime![into.clone()] {
        Sum::Result { first } => {
            let at = (row * outputs + output) as usize;
            let before = if first { model[(call.base_at + output) as usize] } else { out[at] };
            out[at] = u32::reinterpret(f32::reinterpret(before) + amount);
        }
        Sum::Partial { buffer } => {
            let dims = comptime![plan.partials[buffer as usize].dims.clone()];
            let mut copy = 0u32;
            #[unroll]
            for d in 0..dims.len() {
                if comptime![dims[d].gpu.is_some()] {
                    let dim = comptime![dims[d].gpu.unwrap_or(GpuDim::Grid(Axis::X))];
                    copy = copy * size_of_dim(dim, plan) + index_of(dim);
                }
            }
            let at = *call.partials_at.index(buffer as usize) + (copy * call.batch + row) * outputs + output;
            partial[at as usize] += amount;
        }
        Sum::Shared => {
            let at = shared_place(my_copy(plan), row - state.sums_row, output, plan);
            sums.index_mut(0)[at as usize] += amount;
        }
    }
}

/// This unit's copy of the shared sums.
#[cube]
fn my_copy(#[comptime] plan: &PlanRef) -> u32 {
    let axes = comptime![plan.shared_sums.as_ref().map_or(Vec::new(), |s| s.axes.clone())];
    let mut copy = 0u32;
    #[unroll]
    for a in 0..axes.len() {
        let (axis, size) = comptime![axes[a]];
        copy = copy * size + index_of(comptime![GpuDim::Block(axis)]);
    }
    copy
}

#[cube]
fn shared_place(copy: u32, row: u32, output: u32, #[comptime] plan: &PlanRef) -> u32 {
    let rows = comptime![plan.shared_sums.as_ref().map_or(1, |s| s.rows)];
    (copy * rows + row) * plan.outputs + output
}

/// `cacheRows`: the cube's units load the window's values side by side, as keys.
#[cube]
fn cache_rows(
    rows: &[u32],
    call: &Call,
    cache: &mut Sequence<Shared<[u32]>>,
    state: &State,
    #[comptime] count: u32,
    #[comptime] plan: &PlanRef,
) {
    let features = comptime![plan.features];
    sync_cube();
    let mut i = UNIT_POS;
    while i < comptime![count * features] {
        let row = state.window + i / features;
        if row < call.batch {
            let at = call.row_offset + row * call.row_stride + (i % features) * call.column_stride;
            cache.index_mut(0)[i as usize] = key_of_bits(load_bits(rows, at, plan.rows));
        }
        i += CUBE_DIM;
    }
    sync_cube();
}

#[cube]
fn clear_shared(sums: &mut Sequence<Shared<[f32]>>, #[comptime] plan: &PlanRef) {
    let mut i = UNIT_POS;
    while i < comptime![shared_len(plan)] {
        sums.index_mut(0)[i as usize] = 0.0f32;
        i += CUBE_DIM;
    }
    sync_cube();
}

/// Adds up the copies of each row's sums.
#[cube]
fn reduce_shared(
    model: &[u32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    #[comptime] chains: &Vec<Vec<RowLoop>>,
    #[comptime] into: &Sum,
    #[comptime] plan: &PlanRef,
) {
    #[unroll]
    for c in 0..chains.len() {
        sync_cube();
        let chain = comptime![chains[c].clone()];
        reduce_rows(model, out, partial, call, sums, state, &chain, 0u32, into, plan);
    }
    sync_cube();
}

/// The rows of a chain from its loop `depth` on. The first loop is shared out over the units; a chain without loops is
/// one row, whose outputs are.
#[cube]
fn reduce_rows(
    model: &[u32],
    out: &mut [u32],
    partial: &mut [f32],
    call: &Call,
    sums: &mut Sequence<Shared<[f32]>>,
    state: &State,
    #[comptime] chain: &Vec<RowLoop>,
    #[comptime] depth: u32,
    #[comptime] into: &Sum,
    #[comptime] plan: &PlanRef,
) {
    if comptime![(depth as usize) < chain.len()] {
        let range: Range = comptime![chain[depth as usize].range.clone()];
        let register = comptime![chain[depth as usize].register];
        let end = end_of(call, &state.offsets, comptime![&range.limits], Dim::Batch);
        let step = value(call, range.step);
        let mut offset = value(call, range.start);
        let mut stride = step;
        if comptime![depth == 0] {
            offset += UNIT_POS * step;
            stride = step * CUBE_DIM;
        }
        while offset < end {
            let inside = enter_at(state, offset, register);
            reduce_rows(model, out, partial, call, sums, &inside, chain, comptime![depth + 1], into, plan);
            offset += stride;
        }
    } else {
        let shared_out = comptime![chain.is_empty()];
        let mut output = if shared_out { UNIT_POS } else { 0u32.runtime() };
        let stride = if shared_out { CUBE_DIM } else { 1u32.runtime() };
        while output < plan.outputs {
            let copies = comptime![plan.shared_sums.as_ref().map_or(0, |s| s.copies())];
            let mut total = 0.0f32;
            for copy in 0..copies {
                let at = shared_place(copy, state.row - state.sums_row, output, plan) as usize;
                total += sums[0][at];
                sums.index_mut(0)[at] = 0.0f32;
            }
            add(model, out, partial, call, sums, state, state.row, output, total, into, plan);
            output += stride;
        }
    }
}

/// The state inside an iteration over rows whose register may lie past the loops entered.
#[cube]
fn enter_at(state: &State, offset: u32, #[comptime] register: u32) -> State {
    let mut offsets = state.offsets.clone();
    let missing = comptime![(register as usize + 1).saturating_sub(state.offsets.len())];
    #[unroll]
    for _ in 0..missing {
        // Loops over trees in between: no limit of a row loop reads their registers.
        offsets.push(offset);
    }
    State {
        row: state.row + offset,
        tree: state.tree,
        offsets,
        window: state.window,
        sums_row: state.sums_row,
    }
}
