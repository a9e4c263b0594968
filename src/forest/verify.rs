//! The rules that a [`Forest`] keeps, and a check of each.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::{CompareType, Forest, MOST_CATEGORIES, Node, Predicate, Real, Targets, ZERO_ZONE};

/// The first rule of the HIR that a forest breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {rule}")]
pub struct VerifyError {
    /// The location of the error: `tree 3, node 17`, or the name of a field.
    pub location: String,
    /// What is wrong at that location.
    pub rule: String,
}

impl VerifyError {
    fn new(location: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { location: location.into(), rule: rule.into() }
    }
}

impl Forest {
    /// Checks that the forest keeps every rule that later stages rely on.
    ///
    /// Each tree is one binary tree that reaches all its nodes from its root, node 0. Features, sets, slots
    /// and outputs are in range. A slot belongs to one leaf. Thresholds are not NaN and are values of the
    /// forest's compare type. Leaf values are finite. A base score may be infinite or NaN, and then all
    /// margins of its output are infinite or NaN too.
    /// # Errors
    /// Returns the first rule that is broken, with its location. The time is linear in the forest's size.
    pub fn verify(&self) -> Result<(), VerifyError> {
        self.verified_depths().map(drop)
    }

    /// Checks the forest like [`Forest::verify`], and returns the depth of each tree, which the check
    /// computes anyway.
    pub(crate) fn verified_depths(&self) -> Result<Vec<u32>, VerifyError> {
        let fail = |location: &str, rule: String| Err(VerifyError::new(location, rule));
        if self.outputs == 0 {
            return fail("outputs", "a forest has at least one output".into());
        }
        if self.features.len() >= 1 << 24 {
            return fail(
                "features",
                format!("{} columns, at most 2^24 - 1 can be addressed", self.features.len()),
            );
        }
        if self.base_score.len() != self.outputs as usize {
            return fail(
                "base_score",
                format!("{} values for {} outputs", self.base_score.len(), self.outputs),
            );
        }
        if !self.scale.0.is_finite() {
            return fail("scale", format!("{:?} is not a finite number", self.scale));
        }
        if self.transform.outputs().is_some_and(|needed| self.outputs != needed) {
            return fail("transform", format!("{} of {} outputs", self.transform.name(), self.outputs));
        }
        if let Targets::One(outputs) = &self.targets {
            if outputs.len() != self.trees.len() {
                return fail("targets", format!("{} targets for {} trees", outputs.len(), self.trees.len()));
            }
            if let Some(t) = outputs.iter().position(|o| *o >= self.outputs) {
                return fail(
                    "targets",
                    format!("tree {t} adds to output {} of {}", outputs[t], self.outputs),
                );
            }
        }
        if !self.leaf_values.len().is_multiple_of(self.leaf_width()) {
            return fail(
                "leaf_values",
                format!("{} values, {} a slot", self.leaf_values.len(), self.leaf_width()),
            );
        }
        if let Some(i) = self.leaf_values.iter().position(|v| !v.0.is_finite()) {
            return fail(
                "leaf_values",
                format!("value {i} is {:?}, not a finite number", self.leaf_values[i]),
            );
        }
        let nodes = || self.trees.iter().map(|tree| tree.nodes.len());
        let covers = self.covers.as_ref().and_then(|covers| covers.broken_rule(nodes()));
        let broken = covers.or_else(|| self.gains.as_ref().and_then(|gains| gains.broken_rule(nodes())));
        if let Some((location, rule)) = broken {
            return fail(&location, rule);
        }
        let taken: Vec<AtomicBool> = (0..self.leaf_count()).map(|_| AtomicBool::new(false)).collect();
        let check = |t: usize| self.verify_tree(t, &taken);
        let depths: Option<Vec<u32>> = (0..self.trees.len()).into_par_iter().map(|t| check(t).ok()).collect();
        let Some(depths) = depths else {
            // A second, sequential check makes the first broken rule the same in every run.
            taken.iter().for_each(|t| t.store(false, Ordering::Relaxed));
            return (0..self.trees.len()).map(check).collect();
        };
        match taken.iter().position(|t| !t.load(Ordering::Relaxed)) {
            Some(slot) => fail("leaf_values", format!("slot {slot} belongs to no leaf")),
            None => Ok(depths),
        }
    }

    /// Checks one tree and returns its depth. `taken` says which slots some leaf has.
    fn verify_tree(&self, t: usize, taken: &[AtomicBool]) -> Result<u32, VerifyError> {
        let tree = &self.trees[t];
        let fail = |n: usize, rule: String| Err(VerifyError::new(format!("tree {t}, node {n}"), rule));
        if tree.nodes.is_empty() {
            return Err(VerifyError::new(format!("tree {t}"), "no nodes, so no root"));
        }
        if tree.ids.len() != tree.nodes.len() {
            return Err(VerifyError::new(format!("tree {t}"), "ids and nodes differ in number"));
        }
        let mut has_parent = vec![false; tree.nodes.len()];
        for (n, node) in tree.nodes.iter().enumerate() {
            match *node {
                Node::Leaf { slot } => match taken.get(slot as usize) {
                    None => return fail(n, format!("leaf slot {slot} is out of range")),
                    Some(taken) if taken.swap(true, Ordering::Relaxed) => {
                        return fail(n, format!("leaf slot {slot} is taken twice"));
                    }
                    Some(_) => {}
                },
                Node::Split { feature, predicate, left, right, .. } => {
                    if feature as usize >= self.features.len() {
                        return fail(n, format!("feature {feature} of {}", self.features.len()));
                    }
                    if let Err(rule) = self.verify_predicate(predicate) {
                        return fail(n, rule);
                    }
                    for child in [left, right] {
                        match has_parent.get_mut(child as usize) {
                            None => {
                                let nodes = tree.nodes.len();
                                return fail(n, format!("child {child} is out of range ({nodes} nodes)"));
                            }
                            Some(_) if child == 0 => {
                                return fail(n, "the root is a child, so there is a cycle".into());
                            }
                            Some(true) => return fail(n, format!("child {child} has two parents")),
                            Some(parent) => *parent = true,
                        }
                    }
                }
            }
        }
        // Every node but the root has at most one parent here. So nodes that the root does not reach are a
        // cycle or have a second root.
        let (mut seen, mut deepest) = (0, 0);
        let mut open = vec![(0u32, 0u32)];
        while let Some((n, depth)) = open.pop() {
            seen += 1;
            deepest = deepest.max(depth);
            if let Node::Split { left, right, .. } = tree.nodes[n as usize] {
                open.extend([(left, depth + 1), (right, depth + 1)]);
            }
        }
        if seen != tree.nodes.len() {
            let rule = format!(
                "{} of {} nodes can't be reached from the root",
                tree.nodes.len() - seen,
                tree.nodes.len()
            );
            return Err(VerifyError::new(format!("tree {t}"), rule));
        }
        Ok(deepest)
    }

    fn verify_predicate(&self, predicate: Predicate) -> Result<(), String> {
        let threshold = |t: Real| match self.compare {
            _ if t.0.is_nan() => Err("the threshold is NaN".into()),
            CompareType::F32 if f64::from(t.0 as f32) != t.0 => {
                Err(format!("threshold {t:?} is no f32, the type it is compared in"))
            }
            _ => Ok(()),
        };
        match predicate {
            Predicate::Less { threshold: t } | Predicate::Equal { value: t } => threshold(t),
            Predicate::LessZeroAside { threshold: t } => {
                // With a threshold inside the zone, zeros would be on both sides of it.
                let zone = f64::from(ZERO_ZONE);
                if (-zone).next_up() <= t.0 && t.0 <= zone {
                    return Err(format!("threshold {t:?} is inside the zone of zeros"));
                }
                threshold(t)
            }
            Predicate::InSet { set, .. } => match self.sets.get(set as usize) {
                None => Err(format!("category set {set} of {}", self.sets.len())),
                Some(found) if found.words.len() > (MOST_CATEGORIES / 32) as usize => {
                    Err(format!("category set {set} has categories of 2^24 and more"))
                }
                Some(_) => Ok(()),
            },
            Predicate::Always => Ok(()),
        }
    }
}
