//! Sizes: numbers of a schedule, which may depend on the batch, the forest and the machine.

use std::fmt;

/// A number of rows, of trees, or of iterations.
///
/// Schedules write `64`, `batch/2`, `trees/threads`. The compiler makes products, sums, differences and
/// minima of sizes. Division rounds up and never gives less than 1, so that `n` tiles of size `v/n` hold
/// all of `v`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// A definite number.
    Const(u32),
    /// Number of rows of the call.
    Batch,
    /// Number of trees of the forest.
    Trees,
    /// Number of worker threads of the machine (1 on a GPU).
    Threads,
    /// `max(1, ⌈a / b⌉)`.
    Div(Box<Size>, Box<Size>),
    /// `a x b`.
    Mul(Box<Size>, Box<Size>),
    /// `a + b`.
    Add(Box<Size>, Box<Size>),
    /// `max(0, a - b)`.
    Sub(Box<Size>, Box<Size>),
    /// `min(a, b)`.
    Min(Box<Size>, Box<Size>),
}

/// The numbers of rows, trees and threads from which [`Size::resolve`] computes a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extents {
    /// Number of rows of the call.
    pub batch: u32,
    /// Number of trees of the forest.
    pub trees: u32,
    /// Number of worker threads.
    pub threads: u32,
}

impl From<u32> for Size {
    fn from(value: u32) -> Self {
        Self::Const(value)
    }
}

impl std::ops::Div<Self> for Size {
    type Output = Self;
    fn div(self, by: Self) -> Self {
        match (self, by) {
            (a, Self::Const(1)) => a,
            (Self::Const(a), Self::Const(b)) => Self::Const(a.div_ceil(b.max(1)).max(1)),
            (a, b) => Self::Div(Box::new(a), Box::new(b)),
        }
    }
}

impl std::ops::Div<u32> for Size {
    type Output = Self;
    fn div(self, by: u32) -> Self {
        self / Self::Const(by)
    }
}

impl Size {
    /// Returns `self x by`, folded if possible.
    #[must_use]
    pub fn times(self, by: Self) -> Self {
        match (self, by) {
            (Self::Const(1), a) | (a, Self::Const(1)) => a,
            (Self::Const(a), Self::Const(b)) => Self::Const(a.saturating_mul(b)),
            (a, b) => Self::Mul(Box::new(a), Box::new(b)),
        }
    }

    /// Returns `self + by`, folded if possible.
    #[must_use]
    pub fn plus(self, by: Self) -> Self {
        match (self, by) {
            (Self::Const(0), a) | (a, Self::Const(0)) => a,
            (Self::Const(a), Self::Const(b)) => Self::Const(a.saturating_add(b)),
            (a, b) => Self::Add(Box::new(a), Box::new(b)),
        }
    }

    /// Returns `max(0, self - by)`, folded if possible.
    #[must_use]
    pub fn less(self, by: Self) -> Self {
        match (self, by) {
            (a, Self::Const(0)) => a,
            (Self::Const(a), Self::Const(b)) => Self::Const(a.saturating_sub(b)),
            (a, b) => Self::Sub(Box::new(a), Box::new(b)),
        }
    }

    /// Returns the smaller of the two sizes, folded if possible.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Const(a), Self::Const(b)) => Self::Const(a.min(b)),
            (a, b) if a == b => a,
            (a, b) => Self::Min(Box::new(a), Box::new(b)),
        }
    }

    /// Returns the number if the size is a constant.
    pub fn constant(&self) -> Option<u32> {
        match self {
            Self::Const(n) => Some(*n),
            _ => None,
        }
    }

    /// Returns the size at these extents, at most `u32::MAX`.
    pub fn resolve(&self, at: Extents) -> u32 {
        match self {
            Self::Const(n) => *n,
            Self::Batch => at.batch,
            Self::Trees => at.trees,
            Self::Threads => at.threads.max(1),
            Self::Div(a, b) => a.resolve(at).div_ceil(b.resolve(at).max(1)).max(1),
            Self::Mul(a, b) => a.resolve(at).saturating_mul(b.resolve(at)),
            Self::Add(a, b) => a.resolve(at).saturating_add(b.resolve(at)),
            Self::Sub(a, b) => a.resolve(at).saturating_sub(b.resolve(at)),
            Self::Min(a, b) => a.resolve(at).min(b.resolve(at)),
        }
    }

    /// Whether the size depends on the call's number of rows.
    pub fn depends_on_batch(&self) -> bool {
        match self {
            Self::Batch => true,
            Self::Const(_) | Self::Trees | Self::Threads => false,
            Self::Div(a, b) | Self::Mul(a, b) | Self::Add(a, b) | Self::Sub(a, b) | Self::Min(a, b) => {
                a.depends_on_batch() || b.depends_on_batch()
            }
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Operands that are operations themselves stand in brackets.
        let operand = |s: &Self| match s {
            Self::Div(..) | Self::Mul(..) | Self::Add(..) | Self::Sub(..) => format!("({s})"),
            _ => s.to_string(),
        };
        match self {
            Self::Const(n) => write!(f, "{n}"),
            Self::Batch => f.write_str("batch"),
            Self::Trees => f.write_str("trees"),
            Self::Threads => f.write_str("threads"),
            Self::Div(a, b) => write!(f, "{}/{}", operand(a), operand(b)),
            Self::Mul(a, b) => write!(f, "{}*{}", operand(a), operand(b)),
            Self::Add(a, b) => write!(f, "{}+{}", operand(a), operand(b)),
            Self::Sub(a, b) => write!(f, "{}-{}", operand(a), operand(b)),
            Self::Min(a, b) => write!(f, "min({a}, {b})"),
        }
    }
}
