//! Model passes a schedule asks for. They change how trees are arranged, never what a row gives.

use super::{Forest, Node, Tree};

/// How a tree's leaves lie: what schedules order and group trees by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Depths {
    /// Of its deepest leaf.
    pub deepest: u32,
    /// Of its shallowest leaf.
    pub first_leaf: u32,
}

impl Depths {
    /// Those of a tree that verifies.
    pub fn of(tree: &Tree) -> Self {
        let depths = tree.depths();
        Self::of_leaves(tree.nodes.iter().zip(&depths).filter(|(n, _)| n.slot().is_some()).map(|(_, d)| *d))
    }

    /// Those of leaves at these depths.
    pub fn of_leaves(depths: impl IntoIterator<Item = u32>) -> Self {
        let all = depths.into_iter().fold(None, |all, d| {
            let Self { deepest, first_leaf } = all.unwrap_or(Self { deepest: d, first_leaf: d });
            Some(Self { deepest: deepest.max(d), first_leaf: first_leaf.min(d) })
        });
        all.unwrap_or(Self { deepest: 0, first_leaf: 0 })
    }
}

/// The trees' order by depth, given of each tree, shallow first, equal depths in the producer's order: `order[k]` is the producer's
/// index of the tree at position `k` (SilvanForge, section 2, figure 1).
pub fn by_depth(depths: &[Depths]) -> Vec<u32> {
    sorted(&depths.iter().map(|d| d.deepest).collect::<Vec<_>>())
}

/// The same by the depth of the shallowest leaf, and then by depth: what walks that are peeled want (Treebeard,
/// section 3.2).
pub fn by_first_leaf(depths: &[Depths]) -> Vec<u32> {
    sorted(&depths.iter().map(|d| (d.first_leaf, d.deepest)).collect::<Vec<_>>())
}

/// The same by the depth at which most rows have come to a leaf, and then by depth (Treebeard, section 5.2.3).
pub fn by_likely_leaf(likely: &[u32], depths: &[Depths]) -> Vec<u32> {
    sorted(&likely.iter().zip(depths).map(|(likely, d)| (*likely, d.deepest)).collect::<Vec<_>>())
}

/// Trees of one shape side by side: by depth, then by which places of a level-order walk are leaves.
pub fn by_structure(forest: &Forest, depths: &[Depths]) -> Vec<u32> {
    let keys = forest.trees.iter().zip(depths).map(|(tree, d)| (d.deepest, structure(tree)));
    sorted(&keys.collect::<Vec<_>>())
}

fn sorted<K: Ord>(keys: &[K]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by(|a, b| keys[*a as usize].cmp(&keys[*b as usize]));
    order
}

/// A tree's shape: for each node in level order whether it is a leaf.
pub fn structure(tree: &Tree) -> Vec<bool> {
    let mut open = std::collections::VecDeque::from([0u32]);
    let mut shape = Vec::with_capacity(tree.nodes.len());
    while let Some(node) = open.pop_front() {
        match tree.nodes[node as usize] {
            Node::Split { left, right, .. } => {
                open.extend([left, right]);
                shape.push(false);
            }
            Node::Leaf { .. } => shape.push(true),
        }
    }
    shape
}

/// Nodes that putting no leaf of a tree above `least` adds: at each step of the way down the way and a copy of the leaf
/// as its sibling, which no walk reaches (Treebeard, section 3.2).
pub fn padding(tree: &Tree, least: u32) -> u64 {
    let depths = tree.depths();
    let leaves = tree.nodes.iter().zip(&depths).filter(|(n, _)| n.slot().is_some());
    leaves.map(|(_, d)| 2 * u64::from(least.saturating_sub(*d))).sum()
}
