//! Bounds of the integers in a graph's tensors, found without running it.

use super::super::{
    model::Operand,
    operator::{Binary, Operator, Reduction, Unary},
    reduce::axis_of,
    tensor::{Dtype, Elements, Tensor},
};
use super::rebuild::Rebuild;

/// Bounds of a tensor's elements, which are all integers: finite, and none of them missing. Zeros may have a sign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Integers {
    pub(super) least: f64,
    pub(super) greatest: f64,
}

/// Every integer of at most this magnitude is a double.
const EXACT_DOUBLES: f64 = 9_007_199_254_740_992.0;
/// Every integer of at most this magnitude is an `f32`.
pub(super) const EXACT_FLOATS: f64 = 16_777_216.0;

impl Integers {
    const TRUTHS: Self = Self { least: 0.0, greatest: 1.0 };

    /// Returns the greatest absolute value.
    pub(super) fn magnitude(self) -> f64 {
        self.least.abs().max(self.greatest.abs())
    }

    /// Returns the bounds of elements, if all are integers and doubles represent them exactly.
    fn of(elements: &Elements) -> Option<Self> {
        let values = elements.doubles().filter(|values| !values.is_empty())?;
        let integer = |value: &f64| value.fract() == 0.0 && value.abs() < EXACT_DOUBLES;
        values.iter().all(integer).then(|| Self {
            least: values.iter().copied().fold(f64::INFINITY, f64::min),
            greatest: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }

    /// Returns bounds that hold for the elements of both.
    fn or(self, other: Self) -> Self {
        Self { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    /// Returns the bounds of `f` on two intervals, if its extremes are at the intervals' ends.
    fn ends(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let ends = [
            f(self.least, other.least),
            f(self.least, other.greatest),
            f(self.greatest, other.least),
            f(self.greatest, other.greatest),
        ];
        Self {
            least: ends.into_iter().fold(f64::INFINITY, f64::min),
            greatest: ends.into_iter().fold(f64::NEG_INFINITY, f64::max),
        }
    }

    fn within(bound: f64) -> Self {
        Self { least: -bound, greatest: bound }
    }

    /// Returns these bounds if a type holds all integers between them.
    fn held_by(self, dtype: Dtype) -> Option<Self> {
        let holds = match dtype {
            Dtype::Bool => self.least >= 0.0 && self.greatest <= 1.0,
            Dtype::I32 => self.least >= f64::from(i32::MIN) && self.greatest <= f64::from(i32::MAX),
            Dtype::F32 => self.magnitude() <= EXACT_FLOATS,
            Dtype::I64 | Dtype::F64 => self.magnitude() < EXACT_DOUBLES,
            Dtype::Text => false,
        };
        holds.then_some(self)
    }
}

/// The bounds of the tensors of a graph that is being built.
#[derive(Default)]
pub(super) struct KnownIntegers {
    weights: Vec<Option<Option<Integers>>>,
    nodes: Vec<Vec<Option<Integers>>>,
}

impl KnownIntegers {
    /// Returns the bounds of an operand of the new graph, or `None` if it may hold anything but integers.
    pub(super) fn of(&mut self, new: &Rebuild, operand: Operand) -> Option<Integers> {
        while self.nodes.len() < new.graph.nodes.len() {
            let found = self.of_next(new);
            self.nodes.push(found);
        }
        self.of_known(new, operand)
    }

    fn of_known(&mut self, new: &Rebuild, operand: Operand) -> Option<Integers> {
        match operand {
            Operand::Input(_) => of_dtype(new.type_of(operand).dtype),
            Operand::Weight(at) => {
                let at = at as usize;
                self.weights.resize(self.weights.len().max(at + 1), None);
                *self.weights[at].get_or_insert_with(|| Integers::of(new.graph.weights[at].elements()))
            }
            Operand::Node(at, result) => *self.nodes[at as usize].get(result as usize)?,
        }
    }

    /// Returns the bounds of the results of the first node that is not known yet.
    fn of_next(&mut self, new: &Rebuild) -> Vec<Option<Integers>> {
        let at = self.nodes.len();
        let node = &new.graph.nodes[at];
        let result = |result| new.type_of(Operand::Node(at as u32, result)).dtype;
        let mut found = vec![None; node.operator.results()];
        let first = self.first_result(new, &node.operator, &node.operands);
        found[0] = first.and_then(|bounds| bounds.held_by(result(0))).or_else(|| of_dtype(result(0)));
        if let Operator::TopK { axis, .. } = node.operator {
            found[1] = of_indices(new, node.operands[0], axis);
        }
        found
    }

    /// Returns the bounds of an operator's first result, before it is rounded or wrapped to its type.
    fn first_result(&mut self, new: &Rebuild, operator: &Operator, operands: &[Operand]) -> Option<Integers> {
        let (x, second) = (operands[0], operands.get(1).copied());
        match operator {
            Operator::ArgExtreme { axis, .. } => of_indices(new, x, *axis),
            Operator::Fill(with) => Integers::of(with),
            Operator::Lookup { values, other, .. } => {
                let other = Integers::of(other)?;
                Some(if values.is_empty() { other } else { Integers::of(values)?.or(other) })
            }
            Operator::Cast(_)
            | Operator::Gather { .. }
            | Operator::GatherElements { .. }
            | Operator::TopK { .. }
            | Operator::Reshape(_)
            | Operator::ReshapeAs
            | Operator::Transpose(_)
            | Operator::Slice { .. }
            | Operator::Unsqueeze(_)
            | Operator::Squeeze(_)
            | Operator::Unary(Unary::Floor | Unary::Ceil | Unary::Round)
            | Operator::Reduce { how: Reduction::Minimum | Reduction::Maximum, .. } => self.of_known(new, x),
            Operator::Concat { .. } => self.union(new, operands),
            Operator::Where => self.union(new, &operands[1..]),
            Operator::Unary(how) => {
                let Integers { least, greatest } = self.of_known(new, x)?;
                match how {
                    Unary::Negate => Some(Integers { least: -greatest, greatest: -least }),
                    Unary::Abs => {
                        let bound = Integers { least, greatest }.magnitude();
                        Some(Integers { least: 0.0, greatest: bound })
                    }
                    Unary::Relu => Some(Integers { least: least.max(0.0), greatest: greatest.max(0.0) }),
                    Unary::Sign => Some(Integers::within(1.0)),
                    _ => None,
                }
            }
            Operator::Binary(how) => {
                let (a, b) = (self.of_known(new, x)?, self.of_known(new, second?)?);
                match how {
                    Binary::Add => Some(a.ends(b, |a, b| a + b)),
                    Binary::Subtract => Some(a.ends(b, |a, b| a - b)),
                    Binary::Multiply => Some(a.ends(b, |a, b| a * b)),
                    Binary::Minimum => Some(a.ends(b, f64::min)),
                    Binary::Maximum => Some(a.ends(b, f64::max)),
                    _ => None,
                }
            }
            Operator::MatMul => self.sums(new, x, second?).map(Integers::within),
            Operator::SparseMatMul(weights) => {
                let magnitude = self.of_known(new, x)?.magnitude();
                let rows = 0..weights.shape().0;
                let whole = |row| weights.row(row).all(|(_, value)| value.fract() == 0.0);
                let sum = |row| weights.row(row).map(|(_, value)| value.abs()).sum::<f64>();
                let bound = rows.clone().map(sum).fold(0.0, f64::max) * magnitude;
                rows.clone().all(whole).then(|| Integers::within(bound))
            }
            Operator::Reduce { how: Reduction::Sum, axes, .. } => {
                let bound = self.sum_along(new, x, axes)?;
                Some(Integers::within(bound))
            }
            _ => None,
        }
    }

    /// Returns the bounds of an operator's first result in exact arithmetic, if all its operands are integers.
    pub(super) fn of_result(
        &mut self,
        new: &Rebuild,
        operator: &Operator,
        operands: &[Operand],
    ) -> Option<Integers> {
        for operand in operands {
            self.of(new, *operand)?;
        }
        self.first_result(new, operator, operands)
    }

    fn union(&mut self, new: &Rebuild, operands: &[Operand]) -> Option<Integers> {
        let mut all = operands.iter().map(|operand| self.of_known(new, *operand));
        let first = all.next()??;
        all.try_fold(first, |so_far, other| Some(so_far.or(other?)))
    }

    /// Returns a bound of the magnitude of every partial sum of a product's elements, in whatever order they are
    /// added. [`KnownIntegers::of`] must have been called for the operands first.
    pub(super) fn sums(&mut self, new: &Rebuild, a: Operand, b: Operand) -> Option<f64> {
        let of_a = self.of_known(new, a)?.magnitude();
        let of_b = self.of_known(new, b)?.magnitude();
        // The columns of a weight give a tighter bound than its greatest element.
        let of_columns = new.graph.weight_of(b).and_then(greatest_column);
        let sum = match of_columns {
            Some(column) => column * of_a,
            None => new.type_of(a).width()? as f64 * of_a * of_b,
        };
        sum.is_finite().then_some(sum)
    }

    /// Returns a bound of the magnitude of every partial sum along axes. [`KnownIntegers::of`] must have been
    /// called for `x` first.
    pub(super) fn sum_along(&mut self, new: &Rebuild, x: Operand, axes: &[i64]) -> Option<f64> {
        let magnitude = self.of_known(new, x)?.magnitude();
        let shape = new.type_of(x).shape.as_ref()?;
        let all: Vec<i64> = (0..shape.len() as i64).collect();
        let axes = if axes.is_empty() { &all } else { axes };
        let length = |axis: &i64| Some(shape[axis_of(*axis, shape.len()).ok()?]? as f64);
        axes.iter().map(length).try_fold(magnitude, |bound, length| Some(bound * length?))
    }
}

/// Returns the greatest sum of absolute values of a column of a matrix.
fn greatest_column(weight: &Tensor) -> Option<f64> {
    let [_, columns] = *weight.shape() else { return None };
    let mut sums = vec![0.0; columns];
    for row in weight.elements().doubles()?.chunks_exact(columns.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.abs());
    }
    Some(sums.into_iter().fold(0.0, f64::max))
}

/// Returns the bounds of all values of a type, or `None` for any type but `Bool` and `I32`.
fn of_dtype(dtype: Dtype) -> Option<Integers> {
    match dtype {
        Dtype::Bool => Some(Integers::TRUTHS),
        Dtype::I32 => Some(Integers { least: f64::from(i32::MIN), greatest: f64::from(i32::MAX) }),
        _ => None,
    }
}

/// Returns the bounds of indices along an axis.
fn of_indices(new: &Rebuild, x: Operand, axis: i64) -> Option<Integers> {
    let shape = new.type_of(x).shape.as_ref()?;
    let length = shape[axis_of(axis, shape.len()).ok()?]?;
    Some(Integers { least: 0.0, greatest: length.saturating_sub(1) as f64 }).filter(|_| length > 0)
}
