//! `layout(reorg)`: stores full binary trees, interleaved: all roots, then all left children of roots, then
//! all right children, and so on (RAPIDS FIL; SilvanForge, section 6). Units that walk neighbouring trees
//! read neighbouring words, at least near the roots.

use super::{
    Children, Layout, LayoutError, LayoutKind, PackedForest, PackedNode, Sizes,
    array::{allowed, fill, full},
    depths,
};
use crate::forest::Forest;

/// Node `i` of the tree at position `t` of `n` trees lies at address `i x n + t`. Its children are the tree's
/// nodes `2i + 1` and `2i + 2`.
pub struct Reorg;

impl Layout for Reorg {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Reorg
    }

    fn children(&self) -> Children {
        Children::Interleaved
    }

    fn leaves_hold(&self) -> bool {
        false
    }

    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError> {
        let depths = depths(forest, order, least_depth);
        // Every tree takes as many addresses as the deepest tree.
        let sizes = Sizes { nodes: vec![depths.iter().max().map_or(0, full); order.len()], depths };
        allowed(LayoutKind::Reorg, forest, sizes.total())?;
        Ok(sizes)
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<PackedForest, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let trees = order.len();
        let mut nodes = vec![PackedNode::Empty; sizes.total() as usize];
        for (k, t) in order.iter().enumerate() {
            fill(forest, *t, least_depth[k], |at| at * trees + k, &mut nodes);
        }
        let trees = trees as u32;
        Ok(PackedForest {
            kind: LayoutKind::Reorg,
            children: self.children(),
            inside: Vec::new(),
            nodes,
            roots: (0..trees).collect(),
            // left(i n + t) = (2i + 1) n + t = 2 (i n + t) + n - t
            constants: (0..trees).map(|t| trees - t).collect(),
            depths: sizes.depths,
        })
    }
}
