//! The reference interpreter: it defines the correct result for every schedule, layout and target.
//!
//! It walks nodes as the HIR states them and sums in `f64`, tree by tree in the producer's order. The code is
//! meant to be read, not to be fast. If two classes are nearly equal, the producer's own rounding decides
//! between them, so [`classes_of_slots`] adds up as the producer does.

use fangorn_ir::argmax;

use super::{
    Accumulator, Aggregate, CategorySet, ClassRule, Forest, Node, Predicate, Side, Targets, Transform,
    ZERO_ZONE,
};

/// The type of a row's values: `f32` or `f64`, or the type of [ranks](crate::ranks).
pub trait Input: Copy + Into<f64> {}
impl Input for f32 {}
impl Input for f64 {}
impl Input for u8 {}
impl Input for u16 {}

/// Returns the side to which a split sends the value `x`.
pub fn side(forest: &Forest, predicate: Predicate, missing: Side, x: impl Input) -> Side {
    side_of_cast(&forest.sets, predicate, missing, forest.compare.cast(x.into()))
}

/// Like [`side`], but for a value that is already cast to the forest's type, and for the forest's category
/// sets alone.
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

/// Returns the leaf at which a row's walk through tree `tree` ends, as an index into the tree's nodes.
pub fn leaf_node(forest: &Forest, tree: usize, row: &[impl Input]) -> u32 {
    walk(forest, tree, row).0
}

/// Like [`leaf_node`], and returns the number of splits on the walk as well.
pub(crate) fn walk(forest: &Forest, tree: usize, row: &[impl Input]) -> (u32, usize) {
    let nodes = &forest.trees[tree].nodes;
    let (mut at, mut splits) = (0u32, 0);
    while let Node::Split { feature, predicate, missing, left, right } = nodes[at as usize] {
        at = match side(forest, predicate, missing, row[feature as usize]) {
            Side::Left => left,
            Side::Right => right,
        };
        splits += 1;
    }
    (at, splits)
}

/// Returns the leaf slot that a row reaches in each tree, in the producer's tree order.
pub fn leaf_slots(forest: &Forest, row: &[impl Input]) -> Vec<u32> {
    let slot = |t: usize| forest.trees[t].nodes[leaf_node(forest, t, row) as usize].slot();
    (0..forest.trees.len()).map(|t| slot(t).unwrap_or(u32::MAX)).collect()
}

/// Returns the leaf id that a row reaches in each tree, in the producer's tree order.
pub fn leaf_ids(forest: &Forest, row: &[impl Input]) -> Vec<u32> {
    (0..forest.trees.len()).map(|t| forest.trees[t].ids[leaf_node(forest, t, row) as usize]).collect()
}

/// Returns the leaf values that each tree adds for a row: `trees x leaf_width` values.
pub fn tree_values(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    leaf_slots(forest, row).into_iter().flat_map(|s| forest.leaf(s).iter().map(|v| v.0)).collect()
}

/// Returns a row's margins, one for each output: the base score plus the combined leaf values of the trees.
pub fn margins(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    margins_of(forest, &leaf_slots(forest, row))
}

/// Returns the margins of a row that reaches the leaf slots `slots`, one in each tree, in the producer's tree
/// order.
pub fn margins_of(forest: &Forest, slots: &[u32]) -> Vec<f64> {
    let totals = combine_leaves(forest, slots, vec![None; forest.outputs as usize], |v| v);
    totals.iter().zip(&forest.base_score).map(|(total, base)| base.0 + total.unwrap_or(0.0)).collect()
}

/// Combines the leaf values of `slots` into the totals of the outputs, tree by tree, starting from `totals`.
/// `rounded` rounds to the type of the totals.
fn combine_leaves(
    forest: &Forest,
    slots: &[u32],
    mut totals: Vec<Option<f64>>,
    rounded: impl Fn(f64) -> f64,
) -> Vec<Option<f64>> {
    let mut take = |output: usize, value: f64| {
        let (total, value) = (&mut totals[output], rounded(value));
        *total = Some(match (*total, forest.aggregate) {
            (None, _) => value,
            (Some(sum), Aggregate::Sum) => rounded(sum + value),
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
    totals
}

/// Returns the margins of a row that reaches the leaf slots `slots`, equal to the producer's to the last bit.
/// It adds one tree after the other in the producer's order, in the producer's [`Accumulator`].
///
/// | producer | the base score comes |
/// |---|---|
/// | XGBoost, LightGBM, scikit-learn | first |
/// | CatBoost, ONNX Runtime, treelite, anything else | last |
///
/// `start` holds one number for each output of the row. XGBoost's `base_margin` replaces the base score.
/// CatBoost's `baseline`, like any other producer's start, is added at the end.
pub fn producer_margins(forest: &Forest, slots: &[u32], start: Option<&[f32]>) -> Vec<f64> {
    let single = Accumulator::of(forest) == Accumulator::F32;
    let rounded = |v: f64| if single { f64::from(v as f32) } else { v };
    let library = &*forest.producer.library;
    let base: Vec<f64> = match start {
        Some(start) if library == "xgboost" => start.iter().map(|s| f64::from(*s)).collect(),
        _ => forest.base_score.iter().map(|b| rounded(b.0)).collect(),
    };
    let base_first = base_is_first(forest);
    let first = base.iter().map(|b| base_first.then_some(*b)).collect();
    let totals = combine_leaves(forest, slots, first, rounded);
    let end = |(total, base): (Option<f64>, &f64)| match total {
        Some(total) if base_first => total,
        total => rounded(*base + total.unwrap_or(0.0)),
    };
    let mut margins: Vec<f64> = totals.into_iter().zip(&base).map(end).collect();
    if let Some(start) = start.filter(|_| library != "xgboost") {
        margins
            .iter_mut()
            .zip(start)
            .for_each(|(margin, start)| *margin = rounded(*margin + f64::from(*start)));
    }
    margins
}

/// Returns whether the producer begins a sum with the base score.
pub(crate) fn base_is_first(forest: &Forest) -> bool {
    let library = &*forest.producer.library;
    forest.aggregate == Aggregate::Sum && matches!(library, "xgboost" | "lightgbm" | "scikit-learn")
}

/// Returns a row's values: its margins after the scale and the transform.
pub fn values(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    values_of(forest, &margins(forest, row))
}

/// Returns the values of a row with the margins `margins`.
pub fn values_of(forest: &Forest, margins: &[f64]) -> Vec<f64> {
    let scaled: Vec<f64> = margins.iter().map(|m| m * forest.scale.0).collect();
    forest.transform.apply_f64(&scaled)
}

/// Returns the classes of a row that reaches the leaf slots `slots`: one class, one for each output, or none
/// if the forest is no classifier. [`Classes::labels`](super::Classes::labels) names the numbers of classes.
/// These classes are the producer's own, however close two classes are: [`classes_of_sums`] of
/// [`producer_margins`].
pub fn classes_of_slots(forest: &Forest, slots: &[u32]) -> Vec<u32> {
    classes_of_sums(forest, &producer_margins(forest, slots, None))
}

/// Returns the classes of a row whose margins come from [`producer_margins`]. The first of equal classes
/// counts.
///
/// | producer | the class is |
/// |---|---|
/// | XGBoost | the largest `f32` margin (`multi:softmax`) or `f32` probability (`multi:softprob`); 1 if the `f32` value is over the threshold |
/// | LightGBM | the largest `f64` value; 1 if the value is over the threshold |
/// | CatBoost | the largest margin; 1 if the margin is over the margin `-ln(1/p - 1)` of the threshold `p` |
/// | scikit-learn's boosting | the largest margin; 1 if the margin is over 0 (for `GradientBoostingClassifier`: not below 0) |
/// | scikit-learn's forests and trees | the largest mean of the trees |
/// | ONNX Runtime, anything else | what [`classes_of`] says |
pub fn classes_of_sums(forest: &Forest, margins: &[f64]) -> Vec<u32> {
    let over = |threshold: f64| margins.iter().map(|m| u32::from(*m > threshold)).collect();
    match (&*forest.producer.library, forest.classes.rule) {
        ("xgboost" | "lightgbm", ClassRule::Largest) if margins.len() > 1 => {
            let values = values_of_sums(forest, margins);
            // The transform has taken the argmax already, so the only value is the class.
            vec![if values.len() == 1 { values[0] as u32 } else { argmax(&values) as u32 }]
        }
        ("xgboost", ClassRule::Over { threshold }) => {
            values_of_sums(forest, margins).into_iter().map(|v| u32::from(v > threshold.0)).collect()
        }
        ("catboost", ClassRule::Over { threshold }) => over(-(1.0 / threshold.0 - 1.0).ln()),
        ("scikit-learn", ClassRule::Over { threshold }) if forest.transform == Transform::SigmoidPair => {
            // With a threshold below one half, a value of exactly one half is class 1. Margins of -0 and 0
            // must then be over the bound, and no margin lies between -0 and the number below it.
            over(if threshold.0 < 0.5 { 0f64.next_down() } else { 0.0 })
        }
        ("scikit-learn", ClassRule::Largest) if forest.transform == Transform::Identity => {
            // scikit-learn divides by the number of trees, while the scale multiplies, so other sums tie.
            let trees = forest.trees.len() as f64;
            let means: Vec<f64> = margins.iter().map(|m| m / trees).collect();
            vec![argmax(&means) as u32]
        }
        _ => classes_of(forest, margins),
    }
}

/// Returns the values of a row whose margins come from [`producer_margins`], computed in the type of the
/// sums.
pub fn values_of_sums(forest: &Forest, margins: &[f64]) -> Vec<f64> {
    match Accumulator::of(forest) {
        Accumulator::F64 => values_of(forest, margins),
        Accumulator::F32 => {
            let scaled: Vec<f32> = margins.iter().map(|m| *m as f32 * forest.scale.0 as f32).collect();
            let mut values = vec![0.0; forest.transform.width(scaled.len())];
            forest.transform.apply(&scaled, &mut values);
            values.into_iter().map(f64::from).collect()
        }
    }
}

/// Returns the classes of a row with the margins `margins`, according to the forest's rule alone: one class,
/// one for each output, or none if the forest is no classifier. [`classes_of_slots`] returns the producer's own
/// classes instead.
pub fn classes_of(forest: &Forest, margins: &[f64]) -> Vec<u32> {
    match forest.classes.rule {
        ClassRule::None => Vec::new(),
        // The argmax reads margins, because the rounding of the transform can make different margins equal.
        ClassRule::Largest if margins.len() > 1 => vec![argmax(margins) as u32],
        ClassRule::Largest => values_of(forest, margins).into_iter().map(|v| v as u32).collect(),
        ClassRule::Over { threshold } => {
            let values = values_of(forest, margins);
            // The second value of a pair is the probability of class 1.
            let each = if forest.transform.is_pair() { 2 } else { 1 };
            values.chunks_exact(each).map(|v| u32::from(v[each - 1] > threshold.0)).collect()
        }
    }
}
