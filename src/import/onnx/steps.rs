//! What operators after the trees do to scores and labels.

use std::rc::Rc;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Place};
use super::at;
use super::labels::Labels;
use super::proto::{self, Bytes, TensorProto};

/// A step from scores to scores.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The place and name of its operator.
    pub(super) place: String,
    pub(super) operator: String,
    pub(super) does: ScoreOperation,
}

#[derive(Clone, Debug)]
pub(super) enum ScoreOperation {
    /// With a tensor of one number, or of one for each column.
    Arithmetic(Sign, Bytes),
    Exp,
    Sigmoid,
    Softmax,
    /// Divided by the row's sum of magnitudes.
    NormalizeL1,
}

/// What is done with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Multiply,
    Divide,
    Add,
    Subtract,
}

/// Steps one after the other. A file may lead many ways from one score, so they share what they have in common, and
/// what they name is decoded when it is needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps(Option<Rc<(Step, Self)>>);

impl Steps {
    /// These and one more.
    pub(super) fn then(&self, step: Step) -> Self {
        Self(Some(Rc::new((step, self.clone()))))
    }

    /// The last one first.
    fn backwards(&self) -> impl Iterator<Item = &Step> {
        std::iter::successors(self.0.as_deref(), |link| link.1.0.as_deref()).map(|link| &link.0)
    }

    /// The steps in their order.
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
    /// The numbers of its tensor, if they are for columns: one, or one a column.
    pub(super) fn numbers(&self, tensor: &Bytes, columns: usize) -> Result<Option<Vec<f64>>, ImportError> {
        let tensor: TensorProto = proto::decode(tensor.clone(), &self.place)?;
        // A tensor of many rows, or one that gives the scores another axis, has no number for each column.
        let of_columns = matches!(tensor.dims.as_slice(), [] | [_] | [1, _]);
        let numbers = proto::numbers(&tensor, &self.place)?;
        Ok(Some(numbers).filter(|n| of_columns && (n.len() == 1 || n.len() == columns)))
    }
}

/// What classes are called, in their order.
#[derive(Clone, Debug)]
pub(super) enum Names {
    Tensor(Bytes),
    /// Texts, or integers as such.
    List {
        names: Rc<[String]>,
        words: bool,
    },
}

impl Names {
    pub(super) fn read(&self, place: &str, budget: &Budget<'_>) -> Result<Labels, ImportError> {
        let (texts, words): (Vec<String>, bool) = match self {
            Self::List { names, words } => (names.to_vec(), *words),
            Self::Tensor(tensor) => {
                let tensor: TensorProto = proto::decode(tensor.clone(), place)?;
                match tensor.data_type {
                    8 => {
                        let names = tensor.string_data.iter();
                        (names.map(|s| String::from_utf8_lossy(s).into_owned()).collect(), true)
                    }
                    6 | 7 => {
                        let numbers = proto::numbers(&tensor, place)?;
                        (numbers.iter().map(|v| (*v as i64).to_string()).collect(), false)
                    }
                    _ => {
                        return Err(at(
                            ErrorKind::Schema,
                            place,
                            "names of classes that are no strings or integers",
                        ));
                    }
                }
            }
        };
        budget.outputs(texts.len(), || Place::Field(place.into()))?;
        texts.iter().try_for_each(|name| budget.string(name.len(), || Place::Field(place.into())))?;
        Ok(Labels { texts, words })
    }
}

/// Where labels come from.
#[derive(Clone, Debug)]
pub(super) struct Label {
    /// The operator's own label, or the index of the largest score after these steps.
    pub(super) largest_after: Option<Steps>,
    /// What the classes are called, where the graph says it anew.
    pub(super) names: Option<Names>,
}
