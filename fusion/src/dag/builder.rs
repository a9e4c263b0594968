//! Expressions in Rust that become a graph.

use std::{cell::RefCell, collections::HashMap, ops};

use super::{
    model::{Dag, Node, NodeId, Output},
    operator::{Aggregation, Binary, Direction, Format, Number, Operator, Unary},
    sizes::{Shape, Size, size_of},
};
use crate::FusionError;

#[derive(Default)]
struct State {
    nodes: Vec<Node>,
    sizes: Vec<Size>,
    outputs: Vec<Output>,
    known: HashMap<Node, NodeId>,
    error: Option<FusionError>,
}

/// Collects the nodes of expressions. A subexpression that is written twice becomes one node.
///
/// ```
/// use fangorn_fusion::dag::Builder;
///
/// let builder = Builder::new();
/// let (x, y) = (builder.dense("X", 1000, 10), builder.csr("Y", 1000, 10, 0.1));
/// let loss = (x * y).sum() + (x * y).sum_of_squares();
/// builder.output("loss", loss);
/// let dag = builder.finish()?;
/// // X * Y, its two aggregates and their sum.
/// assert_eq!(dag.nodes().len(), 2 + 4);
/// # Ok::<(), fangorn_fusion::FusionError>(())
/// ```
#[derive(Default)]
pub struct Builder {
    state: RefCell<State>,
}

/// The result of one node of a builder. `+`, `-`, `*` and `/` work element by element.
#[derive(Clone, Copy)]
pub struct Expression<'b> {
    builder: &'b Builder,
    node: NodeId,
}

impl Builder {
    /// Makes a builder without nodes.
    pub fn new() -> Self {
        Self::default()
    }

    fn push(&self, operator: Operator, inputs: Vec<NodeId>) -> Expression<'_> {
        let mut state = self.state.borrow_mut();
        let node = Node { operator, inputs };
        if let Some(known) = state.known.get(&node) {
            return Expression { builder: self, node: *known };
        }
        let of_inputs: Vec<(&Operator, Size)> =
            node.inputs.iter().map(|input| (&state.nodes[*input].operator, state.sizes[*input])).collect();
        let (at, size) = (state.nodes.len(), size_of(&node.operator, &of_inputs));
        let size = size.unwrap_or_else(|problem| {
            // The first problem is the one to report; others may follow from it.
            state.error.get_or_insert(FusionError::Node { node: at, problem });
            Size { shape: (1, 1), format: Format::Dense, filled: 1.0 }
        });
        state.sizes.push(size);
        state.nodes.push(node.clone());
        state.known.insert(node, at);
        Expression { builder: self, node: at }
    }

    /// Adds a dense input with a name and a number of rows and columns.
    pub fn dense(&self, name: &str, rows: usize, columns: usize) -> Expression<'_> {
        self.input(name, (rows, columns), Format::Dense, 1.0)
    }

    /// Adds an input in CSR with a name and a number of rows and columns. `filled` is the expected share of its
    /// elements that are not 0, from 0 to 1.
    pub fn csr(&self, name: &str, rows: usize, columns: usize, filled: f64) -> Expression<'_> {
        self.input(name, (rows, columns), Format::Csr, filled)
    }

    /// Adds a compressed input with a name and a number of rows and columns. `bytes` is its expected memory, for which
    /// plans are chosen: [`Matrix::bytes`](crate::Matrix::bytes) of the matrix, or of a similar one.
    ///
    /// ```
    /// use fangorn_fusion::{
    ///     Bindings, DenseMatrix, Matrix,
    ///     dag::Builder,
    ///     select::{Costs, Plan, Policy},
    /// };
    ///
    /// let dense = DenseMatrix::new((1000, 1), (0..1000).map(|row| f64::from(row % 2)).collect());
    /// let compressed = Matrix::compress(&dense.expect("1000 elements"));
    /// let builder = Builder::new();
    /// builder.output("sum", builder.compressed("X", 1000, 1, compressed.bytes()).square().sum());
    /// let dag = builder.finish()?;
    /// let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
    /// let sum = plan.run(&dag, &Bindings::from([("X".to_owned(), compressed)]))?["sum"].scalar();
    /// assert_eq!(sum, 500.0);
    /// # Ok::<(), fangorn_fusion::FusionError>(())
    /// ```
    pub fn compressed(&self, name: &str, rows: usize, columns: usize, bytes: u64) -> Expression<'_> {
        self.input(name, (rows, columns), Format::Compressed { bytes }, 1.0)
    }

    fn input(&self, name: &str, shape: Shape, format: Format, filled: f64) -> Expression<'_> {
        let operator = Operator::Input { name: name.to_owned(), shape, format, filled: Number(filled) };
        self.push(operator, Vec::new())
    }

    /// Adds a number.
    pub fn literal(&self, value: f64) -> Expression<'_> {
        self.push(Operator::Literal(Number(value)), Vec::new())
    }

    /// Makes an expression an output, which runs return under its name.
    pub fn output(&self, name: &str, value: Expression<'_>) {
        self.state.borrow_mut().outputs.push(Output { name: name.to_owned(), node: value.node });
    }

    /// Returns the graph. It holds all inputs, and of the other nodes those that an output needs.
    ///
    /// # Errors
    /// The inputs of an expression don't fit its operator, two inputs or two outputs share a name, or there is no
    /// output.
    pub fn finish(self) -> Result<Dag, FusionError> {
        let State { nodes, mut outputs, error, .. } = self.state.into_inner();
        if let Some(error) = error {
            return Err(error);
        }
        let mut needed: Vec<bool> =
            nodes.iter().map(|node| matches!(node.operator, Operator::Input { .. })).collect();
        outputs.iter().for_each(|output| needed[output.node] = true);
        for at in (0..nodes.len()).rev() {
            if needed[at] {
                nodes[at].inputs.iter().for_each(|input| needed[*input] = true);
            }
        }
        let mut renumbered = vec![0; nodes.len()];
        let mut kept = Vec::new();
        for (at, mut node) in nodes.into_iter().enumerate() {
            if needed[at] {
                renumbered[at] = kept.len();
                node.inputs.iter_mut().for_each(|input| *input = renumbered[*input]);
                kept.push(node);
            }
        }
        outputs.iter_mut().for_each(|output| output.node = renumbered[output.node]);
        Dag::new(kept, outputs)
    }
}

impl<'b> Expression<'b> {
    /// Returns the number of the expression's node in the builder. The graph may number the node differently, because
    /// it leaves out what no output needs.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns the number of rows and of columns.
    pub fn shape(&self) -> Shape {
        self.builder.state.borrow().sizes[self.node].shape
    }

    fn unary(self, unary: Unary) -> Self {
        self.builder.push(Operator::Unary(unary), vec![self.node])
    }

    /// Applies a function to the elements of two expressions, or of an expression and a number.
    pub fn binary(self, binary: Binary, other: impl Operand<'b>) -> Self {
        let other = other.expression(self.builder);
        self.builder.push(Operator::Binary(binary), vec![self.node, other.node])
    }

    /// Absolute values.
    pub fn abs(self) -> Self {
        self.unary(Unary::Abs)
    }

    /// e to the power of each element.
    pub fn exp(self) -> Self {
        self.unary(Unary::Exp)
    }

    /// Natural logarithms.
    pub fn log(self) -> Self {
        self.unary(Unary::Log)
    }

    /// Square roots.
    pub fn sqrt(self) -> Self {
        self.unary(Unary::Sqrt)
    }

    /// Squares.
    pub fn square(self) -> Self {
        self.unary(Unary::Square)
    }

    /// The sign of each element: -1, 0 or 1. The sign of NaN is NaN.
    pub fn sign(self) -> Self {
        self.unary(Unary::Sign)
    }

    /// `1 / (1 + exp(-x))`.
    pub fn sigmoid(self) -> Self {
        self.unary(Unary::Sigmoid)
    }

    /// 1 where this is greater than the other, else 0.
    pub fn greater(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Greater, other)
    }

    /// 1 where this is less than the other, else 0.
    pub fn less(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Less, other)
    }

    /// 1 where this differs from the other, else 0.
    pub fn not_equal(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::NotEqual, other)
    }

    /// The lesser of two elements; NaN if one of them is.
    pub fn min(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Min, other)
    }

    /// The greater of two elements; NaN if one of them is.
    pub fn max(self, other: impl Operand<'b>) -> Self {
        self.binary(Binary::Max, other)
    }

    /// The product of two matrices. The inner product `t(x) y` of two columns becomes the sum of `x * y`, which the
    /// Cell template covers (section 3.2 of the paper).
    pub fn matmul(self, other: Self) -> Self {
        let inner = {
            let state = self.builder.state.borrow();
            let left = &state.nodes[self.node];
            let scalar = self.shape().0 == 1 && other.shape().1 == 1 && self.shape().1 == other.shape().0;
            (scalar && left.operator == Operator::Transpose).then(|| left.inputs[0])
        };
        match inner {
            Some(node) => (Self { node, ..self } * other).sum(),
            None => self.builder.push(Operator::MatMul, vec![self.node, other.node]),
        }
    }

    /// The transposed matrix. Transposing twice gives the expression itself.
    pub fn transpose(self) -> Self {
        let back = {
            let state = self.builder.state.borrow();
            let node = &state.nodes[self.node];
            (node.operator == Operator::Transpose).then(|| node.inputs[0])
        };
        match back {
            Some(node) => Self { node, ..self },
            None => self.builder.push(Operator::Transpose, vec![self.node]),
        }
    }

    /// An aggregate of each row, of each column or of all elements.
    pub fn aggregate(self, aggregation: Aggregation, direction: Direction) -> Self {
        self.builder.push(Operator::Aggregate(aggregation, direction), vec![self.node])
    }

    /// The sum of all elements.
    pub fn sum(self) -> Self {
        self.aggregate(Aggregation::Sum, Direction::Full)
    }

    /// The sum of the squares of all elements.
    pub fn sum_of_squares(self) -> Self {
        self.aggregate(Aggregation::SumOfSquares, Direction::Full)
    }

    /// The sum of each row.
    pub fn row_sums(self) -> Self {
        self.aggregate(Aggregation::Sum, Direction::Row)
    }

    /// The sum of each column.
    pub fn column_sums(self) -> Self {
        self.aggregate(Aggregation::Sum, Direction::Column)
    }

    /// The columns from `start` to the one before `end`, counted from 0.
    pub fn columns(self, start: usize, end: usize) -> Self {
        self.builder.push(Operator::Columns { start, end }, vec![self.node])
    }
}

/// The second operand of an operator: an expression or a number.
pub trait Operand<'b> {
    /// Returns the operand as an expression of the builder.
    fn expression(self, builder: &'b Builder) -> Expression<'b>;
}

impl<'b> Operand<'b> for Expression<'b> {
    fn expression(self, builder: &'b Builder) -> Self {
        let mut state = builder.state.borrow_mut();
        if !std::ptr::eq(self.builder, builder) {
            let problem = "an expression of another builder; make both with one".to_owned();
            let node = state.nodes.len();
            state.error.get_or_insert(FusionError::Node { node, problem });
            return Self { builder, node: 0 };
        }
        self
    }
}

impl<'b> Operand<'b> for f64 {
    fn expression(self, builder: &'b Builder) -> Expression<'b> {
        builder.literal(self)
    }
}

/// Overloads an operator for expressions and numbers.
macro_rules! overload {
    ($operator:ident, $method:ident, $binary:ident) => {
        impl<'b, T: Operand<'b>> ops::$operator<T> for Expression<'b> {
            type Output = Self;

            fn $method(self, other: T) -> Self {
                self.binary(Binary::$binary, other)
            }
        }

        impl<'b> ops::$operator<Expression<'b>> for f64 {
            type Output = Expression<'b>;

            fn $method(self, other: Expression<'b>) -> Expression<'b> {
                other.builder.literal(self).binary(Binary::$binary, other)
            }
        }
    };
}

overload!(Add, add, Add);
overload!(Sub, sub, Subtract);
overload!(Mul, mul, Multiply);
overload!(Div, div, Divide);

impl ops::Neg for Expression<'_> {
    type Output = Self;

    fn neg(self) -> Self {
        self.unary(Unary::Negate)
    }
}
