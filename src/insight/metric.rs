//! Metrics: how wrong predictions are, as one number.

use std::fmt;

use crate::{
    error::{Error, Result},
    forest::{ClassRule, Forest, Transform},
};

/// The mean loss of predictions. Less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Minus the logarithm of the probability that the model gives to the label.
    LogLoss,
    /// The share of rows whose class is not the label.
    Error,
    /// The mean square of the difference between value and label.
    SquaredError,
    /// The mean magnitude of the difference between value and label.
    AbsoluteError,
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LogLoss => "logloss",
            Self::Error => "error",
            Self::SquaredError => "squared-error",
            Self::AbsoluteError => "absolute-error",
        })
    }
}

/// The least probability whose logarithm is taken, as in scikit-learn for `f32`. A smaller probability counts as this
/// one.
const LEAST_PROBABILITY: f64 = f32::EPSILON as f64;

impl Metric {
    /// Returns the usual metric of a forest's objective: the log loss if values are probabilities, the share of wrong
    /// classes for other classifiers, and the squared error for all other models.
    pub fn of(forest: &Forest) -> Self {
        let is_classifier = forest.classes.rule != ClassRule::None;
        match forest.transform {
            _ if Self::gives_probabilities(forest) => Self::LogLoss,
            _ if is_classifier => Self::Error,
            _ => Self::SquaredError,
        }
    }

    /// Returns whether the forest's values are probabilities of classes.
    fn gives_probabilities(forest: &Forest) -> bool {
        use Transform as T;
        match forest.transform {
            T::Sigmoid | T::Softmax | T::SoftmaxZero | T::SigmoidPair | T::ComplementPair => true,
            // The averaged leaves of scikit-learn's classifiers are shares of classes.
            T::Identity => {
                forest.classes.rule == ClassRule::Largest && &*forest.producer.library == "scikit-learn"
            }
            _ => false,
        }
    }

    /// Checks that the metric fits a forest whose rows have `width` values each and one label.
    ///
    /// # Errors
    /// [`Error::Insight`]: the metric does not fit.
    pub fn check(self, forest: &Forest, width: usize) -> Result<()> {
        let refused = |why: String| Err(Error::Insight(format!("the metric {self}: {why}")));
        let is_over = matches!(forest.classes.rule, ClassRule::Over { .. });
        let several_labels = is_over && width > 1 && !forest.transform.is_pair();
        match self {
            _ if several_labels => {
                refused("a row of this model has several labels, and a label is one number".into())
            }
            Self::LogLoss if !Self::gives_probabilities(forest) => refused(format!(
                "the model's values are no probabilities ({}); use {}",
                forest.transform.name(),
                Self::of(forest)
            )),
            Self::Error if forest.classes.rule == ClassRule::None => {
                refused(format!("the model has no classes; use {}", Self::of(forest)))
            }
            Self::SquaredError | Self::AbsoluteError if width != 1 => {
                let remedy = match forest.classes.rule {
                    ClassRule::None => "score its outputs one by one in Rust".to_owned(),
                    _ => format!("use {}", Self::of(forest)),
                };
                refused(format!(
                    "a row of this model has {width} values, and a label is one number; {remedy}"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the mean loss of values, `rows x width`. A label is the number of a class, from 0, for a classifier, and
    /// the target otherwise. [`check`](Self::check) must have passed.
    pub fn loss(self, forest: &Forest, values: &[f32], labels: &[f64]) -> f64 {
        let width = values.len().checked_div(labels.len()).unwrap_or(0).max(1);
        let rows = values.chunks_exact(width).zip(labels);
        let sum: f64 = match self {
            Self::LogLoss => rows.map(|(row, label)| log_loss(row, *label)).sum(),
            Self::Error => rows.map(|(row, label)| f64::from(class(forest, row) != *label)).sum(),
            Self::SquaredError => rows.map(|(row, label)| (f64::from(row[0]) - label).powi(2)).sum(),
            Self::AbsoluteError => rows.map(|(row, label)| (f64::from(row[0]) - label).abs()).sum(),
        };
        sum / labels.len().max(1) as f64
    }
}

/// Returns the log loss of a row. If there is a single value, it is the probability of class 1, and the label may lie
/// between 0 and 1. Otherwise a label that is the number of no class has the greatest loss.
fn log_loss(row: &[f32], label: f64) -> f64 {
    let ln = |p: f64| p.clamp(LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY).ln();
    match row {
        [p] => -(label * ln(f64::from(*p)) + (1.0 - label) * ln(1.0 - f64::from(*p))),
        _ => {
            let of_label = row.iter().enumerate().find(|(class, _)| *class as f64 == label);
            -of_label.map_or(ln(0.0), |(_, p)| ln(f64::from(*p)))
        }
    }
}

/// Returns the class of a row's values.
fn class(forest: &Forest, row: &[f32]) -> f64 {
    match (forest.classes.rule, row) {
        // Of a pair, the second value is that of class 1.
        (ClassRule::Over { threshold }, [value] | [_, value]) => f64::from(f64::from(*value) > threshold.0),
        (_, [value]) => f64::from(*value),
        _ => {
            let largest = (1..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best });
            largest as f64
        }
    }
}
