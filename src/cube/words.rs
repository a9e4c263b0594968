//! A packed forest as words: what the kernels' `node` module reads.

use fangorn_kernels::cube::{CATEGORY, INSIDE_RIGHT, LEAF, MISSING_LEFT, key};

use crate::{
    forest::{Forest, Predicate, Side, Targets},
    layout::{Children, Packed, PackedNode, flat_sets},
};

/// One buffer, and where its parts begin.
pub(super) struct Words {
    pub(super) words: Vec<u32>,
    pub(super) trees_at: u32,
    pub(super) slots_at: u32,
    pub(super) sets_at: u32,
    pub(super) base_at: u32,
}

/// Encodes nodes, trees, slots, category sets and base scores; `None` where they need more words than can be counted
/// in 32 bits.
pub(super) fn encode(forest: &Forest, packed: &Packed, order: &[u32]) -> Option<Words> {
    let (mut sets, places) = flat_sets(forest);
    // A lookup past a set's end reads its first word, which an empty last set must have.
    sets.push(0);
    let linked = packed.children == Children::Linked;
    let mut words = Vec::with_capacity(packed.nodes.len() * 3);
    for (address, node) in packed.nodes.iter().enumerate() {
        // Everything goes left: see the kernels' table of words.
        let still = |flags| [u32::MAX, MISSING_LEFT | flags, address as u32];
        let encoded = match *node {
            PackedNode::Empty | PackedNode::Through => still(0),
            PackedNode::Leaf { .. } => still(LEAF),
            PackedNode::Split { feature, predicate, missing, link } => {
                let missing_left = if missing == Side::Left { MISSING_LEFT } else { 0 };
                match predicate {
                    Predicate::Less { threshold } => {
                        [key(threshold.0 as f32) + u32::from(missing_left != 0), feature | missing_left, link]
                    }
                    Predicate::InSet { set, inside } => {
                        let polarity = if inside == Side::Right { INSIDE_RIGHT } else { 0 };
                        [places[set as usize], feature | missing_left | CATEGORY | polarity, link]
                    }
                }
            }
        };
        words.extend_from_slice(if linked { &encoded } else { &encoded[..2] });
    }
    let trees_at = words.len();
    for (position, original) in order.iter().enumerate() {
        let output = match &forest.targets {
            Targets::One(outputs) => outputs[*original as usize],
            Targets::All => 0,
        };
        words.extend([packed.roots[position], packed.constants[position], output, *original]);
    }
    let slots_at = words.len();
    words.extend(packed.slots());
    let sets_at = words.len();
    words.extend(sets);
    let base_at = words.len();
    words.extend(forest.base_score.iter().map(|b| (b.0 as f32).to_bits()));
    u32::try_from(words.len()).ok()?;
    let [trees_at, slots_at, sets_at, base_at] = [trees_at, slots_at, sets_at, base_at].map(|n| n as u32);
    Some(Words { words, trees_at, slots_at, sets_at, base_at })
}
