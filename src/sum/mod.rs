//! Contracts of sums, which say how exact a sum of leaf values is and on what its last bits depend, and the
//! exact sum.
//!
//! A margin is a base score plus one leaf value for each tree. Additions of floating-point numbers round, so
//! the last bits of a margin depend on their order, which the schedule chooses. A [`Contract`] limits this
//! dependence. The caller chooses the contract, never the schedule:
//!
//! | contract | the margin is | it depends on |
//! |---|---|---|
//! | `any` | within [`Forest::sum_bound`] of the real-valued sum | schedule, batch, device |
//! | `tree` | base score, then each tree in the producer's order, rounded as the producer rounds | nothing |
//! | `exact` | within [`FixedPoint::bound`] of the real-valued sum, which is far less | nothing |
//!
//! `tree` adds in an [`Accumulator`], the type that the producer adds in. `exact` adds integers in
//! [`FixedPoint`], which have the same sum in every order. The least or largest leaf ([`Aggregate::Min`],
//! [`Aggregate::Max`]) is the same in every order, and only one addition follows, that of the base score. So
//! for these aggregates all contracts mean `any`.
//!
//! Transforms, such as a sigmoid or a softmax, come after the sum, and no contract covers them.
//!
//! This module is about the arithmetic of sums. It knows nothing of schedules, layouts and devices.

mod fixed;

use std::fmt;

pub(crate) use crate::forest::Accumulator;
pub use fixed::FixedPoint;

#[cfg(doc)]
use crate::forest::Forest;
use crate::forest::{Aggregate, Real, VerifyError};

/// The contract of a sum of leaf values: how exact the sum is, and on what its last bits depend.
///
/// ```
/// use fangorn::sum::Contract;
///
/// assert_eq!(Contract::parse("exact"), Some(Contract::Exact));
/// assert_eq!(Contract::default().to_string(), "any");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Contract {
    /// Adds in `f32`, in the order that is fastest. The margin is within [`Forest::sum_bound`] of the
    /// real-valued sum.
    #[default]
    Any,
    /// Adds in the producer's [`Accumulator`], from the base score on, in the producer's tree order.
    Tree,
    /// Adds integers of a fixed unit and rounds once at the end: the same bytes for every schedule, batch and
    /// device.
    Exact,
}

impl Contract {
    /// All contracts.
    pub const ALL: [Self; 3] = [Self::Any, Self::Tree, Self::Exact];

    /// Returns the contract with the name `any`, `tree` or `exact`, or `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == text)
    }

    /// Returns the contract's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Tree => "tree",
            Self::Exact => "exact",
        }
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a forest has no exact sum.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SumError {
    /// The forest breaks a rule of the HIR: for example, a leaf value is not finite.
    #[error("forest: {0}")]
    Forest(#[from] VerifyError),
    /// The forest takes the least or largest leaf, so there is no sum.
    #[error("aggregate: trees are combined by `{}`, so there is no sum to make exact; use the contract `any`", .0.name())]
    Aggregate(Aggregate),
    /// A base score is not finite, so no sum of its output is finite.
    #[error(
        "base_score: value {output} is {value:?}, an exact sum needs a finite one; use the contract `any` or `tree`"
    )]
    Base {
        /// Index of the output.
        output: usize,
        /// Its base score.
        value: Real,
    },
    /// So many trees add to an output that two words of 32 bits can't hold the sum.
    #[error(
        "trees: {trees} add to output {output}, an exact sum has room for 2^30 - 1; use the contract `tree`"
    )]
    Trees {
        /// Index of the output.
        output: usize,
        /// Number of trees that add to the output.
        trees: usize,
    },
}
