//! Statistics of a forest, for presets, tuners and `fangorn inspect`.

use std::collections::BTreeSet;

use super::{Forest, Node, Predicate, Side};

/// How a forest's splits use one feature.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct FeatureStats {
    /// Column of the feature.
    pub feature: u32,
    /// Number of numeric splits on the feature.
    pub splits: usize,
    /// Number of distinct thresholds of the numeric splits.
    pub thresholds: usize,
    /// Number of splits on the feature's category.
    pub category_splits: usize,
    /// Whether some split sends a missing value left.
    pub missing_left: bool,
    /// Whether some split sends a missing value right.
    pub missing_right: bool,
}

/// Statistics of a whole forest.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ForestStats {
    /// Number of trees.
    pub trees: usize,
    /// Number of nodes, leaves included.
    pub nodes: usize,
    /// Number of leaves.
    pub leaves: usize,
    /// Number of leaves of the tree that has the most leaves.
    pub max_leaves: usize,
    /// How many trees have each depth: `depths[d]` trees have depth `d`.
    pub depths: Vec<usize>,
    /// How many leaves have each depth: `leaf_depths[d]` leaves have depth `d`.
    pub leaf_depths: Vec<usize>,
    /// How many trees have each number of leaves, by powers of two: `leaf_counts[k]` trees have fewer than
    /// `2^k` leaves and at least half as many.
    pub leaf_counts: Vec<usize>,
    /// Depth of the shallowest leaf of any tree.
    pub min_leaf_depth: u32,
    /// Statistics of the features that some split reads, in column order.
    pub features: Vec<FeatureStats>,
}

impl Forest {
    /// Returns the columns that some split reads, in ascending order.
    pub fn used_columns(&self) -> Vec<u32> {
        let mut used = vec![false; self.features.len()];
        for node in self.trees.iter().flat_map(|t| &t.nodes) {
            if let Node::Split { feature, .. } = node {
                used[*feature as usize] = true;
            }
        }
        (0u32..).zip(used).filter(|(_, used)| *used).map(|(column, _)| column).collect()
    }

    /// Returns for each split the estimated probability that a row reaches it: the part of its tree's cover that the
    /// split has, or in a tree without covers, one half for each step from the root.
    pub(crate) fn split_probabilities(&self) -> impl Iterator<Item = f64> + '_ {
        self.trees.iter().enumerate().flat_map(|(t, tree)| {
            let covers = self.covers.as_ref().filter(|covers| t < covers.len()).map(|covers| covers.tree(t));
            let known = covers.filter(|covers| covers.len() == tree.nodes.len());
            let of_root = known.and_then(|covers| covers.first()).map_or(0.0, |cover| cover.0);
            let probabilities: Vec<f64> = match known.filter(|_| of_root > 0.0) {
                Some(covers) => covers.iter().map(|cover| (cover.0 / of_root).min(1.0)).collect(),
                None => tree.depths().into_iter().map(|depth| 0.5f64.powi(depth as i32)).collect(),
            };
            let of_nodes = tree.nodes.iter().zip(probabilities);
            of_nodes.filter_map(|(node, p)| matches!(node, Node::Split { .. }).then_some(p))
        })
    }

    /// Returns the forest's statistics. The time is linear in the forest's size, except for a sort of each
    /// feature's thresholds.
    pub fn stats(&self) -> ForestStats {
        let mut stats =
            ForestStats { trees: self.trees.len(), min_leaf_depth: u32::MAX, ..Default::default() };
        let mut features = vec![FeatureStats::default(); self.features.len()];
        let mut thresholds = vec![BTreeSet::new(); self.features.len()];
        for tree in &self.trees {
            let depths = tree.depths();
            let depth = depths.iter().copied().max().unwrap_or(0) as usize;
            count(&mut stats.depths, depth);
            stats.nodes += tree.nodes.len();
            let mut leaves = 0usize;
            for (node, depth) in tree.nodes.iter().zip(depths) {
                match *node {
                    Node::Leaf { .. } => {
                        leaves += 1;
                        count(&mut stats.leaf_depths, depth as usize);
                        stats.min_leaf_depth = stats.min_leaf_depth.min(depth);
                    }
                    Node::Split { feature, predicate, missing, .. } => {
                        let of = &mut features[feature as usize];
                        match predicate {
                            Predicate::Less { threshold }
                            | Predicate::LessZeroAside { threshold }
                            | Predicate::Equal { value: threshold } => {
                                of.splits += 1;
                                // Adding zero makes -0.0 and 0.0, which decide alike, one threshold.
                                thresholds[feature as usize].insert((threshold.0 + 0.0).to_bits());
                            }
                            Predicate::InSet { .. } => of.category_splits += 1,
                            Predicate::Always => of.splits += 1,
                        }
                        of.missing_left |= missing == Side::Left;
                        of.missing_right |= missing == Side::Right;
                    }
                }
            }
            count(&mut stats.leaf_counts, (usize::BITS - leaves.leading_zeros()) as usize);
            stats.leaves += leaves;
            stats.max_leaves = stats.max_leaves.max(leaves);
        }
        if stats.trees == 0 {
            stats.min_leaf_depth = 0;
        }
        for (f, (mut of, thresholds)) in features.into_iter().zip(thresholds).enumerate() {
            if of.splits + of.category_splits > 0 {
                of.feature = f as u32;
                of.thresholds = thresholds.len();
                stats.features.push(of);
            }
        }
        stats
    }
}

/// Adds one to the bin `at`.
fn count(bins: &mut Vec<usize>, at: usize) {
    if bins.len() <= at {
        bins.resize(at + 1, 0);
    }
    bins[at] += 1;
}
