//! A compiled forest proves itself before it serves: rows made for the model go through the engines that were chosen and
//! through the reference interpreter, and are compared leaf by leaf.
//!
//! It finds defects of Fangorn and of the machine, not of a model. What may come in: the forest, and a closure that runs
//! rows. Who builds a predictor or an operator decides what follows from a [`Difference`].
//!
//! | check | rows | cost |
//! |---|---|---|
//! | [`SelfCheck::Off`] | none | none |
//! | [`SelfCheck::Quick`] | 16 to 512 made rows, in batches of few rows and of two blocks and a part | about a millisecond, or 5% of what it takes to load a large model |
//! | [`SelfCheck::Full`] | thousands: three for each node, as far as 50 million steps of the reference reach | about a second |

mod probes;
mod run;

pub use probes::{Cell, Probes};

pub use run::{Check, Failure, RunResult, Runner};

use crate::isa::WrongVariable;

/// How much a predictor, an operator or a module proves before it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SelfCheck {
    /// Nothing.
    Off,
    /// What takes about a millisecond, or 5% of loading a large model.
    #[default]
    Quick,
    /// Three rows for each node, as far as about a second reaches: for a machine on which a model is about to be used.
    Full,
}

/// `off` in this variable leaves self-checks out, whoever asks for them; `strict` makes a difference an error, where slower code
/// would serve otherwise; empty is as if it were unset.
pub const SELF_CHECK: &str = "FANGORN_SELF_CHECK";

/// What [`SELF_CHECK`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Slower code serves after a difference.
    FallBack,
    /// A difference is an error.
    Strict,
    /// Nothing is checked.
    Off,
}

impl Strictness {
    /// # Errors
    /// Another value of the variable.
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

    /// What is checked of what was asked for.
    pub(crate) fn of(self, check: SelfCheck) -> Option<SelfCheck> {
        (self != Self::Off && check != SelfCheck::Off).then_some(check)
    }
}

/// Where an engine and the reference interpreter disagree.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Rows of the batch, …
    pub batch: usize,
    /// … and the row in it.
    pub row: usize,
    /// The row's values.
    pub values: Vec<f64>,
    /// What was found and what is right.
    pub what: Finding,
}

/// What was found and what is right.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// Another leaf.
    Leaf {
        /// The tree, in the producer's order.
        tree: usize,
        /// The slot that was found.
        found: u32,
        /// The slot that the reference walks to.
        expected: u32,
    },
    /// A margin further from the sum of its leaves than rounding allows.
    Margin {
        /// The output.
        output: usize,
        /// The margin that was found.
        found: f32,
        /// The sum of the row's leaves, in f64.
        expected: f64,
    },
    /// An error in place of a result.
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

/// What a predictor or an operator has to say about itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// The engine that was chosen went wrong in a self-check, and slower code that passed it serves.
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
                "the fast engine on {target} failed its self-check ({difference}); plain walks serve, which are right \
                 and slower; please report it with the model and the processor's name"
            ),
        }
    }
}
