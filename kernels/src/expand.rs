//! Expands the statements of a plan one by one into a kernel.
//!
//! No unit returns early, and barriers stand in uniform control flow: a partial tile bounds its loops and
//! never skips a barrier.

// `#[cube]` unrolls only loops over an index of comptime vectors, and takes neither slices nor iterators
// there.
#![allow(clippy::needless_range_loop, clippy::ptr_arg)]
// An `if` on a comptime condition and an `if` of the kernel are two statements, even if they have the same
// body.
#![allow(clippy::if_same_then_else)]
// `#[cube]` expands a recursive call with a qualified path.
#![allow(unused_qualifications)]

use cubecl::prelude::*;

use super::{
    epilogue_steps,
    memory::{Buffers, Call, Context, Local, TREE_WORDS, combine, margin, nothing},
    node::{self, CacheStart},
    recorded, shared,
    transform::apply,
    walk,
};
use fangorn_ir::{
    Axis, Combine, Dim, Emit, GpuDim, Limit, Loop, Map, Op, Value,
    cube::{Cube, EpilogueSite, MappedLoop, PlanRef, Statement, Sum},
};

/// The state of the enclosing loops at a statement.
#[derive(CubeType)]
pub struct State {
    /// The running row.
    pub row: u32,
    /// The running tree.
    pub tree: u32,
    /// The registers of the loops entered so far.
    pub offsets: Sequence<u32>,
    /// First row in the row cache.
    pub cache_row: u32,
    /// First row of the shared sums.
    pub sums_row: u32,
    /// The start of the tree cache.
    pub tree_cache: CacheStart,
}

/// The kernel of a plan.
#[cube(launch_unchecked)]
pub fn forest(buffers: Buffers, call: Call, #[comptime] plan: PlanRef) {
    let local = Local::new(&plan);
    let tree_cache = CacheStart { from: 0u32, tree: 0u32 };
    let state = State {
        row: 0u32,
        tree: 0u32,
        offsets: Sequence::new(),
        cache_row: 0u32,
        sums_row: 0u32,
        tree_cache,
    };
    let ops = comptime![plan.body.clone()];
    // The context has no `mut` name here: with one, each scalar of the call would become a variable of the
    // kernel.
    run(&mut Context { buffers, call, local, plan: comptime![plan.clone()] }, &state, &ops);
}

/// Expands statements in order.
#[cube]
fn run(cx: &mut Context, state: &State, #[comptime] ops: &Vec<Op<Cube>>) {
    // A cache that a statement of this body fills, or sums that it clears, begin at the running row or tree, for
    // all statements of the body.
    let rows = comptime![ops.iter().any(|op| matches!(op, Op::Own(Statement::CacheRows { .. })))];
    let sums = comptime![ops.iter().any(|op| matches!(op, Op::Own(Statement::ClearShared)))];
    let trees = comptime![ops.iter().any(|op| matches!(op, Op::Own(Statement::CacheTrees { .. })))];
    let here = State {
        row: state.row,
        tree: state.tree,
        offsets: state.offsets.clone(),
        cache_row: if rows { state.row } else { state.cache_row },
        sums_row: if sums { state.row } else { state.sums_row },
        tree_cache: if trees { shared::cache_start(&*cx, state.tree) } else { node::same(&state.tree_cache) },
    };
    #[unroll]
    for i in 0..ops.len() {
        let op = comptime![ops[i].clone()];
        match op {
            Op::Loop(l) => run_loop(cx, &here, &l),
            Op::Walk(w) => walk::walk(cx, &here, &w),
            Op::Cases { register, cases } => {
                let offset = *here.offsets.index(comptime![register as usize]);
                run_case(cx, &here, offset, &cases, 0usize);
            }
            Op::Own(statement) => run_own(cx, &here, &statement),
        }
    }
}

/// Expands a statement that only kernels have.
#[cube]
fn run_own(cx: &mut Context, state: &State, #[comptime] statement: &Statement) {
    let plan = comptime![cx.plan.clone()];
    match comptime![statement.clone()] {
        Statement::Accumulate { body, into } => {
            cx.local.sum.store(nothing(&*cx));
            cx.local.high.store(0u32);
            run(cx, state, &body);
            let sum = cx.local.sum.read();
            add(cx, state, state.row, 0u32, sum, into);
            if comptime![plan.combine == Combine::Fixed] {
                let high = cx.local.high.read();
                add(cx, state, state.row, 1u32, high, into);
            }
        }
        Statement::Only { dims, body } => {
            let mut others = 0u32;
            #[unroll]
            for d in 0..dims.len() {
                others |= index_of(comptime![dims[d]]);
            }
            if others == 0u32 {
                run(cx, state, &body);
            }
        }
        Statement::CacheRows { rows } => shared::cache_rows(cx, state, rows),
        Statement::CacheTrees { .. } => shared::cache_trees(cx, state),
        Statement::ClearShared => shared::clear(cx),
        Statement::ReduceShared { into, rows, by } => {
            shared::reduce(cx, state, &rows, into, by);
        }
    }
}

/// Expands a branch to the first case, from `from` on, that `offset` belongs to.
#[cube]
fn run_case(
    cx: &mut Context,
    state: &State,
    offset: u32,
    #[comptime] cases: &Vec<(u32, Vec<Op<Cube>>)>,
    #[comptime] from: usize,
) {
    let (end, body) = comptime![cases[from].clone()];
    if comptime![from + 1 == cases.len()] {
        run(cx, state, &body);
    } else if offset < end {
        run(cx, state, &body);
    } else {
        run_case(cx, state, offset, cases, comptime![from + 1]);
    }
}

/// Returns a number of the plan.
#[cube]
pub fn value(cx: &Context, #[comptime] value: Value) -> u32 {
    match value {
        Value::Const(n) => n.runtime(),
        Value::Size(s) => *cx.call.sizes.index(s as usize),
    }
}

/// The bounds of a loop. An offset is in range if `offset + added[i] < ends[i]` for each `i`, where
/// `added[i]` is a sum of offsets of enclosing loops.
///
/// Ends are compared one by one. One compare with `min(2, trees - offset)` would do the same, but Mesa 25's
/// NIR optimiser then loops endlessly.
#[derive(CubeType)]
pub struct LoopEnds {
    ends: Sequence<u32>,
    added: Sequence<u32>,
}

/// Returns the bounds of a range. `most` is the largest offset of this unit, if that is a constant. Bounds
/// that it satisfies are left out. A loop whose bounds are all constants gets the number of rows or trees as
/// one more bound, so that a tile larger than that has no further iterations.
#[cube]
pub fn ends_of(
    cx: &Context,
    offsets: &Sequence<u32>,
    #[comptime] limits: &Vec<Limit>,
    #[comptime] most: Option<u32>,
    #[comptime] dim: Dim,
) -> LoopEnds {
    let mut ends = Sequence::<u32>::new();
    let mut added = Sequence::<u32>::new();
    if comptime![!limits.iter().any(|l| matches!(l.end, Value::Size(_)))] {
        ends.push(if comptime![dim == Dim::Batch] { cx.call.batch } else { cx.call.trees });
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
            ends.push(value(cx, limit.end));
            added.push(sum);
        }
    }
    LoopEnds { ends, added }
}

fn reached_by_none(limit: &Limit, most: Option<u32>) -> bool {
    match (limit.end, most) {
        (Value::Const(end), Some(most)) => limit.minus.is_empty() && most < end,
        _ => false,
    }
}

/// Whether an offset is in range.
#[cube]
pub fn within(ends: &LoopEnds, offset: u32) -> bool {
    // This is done in integers because `&&` would be a branch.
    let mut outside = 0u32.runtime();
    #[unroll]
    for i in 0..ends.ends.len() {
        let inside = offset + *ends.added.index(i) < *ends.ends.index(i);
        outside |= select(inside, 0u32, 1u32);
    }
    outside == 0u32
}

/// Returns the index of this unit, or of its cube, along a launch dimension.
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

/// Returns the size of a launch dimension.
#[cube]
fn size_of_dim(#[comptime] dim: GpuDim, #[comptime] plan: &PlanRef) -> u32 {
    match dim {
        GpuDim::Grid(axis) => match axis {
            Axis::X => CUBE_COUNT_X,
            Axis::Y => CUBE_COUNT_Y,
            Axis::Z => CUBE_COUNT_Z,
        },
        GpuDim::Block(axis) => plan.own.cube_dim[axis as usize].runtime(),
    }
}

/// Returns the state inside an iteration.
#[cube]
fn enter(state: &State, offset: u32, #[comptime] dim: Dim) -> State {
    let mut offsets = state.offsets.clone();
    offsets.push(offset);
    let batch = comptime![dim == Dim::Batch];
    State {
        row: if batch { state.row + offset } else { state.row },
        tree: if batch { state.tree } else { state.tree + offset },
        offsets,
        cache_row: state.cache_row,
        sums_row: state.sums_row,
        tree_cache: node::same(&state.tree_cache),
    }
}

#[cube]
fn run_loop(cx: &mut Context, state: &State, #[comptime] l: &Loop<Cube>) {
    let plan = comptime![cx.plan.clone()];
    let ends =
        ends_of(&*cx, &state.offsets, comptime![&l.range.limits], comptime![last_offset(l, &plan)], l.dim);
    let start = value(&*cx, l.range.start);
    let stride = value(&*cx, l.range.stride);
    match l.map {
        Map::Own(MappedLoop { dim, single: true }) => {
            let offset = start + index_of(dim) * stride;
            if within(&ends, offset) {
                let inside = enter(state, offset, l.dim);
                run(cx, &inside, &l.body);
            }
        }
        Map::Own(MappedLoop { dim, single: false }) => {
            let mut offset = start + index_of(dim) * stride;
            let advance = size_of_dim(dim, &plan) * stride;
            while within(&ends, offset) {
                let inside = enter(state, offset, l.dim);
                run(cx, &inside, &l.body);
                offset += advance;
            }
        }
        Map::Unrolled { count } =>
        {
            #[unroll]
            for k in 0..count {
                let offset = start + k * stride;
                if within(&ends, offset) {
                    let inside = enter(state, offset, l.dim);
                    run(cx, &inside, &l.body);
                }
            }
        }
        Map::Serial => {
            let mut offset = start;
            while within(&ends, offset) {
                let inside = enter(state, offset, l.dim);
                run(cx, &inside, &l.body);
                offset += stride;
            }
        }
    }
}

/// Returns the largest offset of a loop's units or copies, if that is a constant.
fn last_offset(l: &Loop<Cube>, plan: &PlanRef) -> Option<u32> {
    let (Value::Const(start), Value::Const(stride)) = (l.range.start, l.range.stride) else { return None };
    let count = match l.map {
        Map::Own(MappedLoop { dim: GpuDim::Block(axis), single: true }) => plan.own.cube_dim[axis as usize],
        Map::Unrolled { count } => count,
        _ => return None,
    };
    start.checked_add(count.saturating_sub(1).checked_mul(stride)?)
}

/// Handles the leaf at address `at` that a row has reached in a tree: adds its leaf value, or writes its slot
/// or a trace.
#[cube]
pub fn found(cx: &mut Context, state: &State, row: u32, tree: u32, at: u32, #[comptime] into: Option<Sum>) {
    let plan = comptime![cx.plan.clone()];
    let entry = cx.call.trees_at + tree * TREE_WORDS;
    match comptime![plan.emit] {
        Emit::Margins | Emit::Values(_) => {
            let slot = cx.buffers.model[(cx.call.slots_at + at) as usize];
            let words = comptime![plan.combine.words()];
            match comptime![into] {
                None => {
                    let leaf = cx.buffers.leaves[(slot * words) as usize];
                    cx.local.sum.store(combine(cx.local.sum.read(), leaf, plan.combine));
                    if comptime![words == 2] {
                        let high = cx.buffers.leaves[(slot * words + 1u32) as usize];
                        cx.local.high.store(cx.local.high.read() + high);
                    }
                }
                Some(into) => {
                    if comptime![plan.vector_leaves] {
                        for word in 0..comptime![plan.sum_words()] {
                            let leaf =
                                cx.buffers.leaves[(slot * comptime![plan.sum_words()] + word) as usize];
                            add(cx, state, row, word, leaf, into);
                        }
                    } else {
                        let output = if comptime![plan.outputs == 1] {
                            0u32.runtime()
                        } else {
                            cx.buffers.model[(entry + 2u32) as usize]
                        };
                        #[unroll]
                        for word in 0..words {
                            let leaf = cx.buffers.leaves[(slot * words + word) as usize];
                            add(cx, state, row, output * words + word, leaf, into);
                        }
                    }
                }
            }
        }
        Emit::Slots => {
            let original = cx.buffers.model[(entry + 3u32) as usize];
            cx.buffers.out[(row * cx.call.trees + original) as usize] =
                cx.buffers.model[(cx.call.slots_at + at) as usize];
        }
        Emit::Trace => {
            let original = cx.buffers.model[(entry + 3u32) as usize];
            let index = (row * cx.call.trees + original) * 2u32;
            cx.buffers.out[index as usize] = CUBE_POS as u32 * CUBE_DIM + UNIT_POS;
            cx.buffers.out[(index + 1u32) as usize] = cx.local.clock.read();
            cx.local.clock.store(cx.local.clock.read() + 1u32);
        }
    }
}

/// Adds `amount` to a word of a row's sums.
#[cube]
pub fn add(cx: &mut Context, state: &State, row: u32, word: u32, amount: u32, #[comptime] into: Sum) {
    let plan = comptime![cx.plan.clone()];
    let words = comptime![plan.sum_words()];
    match comptime![into] {
        Sum::Result { first } => {
            let at = (row * words + word) as usize;
            if comptime![first && (matches!(plan.combine, Combine::Sum | Combine::Fixed) || plan.sums_once())]
            {
                let base = cx.buffers.model[(cx.call.base_at + word) as usize];
                let sum = margin(base, amount, nothing(&*cx), plan.combine);
                if comptime![plan.epilogue_site() == EpilogueSite::Launch || plan.writes_sums()] {
                    cx.buffers.out[at] = sum;
                } else {
                    let mut v = f32::reinterpret(sum);
                    if comptime![plan.emit != Emit::Margins] {
                        v = apply(cx.call.scale * v, comptime![plan.emit.transform()]);
                    }
                    if comptime![plan.epilogue_site() == EpilogueSite::Sum] {
                        let epilogue = comptime![plan.own.epilogue.clone()];
                        v = epilogue_steps::steps(
                            &cx.buffers.beside,
                            v,
                            row,
                            word,
                            words,
                            comptime![&epilogue.steps],
                        );
                        if comptime![epilogue.recorded] {
                            recorded::write(&mut cx.buffers.beside, row * words + word, v);
                        } else {
                            epilogue_steps::write(
                                &mut cx.buffers.out,
                                &mut cx.buffers.beside,
                                row * words + word,
                                v,
                                epilogue.number,
                            );
                        }
                    } else {
                        cx.buffers.out[at] = u32::reinterpret(v);
                    }
                }
            } else {
                cx.buffers.out[at] = combine(cx.buffers.out[at], amount, plan.combine);
            }
        }
        Sum::Atomic => {
            let at = (row * words + word) as usize;
            if comptime![plan.combine == Combine::Fixed] {
                cx.buffers.atomic_words[0][at].fetch_add(amount);
            } else {
                cx.buffers.atomic[0][at].fetch_add(f32::reinterpret(amount));
            }
        }
        Sum::Partial { buffer } => {
            let dims = comptime![plan.own.partials[buffer as usize].dims.clone()];
            let mut copy = 0u32;
            #[unroll]
            for d in 0..dims.len() {
                let dim = comptime![dims[d]];
                copy = copy * size_of_dim(dim, &plan) + index_of(dim);
            }
            let from = *cx.call.partials_at.index(buffer as usize);
            let at = (from + (copy * cx.call.batch + row) * words + word) as usize;
            cx.buffers.partial[at] = combine(cx.buffers.partial[at], amount, plan.combine);
        }
        Sum::Shared => {
            let at = shared::sum_at(shared::my_copy(&plan), row - state.sums_row, word, &plan) as usize;
            let have = cx.local.sums[0][at];
            cx.local.sums.index_mut(0)[at] = combine(have, amount, plan.combine);
        }
    }
}
