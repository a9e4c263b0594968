//! The format of a node's words and the size of the caches: the numbers of a model that a kernel's shape
//! depends on.

use super::super::{
    Plan,
    cube::{Cube, NodeFormat},
    key,
    lower::Builder,
};
use crate::{
    forest::{Forest, Node, Predicate, least_f32_not_below},
    layout::Sizes,
};

/// Maximum number of columns in the lists of all groups, which then take 16 MiB.
const MOST_GROUPED: u64 = 1 << 22;

impl Builder<Cube> {
    /// Determines the format of a node's words, and which columns are cached: those that the forest uses or,
    /// if trees are walked in groups of `group` trees, those that each group uses.
    pub(super) fn format(&mut self, forest: &Forest, order: &[u32], sizes: &Sizes, group: Option<u32>) {
        let mut columns = forest.features.len() as u32;
        let every_walk = self.plan.walks().all(|walk| walk.own.cached_rows);
        let plan = &mut self.plan;
        if plan.own.cached_rows.is_some() {
            let used = forest.used_columns().len() as u32;
            let grouped =
                group.filter(|_| every_walk).map(|group| (group, most_of_a_group(forest, order, group)));
            let fewer = grouped.filter(|(group, most)| {
                let groups = (order.len() as u64).div_ceil(u64::from(*group));
                (1..used).contains(most) && groups * u64::from(*most) <= MOST_GROUPED
            });
            (plan.own.column_group, columns) =
                fewer.map_or((None, used), |(group, most)| (Some(group), most));
            plan.own.used_columns = columns < forest.features.len() as u32;
            plan.own.features = columns;
        }
        plan.own.node = node_format(plan, forest, columns, sizes);
    }

    /// Returns the maximum number of words that the nodes of any `trees` adjacent trees take.
    pub(super) fn cached_words(&self, sizes: &Sizes, trees: u32) -> u32 {
        let count = (trees as usize).clamp(1, sizes.nodes.len().max(1));
        let sum = |w: &[u64]| w.iter().fold(0u64, |sum, n| sum.saturating_add(*n));
        let words = sizes.nodes.windows(count).map(sum).max().unwrap_or(0);
        let words = words.saturating_mul(u64::from(self.plan.own.node.words));
        u32::try_from(words).unwrap_or(u32::MAX / 8).min(u32::MAX / 8)
    }
}

/// Returns the columns that each group of `group` adjacent trees reads.
pub(crate) fn group_columns(forest: &Forest, order: &[u32], group: u32) -> Vec<Vec<u32>> {
    let column = |node: &Node| match node {
        Node::Split { feature, .. } => Some(*feature),
        Node::Leaf { .. } => None,
    };
    let of = |trees: &[u32]| {
        let nodes = trees.iter().flat_map(|t| &forest.trees[*t as usize].nodes);
        let mut columns: Vec<u32> = nodes.filter_map(column).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    };
    order.chunks(group.max(1) as usize).map(of).collect()
}

fn most_of_a_group(forest: &Forest, order: &[u32], group: u32) -> u32 {
    group_columns(forest, order, group).iter().map(Vec::len).max().unwrap_or(0) as u32
}

/// Returns the format with the fewest words that the model allows.
fn node_format(plan: &Plan<Cube>, forest: &Forest, columns: u32, sizes: &Sizes) -> NodeFormat {
    let whole = NodeFormat::whole(plan.children);
    // The distance to a child is smaller than the tree's number of nodes.
    let most = sizes.nodes.iter().copied().max().unwrap_or(0);
    if let Some(spare_bits) = plan.rows.rank_shift() {
        let column_bits = columns.max(2).next_power_of_two().ilog2();
        let one = NodeFormat { words: 1, column_bits, spare_bits };
        let named = plan.children.named();
        if column_bits < spare_bits && (!named || most < 1 << one.link_bits()) {
            return one;
        }
    }
    let Some(column_bits) = [8, 16].into_iter().find(|bits| columns <= 1 << bits) else { return whole };
    if plan.children.named() {
        let room = NodeFormat { words: 2, column_bits, spare_bits: 0 };
        return if most < 1 << room.link_bits() { room } else { whole };
    }
    if plan.rows.rank_shift().is_some() {
        return NodeFormat { words: 2, column_bits, spare_bits: 0 };
    }
    // The low bits hold the column, the leaf flag and the missing value's side.
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
