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
    /// Takes the covers of all nodes: a list for each tree, in the order of [`Tree::nodes`](super::Tree::nodes). Returns
    /// `None` if a cover is negative or not finite, as in a model whose objective has negative hessians.
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

    /// Returns the place of the first rule that the covers break, and the rule. `nodes` gives the number of nodes of each
    /// tree.
    pub(super) fn broken_rule(
        &self,
        nodes: impl ExactSizeIterator<Item = usize>,
    ) -> Option<(String, String)> {
        if self.trees.len() != nodes.len() {
            return Some((
                "covers".into(),
                format!("covers of {} trees for {}", self.trees.len(), nodes.len()),
            ));
        }
        for (t, (covers, nodes)) in self.trees.iter().zip(nodes).enumerate() {
            if covers.len() != nodes {
                return Some((format!("tree {t}"), format!("{} covers for {nodes} nodes", covers.len())));
            }
            if let Some(n) = covers.iter().position(|cover| !is_sound(cover.0)) {
                let rule = format!("cover {:?}, where a finite number from 0 on is expected", covers[n]);
                return Some((format!("tree {t}, node {n}"), rule));
            }
        }
        None
    }
}

fn is_sound(cover: f64) -> bool {
    cover.is_finite() && cover >= 0.0
}
