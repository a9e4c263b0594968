//! The crate's error: what is wrong, where, and what to do about it.

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Anything that can go wrong with a forest inside a graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the forest's operator says: columns, types, devices, schedules.
    #[error(transparent)]
    Fangorn(#[from] fangorn::Error),
    /// A record that was loaded into a module and does not make a forest with its leaf values.
    #[error("record: {0}")]
    Record(String),
    /// Classes were asked of a forest that has none.
    #[error("classes: a forest of objective `{0}` is no classifier; ask for its values")]
    NoClasses(String),
    /// Labels were asked as one integer a row of a forest that has other ones.
    #[error("labels: {0}")]
    Labels(String),
    /// Probabilities were asked of a forest that gives none.
    #[error("probabilities: {0}")]
    NoProbabilities(String),
    /// A gradient of the rows that the forest can't be given.
    #[error("soft splits: {0}")]
    SoftSplits(String),
}
