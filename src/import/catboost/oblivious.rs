//! Oblivious trees, which test one condition on each level, expanded into binary trees. The root tests the first
//! condition.

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location};
use super::columns::{Columns, Condition};
use super::predicates::Predicates;
use super::schema;
use crate::forest::ForestBuilder;

/// The maximum number of levels of a tree, because leaf ids have 32 bits.
const MOST_LEVELS: usize = 31;

/// An oblivious tree whose counts fit each other and the limits.
pub(super) struct Tree {
    /// Condition `l` decides bit `l` of the leaf id.
    pub conditions: Vec<Condition>,
    values: Vec<f64>,
    /// The weight of the training rows in each leaf. Empty if the file has none.
    weights: Vec<f64>,
}

impl Tree {
    pub(super) fn read(
        tree: schema::Oblivious,
        outputs: usize,
        columns: &Columns,
        budget: &mut Budget<'_>,
        path: &str,
    ) -> Result<Self, ImportError> {
        let levels = tree.splits.len();
        let leaves = if levels > MOST_LEVELS { None } else { 1usize.checked_shl(levels as u32) };
        if leaves.and_then(|leaves| leaves.checked_mul(outputs)) != Some(tree.leaf_values.len()) {
            let count = tree.leaf_values.len();
            let cause = format!("{count} values for 2^{levels} leaves of {outputs} each");
            return Err(at(ErrorKind::Structure, format!("{path}.leaf_values"), cause));
        }
        let nodes = leaves.and_then(|leaves| leaves.checked_mul(2)).map_or(usize::MAX, |twice| twice - 1);
        budget.nodes(nodes, || Location::Field(path.to_owned()))?;
        if let Some(i) = tree.leaf_values.iter().position(|value| !value.is_finite()) {
            let cause = format!("a leaf of {:?}", tree.leaf_values[i]);
            return Err(at(ErrorKind::Value, format!("{path}.leaf_values[{i}]"), cause));
        }
        let weights = tree.leaf_weights;
        if !weights.is_empty() && Some(weights.len()) != leaves {
            let cause = format!("{} weights for 2^{levels} leaves", weights.len());
            return Err(at(ErrorKind::Structure, format!("{path}.leaf_weights"), cause));
        }
        let condition = |(l, split): (usize, &schema::Split)| {
            columns.condition(split, |field| Location::Field(format!("{path}.splits[{l}].{field}")))
        };
        let conditions = tree.splits.iter().enumerate().map(condition).collect::<Result<_, _>>()?;
        Ok(Self { conditions, values: tree.leaf_values, weights })
    }

    /// Adds the tree to the forest, with its leaf values multiplied by `scale`.
    pub(super) fn grow(
        &self,
        forest: &mut ForestBuilder,
        outputs: usize,
        scale: f64,
        predicates: &Predicates,
    ) {
        let levels: Vec<_> = self.conditions.iter().map(|condition| predicates.of(*condition)).collect();
        let mut tree = if outputs == 1 { forest.tree(0) } else { forest.vector_tree() };
        tree.reserve((2 << levels.len()) - 1);
        // The children of node `n` of a level are the nodes `2n` and `2n + 1` of the next level.
        for (l, level) in levels.iter().enumerate() {
            let next = (2u32 << l) - 1;
            for n in 0..1u32 << l {
                tree.split(level.column, level.predicate, level.missing, next + 2 * n, next + 2 * n + 1);
            }
        }
        let mut values = vec![0.0; outputs];
        let mut covers = Vec::new();
        for n in 0..1usize << levels.len() {
            // Bit `l` of `n`, counted from the top, is the side that the walk takes at level `l`.
            let right = |l: usize| n >> (levels.len() - 1 - l) & 1 == 1;
            let bit =
                |(l, level): (usize, &super::predicates::Level)| usize::from(right(l) != level.yes_left) << l;
            let leaf: usize = levels.iter().enumerate().map(bit).sum();
            for (value, stored) in values.iter_mut().zip(self.values.iter().skip(leaf * outputs)) {
                *value = stored * scale;
            }
            covers.extend(self.weights.get(leaf));
            tree.leaf(leaf as u32, &values);
        }
        if !covers.is_empty() {
            tree.covers(covers_of_levels(covers));
        }
    }
}

/// Returns the covers of all nodes of a full tree, level after level, from the covers of its leaves.
fn covers_of_levels(leaves: Vec<f64>) -> Vec<f64> {
    let mut levels = vec![leaves];
    while let Some(level) = levels.last().filter(|level| level.len() > 1) {
        levels.push(level.chunks(2).map(|pair| pair.iter().sum()).collect());
    }
    levels.into_iter().rev().flatten().collect()
}
