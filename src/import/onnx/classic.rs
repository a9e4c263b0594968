//! Reads `TreeEnsembleRegressor` and `TreeEnsembleClassifier`. Each field is a list with an entry for each
//! node, and a node is named by its tree's id and its own id.

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::attributes::Attributes;
use super::ensemble::{Ensemble, Fold, Mode, Node, check_finite, check_length, feature, missing};
use super::error::at;
use super::labels::{self, Labels};
use super::trees::Trees;
use super::votes::Votes;
use crate::forest::{Aggregate, Transform};

/// Attributes that are read.
pub(super) const ATTRIBUTES: [&str; 26] = [
    "aggregate_function",
    "base_values",
    "base_values_as_tensor",
    "class_ids",
    "class_nodeids",
    "class_treeids",
    "class_weights",
    "class_weights_as_tensor",
    "classlabels_int64s",
    "classlabels_strings",
    "n_targets",
    "nodes_falsenodeids",
    "nodes_featureids",
    "nodes_missing_value_tracks_true",
    "nodes_modes",
    "nodes_nodeids",
    "nodes_treeids",
    "nodes_truenodeids",
    "nodes_values",
    "nodes_values_as_tensor",
    "post_transform",
    "target_ids",
    "target_nodeids",
    "target_treeids",
    "target_weights",
    "target_weights_as_tensor",
];

/// The fields that only a classifier has.
pub(super) struct Classifier {
    /// The names of the classes.
    pub(super) labels: Labels,
    /// Whether any vote is for the first class, and whether any is for the second. Counts all votes of the
    /// file, also those of nodes that are not leaves.
    pub(super) voted: [bool; 2],
    /// Whether no vote is negative.
    pub(super) all_positive: bool,
}

/// Reads a regressor, or a classifier if `classifier` is true.
pub(super) fn read(
    mut attributes: Attributes,
    classifier: bool,
    location: String,
    budget: &mut Budget<'_>,
) -> Result<(Ensemble, Option<Classifier>), ImportError> {
    let prefix = if classifier { "class" } else { "target" };
    let labels = if classifier { Some(labels::read(&mut attributes, budget)?) } else { None };
    let outputs = match &labels {
        Some(labels) => labels.texts.len(),
        None => targets(&mut attributes)?,
    };
    budget.outputs(outputs, || Location::Field(attributes.path("n_targets")))?;
    let base = attributes.floats_or_tensor("base_values")?;
    check_finite(&attributes, &base)?;
    let (fold, post) = (fold(&mut attributes)?, post(&mut attributes)?);

    let thresholds = attributes.floats_or_tensor("nodes_values")?;
    let trees = Trees::read(&mut attributes, budget)?;
    let nodes = nodes(&mut attributes, &trees, &thresholds.values, thresholds.name.clone())?;
    let ids = leaf_ids(&attributes, &trees, &nodes)?;
    let votes = Votes::read(&mut attributes, prefix, outputs)?;
    let classifier = labels.map(|labels| Classifier {
        labels,
        voted: [0, 1].map(|class| votes.outputs.contains(&class)),
        all_positive: votes.weights.values.iter().all(|w| *w >= 0.0),
    });
    let (votes, starts) = votes.by_leaf(&attributes, &trees, &nodes)?;
    let ensemble = Ensemble {
        location,
        nodes,
        ids,
        roots: trees.runs.iter().map(|run| run.begin).collect(),
        one_root: true,
        votes,
        starts,
        members: Vec::new(),
        double: thresholds.double,
        outputs,
        base: base.values,
        fold,
        post,
    };
    Ok((ensemble, classifier))
}

fn targets(attributes: &mut Attributes) -> Result<usize, ImportError> {
    let path = attributes.path("n_targets");
    match attributes.int("n_targets") {
        // A number that does not fit `usize` is over every limit.
        Some(targets) if targets > 0 => Ok(usize::try_from(targets).unwrap_or(usize::MAX)),
        Some(_) => Err(at(ErrorKind::Value, path, "the number of targets is not above zero")),
        None => Err(at(ErrorKind::Schema, path, "missing attribute")),
    }
}

fn fold(attributes: &mut Attributes) -> Result<Fold, ImportError> {
    let name = attributes.string("aggregate_function");
    let aggregate = match name.as_deref() {
        None | Some("SUM" | "AVERAGE") => Aggregate::Sum,
        Some("MIN") => Aggregate::Min,
        Some("MAX") => Aggregate::Max,
        Some(other) => {
            let cause = format!("aggregate function `{other}` is not SUM, AVERAGE, MIN or MAX");
            return Err(at(ErrorKind::Value, attributes.path("aggregate_function"), cause));
        }
    };
    Ok(Fold { aggregate, average: name.as_deref() == Some("AVERAGE") })
}

fn post(attributes: &mut Attributes) -> Result<Transform, ImportError> {
    match attributes.string("post_transform").as_deref() {
        None | Some("NONE") => Ok(Transform::Identity),
        Some("LOGISTIC") => Ok(Transform::Sigmoid),
        Some("SOFTMAX") => Ok(Transform::Softmax),
        Some("SOFTMAX_ZERO") => Ok(Transform::SoftmaxZero),
        Some("PROBIT") => Ok(Transform::Probit),
        Some(other) => {
            let cause =
                format!("post transform `{other}` is not NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT");
            Err(at(ErrorKind::Value, attributes.path("post_transform"), cause))
        }
    }
}

fn nodes(
    attributes: &mut Attributes,
    trees: &Trees,
    thresholds: &[f64],
    thresholds_name: String,
) -> Result<Vec<Node>, ImportError> {
    let count = trees.node_ids.len();
    let features = attributes.ints("nodes_featureids");
    let modes = attributes.strings("nodes_modes");
    let yes = attributes.ints("nodes_truenodeids");
    let no = attributes.ints("nodes_falsenodeids");
    let lengths = [
        ("nodes_featureids", features.len()),
        ("nodes_modes", modes.len()),
        ("nodes_truenodeids", yes.len()),
        ("nodes_falsenodeids", no.len()),
        (thresholds_name.as_str(), thresholds.len()),
    ];
    for (name, length) in lengths {
        check_length(attributes.path(name), length, count, "nodes")?;
    }
    let missing = missing(attributes, count)?;
    let mut nodes = Vec::with_capacity(count);
    for run in &trees.runs {
        for n in run.begin as usize..run.end as usize {
            let mode = match &*modes[n] {
                b"LEAF" => Mode::Leaf,
                b"BRANCH_LEQ" => Mode::LessOrEqual,
                b"BRANCH_LT" => Mode::Less,
                b"BRANCH_GTE" => Mode::GreaterOrEqual,
                b"BRANCH_GT" => Mode::Greater,
                b"BRANCH_EQ" => Mode::Equal,
                b"BRANCH_NEQ" => Mode::NotEqual,
                other => {
                    let path = format!("{}[{n}]", attributes.path("nodes_modes"));
                    let cause = format!("mode `{}` is not known", String::from_utf8_lossy(other));
                    return Err(at(ErrorKind::Value, path, cause));
                }
            };
            if mode == Mode::Leaf {
                let [feature, yes, no] = [0; 3];
                nodes.push(Node { mode, feature, threshold: 0.0, missing_is_true: false, yes, no });
                continue;
            }
            let threshold = thresholds[n];
            if threshold.is_nan() {
                let path = format!("{}[{n}]", attributes.path(&thresholds_name));
                return Err(at(ErrorKind::Value, path, "the threshold is NaN"));
            }
            let child = |name: &str, id: i64| {
                trees.find(run, id).ok_or_else(|| {
                    let path = format!("{}[{n}]", attributes.path(name));
                    at(ErrorKind::Structure, path, format!("the tree has no node {id}"))
                })
            };
            nodes.push(Node {
                mode,
                feature: feature(attributes, n, features[n])?,
                threshold,
                missing_is_true: missing[n],
                yes: child("nodes_truenodeids", yes[n])?,
                no: child("nodes_falsenodeids", no[n])?,
            });
        }
    }
    Ok(nodes)
}

/// Returns the file's id of each node. Only leaf ids are reported, so an inner node's id may be any number
/// and becomes 0 if it does not fit.
fn leaf_ids(attributes: &Attributes, trees: &Trees, nodes: &[Node]) -> Result<Vec<u32>, ImportError> {
    let id = |(n, (id, node)): (usize, (&i64, &Node))| match u32::try_from(*id) {
        Ok(id) => Ok(id),
        Err(_) if node.mode != Mode::Leaf => Ok(0),
        Err(_) => {
            let path = format!("{}[{n}]", attributes.path("nodes_nodeids"));
            Err(at(ErrorKind::Value, path, format!("leaf number {id} is not between 0 and 2^32 - 1")))
        }
    };
    trees.node_ids.iter().zip(nodes).enumerate().map(id).collect()
}
