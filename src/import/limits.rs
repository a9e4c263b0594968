//! How much a model file may ask for.

/// Bounds on what a model file may ask for.
///
/// The defaults are far above any model that is used, and low enough that a hostile file can't exhaust a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Trees of the forest.
    pub trees: usize,
    /// Nodes of all trees together.
    pub nodes: usize,
    /// Depth of the deepest leaf of any tree.
    pub depth: u32,
    /// Columns of a row.
    pub features: usize,
    /// Outputs of the forest.
    pub outputs: usize,
    /// 32-bit words of all category sets together.
    pub category_words: usize,
    /// Bytes of memory for the forest's nodes, leaf values, category sets and the numbers of what precedes it together.
    pub memory_bytes: u64,
    /// Bytes of one string: a name of a feature, a category, an objective.
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
            memory_bytes: 16 << 30,
            string_bytes: 1 << 20,
        }
    }
}
