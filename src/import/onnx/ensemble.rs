//! What the three tree operators have in common: nodes that name their children, and leaves that vote.

use super::super::{ErrorKind, ImportError};
use super::at;
use super::attributes::{Attributes, Numbers};
use crate::forest::{Aggregate, Transform};

/// What a node asks of its feature; the true branch is where the answer is yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    LessOrEqual,
    Less,
    GreaterOrEqual,
    Greater,
    Equal,
    NotEqual,
    /// One of the values of that range of [`Ensemble::members`].
    Member(u32, u32),
    Leaf,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) mode: Mode,
    pub(super) feature: u32,
    pub(super) threshold: f64,
    /// Whether a missing value takes the true branch, whatever the comparison says of it.
    pub(super) missing_is_true: bool,
    /// Index of the child on the true branch.
    pub(super) yes: u32,
    /// Index of the child on the false branch.
    pub(super) no: u32,
}

/// How leaves are summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    pub(super) aggregate: Aggregate,
    /// Whether the sum is divided by the number of trees.
    pub(super) average: bool,
}

/// A tree operator as the file has it.
pub(super) struct Ensemble {
    /// The path of the operator.
    pub(super) place: String,
    /// Inner nodes and leaves.
    pub(super) nodes: Vec<Node>,
    /// The file's own number of each node.
    pub(super) ids: Vec<u32>,
    /// The root of each tree.
    pub(super) roots: Vec<u32>,
    /// Whether each node belongs to one tree, whose root must reach it.
    pub(super) one_root: bool,
    /// Outputs and what leaves add to them, leaf by leaf; the votes of node `n` are `votes[starts[n]..starts[n + 1]]`.
    pub(super) votes: Vec<(u32, f64)>,
    pub(super) starts: Vec<u32>,
    pub(super) members: Vec<f64>,
    /// Whether thresholds are doubles.
    pub(super) double: bool,
    pub(super) outputs: usize,
    /// Empty, or one for each output.
    pub(super) base: Vec<f64>,
    pub(super) fold: Fold,
    pub(super) post: Transform,
}

impl Ensemble {
    /// What a leaf adds, by output.
    pub(super) fn votes(&self, n: u32) -> &[(u32, f64)] {
        let range = self.starts.get(n as usize).zip(self.starts.get(n as usize + 1));
        range.and_then(|(a, b)| self.votes.get(*a as usize..*b as usize)).unwrap_or(&[])
    }

    /// An error at a node.
    pub(super) fn at(&self, kind: ErrorKind, field: &str, n: u32, cause: impl AsRef<str>) -> ImportError {
        at(kind, format!("{}.{field}[{n}]", self.place), cause)
    }
}

/// Checks that a list has an entry for each of `count` things.
pub(super) fn check_length(
    path: String,
    length: usize,
    count: usize,
    things: &str,
) -> Result<(), ImportError> {
    if length == count {
        return Ok(());
    }
    Err(at(ErrorKind::Structure, path, format!("{length} entries for {count} {things}")))
}

/// Checks that places of nodes are numbers of 32 bits, whatever the limits allow.
pub(super) fn check_count(path: String, nodes: usize) -> Result<(), ImportError> {
    match i32::try_from(nodes) {
        Ok(_) => Ok(()),
        Err(_) => {
            let cause = format!("{nodes} nodes, at most 2^31 - 1 are supported");
            Err(at(ErrorKind::Unsupported, path, cause).with_remedy("split the model"))
        }
    }
}

/// Checks that all numbers are finite.
pub(super) fn check_finite(attributes: &Attributes, numbers: &Numbers) -> Result<(), ImportError> {
    match numbers.values.iter().position(|v| !v.is_finite()) {
        Some(i) => {
            let cause = format!("{:?} is not a finite number", numbers.values[i]);
            Err(at(ErrorKind::Value, format!("{}[{i}]", attributes.path(&numbers.name)), cause))
        }
        None => Ok(()),
    }
}

/// The number of a feature.
pub(super) fn feature(attributes: &Attributes, i: usize, id: i64) -> Result<u32, ImportError> {
    // Where the input's width is not fixed, a row is as wide as the largest feature asks.
    u32::try_from(id).ok().filter(|id| *id < (1 << 24) - 1).ok_or_else(|| {
        let path = format!("{}[{i}]", attributes.path("nodes_featureids"));
        at(ErrorKind::Value, path, format!("feature {id} is not between 0 and 2^24 - 2"))
    })
}

/// Whether each of `count` nodes sends missing values along its true branch.
pub(super) fn missing(attributes: &mut Attributes, count: usize) -> Result<Vec<bool>, ImportError> {
    let name = "nodes_missing_value_tracks_true";
    let flags = attributes.ints(name);
    if flags.is_empty() {
        return Ok(vec![false; count]);
    }
    check_length(attributes.path(name), flags.len(), count, "nodes")?;
    if let Some(i) = flags.iter().position(|f| !(0..=1).contains(f)) {
        let cause = format!("{} is neither 0 nor 1", flags[i]);
        return Err(at(ErrorKind::Value, format!("{}[{i}]", attributes.path(name)), cause));
    }
    Ok(flags.into_iter().map(|f| f == 1).collect())
}
