//! Reads single trees, forests and bags of trees. A regressor gives the mean of the leaves, a classifier the
//! mean of the leaves' class shares.

use std::ops::Range;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::array::{self, Count};
use super::fitted::FittedTrees;
use super::head::{TREES, class, is_sklearn};
use super::plain::PlainValue;
use super::{File, error, unsupported};
use crate::forest::{ClassRule, Classes, ForestBuilder};

/// Builds the forest of an averaging estimator.
pub(super) fn forest(file: &File<'_>, classifier: bool) -> Result<ForestBuilder, ImportError> {
    check_trees(file, classifier)?;
    let fitted = FittedTrees::read(file)?;
    if fitted.trees.is_empty() {
        return Err(error(ErrorKind::Structure, "children_left.sizes", "an average of no trees"));
    }
    let chosen = file.chosen_trees(0, fitted.trees.len())?;
    if classifier { votes(file, &fitted, chosen) } else { means(file, &fitted, chosen) }
}

/// Refuses a forest or bag if a member is not one of scikit-learn's own trees. Also refuses a regressor in a
/// classifier, and a classifier in a regressor.
fn check_trees(file: &File<'_>, classifier: bool) -> Result<(), ImportError> {
    let sort = if classifier { "Classifier" } else { "Regressor" };
    let known = TREES.map(|name| name.ends_with(sort).then_some(name));
    for (text, _) in &file.head.trees {
        let (module, name) = class(text).unwrap_or(("", text));
        if !is_sklearn(module) || !known.contains(&Some(name)) {
            let estimator = &file.head.estimator;
            let cause = format!("{estimator} of {name} is not supported: only of trees");
            let remedy =
                format!("train it of {}", known.iter().flatten().copied().collect::<Vec<_>>().join(" or "));
            return Err(unsupported("trees", cause, remedy));
        }
    }
    Ok(())
}

/// Builds the forest of a regressor: the sum of the leaves, each divided by the number of trees.
fn means(file: &File<'_>, fitted: &FittedTrees, chosen: Range<usize>) -> Result<ForestBuilder, ImportError> {
    let width = |t: usize, size: usize| size.checked_div(fitted.trees[t].len()).unwrap_or(0);
    let values = values(file, fitted, width)?;
    let outputs = values.widths[0];
    if let Some(t) = values.widths.iter().position(|width| *width != outputs) {
        let cause = format!("{} values a node, but {outputs} in the first tree", values.widths[t]);
        return Err(error(ErrorKind::Structure, format!("value.sizes[{t}]"), cause));
    }
    let mut forest = file.builder(outputs, Classes::default())?;
    let count = fitted.trees.len() as f64;
    for t in chosen {
        let output = if outputs > 1 { None } else { Some(0) };
        fitted.grow(&mut forest, t, output, |n, leaf| {
            leaf.extend(values.of_node(fitted, t, n).iter().map(|value| value / count));
        })?;
    }
    Ok(forest)
}

/// Builds the forest of a classifier: the sum of the leaves' class shares, which the scale divides by the
/// number of trees. The leaves themselves are not divided, so that sums of votes are exact and ties stay
/// ties.
fn votes(file: &File<'_>, fitted: &FittedTrees, chosen: Range<usize>) -> Result<ForestBuilder, ImportError> {
    let labels = file.head.labels()?;
    let outputs = labels.len();
    if outputs == 0 {
        return Err(error(ErrorKind::Structure, "fangorn.classes_", "a classifier of no classes"));
    }
    let rule = match outputs {
        1 => ClassRule::Over { threshold: f64::INFINITY.into() },
        _ => ClassRule::Largest,
    };
    let classes = Classes { rule, labels, words: file.head.words() };
    let mut forest = file.builder(outputs, classes)?.scale(1.0 / fitted.trees.len() as f64);
    let seen = |t: usize| file.head.trees[t].1.as_deref().unwrap_or_default();
    let width = |t: usize, size: usize| match size.checked_div(fitted.trees[t].len()) {
        Some(width) if width == outputs || width == seen(t).len() => width,
        _ => 0,
    };
    let mut values = values(file, fitted, width)?;
    let mut budget = Budget::new(file.limits);
    for t in chosen {
        let width = values.widths[t];
        to_shares(&mut values.all[values.ranges[t].clone()], width);
        let indices = match width == outputs {
            true => (0..outputs).collect(),
            // This tree of a bag has not seen all classes.
            false => {
                let nodes = fitted.trees[t].len();
                budget.vector_leaves(nodes, outputs, || Location::Field(format!("fangorn.trees[{t}]")))?;
                class_indices(seen(t), outputs, t)?
            }
        };
        let output = if outputs > 1 { None } else { Some(0) };
        fitted.grow(&mut forest, t, output, |n, leaf| {
            leaf.resize(outputs, 0.0);
            for (index, share) in indices.iter().zip(values.of_node(fitted, t, n)) {
                leaf[*index] = *share;
            }
        })?;
    }
    Ok(forest)
}

/// Turns the class weights of each node into shares that sum to 1. Releases before 1.4 store weights, later
/// ones shares.
fn to_shares(values: &mut [f64], width: usize) {
    if values.chunks_exact(width).all(|node| (total(node) - 1.0).abs() <= 1e-9) {
        return;
    }
    for node in values.chunks_exact_mut(width) {
        let total = total(node);
        if total != 0.0 {
            node.iter_mut().for_each(|value| *value /= total);
        }
    }
}

/// Returns the sum, added up in numpy's order, so that shares equal scikit-learn's to the last bit.
fn total(values: &[f64]) -> f64 {
    let count = values.len();
    if count > 128 {
        let (first, second) = values.split_at(count / 2 / 8 * 8);
        return total(first) + total(second);
    }
    let (eights, rest) = values.as_chunks::<8>();
    let Some((first, others)) = eights.split_first() else { return rest.iter().sum() };
    let mut lanes = *first;
    for eight in others {
        lanes.iter_mut().zip(eight).for_each(|(lane, value)| *lane += value);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    rest.iter().fold(((a + b) + (c + d)) + ((e + f) + (g + h)), |sum, value| sum + value)
}

/// Returns the index among all classes of each class that a tree has seen.
fn class_indices(seen: &[PlainValue], classes: usize, t: usize) -> Result<Vec<usize>, ImportError> {
    let index = |class: &PlainValue| match class {
        PlainValue::Integer(class) => usize::try_from(*class).ok().filter(|class| *class < classes),
        _ => None,
    };
    seen.iter().map(index).collect::<Option<_>>().ok_or_else(|| {
        let cause = format!("classes that are no numbers below {classes}");
        error(ErrorKind::Value, format!("fangorn.trees[{t}]"), cause)
    })
}

/// The values of all nodes of all trees.
struct Values {
    all: Vec<f64>,
    /// The range of each tree's values in `all`.
    ranges: Vec<Range<usize>>,
    /// The number of values of one node, for each tree.
    widths: Vec<usize>,
}

impl Values {
    /// Returns the values of node `n`, counted over all trees, which belongs to tree `t`.
    fn of_node(&self, fitted: &FittedTrees, t: usize, n: usize) -> &[f64] {
        let (width, start) = (self.widths[t], self.ranges[t].start);
        &self.all[start + (n - fitted.trees[t].start) * width..][..width]
    }
}

/// Reads the values. `width(t, size)` returns the number of values of one node of tree `t`, whose range of the
/// array has `size` values; 0 if the size does not fit.
fn values(
    file: &File<'_>,
    fitted: &FittedTrees,
    width: impl Fn(usize, usize) -> usize,
) -> Result<Values, ImportError> {
    let ranges = array::ranges(&file.archive, "value", Count::Exactly(fitted.trees.len(), "trees"))?;
    let mut widths = Vec::with_capacity(ranges.len());
    for (t, range) in ranges.iter().enumerate() {
        let (nodes, width) = (fitted.trees[t].len(), width(t, range.len()));
        if width == 0 || nodes.checked_mul(width) != Some(range.len()) {
            let cause = format!("{} values for {nodes} nodes of as many outputs", range.len());
            return Err(error(ErrorKind::Structure, format!("value.sizes[{t}]"), cause));
        }
        widths.push(width);
    }
    let count = ranges.last().map_or(0, |range| range.end);
    let all = array::reals(&file.archive, "value", Count::Exactly(count, "values of nodes"))?;
    Ok(Values { all, ranges, widths })
}
