//! Layouts of nodes in memory, as far as a target needs to know them.

use std::fmt;

/// A layout of nodes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// Every tree is a full binary tree in level order. A child's address is computed.
    Array,
    /// Only nodes that exist have an address. A node holds its left child's address.
    Sparse,
    /// Full binary trees in level order, interleaved: all roots, then all their left children, and so on. A
    /// child's address is computed.
    Reorg,
    /// Only nodes that exist have an address. Each split is followed by its left child and holds its right
    /// child's address.
    DepthFirst,
}

impl LayoutKind {
    /// All layouts.
    pub const ALL: [Self; 4] = [Self::Array, Self::Sparse, Self::Reorg, Self::DepthFirst];

    /// Returns the layout with this name, or `None` if there is none.
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

/// The rule by which a walk gets from a node's address to the addresses of its children. It is all that
/// targets know of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Children {
    /// `left = 2 x address + c(tree)`, `right = left + stride`, with a constant `c` for each tree.
    Affine {
        /// Distance from the left child to the right child, in addresses.
        stride: u32,
    },
    /// `left = 2 x address + c(tree)`, `right = left + trees`, with a constant `c` for each tree and the
    /// number of trees as the stride.
    Interleaved,
    /// The node holds its left child's address. `right = left + 1`.
    Linked,
    /// `left = address + 1`. The node holds its right child's address.
    Near,
    /// Tiles of at most `nodes` nodes, which have one more child than nodes. Child `k`, counted from the
    /// left, has the address `(nodes + 1) x address + c(tree) + k` (CPU).
    TilesComputed {
        /// Maximum number of nodes of a tile.
        nodes: u32,
    },
    /// Tiles of at most `nodes` nodes. A tile holds its leftmost child's address, and the other children
    /// follow that one (CPU).
    TilesLinked {
        /// Maximum number of nodes of a tile.
        nodes: u32,
    },
}

impl Children {
    /// Whether a node holds the address of one of its children.
    pub fn named(self) -> bool {
        matches!(self, Self::Linked | Self::Near | Self::TilesLinked { .. })
    }

    /// Returns the maximum number of nodes that a walk decides in one step. It is 1 without tiles.
    pub fn tile(self) -> u32 {
        match self {
            Self::TilesComputed { nodes } | Self::TilesLinked { nodes } => nodes,
            Self::Affine { .. } | Self::Interleaved | Self::Linked | Self::Near => 1,
        }
    }
}
