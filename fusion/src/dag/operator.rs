//! Operators of linear algebra.

use std::hash::{Hash, Hasher};

use super::functions::{exp, log};

/// A number that is compared by its bits: NaN equals the same NaN, and 0 differs from -0.
#[derive(Clone, Copy, Debug)]
pub struct Number(pub f64);

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Number {}

impl Hash for Number {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// How the elements of a matrix are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// All elements, row-major.
    Dense,
    /// Compressed sparse rows: an element that is not stored is 0.
    Csr,
    /// Groups of columns with dictionaries.
    Compressed {
        /// The expected memory, in bytes. Plans are chosen for it; a run takes a matrix of any memory.
        bytes: u64,
    },
}

impl Format {
    /// Tells whether two formats differ at most in the expected memory.
    pub fn is_kind_of(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// Tells whether the format is compressed.
    pub fn is_compressed(self) -> bool {
        matches!(self, Self::Compressed { .. })
    }
}

/// Declares an enum of operators, with the name that each operator has in the text of a graph.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident { $($(#[$each:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $kind {
            $($(#[$each])* $variant),+
        }

        impl $kind {
            /// All variants.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the operator's name in the text of a graph.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }
    };
}

named! {
    /// A function of each element.
    Unary {
        /// `-x`.
        Negate = "negate",
        /// `|x|`.
        Abs = "abs",
        /// e to the power of x.
        Exp = "exp",
        /// The natural logarithm.
        Log = "log",
        /// The square root.
        Sqrt = "sqrt",
        /// `x * x`.
        Square = "square",
        /// The sign: -1, 0 or 1. The sign of 0 is 0, and that of NaN is NaN.
        Sign = "sign",
        /// `1 / (1 + exp(-x))`.
        Sigmoid = "sigmoid",
    }
}

impl Unary {
    /// Applies the function.
    #[inline(always)]
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Self::Negate => -x,
            Self::Abs => x.abs(),
            Self::Exp => exp(x),
            Self::Log => log(x),
            Self::Sqrt => x.sqrt(),
            Self::Square => x * x,
            Self::Sign => {
                if x == 0.0 || x.is_nan() {
                    x
                } else {
                    x.signum()
                }
            }
            Self::Sigmoid => 1.0 / (1.0 + exp(-x)),
        }
    }

    /// Tells whether the function of 0 is 0.
    pub fn keeps_zero(self) -> bool {
        matches!(self, Self::Negate | Self::Abs | Self::Sqrt | Self::Square | Self::Sign)
    }

    /// Returns about how many floating-point operations one element takes.
    pub fn flops(self) -> f64 {
        match self {
            Self::Negate | Self::Abs | Self::Square | Self::Sign => 1.0,
            Self::Sqrt => 4.0,
            Self::Exp | Self::Log => 20.0,
            Self::Sigmoid => 24.0,
        }
    }
}

/// Returns the lesser of two numbers, or NaN if one of them is, as numpy and burn do.
#[inline(always)]
fn least(x: f64, y: f64) -> f64 {
    if x < y || x.is_nan() { x } else { y }
}

/// Returns the greater of two numbers, or NaN if one of them is.
#[inline(always)]
fn greatest(x: f64, y: f64) -> f64 {
    if x > y || x.is_nan() { x } else { y }
}

named! {
    /// A function of two elements. Comparisons give 1 or 0.
    Binary {
        /// `x + y`.
        Add = "add",
        /// `x - y`.
        Subtract = "subtract",
        /// `x * y`. A zero of a matrix in CSR gives 0 whatever the other factor is.
        Multiply = "multiply",
        /// `x / y`.
        Divide = "divide",
        /// The lesser of x and y; NaN if one of them is.
        Min = "min",
        /// The greater of x and y; NaN if one of them is.
        Max = "max",
        /// `x < y`.
        Less = "less",
        /// `x <= y`.
        LessEqual = "lessEqual",
        /// `x > y`.
        Greater = "greater",
        /// `x >= y`.
        GreaterEqual = "greaterEqual",
        /// `x == y`.
        Equal = "equal",
        /// `x != y`.
        NotEqual = "notEqual",
    }
}

impl Binary {
    /// Applies the function.
    #[inline(always)]
    pub fn apply(self, x: f64, y: f64) -> f64 {
        let truth = |holds: bool| f64::from(u8::from(holds));
        match self {
            Self::Add => x + y,
            Self::Subtract => x - y,
            Self::Multiply => x * y,
            Self::Divide => x / y,
            Self::Min => least(x, y),
            Self::Max => greatest(x, y),
            Self::Less => truth(x < y),
            Self::LessEqual => truth(x <= y),
            Self::Greater => truth(x > y),
            Self::GreaterEqual => truth(x >= y),
            Self::Equal => truth(x == y),
            Self::NotEqual => truth(x != y),
        }
    }

    /// Returns about how many floating-point operations one element takes.
    pub fn flops(self) -> f64 {
        if self == Self::Divide { 4.0 } else { 1.0 }
    }
}

named! {
    /// What an aggregate computes.
    Aggregation {
        /// The sum of the elements; 0 if there are none.
        Sum = "sum",
        /// The sum of the elements' squares; 0 if there are none.
        SumOfSquares = "sumOfSquares",
        /// The least element; NaN if one is NaN, and infinity if there are none.
        Min = "min",
        /// The greatest element; NaN if one is NaN, and minus infinity if there are none.
        Max = "max",
    }
}

impl Aggregation {
    /// Returns the aggregate of no elements.
    pub fn start(self) -> f64 {
        match self {
            Self::Sum | Self::SumOfSquares => 0.0,
            Self::Min => f64::INFINITY,
            Self::Max => f64::NEG_INFINITY,
        }
    }

    /// Adds an element to an aggregate.
    #[inline(always)]
    pub fn add(self, aggregate: f64, x: f64) -> f64 {
        match self {
            Self::Sum => aggregate + x,
            Self::SumOfSquares => aggregate + x * x,
            Self::Min => least(aggregate, x),
            Self::Max => greatest(aggregate, x),
        }
    }

    /// Returns the aggregate of all elements of two sets, given the aggregate of each set.
    #[inline(always)]
    pub fn join(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Sum | Self::SumOfSquares => a + b,
            Self::Min => least(a, b),
            Self::Max => greatest(a, b),
        }
    }

    /// Tells whether adding a zero leaves an aggregate unchanged. If it does, a run may skip the elements that a matrix
    /// in CSR does not store.
    pub fn skips_zeros(self) -> bool {
        matches!(self, Self::Sum | Self::SumOfSquares)
    }
}

named! {
    /// Which elements are aggregated together.
    Direction {
        /// The elements of each row: m x n elements give m x 1.
        Row = "row",
        /// The elements of each column: m x n elements give 1 x n.
        Column = "column",
        /// All elements: they give a scalar.
        Full = "full",
    }
}

/// What a node computes from its inputs. A scalar is a matrix of one row and one column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// A matrix that is given to a run.
    Input {
        /// Its name.
        name: String,
        /// Number of rows and of columns.
        shape: (usize, usize),
        /// How it is stored.
        format: Format,
        /// The expected share of elements that are not 0, from 0 to 1. Plans are chosen for it; a run takes a matrix of
        /// any share.
        filled: Number,
    },
    /// A scalar.
    Literal(Number),
    /// A function of each element.
    Unary(Unary),
    /// A function of two elements of the same row and column. An input of one row or of one column is broadcast to
    /// all rows or columns.
    Binary(Binary),
    /// The product of two matrices.
    MatMul,
    /// The transposed matrix.
    Transpose,
    /// An aggregate of each row, of each column or of all elements.
    Aggregate(Aggregation, Direction),
    /// A range of columns.
    Columns {
        /// The first column.
        start: usize,
        /// The column after the last one.
        end: usize,
    },
}

impl Operator {
    /// Returns how many inputs the operator takes.
    pub fn arity(&self) -> usize {
        match self {
            Self::Input { .. } | Self::Literal(_) => 0,
            Self::Unary(_) | Self::Transpose | Self::Aggregate(..) | Self::Columns { .. } => 1,
            Self::Binary(_) | Self::MatMul => 2,
        }
    }

    /// Returns SystemML's short name of the operator, as printed in memo tables.
    pub fn short(&self) -> String {
        match self {
            Self::Input { name, .. } => name.clone(),
            Self::Literal(Number(value)) => format!("{value:?}"),
            Self::Unary(unary) => format!("u({})", unary.name()),
            Self::Binary(binary) => {
                let sign = match binary {
                    Binary::Add => "+",
                    Binary::Subtract => "-",
                    Binary::Multiply => "*",
                    Binary::Divide => "/",
                    Binary::Min => "min",
                    Binary::Max => "max",
                    Binary::Less => "<",
                    Binary::LessEqual => "<=",
                    Binary::Greater => ">",
                    Binary::GreaterEqual => ">=",
                    Binary::Equal => "==",
                    Binary::NotEqual => "!=",
                };
                format!("b({sign})")
            }
            Self::MatMul => "ba(+*)".to_owned(),
            Self::Transpose => "r(t)".to_owned(),
            Self::Aggregate(aggregation, direction) => {
                let direction = match direction {
                    Direction::Row => "R",
                    Direction::Column => "C",
                    Direction::Full => "RC",
                };
                let sign = match aggregation {
                    Aggregation::Sum => "+",
                    Aggregation::SumOfSquares => "sq+",
                    Aggregation::Min => "min",
                    Aggregation::Max => "max",
                };
                format!("ua({sign}{direction})")
            }
            Self::Columns { .. } => "rix".to_owned(),
        }
    }
}
