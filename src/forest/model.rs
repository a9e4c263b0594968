//! The forest type: trees, leaf values and the rules that turn them into a result.

use std::hash::{Hash, Hasher};

use super::*;

/// A trained forest: `margin[o] = base_score[o] + Σ leaf(tree, row)[o]`, `value = transform(scale x margin)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forest {
    /// The library that trained the forest.
    pub producer: Producer,
    /// The columns of a row, in order.
    pub features: Vec<Feature>,
    /// Number of margins of a row: 1, the number of classes, or the number of targets.
    pub outputs: u32,
    /// The trees, in the producer's order.
    pub trees: Vec<Tree>,
    /// The outputs to which the trees add their leaf values.
    pub targets: Targets,
    /// The leaf values in slot order, [`Forest::leaf_width`] values for each slot. Tree weights (dart) are
    /// already multiplied in.
    pub leaf_values: Vec<Real>,
    /// The category sets. [`Predicate::InSet`] names one by its index.
    pub sets: Vec<CategorySet>,
    /// The base score of each output, in margin space. XGBoost's poisson models start at -∞ if all their
    /// labels are zero.
    pub base_score: Vec<Real>,
    /// How the leaf values that go to one output are combined.
    pub aggregate: Aggregate,
    /// The type in which splits compare. Values of a row are cast to it first.
    pub compare: CompareType,
    /// The factor that multiplies margins before the transform, for example a sigmoid's slope or one over the
    /// number of averaged trees.
    pub scale: Real,
    /// The objective's transform from margins to values.
    pub transform: Transform,
    /// The rule that turns values into a class, and the classes' labels.
    pub classes: Classes,
    /// How much of the training data reached each node, if the file says so.
    pub covers: Option<Covers>,
    /// How much each split improved the objective in training, if the file says so and the caller asks for it.
    pub gains: Option<Gains>,
}

impl Hash for Forest {
    /// Hashes everything but the covers and the gains, because no prediction depends on these.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            producer,
            features,
            outputs,
            trees,
            targets,
            leaf_values,
            sets,
            base_score,
            aggregate,
            compare,
            scale,
            transform,
            classes,
            covers: _,
            gains: _,
        } = self;
        (producer, features, outputs, trees, targets, leaf_values).hash(state);
        (sets, base_score, aggregate, compare, scale, transform, classes).hash(state);
    }
}

impl Forest {
    /// Returns the number of leaf values of a slot: `outputs` if leaves are vectors, otherwise 1.
    pub fn leaf_width(&self) -> usize {
        match self.targets {
            Targets::One(_) => 1,
            Targets::All => self.outputs as usize,
        }
    }

    /// Returns the number of leaf slots.
    pub fn leaf_count(&self) -> usize {
        self.leaf_values.len() / self.leaf_width().max(1)
    }

    /// Returns the producer's id of each leaf, in the order of the leaf slots.
    pub fn leaf_ids(&self) -> Vec<u32> {
        let mut ids = vec![0; self.leaf_count()];
        for tree in &self.trees {
            for (node, id) in tree.nodes.iter().zip(&tree.ids) {
                if let Some(slot) = node.slot() {
                    ids[slot as usize] = *id;
                }
            }
        }
        ids
    }

    /// Returns the leaf values of a slot.
    pub fn leaf(&self, slot: u32) -> &[Real] {
        let width = self.leaf_width();
        &self.leaf_values[slot as usize * width..][..width]
    }

    /// Returns the value that the model's producer takes for an element that a sparse row does not store: NaN,
    /// which is missing, for XGBoost and treelite; 0 for LightGBM, CatBoost, scikit-learn and every other
    /// producer.
    pub fn absent_value(&self) -> f64 {
        match &*self.producer.library {
            "xgboost" | "treelite" => f64::NAN,
            _ => 0.0,
        }
    }

    /// Returns the error bound of a margin that is summed in `f32` in any order, for each output: `(trees +
    /// 1) x (2^-24 x (|base| + Σ over trees of the largest |leaf|) + 2^-150)`.
    ///
    /// The term `2^-150` covers leaf values below the least `f32`, whose rounding errs by at most half of the
    /// least `f32`. The bound is infinite if the sum of magnitudes reaches the largest `f32`, because a
    /// partial sum may overflow there.
    pub fn sum_bound(&self) -> Vec<f64> {
        self.magnitudes(1.0).into_iter().map(|total| self.rounding_bound(total)).collect()
    }

    /// Like [`Self::sum_bound`], but for a row that reaches the leaf slots `slots`, one in each tree. It is never
    /// larger, because it adds up the row's own leaf values.
    pub(crate) fn sum_bound_of(&self, slots: &[u32]) -> Vec<f64> {
        let mut total: Vec<f64> = self.base_score.iter().map(|b| b.0.abs()).collect();
        for (t, slot) in slots.iter().enumerate() {
            let leaf = self.leaf(*slot);
            match &self.targets {
                Targets::One(outputs) => total[outputs[t] as usize] += leaf[0].0.abs(),
                Targets::All => total.iter_mut().zip(leaf).for_each(|(total, v)| *total += v.0.abs()),
            }
        }
        total.into_iter().map(|total| self.rounding_bound(total)).collect()
    }

    /// Returns the error bound of a margin whose terms have the sum of magnitudes `total`.
    fn rounding_bound(&self, total: f64) -> f64 {
        let terms = (self.trees.len() + 1) as f64;
        let relative_error = terms * 2f64.powi(-24);
        // `Min` and `Max` select one leaf value and compute no sum that could overflow.
        let overflows =
            self.aggregate == Aggregate::Sum && total * (1.0 + relative_error) >= f64::from(f32::MAX);
        if overflows { f64::INFINITY } else { total * relative_error + terms * 2f64.powi(-150) }
    }

    /// Returns for each output `(|base| + Σ over trees of the largest |leaf|) x factor`, with `factor` multiplied
    /// into each term. No partial sum of the output exceeds this magnitude.
    pub(crate) fn magnitudes(&self, factor: f64) -> Vec<f64> {
        let mut total: Vec<f64> = self.base_score.iter().map(|b| b.0.abs() * factor).collect();
        let mut largest = vec![0.0; self.leaf_width()];
        for (t, tree) in self.trees.iter().enumerate() {
            largest.fill(0.0);
            for slot in tree.nodes.iter().filter_map(Node::slot) {
                let leaf = self.leaf(slot);
                largest.iter_mut().zip(leaf).for_each(|(most, v)| *most = f64::max(*most, v.0.abs()));
            }
            match &self.targets {
                Targets::One(outputs) => total[outputs[t] as usize] += largest[0] * factor,
                Targets::All => {
                    total.iter_mut().zip(&largest).for_each(|(total, most)| *total += most * factor)
                }
            }
        }
        total
    }
}
