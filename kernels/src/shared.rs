//! Work that a cube's units do together: caches, and sums in shared memory.

// `#[cube]` unrolls only loops over an index of comptime vectors, and takes neither slices nor iterators
// there.
#![allow(clippy::needless_range_loop, clippy::ptr_arg)]
// An `if` on a comptime condition and an `if` of the kernel can't be merged.
#![allow(clippy::collapsible_if)]
// `#[cube]` expands a recursive call with a qualified path.
#![allow(unused_qualifications)]

use cubecl::prelude::*;

use super::{
    epilogue_steps,
    expand::{State, add, ends_of, index_of, value, within},
    keys::{key_of_rank, load_key},
    memory::{Context, TREE_WORDS, combine, nothing, shared_len},
    node::{self, CacheStart},
    rank::{COLUMN_WORDS, rank},
};
use fangorn_ir::{
    Children, Combine, Dim, GpuDim, Range, RowLoop,
    cube::{Adders, EpilogueSite, PlanRef, Sum},
};

/// Number of values of a patch, a rectangle of some rows and columns that adjacent units load together.
const PATCH: u32 = 32;
/// Number of rows of a patch, if as many rows are cached. The patch then has eight columns of each row, which
/// lie together in memory.
const PATCH_ROWS: u32 = 4;

/// `cacheRows`: the cube's units load the values of `count` rows, as keys. Adjacent units load adjacent values.
#[cube]
pub fn cache_rows(cx: &mut Context, state: &State, #[comptime] count: u32) {
    let plan = comptime![cx.plan.clone()];
    // Adjacent units load a patch of the rows. Its values lie together in global memory, yet few of them are
    // in one column, so that few go to one bank of the cache.
    let height = comptime![count.clamp(1, PATCH_ROWS).next_power_of_two().min(PATCH_ROWS)];
    let width = comptime![PATCH / height];
    let across = comptime![plan.own.features.div_ceil(width).max(1)];
    let columns = cx.call.columns_at + group_of(state.tree, &plan) * comptime![plan.own.features];
    sync_cube();
    let mut i = UNIT_POS;
    while i < comptime![count.div_ceil(height) * across * PATCH] {
        let patch = i / PATCH;
        let index = i % PATCH;
        let r = (patch / across) * height + index / width;
        let c = (patch % across) * width + index % width;
        let row = state.cache_row + r;
        // This is done in integers because `&&` would be a branch.
        let outside = select(r < count, 0u32, 1u32)
            | select(c < plan.own.features, 0u32, 1u32)
            | select(row < cx.call.batch, 0u32, 1u32);
        if outside == 0u32 {
            let record = cx.call.ranks_at + c * COLUMN_WORDS;
            let column = if comptime![plan.own.ranks_from.is_some()] {
                cx.buffers.model[record as usize]
            } else if comptime![plan.own.used_columns] {
                cx.buffers.model[(columns + c) as usize]
            } else {
                c
            };
            let at = cx.call.row_offset + row * cx.call.row_stride + column * cx.call.column_stride;
            let mut key = load_key(&cx.buffers.rows, at, comptime![plan.input()]);
            if comptime![plan.own.ranks_from.is_some()] {
                key = key_of_rank(rank(&cx.buffers.model, cx.call.ranks_at, record, key), plan.rows);
            }
            cx.local.keys.index_mut(0)[(c * comptime![plan.cached_stride()] + r) as usize] = key;
        }
        i += CUBE_DIM;
    }
    sync_cube();
}

/// Returns the number of the tree's group, each of which has a list of columns of its own. It is 0 without
/// groups.
#[cube]
fn group_of(tree: u32, #[comptime] plan: &PlanRef) -> u32 {
    match comptime![plan.own.column_group] {
        Some(trees) => tree / trees,
        None => 0u32.runtime(),
    }
}

/// Returns the start of the tree cache that begins at `tree`.
#[cube]
pub fn cache_start(cx: &Context, tree: u32) -> CacheStart {
    let plan = comptime![cx.plan.clone()];
    if comptime![plan.children == Children::Interleaved] {
        // The cache has addresses of its own.
        CacheStart { from: 0u32.runtime(), tree }
    } else {
        CacheStart { from: cx.buffers.model[(cx.call.trees_at + tree * TREE_WORDS) as usize], tree }
    }
}

/// Returns the address, in the whole forest, of the node at address `at` of a walk. The two differ if the
/// nodes of trees are interleaved and cached.
#[cube]
pub fn address(cx: &Context, cache: &CacheStart, at: u32, #[comptime] cached: bool) -> u32 {
    let plan = comptime![cx.plan.clone()];
    if comptime![cached && plan.children == Children::Interleaved] {
        let cached_trees = comptime![plan.own.cached_trees.map_or(1, |c| c.trees)];
        (at / cached_trees) * cx.call.trees + cache.tree + at % cached_trees
    } else {
        at
    }
}

/// `cacheTrees`: the cube's units load the trees' nodes. Adjacent units load adjacent words.
#[cube]
pub fn cache_trees(cx: &mut Context, state: &State) {
    let plan = comptime![cx.plan.clone()];
    let cached_trees = comptime![plan.own.cached_trees.map_or(1, |c| c.trees)];
    let room = comptime![plan.own.cached_trees.map_or(1, |c| c.words)];
    let words = comptime![plan.own.node.words];
    sync_cube();
    if comptime![plan.children == Children::Interleaved] {
        // All trees have the same number of nodes. The record after the last tree's holds the total number of
        // nodes.
        let levels =
            cx.buffers.model[(cx.call.trees_at + cx.call.trees * TREE_WORDS) as usize] / cx.call.trees;
        let mut i = UNIT_POS;
        while i < levels * comptime![cached_trees * words] {
            let node = i / words;
            let tree = state.tree_cache.tree + node % cached_trees;
            if tree < cx.call.trees {
                let from = ((node / cached_trees) * cx.call.trees + tree) * words + i % words;
                cx.local.nodes.index_mut(0)[i as usize] = cx.buffers.model[from as usize];
            }
            i += CUBE_DIM;
        }
    } else {
        let last = state.tree_cache.tree + cached_trees;
        let last = select(last < cx.call.trees, last, cx.call.trees);
        let end = cx.buffers.model[(cx.call.trees_at + last * TREE_WORDS) as usize];
        let from = state.tree_cache.from * words;
        let length = (end - state.tree_cache.from) * words;
        let length = select(length < room, length, room.runtime());
        let mut i = UNIT_POS;
        while i < length {
            cx.local.nodes.index_mut(0)[i as usize] = cx.buffers.model[(from + i) as usize];
            i += CUBE_DIM;
        }
    }
    sync_cube();
}

/// Returns the index of this unit's copy of the shared sums.
#[cube]
pub fn my_copy(#[comptime] plan: &PlanRef) -> u32 {
    let axes = comptime![plan.own.shared_sums.as_ref().map_or(Vec::new(), |s| s.axes.clone())];
    let mut copy = 0u32;
    #[unroll]
    for a in 0..axes.len() {
        let (axis, size) = comptime![axes[a]];
        copy = copy * size + index_of(comptime![GpuDim::Block(axis)]);
    }
    copy
}

/// Returns the index of a word of a row's sums in shared memory.
#[cube]
pub fn sum_at(copy: u32, row: u32, word: u32, #[comptime] plan: &PlanRef) -> u32 {
    let rows = comptime![plan.own.shared_sums.as_ref().map_or(1, |s| s.rows)];
    (copy * rows + row) * comptime![plan.sum_words()] + word
}

/// Sets every shared sum to the sum of no leaves, then waits at a barrier.
#[cube]
pub fn clear(cx: &mut Context) {
    let plan = comptime![cx.plan.clone()];
    let none = nothing(&*cx);
    let mut i = UNIT_POS;
    while i < comptime![shared_len(&plan)] {
        cx.local.sums.index_mut(0)[i as usize] = none;
        i += CUBE_DIM;
    }
    sync_cube();
}

/// Adds up the copies of each row's shared sums into `into`, between barriers.
#[cube]
pub fn reduce(
    cx: &mut Context,
    state: &State,
    #[comptime] chains: &Vec<Vec<RowLoop>>,
    #[comptime] into: Sum,
    #[comptime] by: Adders,
) {
    if comptime![by == Adders::Cube] {
        halve(cx);
    }
    let team = team(by);
    #[unroll]
    for c in 0..chains.len() {
        sync_cube();
        let chain = comptime![chains[c].clone()];
        reduce_rows(cx, state, &team, &chain, 0u32, into, by);
    }
    sync_cube();
}

/// Halves the number of copies until one is left, with all units of the cube at work (the reduction draft,
/// section 4.1.2).
#[cube]
fn halve(cx: &mut Context) {
    let plan = comptime![cx.plan.clone()];
    let copies = comptime![plan.own.shared_sums.as_ref().map_or(1, |s| s.copies())];
    let width = comptime![shared_len(&plan) / copies.max(1)];
    let halvings = comptime![copies.next_power_of_two().ilog2()];
    let none = nothing(&*cx);
    #[unroll]
    for h in 0..halvings {
        let half = comptime![copies.next_power_of_two() >> (h + 1)];
        sync_cube();
        let mut i = UNIT_POS;
        while i < comptime![half * width] {
            let other = i + comptime![half * width];
            if other < comptime![copies.min(half * 2) * width] {
                let sum =
                    combine(cx.local.sums[0][i as usize], cx.local.sums[0][other as usize], plan.combine);
                cx.local.sums.index_mut(0)[i as usize] = sum;
                cx.local.sums.index_mut(0)[other as usize] = none;
            }
            i += CUBE_DIM;
        }
    }
}

/// A team: units that add up a row's copies together. It is this unit's view of its team.
#[derive(CubeType, Clone)]
struct Team {
    /// Index of the team.
    index: u32,
    /// Number of teams of the cube.
    count: u32,
    /// Index of the unit in its team.
    lane: u32,
    /// Number of units of a team.
    lanes: u32,
}

#[cube]
fn team(#[comptime] by: Adders) -> Team {
    if comptime![by == Adders::Plane] {
        let lanes = select(PLANE_DIM < CUBE_DIM, PLANE_DIM, CUBE_DIM);
        let count = CUBE_DIM / lanes;
        let index = UNIT_POS / lanes;
        // Units of a plane that the cube does not fill sit out.
        let index = select(index < count, index, 0xffff_ffffu32);
        Team { index, count, lane: UNIT_POS % lanes, lanes }
    } else {
        Team { index: UNIT_POS, count: CUBE_DIM, lane: 0u32, lanes: 1u32.runtime() }
    }
}

/// Adds up the sums of the rows of a chain, from its loop `depth` on. The teams share out the iterations of
/// the first loop. A chain without loops is one row: the teams then share out the words of its sums.
#[cube]
fn reduce_rows(
    cx: &mut Context,
    state: &State,
    team: &Team,
    #[comptime] chain: &Vec<RowLoop>,
    #[comptime] depth: u32,
    #[comptime] into: Sum,
    #[comptime] by: Adders,
) {
    let plan = comptime![cx.plan.clone()];
    if comptime![(depth as usize) < chain.len()] {
        let range: Range = comptime![chain[depth as usize].range.clone()];
        let register = comptime![chain[depth as usize].register];
        let ends = ends_of(&*cx, &state.offsets, comptime![&range.limits], None, Dim::Batch);
        let mut sits_out = false.runtime();
        let stride = value(&*cx, range.stride);
        let mut offset = value(&*cx, range.start);
        let mut advance = stride;
        if comptime![depth == 0] {
            sits_out = team.index >= team.count;
            offset += select(sits_out, 0u32, team.index) * stride;
            advance = stride * team.count;
        }
        while !sits_out && within(&ends, offset) {
            let inside = enter_at(state, offset, register);
            reduce_rows(cx, &inside, team, chain, comptime![depth + 1], into, by);
            offset += advance;
        }
    } else {
        let shared_out = comptime![chain.is_empty()];
        let mut word = if shared_out {
            select(team.index < team.count, team.index, comptime![plan.sum_words()].runtime())
        } else {
            0u32.runtime()
        };
        let stride = if shared_out { team.count } else { 1u32.runtime() };
        while word < comptime![plan.sum_words()] {
            let copies = comptime![plan.own.shared_sums.as_ref().map_or(1, |s| s.copies())];
            let none = nothing(&*cx);
            let mut total = none;
            let row = state.row - state.sums_row;
            match by {
                Adders::Cube => {
                    let at = sum_at(0u32.runtime(), row, word, &plan) as usize;
                    total = cx.local.sums[0][at];
                    cx.local.sums.index_mut(0)[at] = none;
                }
                Adders::Unit | Adders::Plane => {
                    let mut copy = team.lane;
                    while copy < copies {
                        let at = sum_at(copy, row, word, &plan) as usize;
                        total = combine(total, cx.local.sums[0][at], plan.combine);
                        cx.local.sums.index_mut(0)[at] = none;
                        copy += team.lanes;
                    }
                }
            }
            if comptime![by == Adders::Plane] {
                total = match comptime![plan.combine] {
                    Combine::Sum => u32::reinterpret(plane_sum(f32::reinterpret(total))),
                    Combine::Min => u32::reinterpret(plane_min(f32::reinterpret(total))),
                    Combine::Max => u32::reinterpret(plane_max(f32::reinterpret(total))),
                    Combine::Fixed => plane_sum(total),
                };
            }
            if team.lane == 0u32 {
                add(cx, state, state.row, word, total, into);
            }
            word += stride;
        }
        if comptime![matches!(into, Sum::Result { .. }) && plan.epilogue_site() == EpilogueSite::Row] {
            if team.lane == 0u32 {
                let transform = comptime![plan.emit.transform()];
                epilogue_steps::row(
                    &mut cx.buffers.out,
                    &mut cx.buffers.beside,
                    state.row,
                    comptime![plan.outputs],
                    transform,
                    comptime![&plan.own.epilogue],
                );
            }
        }
    }
}

/// Returns the state inside an iteration over rows. The loop's register may be past those of the loops
/// entered.
#[cube]
fn enter_at(state: &State, offset: u32, #[comptime] register: u32) -> State {
    let mut offsets = state.offsets.clone();
    let missing = comptime![(register as usize + 1).saturating_sub(state.offsets.len())];
    #[unroll]
    for _ in 0..missing {
        // Registers in between belong to loops over trees, which no limit of a row loop reads.
        offsets.push(offset);
    }
    State {
        row: state.row + offset,
        tree: state.tree,
        offsets,
        cache_row: state.cache_row,
        sums_row: state.sums_row,
        tree_cache: node::same(&state.tree_cache),
    }
}
