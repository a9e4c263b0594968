//! The rules a [`Forest`] keeps, checked one by one.

use super::{CompareType, Forest, MOST_CATEGORIES, Node, Predicate, Real, Targets, ZERO_ZONE};

/// The first rule of the HIR that a forest breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {rule}")]
pub struct VerifyError {
    /// Where: `tree 3, node 17`, or the field.
    pub place: String,
    /// What is wrong there.
    pub rule: String,
}

impl VerifyError {
    fn new(place: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { place: place.into(), rule: rule.into() }
    }
}

impl Forest {
    /// Checks that the forest keeps every rule later stages rest on.
    ///
    /// Each tree is one binary tree rooted at its node 0 that reaches all its nodes; features, sets, slots and
    /// outputs are in range; a slot belongs to one leaf; thresholds are not NaN and are values of the compare
    /// type; leaf values and base scores are finite.
    ///
    /// # Errors
    /// The first rule broken, with its place. Linear in the forest's size.
    pub fn verify(&self) -> Result<(), VerifyError> {
        let fail = |place: &str, rule: String| Err(VerifyError::new(place, rule));
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
        if let Some(i) = self.base_score.iter().position(|b| !b.0.is_finite()) {
            return fail("base_score", format!("value {i} is {:?}, not a finite number", self.base_score[i]));
        }
        if !self.scale.0.is_finite() {
            return fail("scale", format!("{:?} is not a finite number", self.scale));
        }
        if self.transform.is_pair() && self.outputs != 1 {
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
        let mut taken = vec![false; self.slots()];
        (0..self.trees.len()).try_for_each(|t| self.verify_tree(t, &mut taken))?;
        match taken.iter().position(|t| !t) {
            Some(slot) => fail("leaf_values", format!("slot {slot} belongs to no leaf")),
            None => Ok(()),
        }
    }

    fn verify_tree(&self, t: usize, taken: &mut [bool]) -> Result<(), VerifyError> {
        let tree = &self.trees[t];
        let place = |n: usize| format!("tree {t}, node {n}");
        if tree.nodes.is_empty() {
            return Err(VerifyError::new(format!("tree {t}"), "no nodes, so no root"));
        }
        if tree.ids.len() != tree.nodes.len() {
            return Err(VerifyError::new(format!("tree {t}"), "ids and nodes differ in number"));
        }
        let mut parents = vec![0u8; tree.nodes.len()];
        for (n, node) in tree.nodes.iter().enumerate() {
            match *node {
                Node::Leaf { slot } => match taken.get_mut(slot as usize) {
                    None => {
                        return Err(VerifyError::new(place(n), format!("leaf slot {slot} is out of range")));
                    }
                    Some(true) => {
                        return Err(VerifyError::new(place(n), format!("leaf slot {slot} is taken twice")));
                    }
                    Some(free) => *free = true,
                },
                Node::Split { feature, predicate, left, right, .. } => {
                    if feature as usize >= self.features.len() {
                        let rule = format!("feature {feature} of {}", self.features.len());
                        return Err(VerifyError::new(place(n), rule));
                    }
                    self.verify_predicate(predicate).map_err(|rule| VerifyError::new(place(n), rule))?;
                    for child in [left, right] {
                        match parents.get_mut(child as usize) {
                            None => {
                                let rule =
                                    format!("child {child} is out of range ({} nodes)", tree.nodes.len());
                                return Err(VerifyError::new(place(n), rule));
                            }
                            Some(0) if child != 0 => parents[child as usize] = 1,
                            Some(_) if child == 0 => {
                                return Err(VerifyError::new(
                                    place(n),
                                    "the root is a child, so there is a cycle",
                                ));
                            }
                            Some(_) => {
                                return Err(VerifyError::new(
                                    place(n),
                                    format!("child {child} has two parents"),
                                ));
                            }
                        }
                    }
                }
            }
        }
        // One parent each and none for the root: what the root does not reach is a cycle or a second root.
        let mut seen = 0;
        let mut open = vec![0u32];
        while let Some(n) = open.pop() {
            seen += 1;
            if let Node::Split { left, right, .. } = tree.nodes[n as usize] {
                open.extend([left, right]);
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
        Ok(())
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
                // Zeros would stand on both sides of it.
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
