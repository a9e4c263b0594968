//! Bounds on what a model file may ask for.

/// Bounds on what a model file may ask for.
///
/// The defaults are far above any model in use, and low enough that a hostile file can't exhaust a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Number of trees of the forest.
    pub trees: usize,
    /// Number of nodes of all trees together.
    pub nodes: usize,
    /// Depth of the deepest leaf of any tree.
    pub depth: u32,
    /// Number of columns of a row.
    pub features: usize,
    /// Number of outputs of the forest.
    pub outputs: usize,
    /// Number of 32-bit words of all category sets together.
    pub category_words: usize,
    /// Memory for nodes, leaf values, category sets and the constants of steps before the trees together, in
    /// bytes.
    pub memory_bytes: u64,
    /// Length of one string, in bytes: the name of a feature, a category or an objective.
    pub string_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: 4 << 30,
            trees: 1 << 22,
            nodes: 1 << 28,
            depth: 1 << 20,
            features: 1 << 20,
            outputs: 1 << 16,
            category_words: 1 << 26,
            memory_bytes: if usize::BITS < 64 { 1 << 30 } else { 16 << 30 },
            string_bytes: 1 << 20,
        }
    }
}
