//! Reads XGBoost models: the file's [`schema`], its [`objective`]s and its [`tree`]s. Builds the forest from
//! them.

mod categories;
mod gains;
mod objective;
mod schema;
mod tree;

use std::ops::Range;

use super::decode::{Encoding, decode};
use super::error::at;
use super::{ErrorKind, ImportError, LoadOptions, Location};
use crate::Forest;
use crate::forest::{Aggregate, Classes, CompareType, Covers, EarlyStop, Feature, Producer, Real, Targets};
use objective::{Link, Objective, Version};
use schema::{Document, Learner, Model};
use tree::TreeBuilder;

/// Newest major version of XGBoost whose files the importer reads.
const NEWEST_MAJOR: u32 = 3;

/// The path of dart's weights before 3.4.
const WEIGHTS: &str = "learner.gradient_booster.weight_drop";

/// Returns the forest that a file describes.
pub(super) fn forest(bytes: &[u8], encoding: Encoding, options: &LoadOptions) -> Result<Forest, ImportError> {
    let document: Document = decode(bytes, encoding, &options.limits)?;
    let version = version(&document.version)?;
    let Learner { attributes, feature_names, gradient_booster, learner_model_param: param, objective: named } =
        document.learner;
    let (mut model, path) = booster(gradient_booster)?;
    let outputs = outputs(param.num_class, param.num_target, options)?;
    let objective = objective(&named.name, version, outputs)?;
    let features = features(param.num_feature, feature_names, &mut model, path, version, options)?;
    // If a model has no trees and its base score is still to be estimated, the file has a placeholder for the
    // base score. Since 3.1 sums start from the placeholder itself.
    let estimated = param.boost_from_average != Some(0);
    let placeholder = version >= (3, 1) && estimated && model.trees.as_ref().is_some_and(Vec::is_empty);
    let link = if placeholder { Link::Identity } else { objective.link };
    let base_score = base_score(&param.base_score.0, link, outputs)?;

    let mut builder = TreeBuilder::new(features.len(), outputs, &options.limits);
    let (targets, rounds) = trees(model, path, options, outputs, &mut builder)?;
    let grown = builder.finish(&targets, path)?;
    let best = attributes.and_then(|attributes| attributes.best_iteration);
    let gains = match options.gains {
        true => gains::read(bytes, encoding, &options.limits, &grown)?,
        false => None,
    };
    let all_have_covers = !grown.trees.is_empty() && grown.covers.len() == grown.trees.len();
    let forest = Forest {
        covers: if all_have_covers { Covers::new(grown.covers) } else { None },
        gains,
        producer: Producer {
            library: "xgboost".into(),
            version: document.version.iter().map(u32::to_string).collect::<Vec<_>>().join("."),
            objective: named.name,
            early_stop: best.and_then(|best| early_stop(&best, rounds, options)),
        },
        features,
        outputs: outputs as u32,
        trees: grown.trees,
        targets: if grown.vector_leaves { Targets::All } else { Targets::One(targets) },
        leaf_values: grown.leaf_values,
        sets: grown.sets,
        base_score,
        aggregate: Aggregate::Sum,
        compare: CompareType::F32,
        scale: Real(1.0),
        transform: objective.transform,
        classes: Classes { rule: objective.classes(), ..Classes::default() },
    };
    // The code above checks every rule that a file can break, and reports a better location than `verify` can.
    forest.verify().map_err(|e| ImportError::new(ErrorKind::Structure, Location::File, e.to_string()))?;
    Ok(forest)
}

fn version(release: &[u32]) -> Result<Version, ImportError> {
    let [major, minor, ..] = *release else {
        return Err(at(ErrorKind::Schema, "version", "expected the version of XGBoost as three numbers"));
    };
    if !(1..=NEWEST_MAJOR).contains(&major) {
        let cause = format!("written by XGBoost {major}.{minor}, which is not supported");
        return Err(at(ErrorKind::Unsupported, "version", cause)
            .with_remedy("save the model with XGBoost 1.4 to 3.2, Booster.save_model('model.ubj')"));
    }
    Ok((major, minor))
}

/// Returns the best round that early stopping found. Returns `None` if the options choose a range of rounds,
/// or if the text is not the number of a round. `Booster.predict` ignores such a text too.
fn early_stop(best: &str, rounds: usize, options: &LoadOptions) -> Option<EarlyStop> {
    let rounds = u32::try_from(rounds).ok()?;
    let best = best.trim().parse::<u32>().ok().filter(|best| *best < rounds)?;
    options.iteration_range.is_none().then_some(EarlyStop { best, rounds })
}

/// Returns the booster's model and its path in the file. Puts dart's weights into the model, wherever the
/// file has them.
fn booster(booster: schema::Booster) -> Result<(Model, &'static str), ImportError> {
    let (model, path) = match booster.name.as_str() {
        "gbtree" => (booster.model, "learner.gradient_booster.model"),
        "dart" => (booster.gbtree.and_then(|inner| inner.model), "learner.gradient_booster.gbtree.model"),
        other => {
            let cause = format!("booster `{other}` is not supported");
            return Err(at(ErrorKind::Unsupported, "learner.gradient_booster.name", cause)
                .with_remedy("train with booster='gbtree' or booster='dart'"));
        }
    };
    let mut model = model.ok_or_else(|| at(ErrorKind::Schema, path, "missing field"))?;
    let beside = booster.weight_drop.is_some();
    if booster.name == "dart" && !beside {
        return Err(at(ErrorKind::Schema, WEIGHTS, "missing field"));
    }
    model.weight_drop = booster.weight_drop.or(model.weight_drop);
    match (&model.weight_drop, &model.trees) {
        (Some(weights), Some(trees)) if weights.len() != trees.len() => {
            let path = if beside { WEIGHTS.into() } else { format!("{path}.weight_drop") };
            let cause = format!("{} weights for {} trees", weights.len(), trees.len());
            Err(at(ErrorKind::Structure, path, cause))
        }
        _ => Ok((model, path)),
    }
}

fn outputs(classes: u64, targets: u64, options: &LoadOptions) -> Result<usize, ImportError> {
    let path = "learner.learner_model_param";
    if classes > 1 && targets > 1 {
        let cause = format!("{classes} classes and {targets} targets at once");
        return Err(at(ErrorKind::Unsupported, format!("{path}.num_target"), cause));
    }
    let outputs = classes.max(targets).max(1);
    if outputs > options.limits.outputs as u64 {
        let field = if classes > targets { "num_class" } else { "num_target" };
        let cause = format!("{outputs} outputs, over the limit of {}", options.limits.outputs);
        return Err(ImportError::limit(Location::Field(format!("{path}.{field}")), cause, "outputs"));
    }
    Ok(outputs as usize)
}

fn objective(name: &str, version: Version, outputs: usize) -> Result<Objective, ImportError> {
    let path = "learner.objective.name";
    let Some(objective) = objective::find(name, outputs) else {
        let cause = format!("objective `{name}` is not supported");
        return Err(at(ErrorKind::Unsupported, path, cause).with_remedy(
            "train with an objective of XGBoost 1.4 to 3.4, or save with the one whose margins you want",
        ));
    };
    // Since 3.4 XGBoost makes quantiles monotone after the sum. No `Transform` does that.
    if name == "reg:quantileerror" && version >= (3, 4) && outputs > 1 {
        let cause = "several quantiles of XGBoost 3.4 or newer are not supported";
        return Err(at(ErrorKind::Unsupported, path, cause)
            .with_remedy("train a model a quantile, or with XGBoost 3.2"));
    }
    Ok(objective)
}

fn features(
    claimed: u64,
    names: Vec<String>,
    model: &mut Model,
    path: &str,
    version: Version,
    options: &LoadOptions,
) -> Result<Vec<Feature>, ImportError> {
    let limit = options.limits.features;
    if claimed > limit as u64 {
        let location = Location::Field("learner.learner_model_param.num_feature".into());
        return Err(ImportError::limit(
            location,
            format!("{claimed} features, over the limit of {limit}"),
            "features",
        ));
    }
    let mut features = vec![Feature::default(); claimed as usize];
    if !names.is_empty() {
        if names.len() != features.len() {
            let cause = format!("{} names for {claimed} features", names.len());
            return Err(at(ErrorKind::Structure, "learner.feature_names", cause));
        }
        for (feature, name) in features.iter_mut().zip(names) {
            feature.name = Some(name);
        }
    }
    if let Some(cats) = model.cats.take() {
        categories::name(&mut features, cats, version, &format!("{path}.cats.enc"))?;
    }
    Ok(features)
}

fn base_score(scores: &[f32], link: Link, outputs: usize) -> Result<Vec<Real>, ImportError> {
    let path = "learner.learner_model_param.base_score";
    if scores.len() != outputs && scores.len() != 1 {
        let cause = format!("{} values for {outputs} outputs", scores.len());
        return Err(at(ErrorKind::Structure, path, cause));
    }
    if let Some((score, wanted)) = scores.iter().find_map(|score| Some((score, link.wants(*score)?))) {
        let cause = format!("{score:?}, but the objective takes a value that is {wanted}");
        return Err(at(ErrorKind::Value, path, cause));
    }
    let of_all: Vec<f32> = (0..outputs).map(|o| scores[if scores.len() == 1 { 0 } else { o }]).collect();
    Ok(link.margins(&of_all).into_iter().map(Real::from).collect())
}

/// Adds the chosen trees in the producer's order. Returns the output that each of them adds to, and the
/// number of boosting rounds in the file.
fn trees(
    model: Model,
    path: &str,
    options: &LoadOptions,
    outputs: usize,
    builder: &mut TreeBuilder<'_>,
) -> Result<(Vec<u32>, usize), ImportError> {
    let missing = |field: &str| at(ErrorKind::Schema, format!("{path}.{field}"), "missing field");
    let Model { gbtree_model_param, trees, tree_info, iteration_indptr, weight_drop, .. } = model;
    let param = gbtree_model_param.ok_or_else(|| missing("gbtree_model_param"))?;
    let trees = trees.ok_or_else(|| missing("trees"))?;
    let tree_info = tree_info.ok_or_else(|| missing("tree_info"))?;
    let count = trees.len();
    if count > options.limits.trees {
        let cause = format!("{count} trees, over the limit of {}", options.limits.trees);
        return Err(ImportError::limit(Location::Field(format!("{path}.trees")), cause, "trees"));
    }
    if param.num_trees != count as u64 {
        let cause = format!("{} trees claimed, {count} in the file", param.num_trees);
        return Err(at(ErrorKind::Structure, format!("{path}.gbtree_model_param.num_trees"), cause));
    }
    if tree_info.len() != count {
        let cause = format!("{} entries for {count} trees", tree_info.len());
        return Err(at(ErrorKind::Structure, format!("{path}.tree_info"), cause));
    }
    if let Some(t) = tree_info.iter().position(|output| *output as usize >= outputs) {
        let cause = format!("output {} of {outputs}", tree_info[t]);
        return Err(at(ErrorKind::Value, format!("{path}.tree_info[{t}]"), cause));
    }
    let starts = round_starts(iteration_indptr, param.num_parallel_tree, &tree_info, path)?;
    let chosen = chosen(options.iteration_range.as_ref(), &starts, count)?;
    let indices = file_indices(&trees, path)?;

    let mut slots: Vec<Option<schema::Tree>> = trees.into_iter().map(Some).collect();
    for t in chosen.clone() {
        let index = indices[t];
        let weight = weight_drop.as_ref().map_or(1.0, |weights| weights[t]);
        // Trees are taken out one by one, so that the file's arrays are freed as the forest grows.
        if let Some(tree) = slots[index].take() {
            builder.grow(tree, weight, &format!("{path}.trees[{index}]"))?;
            builder.note_index(index);
        }
    }
    Ok((tree_info[chosen].to_vec(), starts.len() - 1))
}

/// Returns the index in the file of each tree. XGBoost orders trees by their `id`.
fn file_indices(trees: &[schema::Tree], path: &str) -> Result<Vec<usize>, ImportError> {
    let mut indices = vec![usize::MAX; trees.len()];
    for (at_file, tree) in trees.iter().enumerate() {
        let id = tree.id.unwrap_or(at_file as u64);
        let entry = usize::try_from(id).ok().and_then(|id| indices.get_mut(id));
        match entry {
            Some(free) if *free == usize::MAX => *free = at_file,
            Some(_) => {
                let cause = format!("tree {id} stands in the file twice");
                return Err(at(ErrorKind::Structure, format!("{path}.trees[{at_file}].id"), cause));
            }
            None => {
                let cause = format!("tree {id} of {}", trees.len());
                return Err(at(ErrorKind::Structure, format!("{path}.trees[{at_file}].id"), cause));
            }
        }
    }
    Ok(indices)
}

/// Returns the index of the first tree of each boosting round, and the number of trees after the last one.
fn round_starts(
    stated: Option<Vec<u64>>,
    parallel: Option<u64>,
    tree_info: &[u32],
    path: &str,
) -> Result<Vec<usize>, ImportError> {
    let count = tree_info.len();
    if let Some(starts) = stated {
        let sound =
            starts.first() == Some(&0) && starts.last() == Some(&(count as u64)) && starts.is_sorted();
        if !sound {
            let cause = format!("expected ascending numbers from 0 to the number of trees, {count}");
            return Err(at(ErrorKind::Structure, format!("{path}.iteration_indptr"), cause));
        }
        return Ok(starts.into_iter().map(|start| start as usize).collect());
    }
    let groups = tree_info.iter().max().map_or(1, |last| u64::from(*last) + 1);
    let round = parallel.unwrap_or(1).saturating_mul(groups);
    if round == 0 || !(count as u64).is_multiple_of(round) {
        let cause = format!("{count} trees make no whole number of rounds of {round}");
        return Err(at(ErrorKind::Structure, format!("{path}.gbtree_model_param.num_parallel_tree"), cause));
    }
    Ok((0..=count).step_by(usize::try_from(round).unwrap_or(usize::MAX)).collect())
}

/// Returns the range of trees in the chosen boosting rounds.
fn chosen(range: Option<&Range<u32>>, starts: &[usize], count: usize) -> Result<Range<usize>, ImportError> {
    let Some(range) = range else {
        return Ok(0..count);
    };
    let rounds = starts.len() - 1;
    let begin = range.start as usize;
    let end = if range.end == 0 { rounds } else { range.end as usize };
    if begin > end || end > rounds {
        let location = Location::Field("iteration_range".into());
        let cause = format!("rounds {}..{} of a model with {rounds}", range.start, range.end);
        return Err(ImportError::new(ErrorKind::Options, location, cause)
            .with_remedy(format!("choose a range within 0..{rounds}, or an end of 0 for the last round")));
    }
    Ok(starts[begin]..starts[end])
}
