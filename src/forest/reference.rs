//! The reference interpreter: the definition of correct for every schedule, layout and target.
//!
//! It walks nodes as the HIR states them and sums in `f64`, tree by tree in the producer's order. It is written to
//! be read, not to be fast. Where two classes are as good as equal it is the producer's own rounding that decides, and so
//! [`classes_of_slots`] adds up as the producer does.

use fangorn_ir::argmax;

use super::{
    Accumulator, Aggregate, CategorySet, ClassRule, Forest, Node, Predicate, Side, Targets, Transform,
    ZERO_ZONE,
};

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
pub fn leaf_slots(forest: &Forest, row: &[impl Input]) -> Vec<u32> {
    let slot = |t: usize| forest.trees[t].nodes[leaf_node(forest, t, row) as usize].slot();
    (0..forest.trees.len()).map(|t| slot(t).unwrap_or(u32::MAX)).collect()
}

/// The producer's number of the leaf a row reaches in each tree.
pub fn leaf_ids(forest: &Forest, row: &[impl Input]) -> Vec<u32> {
    (0..forest.trees.len()).map(|t| forest.trees[t].ids[leaf_node(forest, t, row) as usize]).collect()
}

/// What each tree adds for a row: `trees x leaf_width` values.
pub fn tree_values(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    leaf_slots(forest, row).into_iter().flat_map(|s| forest.leaf(s).iter().map(|v| v.0)).collect()
}

/// A row's margins: base score plus the trees' leaves taken together, one for each output.
pub fn margins(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    margins_of(forest, &leaf_slots(forest, row))
}

/// The margins of a row that reaches these slots, one in each tree, in the producer's tree order.
pub fn margins_of(forest: &Forest, slots: &[u32]) -> Vec<f64> {
    let totals = taken(forest, slots, vec![None; forest.outputs as usize], |v| v);
    totals.iter().zip(&forest.base_score).map(|(total, base)| base.0 + total.unwrap_or(0.0)).collect()
}

/// Each output's leaves taken together one after the other, from these totals on; `rounded` is the type of the totals.
fn taken(
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

/// The margins of a row that reaches these slots as the producer itself adds them up, to the last bit: one tree after the
/// other in its order, in its [`Accumulator`].
///
/// | producer | the base score comes |
/// |---|---|
/// | XGBoost, LightGBM, scikit-learn | first |
/// | CatBoost, ONNX Runtime, treelite, anything else | last |
///
/// A row may have a start of its own, one for each output. XGBoost's `base_margin` takes the base score's place, CatBoost's
/// `baseline` is added at the end; both are `f32`. In a forest of any other producer it is added at the end, too.
pub fn producer_margins(forest: &Forest, slots: &[u32], start: Option<&[f32]>) -> Vec<f64> {
    let single = Accumulator::of(forest) == Accumulator::F32;
    let rounded = |v: f64| if single { f64::from(v as f32) } else { v };
    let library = &*forest.producer.library;
    let base: Vec<f64> = match start {
        Some(start) if library == "xgboost" => start.iter().map(|s| f64::from(*s)).collect(),
        _ => forest.base_score.iter().map(|b| rounded(b.0)).collect(),
    };
    let sums = forest.aggregate == Aggregate::Sum;
    let base_first = sums && matches!(library, "xgboost" | "lightgbm" | "scikit-learn");
    let first = base.iter().map(|b| base_first.then_some(*b)).collect();
    let totals = taken(forest, slots, first, rounded);
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

/// A row's values: its margins after scale and transform.
pub fn values(forest: &Forest, row: &[impl Input]) -> Vec<f64> {
    values_of(forest, &margins(forest, row))
}

/// The values of a row with these margins.
pub fn values_of(forest: &Forest, margins: &[f64]) -> Vec<f64> {
    let scaled: Vec<f64> = margins.iter().map(|m| m * forest.scale.0).collect();
    forest.transform.apply_f64(&scaled)
}

/// The classes of a row that reaches these slots, numbers that [`Classes::labels`](super::Classes::labels) names: one, or
/// one for each output; none where the forest is no classifier. They are the producer's own, however close two classes are:
/// [`classes_of_sums`] of [`producer_margins`].
pub fn classes_of_slots(forest: &Forest, slots: &[u32]) -> Vec<u32> {
    classes_of_sums(forest, &producer_margins(forest, slots, None))
}

/// The same for a row whose margins are these, as [`producer_margins`] adds them up. Of equal ones the first counts.
///
/// | producer | the class is |
/// |---|---|
/// | XGBoost | the largest `f32` margin (`multi:softmax`) or `f32` probability (`multi:softprob`); 1 where the `f32` value is over the threshold |
/// | LightGBM | the largest `f64` value; 1 where it is over the threshold |
/// | CatBoost | the largest margin; 1 where it is over the margin `-ln(1/p - 1)` of the threshold `p` |
/// | scikit-learn's boosting | the largest margin; 1 where it is over 0 (of `GradientBoostingClassifier` not below 0) |
/// | scikit-learn's forests and trees | the largest mean of the trees |
/// | ONNX Runtime, anything else | what [`classes_of`] says |
pub fn classes_of_sums(forest: &Forest, margins: &[f64]) -> Vec<u32> {
    let over = |threshold: f64| margins.iter().map(|m| u32::from(*m > threshold)).collect();
    match (&*forest.producer.library, forest.classes.rule) {
        ("xgboost" | "lightgbm", ClassRule::Largest) if margins.len() > 1 => {
            let values = values_of_sums(forest, margins);
            // An argmax has been taken already.
            vec![if values.len() == 1 { values[0] as u32 } else { argmax(&values) as u32 }]
        }
        ("xgboost", ClassRule::Over { threshold }) => {
            values_of_sums(forest, margins).into_iter().map(|v| u32::from(v > threshold.0)).collect()
        }
        ("catboost", ClassRule::Over { threshold }) => over(-(1.0 / threshold.0 - 1.0).ln()),
        ("scikit-learn", ClassRule::Over { threshold }) if forest.transform == Transform::SigmoidPair => {
            // A threshold below one half lets one half itself be the second class: nothing is between -0 and the number
            // below it.
            over(if threshold.0 < 0.5 { 0f64.next_down() } else { 0.0 })
        }
        ("scikit-learn", ClassRule::Largest) if forest.transform == Transform::Identity => {
            // It divides where the scale multiplies, which ties other sums.
            let trees = forest.trees.len() as f64;
            let means: Vec<f64> = margins.iter().map(|m| m / trees).collect();
            vec![argmax(&means) as u32]
        }
        _ => classes_of(forest, margins),
    }
}

/// The values of a row whose margins are these, as [`producer_margins`] adds them up: computed in the type of the sums.
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

/// The classes of a row with these margins by the forest's rule alone: one, or one for each output; none where the forest is
/// no classifier. See [`classes_of_slots`] for the producer's own.
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
