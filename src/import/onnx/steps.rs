//! Operators after the trees, which change scores and labels.

use std::rc::Rc;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::error::at;
use super::labels::Labels;
use super::proto::{self, Bytes, TensorProto};

/// A step from scores to scores.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The path of its operator in the file.
    pub(super) location: String,
    pub(super) operator: String,
    pub(super) does: ScoreOperation,
}

#[derive(Clone, Debug)]
pub(super) enum ScoreOperation {
    /// Arithmetic with a tensor of one number, or of one number for each column.
    Arithmetic(Sign, Bytes),
    Exp,
    Sigmoid,
    Softmax,
    /// Each score is divided by the sum of the row's magnitudes.
    NormalizeL1,
}

/// The operation with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Multiply,
    Divide,
    Add,
    Subtract,
}

/// Steps one after the other, as a linked list. A file may branch from one score many times, so paths share
/// their common beginning. A step's tensors are decoded when they are needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps(Option<Rc<(Step, Self)>>);

impl Steps {
    /// Returns these steps and one more.
    pub(super) fn then(&self, step: Step) -> Self {
        Self(Some(Rc::new((step, self.clone()))))
    }

    /// Returns the steps, the last one first.
    fn backwards(&self) -> impl Iterator<Item = &Step> {
        std::iter::successors(self.0.as_deref(), |link| link.1.0.as_deref()).map(|link| &link.0)
    }

    /// Returns the steps, the first one first.
    pub(super) fn in_order(&self) -> Vec<&Step> {
        let mut steps: Vec<&Step> = self.backwards().collect();
        steps.reverse();
        steps
    }

    pub(super) fn len(&self) -> usize {
        self.backwards().count()
    }
}

impl Step {
    /// Returns the numbers of the step's tensor: one, or one for each column. Returns `None` for a tensor of
    /// another shape.
    pub(super) fn numbers(&self, tensor: &Bytes, columns: usize) -> Result<Option<Vec<f64>>, ImportError> {
        let tensor: TensorProto = proto::decode(tensor.clone(), &self.location)?;
        // A tensor of several rows, or one that adds an axis to the scores, does not have one number for each
        // column.
        let of_columns = matches!(tensor.dims.as_slice(), [] | [_] | [1, _]);
        let numbers = proto::numbers(&tensor, &self.location)?;
        Ok(Some(numbers).filter(|n| of_columns && (n.len() == 1 || n.len() == columns)))
    }
}

/// New names for the classes, in the classes' order.
#[derive(Clone, Debug)]
pub(super) enum Names {
    Tensor(Bytes),
    /// Texts. If `words` is false, they are integers in the file.
    List {
        names: Rc<[String]>,
        words: bool,
    },
}

impl Names {
    pub(super) fn read(&self, location: &str, budget: &Budget<'_>) -> Result<Labels, ImportError> {
        let (texts, words): (Vec<String>, bool) = match self {
            Self::List { names, words } => (names.to_vec(), *words),
            Self::Tensor(tensor) => {
                let tensor: TensorProto = proto::decode(tensor.clone(), location)?;
                match tensor.data_type {
                    8 => {
                        let names = tensor.string_data.iter();
                        (names.map(|s| String::from_utf8_lossy(s).into_owned()).collect(), true)
                    }
                    6 | 7 => {
                        let numbers = proto::numbers(&tensor, location)?;
                        (numbers.iter().map(|v| (*v as i64).to_string()).collect(), false)
                    }
                    _ => {
                        return Err(at(
                            ErrorKind::Schema,
                            location,
                            "names of classes that are no strings or integers",
                        ));
                    }
                }
            }
        };
        budget.outputs(texts.len(), || Location::Field(location.into()))?;
        texts.iter().try_for_each(|name| budget.string(name.len(), || Location::Field(location.into())))?;
        Ok(Labels { texts, words })
    }
}

/// The source of a graph's labels.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// The steps after which the index of the largest score is the label; `None` for the operator's own
    /// label.
    pub(super) largest_after: Option<Steps>,
    /// The names of the classes, if the graph renames them.
    pub(super) names: Option<Names>,
}
