//! The crate's error. A message says what is wrong, where, and what to do about it.

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of a forest inside a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the forest's operator: about columns, types, devices or schedules.
    #[error(transparent)]
    Fangorn(#[from] fangorn::Error),
    /// The tensors of a record that was loaded into a module do not make a forest with its leaf values.
    #[error("record: {0}")]
    Record(String),
    /// A call asked for classes of a forest that is no classifier.
    #[error("classes: a forest of objective `{0}` is no classifier; ask for its values")]
    NoClasses(String),
    /// A call asked for one integer label a row, and the forest has other labels or several a row.
    #[error("labels: {0}")]
    Labels(String),
    /// A call asked for probabilities of a forest that gives none.
    #[error("probabilities: {0}")]
    NoProbabilities(String),
    /// A graph holds what no device computes, or does not take its inputs. The text names the node.
    #[error("graph: {0}")]
    Graph(String),
    /// A function can't be recorded or run by a fusion plan, or an argument is not what was declared.
    #[error("fused function: {0}")]
    Fused(String),
    /// An error of a graph of linear algebra or of its run.
    #[error("fused function: {0}")]
    Fusion(#[from] fangorn_fusion::FusionError),
    /// The forest can't have soft splits, which give a gradient of the rows.
    #[error("soft splits: {0}")]
    SoftSplits(String),
}
