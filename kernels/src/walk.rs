//! `walkDecisionTree`: a walk, or the walks of all lanes, which take their steps together.

// `#[cube]` unrolls only loops over an index, and takes no iterators there.
#![allow(clippy::needless_range_loop)]

use cubecl::prelude::*;

use super::{
    expand::{State, ends_of, found, value, within},
    keys::load_key,
    memory::{Context, TREE_WORDS},
    node::{self, CacheStart},
    shared,
};
use fangorn_ir::{Children, Dim, Lanes, Remainder, Value, Walk, cube::Cube};

/// The start of a walk: the root's address, and the constant of its tree's steps.
#[derive(CubeType, Clone)]
struct WalkStart {
    root: u32,
    constant: u32,
}

#[cube]
fn start(cx: &Context, cache: &CacheStart, tree: u32, #[comptime] w: &Walk<Cube>) -> WalkStart {
    let plan = comptime![cx.plan.clone()];
    if comptime![w.own.cached_trees && plan.children == Children::Interleaved] {
        // The cache interleaves all trees that it holds.
        let root = tree - cache.tree;
        let cached_trees = comptime![plan.own.cached_trees.map_or(1, |c| c.trees)];
        WalkStart { root, constant: cached_trees.runtime() - root }
    } else {
        let entry = cx.call.trees_at + tree * TREE_WORDS;
        WalkStart {
            root: cx.buffers.model[entry as usize],
            constant: cx.buffers.model[(entry + 1u32) as usize],
        }
    }
}

/// Walks one tree for one row, or all lanes, and handles the leaves.
#[cube]
pub fn walk(cx: &mut Context, state: &State, #[comptime] w: &Walk<Cube>) {
    match comptime![w.lanes.clone()] {
        None => {
            let WalkStart { root, constant } = start(&*cx, &state.tree_cache, state.tree, w);
            let at = RuntimeCell::<u32>::new(root);
            #[unroll]
            for _ in 0..w.steps {
                one_step(&*cx, state, state.row, constant, &at, w);
            }
            if comptime![w.rest == Remainder::Counted] {
                counted(&*cx, state, state.row, state.tree, constant, &at, w);
            }
            if comptime![w.rest == Remainder::UntilLeaf] {
                until_leaf(&*cx, state, state.row, constant, &at, w);
            }
            let leaf = shared::address(&*cx, &state.tree_cache, at.read(), w.own.cached_trees);
            found(cx, state, state.row, state.tree, leaf, w.own.into);
        }
        Some(lanes) => walk_lanes(cx, state, &lanes, w),
    }
}

/// Returns the last lane's offset, if that is a constant.
fn last_lane(lanes: &Lanes) -> Option<u32> {
    let (Value::Const(start), Value::Const(stride)) = (lanes.range.start, lanes.range.stride) else {
        return None;
    };
    start.checked_add(lanes.count.saturating_sub(1).checked_mul(stride)?)
}

#[cube]
fn walk_lanes(cx: &mut Context, state: &State, #[comptime] lanes: &Lanes, #[comptime] w: &Walk<Cube>) {
    let ends =
        ends_of(&*cx, &state.offsets, comptime![&lanes.range.limits], comptime![last_lane(lanes)], lanes.dim);
    let first = value(&*cx, lanes.range.start);
    let stride = value(&*cx, lanes.range.stride);
    // A lane whose offset is out of range walks the first lane's row and tree again, and its leaf is dropped.
    if within(&ends, first) {
        let count = comptime![lanes.count as usize];
        let mut row_of = Sequence::<u32>::new();
        let mut tree_of = Sequence::<u32>::new();
        let mut real = Sequence::<bool>::new();
        let mut constants = Sequence::<u32>::new();
        let mut ats = Sequence::<RuntimeCell<u32>>::new();
        #[unroll]
        for l in 0..count {
            let offset = first + comptime![l as u32] * stride;
            let is_real = within(&ends, offset);
            let offset = select(is_real, offset, first);
            let batch = comptime![lanes.dim == Dim::Batch];
            let row = if batch { state.row + offset } else { state.row };
            let tree = if batch { state.tree } else { state.tree + offset };
            let WalkStart { root, constant } = start(&*cx, &state.tree_cache, tree, w);
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
                one_step(&*cx, state, row_of[l], constants[l], ats.index(l), w);
            }
        }
        if comptime![w.rest == Remainder::Counted] {
            // Lanes of shallower trees end before the other lanes.
            #[unroll]
            for l in 0..count {
                let (row, tree) = (row_of[l], tree_of[l]);
                counted(&*cx, state, row, tree, constants[l], ats.index(l), w);
            }
        }
        if comptime![w.rest == Remainder::UntilLeaf] {
            #[unroll]
            for l in 0..count {
                until_leaf(&*cx, state, row_of[l], constants[l], ats.index(l), w);
            }
        }
        #[unroll]
        for l in 0..count {
            if real[l] {
                let at = shared::address(&*cx, &state.tree_cache, ats.index(l).read(), w.own.cached_trees);
                found(cx, state, row_of[l], tree_of[l], at, w.own.into);
            }
        }
    }
}

#[cube]
fn one_step(
    cx: &Context,
    state: &State,
    row: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk<Cube>,
) {
    let here = at.read();
    let meta = node::meta(cx, &state.tree_cache, here, w.own.cached_trees);
    step_on(cx, state, row, constant, meta, at, w);
}

/// Takes a step from a node whose flags have been read.
#[cube]
fn step_on(
    cx: &Context,
    state: &State,
    row: u32,
    constant: u32,
    meta: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk<Cube>,
) {
    let column = node::column(meta, comptime![&cx.plan]);
    let key = key(cx, state.cache_row, row, column, w.own.cached_rows);
    let next = node::step(cx, &state.tree_cache, at.read(), constant, meta, key, w.own.cached_trees);
    at.store(next);
}

/// Takes as many steps as the tree's depth in the table of trees, less those already taken.
#[cube]
fn counted(
    cx: &Context,
    state: &State,
    row: u32,
    tree: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk<Cube>,
) {
    let depth = cx.buffers.model[(cx.call.trees_at + tree * TREE_WORDS + 4u32) as usize];
    let mut taken = comptime![w.steps].runtime();
    while taken < depth {
        one_step(cx, state, row, constant, at, w);
        taken += 1u32;
    }
}

/// Takes steps until the walk is at a leaf, with one load of a node's flags for each step.
#[cube]
fn until_leaf(
    cx: &Context,
    state: &State,
    row: u32,
    constant: u32,
    at: &RuntimeCell<u32>,
    #[comptime] w: &Walk<Cube>,
) {
    let mut meta = node::meta(cx, &state.tree_cache, at.read(), w.own.cached_trees);
    while !node::is_leaf(meta, comptime![&cx.plan]) {
        step_on(cx, state, row, constant, meta, at, w);
        meta = node::meta(cx, &state.tree_cache, at.read(), w.own.cached_trees);
    }
}

/// Returns the key of a row's value in a column.
#[cube]
fn key(cx: &Context, cache_row: u32, row: u32, column: u32, #[comptime] cached: bool) -> u32 {
    let plan = comptime![cx.plan.clone()];
    if cached {
        cx.local.keys[0][(column * comptime![plan.cached_stride()] + (row - cache_row)) as usize]
    } else {
        let column = if comptime![plan.own.used_columns] {
            cx.buffers.model[(cx.call.columns_at + column) as usize]
        } else {
            column
        };
        let at = cx.call.row_offset + row * cx.call.row_stride + column * cx.call.column_stride;
        load_key(&cx.buffers.rows, at, plan.rows)
    }
}
