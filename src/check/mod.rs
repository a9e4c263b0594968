//! Self-checks: a compiled forest is tested before it serves. A check makes rows for the model, runs them through the
//! chosen code and through the reference interpreter, and compares the leaves one by one.
//!
//! A check finds defects of Fangorn and of the machine, not of a model. This module needs the forest and a [`Runner`]
//! that runs rows. The builder of a predictor or an operator decides what follows from a [`Difference`].
//!
//! | check | rows | cost |
//! |---|---|---|
//! | [`SelfCheck::Off`] | none | none |
//! | [`SelfCheck::Quick`] | 16 to 512 made rows (as few as 3 for a kernel that writes only sums, or for very wide rows), in batches of a few rows and of two row blocks, with some rows of a third if that is fast | about a millisecond, or 5% of the time to load a large model |
//! | [`SelfCheck::Full`] | thousands: three for each node, up to 50 million steps of the reference | about a second |

mod probes;
mod run;

pub(crate) use probes::Random;
pub use probes::{Probes, Value};
pub(crate) use run::Engines;

pub use run::{Check, Failure, RunResult, Runner};

use crate::isa::WrongVariable;

/// How much of a predictor, an operator or a module is checked before it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SelfCheck {
    /// Checks nothing.
    Off,
    /// Checks for about a millisecond, or for 5% of the time to load a large model.
    #[default]
    Quick,
    /// Checks three rows for each node, for up to about a second. It is for a machine on which a model is
    /// about to be used.
    Full,
}

/// The environment variable for all self-checks. `off` turns all of them off. `strict` makes a difference an error;
/// without it, slower code serves instead. An empty value counts as unset.
pub const SELF_CHECK: &str = "FANGORN_SELF_CHECK";

/// How the environment variable [`SELF_CHECK`] treats checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// After a difference, slower code serves.
    FallBack,
    /// A difference is an error.
    Strict,
    /// Nothing is checked.
    Off,
}

impl Strictness {
    /// Reads the environment variable [`SELF_CHECK`].
    ///
    /// # Errors
    /// The variable has a value that means nothing.
    pub(crate) fn from_environment() -> Result<Self, WrongVariable> {
        match std::env::var_os(SELF_CHECK) {
            None => Ok(Self::FallBack),
            Some(value) if value.is_empty() => Ok(Self::FallBack),
            Some(value) if value == "strict" => Ok(Self::Strict),
            Some(value) if value == "off" => Ok(Self::Off),
            Some(value) => Err(WrongVariable {
                variable: SELF_CHECK,
                value: value.to_string_lossy().escape_debug().to_string(),
                names: "off, strict".into(),
            }),
        }
    }

    /// Returns the check to run for the one that was asked for; `None` if nothing is checked.
    pub(crate) fn of(self, check: SelfCheck) -> Option<SelfCheck> {
        (self != Self::Off && check != SelfCheck::Off).then_some(check)
    }
}

/// A row for which the code under check and the reference interpreter disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Number of rows in the batch.
    pub batch: usize,
    /// Index of the row in the batch.
    pub row: usize,
    /// The row's values.
    pub values: Vec<f64>,
    /// What the code gave, and what is right.
    pub what: Finding,
}

/// The code's result, and the right one.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A wrong leaf.
    Leaf {
        /// Index of the tree, in the producer's order.
        tree: usize,
        /// The leaf slot that the code found.
        found: u32,
        /// The leaf slot that the reference reaches.
        expected: u32,
    },
    /// A margin further from its exact value than rounding allows. Also a value, of code that gives no margins.
    Margin {
        /// Index of the output.
        output: usize,
        /// The number that the code gave.
        found: f32,
        /// The reference interpreter's number.
        expected: f64,
    },
    /// An error in place of a result, or a leaf slot that does not exist.
    Refused(String),
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "row {} of {}: ", self.row, self.batch)?;
        match &self.what {
            Finding::Leaf { tree, found, expected } => {
                write!(f, "leaf slot {found} in tree {tree}, the reference reaches {expected}")
            }
            Finding::Margin { output, found, expected } => {
                write!(f, "margin {found:?} of output {output}, its leaves come to {expected:?}")
            }
            Finding::Refused(what) => f.write_str(what),
        }
    }
}

/// A warning of a predictor or an operator about itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// The chosen code failed its self-check, and slower code that passed it serves.
    FellBack {
        /// What runs the rows: `cpu`, or a device's name.
        target: String,
        /// The first difference.
        difference: Difference,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FellBack { target, difference } => write!(
                f,
                "the fast code on {target} failed its self-check ({difference}); plain walks serve, which are right \
                 but slower; please report it with the model and the processor's name"
            ),
        }
    }
}
