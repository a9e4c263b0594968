//! The classes of rows, and their probabilities.

use burn::tensor::{DType, Device, Int, Tensor, TensorData, activation};
use fangorn::{
    Forest,
    forest::{ClassRule, Classes, Targets, Transform, greatest_f32_not_above},
};

use super::ForestModule;
use crate::error::{Error, Result};

impl ForestModule {
    /// Returns the class of each row: `[rows, features]` to `[rows, 1]`, or to `[rows, outputs]` if each
    /// output is a binary classifier of its own. Classes are numbered from 0, and [`labels`](Self::labels)
    /// names them. Of equal margins the first one decides.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward), and [`Error::NoClasses`] if the forest is no classifier.
    pub fn classes(&self, x: Tensor<2>) -> Result<Tensor<2, Int>> {
        classes_by_rule(self.operator()?.forest(), || self.margins(x.clone()), || self.values(x.clone()))
    }

    /// Returns the values and the label of each row from one walk, for classifiers whose labels are integers.
    /// `[rows, features]` becomes the values of [`values`](Self::values), which may round differently in the
    /// transform, and labels of 64 bits, `[rows]`. If the producer has no labels, the labels are the class
    /// numbers.
    ///
    /// # Errors
    /// The errors of [`classes`](Self::classes), and [`Error::Labels`] if a label is no integer or a row has
    /// several classes.
    pub fn values_and_labels(&self, x: Tensor<2>) -> Result<(Tensor<2>, Tensor<1, Int>)> {
        let op = self.operator()?;
        let forest = op.forest();
        let names = integers(&forest.classes)?;
        let margins = self.margins(x)?;
        let values = op.transformed(margins.clone());
        let classes = classes_by_rule(forest, || Ok(margins), || Ok(values.clone()))?;
        let [rows, each] = classes.dims();
        if each != 1 {
            return Err(Error::Labels(format!("a row has {each} of them; ask for its classes")));
        }
        let classes = classes.reshape([rows]);
        let numbered = names.iter().enumerate().all(|(i, name)| *name == i as i64);
        if numbered {
            return Ok((values, classes.cast(DType::I64)));
        }
        let names = TensorData::new(names.clone(), [names.len()]);
        let names = Tensor::<1, Int>::from_data(names, (&classes.device(), DType::I64));
        Ok((values, names.select(0, classes)))
    }

    /// Returns the producer's names of the classes. The list is empty if the classes only have numbers.
    pub fn labels(&self) -> &[String] {
        self.operator_or_none().map_or(&[], |forest| &forest.classes.labels)
    }

    /// Returns the probability of each class: `[rows, features]` to `[rows, classes]`. If each output is a
    /// binary classifier of its own, the result is `[rows, outputs]`, the probabilities of class 1. If each
    /// class was trained against the rest, the probabilities are the producer's and need not add up to one.
    ///
    /// # Errors
    /// The errors of [`forward`](Self::forward), [`Error::NoClasses`] if the forest is no classifier, and
    /// [`Error::NoProbabilities`] if it decides without probabilities.
    pub fn probabilities(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let op = self.operator()?;
        let forest = op.forest();
        if forest.classes.rule == ClassRule::None {
            return Err(Error::NoClasses(forest.producer.objective.clone()));
        }
        let both = |p: Tensor<2>| match op.outputs() {
            1 => Tensor::cat(vec![p.clone().neg().add_scalar(1.0), p], 1),
            _ => p,
        };
        match forest.transform {
            Transform::Sigmoid => Ok(both(self.values(x)?)),
            Transform::Softmax | Transform::SoftmaxZero => self.values(x),
            // The transform keeps only the number of the largest margin, so the probabilities come from the
            // margins.
            Transform::Argmax => {
                let margins = self.margins(x)?;
                Ok(activation::softmax(margins.mul_scalar(forest.scale.0), 1))
            }
            Transform::SigmoidPair | Transform::ComplementPair if op.outputs() == 1 => self.values(x),
            Transform::SigmoidPair | Transform::ComplementPair => Ok(second_of_pairs(self.values(x)?)),
            Transform::Identity if adds_up_to_one(forest) => Ok(both(self.values(x)?)),
            other => Err(Error::NoProbabilities(format!(
                "a forest of objective `{}` decides by values of transform `{}`; ask for its values",
                forest.producer.objective,
                other.name()
            ))),
        }
    }

    fn operator_or_none(&self) -> Option<&Forest> {
        self.operator().ok().map(|op| op.forest())
    }
}

/// Returns the classes of rows. The forest's class rule decides whether it needs the margins or the values.
fn classes_by_rule(
    forest: &Forest,
    margins: impl FnOnce() -> Result<Tensor<2>>,
    values: impl FnOnce() -> Result<Tensor<2>>,
) -> Result<Tensor<2, Int>> {
    match forest.classes.rule {
        ClassRule::None => Err(Error::NoClasses(forest.producer.objective.clone())),
        // Margins stay different where a transform's rounding makes values equal.
        ClassRule::Largest if forest.outputs > 1 => Ok(largest(margins()?.detach())),
        ClassRule::Largest => Ok(values()?.detach().int()),
        ClassRule::Over { threshold } => Ok(over(threshold.0, forest, values()?.detach())),
    }
}

/// Returns the first output with the largest margin, for each row.
fn largest(margins: Tensor<2>) -> Tensor<2, Int> {
    let [rows, outputs] = margins.dims();
    let below = margins.clone().lower(margins.clone().max_dim(1).expand([rows, outputs]));
    let numbers: Vec<i32> = (0..outputs as i32).collect();
    let numbers = TensorData::new(numbers, [1, outputs]);
    let numbers = Tensor::<2, Int>::from_data(numbers, (&margins.device(), DType::I32));
    numbers.expand([rows, outputs]).mask_fill(below, outputs as i32).min_dim(1)
}

/// Returns 1 where a value is over the threshold, otherwise 0. If values come in pairs, the second one is
/// compared.
fn over(threshold: f64, forest: &Forest, values: Tensor<2>) -> Tensor<2, Int> {
    let values = if forest.transform.is_pair() { second_of_pairs(values) } else { values };
    // The same f32 values are over the threshold as over the greatest f32 that is not above the threshold.
    values.greater_elem(greatest_f32_not_above(threshold)).int()
}

/// Returns the labels as integers.
fn integers(classes: &Classes) -> Result<Vec<i64>> {
    classes.integers().ok_or_else(|| {
        let label = classes.labels.iter().find(|label| classes.words || label.parse::<i64>().is_err());
        let label = label.or(classes.labels.first()).map_or("", String::as_str);
        Error::Labels(format!(
            "a class is called `{label}`, which is no integer; ask for the classes' numbers"
        ))
    })
}

/// Returns the second value of each pair of adjacent values. It stands for class 1.
fn second_of_pairs(values: Tensor<2>) -> Tensor<2> {
    let seconds: Vec<i32> = (1..values.dims()[1] as i32).step_by(2).collect();
    let device: Device = values.device();
    let seconds = TensorData::new(seconds.clone(), [seconds.len()]);
    values.select(1, Tensor::<1, Int>::from_data(seconds, (&device, DType::I32)))
}

/// Tells whether leaf values are shares of votes: no leaf value is negative, and no sum can be above one.
fn adds_up_to_one(forest: &Forest) -> bool {
    let scale = forest.scale.0;
    let shares = |v: f64| v * scale >= 0.0;
    if !forest.leaf_values.iter().chain(&forest.base_score).all(|v| shares(v.0)) {
        return false;
    }
    let mut most: Vec<f64> = forest.base_score.iter().map(|b| b.0 * scale).collect();
    for (t, tree) in forest.trees.iter().enumerate() {
        let largest = |lane: usize| {
            let slots = tree.nodes.iter().filter_map(|n| n.slot());
            slots.map(|s| forest.leaf(s)[lane].0 * scale).fold(0.0, f64::max)
        };
        match &forest.targets {
            Targets::One(targets) => most[targets[t] as usize] += largest(0),
            Targets::All => most.iter_mut().enumerate().for_each(|(o, most)| *most += largest(o)),
        }
    }
    most.iter().all(|most| *most <= 1.0 + 1e-6)
}
