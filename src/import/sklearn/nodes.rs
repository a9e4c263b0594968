//! Trees, from arrays with an entry a node to HIR nodes.

use std::ops::Range;

use super::super::{ErrorKind, ImportError, Limits};
use super::archive::Archive;
use super::array::{self, Count};
use super::{Head, error, starts};
use crate::forest::{CompareType, ForestBuilder, Predicate, Side};

/// Both children of a leaf.
const LEAF: i32 = -1;

/// The nodes of all trees, tree after tree; a child is counted from its tree's root.
pub(super) struct Nodes {
    trees: Vec<Range<usize>>,
    /// The output a tree adds to; none where leaves hold a value for each output.
    outputs: Vec<u32>,
    left: Vec<i32>,
    right: Vec<i32>,
    feature: Vec<i32>,
    threshold: Vec<f64>,
    missing_left: Vec<u8>,
    /// The category set that a split asks for; -1 where it compares with the threshold.
    set: Vec<i32>,
    /// The leaves' values, in the order of the nodes.
    values: Vec<f64>,
    features: usize,
    compare: CompareType,
    /// Values a leaf has.
    width: usize,
}

impl Nodes {
    pub(super) fn read(archive: &Archive<'_>, head: &Head, limits: &Limits) -> Result<Self, ImportError> {
        let most = limits.trees.saturating_add(1);
        let trees = starts(archive, "tree_offsets", Count::AtMost(most, "trees"))?;
        let left: Vec<i32> = array::read(archive, "left", Count::AtMost(limits.nodes, "nodes"))?;
        let nodes = trees.last().map_or(0, |tree| tree.end);
        if nodes != left.len() {
            let cause = format!("trees of {nodes} nodes, but `left` has {} entries", left.len());
            return Err(error(ErrorKind::Structure, "tree_offsets", cause));
        }
        let each = Count::Exactly(nodes, "nodes");
        let of_trees: Vec<i32> = array::read(archive, "tree_outputs", Count::Exactly(trees.len(), "trees"))?;
        let outputs = outputs(&of_trees, head.outputs)?;
        let width = if outputs.is_empty() { head.outputs as usize } else { 1 };
        let leaves = left.iter().filter(|left| **left == LEAF).count();
        let values = leaves.saturating_mul(width);
        Ok(Self {
            outputs,
            right: array::read(archive, "right", each)?,
            feature: array::read(archive, "feature", each)?,
            threshold: array::read(archive, "threshold", each)?,
            missing_left: array::read(archive, "missing_left", each)?,
            set: array::read(archive, "set", each)?,
            values: array::read(archive, "values", Count::Exactly(values, "values of leaves"))?,
            features: head.features as usize,
            compare: head.compare()?,
            width,
            trees,
            left,
        })
    }

    pub(super) fn trees(&self) -> usize {
        self.trees.len()
    }

    /// Adds the chosen trees to the forest, which has so many category sets.
    pub(super) fn grow(
        &self,
        forest: &mut ForestBuilder,
        chosen: Range<usize>,
        sets: usize,
    ) -> Result<(), ImportError> {
        if let Some(i) = self.values.iter().position(|value| !value.is_finite()) {
            let cause = format!("a leaf of {:?}", self.values[i]);
            return Err(error(ErrorKind::Value, format!("values[{i}]"), cause));
        }
        let mut values = self.values.chunks_exact(self.width);
        for (t, nodes) in self.trees.iter().enumerate() {
            if !chosen.contains(&t) {
                // Its leaves' values are passed over.
                let leaves = self.left[nodes.clone()].iter().filter(|left| **left == LEAF).count();
                values.by_ref().take(leaves).for_each(drop);
                continue;
            }
            let mut tree = match self.outputs.get(t) {
                Some(output) => forest.tree(*output),
                None => forest.vector_tree(),
            };
            tree.reserve(nodes.len());
            for n in nodes.clone() {
                match self.children(n)? {
                    Some([left, right]) => {
                        let missing = self.missing(n)?;
                        let predicate = self.predicate(n, missing, sets)?;
                        tree.split(self.feature(n)?, predicate, missing, left, right);
                    }
                    None => {
                        tree.leaf((n - nodes.start) as u32, values.next().unwrap_or_default());
                    }
                }
            }
        }
        Ok(())
    }

    fn children(&self, n: usize) -> Result<Option<[u32; 2]>, ImportError> {
        let (left, right) = (self.left[n], self.right[n]);
        match (u32::try_from(left), u32::try_from(right)) {
            (Ok(left), Ok(right)) => Ok(Some([left, right])),
            _ if left == LEAF && right == LEAF => Ok(None),
            _ => {
                let cause = format!("children {left} and {right}, expected two nodes or -1 for both");
                Err(error(ErrorKind::Structure, format!("left[{n}]"), cause))
            }
        }
    }

    fn feature(&self, n: usize) -> Result<u32, ImportError> {
        let feature = self.feature[n];
        u32::try_from(feature).ok().filter(|f| (*f as usize) < self.features).ok_or_else(|| {
            let cause = format!("feature {feature} of {}", self.features);
            error(ErrorKind::Value, format!("feature[{n}]"), cause)
        })
    }

    fn missing(&self, n: usize) -> Result<Side, ImportError> {
        match self.missing_left[n] {
            0 => Ok(Side::Right),
            1 => Ok(Side::Left),
            other => {
                let cause = format!("{other} is neither 0 (right) nor 1 (left)");
                Err(error(ErrorKind::Value, format!("missing_left[{n}]"), cause))
            }
        }
    }

    fn predicate(&self, n: usize, missing: Side, sets: usize) -> Result<Predicate, ImportError> {
        let (set, threshold) = (self.set[n], self.threshold[n]);
        // Histogram boosting halves the way from -inf to +inf: nothing is at most NaN, so all values go right.
        if set == -1 && threshold.is_nan() {
            return Ok(self.compare.less(f64::NEG_INFINITY));
        }
        if set == -1 {
            return Ok(self.compare.at_most(threshold));
        }
        // Unknown categories are missing ones to scikit-learn, so the set holds those that go the other way.
        let inside = if missing == Side::Left { Side::Right } else { Side::Left };
        match u32::try_from(set).ok().filter(|set| (*set as usize) < sets) {
            Some(set) => Ok(Predicate::InSet { set, inside }),
            None => {
                Err(error(ErrorKind::Value, format!("set[{n}]"), format!("category set {set} of {sets}")))
            }
        }
    }
}

/// The output of each tree, checked; empty where all trees add to all outputs, which the file says by -1.
fn outputs(of_trees: &[i32], outputs: u64) -> Result<Vec<u32>, ImportError> {
    if of_trees.iter().all(|output| *output == -1) {
        return Ok(Vec::new());
    }
    let checked = |(t, output): (usize, &i32)| {
        u32::try_from(*output).ok().filter(|o| u64::from(*o) < outputs).ok_or_else(|| {
            let cause = format!("output {output} of {outputs}");
            error(ErrorKind::Value, format!("tree_outputs[{t}]"), cause)
        })
    };
    of_trees.iter().enumerate().map(checked).collect()
}
