//! scikit-learn's tree estimators, as the arrays that `scripts/export_sklearn.py` dumps.
//!
//! The exporter writes the attributes of a fitted estimator, under scikit-learn's own names. This importer decides
//! what they mean and what is refused. The array `fangorn` is a JSON text with the scalars and names. Every other
//! array holds the entries of all trees, one tree after the other. The array `name.sizes` beside it has each tree's
//! number of entries.
//!
//! | file | subject |
//! |---|---|
//! | `archive`, `array` | `.npz` and `.npy` files |
//! | `head`, `plain` | the JSON text: the estimator's class, its release and its scalars |
//! | `fitted` | the trees of all estimators except histogram boosting |
//! | `average` | trees, forests and bags: means of leaves, shares of votes |
//! | `boosting` | gradient boosting |
//! | `histogram`, `categories` | histogram boosting: nodes, and sets of categories |
//! | `pipeline` | pipelines and linear models, as graphs |
//! | `column_uses`, `encoders` | what pipelines take columns for; imputers and encoders |
//! | `isolation` | isolation forests: path lengths |

pub(super) mod archive;
mod array;
mod average;
mod boosting;
mod categories;
mod column_uses;
mod encoders;
mod fitted;
mod head;
mod histogram;
mod isolation;
mod pipeline;
mod plain;

use std::ops::Range;

use super::budget::Budget;
use super::{ErrorKind, ImportError, Limits, LoadOptions, Location};
use crate::Forest;
use crate::forest::{Classes, ForestBuilder, Side};
use crate::graph::Graph;
use archive::Archive;
use head::{Family, Head};

/// The remedy for a file that is damaged or was not written by the exporter.
const EXPORT_AGAIN: &str = "export the estimator again with scripts/export_sklearn.py";

/// Every array that a file of any family may have.
const ARRAYS: [&str; 20] = [
    "fangorn",
    "children_left",
    "children_right",
    "feature",
    "threshold",
    "missing_go_to_left",
    "value",
    "n_node_samples",
    "columns",
    "left",
    "right",
    "feature_idx",
    "num_threshold",
    "is_leaf",
    "is_categorical",
    "bitset_idx",
    "left_bitsets",
    "known_bitsets",
    "known_places",
    "forests",
];

/// Returns an error at an array, or at a field of it, for a file that the exporter would not write.
fn error(kind: ErrorKind, path: impl Into<String>, cause: impl AsRef<str>) -> ImportError {
    ImportError::new(kind, Location::Field(path.into()), cause).with_remedy(EXPORT_AGAIN)
}

/// Returns the error that refuses a valid estimator, with what to do instead.
fn unsupported(field: &str, cause: impl AsRef<str>, remedy: impl Into<String>) -> ImportError {
    let location = Location::Field(format!("fangorn.{field}"));
    ImportError::new(ErrorKind::Unsupported, location, cause).with_remedy(remedy)
}

/// A file whose head has been read.
struct File<'f> {
    archive: Archive<'f>,
    head: Head,
    limits: &'f Limits,
    /// The boosting rounds to keep; `None` for all.
    range: Option<&'f Range<u32>>,
    /// Whether the caller computes rows from the table's categories, so that columns may have categories
    /// other than whole numbers.
    raw_categories: bool,
}

/// Reads the forest that a file describes.
pub(super) fn forest(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    let limits = &options.limits;
    let archive = Archive::open(bytes, &ARRAYS, limits)?;
    let (family, head) = head::read(&archive, limits)?;
    let (range, raw_categories) = (options.iteration_range.as_ref(), options.raw_categories);
    let file = File { archive, head, limits, range, raw_categories };
    let forest = match family {
        Family::Average { classifier } => average::forest(&file, classifier),
        Family::Boosting { classifier } => boosting::forest(&file, classifier),
        Family::Histogram { classifier } => histogram::forest(&file, classifier),
        Family::Isolation => isolation::forest(&file),
    }?;
    Budget::new(limits).finish(forest).map_err(|e| match e.kind() {
        ErrorKind::Limit => e,
        _ => e.with_remedy(EXPORT_AGAIN),
    })
}

/// Reads the graph that a file of a pipeline or of a linear model describes. Forests in it are files of their own, one
/// after the other in the array `forests`.
pub(super) fn graph(bytes: &[u8], options: &LoadOptions) -> Result<Graph, ImportError> {
    let limits = &options.limits;
    let archive = Archive::open(bytes, &ARRAYS, limits)?;
    let head: pipeline::Head = head::decoded(&head::text(&archive, limits)?, limits)?;
    if !head.is_graph() {
        // An estimator of another kind is refused by the importer of forests, by name.
        forest(bytes, options)?;
        let cause = format!("{} is a forest and no graph", head.estimator);
        return Err(unsupported("estimator", cause, "load it as a forest"));
    }
    let ranges = array::ranges(&archive, "forests", array::Count::AtMost(limits.trees, "trees"))?;
    let most = usize::try_from(limits.file_bytes).unwrap_or(usize::MAX);
    let forests: Vec<u8> = array::integers(&archive, "forests", array::Count::AtMost(most, "file_bytes"))?;
    pipeline::graph(head, options, |at| {
        let file = ranges.get(at).and_then(|range| forests.get(range.clone()));
        let cause = || error(ErrorKind::Structure, "forests", format!("there is no forest {at}"));
        forest(file.ok_or_else(cause)?, options)
    })
}

impl File<'_> {
    /// Returns a forest without trees, with `outputs` outputs and these classes.
    fn builder(&self, outputs: usize, classes: Classes) -> Result<ForestBuilder, ImportError> {
        Budget::new(self.limits).outputs(outputs, || Location::Field("fangorn".into()))?;
        let head = &self.head;
        Ok(Forest::builder(head.features as usize, outputs as u32)
            .producer("scikit-learn", &head.version, &head.estimator)
            .names(head.names.iter().map(String::as_str))
            .classes(classes))
    }

    /// Returns the trees that the range of rounds keeps. A boosting round adds `round` trees; `round` is 0
    /// for an estimator that is not boosted.
    fn chosen_trees(&self, round: usize, trees: usize) -> Result<Range<usize>, ImportError> {
        if round > 0 && !trees.is_multiple_of(round) {
            let cause = format!("{trees} trees make no whole number of rounds of {round}");
            return Err(error(ErrorKind::Structure, "fangorn.base", cause));
        }
        let Some(range) = self.range else {
            return Ok(0..trees);
        };
        let fail = |cause: String, remedy: String| {
            let location = Location::Field("iteration_range".into());
            Err(ImportError::new(ErrorKind::Options, location, cause).with_remedy(remedy))
        };
        if round == 0 {
            let remedy = "load it without a range of rounds, or train it with fewer trees".into();
            return fail("a range of rounds of a model that is not boosted".into(), remedy);
        }
        let rounds = trees / round;
        let (begin, end) = (range.start as usize, if range.end == 0 { rounds } else { range.end as usize });
        if begin > end || end > rounds {
            let remedy = format!("choose a range within 0..{rounds}, or an end of 0 for the last round");
            return fail(format!("rounds {}..{} of a model with {rounds}", range.start, range.end), remedy);
        }
        Ok(begin * round..end * round)
    }
}

/// Returns the side that a missing value takes.
fn missing_side(flag: u8, location: impl FnOnce() -> String) -> Result<Side, ImportError> {
    match flag {
        0 => Ok(Side::Right),
        1 => Ok(Side::Left),
        other => {
            let cause = format!("{other} is neither 0 (right) nor 1 (left)");
            Err(error(ErrorKind::Value, location(), cause))
        }
    }
}

#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../tests/support/npz.rs"]
mod npz;
#[cfg(test)]
mod tests;
