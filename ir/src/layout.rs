//! Ways to lay nodes in memory, as far as a target knows of them.

use std::fmt;

/// A way to lay nodes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// Every tree a full binary tree in level order; a child's place is computed.
    Array,
    /// Only the nodes there are; a node names its children.
    Sparse,
    /// Full binary trees, interleaved: all roots, then all their left children, and so on.
    Reorg,
    /// Only the nodes there are, each followed by its left child; a node names its right one.
    DepthFirst,
}

impl LayoutKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Array, Self::Sparse, Self::Reorg, Self::DepthFirst];

    /// Reads a layout's name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.to_string() == text)
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Array => "array",
            Self::Sparse => "sparse",
            Self::Reorg => "reorg",
            Self::DepthFirst => "depth_first",
        })
    }
}

/// How a walk gets from a node's address to its children's: all a target knows of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Children {
    /// `left = 2 x address + c(tree)`, `right = left + stride`, with a constant `c` a tree.
    Affine {
        /// From the left child to the right.
        stride: u32,
    },
    /// The same with a stride of as many as there are trees.
    Interleaved,
    /// The node holds its left child's address; `right = left + 1`.
    Linked,
    /// `left = address + 1`; the node holds its right child's address.
    Near,
    /// Tiles of so many nodes and one more child: the child number `k`, from the left, lies at
    /// `(nodes + 1) x address + c(tree) + k` (CPU).
    TilesComputed {
        /// Nodes of a tile, at most.
        nodes: u32,
    },
    /// The tile holds its leftmost child's address, and the others lie behind that (CPU).
    TilesLinked {
        /// Nodes of a tile, at most.
        nodes: u32,
    },
}

impl Children {
    /// Whether a node names one of its children.
    pub fn named(self) -> bool {
        matches!(self, Self::Linked | Self::Near | Self::TilesLinked { .. })
    }

    /// Nodes that a walk decides at once: 1 where there are no tiles.
    pub fn tile(self) -> u32 {
        match self {
            Self::TilesComputed { nodes } | Self::TilesLinked { nodes } => nodes,
            Self::Affine { .. } | Self::Interleaved | Self::Linked | Self::Near => 1,
        }
    }
}
