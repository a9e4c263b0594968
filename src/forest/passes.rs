//! Model passes a schedule asks for. They change how trees are arranged, never what a row gives.

use super::Forest;

/// The trees' order by depth, shallow first, equal depths in the producer's order: `order[k]` is the producer's
/// index of the tree at position `k` (SilvanForge, section 2, figure 1).
pub fn by_depth(forest: &Forest) -> Vec<u32> {
    let depths: Vec<u32> = forest.trees.iter().map(super::Tree::depth).collect();
    let mut order: Vec<u32> = (0..forest.trees.len() as u32).collect();
    order.sort_by_key(|t| depths[*t as usize]);
    order
}
