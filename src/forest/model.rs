//! The forest itself.

use super::*;

/// A trained forest: `margin[o] = base_score[o] + Σ leaf(tree, row)[o]`, `value = transform(scale x margin)`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Forest {
    /// Where it came from.
    pub producer: Producer,
    /// The columns of a row, in order.
    pub features: Vec<Feature>,
    /// Values a row gives: 1, the number of classes, or the number of targets.
    pub outputs: u32,
    /// The trees, in the producer's order.
    pub trees: Vec<Tree>,
    /// Which outputs they add to.
    pub targets: Targets,
    /// Leaf values by slot, [`Forest::leaf_width`] values a slot, tree weights (dart) already multiplied in.
    pub leaf_values: Vec<Real>,
    /// The category sets that [`Predicate::InSet`] names.
    pub sets: Vec<CategorySet>,
    /// The start of each output's sum, in margin space. XGBoost's poisson models of labels that are all zero start at -∞.
    pub base_score: Vec<Real>,
    /// How trees of the same output are taken together.
    pub aggregate: Aggregate,
    /// The type inputs are cast to and compared in.
    pub compare: CompareType,
    /// What margins are multiplied with before the transform: a sigmoid's slope, one over the number of averaged trees.
    pub scale: Real,
    /// What the objective makes of the margins.
    pub transform: Transform,
    /// How values become a class.
    pub classes: Classes,
}

impl Forest {
    /// Values a leaf slot holds: `outputs` where leaves are vectors, otherwise 1.
    pub fn leaf_width(&self) -> usize {
        match self.targets {
            Targets::One(_) => 1,
            Targets::All => self.outputs as usize,
        }
    }

    /// Number of leaf slots.
    pub fn leaf_count(&self) -> usize {
        self.leaf_values.len() / self.leaf_width().max(1)
    }

    /// The values of a leaf slot.
    pub fn leaf(&self, slot: u32) -> &[Real] {
        let width = self.leaf_width();
        &self.leaf_values[slot as usize * width..][..width]
    }

    /// The margin's error bound for a sum in `f32` in any order, for each output:
    /// `(trees + 1) x (2^-24 x (|base| + Σ over trees of the largest |leaf|) + 2^-150)`, as a leaf below the least `f32` is rounded
    /// to half of it at most. Where the sum of magnitudes reaches the largest `f32`, a partial sum may overflow, and the bound is infinite.
    pub fn sum_bound(&self) -> Vec<f64> {
        let terms = (self.trees.len() + 1) as f64;
        let unit = terms * 2f64.powi(-24);
        let bound = |total: f64| {
            // The least and the largest leaf are no sums.
            let overflows = self.aggregate == Aggregate::Sum && total * (1.0 + unit) >= f64::from(f32::MAX);
            if overflows { f64::INFINITY } else { total * unit + terms * 2f64.powi(-150) }
        };
        self.magnitudes(1.0).into_iter().map(bound).collect()
    }

    /// `|base| + Σ over trees of the largest |leaf|`, each times `unit`, for each output: what no partial sum is beyond.
    pub(crate) fn magnitudes(&self, unit: f64) -> Vec<f64> {
        let mut total: Vec<f64> = self.base_score.iter().map(|b| b.0.abs() * unit).collect();
        let mut largest = vec![0.0; self.leaf_width()];
        for (t, tree) in self.trees.iter().enumerate() {
            largest.fill(0.0);
            for slot in tree.nodes.iter().filter_map(Node::slot) {
                let leaf = self.leaf(slot);
                largest.iter_mut().zip(leaf).for_each(|(most, v)| *most = f64::max(*most, v.0.abs()));
            }
            match &self.targets {
                Targets::One(outputs) => total[outputs[t] as usize] += largest[0] * unit,
                Targets::All => {
                    total.iter_mut().zip(&largest).for_each(|(total, most)| *total += most * unit)
                }
            }
        }
        total
    }
}
