//! Reads CatBoost models in JSON: the file's [`schema`], its [`columns`], its trees in two forms
//! ([`oblivious`], [`nested`]), its [`category`] hashes and its [`objective`]s. Builds the forest from them.

mod category;
mod columns;
mod nested;
mod objective;
mod oblivious;
mod predicates;
mod schema;

use std::ops::Range;

use super::budget::Budget;
use super::decode::{Encoding, decode};
use super::error::{SAVE_AGAIN, at};
use super::{ErrorKind, ImportError, LoadOptions, Location};
use crate::Forest;
use crate::forest::ForestBuilder;
use columns::{Columns, Condition};
use objective::Objective;
use predicates::{CategoryHashes, Predicates};
use schema::{Document, Numbers, ScaleAndBias};

/// The remedy for a file that CatBoost can't have written.
const SAVE_CATBOOST_AGAIN: &str = "the file is damaged or incomplete: save the model again with \
    save_model('model.json', format='json')";

/// Returns the forest that a file describes.
pub(super) fn forest(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    read(bytes, options).map_err(|error| match error.remedy() == SAVE_AGAIN {
        true => error.with_remedy(SAVE_CATBOOST_AGAIN),
        false => error,
    })
}

fn read(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    let document: Document = decode(bytes, Encoding::Json, &options.limits)?;
    let Document { mut features_info, mut model_info, oblivious_trees, trees, scale_and_bias } = document;
    let mut budget = Budget::new(&options.limits);
    let named = std::mem::take(&mut features_info.cat_features_hash);
    let columns = Columns::new(features_info, &budget)?;
    let (path, (mut trees, told)) = match (oblivious_trees, trees) {
        (Some(trees), None) => ("oblivious_trees", oblivious(trees, &columns, &mut budget)?),
        (None, Some(start)) => {
            let mut reader = nested::Trees::new(bytes, start, &options.limits, &columns);
            let trees = reader.read(&mut budget)?;
            ("trees", (Trees::Nested(trees), reader.outputs))
        }
        (None, None) => return Err(at(ErrorKind::Schema, "oblivious_trees", "missing field")),
        (Some(_), Some(_)) => {
            return Err(at(ErrorKind::Structure, "trees", "the file has `oblivious_trees` too"));
        }
    };
    let ScaleAndBias(scale, Numbers(bias)) = scale_and_bias.unwrap_or(ScaleAndBias(1.0, Numbers::default()));
    let outputs = told.unwrap_or(bias.len().max(1));
    budget.outputs(outputs, || Location::Field(path.into()))?;
    let mut bias = self::bias(bias, outputs)?;
    let chosen = chosen(options.iteration_range.as_ref(), trees.count())?;
    // If CatBoost's `ntree_start` leaves out the first tree, CatBoost leaves out the bias too.
    if chosen.start > 0 {
        bias.fill(0.0);
    }
    trees.keep(chosen);

    let version = version(&model_info.catboost_version_info.take().unwrap_or_default());
    let Objective { name, transform, classes } = objective::objective(model_info, outputs)?;
    let mut forest = Forest::builder(columns.features.len(), outputs as u32)
        .producer("catboost", &version, &name)
        .base_score(bias)
        .transform(transform)
        .classes(classes);
    forest.features_mut().clone_from_slice(&columns.features);
    let asked = trees.hashes(path);
    let predicates = Predicates::new(asked, &named, options.raw_categories, &mut forest, &mut budget)?;
    trees.grow(&mut forest, outputs, scale, &predicates);
    budget.finish(forest)
}

/// The model's trees, which are all in the same form.
enum Trees {
    Oblivious(Vec<oblivious::Tree>),
    Nested(Vec<nested::Tree>),
}

/// Reads oblivious trees. Returns the trees and the number of values in a leaf, which is `None` without
/// trees.
fn oblivious(
    trees: Vec<schema::Oblivious>,
    columns: &Columns,
    budget: &mut Budget<'_>,
) -> Result<(Trees, Option<usize>), ImportError> {
    budget.trees(trees.len(), || Location::Field("oblivious_trees".into()))?;
    let values = |tree: &schema::Oblivious| tree.leaf_values.len().checked_shr(tree.splits.len() as u32);
    // `Tree::read` refuses a tree whose leaf values can't be divided evenly among its leaves.
    let outputs = trees.first().map(|tree| values(tree).unwrap_or(0).max(1));
    let mut read = Vec::with_capacity(trees.len());
    for (t, tree) in trees.into_iter().enumerate() {
        let path = format!("oblivious_trees[{t}]");
        read.push(oblivious::Tree::read(tree, outputs.unwrap_or(1), columns, budget, &path)?);
    }
    Ok((Trees::Oblivious(read), outputs))
}

impl Trees {
    fn count(&self) -> usize {
        match self {
            Self::Oblivious(trees) => trees.len(),
            Self::Nested(trees) => trees.len(),
        }
    }

    fn keep(&mut self, range: Range<usize>) {
        fn cut<T>(trees: &mut Vec<T>, range: Range<usize>) {
            trees.truncate(range.end);
            trees.drain(..range.start);
        }
        match self {
            Self::Oblivious(trees) => cut(trees, range),
            Self::Nested(trees) => cut(trees, range),
        }
    }

    /// Collects the category hashes that splits ask for.
    fn hashes(&self, path: &str) -> CategoryHashes {
        let mut hashes = CategoryHashes::default();
        let mut note = |t: usize, condition: Condition| {
            if let Condition::Category { column, hash } = condition {
                hashes.locations.entry(hash).or_insert_with(|| Location::Field(format!("{path}[{t}]")));
                hashes.columns.entry(column).or_default().insert(hash);
            }
        };
        match self {
            Self::Oblivious(trees) => {
                trees
                    .iter()
                    .enumerate()
                    .for_each(|(t, tree)| tree.conditions.iter().for_each(|c| note(t, *c)));
            }
            Self::Nested(trees) => {
                trees.iter().enumerate().for_each(|(t, tree)| tree.conditions().for_each(|c| note(t, c)));
            }
        }
        hashes
    }

    /// Adds the trees to the forest, and frees each tree once it is added.
    fn grow(self, forest: &mut ForestBuilder, outputs: usize, scale: f64, predicates: &Predicates) {
        match self {
            Self::Oblivious(trees) => {
                trees.into_iter().for_each(|tree| tree.grow(forest, outputs, scale, predicates));
            }
            Self::Nested(trees) => {
                trees.into_iter().for_each(|tree| tree.grow(forest, outputs, scale, predicates));
            }
        }
    }
}

fn bias(bias: Vec<f64>, outputs: usize) -> Result<Vec<f64>, ImportError> {
    let path = "scale_and_bias[1]";
    if let Some(value) = bias.iter().find(|value| !value.is_finite()) {
        return Err(at(ErrorKind::Value, path, format!("a bias of {value:?}")));
    }
    match bias.len() {
        count if count == outputs => Ok(bias),
        // Versions that write the bias as one number write 0 for every model with several outputs.
        0 | 1 if bias.iter().all(|value| *value == 0.0) => Ok(vec![0.0; outputs]),
        count => Err(at(ErrorKind::Structure, path, format!("{count} values, but a leaf has {outputs}"))),
    }
}

/// Returns the range of trees to keep. A boosting round of CatBoost is one tree.
fn chosen(range: Option<&Range<u32>>, trees: usize) -> Result<Range<usize>, ImportError> {
    let Some(range) = range else {
        return Ok(0..trees);
    };
    let begin = range.start as usize;
    let end = if range.end == 0 { trees } else { range.end as usize };
    if begin > end || end > trees {
        let cause = format!("trees {}..{} of a model with {trees}", range.start, range.end);
        return Err(at(ErrorKind::Options, "iteration_range", cause)
            .with_remedy(format!("choose a range within 0..{trees}, or an end of 0 for the last tree")));
    }
    Ok(begin..end)
}

/// Extracts CatBoost's version from the file's notes on its build.
fn version(info: &str) -> String {
    let after = |prefix: &str| info.split_once(prefix).map(|(_, rest)| rest);
    let rest = after("tags/v").or_else(|| after("CatBoost release ")).unwrap_or_default();
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    rest[..end.min(16)].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
