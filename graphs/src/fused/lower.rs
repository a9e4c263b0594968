//! An operation of burn as operators of a graph of linear algebra.
//!
//! A tensor of two dimensions is a matrix, and one of one dimension is a matrix of one row. Booleans are 0 and 1.

use std::collections::HashMap;

use burn::{
    backend::ir::{
        ActivationOperationIr, BaseOperationIr, BinaryOpIr, BoolOperationIr, FloatOperationIr,
        ModuleOperationIr, NumericOperationIr, OperationIr, ScalarIr, ScalarOpIr, ShapeOpIr, TensorId,
        TensorIr, UnaryOpIr,
    },
    tensor::{DType, Shape},
};
use fangorn_fusion::dag::{Aggregation, Binary, Builder, Direction, Expression};

/// The expressions of a graph that tensors became.
pub(super) struct Lowering<'b> {
    pub builder: &'b Builder,
    pub values: HashMap<TensorId, Expression<'b>>,
}

/// Returns the number of rows and of columns of the matrix that a tensor is, or `None` if it is none.
pub(super) fn matrix_shape(shape: &Shape) -> Option<(usize, usize)> {
    let found = match shape.as_slice() {
        [] => (1, 1),
        [columns] => (1, *columns),
        [rows, columns] => (*rows, *columns),
        _ => return None,
    };
    let fits = |length: usize| length > 0 && u32::try_from(length).is_ok();
    (fits(found.0) && fits(found.1)).then_some(found)
}

impl<'b> Lowering<'b> {
    /// Adds an operation, whose result `values` then has. Returns `None` if no operator does the same.
    pub fn add(&mut self, operation: &OperationIr) -> Option<()> {
        let mut outputs = operation.outputs();
        let (out, None) = (outputs.next()?, outputs.next()) else { return None };
        let shape = matrix_shape(&out.shape)?;
        let found = match operation {
            OperationIr::NumericFloat(_, operation) => self.numeric(operation),
            OperationIr::Float(_, operation) => self.float(operation),
            OperationIr::BaseFloat(operation) | OperationIr::BaseBool(operation) => {
                self.base(operation, shape)
            }
            OperationIr::Bool(operation) => self.bool(operation),
            OperationIr::Activation(operation) => self.activation(operation),
            OperationIr::Module(ModuleOperationIr::Linear(linear)) if linear.x.shape.num_dims() == 2 => {
                let product = self.get(&linear.x)?.matmul(self.get(&linear.weight)?);
                match &linear.bias {
                    Some(bias) => Some(product + self.get(bias)?),
                    None => Some(product),
                }
            }
            _ => None,
        };
        let found = found.filter(|found| found.shape() == shape)?;
        self.values.insert(out.id, found);
        Some(())
    }

    fn get(&self, tensor: &TensorIr) -> Option<Expression<'b>> {
        matrix_shape(&tensor.shape)?;
        self.values.get(&tensor.id).copied()
    }

    fn unary(
        &self,
        of: &UnaryOpIr,
        apply: impl Fn(Expression<'b>) -> Expression<'b>,
    ) -> Option<Expression<'b>> {
        self.get(&of.input).map(apply)
    }

    fn binary(&self, of: &BinaryOpIr, binary: Binary) -> Option<Expression<'b>> {
        Some(self.get(&of.lhs)?.binary(binary, self.get(&of.rhs)?))
    }

    fn with_scalar(&self, of: &ScalarOpIr, binary: Binary) -> Option<Expression<'b>> {
        Some(self.get(&of.lhs)?.binary(binary, number_like(of.rhs, &of.lhs)))
    }

    fn numeric(&self, operation: &NumericOperationIr) -> Option<Expression<'b>> {
        use NumericOperationIr as Op;
        // A tensor of one dimension is a row, so its only dimension is the matrix's second.
        let aggregate = |of: &TensorIr, axis: usize, aggregation: Aggregation| {
            let from = self.get(of)?;
            let direction = if axis + 1 == of.shape.num_dims() { Direction::Row } else { Direction::Column };
            Some(from.aggregate(aggregation, direction))
        };
        let whole = |of: &TensorIr, aggregation: Aggregation| {
            Some(self.get(of)?.aggregate(aggregation, Direction::Full))
        };
        match operation {
            Op::Add(of) => self.binary(of, Binary::Add),
            Op::Sub(of) => self.binary(of, Binary::Subtract),
            Op::Mul(of) => self.binary(of, Binary::Multiply),
            Op::Div(of) => self.binary(of, Binary::Divide),
            Op::AddScalar(of) => self.with_scalar(of, Binary::Add),
            Op::SubScalar(of) => self.with_scalar(of, Binary::Subtract),
            Op::MulScalar(of) => self.with_scalar(of, Binary::Multiply),
            Op::DivScalar(of) => self.with_scalar(of, Binary::Divide),
            Op::Greater(of) => self.binary(of, Binary::Greater),
            Op::GreaterEqual(of) => self.binary(of, Binary::GreaterEqual),
            Op::Lower(of) => self.binary(of, Binary::Less),
            Op::LowerEqual(of) => self.binary(of, Binary::LessEqual),
            Op::GreaterElem(of) => self.with_scalar(of, Binary::Greater),
            Op::GreaterEqualElem(of) => self.with_scalar(of, Binary::GreaterEqual),
            Op::LowerElem(of) => self.with_scalar(of, Binary::Less),
            Op::LowerEqualElem(of) => self.with_scalar(of, Binary::LessEqual),
            Op::ClampMin(of) => self.with_scalar(of, Binary::Max),
            Op::ClampMax(of) => self.with_scalar(of, Binary::Min),
            Op::Clamp(of) => {
                let bound = |scalar| number_like(scalar, &of.tensor);
                Some(self.get(&of.tensor)?.max(bound(of.min)).min(bound(of.max)))
            }
            Op::Abs(of) => self.unary(of, Expression::abs),
            Op::Neg(of) => self.unary(of, |x| -x),
            // The sign of NaN is 0, as in burn.
            Op::Sign(of) => self.unary(of, |x| x.greater(0.0) - x.less(0.0)),
            Op::PowiScalar(of) => power(self.get(&of.lhs)?, number(of.rhs)),
            Op::Sum(of) => whole(&of.input, Aggregation::Sum),
            Op::Max(of) => whole(&of.input, Aggregation::Max),
            Op::Min(of) => whole(&of.input, Aggregation::Min),
            Op::Mean(of) => {
                let count = of.input.shape.num_elements() as f64;
                Some(whole(&of.input, Aggregation::Sum)? / count)
            }
            Op::SumDim(of) => aggregate(&of.input, of.axis, Aggregation::Sum),
            Op::MaxDim(of) => aggregate(&of.input, of.axis, Aggregation::Max),
            Op::MinDim(of) => aggregate(&of.input, of.axis, Aggregation::Min),
            Op::MeanDim(of) => {
                let count = of.input.shape[of.axis] as f64;
                Some(aggregate(&of.input, of.axis, Aggregation::Sum)? / count)
            }
            _ => None,
        }
    }

    fn float(&self, operation: &FloatOperationIr) -> Option<Expression<'b>> {
        use FloatOperationIr as Op;
        match operation {
            Op::Exp(of) => self.unary(of, Expression::exp),
            Op::Log(of) => self.unary(of, Expression::log),
            Op::Sqrt(of) => self.unary(of, Expression::sqrt),
            Op::Recip(of) => self.unary(of, |x| 1.0 / x),
            Op::PowfScalar(of) => power(self.get(&of.lhs)?, number(of.rhs)),
            Op::Matmul(of) if of.lhs.shape.num_dims() == 2 && of.rhs.shape.num_dims() == 2 => {
                Some(self.get(&of.lhs)?.matmul(self.get(&of.rhs)?))
            }
            _ => None,
        }
    }

    fn base(&self, operation: &BaseOperationIr, shape: (usize, usize)) -> Option<Expression<'b>> {
        use BaseOperationIr as Op;
        match operation {
            Op::SwapDims(of) => {
                let from = self.get(&of.input)?;
                Some(if of.dim1 == of.dim2 { from } else { from.transpose() })
            }
            Op::Permute(of) => {
                let from = self.get(&of.input)?;
                Some(if of.axes.is_sorted() { from } else { from.transpose() })
            }
            Op::Reshape(of) | Op::Expand(of) => self.reshaped(of, shape),
            Op::Slice(of) => {
                let (rows, columns) = matrix_shape(&of.tensor.shape)?;
                let whole = |slice: &burn::tensor::Slice, length: usize| {
                    let range = range(slice, length)?;
                    (range == (0, length)).then_some(())
                };
                let columns = match &of.ranges[..] {
                    [only] if of.tensor.shape.num_dims() == 1 => range(only, columns)?,
                    [of_rows] => {
                        whole(of_rows, rows)?;
                        (0, columns)
                    }
                    [of_rows, of_columns] => {
                        whole(of_rows, rows)?;
                        range(of_columns, columns)?
                    }
                    _ => return None,
                };
                Some(self.get(&of.tensor)?.columns(columns.0, columns.1))
            }
            Op::Cast(of) if matches!(of.out.dtype, DType::F32 | DType::F64) => self.get(&of.input),
            Op::Equal(of) => self.binary(of, Binary::Equal),
            Op::NotEqual(of) => self.binary(of, Binary::NotEqual),
            Op::EqualElem(of) => self.with_scalar(of, Binary::Equal),
            Op::NotEqualElem(of) => self.with_scalar(of, Binary::NotEqual),
            // Of booleans; those of numbers are constants.
            Op::Ones(_) if shape == (1, 1) => Some(self.builder.literal(1.0)),
            Op::Zeros(_) if shape == (1, 1) => Some(self.builder.literal(0.0)),
            _ => None,
        }
    }

    /// A row that becomes a column, or a column that becomes a row, is transposed. Other matrices keep their shape.
    fn reshaped(&self, of: &ShapeOpIr, shape: (usize, usize)) -> Option<Expression<'b>> {
        let from = self.get(&of.input)?;
        let (rows, columns) = from.shape();
        if (rows, columns) == shape {
            return Some(from);
        }
        let turns = (columns, rows) == shape && (rows == 1 || columns == 1);
        turns.then(|| from.transpose())
    }

    fn bool(&self, operation: &BoolOperationIr) -> Option<Expression<'b>> {
        use BoolOperationIr as Op;
        match operation {
            Op::IntoFloat(of) => self.get(&of.input),
            Op::Not(of) => self.unary(of, |x| 1.0 - x),
            Op::And(of) => self.binary(of, Binary::Multiply),
            Op::Or(of) => self.binary(of, Binary::Max),
            Op::Xor(of) => self.binary(of, Binary::NotEqual),
            Op::IntoInt(_) => None,
        }
    }

    fn activation(&self, operation: &ActivationOperationIr) -> Option<Expression<'b>> {
        use ActivationOperationIr as Op;
        // Elements less the greatest of their row, and the exponentials of these.
        let shifted = |of: &TensorIr, axis: usize| {
            let from = self.get(of).filter(|_| axis + 1 == of.shape.num_dims())?;
            let shifted = from - from.aggregate(Aggregation::Max, Direction::Row);
            Some((shifted, shifted.exp()))
        };
        match operation {
            Op::Relu(of) => self.unary(of, |x| x.max(0.0)),
            Op::Sigmoid(of) => self.unary(of, Expression::sigmoid),
            Op::Softmax(of) => {
                let (_, exponentials) = shifted(&of.input, of.axis)?;
                Some(exponentials / exponentials.row_sums())
            }
            Op::LogSoftmax(of) => {
                let (shifted, exponentials) = shifted(&of.input, of.axis)?;
                Some(shifted - exponentials.row_sums().log())
            }
            _ => None,
        }
    }
}

/// Returns a power that is a chain of multiplications and divisions, or `None` for others.
fn power(x: Expression<'_>, exponent: f64) -> Option<Expression<'_>> {
    match exponent {
        1.0 => Some(x),
        2.0 => Some(x.square()),
        3.0 => Some(x.square() * x),
        4.0 => Some(x.square().square()),
        -1.0 => Some(1.0 / x),
        -2.0 => Some(1.0 / x.square()),
        _ => None,
    }
}

/// Returns the first place of a slice and the one after its last, or `None` if it leaves places out.
fn range(slice: &burn::tensor::Slice, length: usize) -> Option<(usize, usize)> {
    let place = |at: isize| usize::try_from(if at < 0 { at + length as isize } else { at }).ok();
    let (start, end) = (place(slice.start)?, slice.end.map_or(Some(length), place)?);
    (slice.step == 1 && start < end && end <= length).then_some((start, end))
}

/// Returns a number as burn combines it with a tensor: rounded to the tensor's type.
fn number_like(scalar: ScalarIr, tensor: &TensorIr) -> f64 {
    let exact = number(scalar);
    if tensor.dtype == DType::F32 { f64::from(exact as f32) } else { exact }
}

fn number(scalar: ScalarIr) -> f64 {
    match scalar {
        ScalarIr::Float(x) => x,
        ScalarIr::Int(x) => x as f64,
        ScalarIr::UInt(x) => x as f64,
        ScalarIr::Bool(x) => f64::from(u8::from(x)),
    }
}
