//! What a node's words are, and what the caches take: the numbers of a model that a kernel's shape depends on.

use super::super::{Children, LayoutKind, NodeFormat, Plan, lower::Builder};
use crate::forest::{Forest, Node, Predicate, Tree, least_f32_not_below};

/// Columns that the forest's splits ask for, ascending.
pub(crate) fn used_columns(forest: &Forest) -> Vec<u32> {
    let mut used = vec![false; forest.features.len()];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        if let Node::Split { feature, .. } = node {
            used[*feature as usize] = true;
        }
    }
    (0u32..).zip(used).filter(|(_, used)| *used).map(|(column, _)| column).collect()
}

/// The key of a threshold: floats as integers in the same order.
pub(crate) fn threshold_key(t: f64) -> u32 {
    let x = least_f32_not_below(t);
    let bits = if x == 0.0 { 0 } else { x.to_bits() };
    bits ^ if bits >> 31 == 1 { u32::MAX } else { 1 << 31 }
}

/// Nodes of a tree laid out by the sparse layout with its leaves no higher than `least`.
fn sparse_nodes(tree: &Tree, least: u32) -> u64 {
    let depths = tree.depths();
    let leaves = tree.nodes.iter().zip(&depths).filter(|(n, _)| n.slot().is_some());
    tree.nodes.len() as u64 + leaves.map(|(_, d)| 2 * u64::from(least.saturating_sub(*d))).sum::<u64>()
}

impl Builder {
    /// Settles a node's words, and which columns are cached.
    pub(super) fn format(&mut self, forest: &Forest, order: &[u32], least: &[u32]) {
        let plan = &mut self.plan;
        let mut columns = forest.features.len() as u32;
        if plan.cached_rows.is_some() {
            let used = used_columns(forest).len() as u32;
            plan.used_columns = used < columns;
            plan.features = used;
            columns = used;
        }
        plan.node = node_format(plan, forest, columns, order, least);
    }

    /// Words that the nodes of any `trees` trees side by side take, at most.
    pub(super) fn cached_words(&self, forest: &Forest, order: &[u32], least: &[u32], trees: u32) -> u32 {
        let tree = |t: u32| &forest.trees[t as usize];
        let depth = |k: usize| tree(order[k]).depth().max(least[k]);
        let full = |depth: u32| if depth < 40 { (2u64 << depth) - 1 } else { u64::MAX / 4 };
        let nodes: Vec<u64> = match self.plan.layout {
            LayoutKind::Array => (0..order.len()).map(|k| full(depth(k))).collect(),
            LayoutKind::Sparse => {
                order.iter().zip(least).map(|(t, least)| sparse_nodes(tree(*t), *least)).collect()
            }
            // Every tree has as many places as the deepest.
            LayoutKind::Reorg => {
                let deepest = (0..order.len()).map(depth).max().unwrap_or(0);
                vec![full(deepest); order.len()]
            }
        };
        let window = (trees as usize).clamp(1, nodes.len().max(1));
        let most = nodes.windows(window).map(|w| w.iter().fold(0u64, |sum, n| sum.saturating_add(*n))).max();
        let words = most.unwrap_or(0).saturating_mul(u64::from(self.plan.node.words));
        u32::try_from(words).unwrap_or(u32::MAX / 8).min(u32::MAX / 8)
    }
}

/// As few words as the model allows.
fn node_format(plan: &Plan, forest: &Forest, columns: u32, order: &[u32], least: &[u32]) -> NodeFormat {
    let whole = NodeFormat::whole(plan.children);
    let Some(column_bits) = [8, 16].into_iter().find(|bits| columns <= 1 << bits) else { return whole };
    if plan.children == Children::Linked {
        let room = NodeFormat { words: 2, column_bits, spare_bits: 0 };
        let most = order.iter().zip(least).map(|(t, l)| sparse_nodes(&forest.trees[*t as usize], *l)).max();
        // The way to a child is shorter than the tree.
        return if most.unwrap_or(0) < 1 << room.link_bits() { room } else { whole };
    }
    // Column, leaf flag and the missing value's side.
    let spare_bits = column_bits + 2;
    let fits = |node: &Node| match node {
        Node::Split { predicate: Predicate::Less { threshold }, .. } => {
            threshold_key(threshold.0).trailing_zeros() >= spare_bits
        }
        Node::Split { predicate: Predicate::Always, .. } | Node::Leaf { .. } => true,
        Node::Split { .. } => false,
    };
    match forest.trees.iter().flat_map(|t| &t.nodes).all(fits) {
        true => NodeFormat { words: 1, column_bits, spare_bits },
        false => NodeFormat { words: 2, column_bits, spare_bits: 0 },
    }
}
