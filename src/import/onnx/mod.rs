//! ONNX graphs around one tree ensemble.
//!
//! | file | subject |
//! |---|---|
//! | `proto`, `attributes` | messages of the file, decoded one at a time, and an operator's attributes |
//! | `graph`, `steps` | the graph around the trees, and the operators after them |
//! | `operator` | one tree operator without its graph, for programs that read the graph themselves |
//! | `prepare` | operators before the trees, which are folded into them |
//! | `classic`, `trees`, `votes`, `labels` | `TreeEnsembleRegressor` and `TreeEnsembleClassifier` |
//! | `unified` | `TreeEnsemble` |
//! | `ensemble` | the common form of the three tree operators |
//! | `classical` | whole graphs of classical operators |
//! | `reached`, `leaves` | the trees from their roots, and facts about the leaves that rows can reach |
//! | `scores` | outputs, values and classes, as ONNX Runtime computes them |
//!
//! ONNX Runtime decides what the standard leaves open. If it gives other values than the standard, the
//! importer refuses the model and says why.

mod attributes;
mod classic;
mod classical;
mod ensemble;
mod error;
mod graph;
mod labels;
mod leaves;
/// Generated from `proto/onnx.proto`. `tests/suite/proto.rs` checks it against that file and generates it
/// anew.
#[rustfmt::skip]
#[allow(missing_docs, unused_qualifications, clippy::all, clippy::pedantic)]
mod messages;
mod operator;
mod prepare;
mod proto;
mod reached;
mod scores;
mod steps;
mod trees;
mod unified;
mod votes;

pub use operator::{Tensor, TreeOperator};

use super::budget::Budget;
use super::{ErrorKind, ImportError, LoadOptions, Location};
use crate::Forest;
use crate::forest::{Aggregate, Classes, CompareType, ForestBuilder};
use attributes::Attributes;
use classic::Classifier;
use ensemble::Ensemble;
use error::{CONVERT_AGAIN, at};
use graph::{Rows, TreeGraph};
use proto::ElementType;
use reached::ReachedTrees;
use scores::{Margins, Scores};

pub(super) use classical::graph as classical_graph;

/// Reads the forest that a file describes.
pub(super) fn forest(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    if options.iteration_range.is_some() {
        let cause = "an ONNX graph does not tell boosting rounds apart";
        return Err(at(ErrorKind::Options, "iteration_range", cause).with_remedy("load the whole model"));
    }
    let budget = Budget::new(&options.limits);
    let model = proto::decode_file(bytes)?;
    for (field, text) in
        [("producer_name", &model.producer_name), ("producer_version", &model.producer_version)]
    {
        budget.string(text.len(), || Location::Field(field.into()))?;
    }
    // CatBoost writes its whole build record as the version, so a version of several lines is left out.
    let version = model.producer_version.lines().next().filter(|line| *line == model.producer_version);
    let producer = format!("{} {}", model.producer_name, version.unwrap_or_default()).trim().to_owned();

    followed(graph::follow(model)?, &producer, budget)
}

/// Builds the forest of a tree operator, with the graph's steps on its scores and its label.
fn followed(mut followed: TreeGraph, producer: &str, mut budget: Budget<'_>) -> Result<Forest, ImportError> {
    let operator = followed.operator.op_type.clone();
    let (ensemble, classifier) = read(&followed, &mut budget)?;
    leaves::check(&ensemble)?;
    let of_two_classes = classifier.is_some() && ensemble.outputs == 2;
    let lengths = [0, ensemble.outputs, if of_two_classes { 1 } else { 0 }];
    if !lengths.contains(&ensemble.base.len()) {
        let cause = format!("{} base values for {} outputs", ensemble.base.len(), ensemble.outputs);
        return Err(at(ErrorKind::Structure, format!("{}.base_values", ensemble.location), cause));
    }
    let compare = compare(&followed.rows, ensemble.double, &ensemble.location)?;
    let prologue = followed.rows.prepared.read(followed.rows.raw.1, &mut budget)?;
    if let Some(read) = &prologue {
        followed.rows.columns = read.columns;
    }
    let features = features(&followed.rows, &ensemble, &budget)?;
    let reached = ReachedTrees::new(&ensemble, &mut budget)?;

    let before = match &classifier {
        Some(classifier) => Scores::of_classes(&ensemble, classifier, &reached)?,
        None => Scores::of_targets(&ensemble, &reached)?,
    };
    let mut scores = before.clone();
    followed.scores.iter().try_for_each(|steps| scores.take(steps))?;
    let label = followed.label.as_ref();
    let (rule, labels) = scores.classes(&before, label, &ensemble, classifier.is_some(), &budget)?;

    let outputs = scores.offset.len();
    let mut builder = Forest::builder(features, outputs as u32)
        .producer("onnx", producer, &operator)
        .base_score(base_score(&ensemble, &scores))
        .aggregate(ensemble.fold.aggregate)
        .compare(compare)
        .scale(scores.scale)
        .transform(scores.transform)
        .classes(Classes { rule, labels: labels.texts, words: labels.words });
    build(&reached, &ensemble, scores.margins, compare, &mut builder, &mut budget)?;
    let forest = budget
        .finish(builder)
        .map_err(|e| if e.kind() == ErrorKind::Limit { e } else { e.with_remedy(CONVERT_AGAIN) })?;
    let Some(read) = prologue else { return Ok(forest) };
    let raw = if followed.rows.raw.0 == ElementType::Double { CompareType::F64 } else { CompareType::F32 };
    forest.with_prologue(&read.steps, raw).map_err(|e| {
        let cause = format!("what precedes the trees can't be folded into them: {}: {}", e.location, e.cause);
        let remedy = "convert the trees alone, and prepare the rows before them";
        at(ErrorKind::Unsupported, ensemble.location.as_str(), cause).with_remedy(remedy)
    })
}

fn read(
    followed: &TreeGraph,
    budget: &mut Budget<'_>,
) -> Result<(Ensemble, Option<Classifier>), ImportError> {
    let location = followed.location.clone();
    let attributes = |wanted| Attributes::read(&followed.operator.attribute, location.clone(), wanted);
    match followed.operator.op_type.as_str() {
        "TreeEnsemble" => {
            let ensemble = unified::read(attributes(&unified::ATTRIBUTES)?, location.clone(), budget)?;
            Ok((ensemble, None))
        }
        op => {
            let classifier = op == "TreeEnsembleClassifier";
            classic::read(attributes(&classic::ATTRIBUTES)?, classifier, location.clone(), budget)
        }
    }
}

/// Returns the type in which values are compared. Rows that were floats at some point are compared as f32,
/// even with double thresholds: each threshold is narrowed in the direction that keeps every comparison
/// exact.
fn compare(rows: &Rows, double: bool, location: &str) -> Result<CompareType, ImportError> {
    match rows.given {
        _ if rows.single => Ok(CompareType::F32),
        ElementType::Double => Ok(CompareType::F64),
        // Integers are cast to the thresholds' type.
        ElementType::Int32 | ElementType::Int64 => {
            Ok(if double { CompareType::F64 } else { CompareType::F32 })
        }
        other => {
            let cause = format!("the trees' input is of {}, which is not supported", other.name());
            Err(at(ErrorKind::Unsupported, format!("{location}.input"), cause)
                .with_remedy("convert the model with an input of float or double"))
        }
    }
}

/// Returns the number of columns of a row: that of the input's shape or, if the shape does not fix it, as
/// many as the trees need.
fn features(rows: &Rows, ensemble: &Ensemble, budget: &Budget<'_>) -> Result<usize, ImportError> {
    let inner = |n: &&ensemble::Node| n.mode != ensemble::Mode::Leaf;
    let asked = ensemble.nodes.iter().filter(inner).map(|n| n.feature as usize + 1).max().unwrap_or(0);
    let location = || Location::Field("graph.input".into());
    let columns = match rows.columns {
        Some(columns) => usize::try_from(columns).unwrap_or(usize::MAX),
        None => asked,
    };
    budget.features(columns, location)?;
    match ensemble.nodes.iter().position(|n| inner(&n) && n.feature as usize >= columns) {
        Some(n) => {
            let cause = format!("feature {} of {columns}", asked - 1);
            Err(ensemble.at(ErrorKind::Value, "nodes_featureids", n as u32, cause))
        }
        None => Ok(columns),
    }
}

fn base_score(ensemble: &Ensemble, scores: &Scores) -> Vec<f64> {
    let base = |o: usize| ensemble.base.get(o).copied().unwrap_or(0.0);
    scores.offset.iter().enumerate().map(|(o, offset)| base(o) + offset / scores.scale).collect()
}

/// Builds the trees.
fn build(
    reached: &ReachedTrees<'_>,
    ensemble: &Ensemble,
    margins: Margins,
    compare: CompareType,
    builder: &mut ForestBuilder,
    budget: &mut Budget<'_>,
) -> Result<(), ImportError> {
    let targets: Option<Vec<u32>> = match margins {
        Margins::Only(_) => Some(vec![0; reached.trees()]),
        Margins::All => (0..reached.trees()).map(|tree| reached.target(tree)).collect(),
    };
    if targets.is_none() {
        check_vectors(reached, ensemble, budget)?;
    }
    let divisor = if ensemble.fold.average { reached.trees().max(1) as f64 } else { 1.0 };
    for tree in 0..reached.trees() {
        let sets = reached.sets(tree, builder, budget)?;
        match &targets {
            Some(targets) => {
                let output = match margins {
                    Margins::Only(output) => output,
                    Margins::All => targets[tree],
                };
                let value = |n| {
                    let vote = ensemble.votes(n).iter().find(|(o, _)| *o == output);
                    [vote.map_or(0.0, |(_, weight)| weight / divisor)].to_vec()
                };
                reached.build(tree, compare, &sets, &mut builder.tree(targets[tree]), value);
            }
            None => {
                let values = |n| {
                    let mut values = vec![0.0; ensemble.outputs];
                    for (output, weight) in ensemble.votes(n) {
                        values[*output as usize] = weight / divisor;
                    }
                    values
                };
                reached.build(tree, compare, &sets, &mut builder.vector_tree(), values);
            }
        }
    }
    Ok(())
}

/// Checks trees whose leaves vote for several outputs, before memory is reserved for a full vector in each
/// leaf.
fn check_vectors(
    reached: &ReachedTrees<'_>,
    ensemble: &Ensemble,
    budget: &mut Budget<'_>,
) -> Result<(), ImportError> {
    let leaves = reached.leaf_count();
    budget.vector_leaves(leaves, ensemble.outputs, || Location::Field(ensemble.location.clone()))?;
    if ensemble.fold.aggregate == Aggregate::Sum {
        return Ok(());
    }
    let mut all = (0..reached.trees()).flat_map(|tree| reached.leaves(tree));
    match all.find(|n| ensemble.votes(*n).len() != ensemble.outputs) {
        Some(n) => {
            let cause = "MIN and MAX over leaves that speak for some of several targets are not supported";
            let error = ensemble.at(ErrorKind::Unsupported, "nodes_nodeids", n, cause);
            Err(error.with_remedy("give each leaf a weight for each target, or each tree one target"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
