//! Reads histogram boosting. Translates the trees' columns and categories into the user's.

use std::ops::Range;

use super::super::budget::Budget;
use super::super::{ImportError, Location};
use super::array::{self, Count};
use super::boosting::{base, link};
use super::categories::Categories;
use super::fitted::{at_most, check_leaf, same_ranges};
use super::head::{Head, lacks};
use super::{File, missing_side, unsupported};
use crate::forest::{CompareType, ForestBuilder, Predicate, Side, Transform};

/// The losses of classifiers, under the names of all releases.
const CLASSIFIER_LOSSES: [&str; 4] = ["log_loss", "auto", "binary_crossentropy", "categorical_crossentropy"];

/// The losses of regressors, under the names of all releases.
const REGRESSOR_LOSSES: [&str; 7] = [
    "squared_error",
    "least_squares",
    "absolute_error",
    "least_absolute_deviation",
    "quantile",
    "poisson",
    "gamma",
];

/// Builds the forest of a histogram boosting estimator.
pub(super) fn forest(file: &File<'_>, classifier: bool) -> Result<ForestBuilder, ImportError> {
    let head = &file.head;
    let loss = loss(head, classifier)?;
    let base = base(head, classifier)?;
    let outputs = base.len();
    let mut link = link(head, classifier, 0.5)?;
    if matches!(loss, "poisson" | "gamma") {
        link.transform = Transform::Exp;
    }
    let nodes = Nodes::read(file)?;
    let mut categories = Categories::read(file)?;
    let mut forest = file
        .builder(outputs, link.classes)?
        .base_score(base)
        .compare(CompareType::F64)
        .transform(link.transform);
    categories.name(forest.features_mut());
    for t in file.chosen_trees(outputs, nodes.trees.len())? {
        nodes.grow(&mut forest, t, (t % outputs) as u32, &mut categories)?;
    }
    Ok(forest)
}

/// Returns the loss, which decides the link. Refuses a loss that is not known.
fn loss(head: &Head, classifier: bool) -> Result<&str, ImportError> {
    let loss = head.loss.as_deref().ok_or_else(|| lacks("loss"))?;
    let known: &[&str] = if classifier { &CLASSIFIER_LOSSES } else { &REGRESSOR_LOSSES };
    match known.contains(&loss) {
        true => Ok(loss),
        false => Err(unsupported(
            "loss",
            format!("{} with loss {loss} is not supported", head.estimator),
            format!("train with one of {}", known.join(", ")),
        )),
    }
}

/// The nodes of all trees, tree after tree. A child's index is counted from its tree's root.
struct Nodes {
    trees: Vec<Range<usize>>,
    left: Vec<u32>,
    right: Vec<u32>,
    feature: Vec<u32>,
    threshold: Vec<f64>,
    missing_left: Vec<u8>,
    is_leaf: Vec<u8>,
    value: Vec<f64>,
    is_categorical: Vec<u8>,
    /// For a split on categories, the index of the set within its tree.
    set: Vec<u32>,
}

impl Nodes {
    fn read(file: &File<'_>) -> Result<Self, ImportError> {
        let (archive, limits) = (&file.archive, file.limits);
        let trees = array::ranges(archive, "left", Count::AtMost(limits.trees, "trees"))?;
        let nodes = trees.last().map_or(0, |tree| tree.end);
        Budget::new(limits).nodes(nodes, || Location::Field("left.sizes".into()))?;
        let each = Count::Exactly(nodes, "nodes");
        for name in [
            "right",
            "feature_idx",
            "num_threshold",
            "missing_go_to_left",
            "is_leaf",
            "value",
            "is_categorical",
            "bitset_idx",
        ] {
            same_ranges(file, name, &trees)?;
        }
        Ok(Self {
            left: array::integers(archive, "left", each)?,
            right: array::integers(archive, "right", each)?,
            feature: array::integers(archive, "feature_idx", each)?,
            threshold: array::reals(archive, "num_threshold", each)?,
            missing_left: array::integers(archive, "missing_go_to_left", each)?,
            is_leaf: array::integers(archive, "is_leaf", each)?,
            value: array::reals(archive, "value", each)?,
            is_categorical: array::integers(archive, "is_categorical", each)?,
            set: array::integers(archive, "bitset_idx", each)?,
            trees,
        })
    }

    /// Adds tree `t` to a forest.
    fn grow(
        &self,
        forest: &mut ForestBuilder,
        t: usize,
        output: u32,
        categories: &mut Categories<'_>,
    ) -> Result<(), ImportError> {
        let nodes = self.trees[t].clone();
        let is_set = |n: &usize| self.is_leaf[*n] == 0 && self.is_categorical[*n] != 0;
        let mut sets = Vec::new();
        for n in nodes.clone().filter(is_set) {
            let set = categories.set(t, n, self.feature[n], self.set[n], self.missing(n)?)?;
            sets.push(forest.push_set(set));
        }
        let mut sets = sets.into_iter();
        let mut tree = forest.tree(output);
        tree.reserve(nodes.len());
        for n in nodes.clone() {
            if self.is_leaf[n] != 0 {
                check_leaf(&self.value[n..=n], n)?;
                tree.leaf((n - nodes.start) as u32, &self.value[n..=n]);
                continue;
            }
            let missing = self.missing(n)?;
            let column = categories.column(n, self.feature[n])?;
            let predicate = match is_set(&n).then(|| sets.next()).flatten() {
                // scikit-learn treats unknown categories as missing, so the set holds the known categories
                // that go to the other side than missing values.
                Some(set) if missing == Side::Left => Predicate::InSet { set, inside: Side::Right },
                Some(set) => Predicate::InSet { set, inside: Side::Left },
                None => at_most(CompareType::F64, self.threshold[n]),
            };
            tree.split(column, predicate, missing, self.left[n], self.right[n]);
        }
        Ok(())
    }

    fn missing(&self, n: usize) -> Result<Side, ImportError> {
        missing_side(self.missing_left[n], || format!("missing_go_to_left[{n}]"))
    }
}
