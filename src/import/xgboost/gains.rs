//! Reads the gains of the splits in a separate pass, so that it costs nothing if nobody asks for gains.

use serde::Deserialize;

use super::super::decode::{Encoding, decode};
use super::super::{ImportError, Limits};
use super::tree::GrownTrees;
use crate::forest::{Gains, Node, Real, Tree};

#[derive(Debug, Deserialize)]
struct Document {
    learner: Learner,
}

#[derive(Debug, Deserialize)]
struct Learner {
    gradient_booster: Booster,
}

/// The booster `dart` holds a whole gbtree.
#[derive(Debug, Deserialize)]
struct Booster {
    model: Option<Model>,
    gbtree: Option<InnerBooster>,
}

#[derive(Debug, Deserialize)]
struct InnerBooster {
    model: Option<Model>,
}

#[derive(Debug, Deserialize)]
struct Model {
    #[serde(default)]
    trees: Vec<FileTree>,
}

#[derive(Debug, Deserialize)]
struct FileTree {
    /// How much the split of each node improved the objective.
    #[serde(default)]
    loss_changes: Vec<f32>,
}

/// Returns the gains of the trees that were grown, or `None` if the file lacks some or has one that is not finite.
pub(super) fn read(
    bytes: &[u8],
    encoding: Encoding,
    limits: &Limits,
    grown: &GrownTrees,
) -> Result<Option<Gains>, ImportError> {
    let document: Document = decode(bytes, encoding, limits)?;
    let Booster { model, gbtree } = document.learner.gradient_booster;
    let trees = model.or_else(|| gbtree?.model).map(|model| model.trees).unwrap_or_default();
    let of_tree = |(tree, index): (&Tree, &usize)| {
        let changes = &trees.get(*index)?.loss_changes;
        let gain = |(node, id): (&Node, &u32)| match node {
            Node::Leaf { .. } => Some(Real(0.0)),
            Node::Split { .. } => changes.get(*id as usize).map(|change| Real::from(*change)),
        };
        tree.nodes.iter().zip(&tree.ids).map(gain).collect::<Option<Vec<Real>>>()
    };
    let all: Option<Vec<_>> = grown.trees.iter().zip(&grown.indices).map(of_tree).collect();
    Ok(all.and_then(Gains::new))
}
