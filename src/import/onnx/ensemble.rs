//! The common form of the three tree operators: nodes that name their children, and leaves that vote.

use super::super::{ErrorKind, ImportError};
use super::attributes::{Attributes, Numbers};
use super::error::at;
use crate::forest::{Aggregate, Transform};

/// The condition that a node tests on its feature. If it holds, the row takes the true branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    LessOrEqual,
    Less,
    GreaterOrEqual,
    Greater,
    Equal,
    NotEqual,
    /// Whether the value is one of this range of [`Ensemble::members`], `begin..end`.
    Member(u32, u32),
    Leaf,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) mode: Mode,
    pub(super) feature: u32,
    pub(super) threshold: f64,
    /// Whether a missing value takes the true branch. This holds whatever a comparison with NaN gives.
    pub(super) missing_is_true: bool,
    /// Index of the child on the true branch.
    pub(super) yes: u32,
    /// Index of the child on the false branch.
    pub(super) no: u32,
}

/// How the trees' leaves are combined into a score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fold {
    pub(super) aggregate: Aggregate,
    /// Whether the sum is divided by the number of trees.
    pub(super) average: bool,
}

/// A tree operator as the file describes it.
pub(super) struct Ensemble {
    /// The path of the operator in the file.
    pub(super) location: String,
    /// Inner nodes and leaves.
    pub(super) nodes: Vec<Node>,
    /// The file's own id of each node. For a leaf it is the leaf id.
    pub(super) ids: Vec<u32>,
    /// The index of each tree's root in `nodes`.
    pub(super) roots: Vec<u32>,
    /// Whether each node belongs to exactly one tree, whose root must reach it.
    pub(super) one_root: bool,
    /// Votes as `(output, weight)`, leaf by leaf. The votes of node `n` are `votes[starts[n]..starts[n +
    /// 1]]`.
    pub(super) votes: Vec<(u32, f64)>,
    pub(super) starts: Vec<u32>,
    pub(super) members: Vec<f64>,
    /// Whether thresholds are doubles in the file.
    pub(super) double: bool,
    pub(super) outputs: usize,
    /// Base values: none, or one for each output. A classifier of two classes may have a single one.
    pub(super) base: Vec<f64>,
    pub(super) fold: Fold,
    pub(super) post: Transform,
}

impl Ensemble {
    /// Returns the votes of node `n`, as `(output, weight)`.
    pub(super) fn votes(&self, n: u32) -> &[(u32, f64)] {
        let range = self.starts.get(n as usize).zip(self.starts.get(n as usize + 1));
        range.and_then(|(a, b)| self.votes.get(*a as usize..*b as usize)).unwrap_or(&[])
    }

    /// Returns an error at entry `n` of a field.
    pub(super) fn at(&self, kind: ErrorKind, field: &str, n: u32, cause: impl AsRef<str>) -> ImportError {
        at(kind, format!("{}.{field}[{n}]", self.location), cause)
    }
}

/// Checks that a list has `count` entries, one for each of `things`.
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

/// Checks that node indices fit 32 bits. No limit of the user's raises this one.
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

/// Returns entry `i` of the feature list, `id`, if it is a valid column number.
pub(super) fn feature(attributes: &Attributes, i: usize, id: i64) -> Result<u32, ImportError> {
    // If the file does not fix the input's width, a row is as wide as the largest feature number needs.
    u32::try_from(id).ok().filter(|id| *id < (1 << 24) - 1).ok_or_else(|| {
        let path = format!("{}[{i}]", attributes.path("nodes_featureids"));
        at(ErrorKind::Value, path, format!("feature {id} is not between 0 and 2^24 - 2"))
    })
}

/// Returns, for each of `count` nodes, whether missing values take its true branch.
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
