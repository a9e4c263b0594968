//! Operators of a graph, and the five kinds of them that rewrites go by.

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
    /// Compares elements and gives truth values.
    Comparison,
    /// Gives places of elements.
    Indices,
    /// Keeps the order of elements.
    Monotonic,
    /// Makes one element of many.
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
    Erf,
    Exp,
    Floor,
    /// `x` times the part of a normal distribution below `x`.
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
    Sqrt,
    Tanh,
}

impl Unary {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Abs,
        Self::Ceil,
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
    /// All of them.
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
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Equal, Self::Less, Self::LessOrEqual, Self::Greater, Self::GreaterOrEqual];
}

/// What a reduction makes of the elements along an axis.
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
    /// All of them.
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
    /// Its root.
    Euclidean,
    /// The sum of absolute differences.
    Manhattan,
    /// The greatest absolute difference.
    Chebyshev,
}

impl Distance {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::SquaredEuclidean, Self::Euclidean, Self::Manhattan, Self::Chebyshev];
}

/// An operator. Axes count from the first dimension; a negative one counts from the last.
#[derive(Clone, Debug, PartialEq)]
pub enum Operator {
    /// Each element by itself.
    Unary(Unary),
    /// Two tensors, broadcast against each other.
    Binary(Binary),
    /// Two tensors, broadcast against each other.
    Compare(Compare),
    /// The second operand where the first is true, and the third elsewhere.
    Where,
    /// Another type of elements.
    Cast(Dtype),
    /// The product of matrices: of the last two dimensions.
    MatMul,
    /// The product with a weight of which most elements are 0, `outputs x columns`: the matrix of a product, transposed.
    /// It gives what the product of matrices gives, for rows with NaN and infinities too.
    SparseMatMul(Arc<SparseMatrix<f64>>),
    /// Elements along an axis become one. The axis stays with length 1 if `keep` is set.
    Reduce {
        /// What they become.
        how: Reduction,
        /// The axes; empty for all.
        axes: Vec<i64>,
        /// Whether the axes stay.
        keep: bool,
    },
    /// Exponentials along an axis, divided by their sum.
    Softmax {
        /// The axis.
        axis: i64,
    },
    /// The place of the greatest or the least element along an axis; of equal ones the first or the last.
    ArgExtreme {
        /// The axis.
        axis: i64,
        /// Whether the axis stays.
        keep: bool,
        /// Whether the greatest is meant.
        greatest: bool,
        /// Whether the last of equal ones is meant.
        last: bool,
    },
    /// The greatest or the least `k` elements along an axis in order, and their places.
    TopK {
        /// The axis.
        axis: i64,
        /// How many.
        k: usize,
        /// Whether the greatest are meant.
        greatest: bool,
    },
    /// Slices at these places of an axis. Places are the second operand.
    Gather {
        /// The axis.
        axis: i64,
    },
    /// Elements along an axis, at the place that each element of the second operand names.
    GatherElements {
        /// The axis.
        axis: i64,
    },
    /// Tensors one after the other along an axis.
    Concat {
        /// The axis.
        axis: i64,
    },
    /// Another shape of the same elements: -1 for what is left, 0 for the length at the same place.
    Reshape(Vec<i64>),
    /// The shape that the second operand names, as [`Operator::Reshape`] has it.
    ReshapeAs,
    /// Sums of the elements along an axis up to each place.
    CumulativeSum {
        /// The axis.
        axis: i64,
    },
    /// Dimensions in another order.
    Transpose(Vec<usize>),
    /// Every `step`th slice of an axis from `start` up to `end`.
    Slice {
        /// The axis.
        axis: i64,
        /// The first slice.
        start: i64,
        /// The slice after the last one.
        end: i64,
        /// The distance between slices; not 0.
        step: i64,
    },
    /// Dimensions of length 1 at these places of the result.
    Unsqueeze(Vec<i64>),
    /// The shape without these dimensions of length 1; without all such where none are named.
    Squeeze(Vec<i64>),
    /// The lengths of dimensions, as integers.
    Shape,
    /// A tensor of the shape that the operand names, of one repeated element.
    Fill(Elements),
    /// Each element, looked up in `keys`, gives the value at the same place. An element that is no key gives
    /// `other`; without one it is refused.
    Lookup {
        /// The keys, all different.
        keys: Elements,
        /// As many values.
        values: Elements,
        /// One value, or none.
        other: Elements,
    },
    /// Distances of each row of the first operand to each row of the second.
    Distances(Distance),
    /// The probability of each class, `rows x classes`, from that of the first class of each pair, `rows x pairs`:
    /// the second method of Wu, Lin and Weng (Probability estimates for multi-class classification by pairwise
    /// coupling, 2004, section 4), with the number of steps and the tolerance of LIBSVM.
    CouplePairs {
        /// Number of classes. Pairs come in the order (0, 1), (0, 2), …, (1, 2), ….
        classes: usize,
    },
    /// The slices of an axis whose truth value, in the second operand, is true. Truth values may be fewer than slices.
    Compress {
        /// The axis.
        axis: i64,
    },
    /// The first operand with elements of the third along an axis, at the places that the second names.
    ScatterElements {
        /// The axis.
        axis: i64,
    },
    /// The solution of a system of linear equations: a square matrix, and right-hand sides as columns.
    Solve,
    /// The products of each place of a window with each filter: images, `rows x channels x height x width`, filters,
    /// `filters x channels of a group x height x width`, and a number for each filter, which may be left out.
    Convolve {
        /// How the window moves.
        window: Window,
        /// Groups of channels, each with as many filters that see no others.
        groups: usize,
    },
    /// What a window makes of the pixels of images, channel by channel.
    Pool(Pool),
    /// Lines of the last axis with mean 0 and variance 1, times the second operand, plus the third.
    LayerNorm {
        /// What is added to the variance.
        epsilon: f64,
    },
    /// An operator on texts, or on tokens.
    Texts(TextOperator),
    /// A forest on rows: its values, `rows x width`, and its class as a place among its labels, `rows`.
    Forest(Arc<Forest>),
    /// The leaf slot that each row reaches in each tree of a forest, `rows x trees`: its place among the leaves of all
    /// trees, in the order of the trees and of their nodes.
    LeafSlots(Arc<Forest>),
    /// A forest whose leaves are linear models, on rows: its margins in doubles, `rows x outputs`, and the leaf id of
    /// each row in each tree, `rows x trees`.
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

    /// Returns the number of operands, at least and at most.
    pub fn operands(&self) -> (usize, usize) {
        match self {
            Self::Binary(_) | Self::Compare(_) | Self::MatMul | Self::Gather { .. } | Self::Distances(_) => {
                (2, 2)
            }
            Self::ReshapeAs | Self::GatherElements { .. } | Self::Compress { .. } | Self::Solve => (2, 2),
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

    /// Returns the forest of an operator that has one.
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
