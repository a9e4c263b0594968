//! A forest's nodes, in the encoding that its layout and the machine's kernels need.

use super::{
    engine::tiles::tables::Tiles,
    nodes::{Compare, DepthFirstNode, LinkedNode, Node, Nodes, RankNode, ShortNode},
};
use crate::{
    forest::Forest,
    layout::{Children, PackedForest},
    plan::RowType,
};

/// Evaluates an expression with the nodes, whatever their encoding. No other code lists the
/// encodings. Tiles are not single nodes, so they may have an expression of their own.
macro_rules! of_encoding {
    ($encoded:expr, $nodes:ident => $same:expr) => {
        of_encoding!($encoded, $nodes => $same, $nodes => $same)
    };
    ($encoded:expr, $nodes:ident => $same:expr, $tiles:pat => $tiled:expr) => {
        match $encoded {
            $crate::cpu::encoded::EncodedNodes::Affine($nodes) => $same,
            $crate::cpu::encoded::EncodedNodes::Linked($nodes) => $same,
            $crate::cpu::encoded::EncodedNodes::Short($nodes) => $same,
            $crate::cpu::encoded::EncodedNodes::Ranked($nodes) => $same,
            $crate::cpu::encoded::EncodedNodes::DepthFirstNode($nodes) => $same,
            $crate::cpu::encoded::EncodedNodes::NearRanked($nodes) => $same,
            $crate::cpu::encoded::EncodedNodes::Tiled($tiles) => $tiled,
        }
    };
}
pub(super) use of_encoding;

/// A forest's nodes in one encoding, with thresholds of type `C`.
#[derive(Clone, Debug)]
pub(super) enum EncodedNodes<C> {
    /// Nodes of layouts that compute the addresses of children.
    Affine(Nodes<Node<C>>),
    /// Nodes with a link to their left child.
    Linked(Nodes<LinkedNode<C>>),
    /// Two-word nodes, for `f32` thresholds only.
    Short(Nodes<ShortNode>),
    /// Four-byte nodes, for ranks of one byte only.
    Ranked(Nodes<RankNode>),
    /// Nodes in depth-first order, with a link to their right child.
    DepthFirstNode(Nodes<DepthFirstNode<LinkedNode<C>>>),
    /// Four-byte nodes in depth-first order, for ranks of one byte only.
    NearRanked(Nodes<DepthFirstNode<RankNode>>),
    /// Tiles of nodes.
    Tiled(Tiles<C>),
}

impl<C: Compare> EncodedNodes<C> {
    pub(super) fn new(forest: &Forest, packed: &PackedForest) -> Self {
        match packed.children {
            Children::Affine { .. } | Children::Interleaved => Self::Affine(Nodes::affine(forest, packed)),
            Children::Linked => Self::Linked(Nodes::linked(forest, packed)),
            Children::Near => Self::DepthFirstNode(Nodes::near(forest, packed)),
            Children::TilesComputed { .. } | Children::TilesLinked { .. } => {
                Self::Tiled(Tiles::new(forest, packed))
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        of_encoding!(
            self,
            nodes => size_of_val(&nodes.nodes[..]) + size_of_val(&nodes.tops[..]),
            tiles => tiles.bytes()
        )
    }
}

impl EncodedNodes<f32> {
    /// Returns the maximum number of steps that a row's walks through all trees take together.
    pub(super) fn steps(&self) -> u64 {
        let depths = of_encoding!(self, nodes => &nodes.depths);
        depths.iter().map(|depth| u64::from(*depth)).sum()
    }

    /// Converts nodes into the smaller encodings if they fit, and lays out `top` levels of each tree as its
    /// top, for the vector kernels.
    pub(super) fn for_vectors(self, top: u32, rows: RowType) -> Self {
        let ranks = rows == RowType::U8;
        let nodes = match self {
            Self::Linked(nodes) => match ranks.then(|| Nodes::ranked(&nodes)).flatten() {
                Some(ranked) => Self::Ranked(ranked),
                None => match Nodes::short(&nodes) {
                    Some(short) => Self::Short(short),
                    None => Self::Linked(nodes),
                },
            },
            Self::DepthFirstNode(nodes) => match ranks.then(|| Nodes::near_ranked(&nodes)).flatten() {
                Some(ranked) => Self::NearRanked(ranked),
                None => Self::DepthFirstNode(nodes),
            },
            nodes => nodes,
        };
        match nodes {
            // No kernel holds the top of a complete tree or of tiles.
            Self::Affine(_) | Self::Tiled(_) => nodes,
            nodes if top == 0 => nodes,
            Self::Linked(nodes) => Self::Linked(nodes.with_tops(top)),
            Self::Short(nodes) => Self::Short(nodes.with_tops(top)),
            Self::Ranked(nodes) => Self::Ranked(nodes.with_tops(top)),
            Self::DepthFirstNode(nodes) => Self::DepthFirstNode(nodes.with_tops(top)),
            Self::NearRanked(nodes) => Self::NearRanked(nodes.with_tops(top)),
        }
    }
}
