//! Gains: how much each split improved the objective in training.

use super::{Real, covers::broken_rule};

/// How much each split of a forest improved the objective in training, as the producer measured it. A leaf has 0.
/// Predictions do not depend on gains; [importances](crate::insight::SplitImportances) do. A forest has gains only if
/// [`LoadOptions::gains`](crate::import::LoadOptions::gains) asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gains {
    trees: Vec<Vec<Real>>,
}

impl Gains {
    /// Takes the gains of all nodes: a list for each tree, in the order of [`Tree::nodes`](super::Tree::nodes). Returns
    /// `None` if one is not finite.
    pub fn new(trees: Vec<Vec<Real>>) -> Option<Self> {
        let sound = trees.iter().flatten().all(|gain| gain.0.is_finite());
        sound.then_some(Self { trees })
    }

    /// Returns the gains of the nodes of tree `t`.
    pub fn tree(&self, t: usize) -> &[Real] {
        &self.trees[t]
    }

    /// Returns the location of the first rule that the gains break, and the rule. `nodes` gives the number of nodes of
    /// each tree.
    pub(super) fn broken_rule(
        &self,
        nodes: impl ExactSizeIterator<Item = usize>,
    ) -> Option<(String, String)> {
        broken_rule(&self.trees, nodes, "gain", "a finite number", f64::is_finite)
    }
}
