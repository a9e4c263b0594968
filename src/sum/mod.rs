//! What a sum of leaves promises: the contracts of a prediction, and the exact sum.
//!
//! A margin is a base score plus one leaf a tree. Additions of floating-point numbers round, so their order shows in
//! the last bits; a schedule chooses that order. How much of it a result may show is said by a [`Contract`], which
//! belongs to whoever predicts and never to the schedule:
//!
//! | contract | the margin is | it depends on |
//! |---|---|---|
//! | `any` | within [`Forest::sum_bound`] of the real-valued sum | schedule, batch, device |
//! | `tree` | base score, then each tree in the producer's order, rounded as the producer rounds | nothing |
//! | `exact` | within [`FixedPoint::bound`] of the real-valued sum, which is far less | nothing |
//!
//! `tree` adds in an [`Accumulator`], the type that the producer adds in. `exact` adds whole numbers, whose order never
//! shows, in [`FixedPoint`]. A least or largest leaf ([`Aggregate::Min`], [`Aggregate::Max`]) is the same in every
//! order, and one addition of the base score follows: there all contracts are `any`.
//!
//! Transforms (a sigmoid, a softmax) come after the sum and outside these promises.
//!
//! What comes in here: arithmetic of sums. What stays out: schedules, layouts, devices.

mod fixed;

use std::fmt;

pub(crate) use crate::forest::Accumulator;
pub use fixed::FixedPoint;

#[cfg(doc)]
use crate::forest::Forest;
use crate::forest::{Aggregate, Real, VerifyError};

/// What a sum of leaves promises.
///
/// ```
/// use fangorn::sum::Contract;
///
/// assert_eq!(Contract::parse("exact"), Some(Contract::Exact));
/// assert_eq!(Contract::default().to_string(), "any");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Contract {
    /// In `f32`, in the order that is fastest: within [`Forest::sum_bound`].
    #[default]
    Any,
    /// In tree-index order from the base score, in the producer's [`Accumulator`].
    Tree,
    /// In whole numbers of a fixed unit, rounded once at the end: the same bytes for every schedule, batch and device.
    Exact,
}

impl Contract {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Any, Self::Tree, Self::Exact];

    /// Reads a contract's name: `any`, `tree` or `exact`.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|c| c.name() == text)
    }

    /// Its name.
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

/// A forest whose exact sum can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SumError {
    /// It breaks a rule of the HIR: a leaf that is not finite, say.
    #[error("forest: {0}")]
    Forest(#[from] VerifyError),
    /// It adds nothing up.
    #[error("aggregate: trees are taken together by `{}`, which has no sum to make exact; use the contract `any`", .0.name())]
    Aggregate(Aggregate),
    /// A base score is not finite, and so no sum of its output is.
    #[error(
        "base_score: value {output} is {value:?}, which is no start of an exact sum; use the contract `any` or `tree`"
    )]
    Base {
        /// The output.
        output: usize,
        /// Its base score.
        value: Real,
    },
    /// More trees add to an output than two words of 32 bits hold the sum of.
    #[error(
        "trees: {trees} add to output {output}, an exact sum has room for 2^30 - 1; use the contract `tree`"
    )]
    Trees {
        /// The output.
        output: usize,
        /// Trees that add to it.
        trees: usize,
    },
}
