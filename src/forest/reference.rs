//! The reference interpreter: the definition of correct for every schedule, layout and target.
//!
//! It walks nodes as the HIR states them and sums in `f64`, tree by tree in the producer's order. It is written to
//! be read, not to be fast.

use super::{Forest, Node, Predicate, Side, Targets};

/// A value at or above this is no category (`2^24`, where `f32` stops telling integers apart).
pub const CATEGORY_LIMIT: f32 = 16_777_216.0;

/// The side a split sends the value `x` to.
pub fn side(forest: &Forest, predicate: Predicate, missing: Side, x: f32) -> Side {
    let side_if = |left: bool| if left { Side::Left } else { Side::Right };
    if x.is_nan() {
        return missing;
    }
    match predicate {
        Predicate::Less { threshold } => side_if(x < threshold.0 as f32),
        Predicate::InSet { set, inside } => {
            let category = (0.0..CATEGORY_LIMIT).contains(&x).then_some(x as u32);
            let member = category.is_some_and(|c| forest.sets[set as usize].contains(c));
            side_if(member == (inside == Side::Left))
        }
    }
}

/// The node of tree `tree` where a row's walk ends, as an index into its nodes.
pub fn leaf_node(forest: &Forest, tree: usize, row: &[f32]) -> u32 {
    let nodes = &forest.trees[tree].nodes;
    let mut at = 0u32;
    while let Node::Split { feature, predicate, missing, left, right } = nodes[at as usize] {
        at = match side(forest, predicate, missing, row[feature as usize]) {
            Side::Left => left,
            Side::Right => right,
        };
    }
    at
}

/// The leaf slot a row reaches in each tree, in the producer's tree order.
pub fn slots(forest: &Forest, row: &[f32]) -> Vec<u32> {
    let slot = |t: usize| forest.trees[t].nodes[leaf_node(forest, t, row) as usize].slot();
    (0..forest.trees.len()).map(|t| slot(t).unwrap_or(u32::MAX)).collect()
}

/// The producer's number of the leaf a row reaches in each tree.
pub fn leaf_ids(forest: &Forest, row: &[f32]) -> Vec<u32> {
    (0..forest.trees.len()).map(|t| forest.trees[t].ids[leaf_node(forest, t, row) as usize]).collect()
}

/// What each tree adds for a row: `trees x leaf_width` values.
pub fn tree_values(forest: &Forest, row: &[f32]) -> Vec<f64> {
    slots(forest, row).into_iter().flat_map(|s| forest.leaf(s).iter().map(|v| v.0)).collect()
}

/// A row's margins: base score plus the trees' leaves, one for each output.
pub fn margins(forest: &Forest, row: &[f32]) -> Vec<f64> {
    let mut sums: Vec<f64> = forest.base_score.iter().map(|b| b.0).collect();
    let width = forest.leaf_width();
    for (t, leaf) in tree_values(forest, row).chunks(width).enumerate() {
        match &forest.targets {
            Targets::One(outputs) => sums[outputs[t] as usize] += leaf[0],
            Targets::All => sums.iter_mut().zip(leaf).for_each(|(s, v)| *s += v),
        }
    }
    sums
}

/// A row's values: its margins after the objective's transform.
pub fn values(forest: &Forest, row: &[f32]) -> Vec<f64> {
    forest.transform.apply_f64(&margins(forest, row))
}
