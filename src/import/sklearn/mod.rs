//! scikit-learn's estimators of trees, as the arrays that `scripts/export_sklearn.py` writes.
//!
//! The exporter knows scikit-learn's versions and says what a fitted estimator means; this reads what it says. The array
//! `fangorn` is a JSON text with the scalars and names, the others hold an entry a node, a tree or a leaf.

mod archive;
mod array;
mod nodes;

use std::ops::Range;

use serde::Deserialize;

use super::budget::Budget;
use super::decode::{Encoding, decode};
use super::{ErrorKind, ImportError, Limits, LoadOptions, Place};
use crate::Forest;
use crate::forest::{
    CategoryRule, CategorySet, ClassRule, Classes, CompareType, ForestBuilder, MOST_CATEGORIES, Transform,
};
use archive::Archive;
use array::Count;
use nodes::Nodes;

/// The version of the arrays that is read.
const FORMAT: u64 = 1;

/// The remedy for a file that is damaged or no exporter's.
const EXPORT_AGAIN: &str = "export the estimator again with scripts/export_sklearn.py";

/// Every array of a file.
const ARRAYS: [&str; 13] = [
    "fangorn",
    "base",
    "tree_offsets",
    "tree_outputs",
    "left",
    "right",
    "feature",
    "threshold",
    "missing_left",
    "set",
    "set_offsets",
    "set_members",
    "values",
];

/// The JSON text.
#[derive(Deserialize)]
struct Head {
    estimator: String,
    version: String,
    features: u64,
    names: Vec<String>,
    outputs: u64,
    compare: String,
    scale: f64,
    transform: String,
    classes: String,
    threshold: f64,
    labels: Vec<String>,
    round: u64,
    categories: String,
}

impl Head {
    /// The type that inputs are compared in.
    fn compare(&self) -> Result<CompareType, ImportError> {
        let found = CompareType::ALL.into_iter().find(|c| c.name() == self.compare);
        found.ok_or_else(|| unknown("compare", &self.compare, "f32 and f64"))
    }
}

/// The refusal of a word that means nothing in its field.
fn unknown(field: &str, found: &str, known: &str) -> ImportError {
    error(ErrorKind::Value, format!("fangorn.{field}"), format!("`{found}` is none of {known}"))
}

/// An error at an array or a field of it, of a file that the exporter would not write.
fn error(kind: ErrorKind, path: impl Into<String>, cause: impl AsRef<str>) -> ImportError {
    ImportError::new(kind, Place::Field(path.into()), cause).with_remedy(EXPORT_AGAIN)
}

/// The forest that a file describes.
pub(super) fn forest(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    let archive = Archive::open(bytes, &ARRAYS, &options.limits)?;
    let head = head(&archive, &options.limits)?;
    let nodes = Nodes::read(&archive, &head, &options.limits)?;
    let mut forest = begin(&archive, &head)?;
    let sets = sets(&archive, &head, &options.limits)?;
    let count = sets.len();
    for set in sets {
        forest.push_set(set);
    }
    let chosen = chosen(options.iteration_range.as_ref(), head.round, nodes.trees())?;
    nodes.grow(&mut forest, chosen, count)?;
    Budget::new(&options.limits).finish(forest).map_err(|e| match e.kind() {
        ErrorKind::Limit => e,
        _ => e.with_remedy(EXPORT_AGAIN),
    })
}

fn head(archive: &Archive<'_>, limits: &Limits) -> Result<Head, ImportError> {
    if archive.size("fangorn").is_none() {
        let cause = "no `fangorn` array: this archive is not written by the exporter for scikit-learn";
        return Err(ImportError::new(ErrorKind::Format, Place::File, cause)
            .with_remedy("export a fitted scikit-learn estimator with scripts/export_sklearn.py"));
    }
    // A name costs a few bytes in any case, so that this bounds their number as well.
    let text: Vec<u8> = array::read(
        archive,
        "fangorn",
        Count::AtMost(limits.string_bytes.saturating_mul(64), "string_bytes"),
    )?;
    /// Read first, since a newer format may have other fields.
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    let inside = |e: ImportError| match e.place() {
        Place::Field(path) => error(e.kind(), format!("fangorn.{path}"), e.cause()),
        Place::File => error(e.kind(), "fangorn", e.cause()),
        place => error(e.kind(), format!("fangorn, {place}"), e.cause()),
    };
    let Version { format } = decode(&text, Encoding::Json, limits).map_err(inside)?;
    if format != FORMAT {
        let cause = format!("format {format} of the exporter, format {FORMAT} is read");
        return Err(ImportError::new(ErrorKind::Unsupported, Place::Field("fangorn.format".into()), cause)
            .with_remedy("export the estimator with the scripts/export_sklearn.py of this release"));
    }
    let head: Head = decode(&text, Encoding::Json, limits).map_err(inside)?;
    let budget = Budget::new(limits);
    let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    budget.features(count(head.features), || Place::Field("fangorn.features".into()))?;
    budget.outputs(count(head.outputs), || Place::Field("fangorn.outputs".into()))?;
    if head.outputs == 0 {
        return Err(error(ErrorKind::Value, "fangorn.outputs", "a forest has at least one output"));
    }
    if !head.names.is_empty() && head.names.len() as u64 != head.features {
        let cause = format!("{} names for {} features", head.names.len(), head.features);
        return Err(error(ErrorKind::Structure, "fangorn.names", cause));
    }
    Ok(head)
}

/// The forest without its trees.
fn begin(archive: &Archive<'_>, head: &Head) -> Result<ForestBuilder, ImportError> {
    let transform = Transform::named(&head.transform);
    let rule = match head.classes.as_str() {
        "none" => ClassRule::None,
        "largest" => ClassRule::Largest,
        "over" if !head.threshold.is_nan() => ClassRule::Over { threshold: head.threshold.into() },
        "over" => return Err(error(ErrorKind::Value, "fangorn.threshold", "the threshold is NaN")),
        other => return Err(unknown("classes", other, "none, largest and over")),
    };
    let base: Vec<f64> = array::read(archive, "base", Count::Exactly(head.outputs as usize, "outputs"))?;
    Ok(Forest::builder(head.features as usize, head.outputs as u32)
        .producer("scikit-learn", &head.version, &head.estimator)
        .names(head.names.iter().map(String::as_str))
        .compare(head.compare()?)
        .transform(transform.ok_or_else(|| unknown("transform", &head.transform, "the transforms"))?)
        .scale(head.scale)
        .base_score(base)
        .classes(Classes { rule, labels: head.labels.clone() }))
}

/// The category sets.
fn sets(archive: &Archive<'_>, head: &Head, limits: &Limits) -> Result<Vec<CategorySet>, ImportError> {
    let rule = match head.categories.as_str() {
        "whole" => CategoryRule::Whole,
        "not_negative" => CategoryRule::NotNegative,
        other => return Err(unknown("categories", other, "whole and not_negative")),
    };
    let most = limits.category_words.saturating_add(1);
    let starts = starts(archive, "set_offsets", Count::AtMost(most, "category_words"))?;
    let count = starts.last().map_or(0, |range| range.end);
    let mut budget = Budget::new(limits);
    let members: Vec<i32> = array::read(archive, "set_members", Count::Exactly(count, "members of sets"))?;
    let set = |range: Range<usize>| {
        let members = &members[range.clone()];
        if let Some(i) = members.iter().position(|m| !(0..MOST_CATEGORIES as i32).contains(m)) {
            let cause = format!("category {} is not from 0 to 2^24 - 1", members[i]);
            return Err(error(ErrorKind::Value, format!("set_members[{}]", range.start + i), cause));
        }
        let words = members.iter().max().map_or(0, |largest| *largest as usize / 32 + 1);
        budget.category_words(words, || Place::Field(format!("set_members[{}]", range.start)))?;
        Ok(CategorySet::new(members.iter().map(|m| *m as u32), rule))
    };
    starts.into_iter().map(set).collect()
}

/// The ranges that an array of offsets cuts: each begins where the one before ends, the first at 0.
fn starts(archive: &Archive<'_>, name: &str, count: Count) -> Result<Vec<Range<usize>>, ImportError> {
    let offsets: Vec<i64> = array::read(archive, name, count)?;
    let offset = |i: usize| usize::try_from(offsets[i]).ok().filter(|o| i > 0 || *o == 0);
    let ranges = (1..offsets.len()).map(|i| Some(offset(i - 1)?..offset(i)?).filter(|r| r.start <= r.end));
    match ranges.collect() {
        Some(ranges) if offsets.first() == Some(&0) => Ok(ranges),
        _ => Err(error(ErrorKind::Structure, name, "expected ascending numbers from 0")),
    }
}

/// The trees that a range of boosting rounds keeps.
fn chosen(range: Option<&Range<u32>>, round: u64, trees: usize) -> Result<Range<usize>, ImportError> {
    if round > 0 && !(trees as u64).is_multiple_of(round) {
        let cause = format!("{trees} trees make no whole number of rounds of {round}");
        return Err(error(ErrorKind::Structure, "fangorn.round", cause));
    }
    let Some(range) = range else {
        return Ok(0..trees);
    };
    let fail = |cause: String, remedy: String| {
        Err(ImportError::new(ErrorKind::Options, Place::Field("iteration_range".into()), cause)
            .with_remedy(remedy))
    };
    if round == 0 {
        let remedy = "load it without a range of rounds, or train it with fewer trees".into();
        return fail("a range of rounds of a model that is not boosted".into(), remedy);
    }
    let round = usize::try_from(round).unwrap_or(usize::MAX);
    let rounds = trees / round;
    let (begin, end) = (range.start as usize, if range.end == 0 { rounds } else { range.end as usize });
    if begin > end || end > rounds {
        let remedy = format!("choose a range within 0..{rounds}, or an end of 0 for the last round");
        return fail(format!("rounds {}..{} of a model with {rounds}", range.start, range.end), remedy);
    }
    Ok(begin * round..end * round)
}

#[cfg(test)]
#[allow(dead_code)]
#[path = "../../../tests/support/npz.rs"]
mod npz;
#[cfg(test)]
mod tests;
