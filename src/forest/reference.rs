//! The reference interpreter: the definition of correct for every schedule, layout and target.
//!
//! It walks nodes as the HIR states them and sums in `f64`, tree by tree in the producer's order. It is written to
//! be read, not to be fast.

use fangorn_kernels::plan::argmax;

use super::{Aggregate, CategorySet, ClassRule, Forest, Node, Predicate, Side, Targets, ZERO_ZONE};

/// A type rows come in: `f32` or `f64`.
pub trait Input: Copy + Into<f64> {}
impl Input for f32 {}
impl Input for f64 {}
impl Input for u8 {}
impl Input for u16 {}

/// The side a split sends the value `x` to.
pub fn side(forest: &Forest, predicate: Predicate, missing: Side, x: impl Input) -> Side {
    side_of_cast(&forest.sets, predicate, missing, forest.compare.cast(x.into()))
}

/// The same for a value that is cast already, with a forest's sets alone.
pub(crate) fn side_of_cast(sets: &[CategorySet], predicate: Predicate, missing: Side, x: f64) -> Side {
    let side_if = |left: bool| if left { Side::Left } else { Side::Right };
    if x.is_nan() {
        return missing;
    }
    match predicate {
        Predicate::Less { threshold } => side_if(x < threshold.0),
        Predicate::LessZeroAside { threshold } => {
            let zero = x.abs() <= f64::from(ZERO_ZONE);
            side_if((x < threshold.0) != zero)
        }
        Predicate::Equal { value } => side_if(x == value.0),
        Predicate::InSet { set, inside } => {
            let set = &sets[set as usize];
            let member = set.rule.category(x).is_some_and(|c| set.contains(c));
            side_if(member == (inside == Side::Left))
        }
        Predicate::Always => Side::Left,
    }
}

/// The node of tree `tree` where a row's walk ends, as an index into its nodes.
pub fn leaf_node(forest: &Forest, tree: usize, row: &[impl Input]) -> u32 {
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
pub fn slots(forest: &Forest, row: &[impl Input]) -> Vec<u32> {
    let slot = |t: usize| forest.trees[t].nodes[leaf_node(forest, t, row) as usize].slot();
    (0..forest.trees.len()).map(|t| slot(t).unwrap_or(u32::MAX)).collect()
}

/// The producer's number of the leaf a row reaches in each tree.
pub fn leaf_ids(forest: &Forest, row: &[impl Input]) -> Vec<u32> {
    (0..forest.trees.len()).map(|t| forest.trees[t].ids[leaf_node(forest, t, row) as usize]).collect()
}

/// What each tree adds for a row: `trees x leaf_width` values.
pub fn tree_values(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    slots(forest, row).into_iter().flat_map(|s| forest.leaf(s).iter().map(|v| v.0)).collect()
}

/// A row's margins: base score plus the trees' leaves taken together, one for each output.
pub fn margins(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    margins_of(forest, &slots(forest, row))
}

/// The margins of a row that reaches these slots, one in each tree, in the producer's tree order.
pub fn margins_of(forest: &Forest, slots: &[u32]) -> Vec<f64> {
    let mut totals: Vec<Option<f64>> = vec![None; forest.outputs as usize];
    let mut take = |output: usize, value: f64| {
        let total = &mut totals[output];
        *total = Some(match (*total, forest.aggregate) {
            (None, _) => value,
            (Some(sum), Aggregate::Sum) => sum + value,
            (Some(least), Aggregate::Min) => least.min(value),
            (Some(largest), Aggregate::Max) => largest.max(value),
        });
    };
    for (t, slot) in slots.iter().enumerate() {
        let leaf = forest.leaf(*slot);
        match &forest.targets {
            Targets::One(outputs) => take(outputs[t] as usize, leaf[0].0),
            Targets::All => leaf.iter().enumerate().for_each(|(o, v)| take(o, v.0)),
        }
    }
    totals.iter().zip(&forest.base_score).map(|(total, base)| base.0 + total.unwrap_or(0.0)).collect()
}

/// A row's values: its margins after scale and transform.
pub fn values(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    values_of(forest, &margins(forest, row))
}

/// The values of a row with these margins.
pub fn values_of(forest: &Forest, margins: &[f64]) -> Vec<f64> {
    let scaled: Vec<f64> = margins.iter().map(|m| m * forest.scale.0).collect();
    forest.transform.apply_f64(&scaled)
}

/// The classes of a row with these margins, numbers that [`Classes::labels`](super::Classes::labels) names: one, or one
/// for each output; none where the forest is no classifier.
pub fn classes_of(forest: &Forest, margins: &[f64]) -> Vec<u32> {
    match forest.classes.rule {
        ClassRule::None => Vec::new(),
        // Margins keep apart what a transform's rounding makes equal.
        ClassRule::Largest if margins.len() > 1 => vec![argmax(margins) as u32],
        ClassRule::Largest => values_of(forest, margins).into_iter().map(|v| v as u32).collect(),
        ClassRule::Over { threshold } => {
            let values = values_of(forest, margins);
            // Of a pair the second speaks for class 1.
            let each = if forest.transform.is_pair() { 2 } else { 1 };
            values.chunks_exact(each).map(|v| u32::from(v[each - 1] > threshold.0)).collect()
        }
    }
}
