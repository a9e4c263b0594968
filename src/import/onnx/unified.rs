//! Reads `TreeEnsemble`. Inner nodes and leaves are two lists, and children are indices into them.

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::attributes::Attributes;
use super::ensemble::{
    Ensemble, Fold, Mode, Node, check_count, check_finite, check_length, feature, missing,
};
use super::error::at;
use crate::forest::{Aggregate, Transform};

/// Attributes that are read.
pub(super) const ATTRIBUTES: [&str; 15] = [
    "aggregate_function",
    "leaf_targetids",
    "leaf_weights",
    "membership_values",
    "n_targets",
    "nodes_falseleafs",
    "nodes_falsenodeids",
    "nodes_featureids",
    "nodes_missing_value_tracks_true",
    "nodes_modes",
    "nodes_splits",
    "nodes_trueleafs",
    "nodes_truenodeids",
    "post_transform",
    "tree_roots",
];

/// Reads the operator. In the result, leaves come after the inner nodes, and a leaf's id is its index among
/// the leaves.
pub(super) fn read(
    mut attributes: Attributes,
    location: String,
    budget: &mut Budget<'_>,
) -> Result<Ensemble, ImportError> {
    let path = attributes.path("n_targets");
    let outputs = match attributes.int("n_targets") {
        // A number that does not fit `usize` is over every limit.
        Some(outputs) if outputs > 0 => usize::try_from(outputs).unwrap_or(usize::MAX),
        Some(_) => return Err(at(ErrorKind::Value, path, "the number of targets is not above zero")),
        None => return Err(at(ErrorKind::Schema, path, "missing attribute")),
    };
    budget.outputs(outputs, || Location::Field(path))?;
    let (fold, post) = (fold(&mut attributes)?, post(&mut attributes)?);

    let weights = attributes.tensor("leaf_weights")?;
    check_finite(&attributes, &weights)?;
    let targets = attributes.ints("leaf_targetids");
    let leaves = weights.values.len();
    check_length(attributes.path("leaf_targetids"), targets.len(), leaves, "leaves")?;
    let splits = attributes.tensor("nodes_splits")?;
    let inner = splits.values.len();
    budget.nodes(inner.saturating_add(leaves), || Location::Field(attributes.path("nodes_splits")))?;
    check_count(attributes.path("nodes_splits"), inner.saturating_add(leaves))?;
    let members = attributes.tensor("membership_values")?;

    let mut nodes = nodes(&mut attributes, &splits.values, &members.values, leaves)?;
    let roots = roots(&mut attributes, &nodes, inner)?;
    budget.trees(roots.len(), || Location::Field(attributes.path("tree_roots")))?;
    let leaf = Node { mode: Mode::Leaf, feature: 0, threshold: 0.0, missing_is_true: false, yes: 0, no: 0 };
    nodes.resize(inner + leaves, leaf);
    let mut starts = vec![0; inner + 1];
    starts.extend(1..=leaves as u32);
    let vote = |(i, (target, weight)): (usize, (i64, f64))| {
        let target = u32::try_from(target).ok().filter(|t| (*t as usize) < outputs).ok_or_else(|| {
            let path = format!("{}[{i}]", attributes.path("leaf_targetids"));
            at(ErrorKind::Value, path, format!("output {target} of {outputs}"))
        })?;
        Ok((target, weight))
    };
    let votes = targets.into_iter().zip(weights.values).enumerate().map(vote).collect::<Result<_, _>>()?;
    Ok(Ensemble {
        location,
        ids: std::iter::repeat_n(0, inner).chain(0..leaves as u32).collect(),
        nodes,
        roots,
        one_root: false,
        votes,
        starts,
        members: members.values,
        double: splits.double,
        outputs,
        base: Vec::new(),
        fold,
        post,
    })
}

fn fold(attributes: &mut Attributes) -> Result<Fold, ImportError> {
    let number = attributes.int("aggregate_function").unwrap_or(1);
    let aggregate = match number {
        0 | 1 => Aggregate::Sum,
        2 => Aggregate::Min,
        3 => Aggregate::Max,
        other => {
            let cause = format!("aggregate function {other} is not between 0 and 3");
            return Err(at(ErrorKind::Value, attributes.path("aggregate_function"), cause));
        }
    };
    Ok(Fold { aggregate, average: number == 0 })
}

fn post(attributes: &mut Attributes) -> Result<Transform, ImportError> {
    let path = attributes.path("post_transform");
    match attributes.int("post_transform").unwrap_or(0) {
        0 => Ok(Transform::Identity),
        // 1 and 2 are SOFTMAX and LOGISTIC in the standard, and the reverse in ONNX Runtime.
        number @ (1 | 2) => {
            let cause = format!(
                "post transform {number} of TreeEnsemble is SOFTMAX to one runtime and LOGISTIC to another"
            );
            Err(at(ErrorKind::Unsupported, path, cause)
                .with_remedy("write post_transform=0 and a Softmax or Sigmoid operator after the trees"))
        }
        3 => Ok(Transform::SoftmaxZero),
        4 => Ok(Transform::Probit),
        other => Err(at(ErrorKind::Value, path, format!("post transform {other} is not between 0 and 4"))),
    }
}

fn nodes(
    attributes: &mut Attributes,
    splits: &[f64],
    members: &[f64],
    leaves: usize,
) -> Result<Vec<Node>, ImportError> {
    let count = splits.len();
    let modes = attributes.tensor("nodes_modes")?.values;
    let features = attributes.ints("nodes_featureids");
    let [yes, yes_leafs] = ["nodes_truenodeids", "nodes_trueleafs"].map(|name| attributes.ints(name));
    let [no, no_leafs] = ["nodes_falsenodeids", "nodes_falseleafs"].map(|name| attributes.ints(name));
    let lengths = [
        ("nodes_modes", modes.len()),
        ("nodes_featureids", features.len()),
        ("nodes_truenodeids", yes.len()),
        ("nodes_trueleafs", yes_leafs.len()),
        ("nodes_falsenodeids", no.len()),
        ("nodes_falseleafs", no_leafs.len()),
    ];
    for (name, length) in lengths {
        check_length(attributes.path(name), length, count, "nodes")?;
    }
    let missing = missing(attributes, count)?;
    let mut sets = Sets { members, begin: 0 };
    let mut nodes = Vec::with_capacity(count);
    for n in 0..count {
        let error =
            |kind, name: &str, cause: String| at(kind, format!("{}[{n}]", attributes.path(name)), cause);
        let mode = match modes[n] {
            0.0 => Mode::LessOrEqual,
            1.0 => Mode::Less,
            2.0 => Mode::GreaterOrEqual,
            3.0 => Mode::Greater,
            4.0 => Mode::Equal,
            5.0 => Mode::NotEqual,
            6.0 => match sets.next() {
                Some((begin, end)) => Mode::Member(begin, end),
                None => {
                    let cause = "no members of a set are left for this node".into();
                    return Err(error(ErrorKind::Structure, "nodes_modes", cause));
                }
            },
            other => {
                let cause = format!("mode {other} is not between 0 and 6");
                return Err(error(ErrorKind::Value, "nodes_modes", cause));
            }
        };
        if splits[n].is_nan() && !matches!(mode, Mode::Member(..)) {
            return Err(error(ErrorKind::Value, "nodes_splits", "the threshold is NaN".into()));
        }
        let child = |name: &str, id: i64, flag: &str, is_leaf: i64| {
            let (first, all, things) = match is_leaf {
                0 => (0, count, "nodes"),
                1 => (count, leaves, "leaves"),
                other => return Err(error(ErrorKind::Value, flag, format!("{other} is neither 0 nor 1"))),
            };
            let child = usize::try_from(id).ok().filter(|id| *id < all).map(|id| (first + id) as u32);
            let cause = || format!("child {id} is out of range ({all} {things})");
            child.ok_or_else(|| error(ErrorKind::Structure, name, cause()))
        };
        nodes.push(Node {
            mode,
            feature: feature(attributes, n, features[n])?,
            threshold: splits[n],
            missing_is_true: missing[n],
            yes: child("nodes_truenodeids", yes[n], "nodes_trueleafs", yes_leafs[n])?,
            no: child("nodes_falsenodeids", no[n], "nodes_falseleafs", no_leafs[n])?,
        });
    }
    if sets.next().is_some() {
        let cause = "more sets of members than nodes that ask for one";
        return Err(at(ErrorKind::Structure, attributes.path("membership_values"), cause));
    }
    Ok(nodes)
}

/// The sets of members: the values between NaNs. The NaN after the last set may be absent.
struct Sets<'m> {
    members: &'m [f64],
    begin: usize,
}

impl Sets<'_> {
    /// Returns the range of the next set, or `None` if there is none or it is empty.
    fn next(&mut self) -> Option<(u32, u32)> {
        let rest = self.members.get(self.begin..)?;
        let length = rest.iter().position(|v| v.is_nan()).unwrap_or(rest.len());
        let range = (u32::try_from(self.begin).ok()?, u32::try_from(self.begin + length).ok()?);
        self.begin += length + 1;
        (length > 0).then_some(range)
    }
}

fn roots(attributes: &mut Attributes, nodes: &[Node], inner: usize) -> Result<Vec<u32>, ImportError> {
    let roots = attributes.ints("tree_roots");
    let root = |(i, root): (usize, i64)| {
        let node = usize::try_from(root).ok().and_then(|r| nodes.get(r)).ok_or_else(|| {
            let path = format!("{}[{i}]", attributes.path("tree_roots"));
            at(ErrorKind::Structure, path, format!("root {root} is out of range ({inner} nodes)"))
        })?;
        // A tree that is a single leaf is written as a node with the same leaf on both branches.
        let leaf = node.yes == node.no && node.yes as usize >= inner;
        Ok(if leaf { node.yes } else { root as u32 })
    };
    roots.into_iter().enumerate().map(root).collect()
}
