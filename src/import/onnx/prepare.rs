//! Steps before the trees that are folded into their thresholds: scalers, arithmetic with constants,
//! selections of columns.

use std::rc::Rc;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::attributes::Attributes;
use super::error::at;
use super::graph::unsupported;
use super::proto::{self, Bytes, ElementType, NodeProto, TensorProto};
use crate::forest::{CompareType, Operation, Prologue};

/// The steps from the graph's input to the trees' input, as a linked list. A file may branch, so paths share
/// their common beginning. A step's tensors are decoded when they are needed.
#[derive(Clone, Debug, Default)]
pub(super) struct PreparationSteps(Option<Rc<(PreparationStep, Self)>>);

#[derive(Clone, Debug)]
struct PreparationStep {
    location: String,
    operator: String,
    does: Preparation,
}

/// What an operator does to rows.
#[derive(Clone, Debug)]
pub(super) enum Preparation {
    /// Arithmetic with a tensor of one number, or of one number for each column, in the given type.
    Arithmetic(Operation, Bytes, CompareType),
    /// A `Scaler` with these attributes, on rows of the given type.
    Scaler(Vec<Bytes>, CompareType),
    /// A selection of columns, by a tensor of column numbers.
    Columns(Bytes),
    /// Rounding to float.
    Single,
}

/// The decoded steps.
pub(super) struct DecodedPreparation {
    pub(super) steps: Vec<Prologue>,
    /// The number of columns that reach the trees, if the steps or the file say it.
    pub(super) columns: Option<u64>,
}

impl Preparation {
    /// Returns what a node does to rows of type `given`, or `None` if it is not such a step. `own` says
    /// whether the node is in ONNX's own domain, `constant` is its other input, and `swapped` says whether
    /// the constant is the first input.
    pub(super) fn of(
        location: &str,
        own: bool,
        node: &NodeProto,
        constant: Option<&Bytes>,
        swapped: bool,
        given: ElementType,
    ) -> Result<Option<Self>, ImportError> {
        let precision = match given {
            ElementType::Float => CompareType::F32,
            ElementType::Double => CompareType::F64,
            _ => return Ok(None),
        };
        let arithmetic = |operation| constant.map(|c| Self::Arithmetic(operation, c.clone(), precision));
        Ok(match (own, node.op_type.as_str(), swapped) {
            (true, "Add", _) => arithmetic(Operation::Add),
            (true, "Mul", _) => arithmetic(Operation::Multiply),
            (true, "Sub", false) => arithmetic(Operation::Subtract),
            (true, "Div", false) => arithmetic(Operation::Divide),
            (false, "Scaler", false) if constant.is_none() => {
                Some(Self::Scaler(node.attribute.clone(), precision))
            }
            (false, "ArrayFeatureExtractor", false) => constant.cloned().map(Self::Columns),
            (true, "Gather", false) => {
                // Axis 0, the default, selects rows.
                let mut attributes = Attributes::read(&node.attribute, location.into(), &["axis"])?;
                let columns = matches!(attributes.int("axis"), Some(1 | -1));
                constant.cloned().filter(|_| columns).map(Self::Columns)
            }
            _ => None,
        })
    }
}

impl PreparationSteps {
    /// Returns these steps and one more.
    pub(super) fn then(&self, location: &str, operator: String, does: Preparation) -> Self {
        Self(Some(Rc::new((PreparationStep { location: location.into(), operator, does }, self.clone()))))
    }

    /// Returns these steps and a rounding to float. A second rounding in a row is left out, so that a file
    /// can't make many steps of it.
    pub(super) fn cast(&self) -> Self {
        if self.backwards().next().is_some_and(|last| matches!(last.does, Preparation::Single)) {
            return self.clone();
        }
        self.then("", String::new(), Preparation::Single)
    }

    fn backwards(&self) -> impl Iterator<Item = &PreparationStep> {
        std::iter::successors(self.0.as_deref(), |link| link.1.0.as_deref()).map(|link| &link.0)
    }

    pub(super) fn len(&self) -> usize {
        self.backwards().count()
    }

    /// Decodes the steps, for a graph input of `raw` columns. Returns `None` if the only steps are roundings
    /// to float, which the forest's compare type expresses alone.
    pub(super) fn read(
        &self,
        raw: Option<u64>,
        budget: &mut Budget<'_>,
    ) -> Result<Option<DecodedPreparation>, ImportError> {
        let mut all: Vec<&PreparationStep> = self.backwards().collect();
        if all.iter().all(|step| matches!(step.does, Preparation::Single)) {
            return Ok(None);
        }
        all.reverse();
        let mut read = DecodedPreparation { steps: Vec::new(), columns: raw };
        all.into_iter().try_for_each(|step| step.read(&mut read, budget))?;
        Ok(Some(read))
    }
}

impl PreparationStep {
    fn read(&self, read: &mut DecodedPreparation, budget: &mut Budget<'_>) -> Result<(), ImportError> {
        match &self.does {
            Preparation::Single => read.steps.push(Prologue::Cast(CompareType::F32)),
            Preparation::Arithmetic(operation, tensor, precision) => {
                let numbers = self.numbers(tensor, budget)?;
                self.arithmetic(read, *operation, numbers, *precision)?;
            }
            Preparation::Scaler(attributes, precision) => {
                let mut attributes =
                    Attributes::read(attributes, self.location.clone(), &["offset", "scale"])?;
                let [offset, scale] = ["offset", "scale"].map(|name| attributes.floats(name));
                if offset.len() != scale.len() {
                    let cause = format!("{} offsets and {} scales", offset.len(), scale.len());
                    return Err(at(ErrorKind::Structure, self.location.as_str(), cause));
                }
                for numbers in [&offset, &scale] {
                    budget.prologue(numbers.len(), || Location::Field(self.location.clone()))?;
                }
                self.arithmetic(read, Operation::Subtract, offset, *precision)?;
                self.arithmetic(read, Operation::Multiply, scale, *precision)?;
                if *precision == CompareType::F64 {
                    read.steps.push(Prologue::Cast(CompareType::F32));
                }
            }
            Preparation::Columns(tensor) => {
                let numbers = self.numbers(tensor, budget)?;
                let column = |number: &f64| {
                    let number = match (*number < 0.0, read.columns) {
                        (true, Some(columns)) => number + columns as f64,
                        _ => *number,
                    };
                    // Refuse column numbers from 2^24 on, whatever the limits.
                    (0.0..f64::from(1 << 24)).contains(&number).then_some(number as u32)
                };
                let columns: Option<Vec<u32>> = numbers.iter().map(column).collect();
                let Some(columns) = columns else {
                    let cause = "a column number is below zero, or not below 2^24";
                    return Err(at(ErrorKind::Value, self.location.as_str(), cause));
                };
                let asked = columns.iter().max().map_or(0, |c| u64::from(*c) + 1);
                let width = usize::try_from(read.columns.unwrap_or(asked)).unwrap_or(usize::MAX);
                budget.features(width, || Location::Field(self.location.clone()))?;
                read.columns = Some(columns.len() as u64);
                read.steps.push(Prologue::Columns { columns, width });
            }
        }
        Ok(())
    }

    fn arithmetic(
        &self,
        read: &mut DecodedPreparation,
        operation: Operation,
        numbers: Vec<f64>,
        precision: CompareType,
    ) -> Result<(), ImportError> {
        if numbers.is_empty() {
            return Err(at(ErrorKind::Structure, self.location.as_str(), "no numbers to compute with"));
        }
        if numbers.len() > 1 {
            let columns = *read.columns.get_or_insert(numbers.len() as u64);
            if columns != numbers.len() as u64 {
                let cause = format!("{} numbers for {columns} columns", numbers.len());
                return Err(at(ErrorKind::Structure, self.location.as_str(), cause));
            }
        }
        read.steps.push(Prologue::Arithmetic { operation, numbers, precision });
        Ok(())
    }

    /// Decodes a tensor that holds one number for all columns, or a list of one number for each. Charges its
    /// size to the budget, because many steps may name one tensor and so ask for more numbers than the file
    /// holds.
    fn numbers(&self, tensor: &Bytes, budget: &mut Budget<'_>) -> Result<Vec<f64>, ImportError> {
        let tensor: TensorProto = proto::decode(tensor.clone(), &self.location)?;
        let single = matches!(self.does, Preparation::Arithmetic(..));
        match tensor.dims.as_slice() {
            [_] | [1, _] => {}
            [] if single => {}
            _ => {
                let why = " before the trees with a constant of that shape";
                return Err(unsupported(self.location.as_str(), &self.operator, why));
            }
        }
        let claimed = tensor.dims.last().map_or(1, |n| usize::try_from(*n).unwrap_or(0));
        budget.prologue(claimed, || Location::Field(self.location.clone()))?;
        proto::numbers(&tensor, &self.location)
    }
}
