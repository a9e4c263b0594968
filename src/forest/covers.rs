//! Covers: how much of the training data reached each node.

use super::Real;

/// How much of the training data reached each node of a forest. XGBoost and CatBoost sum the weights (hessians) of the
/// rows, LightGBM counts rows. Only ratios of covers within a tree matter. Predictions do not depend on them;
/// [path-dependent contributions](crate::contributions) do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covers {
    trees: Vec<Vec<Real>>,
}

impl Covers {
    /// Takes the covers of all nodes: a list for each tree, in the order of [`Tree::nodes`](super::Tree::nodes).
    /// Returns `None` if a cover is negative or not finite, as in a model whose objective has negative hessians.
    pub fn new(trees: Vec<Vec<Real>>) -> Option<Self> {
        let sound = trees.iter().flatten().all(|cover| is_sound(cover.0));
        sound.then_some(Self { trees })
    }

    /// Returns the covers of the nodes of tree `t`.
    pub fn tree(&self, t: usize) -> &[Real] {
        &self.trees[t]
    }

    /// Returns the number of trees.
    pub fn len(&self) -> usize {
        self.trees.len()
    }

    /// Returns whether there are no trees.
    pub fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Returns the location of the first rule that the covers break, and the rule. `nodes` gives the number of nodes of
    /// each tree.
    pub(super) fn broken_rule(
        &self,
        nodes: impl ExactSizeIterator<Item = usize>,
    ) -> Option<(String, String)> {
        broken_rule(&self.trees, nodes, "cover", "a finite number from 0 on", is_sound)
    }
}

/// Returns the location of the first rule that `trees` breaks, and the rule. There must be a number for each node, for
/// which `is_sound` holds. In messages, `what` names such a number, and `expected` what it should be.
pub(super) fn broken_rule(
    trees: &[Vec<Real>],
    nodes: impl ExactSizeIterator<Item = usize>,
    what: &str,
    expected: &str,
    is_sound: fn(f64) -> bool,
) -> Option<(String, String)> {
    if trees.len() != nodes.len() {
        return Some((format!("{what}s"), format!("{what}s of {} trees for {}", trees.len(), nodes.len())));
    }
    for (t, (numbers, nodes)) in trees.iter().zip(nodes).enumerate() {
        if numbers.len() != nodes {
            return Some((format!("tree {t}"), format!("{} {what}s for {nodes} nodes", numbers.len())));
        }
        if let Some(n) = numbers.iter().position(|number| !is_sound(number.0)) {
            let rule = format!("{what} {:?}, but {expected} is expected", numbers[n]);
            return Some((format!("tree {t}, node {n}"), rule));
        }
    }
    None
}

fn is_sound(cover: f64) -> bool {
    cover.is_finite() && cover >= 0.0
}
