//! The crate's error: what is wrong, where, and what to do about it.

use std::path::PathBuf;

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that can go wrong with a user's input.
///
/// Each message is one line that names the file or value, where in it the error is, and the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A model that can't be read: malformed, over a limit, or not supported.
    #[error("{0}")]
    Import(#[from] crate::import::ImportError),
    /// A forest that breaks a rule of the HIR.
    #[error("forest: {0}")]
    Forest(#[from] crate::forest::VerifyError),
    /// Steps before a forest that can't be folded into the forest.
    #[error("prologue: {0}")]
    Prologue(#[from] crate::forest::PrologueError),
    /// A schedule's text that can't be read.
    #[error(transparent)]
    ScheduleText(#[from] crate::schedule::ParseError),
    /// A name that no GPU architecture has.
    #[error(transparent)]
    Architecture(#[from] crate::schedule::UnknownArchitecture),
    /// A schedule that can't be carried out.
    #[error(transparent)]
    Schedule(#[from] crate::schedule::ScheduleError),
    /// A forest that a layout can't hold.
    #[error(transparent)]
    Layout(#[from] crate::layout::LayoutError),
    /// A forest that can't be put on ranks.
    #[error(transparent)]
    Ranks(#[from] crate::ranks::RanksError),
    /// A profile that was made for another forest.
    #[error(transparent)]
    Profile(#[from] crate::forest::ProfileError),
    /// A forest whose sum can't keep the contract.
    #[error("sum: {0}")]
    Sum(#[from] crate::sum::SumError),
    /// A graph that is not whole, or that does not take its inputs.
    #[error("graph: {0}")]
    Graph(#[from] crate::graph::GraphError),
    /// A plan file that can't be read or that is for another model.
    #[error("plan file: {0}")]
    PlanFile(#[from] crate::auto::PlanFileError),
    /// A stage handed over data that breaks its rules: a defect of Fangorn, not of the input.
    #[error("internal: {0}; this is a defect of fangorn, please report it with the model and the schedule")]
    Internal(String),
    /// Rows whose number of columns is not the forest's number of features.
    #[error("rows have {found} columns, the forest was trained on {expected}; give all its columns in order")]
    Columns {
        /// Number of columns of the rows.
        found: usize,
        /// Number of features of the forest.
        expected: usize,
    },
    /// Rows, or a buffer for results, of a wrong shape.
    #[error("rows: {0}")]
    Rows(String),
    /// A forest whose margins can't be explained.
    #[error("contributions: {0}")]
    Contributions(String),
    /// An analysis of a model over many rows that can't be made.
    #[error("insight: {0}")]
    Insight(String),
    /// An epilogue that can't follow the forest.
    #[error("epilogue: {0}")]
    Epilogue(String),
    /// An environment variable that picks kernels or checks has a value that means nothing here.
    #[error(
        "environment: {variable} is `{value}`, here it may be one of {names}; set it to one of them, or unset it"
    )]
    Environment {
        /// The variable's name.
        variable: &'static str,
        /// The variable's value.
        value: String,
        /// The values that it may have.
        names: String,
    },
    /// A compiled forest reaches other leaves than the reference interpreter: a defect of Fangorn or of the
    /// machine.
    #[error(
        "self-check on {target}: {difference}; do not use its predictions here, and please report it with the model \
         and the processor's name"
    )]
    SelfCheck {
        /// What ran the rows: `cpu`, or a device's name.
        target: String,
        /// The first difference.
        difference: Box<crate::check::Difference>,
    },
    /// A forest that can't be compiled ahead of time.
    #[error("ahead of time: {0}")]
    Ahead(String),
    /// A random model that is too large.
    #[error("random model: {0}")]
    RandomModel(String),
    /// A device that can't do what it was asked to.
    #[error("device: {0}")]
    Device(String),
}

impl From<crate::isa::WrongVariable> for Error {
    fn from(wrong: crate::isa::WrongVariable) -> Self {
        let crate::isa::WrongVariable { variable, value, names } = wrong;
        Self::Environment { variable, value, names }
    }
}
