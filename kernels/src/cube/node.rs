//! A node's words, and a step of a walk.
//!
//! | word | split | leaf |
//! |---|---|---|
//! | 0 | the threshold's key, plus 1 where a missing value goes left; or the place of a question | `u32::MAX` |
//! | 1 | column and flags | `MISSING_LEFT` and `LEAF` |
//! | 2 | linked layouts: the left child's address | its own address |
//!
//! A value goes left where `key + d < word 0`, with `d` 1 where a missing value goes left, otherwise 0. The key of a
//! missing value is `u32::MAX`, so with `d` it wraps to 0 and goes left, and without it goes right; no other key
//! wraps. In a leaf everything goes left, to itself.

// A kernel knows neither ranges' methods nor a comptime condition joined to another.
#![allow(clippy::manual_range_contains, clippy::collapsible_if)]

use cubecl::prelude::*;

use super::keys::{self, MISSING};
use crate::plan::{Children, PlanRef, question};

/// A missing value goes left.
pub const MISSING_LEFT: u32 = 1 << 31;
/// The node is a leaf.
pub const LEAF: u32 = 1 << 30;
/// The node asks more than a threshold, see [`question`].
pub const QUESTION: u32 = 1 << 29;
/// What the question names goes right.
pub const NAMED_RIGHT: u32 = 1 << 28;
/// The column.
pub const FEATURE: u32 = (1 << 24) - 1;

/// 1 where a value with this key goes right, 0 where it goes left: the one place where a kernel compares a threshold.
#[cube]
pub fn right(key: u32, word: u32, meta: u32) -> u32 {
    let d = meta >> 31u32;
    select(key + d < word, 0u32, 1u32)
}

/// The same for a node that asks more: a category's set, equality, or a threshold with the zeros on the other side.
#[cube]
fn question_right(model: &[u32], questions_at: u32, key: u32, place: u32, meta: u32) -> u32 {
    let at = questions_at + place;
    let asked = model[at as usize];
    let kind = asked & comptime![question::KIND];
    // The threshold, or the set's first word.
    let first = model[(at + 1u32) as usize];
    let mut named = key == first;
    if kind == comptime![question::ZERO_ASIDE] {
        // Keys of -1e-35 and 1e-35.
        let zero = key >= comptime![keys::key(-question::ZERO_ZONE)]
            && key <= comptime![keys::key(question::ZERO_ZONE)];
        // One or the other, in integers: SPIR-V does not compare booleans.
        named = select(key < first, 1u32, 0u32) != select(zero, 1u32, 0u32);
    }
    if kind < comptime![question::ZERO_ASIDE] {
        let words = asked & comptime![!question::KIND];
        let truncates = kind == comptime![question::TRUNCATED];
        // Keys of 0.0 and 2^24: outside them a value is no category. -1 and 0 have keys around those that truncate to 0.
        let positive = key >= 0x8000_0000u32 && key < 0xcb80_0000u32;
        let nearly = truncates && key > 0x407f_ffffu32 && key < 0x8000_0000u32;
        let bits = key ^ 0x8000_0000u32;
        // The integer part of a float below 2^24, in integers: the mantissa, shifted down by what the exponent says.
        let exponent = select(positive, bits >> 23u32, 0u32);
        let mantissa = (bits & 0x7f_ffffu32) | 0x80_0000u32;
        let shift = 150u32 - u32::clamp(exponent, 127u32, 150u32);
        let category = select(exponent < 127u32, 0u32, mantissa >> shift);
        // Below 1 only zero is whole, from there on whatever has no bit in the part shifted out.
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

/// The address after a step from `at`, given the key of the value that its node asks for.
#[cube]
pub fn step(
    model: &[u32],
    questions_at: u32,
    at: u32,
    constant: u32,
    key: u32,
    #[comptime] plan: &PlanRef,
) -> u32 {
    let base = at * comptime![plan.node_words];
    let word = model[base as usize];
    let meta = model[(base + 1u32) as usize];
    let mut side = right(key, word, meta);
    if comptime![plan.questions] {
        if (meta & comptime![QUESTION]) != 0u32 {
            side = question_right(model, questions_at, key, word, meta);
        }
    }
    match comptime![plan.children] {
        Children::Affine { stride } => at * 2u32 + constant + side * stride,
        Children::Linked => model[(base + 2u32) as usize] + side,
    }
}

/// The column that the node at `at` asks for.
#[cube]
pub fn feature(model: &[u32], at: u32, #[comptime] plan: &PlanRef) -> u32 {
    model[(at * comptime![plan.node_words] + 1u32) as usize] & comptime![FEATURE]
}

/// Whether the node at `at` is a leaf.
#[cube]
pub fn is_leaf(model: &[u32], at: u32, #[comptime] plan: &PlanRef) -> bool {
    (model[(at * comptime![plan.node_words] + 1u32) as usize] & comptime![LEAF]) != 0u32
}
