//! Reads gradient boosting: an initial value, and leaves times the learning rate.

use super::super::{ErrorKind, ImportError};
use super::array::{self, Count};
use super::fitted::{FittedTrees, same_ranges};
use super::head::{Head, lacks};
use super::{File, error, unsupported};
use crate::forest::{ClassRule, Classes, ForestBuilder, Transform};

/// Builds the forest of a gradient boosting estimator.
pub(super) fn forest(file: &File<'_>, classifier: bool) -> Result<ForestBuilder, ImportError> {
    let head = &file.head;
    check_init(head)?;
    let rate = head.learning_rate.ok_or_else(|| lacks("learning_rate"))?;
    let base = base(head, classifier)?;
    let outputs = base.len();
    let link = link(head, classifier, f64::next_down(0.5))?;
    // The estimator refuses missing values, and its own sums would send them right, so send them right here.
    let fitted = FittedTrees::read(file)?.without_missing();
    same_ranges(file, "value", &fitted.trees)?;
    let nodes = fitted.trees.last().map_or(0, |tree| tree.end);
    let values = array::reals(&file.archive, "value", Count::Exactly(nodes, "nodes"))?;
    let scale = if classifier && head.loss.as_deref() == Some("exponential") { 2.0 } else { 1.0 };
    let mut forest =
        file.builder(outputs, link.classes)?.base_score(base).transform(link.transform).scale(scale);
    for t in file.chosen_trees(outputs, fitted.trees.len())? {
        let output = (t % outputs) as u32;
        fitted.grow(&mut forest, t, Some(output), |n, leaf| leaf.push(rate * values[n]))?;
    }
    Ok(forest)
}

/// Refuses an initial estimator whose prediction depends on the row or on chance.
fn check_init(head: &Head) -> Result<(), ImportError> {
    let init = head.init.as_deref().ok_or_else(|| lacks("init_"))?;
    let dummies = ["DummyClassifier", "DummyRegressor"];
    let is_dummy = |name: &&str| init.starts_with(&format!("<class 'sklearn.dummy.{name}'> "));
    let steady = dummies.iter().any(is_dummy) && !init.contains("strategy='stratified'");
    if steady || init == "zero" {
        return Ok(());
    }
    Err(unsupported(
        "init_",
        format!("{} with init {init} is not supported", head.estimator),
        "train with the default init or with init='zero'",
    ))
}

/// Returns the initial value of each output. There is an output for each class if there are more than two,
/// and otherwise one.
pub(super) fn base(head: &Head, classifier: bool) -> Result<Vec<f64>, ImportError> {
    let base = head.base.as_ref().ok_or_else(|| lacks("base"))?.0.clone();
    let outputs = if classifier && head.classes.len() > 2 { head.classes.len() } else { 1 };
    if base.len() != outputs {
        let cause = format!("{} values for {outputs} outputs", base.len());
        return Err(error(ErrorKind::Structure, "fangorn.base", cause));
    }
    Ok(base)
}

/// How margins become values and classes.
pub(super) struct Link {
    pub(super) transform: Transform,
    pub(super) classes: Classes,
}

/// Returns the link of boosting. With two classes, the second is predicted if its value is over the
/// threshold.
pub(super) fn link(head: &Head, classifier: bool, threshold: f64) -> Result<Link, ImportError> {
    let labels = head.labels()?;
    let (transform, rule) = match classifier {
        false => (Transform::Identity, ClassRule::None),
        true if labels.len() > 2 => (Transform::Softmax, ClassRule::Largest),
        true => (Transform::SigmoidPair, ClassRule::Over { threshold: threshold.into() }),
    };
    Ok(Link { transform, classes: Classes { rule, labels, words: head.words() } })
}
