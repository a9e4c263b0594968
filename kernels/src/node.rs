//! The words of a node, and a step of a walk.
//!
//! | word | split | leaf |
//! |---|---|---|
//! | 0 | the threshold's key, plus 1 if a missing value goes left; or a question's index | `u32::MAX` |
//! | 1 | flags and column; between them, in a node of two words, the distance to a child | `MISSING_LEFT`, `LEAF` |
//! | 2 | only in a node of three words: the address of the named child | its own address |
//!
//! A value goes left if `key + d < word 0`. `d` is 1 if a missing value goes left, otherwise 0. The key of a missing
//! value is `u32::MAX`: with `d` it wraps to 0 and goes left, without `d` it goes right. No other key wraps. In a leaf
//! everything goes left: to the leaf itself, if nodes name their left child. If nodes name their right child, word 0 of
//! a leaf is 0 and `MISSING_LEFT` is not set, so everything goes right, to the leaf itself.
//!
//! A node of one word has the threshold's key in its high bits. The key's low bits, of which
//! [`NodeFormat::spare_bits`](fangorn_ir::cube::NodeFormat) are zero, hold the column, a bit that marks a leaf, and
//! a bit that sends a missing value left. Keys are then compared without their low bits. This decides the
//! same, since a key below the threshold is below it in its high bits.
//!
//! If rows are ranks, nothing is missing, and a key is the rank with all low bits set
//! ([`RowType::rank_shift`](fangorn_ir::RowType::rank_shift)). A node of one word has the threshold above those bits.
//! The low bits hold, from the lowest on, the distance to the child if one is named, the column, and a leaf's flag. So
//! a value goes left if `key < word`, whatever the low bits are.

// A kernel has no methods of ranges, and can't merge an `if` on a comptime condition with another `if`.
#![allow(clippy::manual_range_contains, clippy::collapsible_if)]

use cubecl::prelude::*;

use super::memory::Context;
use fangorn_ir::{Children, MISSING, cube::PlanRef, key as key_of, question};

/// Flag: a missing value goes left.
pub const MISSING_LEFT: u32 = 1 << 31;
/// Flag: the node is a leaf.
pub const LEAF: u32 = 1 << 30;
/// Flag: the node asks a question instead of comparing with a threshold, see [`question`].
pub const QUESTION: u32 = 1 << 29;
/// Flag: a value for which the question's answer is yes goes right.
pub const NAMED_RIGHT: u32 = 1 << 28;

/// The start of the tree cache that a walk reads nodes from.
#[derive(CubeType)]
pub struct CacheStart {
    /// Address of the first node in the tree cache, which is subtracted from addresses.
    pub from: u32,
    /// Position of the first tree in the tree cache.
    pub tree: u32,
}

/// Returns a copy of the start.
#[cube]
pub fn same(cache: &CacheStart) -> CacheStart {
    CacheStart { from: cache.from, tree: cache.tree }
}

/// Returns 1 if a value with this key goes right, 0 if it goes left. Kernels compare thresholds here alone.
#[cube]
pub fn right(key: u32, word: u32, meta: u32) -> u32 {
    let d = meta >> 31u32;
    select(key + d < word, 0u32, 1u32)
}

/// Returns 1 if a value with this key goes right at a node of one word, 0 if it goes left.
#[cube]
fn right_in_one_word(key: u32, word: u32, #[comptime] spare: u32) -> u32 {
    let d = (word >> comptime![spare - 1]) & 1u32;
    let key = select(key + d == 0u32, 0u32, key);
    select(key >> spare < word >> spare, 0u32, 1u32)
}

/// Returns 1 if a value with this key goes right at a node that asks a question, 0 if it goes left. The question, at
/// index `at` in the model's words, is membership in a category set, equality, or a threshold with the zeros on the
/// other side.
#[cube]
pub fn question_right(model: &[u32], at: u32, key: u32, meta: u32) -> u32 {
    let asked = model[at as usize];
    let kind = asked & comptime![question::KIND];
    // The key of the threshold or of the value, or the set's first word.
    let first = model[(at + 1u32) as usize];
    let mut named = key == first;
    if kind == comptime![question::ZERO_ASIDE] {
        // The bounds are the keys of -1e-35 and 1e-35.
        let zero =
            key >= comptime![key_of(-question::ZERO_ZONE)] && key <= comptime![key_of(question::ZERO_ZONE)];
        // An exclusive or in integers, because SPIR-V does not compare booleans.
        named = select(key < first, 1u32, 0u32) != select(zero, 1u32, 0u32);
    }
    if kind < comptime![question::ZERO_ASIDE] {
        let words = asked & comptime![!question::KIND];
        let truncates = kind == comptime![question::TRUNCATED];
        // The bounds are the keys of 0.0 and 2^24. A value outside them is no category. `nearly` has the keys
        // of the values between -1 and 0, both excluded, which truncate to 0.
        let positive = key >= 0x8000_0000u32 && key < 0xcb80_0000u32;
        let nearly = truncates && key > 0x407f_ffffu32 && key < 0x8000_0000u32;
        let bits = key ^ 0x8000_0000u32;
        // The integer part of a float below 2^24, in integers: the mantissa, shifted right according to the exponent.
        let exponent = select(positive, bits >> 23u32, 0u32);
        let mantissa = (bits & 0x7f_ffffu32) | 0x80_0000u32;
        let shift = 150u32 - u32::clamp(exponent, 127u32, 150u32);
        let category = select(exponent < 127u32, 0u32, mantissa >> shift);
        // Below 1 only zero is whole. From 1 on a value is whole if no bit that is shifted out is set.
        let fraction = mantissa & ((1u32 << shift) - 1u32);
        let whole = (exponent >= 127u32 && fraction == 0u32) || key == 0x8000_0000u32;
        let valid = (positive && (whole || kind != comptime![question::WHOLE])) || nearly;
        let word = category >> 5u32;
        let known = valid && word < words;
        let bitset = model[(at + 1u32 + select(known, word, 0u32)) as usize];
        named = known && ((bitset >> (category & 31u32)) & 1u32) == 1u32;
    }
    let named_right = (meta >> 28u32) & 1u32;
    let side = select(named, named_right, 1u32 - named_right);
    select(key == comptime![MISSING], 1u32 - (meta >> 31u32), side)
}

/// Returns a word of the node at address `at`.
#[cube]
fn word(cx: &Context, cache: &CacheStart, at: u32, #[comptime] word: u32, #[comptime] cached: bool) -> u32 {
    let plan = comptime![cx.plan.clone()];
    if cached {
        cx.local.nodes[0][((at - cache.from) * comptime![plan.own.node.words] + word) as usize]
    } else {
        cx.buffers.model[(at * comptime![plan.own.node.words] + word) as usize]
    }
}

/// Returns the word with the column and the flags of the node at address `at`.
#[cube]
pub fn meta(cx: &Context, cache: &CacheStart, at: u32, #[comptime] cached: bool) -> u32 {
    let plan = comptime![cx.plan.clone()];
    let index = comptime![if plan.own.node.words == 1 { 0u32 } else { 1u32 }];
    word(cx, cache, at, index, cached)
}

/// Returns the column in the word that [`meta`] returns.
#[cube]
pub fn column(meta: u32, #[comptime] plan: &PlanRef) -> u32 {
    let shift = comptime![plan.own.node.column_shift(plan.children)];
    (meta >> shift) & comptime![(1u32 << plan.own.node.column_bits) - 1]
}

/// Whether the node with this word of flags is a leaf.
#[cube]
pub fn is_leaf(meta: u32, #[comptime] plan: &PlanRef) -> bool {
    let flag = comptime![match plan.own.node.words {
        1 => 1u32 << (plan.own.node.column_shift(plan.children) + plan.own.node.column_bits),
        _ => LEAF,
    }];
    (meta & flag) != 0u32
}

/// Returns 1 if a value with this key goes right at the node at address `at`, 0 if it goes left.
#[cube]
fn side(cx: &Context, cache: &CacheStart, at: u32, meta: u32, key: u32, #[comptime] cached: bool) -> u32 {
    let plan = comptime![cx.plan.clone()];
    if comptime![plan.own.node.words == 1 && plan.rows.rank_shift().is_some()] {
        select(key < meta, 0u32, 1u32)
    } else if comptime![plan.own.node.words == 1] {
        right_in_one_word(key, meta, comptime![plan.own.node.spare_bits])
    } else {
        let asked = word(cx, cache, at, 0u32, cached);
        let mut side = right(key, asked, meta);
        if comptime![plan.questions] {
            if (meta & comptime![QUESTION]) != 0u32 {
                side = question_right(&cx.buffers.model, cx.call.questions_at + asked, key, meta);
            }
        }
        side
    }
}

/// Returns the address after a step from address `at`, given the node's flags and the key of the value in its
/// column.
#[cube]
pub fn step(
    cx: &Context,
    cache: &CacheStart,
    at: u32,
    constant: u32,
    meta: u32,
    key: u32,
    #[comptime] cached: bool,
) -> u32 {
    let plan = comptime![cx.plan.clone()];
    let side = side(cx, cache, at, meta, key, cached);
    match comptime![plan.children] {
        Children::Affine { stride } => at * 2u32 + constant + side * stride,
        Children::Interleaved => {
            let cached_trees = comptime![plan.own.cached_trees.map_or(1, |c| c.trees)];
            let stride = if cached { cached_trees.runtime() } else { cx.call.trees };
            at * 2u32 + constant + side * stride
        }
        Children::Linked => named(cx, cache, at, meta, cached) + side,
        Children::Near => {
            let right = named(cx, cache, at, meta, cached);
            select(side == 0u32, at + 1u32, right)
        }
        // Only the CPU has tiles. `Plan::verify` keeps them out of kernels.
        Children::TilesComputed { .. } | Children::TilesLinked { .. } => at,
    }
}

/// Returns the address of the child that the node at address `at` names.
#[cube]
fn named(cx: &Context, cache: &CacheStart, at: u32, meta: u32, #[comptime] cached: bool) -> u32 {
    let plan = comptime![cx.plan.clone()];
    if comptime![plan.own.node.words == 3] {
        word(cx, cache, at, 2u32, cached)
    } else {
        let below = comptime![if plan.own.node.words == 1 { 0 } else { plan.own.node.column_bits }];
        at + ((meta >> below) & comptime![(1u32 << plan.own.node.link_bits()) - 1])
    }
}
