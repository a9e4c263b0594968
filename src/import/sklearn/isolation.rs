//! Reads isolation forests. The margin is the mean path length, the value is the anomaly score,
//! `-score_samples`.

use super::super::{ErrorKind, ImportError};
use super::array::{self, Count};
use super::fitted::{FittedTrees, same_ranges};
use super::head::lacks;
use super::{File, error};
use crate::forest::{ClassRule, Classes, ForestBuilder, Transform};

/// Euler's constant.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// A bound of a score's relative rounding error. Often many rows have exactly the offset as their score, and
/// scikit-learn does not call them outliers. A sum in another order than scikit-learn's is off by less than
/// this bound, so the rule for the class leaves room for it.
const ROUNDING: f64 = 1.0 / (1u64 << 40) as f64;

/// Builds the forest of an isolation forest.
pub(super) fn forest(file: &File<'_>) -> Result<ForestBuilder, ImportError> {
    let head = &file.head;
    let offset = head.offset.ok_or_else(|| lacks("offset_"))?;
    if offset.is_nan() {
        return Err(error(ErrorKind::Value, "fangorn.offset_", "the offset is NaN"));
    }
    let samples = head.max_samples.ok_or_else(|| lacks("_max_samples"))?;
    if !samples.is_finite() {
        return Err(error(ErrorKind::Value, "fangorn._max_samples", format!("trees of {samples} samples")));
    }
    let longest = path_length(samples);
    let fitted = FittedTrees::read(file)?.without_full_columns();
    let trees = fitted.trees.len();
    same_ranges(file, "n_node_samples", &fitted.trees)?;
    let nodes = fitted.trees.last().map_or(0, |tree| tree.end);
    let samples: Vec<i64> = array::integers(&file.archive, "n_node_samples", Count::Exactly(nodes, "nodes"))?;
    // scikit-learn predicts -1 if its score is below the offset.
    let rule = ClassRule::Over { threshold: (-offset + offset.abs() * ROUNDING).into() };
    let classes = Classes { rule, labels: vec!["1".into(), "-1".into()], words: false };
    let forest = file.builder(1, classes)?.transform(Transform::PowerOfTwo);
    // Trees of one sample have no splits, so every score is one half.
    let mut forest = match longest > 0.0 {
        true => forest.scale(1.0 / longest),
        false => forest.base_score([1.0]),
    };
    for t in file.chosen_trees(0, trees)? {
        let depths = depths(&fitted, t)?;
        let start = fitted.trees[t].start;
        fitted.grow(&mut forest, t, Some(0), |n, leaf| {
            leaf.push((f64::from(depths[n - start]) + path_length(samples[n] as f64)) / trees as f64);
        })?;
    }
    Ok(forest)
}

/// Returns the depth of each node of a tree.
fn depths(fitted: &FittedTrees, t: usize) -> Result<Vec<u32>, ImportError> {
    let nodes = fitted.trees[t].clone();
    let mut depths = vec![0; nodes.len()];
    for n in nodes.clone() {
        for child in fitted.children_after(t, n)?.into_iter().flatten() {
            depths[child - nodes.start] = depths[n - nodes.start] + 1;
        }
    }
    Ok(depths)
}

/// Returns the mean depth of a tree grown on `samples` samples.
fn path_length(samples: f64) -> f64 {
    if samples <= 1.0 {
        return 0.0;
    }
    if samples == 2.0 {
        return 1.0;
    }
    2.0 * ((samples - 1.0).ln() + EULER_GAMMA) - 2.0 * (samples - 1.0) / samples
}
