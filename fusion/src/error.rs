//! The crate's error.

/// Why a graph, a text or a run is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FusionError {
    /// A node's inputs don't fit its operator.
    #[error("node %{node}: {problem}")]
    Node {
        /// The node.
        node: usize,
        /// What is wrong, with the remedy.
        problem: String,
    },
    /// Outputs are missing or wrong.
    #[error("outputs: {0}")]
    Output(String),
    /// A text is not the text of a graph.
    #[error("line {line} of the graph's text: {problem}")]
    Text {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A run was given matrices that the graph does not describe.
    #[error("input {name:?}: {problem}")]
    Input {
        /// The input's name.
        name: String,
        /// What is wrong, with the remedy.
        problem: String,
    },
    /// Bytes are not an operator, or not results of one.
    #[error("what another process sent is damaged, or of another version of Fangorn: {0}")]
    Sent(String),
    /// A result needs more memory than a run may take.
    #[error("node %{node} takes {bytes} bytes, more than the {limit} that a run may; split the rows")]
    Memory {
        /// The node.
        node: usize,
        /// The memory that the result takes, in bytes.
        bytes: u64,
        /// The memory that a result may take, in bytes.
        limit: u64,
    },
}
