//! Error bounds of one row's margins.

use fangorn::{Forest, forest::Targets};

/// Returns, for each output, how far an `f32` sum in any order may be from the exact sum of a row that
/// reaches the leaves `slots`, one for each tree: `(trees + 1) x (2^-24 x (|base| + Σ |leaf|) + 2^-150)`. The
/// bound is infinite if the sum of magnitudes reaches the largest `f32`.
pub fn of_row(forest: &Forest, slots: impl ExactSizeIterator<Item = u32>) -> Vec<f32> {
    let terms = (slots.len() + 1) as f64;
    let unit = terms * 2f64.powi(-24);
    let mut sums: Vec<f64> = forest.base_score.iter().map(|b| b.0.abs()).collect();
    for (tree, slot) in slots.enumerate() {
        let leaf = forest.leaf(slot);
        match &forest.targets {
            Targets::One(outputs) => sums[outputs[tree] as usize] += leaf[0].0.abs(),
            Targets::All => sums.iter_mut().zip(leaf).for_each(|(sum, v)| *sum += v.0.abs()),
        }
    }
    let bound = |sum: f64| match sum * (1.0 + unit) < f64::from(f32::MAX) {
        true => (sum * unit + terms * 2f64.powi(-150)) as f32,
        false => f32::INFINITY,
    };
    sums.into_iter().map(bound).collect()
}
