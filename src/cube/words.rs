//! A packed forest as words: what the kernels' `node` module reads.

use fangorn_kernels::cube::{LEAF, MISSING, MISSING_LEFT, NAMED_RIGHT, QUESTION, key};

use crate::{
    forest::{Forest, Predicate, Side, Targets, least_f32_not_below},
    layout::{Children, Packed, PackedNode, Questions},
};

/// One buffer, and where its parts begin.
pub(super) struct Words {
    pub(super) words: Vec<u32>,
    pub(super) trees_at: u32,
    pub(super) slots_at: u32,
    pub(super) questions_at: u32,
    pub(super) base_at: u32,
}

/// Encodes nodes, trees, slots, questions and base scores; `None` where they need more words than can be counted
/// in 32 bits.
pub(super) fn encode(forest: &Forest, packed: &Packed, order: &[u32]) -> Option<Words> {
    let mut questions = Questions::new(forest);
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
                let threshold = |t: f64| match predicate {
                    // No f32 has an f64's value that none can hold, nor has any the key of a missing one.
                    Predicate::Equal { .. } if f64::from(t as f32) != t => [MISSING],
                    Predicate::Equal { .. } => [key(t as f32)],
                    _ => [key(least_f32_not_below(t))],
                };
                match (predicate, questions.place(predicate, threshold)) {
                    (_, Some((place, named))) => {
                        let side = if named == Side::Right { NAMED_RIGHT } else { 0 };
                        [place, feature | missing_left | QUESTION | side, link]
                    }
                    (Predicate::Less { threshold: t }, None) => {
                        [threshold(t.0)[0] + u32::from(missing_left != 0), feature | missing_left, link]
                    }
                    // Every key but that of a missing value is below it, and stays so when it is one more.
                    (_, None) => [MISSING, feature | missing_left, link],
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
    let questions_at = words.len();
    words.extend(questions.words);
    // A lookup past a set's end reads its first word, which an empty last set must have.
    words.push(0);
    let base_at = words.len();
    words.extend(forest.base_score.iter().map(|b| (b.0 as f32).to_bits()));
    u32::try_from(words.len()).ok()?;
    let [trees_at, slots_at, questions_at, base_at] =
        [trees_at, slots_at, questions_at, base_at].map(|n| n as u32);
    Some(Words { words, trees_at, slots_at, questions_at, base_at })
}
