//! Numbers in bins of equal width.

use crate::forest::{Forest, Node, Predicate};

/// How many numbers lie in each of several bins of equal width.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Histogram {
    /// The least number, where the first bin begins; 0 if there are no numbers.
    pub least: f64,
    /// The largest number, where the last bin ends; 0 if there are no numbers.
    pub largest: f64,
    /// How many numbers each bin has. It is empty if there are no numbers, and has one bin if all numbers are
    /// equal.
    pub counts: Vec<usize>,
}

impl Histogram {
    /// Counts finite numbers in at most `bins` bins.
    ///
    /// ```
    /// use fangorn::insight::Histogram;
    ///
    /// let found = Histogram::new([0.0, 1.0, 1.5, 2.0].into_iter(), 2);
    /// assert_eq!((found.least, found.largest, found.counts), (0.0, 2.0, vec![1, 3]));
    /// ```
    pub fn new(numbers: impl Iterator<Item = f64> + Clone, bins: usize) -> Self {
        let numbers = numbers.filter(|number| number.is_finite());
        let least = numbers.clone().fold(f64::INFINITY, f64::min);
        let largest = numbers.clone().fold(f64::NEG_INFINITY, f64::max);
        if least > largest {
            return Self { least: 0.0, largest: 0.0, counts: Vec::new() };
        }
        let bins = if least < largest { bins.max(1) } else { 1 };
        let mut counts = vec![0; bins];
        for number in numbers {
            // Halving both keeps the differences finite.
            let bin = (number / 2.0 - least / 2.0) / (largest / 2.0 - least / 2.0) * bins as f64;
            counts[(bin as usize).min(bins - 1)] += 1;
        }
        Self { least, largest, counts }
    }
}

/// Returns the thresholds of a feature's numeric splits, one for each split, in the order of the trees.
pub fn thresholds(forest: &Forest, feature: u32) -> Vec<f64> {
    let threshold = |node: &Node| match *node {
        Node::Split { feature: of, predicate, .. } if of == feature => match predicate {
            Predicate::Less { threshold } | Predicate::LessZeroAside { threshold } => Some(threshold.0),
            Predicate::Equal { value } => Some(value.0),
            Predicate::InSet { .. } | Predicate::Always => None,
        },
        _ => None,
    };
    forest.trees.iter().flat_map(|tree| &tree.nodes).filter_map(threshold).collect()
}
