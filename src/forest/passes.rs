//! Orders of trees that schedules ask for. They change how trees are arranged, never the result of a row.

use super::{Forest, Node, Tree};

/// The depths of a tree's deepest and shallowest leaf. Schedules order and group trees by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Depths {
    /// Depth of the deepest leaf.
    pub deepest: u32,
    /// Depth of the shallowest leaf.
    pub first_leaf: u32,
}

impl Depths {
    /// Returns the depths of the leaves of a tree that verifies.
    pub fn of(tree: &Tree) -> Self {
        let depths = tree.depths();
        Self::of_leaves(tree.nodes.iter().zip(&depths).filter(|(n, _)| n.slot().is_some()).map(|(_, d)| *d))
    }

    /// Returns the greatest and the least of the leaf depths `depths`. Both are 0 if there are none.
    pub fn of_leaves(depths: impl IntoIterator<Item = u32>) -> Self {
        let all = depths.into_iter().fold(None, |all, d| {
            let Self { deepest, first_leaf } = all.unwrap_or(Self { deepest: d, first_leaf: d });
            Some(Self { deepest: deepest.max(d), first_leaf: first_leaf.min(d) })
        });
        all.unwrap_or(Self { deepest: 0, first_leaf: 0 })
    }
}

/// Returns the order of trees by the depth of their deepest leaf, shallow trees first. Trees of equal depth
/// keep the producer's order. `order[k]` is the producer's index of the tree at position `k` (SilvanForge,
/// section 2, figure 1).
pub fn by_depth(depths: &[Depths]) -> Vec<u32> {
    sorted(&depths.iter().map(|d| d.deepest).collect::<Vec<_>>())
}

/// Returns the order of trees by the depth of their shallowest leaf, then by the depth of their deepest leaf.
/// Peeled walks work best in this order (Treebeard, section 3.2).
pub fn by_first_leaf(depths: &[Depths]) -> Vec<u32> {
    sorted(&depths.iter().map(|d| (d.first_leaf, d.deepest)).collect::<Vec<_>>())
}

/// Returns the order of trees by `likely`, then by the depth of their deepest leaf. `likely` holds for each
/// tree the depth at which most rows have reached a leaf (Treebeard, section 5.2.3).
pub fn by_likely_leaf(likely: &[u32], depths: &[Depths]) -> Vec<u32> {
    sorted(&likely.iter().zip(depths).map(|(likely, d)| (*likely, d.deepest)).collect::<Vec<_>>())
}

/// Returns an order of trees that puts trees of one shape side by side: by the depth of their deepest leaf,
/// then by which nodes in level order are leaves.
pub fn by_structure(forest: &Forest, depths: &[Depths]) -> Vec<u32> {
    let keys = forest.trees.iter().zip(depths).map(|(tree, d)| (d.deepest, structure(tree)));
    sorted(&keys.collect::<Vec<_>>())
}

fn sorted<K: Ord>(keys: &[K]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by(|a, b| keys[*a as usize].cmp(&keys[*b as usize]));
    order
}

/// Returns a tree's shape: for each node in level order, whether it is a leaf.
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

/// Returns how many nodes are added by padding that pushes every leaf of a tree down to depth `least`. Each
/// level that a leaf moves down adds two nodes: the new parent, and the leaf's sibling, a copy of the leaf
/// that no walk reaches (Treebeard, section 3.2).
pub fn padding(tree: &Tree, least: u32) -> u64 {
    let depths = tree.depths();
    let leaves = tree.nodes.iter().zip(&depths).filter(|(n, _)| n.slot().is_some());
    leaves.map(|(_, d)| 2 * u64::from(least.saturating_sub(*d))).sum()
}
