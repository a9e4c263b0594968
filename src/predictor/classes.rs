//! Classes: the producer's own, from margins that are summed in any order.

use super::Predictor;
use crate::{
    cpu::{Loops, Row, Rows, widest},
    error::Result,
    forest::{ClassRule, Forest, Transform, reference},
};

/// Rows whose leaves are summed again at a time.
const ROWS_AT_A_TIME: usize = 4096;
/// Margins that are read at a time, by each thread.
const MARGINS_AT_A_TIME: usize = 1 << 15;
/// How far margins lie apart, beside the rounding of their sums, that a softmax does not round to equal values.
const SOFTMAX_SLACK: f64 = 1e-5;

/// What decides the class of a row by its margins, where they are not so close to another class that the producer's own
/// rounding decides.
#[derive(Clone, Debug)]
pub(crate) struct ClassDecision {
    rule: DecisionRule,
    /// For each output, how far a margin may be from the producer's, and as much again for what rounds after it.
    doubt: Vec<f64>,
}

#[derive(Clone, Debug)]
enum DecisionRule {
    /// The place of the largest margin, where it is larger by the slack.
    Largest { slack: f64 },
    /// Class 1 of an output from this margin on.
    Over { cuts: Vec<f64> },
    /// The leaf of the only tree: the class by slot, or so many classes.
    Leaf { classes: Vec<u32>, a_row: usize },
    /// The producer's own sums decide.
    ProducerSums,
}

impl ClassDecision {
    /// Returns the decision of a forest. Takes time for each leaf.
    pub(crate) fn new(forest: &Forest) -> Self {
        let outputs = forest.outputs as usize;
        let reads_margins = !matches!(&*forest.producer.library, "xgboost" | "lightgbm");
        let rule = match (forest.classes.rule, forest.transform) {
            (rule, _) if forest.trees.len() == 1 && rule != ClassRule::None => {
                let slots = 0..forest.leaf_count() as u32;
                let classes: Vec<u32> =
                    slots.flat_map(|slot| reference::classes_of_slots(forest, &[slot])).collect();
                let a_row = classes.len() / forest.leaf_count().max(1);
                DecisionRule::Leaf { classes, a_row }
            }
            (ClassRule::Largest, _) if outputs < 2 || !(forest.scale.0 > 0.0) => DecisionRule::ProducerSums,
            (ClassRule::Largest, Transform::Softmax) => DecisionRule::Largest { slack: SOFTMAX_SLACK },
            (ClassRule::Largest, Transform::Identity) => DecisionRule::Largest { slack: 0.0 },
            (ClassRule::Largest, _) if reads_margins => DecisionRule::Largest { slack: 0.0 },
            // These never fall as the margin rises, and an output's class does not depend on the others.
            (ClassRule::Over { .. }, Transform::Identity | Transform::Sigmoid | Transform::SigmoidPair)
                if forest.scale.0 > 0.0 =>
            {
                match (0..outputs).map(|output| cut(forest, output)).collect() {
                    Some(cuts) => DecisionRule::Over { cuts },
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
            DecisionRule::Over { cuts } => {
                let each = || margins.iter().zip(cuts).zip(&self.doubt);
                let decided = each().all(|((margin, cut), doubt)| (f64::from(*margin) - cut).abs() > *doubt);
                if decided {
                    classes.extend(each().map(|((margin, cut), _)| u32::from(f64::from(*margin) >= *cut)));
                }
                decided
            }
        }
    }
}

/// The place of the largest margin, if no other comes near it.
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
        // A NaN is near everything.
        let below =
            self.margins.iter().zip(self.doubt).map(|(m, doubt)| u32::from(f64::from(*m) + doubt < least));
        (below.sum::<u32>() as usize + 1 == self.margins.len()).then_some(best as u32)
    }
}

/// Returns the least `f32` margin of an output that is of class 1; `None` if there is none or all are.
fn cut(forest: &Forest, output: usize) -> Option<f64> {
    let class = |margin: f32| {
        let mut margins = vec![0.0; forest.outputs as usize];
        margins[output] = f64::from(margin);
        reference::classes_of_sums(forest, &margins).get(output).copied()
    };
    // Numbers in the order of the floats that they stand for.
    let float = |key: i32| f32::from_bits((if key < 0 { i32::MIN - key } else { key }) as u32);
    let (mut low, mut high) = (-0x7f7f_ffff, 0x7f7f_ffff);
    if class(float(low))? != 0 || class(float(high))? != 1 {
        return None;
    }
    while high - low > 1 {
        let middle = low + (i64::from(high) - i64::from(low)) as i32 / 2;
        match class(float(middle))? {
            0 => low = middle,
            _ => high = middle,
        }
    }
    Some(f64::from(float(high)))
}

impl Predictor {
    /// Returns the classes of contiguous rows, one or one for each output; none if the forest is no classifier. They
    /// are the producer's own: [`reference::classes_of_slots`] of the leaves that a row reaches. Only rows whose margins
    /// lie close to another class are summed again as the producer sums them.
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
            let parts = values.chunks(ROWS_AT_A_TIME * columns.max(1)).map(by_sums);
            return Ok(parts.collect::<Result<Vec<_>>>()?.concat());
        }
        let rows = Rows::new(values, columns)?;
        let a_row = if matches!(decision.rule, DecisionRule::Over { .. }) { outputs } else { 1 };
        // Margins that stay in a cache until they are read.
        let part =
            (MARGINS_AT_A_TIME / outputs).clamp(64, ROWS_AT_A_TIME) * self.plans.large().threads() as usize;
        let (mut classes, mut open) = (Vec::with_capacity(rows.len() * a_row), Vec::new());
        let mut margins = vec![0.0; part.min(rows.len()) * outputs];
        for first in (0..rows.len()).step_by(part) {
            let some = rows.slice(first, part.min(rows.len() - first));
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
