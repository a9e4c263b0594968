//! The statements of a plan, expanded one by one.
//!
//! No unit returns early and barriers stand in uniform control flow: partial tiles bound loops, not barriers.

// What a kernel works on is its arguments: buffers, what only the call knows, and what its cube keeps.
#![allow(clippy::too_many_arguments)]
// `#[cube]` unrolls index loops over comptime vectors, and takes neither slices nor iterators there.
#![allow(clippy::needless_range_loop, clippy::ptr_arg)]
// A comptime condition and one of the kernel are two, whatever follows them.
#![allow(clippy::if_same_then_else)]
// What `#[cube]` makes of a recursive call.
#![allow(unused_qualifications)]

use cubecl::prelude::*;

use super::{
    finish::apply,
    fused,
    memory::{Buffers, Call, Local, TREE_WORDS, combine, margin, nothing},
    node::{self, Place},
    shared, tail, walk,
};
use crate::plan::{
    Axis, Combine, Dim, Emit, GpuDim, Limit, Loop, Map, Op, Place as Ending, PlanRef, Sum, Value,
};

/// Where the loops stand.
#[derive(CubeType)]
pub struct State {
    /// The running row.
    pub row: u32,
    /// The running tree.
    pub tree: u32,
    /// The registers of the loops entered so far.
    pub offsets: Sequence<u32>,
    /// First row of the row cache.
    pub window: u32,
    /// First row of the shared sums.
    pub sums_row: u32,
    /// The tree cache.
    pub place: Place,
}

/// The kernel of a plan.
#[cube(launch_unchecked)]
pub fn forest(mut buffers: Buffers, call: &Call, #[comptime] plan: PlanRef) {
    let mut local = Local::new(&plan);
    let place = Place { from: 0u32, tree: 0u32 };
    let state =
        State { row: 0u32, tree: 0u32, offsets: Sequence::new(), window: 0u32, sums_row: 0u32, place };
    let ops = comptime![plan.body.clone()];
    run(&mut buffers, call, &mut local, &state, &ops, &plan);
}

/// The statements, in order.
#[cube]
fn run(
    b: &mut Buffers,
    call: &Call,
    local: &mut Local,
    state: &State,
    #[comptime] ops: &Vec<Op>,
    #[comptime] plan: &PlanRef,
) {
    // What is cached or cleared here begins at the running row or tree, for all statements beside it.
    let rows = comptime![ops.iter().any(|op| matches!(op, Op::CacheRows { .. }))];
    let sums = comptime![ops.iter().any(|op| matches!(op, Op::ClearShared))];
    let trees = comptime![ops.iter().any(|op| matches!(op, Op::CacheTrees { .. }))];
    let here = State {
        row: state.row,
        tree: state.tree,
        offsets: state.offsets.clone(),
        window: if rows { state.row } else { state.window },
        sums_row: if sums { state.row } else { state.sums_row },
        place: if trees { shared::place(&*b, call, state.tree, plan) } else { node::same(&state.place) },
    };
    #[unroll]
    for i in 0..ops.len() {
        let op = comptime![ops[i].clone()];
        match op {
            Op::Loop(l) => run_loop(b, call, local, &here, &l, plan),
            Op::Walk(w) => walk::walk(b, call, local, &here, &w, plan),
            Op::Accumulate { body, into } => {
                local.sum.store(nothing(&*b, call, plan));
                local.high.store(0u32);
                run(b, call, local, &here, &body, plan);
                let sum = local.sum.read();
                add(b, call, local, &here, here.row, 0u32, sum, &into, plan);
                if comptime![plan.combine == Combine::Fixed] {
                    let high = local.high.read();
                    add(b, call, local, &here, here.row, 1u32, high, &into, plan);
                }
            }
            Op::Cases { register, cases } => {
                let offset = *here.offsets.index(comptime![register as usize]);
                run_case(b, call, local, &here, offset, &cases, 0usize, plan);
            }
            Op::Only { dims, body } => {
                let mut others = 0u32;
                #[unroll]
                for d in 0..dims.len() {
                    others |= index_of(comptime![dims[d]]);
                }
                if others == 0u32 {
                    run(b, call, local, &here, &body, plan);
                }
            }
            Op::CacheRows { rows: count } => shared::cache_rows(&*b, call, local, &here, count, plan),
            Op::CacheTrees { .. } => shared::cache_trees(&*b, call, local, &here, plan),
            Op::ClearShared => shared::clear(&*b, call, local, plan),
            Op::ReduceShared { into, rows: chains, by } => {
                shared::reduce(b, call, local, &here, &chains, &into, by, plan);
            }
            // A statement of the CPU; `Plan::verify` keeps it out.
            Op::ReduceDimension { .. } => {}
        }
    }
}

/// The first case from `from` on that the offset is for.
#[cube]
fn run_case(
    b: &mut Buffers,
    call: &Call,
    local: &mut Local,
    state: &State,
    offset: u32,
    #[comptime] cases: &Vec<(u32, Vec<Op>)>,
    #[comptime] from: usize,
    #[comptime] plan: &PlanRef,
) {
    let (end, body) = comptime![cases[from].clone()];
    if comptime![from + 1 == cases.len()] {
        run(b, call, local, state, &body, plan);
    } else if offset < end {
        run(b, call, local, state, &body, plan);
    } else {
        run_case(b, call, local, state, offset, cases, comptime![from + 1], plan);
    }
}

/// A number of the plan.
#[cube]
pub fn value(call: &Call, #[comptime] value: Value) -> u32 {
    match value {
        Value::Const(n) => n.runtime(),
        Value::Slot(s) => *call.sizes.index(s as usize),
    }
}

/// What bounds a loop: an offset is in range where, with each sum of enclosing offsets added, it is below that
/// sum's end.
///
/// Ends are compared one by one. `min(2, trees - offset)`, which would say the same in one number, sends Mesa 25's NIR
/// optimiser round in circles.
#[derive(CubeType)]
pub struct Ends {
    ends: Sequence<u32>,
    added: Sequence<u32>,
}

/// A range's ends. Those that no offset of this unit reaches are left out: `most` is its last, where that is a number.
/// A loop with numbers for limits ends with the rows or trees there are, so that a tile larger than that has no further
/// iterations.
#[cube]
pub fn ends_of(
    call: &Call,
    offsets: &Sequence<u32>,
    #[comptime] limits: &Vec<Limit>,
    #[comptime] most: Option<u32>,
    #[comptime] dim: Dim,
) -> Ends {
    let mut ends = Sequence::<u32>::new();
    let mut added = Sequence::<u32>::new();
    if comptime![!limits.iter().any(|l| matches!(l.end, Value::Slot(_)))] {
        ends.push(if comptime![dim == Dim::Batch] { call.batch } else { call.trees });
        added.push(0u32.runtime());
    }
    #[unroll]
    for i in 0..limits.len() {
        let limit = comptime![limits[i].clone()];
        if comptime![!reached_by_none(&limit, most)] {
            let mut sum = 0u32.runtime();
            #[unroll]
            for m in 0..limit.minus.len() {
                sum += *offsets.index(comptime![limit.minus[m] as usize]);
            }
            ends.push(value(call, limit.end));
            added.push(sum);
        }
    }
    Ends { ends, added }
}

fn reached_by_none(limit: &Limit, most: Option<u32>) -> bool {
    match (limit.end, most) {
        (Value::Const(end), Some(most)) => limit.minus.is_empty() && most < end,
        _ => false,
    }
}

/// Whether an offset is in range.
#[cube]
pub fn within(ends: &Ends, offset: u32) -> bool {
    // In integers: `&&` is a branch.
    let mut outside = 0u32.runtime();
    #[unroll]
    for i in 0..ends.ends.len() {
        let inside = offset + *ends.added.index(i) < *ends.ends.index(i);
        outside |= select(inside, 0u32, 1u32);
    }
    outside == 0u32
}

/// The index of this unit, or of its cube, in a launch dimension.
#[cube]
pub fn index_of(#[comptime] dim: GpuDim) -> u32 {
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
        place: node::same(&state.place),
    }
}

#[cube]
fn run_loop(
    b: &mut Buffers,
    call: &Call,
    local: &mut Local,
    state: &State,
    #[comptime] l: &Loop,
    #[comptime] plan: &PlanRef,
) {
    let ends =
        ends_of(call, &state.offsets, comptime![&l.range.limits], comptime![last_offset(l, plan)], l.dim);
    let start = value(call, l.range.start);
    let step = value(call, l.range.step);
    match l.map {
        Map::Gpu { dim, single: true } => {
            let offset = start + index_of(dim) * step;
            if within(&ends, offset) {
                let inside = enter(state, offset, l.dim);
                run(b, call, local, &inside, &l.body, plan);
            }
        }
        Map::Gpu { dim, single: false } => {
            let mut offset = start + index_of(dim) * step;
            let stride = size_of_dim(dim, plan) * step;
            while within(&ends, offset) {
                let inside = enter(state, offset, l.dim);
                run(b, call, local, &inside, &l.body, plan);
                offset += stride;
            }
        }
        Map::Unrolled { count } =>
        {
            #[unroll]
            for k in 0..count {
                let offset = start + k * step;
                if within(&ends, offset) {
                    let inside = enter(state, offset, l.dim);
                    run(b, call, local, &inside, &l.body, plan);
                }
            }
        }
        Map::Serial | Map::Parallel => {
            let mut offset = start;
            while within(&ends, offset) {
                let inside = enter(state, offset, l.dim);
                run(b, call, local, &inside, &l.body, plan);
                offset += step;
            }
        }
    }
}

/// The last offset that a loop's units or copies can have, where that is a number.
fn last_offset(l: &Loop, plan: &PlanRef) -> Option<u32> {
    let (Value::Const(start), Value::Const(step)) = (l.range.start, l.range.step) else { return None };
    let count = match l.map {
        Map::Gpu { dim: GpuDim::Block(axis), single: true } => plan.cube_dim[axis as usize],
        Map::Unrolled { count } => count,
        _ => return None,
    };
    start.checked_add(count.saturating_sub(1).checked_mul(step)?)
}

/// What is done with the leaf at an address.
#[cube]
pub fn found(
    b: &mut Buffers,
    call: &Call,
    local: &mut Local,
    state: &State,
    row: u32,
    tree: u32,
    at: u32,
    #[comptime] into: &Option<Sum>,
    #[comptime] plan: &PlanRef,
) {
    let entry = call.trees_at + tree * TREE_WORDS;
    match comptime![plan.emit] {
        Emit::Margins | Emit::Values(_) => {
            let slot = b.model[(call.slots_at + at) as usize];
            let words = comptime![plan.combine.words()];
            match comptime![into.clone()] {
                None => {
                    let leaf = b.leaves[(slot * words) as usize];
                    local.sum.store(combine(local.sum.read(), leaf, plan.combine));
                    if comptime![words == 2] {
                        let high = b.leaves[(slot * words + 1u32) as usize];
                        local.high.store(local.high.read() + high);
                    }
                }
                Some(into) => {
                    if comptime![plan.vector_leaves] {
                        for word in 0..comptime![plan.sum_words()] {
                            let leaf = b.leaves[(slot * comptime![plan.sum_words()] + word) as usize];
                            add(b, call, local, state, row, word, leaf, &into, plan);
                        }
                    } else {
                        let output = if comptime![plan.outputs == 1] {
                            0u32.runtime()
                        } else {
                            b.model[(entry + 2u32) as usize]
                        };
                        #[unroll]
                        for word in 0..words {
                            let leaf = b.leaves[(slot * words + word) as usize];
                            add(b, call, local, state, row, output * words + word, leaf, &into, plan);
                        }
                    }
                }
            }
        }
        Emit::Slots => {
            let original = b.model[(entry + 3u32) as usize];
            b.out[(row * call.trees + original) as usize] = b.model[(call.slots_at + at) as usize];
        }
        Emit::Trace => {
            let original = b.model[(entry + 3u32) as usize];
            let place = (row * call.trees + original) * 2u32;
            b.out[place as usize] = CUBE_POS as u32 * CUBE_DIM + UNIT_POS;
            b.out[(place + 1u32) as usize] = local.clock.read();
            local.clock.store(local.clock.read() + 1u32);
        }
    }
}

/// Adds to a word of a row's sums.
#[cube]
pub fn add(
    b: &mut Buffers,
    call: &Call,
    local: &mut Local,
    state: &State,
    row: u32,
    word: u32,
    amount: u32,
    #[comptime] into: &Sum,
    #[comptime] plan: &PlanRef,
) {
    let words = comptime![plan.sum_words()];
    match comptime![into.clone()] {
        Sum::Result { first } => {
            let at = (row * words + word) as usize;
            if comptime![first && (matches!(plan.combine, Combine::Sum | Combine::Fixed) || plan.sums_once())]
            {
                let base = b.model[(call.base_at + word) as usize];
                let sum = margin(base, amount, nothing(&*b, call, plan), plan.combine);
                if comptime![plan.place() == Ending::Launch || plan.writes_sums()] {
                    b.out[at] = sum;
                } else {
                    let mut v = f32::reinterpret(sum);
                    if comptime![plan.emit != Emit::Margins] {
                        v = apply(call.scale * v, comptime![plan.emit.transform()]);
                    }
                    if comptime![plan.place() == Ending::Sum] {
                        let tail = comptime![plan.tail.clone()];
                        let end = comptime![tail.steps.len()];
                        v = tail::steps(&b.beside, v, row, word, words, &tail, 0usize, end);
                        if comptime![tail.fused] {
                            fused::write(&mut b.beside, row * words + word, v);
                        } else {
                            tail::write(&mut b.out, &mut b.beside, row * words + word, v, tail.number);
                        }
                    } else {
                        b.out[at] = u32::reinterpret(v);
                    }
                }
            } else {
                b.out[at] = combine(b.out[at], amount, plan.combine);
            }
        }
        Sum::Atomic => {
            let at = (row * words + word) as usize;
            if comptime![plan.combine == Combine::Fixed] {
                b.atomic_words[0][at].fetch_add(amount);
            } else {
                b.atomic[0][at].fetch_add(f32::reinterpret(amount));
            }
        }
        Sum::Partial { buffer, .. } => {
            let dims = comptime![plan.partials[buffer as usize].dims.clone()];
            let mut copy = 0u32;
            #[unroll]
            for d in 0..dims.len() {
                if comptime![dims[d].gpu.is_some()] {
                    let dim = comptime![dims[d].gpu.unwrap_or(GpuDim::Grid(Axis::X))];
                    copy = copy * size_of_dim(dim, plan) + index_of(dim);
                }
            }
            let from = *call.partials_at.index(buffer as usize);
            let at = (from + (copy * call.batch + row) * words + word) as usize;
            b.partial[at] = combine(b.partial[at], amount, plan.combine);
        }
        Sum::Shared => {
            let at = shared::sum_at(shared::my_copy(plan), row - state.sums_row, word, plan) as usize;
            let have = local.sums[0][at];
            local.sums.index_mut(0)[at] = combine(have, amount, plan.combine);
        }
    }
}
