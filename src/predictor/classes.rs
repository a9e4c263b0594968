//! Finds the classes that the producer would return, from margins that are summed in any order.

use super::Predictor;
use crate::{
    cpu::{Loops, Row, Rows, widest},
    error::Result,
    forest::{ClassRule, Forest, Transform, reference},
};

/// How many rows are summed again at a time.
const ROWS_AT_A_TIME: usize = 4096;
/// How many margins each thread computes before they are read.
const MARGINS_AT_A_TIME: usize = 1 << 15;
/// If two margins differ by more than this, apart from the rounding of their sums, a softmax does not round them to
/// equal values.
const SOFTMAX_SLACK: f64 = 1e-5;

/// How the class of a row follows from its margins. A row so close to another class that the producer's own rounding
/// decides is left undecided.
#[derive(Clone, Debug)]
pub(crate) struct ClassDecision {
    rule: DecisionRule,
    /// For each output, twice the greatest distance between a margin and the producer's own: once for the sum, and once
    /// for the roundings after it.
    doubt: Vec<f64>,
}

#[derive(Clone, Debug)]
enum DecisionRule {
    /// The class is the index of the largest margin, if that exceeds every other margin by more than the slack.
    Largest { slack: f64 },
    /// An output has class 1 if its margin is at least `cut`.
    Over { cut: f64 },
    /// The forest has one tree, whose leaf decides: `classes` holds `a_row` classes for each slot.
    Leaf { classes: Vec<u32>, a_row: usize },
    /// Margins never decide: every row is summed again as the producer sums it.
    ProducerSums,
}

impl ClassDecision {
    /// Returns the decision rule of a forest. If it has one tree, the time is linear in the number of leaves.
    pub(crate) fn new(forest: &Forest) -> Self {
        let outputs = forest.outputs as usize;
        // A scale that is no ordinary float may make different margins equal.
        let rises = forest.scale.0 > 0.0 && (forest.scale.0 as f32).is_normal();
        let reads_margins = !matches!(&*forest.producer.library, "xgboost" | "lightgbm");
        let rule = match (forest.classes.rule, forest.transform) {
            (rule, _) if forest.trees.len() == 1 && rule != ClassRule::None => {
                let slots = 0..forest.leaf_count() as u32;
                let classes: Vec<u32> =
                    slots.flat_map(|slot| reference::classes_of_slots(forest, &[slot])).collect();
                let a_row = classes.len() / forest.leaf_count().max(1);
                DecisionRule::Leaf { classes, a_row }
            }
            (ClassRule::Largest, _) if outputs < 2 || !rises => DecisionRule::ProducerSums,
            (ClassRule::Largest, Transform::Softmax) => {
                DecisionRule::Largest { slack: SOFTMAX_SLACK / forest.scale.0.min(1.0) }
            }
            (ClassRule::Largest, Transform::Identity) => DecisionRule::Largest { slack: 0.0 },
            (ClassRule::Largest, _) if reads_margins => DecisionRule::Largest { slack: 0.0 },
            // These transforms never fall as the margin rises, and an output's class does not depend on the others.
            (ClassRule::Over { .. }, Transform::Identity | Transform::Sigmoid | Transform::SigmoidPair)
                if rises =>
            {
                match cut(forest) {
                    Some(cut) => DecisionRule::Over { cut },
                    None => DecisionRule::ProducerSums,
                }
            }
            _ => DecisionRule::ProducerSums,
        };
        Self { rule, doubt: forest.sum_bound().into_iter().map(|bound| 4.0 * bound).collect() }
    }

    /// Adds the classes of a row to `classes`. Returns whether its margins decide them; if not, it adds nothing.
    fn decide(&self, margins: &[f32], classes: &mut Vec<u32>) -> bool {
        match &self.rule {
            DecisionRule::ProducerSums | DecisionRule::Leaf { .. } => false,
            DecisionRule::Largest { slack } => {
                let found = widest(Largest { margins, doubt: &self.doubt, slack: *slack });
                classes.extend(found);
                found.is_some()
            }
            DecisionRule::Over { cut } => {
                let far = |(margin, doubt): (&f32, &f64)| (f64::from(*margin) - cut).abs() > *doubt;
                let decided = margins.iter().zip(&self.doubt).all(far);
                if decided {
                    classes.extend(margins.iter().map(|margin| u32::from(f64::from(*margin) >= *cut)));
                }
                decided
            }
        }
    }
}

/// Finds the index of the largest margin, or `None` if another margin comes near it.
struct Largest<'m> {
    margins: &'m [f32],
    doubt: &'m [f64],
    slack: f64,
}

impl Loops for Largest<'_> {
    type Result = Option<u32>;

    #[inline(always)]
    fn run(self) -> Option<u32> {
        const LANES: usize = 8;
        let mut most = [f32::NEG_INFINITY; LANES];
        let (of_lanes, last) = self.margins.as_chunks::<LANES>();
        for margins in of_lanes {
            most.iter_mut().zip(margins).for_each(|(most, m)| *most = if *m > *most { *m } else { *most });
        }
        most.iter_mut().zip(last).for_each(|(most, m)| *most = if *m > *most { *m } else { *most });
        let most = most.into_iter().fold(f32::NEG_INFINITY, f32::max);
        let best = self.margins.iter().position(|margin| *margin == most)?;
        let least = f64::from(most) - self.doubt[best] - self.slack;
        // A NaN counts as near to every margin.
        let below =
            self.margins.iter().zip(self.doubt).map(|(m, doubt)| u32::from(f64::from(*m) + doubt < least));
        (below.sum::<u32>() as usize + 1 == self.margins.len()).then_some(best as u32)
    }
}

/// Returns the least `f32` margin of class 1, which is the same for each output. Returns `None` if no finite margin or
/// every finite margin is of class 1.
fn cut(forest: &Forest) -> Option<f64> {
    let outputs = forest.outputs as usize;
    let class =
        |margin: f32| reference::classes_of_sums(forest, &vec![f64::from(margin); outputs]).first().copied();
    // Keys are integers in the order of the floats that they stand for.
    let float = |key: i32| f32::from_bits((if key < 0 { i32::MIN - key } else { key }) as u32);
    let (mut low, mut high) = (-0x7f7f_ffff, 0x7f7f_ffff);
    if class(float(low))? != 0 || class(float(high))? != 1 {
        return None;
    }
    while i64::from(high) - i64::from(low) > 1 {
        let middle = ((i64::from(low) + i64::from(high)) >> 1) as i32;
        match class(float(middle))? {
            0 => low = middle,
            _ => high = middle,
        }
    }
    Some(f64::from(float(high)))
}

impl Predictor {
    /// Returns the classes of contiguous rows: for each row one class, or one for each output. The result is empty if
    /// the forest is no classifier. The classes are the producer's own, as [`reference::classes_of_slots`] returns them
    /// for the leaves that a row reaches. Only rows whose margins are close to another class are summed again as the
    /// producer sums them.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub(crate) fn classes<T: Row>(
        &self,
        forest: &Forest,
        decision: &ClassDecision,
        values: &[T],
    ) -> Result<Vec<u32>> {
        if forest.classes.rule == ClassRule::None {
            return Ok(Vec::new());
        }
        let (columns, outputs) = (forest.features.len(), forest.outputs as usize);
        let row = |row: usize| &values[row * columns..][..columns];
        let by_sums = |rows: &[T]| -> Result<Vec<u32>> {
            let slots = self.leaf_slots(&Rows::new(rows, columns)?)?;
            let rows = slots.chunks_exact(forest.trees.len().max(1));
            Ok(rows.flat_map(|slots| reference::classes_of_slots(forest, slots)).collect())
        };
        if let DecisionRule::Leaf { classes, a_row } = &decision.rule {
            let slots = self.leaf_slots(&Rows::new(values, columns)?)?;
            let of_slot = |slot: u32| &classes[slot as usize * a_row..][..*a_row];
            return Ok(slots.into_iter().flat_map(of_slot).copied().collect());
        }
        if matches!(decision.rule, DecisionRule::ProducerSums) || forest.trees.is_empty() {
            let classes = values.chunks(ROWS_AT_A_TIME * columns.max(1)).map(by_sums);
            return Ok(classes.collect::<Result<Vec<_>>>()?.concat());
        }
        let rows = Rows::new(values, columns)?;
        let a_row = if matches!(decision.rule, DecisionRule::Over { .. }) { outputs } else { 1 };
        // So many rows that their margins stay in a cache until they are read.
        let at_once =
            (MARGINS_AT_A_TIME / outputs).clamp(64, ROWS_AT_A_TIME) * self.plans.large().threads() as usize;
        let (mut classes, mut open) = (Vec::with_capacity(rows.len() * a_row), Vec::new());
        let mut margins = vec![0.0; at_once.min(rows.len()) * outputs];
        for first in (0..rows.len()).step_by(at_once) {
            let some = rows.slice(first, at_once.min(rows.len() - first));
            let margins = &mut margins[..some.len() * outputs];
            self.margins_into(&some, margins)?;
            for (at, margins) in margins.chunks_exact(outputs).enumerate() {
                if !decision.decide(margins, &mut classes) {
                    classes.resize(classes.len() + a_row, 0);
                    open.push(first + at);
                }
            }
        }
        for some in open.chunks(ROWS_AT_A_TIME) {
            let rows: Vec<T> = some.iter().flat_map(|at| row(*at)).copied().collect();
            for (at, found) in some.iter().zip(by_sums(&rows)?.chunks_exact(a_row)) {
                classes[at * a_row..][..a_row].copy_from_slice(found);
            }
        }
        Ok(classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::Random,
        forest::{Classes, CompareType, Real, Side},
    };

    /// A random classifier whose leaf values are often equal or close, so that rows are in doubt.
    fn classifier(random: &mut Random, case: usize) -> Forest {
        let libraries = ["xgboost", "lightgbm", "catboost", "scikit-learn", "onnx"];
        let transforms = [
            (1, Transform::Identity),
            (1, Transform::Sigmoid),
            (1, Transform::SigmoidPair),
            (3, Transform::Sigmoid),
            (4, Transform::Softmax),
            (3, Transform::Identity),
            (20, Transform::Identity),
            (20, Transform::SoftmaxZero),
        ];
        let (outputs, transform) = transforms[case % transforms.len()];
        let vectors = outputs == 20 || case.is_multiple_of(3);
        let mut forest = Forest::builder(3, outputs);
        let trees = [1, 2, 7, 30][random.below(4)] as u32;
        for tree in 0..trees {
            let mut tree = if vectors { forest.vector_tree() } else { forest.tree(tree % outputs) };
            let mut value = || {
                let values = [0.0, 0.25, -0.25, 1.0 / 3.0, 0.1, -0.1, 1e-7, 3e4];
                let value = values[random.below(values.len() - usize::from(!case.is_multiple_of(5)))];
                f64::from(value as f32)
            };
            let mut leaf = || (0..if vectors { outputs } else { 1 }).map(|_| value()).collect::<Vec<f64>>();
            let leaves = [leaf(), leaf(), leaf()];
            let [a, b] = [0, 1].map(|_| f64::from(random.below(8) as f32) - 4.0);
            tree.split(random.below(3) as u32, CompareType::F32.less(a), Side::Left, 1, 2);
            tree.split(1 + random.below(2) as u32, CompareType::F32.less(b), Side::Right, 3, 4);
            tree.leaf(2, &leaves[0]);
            tree.leaf(3, &leaves[1]);
            tree.leaf(4, &leaves[2]);
        }
        let mut forest = forest.build().expect("a forest");
        forest.transform = transform;
        forest.producer.library = libraries[random.below(libraries.len())].into();
        forest.scale = Real([1.0, 0.5, 1.0 / 3.0][random.below(3)]);
        forest.classes = Classes {
            rule: match outputs {
                1 => ClassRule::Over { threshold: Real([0.5, 0.3, 0.25][random.below(3)]) },
                3 if transform == Transform::Sigmoid => ClassRule::Over { threshold: Real(0.5) },
                _ => ClassRule::Largest,
            },
            labels: Vec::new(),
            words: false,
        };
        forest
    }

    /// Classes are those of the producer's sums, on rows in doubt, too.
    #[test]
    fn classes_are_those_of_the_producer() {
        let mut random = Random(11);
        let (mut rules, mut doubts) = ([0; 4], 0);
        for case in 0..600 {
            let forest = classifier(&mut random, case);
            let decision = ClassDecision::new(&forest);
            rules[match decision.rule {
                DecisionRule::Largest { .. } => 0,
                DecisionRule::Over { .. } => 1,
                DecisionRule::Leaf { .. } => 2,
                DecisionRule::ProducerSums => 3,
            }] += 1;
            let predictor = Predictor::builder(&forest).threads(1).build().expect("a predictor");
            let rows: Vec<f32> = (0..150 * 3).map(|_| random.below(9) as f32 - 4.5).collect();
            let expected: Vec<u32> = rows
                .chunks(3)
                .flat_map(|row| reference::classes_of_slots(&forest, &reference::leaf_slots(&forest, row)))
                .collect();
            for count in [0, 1, 2, 150] {
                let found = predictor.classes(&forest, &decision, &rows[..count * 3]).expect("classes");
                let a_row = expected.len() / 150;
                assert_eq!(
                    found,
                    expected[..count * a_row],
                    "case {case}, {count} rows: {:?}",
                    decision.rule
                );
            }
            let margins = predictor.margins(&Rows::new(&rows, 3).expect("rows")).expect("margins");
            let each = margins.chunks(forest.outputs as usize);
            doubts += each.filter(|margins| !decision.decide(margins, &mut Vec::new())).count();
        }
        assert!(rules.iter().all(|count| *count > 20), "{rules:?}");
        assert!((1000..80_000).contains(&doubts), "{doubts} rows in doubt");
    }
}
