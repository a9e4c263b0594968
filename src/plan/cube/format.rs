//! What a node's words are, and what the caches take: the numbers of a model that a kernel's shape depends on.

use super::super::{Children, NodeFormat, Plan, key, lower::Builder};
use crate::{
    forest::{Forest, Node, Predicate, least_f32_not_below},
    layout::Sizes,
};

impl Builder {
    /// Settles a node's words, and which columns are cached.
    pub(super) fn format(&mut self, forest: &Forest, sizes: &Sizes) {
        let plan = &mut self.plan;
        let mut columns = forest.features.len() as u32;
        if plan.cached_rows.is_some() {
            let used = forest.used_columns().len() as u32;
            plan.used_columns = used < columns;
            plan.features = used;
            columns = used;
        }
        plan.node = node_format(plan, forest, columns, sizes);
    }

    /// Words that the nodes of any `trees` trees side by side take, at most.
    pub(super) fn cached_words(&self, sizes: &Sizes, trees: u32) -> u32 {
        let window = (trees as usize).clamp(1, sizes.nodes.len().max(1));
        let sum = |w: &[u64]| w.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
        let words = sizes.nodes.windows(window).map(sum).max().unwrap_or(0);
        let words = words.saturating_mul(u64::from(self.plan.node.words));
        u32::try_from(words).unwrap_or(u32::MAX / 8).min(u32::MAX / 8)
    }
}

/// As few words as the model allows.
fn node_format(plan: &Plan, forest: &Forest, columns: u32, sizes: &Sizes) -> NodeFormat {
    let whole = NodeFormat::whole(plan.children);
    // The way to a child is shorter than the tree.
    let most = sizes.nodes.iter().copied().max().unwrap_or(0);
    if let Some(spare_bits) = plan.rows.rank_shift() {
        let column_bits = columns.max(2).next_power_of_two().ilog2();
        let one = NodeFormat { words: 1, column_bits, spare_bits };
        let linked = plan.children == Children::Linked;
        if column_bits < spare_bits && (!linked || most < 1 << one.link_bits()) {
            return one;
        }
    }
    let Some(column_bits) = [8, 16].into_iter().find(|bits| columns <= 1 << bits) else { return whole };
    if plan.children == Children::Linked {
        let room = NodeFormat { words: 2, column_bits, spare_bits: 0 };
        return if most < 1 << room.link_bits() { room } else { whole };
    }
    if plan.rows.rank_shift().is_some() {
        return NodeFormat { words: 2, column_bits, spare_bits: 0 };
    }
    // Column, leaf flag and the missing value's side.
    let spare_bits = column_bits + 2;
    let fits = |node: &Node| match node {
        Node::Split { predicate: Predicate::Less { threshold }, .. } => {
            key(least_f32_not_below(threshold.0)).trailing_zeros() >= spare_bits
        }
        Node::Split { predicate: Predicate::Always, .. } | Node::Leaf { .. } => true,
        Node::Split { .. } => false,
    };
    match forest.trees.iter().flat_map(|t| &t.nodes).all(fits) {
        true => NodeFormat { words: 1, column_bits, spare_bits },
        false => NodeFormat { words: 2, column_bits, spare_bits: 0 },
    }
}
