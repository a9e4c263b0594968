//! Operators of a graph, and their five kinds.

use std::{fmt, sync::Arc};

use super::{
    linear_leaves::LinearLeaves,
    networks::{Pool, Window},
    tensor::{Dtype, Elements},
    texts::TextOperator,
};
use crate::{forest::Forest, sparse::SparseMatrix};

/// The kind of an operator (CMLCompiler, table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Compares elements and returns truth values.
    Comparison,
    /// Returns indices of elements.
    Indices,
    /// Keeps the order of elements.
    Monotonic,
    /// Combines many elements into one.
    Reduction,
    /// Everything else.
    Arithmetic,
}

impl Kind {
    /// Returns the name in a graph's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Comparison => "comparison",
            Self::Indices => "indices",
            Self::Monotonic => "monotonic",
            Self::Reduction => "reduction",
            Self::Arithmetic => "arithmetic",
        }
    }
}

/// An operator of one operand, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Unary {
    Abs,
    Ceil,
    Cos,
    Erf,
    Exp,
    Floor,
    /// `x` times the probability that a standard normal variable is below `x`.
    Gelu,
    IsNan,
    Log,
    Negate,
    Not,
    Reciprocal,
    Relu,
    /// Rounds half to even.
    Round,
    Sigmoid,
    Sign,
    Sin,
    Sqrt,
    Tanh,
}

impl Unary {
    /// All variants.
    pub const ALL: [Self; 19] = [
        Self::Abs,
        Self::Ceil,
        Self::Cos,
        Self::Erf,
        Self::Exp,
        Self::Floor,
        Self::Gelu,
        Self::IsNan,
        Self::Log,
        Self::Negate,
        Self::Not,
        Self::Reciprocal,
        Self::Relu,
        Self::Round,
        Self::Sigmoid,
        Self::Sign,
        Self::Sin,
        Self::Sqrt,
        Self::Tanh,
    ];
}

/// An operator of two operands, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Minimum,
    Maximum,
    /// The remainder, with the sign of the divisor.
    Modulo,
    And,
    Or,
    Xor,
}

impl Binary {
    /// All variants.
    pub const ALL: [Self; 11] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Power,
        Self::Minimum,
        Self::Maximum,
        Self::Modulo,
        Self::And,
        Self::Or,
        Self::Xor,
    ];
}

/// A comparison of two operands, element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Compare {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    /// All variants.
    pub const ALL: [Self; 5] =
        [Self::Equal, Self::Less, Self::LessOrEqual, Self::Greater, Self::GreaterOrEqual];
}

/// How a reduction combines the elements along its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Reduction {
    Sum,
    Mean,
    Product,
    Minimum,
    Maximum,
    /// The sum of absolute values.
    L1,
    /// The root of the sum of squares.
    L2,
    SumOfSquares,
    LogSumExp,
}

impl Reduction {
    /// All variants.
    pub const ALL: [Self; 9] = [
        Self::Sum,
        Self::Mean,
        Self::Product,
        Self::Minimum,
        Self::Maximum,
        Self::L1,
        Self::L2,
        Self::SumOfSquares,
        Self::LogSumExp,
    ];
}

/// A distance between two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distance {
    /// The sum of squares of differences.
    SquaredEuclidean,
    /// The root of the sum of squares of differences.
    Euclidean,
    /// The sum of absolute differences.
    Manhattan,
    /// The greatest absolute difference.
    Chebyshev,
}

impl Distance {
    /// All variants.
    pub const ALL: [Self; 4] = [Self::SquaredEuclidean, Self::Euclidean, Self::Manhattan, Self::Chebyshev];
}

/// An operator of a graph. Axis 0 is the first dimension, and axis -1 the last.
#[derive(Clone, Debug, PartialEq)]
pub enum Operator {
    /// Applies a function to each element.
    Unary(Unary),
    /// Takes two tensors, which are broadcast against each other, element by element.
    Binary(Binary),
    /// Takes two tensors, which are broadcast against each other, element by element.
    Compare(Compare),
    /// Takes each element from the second operand where the first is true, and from the third elsewhere.
    Where,
    /// Converts the elements to another type.
    Cast(Dtype),
    /// The matrix product over the last two dimensions.
    MatMul,
    /// The matrix product with a sparse weight, which is stored transposed: `outputs x columns`. It gives the results
    /// of [`Operator::MatMul`], also for rows with NaN or infinity.
    SparseMatMul(Arc<SparseMatrix<f64>>),
    /// Combines the elements along some axes into one.
    Reduce {
        /// How the elements are combined.
        how: Reduction,
        /// The axes. Empty for all axes.
        axes: Vec<i64>,
        /// Whether the axes stay in the result, with length 1.
        keep: bool,
    },
    /// The softmax along an axis: exponentials, divided by their sum.
    Softmax {
        /// The axis.
        axis: i64,
    },
    /// The index of the greatest or the least element along an axis.
    ArgExtreme {
        /// The axis.
        axis: i64,
        /// Whether the axis stays in the result, with length 1.
        keep: bool,
        /// Whether to find the greatest element. Otherwise the least is found.
        greatest: bool,
        /// Whether the last of equal elements counts. Otherwise the first counts.
        last: bool,
    },
    /// The greatest or the least `k` elements along an axis, in order, and their indices.
    TopK {
        /// The axis.
        axis: i64,
        /// The number of elements.
        k: usize,
        /// Whether to return the greatest elements. Otherwise the least are returned.
        greatest: bool,
    },
    /// Selects slices of an axis. The second operand holds their indices.
    Gather {
        /// The axis.
        axis: i64,
    },
    /// Selects elements along an axis. The second operand has the shape of the result and holds their indices.
    GatherElements {
        /// The axis.
        axis: i64,
    },
    /// Joins tensors along an axis.
    Concat {
        /// The axis.
        axis: i64,
    },
    /// Changes the shape. A length of -1 becomes the one that fits the number of elements, and a length of 0 stays as
    /// in the operand.
    Reshape(Vec<i64>),
    /// Changes the shape like [`Operator::Reshape`], to the lengths that the second operand holds.
    ReshapeAs,
    /// The cumulative sums along an axis, each element included in its sum.
    CumulativeSum {
        /// The axis.
        axis: i64,
    },
    /// Reorders the dimensions. The list holds, for each dimension of the result, the operand's dimension.
    Transpose(Vec<usize>),
    /// Every `step`th slice of an axis from `start` up to `end`.
    Slice {
        /// The axis.
        axis: i64,
        /// The index of the first slice. A negative index counts from the end.
        start: i64,
        /// The index at which slices end; it is not included. A negative index counts from the end.
        end: i64,
        /// The distance between slices. It is not 0; if it is negative, the slices come in reverse order.
        step: i64,
    },
    /// Inserts dimensions of length 1, which are these dimensions of the result.
    Unsqueeze(Vec<i64>),
    /// Removes these dimensions, whose length is 1. An empty list removes all dimensions of length 1.
    Squeeze(Vec<i64>),
    /// The lengths of the operand's dimensions, as integers.
    Shape,
    /// A tensor that repeats one element. The operand holds its shape.
    Fill(Elements),
    /// Looks each element up in `keys`, and replaces it by the value with the same index. An element that is no key
    /// becomes `other`, or is refused if `other` is empty.
    Lookup {
        /// The keys, all different.
        keys: Elements,
        /// The values, one for each key.
        values: Elements,
        /// The value of elements that are no key, or no element.
        other: Elements,
    },
    /// Distances of each row of the first operand to each row of the second.
    Distances(Distance),
    /// Replaces each missing element of rows by a mean of its column over the nearest of the second operand's rows that
    /// have a value there, as scikit-learn's `KNNImputer` does. The distance of two rows is the root of the sum of
    /// squares of differences in the columns that both have, times the number of columns over the number of these. If
    /// no row has a distance, the mean is that of the whole column; a column without any value stays missing.
    ImputeNeighbors {
        /// The number of nearest rows.
        neighbors: usize,
        /// Whether the mean weighs rows by the inverse of their distances. Otherwise all count alike.
        by_distance: bool,
    },
    /// The probability of each class, `rows x classes`, from that of the first class of each pair, `rows x pairs`:
    /// the second method of Wu, Lin and Weng (Probability estimates for multi-class classification by pairwise
    /// coupling, 2004, section 4), with the number of iterations and the tolerance of LIBSVM.
    CouplePairs {
        /// Number of classes. Pairs come in the order (0, 1), (0, 2), …, (1, 2), ….
        classes: usize,
    },
    /// Selects the slices of an axis for which the second operand, a list of truth values, is true. The list may be
    /// shorter than the axis.
    Compress {
        /// The axis.
        axis: i64,
    },
    /// The first operand with some elements replaced along an axis. The second operand holds their indices, and the
    /// third the new elements.
    ScatterElements {
        /// The axis.
        axis: i64,
    },
    /// The solution of a system of linear equations. The first operand is its square matrix, and the second holds
    /// right-hand sides as columns.
    Solve,
    /// A convolution. The operands are images, `rows x channels x height x width`; filters,
    /// `filters x channels of a group x height x width`; and, optionally, a bias for each filter.
    Convolve {
        /// How the window moves.
        window: Window,
        /// Number of groups of channels. Each group has the same number of filters, and they read no other channels.
        groups: usize,
    },
    /// Combines the pixels of a window that moves over images, channel by channel.
    Pool(Pool),
    /// Scales each line of the last axis to mean 0 and variance 1, multiplies it by the second operand, and adds the
    /// third.
    LayerNorm {
        /// What is added to the variance.
        epsilon: f64,
    },
    /// An operator on texts, or on tokens.
    Texts(TextOperator),
    /// A forest. It returns the values of rows, `rows x width`, and the class number of each row, `rows`.
    Forest(Arc<Forest>),
    /// The leaf slot that each row reaches in each tree of a forest, `rows x trees`. Slots number the leaves of all
    /// trees, in the order of the trees and of their nodes.
    LeafSlots(Arc<Forest>),
    /// A forest whose leaves are linear models. It returns the margins of rows in doubles, `rows x outputs`, and the
    /// leaf id of each row in each tree, `rows x trees`.
    LinearLeaves(Arc<LinearLeaves>),
}

impl Operator {
    /// Returns the kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Compare(_) | Self::Unary(Unary::IsNan | Unary::Not) => Kind::Comparison,
            Self::ArgExtreme { .. } | Self::TopK { .. } => Kind::Indices,
            Self::Softmax { .. }
            | Self::Unary(
                Unary::Sigmoid
                | Unary::Relu
                | Unary::Tanh
                | Unary::Exp
                | Unary::Log
                | Unary::Sqrt
                | Unary::Floor
                | Unary::Ceil
                | Unary::Round
                | Unary::Erf
                | Unary::Sign,
            ) => Kind::Monotonic,
            Self::Reduce { .. } => Kind::Reduction,
            _ => Kind::Arithmetic,
        }
    }

    /// Returns whether the operator skips the zeros of its weight: `use_sparse` of CMLCompiler.
    pub fn skips_zeros(&self) -> bool {
        matches!(self, Self::SparseMatMul(_))
    }

    /// Returns the least and the greatest number of operands.
    pub fn operands(&self) -> (usize, usize) {
        match self {
            Self::Binary(_) | Self::Compare(_) | Self::MatMul | Self::Gather { .. } | Self::Distances(_) => {
                (2, 2)
            }
            Self::ReshapeAs
            | Self::GatherElements { .. }
            | Self::Compress { .. }
            | Self::Solve
            | Self::ImputeNeighbors { .. } => (2, 2),
            Self::Where | Self::ScatterElements { .. } | Self::LayerNorm { .. } => (3, 3),
            Self::Convolve { .. } => (2, 3),
            Self::Concat { .. } => (1, usize::MAX),
            _ => (1, 1),
        }
    }

    /// Returns the number of results.
    pub fn results(&self) -> usize {
        match self {
            Self::TopK { .. } | Self::Forest(_) | Self::LinearLeaves(_) => 2,
            _ => 1,
        }
    }

    /// Returns the operator's forest, or `None` if it has none.
    pub(super) fn forest(&self) -> Option<&Arc<Forest>> {
        match self {
            Self::Forest(forest) | Self::LeafSlots(forest) => Some(forest),
            Self::LinearLeaves(leaves) => Some(leaves.forest()),
            _ => None,
        }
    }

    /// Returns the name in a graph's text.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unary(unary) => match unary {
                Unary::Abs => "abs",
                Unary::Ceil => "ceil",
                Unary::Cos => "cos",
                Unary::Erf => "erf",
                Unary::Exp => "exp",
                Unary::Floor => "floor",
                Unary::Gelu => "gelu",
                Unary::IsNan => "isNan",
                Unary::Log => "log",
                Unary::Negate => "negate",
                Unary::Not => "not",
                Unary::Reciprocal => "reciprocal",
                Unary::Relu => "relu",
                Unary::Round => "round",
                Unary::Sigmoid => "sigmoid",
                Unary::Sign => "sign",
                Unary::Sin => "sin",
                Unary::Sqrt => "sqrt",
                Unary::Tanh => "tanh",
            },
            Self::Binary(binary) => match binary {
                Binary::Add => "add",
                Binary::Subtract => "subtract",
                Binary::Multiply => "multiply",
                Binary::Divide => "divide",
                Binary::Power => "power",
                Binary::Minimum => "minimum",
                Binary::Maximum => "maximum",
                Binary::Modulo => "modulo",
                Binary::And => "and",
                Binary::Or => "or",
                Binary::Xor => "xor",
            },
            Self::Compare(compare) => match compare {
                Compare::Equal => "equal",
                Compare::Less => "less",
                Compare::LessOrEqual => "lessOrEqual",
                Compare::Greater => "greater",
                Compare::GreaterOrEqual => "greaterOrEqual",
            },
            Self::Reduce { how, .. } => match how {
                Reduction::Sum => "reduceSum",
                Reduction::Mean => "reduceMean",
                Reduction::Product => "reduceProduct",
                Reduction::Minimum => "reduceMin",
                Reduction::Maximum => "reduceMax",
                Reduction::L1 => "reduceL1",
                Reduction::L2 => "reduceL2",
                Reduction::SumOfSquares => "reduceSumOfSquares",
                Reduction::LogSumExp => "reduceLogSumExp",
            },
            Self::Distances(distance) => match distance {
                Distance::SquaredEuclidean => "squaredEuclideanDistances",
                Distance::Euclidean => "euclideanDistances",
                Distance::Manhattan => "manhattanDistances",
                Distance::Chebyshev => "chebyshevDistances",
            },
            Self::ImputeNeighbors { .. } => "imputeNeighbors",
            Self::Where => "where",
            Self::Cast(_) => "cast",
            Self::MatMul => "matmul",
            Self::SparseMatMul(_) => "sparseMatmul",
            Self::Softmax { .. } => "softmax",
            Self::ArgExtreme { greatest: true, .. } => "argMax",
            Self::ArgExtreme { greatest: false, .. } => "argMin",
            Self::TopK { .. } => "topK",
            Self::Gather { .. } => "gather",
            Self::GatherElements { .. } => "gatherElements",
            Self::CouplePairs { .. } => "couplePairs",
            Self::Concat { .. } => "concat",
            Self::Reshape(_) => "reshape",
            Self::ReshapeAs => "reshapeAs",
            Self::CumulativeSum { .. } => "cumulativeSum",
            Self::Transpose(_) => "transpose",
            Self::Slice { .. } => "slice",
            Self::Unsqueeze(_) => "unsqueeze",
            Self::Squeeze(_) => "squeeze",
            Self::Shape => "shape",
            Self::Fill(_) => "fill",
            Self::Lookup { .. } => "lookup",
            Self::Compress { .. } => "compress",
            Self::ScatterElements { .. } => "scatterElements",
            Self::Solve => "solve",
            Self::Texts(operator) => operator.name(),
            Self::Convolve { .. } => "convolve",
            Self::Pool(_) => "pool",
            Self::LayerNorm { .. } => "layerNorm",
            Self::LeafSlots(_) => "leafSlots",
            Self::Forest(_) => "forest",
            Self::LinearLeaves(_) => "linearLeaves",
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
