//! `walkDecisionTree`: a walk, or the walks of all lanes in step.

// What a kernel works on is its arguments: buffers, what only the call knows, and what its cube keeps.
#![allow(clippy::too_many_arguments)]
// `#[cube]` unrolls index loops, and takes no iterators there.
#![allow(clippy::needless_range_loop)]

use cubecl::prelude::*;

use super::{
    expand::{State, ends_of, found, value, within},
    keys::load_key,
    memory::{Buffers, Call, Local, TREE_WORDS},
    node::{self, Place},
    shared,
};
use crate::plan::{Children, Dim, Lanes, PlanRef, Rest, Value, Walk};

/// Where a walk starts: its root's address, and the constant of its tree's steps.
#[derive(CubeType, Clone)]
struct Start {
    root: u32,
    constant: u32,
}

#[cube]
fn start(
    b: &Buffers,
    call: &Call,
    place: &Place,
    tree: u32,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) -> Start {
    if comptime![w.cached_trees && plan.children == Children::Interleaved] {
        // In the cache, as many trees are interleaved as its window has.
        let root = tree - place.tree;
        let window = comptime![plan.cached_trees.map_or(1, |c| c.trees)];
        Start { root, constant: window.runtime() - root }
    } else {
        let entry = call.trees_at + tree * TREE_WORDS;
        Start { root: b.model[entry as usize], constant: b.model[(entry + 1u32) as usize] }
    }
}

/// One walk, or all lanes.
#[cube]
pub fn walk(
    b: &mut Buffers,
    call: &Call,
    local: &mut Local,
    state: &State,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    match comptime![w.lanes.clone()] {
        None => {
            let Start { root, constant } = start(&*b, call, &state.place, state.tree, w, plan);
            let at = RuntimeCell::<u32>::new(root);
            #[unroll]
            for _ in 0..w.steps {
                one_step(&*b, call, &*local, state, state.row, constant, &at, w, plan);
            }
            if comptime![w.rest == Rest::Counted] {
                counted(&*b, call, &*local, state, state.row, state.tree, constant, &at, w, plan);
            }
            if comptime![w.rest == Rest::UntilLeaf] {
                until_leaf(&*b, call, &*local, state, state.row, constant, &at, w, plan);
            }
            let leaf = shared::address(call, &state.place, at.read(), w.cached_trees, plan);
            found(b, call, local, state, state.row, state.tree, leaf, &w.into, plan);
        }
        Some(lanes) => walk_lanes(b, call, local, state, &lanes, w, plan),
    }
}

/// The last lane's offset, where that is a number.
fn last_lane(lanes: &Lanes) -> Option<u32> {
    let (Value::Const(start), Value::Const(step)) = (lanes.range.start, lanes.range.step) else {
        return None;
    };
    start.checked_add(lanes.count.saturating_sub(1).checked_mul(step)?)
}

#[cube]
fn walk_lanes(
    b: &mut Buffers,
    call: &Call,
    local: &mut Local,
    state: &State,
    #[comptime] lanes: &Lanes,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    let ends =
        ends_of(call, &state.offsets, comptime![&lanes.range.limits], comptime![last_lane(lanes)], lanes.dim);
    let first = value(call, lanes.range.start);
    let step = value(call, lanes.range.step);
    // A partial group walks its first lane again in the lanes it has not, and drops what they find.
    if within(&ends, first) {
        let count = comptime![lanes.count as usize];
        let mut row_of = Sequence::<u32>::new();
        let mut tree_of = Sequence::<u32>::new();
        let mut real = Sequence::<bool>::new();
        let mut constants = Sequence::<u32>::new();
        let mut ats = Sequence::<RuntimeCell<u32>>::new();
        #[unroll]
        for l in 0..count {
            let offset = first + comptime![l as u32] * step;
            let is_real = within(&ends, offset);
            let offset = select(is_real, offset, first);
            let batch = comptime![lanes.dim == Dim::Batch];
            let row = if batch { state.row + offset } else { state.row };
            let tree = if batch { state.tree } else { state.tree + offset };
            let Start { root, constant } = start(&*b, call, &state.place, tree, w, plan);
            row_of.push(row);
            tree_of.push(tree);
            real.push(is_real);
            ats.push(RuntimeCell::<u32>::new(root));
            constants.push(constant);
        }
        #[unroll]
        for _ in 0..w.steps {
            #[unroll]
            for l in 0..count {
                one_step(&*b, call, &*local, state, row_of[l], constants[l], ats.index(l), w, plan);
            }
        }
        if comptime![w.rest == Rest::Counted] {
            // Lanes of shallower trees end before the others.
            #[unroll]
            for l in 0..count {
                let (row, tree) = (row_of[l], tree_of[l]);
                counted(&*b, call, &*local, state, row, tree, constants[l], ats.index(l), w, plan);
            }
        }
        if comptime![w.rest == Rest::UntilLeaf] {
            #[unroll]
            for l in 0..count {
                until_leaf(&*b, call, &*local, state, row_of[l], constants[l], ats.index(l), w, plan);
            }
        }
        #[unroll]
        for l in 0..count {
            if real[l] {
                let at = shared::address(call, &state.place, ats.index(l).read(), w.cached_trees, plan);
                found(b, call, local, state, row_of[l], tree_of[l], at, &w.into, plan);
            }
        }
    }
}

#[cube]
fn one_step(
    b: &Buffers,
    call: &Call,
    local: &Local,
    state: &State,
    row: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    let here = at.read();
    let meta = node::meta(b, local, &state.place, here, w.cached_trees, plan);
    step_on(b, call, local, state, row, constant, meta, at, w, plan);
}

/// A step from a node whose flags have been read.
#[cube]
fn step_on(
    b: &Buffers,
    call: &Call,
    local: &Local,
    state: &State,
    row: u32,
    constant: u32,
    meta: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    let column = node::column(meta, plan);
    let key = key(b, call, local, state.window, row, column, w.cached_rows, plan);
    let next = node::step(b, local, &state.place, call, at.read(), constant, meta, key, w.cached_trees, plan);
    at.store(next);
}

/// As many steps as the table of trees has for this one, less those taken.
#[cube]
fn counted(
    b: &Buffers,
    call: &Call,
    local: &Local,
    state: &State,
    row: u32,
    tree: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    let depth = b.model[(call.trees_at + tree * TREE_WORDS + 4u32) as usize];
    let mut taken = comptime![w.steps].runtime();
    while taken < depth {
        one_step(b, call, local, state, row, constant, at, w, plan);
        taken += 1u32;
    }
}

/// Steps until the leaf: one load of a node's flags a step.
#[cube]
fn until_leaf(
    b: &Buffers,
    call: &Call,
    local: &Local,
    state: &State,
    row: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk,
    #[comptime] plan: &PlanRef,
) {
    let mut meta = node::meta(b, local, &state.place, at.read(), w.cached_trees, plan);
    while !node::is_leaf(meta, plan) {
        step_on(b, call, local, state, row, constant, meta, at, w, plan);
        meta = node::meta(b, local, &state.place, at.read(), w.cached_trees, plan);
    }
}

/// The key of a row's value.
#[cube]
fn key(
    b: &Buffers,
    call: &Call,
    local: &Local,
    window: u32,
    row: u32,
    column: u32,
    #[comptime] cached: bool,
    #[comptime] plan: &PlanRef,
) -> u32 {
    if cached {
        local.keys[0][(column * comptime![plan.cached_stride()] + (row - window)) as usize]
    } else {
        let column =
            if comptime![plan.used_columns] { b.model[(call.columns_at + column) as usize] } else { column };
        let at = call.row_offset + row * call.row_stride + column * call.column_stride;
        load_key(&b.rows, at, plan.rows)
    }
}
