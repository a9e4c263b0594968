//! Turns a row's sums into outputs, values and classes, as ONNX Runtime does.

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError};
use super::classic::Classifier;
use super::ensemble::Ensemble;
use super::graph::unsupported;
use super::labels::Labels;
use super::reached::ReachedTrees;
use super::steps::{Label, ScoreOperation, Sign, Step, Steps};
use crate::forest::{Aggregate, ClassRule, Real, Transform};

/// Which of the operator's outputs the forest has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Margins {
    /// All of the operator's outputs.
    All,
    /// Only this one of two outputs, from which the other follows.
    Only(u32),
}

/// How a class follows from the scores.
#[derive(Clone, Copy, Debug, PartialEq)]
enum LabelRule {
    /// The class with the largest margin.
    Largest,
    /// The second of two classes if the margin is over this number, otherwise the first.
    Over(f64),
    /// No rule of the forest expresses it, for this reason.
    None(&'static str),
}

/// How margins become scores.
#[derive(Clone, Debug)]
pub(super) struct Scores {
    pub(super) margins: Margins,
    pub(super) transform: Transform,
    pub(super) scale: f64,
    /// What is added to each scaled margin.
    pub(super) offset: Vec<f64>,
    rule: LabelRule,
    /// Whether each row's scores, before any transform, are non-negative and sum to 1.
    is_probability: bool,
    labels: Labels,
}

const BY_THE_SECOND: &str =
    "ONNX Runtime tells the class by the sign of the second score alone, which is no comparison of the two";

impl Scores {
    /// Returns the scores of a regressor, before the graph's steps.
    pub(super) fn of_targets(ensemble: &Ensemble, reached: &ReachedTrees<'_>) -> Result<Self, ImportError> {
        let outputs = ensemble.outputs;
        let skipped =
            matches!(ensemble.post, Transform::Sigmoid | Transform::Softmax | Transform::SoftmaxZero);
        if outputs == 1 && skipped {
            let cause = "a post transform other than NONE and PROBIT of one target: the standard has it, ONNX Runtime leaves it out";
            return Err(super::error::at(
                ErrorKind::Unsupported,
                format!("{}.post_transform", ensemble.location),
                cause,
            )
            .with_remedy("write the post transform NONE, and a Sigmoid operator after the trees"));
        }
        if reached.trees() == 0 && (outputs > 1 || ensemble.fold.average) {
            let cause = "several targets, or an average, of no trees are not supported: ONNX Runtime leaves base values out";
            return Err(super::error::at(ErrorKind::Unsupported, ensemble.location.clone(), cause)
                .with_remedy("train the model with at least one tree"));
        }
        let untold = reached
            .always_voted()
            .iter()
            .zip(&ensemble.base)
            .position(|(always_voted, base)| !always_voted && *base != 0.0);
        if let Some(target) = untold.filter(|_| outputs > 1) {
            let cause = format!(
                "a row may reach no leaf with a weight for target {target}: ONNX Runtime then leaves out its base value, which the standard adds"
            );
            return Err(super::error::at(
                ErrorKind::Unsupported,
                format!("{}.base_values", ensemble.location),
                cause,
            )
            .with_remedy("give each leaf a weight for the target, or convert a model a target"));
        }
        Ok(Self {
            margins: Margins::All,
            transform: ensemble.post,
            scale: 1.0,
            offset: vec![0.0; outputs],
            rule: LabelRule::Largest,
            is_probability: outputs > 1 && is_probability(ensemble, reached, false),
            labels: Labels::default(),
        })
    }

    /// Returns the scores of a classifier, before the graph's steps.
    pub(super) fn of_classes(
        ensemble: &Ensemble,
        classifier: &Classifier,
        reached: &ReachedTrees<'_>,
    ) -> Result<Self, ImportError> {
        let fail = |field: &str, cause: &str, remedy: &str| refused(ensemble, field, cause, remedy);
        let outputs = ensemble.outputs;
        if outputs == 1 {
            return fail(
                "classlabels_int64s",
                "a classifier of one class is not supported: ONNX Runtime labels its rows with none of the classes",
                "train on data of two classes, or convert the model as a regressor",
            );
        }
        if reached.trees() == 0 || classifier.voted == [false, false] && outputs == 2 {
            return fail(
                "class_ids",
                "a classifier without trees or scores is not supported",
                "train the model with at least one tree",
            );
        }
        if outputs > 2 {
            let always_voted = !ensemble.base.is_empty()
                || reached.always_voted().iter().all(|t| *t)
                || reached.always_positive();
            let why = "rows may reach no leaf with a score for some class, which ONNX Runtime then leaves out of the comparison";
            let rule = if always_voted { LabelRule::Largest } else { LabelRule::None(why) };
            return Ok(Self::of_all(ensemble, reached, rule, classifier.labels.clone()));
        }
        Self::of_two_classes(ensemble, classifier, reached)
    }

    /// Returns scores of all of the operator's outputs.
    fn of_all(ensemble: &Ensemble, reached: &ReachedTrees<'_>, rule: LabelRule, labels: Labels) -> Self {
        Self {
            margins: Margins::All,
            transform: ensemble.post,
            scale: 1.0,
            offset: vec![0.0; ensemble.outputs],
            rule,
            is_probability: is_probability(ensemble, reached, false),
            labels,
        }
    }

    /// Returns the scores of a classifier of two classes, before the graph's steps.
    fn of_two_classes(
        ensemble: &Ensemble,
        classifier: &Classifier,
        reached: &ReachedTrees<'_>,
    ) -> Result<Self, ImportError> {
        let fail = |field: &str, cause: &str, remedy: &str| refused(ensemble, field, cause, remedy);
        let labels = classifier.labels.clone();
        let all = |rule, labels| Self::of_all(ensemble, reached, rule, labels);
        let pair = |transform, over, only, scale, labels| Self {
            margins: Margins::Only(only),
            transform,
            scale,
            offset: vec![0.0],
            rule: LabelRule::Over(over),
            is_probability: transform == Transform::ComplementPair && is_probability(ensemble, reached, true),
            labels,
        };
        if ensemble.base.len() == 2 {
            return fail(
                "base_values",
                "two base values of two classes are not supported: ONNX Runtime adds the second to the first score",
                "write the base value into the leaves of the first tree",
            );
        }
        if ensemble.post == Transform::Probit && classifier.voted != [true, true] {
            return fail(
                "post_transform",
                "the post transform PROBIT of scores for one of two classes is not supported: ONNX Runtime gives no second score",
                "write the post transform NONE",
            );
        }
        if !ensemble.base.is_empty() && !reached.always_voted()[0] {
            return fail(
                "base_values",
                "a base value is not supported if a row may reach no leaf with a score",
                "give each leaf a score",
            );
        }
        let over = if classifier.all_positive { 0.5 } else { 0.0 };
        match (classifier.voted, ensemble.post) {
            ([_, false], Transform::Sigmoid) => Ok(pair(Transform::SigmoidPair, over, 0, 1.0, labels)),
            ([_, false], _) if classifier.all_positive => {
                Ok(pair(Transform::ComplementPair, over, 0, 1.0, labels))
            }
            ([_, false], _) => Ok(pair(Transform::OppositePair, over, 0, 1.0, labels)),
            _ if !ensemble.base.is_empty() => fail(
                "base_values",
                "one base value of two classes that both have scores, or of which the second has, is not supported: ONNX Runtime leaves it out or adds it to the first",
                "write the base value into the leaves of the first tree",
            ),
            ([false, true], post) => {
                let always_voted =
                    reached.always_voted()[1] && !classifier.all_positive && post != Transform::SoftmaxZero;
                let why = "scores are for the second of two classes alone";
                Ok(all(if always_voted { LabelRule::Largest } else { LabelRule::None(why) }, labels))
            }
            (_, post)
                if reached.votes_are_opposite()
                    && post != Transform::SoftmaxZero
                    && post != Transform::Probit =>
            {
                // ONNX Runtime gives the labels 0 and 1 here, whatever integers name the classes.
                let labels = match labels.words {
                    true => labels,
                    false => Labels { texts: vec!["0".into(), "1".into()], words: false },
                };
                Ok(match post {
                    Transform::Identity => pair(Transform::OppositePair, 0.0, 1, 1.0, labels),
                    Transform::Softmax => pair(Transform::SigmoidPair, 0.0, 1, 2.0, labels),
                    _ => pair(Transform::SigmoidPair, 0.0, 1, 1.0, labels),
                })
            }
            _ => Ok(all(LabelRule::None(BY_THE_SECOND), labels)),
        }
    }

    /// Applies the graph's steps after the trees. Refuses a step that can't be expressed.
    pub(super) fn take(&mut self, steps: &Steps) -> Result<(), ImportError> {
        steps.in_order().into_iter().try_for_each(|step| {
            let known = self.apply(step)?;
            let why = " for what the trees give here";
            if known { Ok(()) } else { Err(unsupported(step.location.as_str(), &step.operator, why)) }
        })
    }

    /// Applies one step. Returns false if its result can't be expressed.
    fn apply(&mut self, step: &Step) -> Result<bool, ImportError> {
        let columns = self.offset.len();
        match (&step.does, self.transform) {
            (ScoreOperation::Arithmetic(sign, tensor), _) => {
                // Both columns of a pair come from one margin, so a pair counts as one column here.
                let numbers = step.numbers(tensor, columns)?;
                return Ok(numbers.is_some_and(|numbers| self.arithmetic(*sign, &numbers)));
            }
            (ScoreOperation::Exp, Transform::Identity) => self.transform = Transform::Exp,
            (ScoreOperation::Sigmoid, Transform::Identity) => self.transform = Transform::Sigmoid,
            (ScoreOperation::Sigmoid, Transform::OppositePair) => self.transform = Transform::SigmoidPair,
            (ScoreOperation::Softmax, Transform::Identity) if columns > 1 => {
                self.transform = Transform::Softmax
            }
            (ScoreOperation::Softmax, Transform::OppositePair) => {
                self.transform = Transform::SigmoidPair;
                self.scale *= 2.0;
            }
            (ScoreOperation::NormalizeL1, Transform::Softmax | Transform::SigmoidPair) => {}
            (ScoreOperation::NormalizeL1, Transform::Identity | Transform::ComplementPair)
                if self.is_probability => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies arithmetic with one number for all columns, or one for each. Returns false if the result can't
    /// be expressed.
    fn arithmetic(&mut self, sign: Sign, numbers: &[f64]) -> bool {
        let neutral = if matches!(sign, Sign::Multiply | Sign::Divide) { 1.0 } else { 0.0 };
        if numbers.iter().all(|v| *v == neutral) {
            return true;
        }
        let columns = || numbers.iter().cycle();
        match (sign, self.transform) {
            (Sign::Multiply | Sign::Divide, Transform::Identity | Transform::OppositePair) => {
                let first = numbers.first().copied().unwrap_or(1.0);
                let factor = if sign == Sign::Divide { 1.0 / first } else { first };
                if numbers.iter().any(|v| *v != first) || factor == 0.0 {
                    return false;
                }
                self.scale *= factor;
                self.offset.iter_mut().for_each(|o| *o *= factor);
            }
            // e^m c = e^(m + ln c).
            (Sign::Multiply | Sign::Divide, Transform::Exp) if numbers.iter().all(|v| *v > 0.0) => {
                let log = |v: &f64| if sign == Sign::Divide { -v.ln() } else { v.ln() };
                self.offset.iter_mut().zip(columns()).for_each(|(o, v)| *o += log(v));
            }
            (Sign::Add, Transform::Identity) => {
                self.offset.iter_mut().zip(columns()).for_each(|(o, v)| *o += v);
            }
            (Sign::Subtract, Transform::Identity) => {
                self.offset.iter_mut().zip(columns()).for_each(|(o, v)| *o -= v);
            }
            _ => return false,
        }
        self.is_probability = false;
        self.scale.is_finite() && self.scale != 0.0 && self.offset.iter().all(|o| o.is_finite())
    }

    /// Returns the rule for classes, and their labels. `before` holds the scores before the graph's steps.
    pub(super) fn classes(
        &self,
        before: &Self,
        label: Option<&Label>,
        ensemble: &Ensemble,
        classifier: bool,
        budget: &Budget<'_>,
    ) -> Result<(ClassRule, Labels), ImportError> {
        let refuse = |why: &str| {
            let cause = format!("the label can't be told: {why}");
            Err(super::error::at(ErrorKind::Unsupported, ensemble.location.clone(), cause).with_remedy(
                "remove the output of labels from the graph, or make it of the scores with ArgMax",
            ))
        };
        let (scores, names) = match label {
            None if classifier => (before.clone(), None),
            None => return Ok((ClassRule::None, Labels::default())),
            Some(Label { largest_after: None, .. }) => (before.clone(), None),
            Some(Label { largest_after: Some(steps), names }) => {
                let mut scores = before.clone();
                scores.take(steps)?;
                scores.rule = match scores.transform {
                    Transform::ComplementPair => LabelRule::Over(0.5),
                    Transform::OppositePair | Transform::SigmoidPair => LabelRule::Over(0.0),
                    Transform::SoftmaxZero | Transform::Probit => {
                        LabelRule::None("the largest score after SOFTMAX_ZERO or PROBIT")
                    }
                    _ if scores.offset.len() < 2 => LabelRule::None("the largest of one score"),
                    _ => LabelRule::Largest,
                };
                let names = names.as_ref().map(|names| names.read(&ensemble.location, budget)).transpose()?;
                (scores, Some(names.unwrap_or_default()))
            }
        };
        let labels = names.unwrap_or_else(|| scores.labels.clone());
        let classes = if matches!(scores.margins, Margins::Only(_)) { 2 } else { scores.offset.len() };
        if !labels.texts.is_empty() && labels.texts.len() != classes {
            let cause = format!("{} names for {classes} classes", labels.texts.len());
            return Err(super::error::at(ErrorKind::Structure, ensemble.location.clone(), cause));
        }
        match scores.rule {
            // A graph without an output of labels needs no rule.
            LabelRule::None(_) if label.is_none() => Ok((ClassRule::None, Labels::default())),
            LabelRule::None(why) => refuse(why),
            _ if self.scale <= 0.0 || scores.scale <= 0.0 => {
                refuse("scores are multiplied with a number below zero")
            }
            LabelRule::Largest if !self.same_order(&scores) => {
                refuse("scores are shifted between the label and the output")
            }
            LabelRule::Largest => Ok((ClassRule::Largest, labels)),
            LabelRule::Over(margin) => Ok((ClassRule::Over { threshold: Real(self.second(margin)) }, labels)),
        }
    }

    /// Returns the second value of a pair whose margin is `margin`, as a threshold: a margin of exactly this
    /// is not over it, in single precision either.
    fn second(&self, margin: f64) -> f64 {
        let m = self.scale * margin;
        if self.transform == Transform::SigmoidPair && m == 0.0 {
            return 0.5;
        }
        let mut single = [0.0; 2];
        self.transform.apply(&[m as f32], &mut single);
        let double = self.transform.apply_f64(&[m]).get(1).copied().unwrap_or(m);
        double.max(f64::from(single[1]))
    }

    /// Returns whether the largest margin of this forest is also the largest of `other`, which are other
    /// scores of the same sums.
    fn same_order(&self, other: &Self) -> bool {
        let shifts = || self.offset.iter().zip(&other.offset).map(|(a, b)| a / self.scale - b / other.scale);
        shifts()
            .all(|shift| shifts().next().is_some_and(|first| (shift - first).abs() <= 1e-12 * first.abs()))
    }
}

/// Refuses what a field of the operator asks for.
fn refused<T>(ensemble: &Ensemble, field: &str, cause: &str, remedy: &str) -> Result<T, ImportError> {
    let path = format!("{}.{field}", ensemble.location);
    Err(super::error::at(ErrorKind::Unsupported, path, cause).with_remedy(remedy))
}

/// Returns whether a row's sums are always probabilities: non-negative, with the sum 1. With `of_one`, only
/// the first of two classes has votes, and its sum must lie between 0 and 1.
fn is_probability(ensemble: &Ensemble, reached: &ReachedTrees<'_>, of_one: bool) -> bool {
    // The error that single precision may add to a sum of 1.
    const ROUNDING: f64 = 1e-6;
    let trees = if ensemble.fold.average { reached.trees().max(1) as f64 } else { 1.0 };
    let base: f64 = ensemble.base.iter().sum();
    let (mut least, mut largest) = (base, base);
    for tree in 0..reached.trees() {
        let sums =
            reached.leaves(tree).map(|n| ensemble.votes(n).iter().map(|(_, w)| w).sum::<f64>() / trees);
        let (low, high) =
            sums.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), s| (s.min(low), s.max(high)));
        (least, largest) = (least + low, largest + high);
    }
    let positive = ensemble.votes.iter().all(|(_, w)| *w >= 0.0) && ensemble.base.iter().all(|b| *b >= 0.0);
    let sum = ensemble.fold.aggregate == Aggregate::Sum;
    let enough = of_one || least >= 1.0 - ROUNDING;
    sum && positive && enough && largest <= 1.0 + ROUNDING
}
