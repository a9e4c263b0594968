//! The error of a graph.

use std::fmt;

/// Why a graph can't be read, verified or evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GraphError {
    /// Where the error is: at a node, an input or an output, or in a line.
    pub location: String,
    /// What is wrong.
    pub cause: String,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.cause)
    }
}

impl GraphError {
    pub(super) fn at(location: &str, cause: impl Into<String>) -> Self {
        Self { location: location.to_owned(), cause: cause.into() }
    }
}
