//! Rows that probe every decision of a forest.

use fangorn::{
    Forest,
    forest::{MOST_CATEGORIES, Node, Predicate},
};

use super::Seeded;

/// Numbers at which something changes: zeros, denormals, infinities.
pub const EDGES: [f32; 15] = [
    1e-35,
    -1e-35,
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1.1e-38,
    f32::MIN_POSITIVE,
    -f32::MIN_POSITIVE,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::MAX,
    f32::MIN,
    1.0,
    -1.0,
];
/// Rows that probe every decision: each threshold and its neighbours, both zeros, missing, infinite and denormal
/// values, and numbers at the edges of what a category is.
pub fn rows(forest: &Forest, count: usize, seed: u64) -> Vec<f32> {
    let mut common: Vec<f32> = EDGES.to_vec();
    common.extend([
        f32::NAN,
        -f32::NAN,
        -0.5,
        0.5,
        2.7,
        1e30,
        (MOST_CATEGORIES as f32),
        (MOST_CATEGORIES as f32).next_down(),
    ]);
    for set in &forest.sets {
        common.extend(set.members().map(|c| c as f32).take(3));
        let past = 32.0 * set.words.len() as f32;
        common.extend([past - 1.0, past, past - 0.5]);
    }
    let mut pools = vec![Vec::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        if let Some((feature, t)) = asked(node) {
            let t = t as f32;
            pools[feature].extend([t, t.next_up(), t.next_down()]);
        }
    }
    drawn(&pools, &common, count, seed)
}

/// The same in `f64`, with the neighbours there.
pub fn wide_rows(forest: &Forest, count: usize, seed: u64) -> Vec<f64> {
    let common: Vec<f64> = rows(forest, 8, seed).into_iter().map(f64::from).chain([1e300, -1e-300]).collect();
    let mut pools = vec![Vec::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        if let Some((feature, t)) = asked(node) {
            pools[feature].extend([t, t.next_up(), t.next_down()]);
        }
    }
    drawn(&pools, &common, count, seed)
}

/// The column of a split and the number it compares with.
fn asked(node: &Node) -> Option<(usize, f64)> {
    match *node {
        Node::Split {
            feature,
            predicate:
                Predicate::Less { threshold }
                | Predicate::LessZeroAside { threshold }
                | Predicate::Equal { value: threshold },
            ..
        } => Some((feature as usize, threshold.0)),
        _ => None,
    }
}

fn drawn<T: Copy>(pools: &[Vec<T>], common: &[T], count: usize, seed: u64) -> Vec<T> {
    let mut random = Seeded(seed);
    let mut out = Vec::with_capacity(count * pools.len());
    for _ in 0..count {
        for pool in pools {
            let own = !pool.is_empty() && random.below(3) > 0;
            let from = if own { pool } else { common };
            out.push(from[random.below(from.len())]);
        }
    }
    out
}
