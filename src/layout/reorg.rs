//! `layout(reorg)`: full binary trees, interleaved: all roots, then all their left children, then the right ones, and so on
//! (RAPIDS FIL; SilvanForge, section 6). Units that walk neighbouring trees read neighbouring words, at the top at
//! least.

use super::{
    Children, Layout, LayoutError, LayoutKind, Packed, PackedNode,
    array::{allowed, fill, full},
};
use crate::forest::Forest;

/// Node `i` of the tree at position `t` of `n` lies at `i x n + t`; its children are nodes `2i + 1` and `2i + 2`.
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

    fn depths(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Vec<u32>, LayoutError> {
        let depth_of = |(k, t): (usize, &u32)| forest.trees[*t as usize].depth().max(least_depth[k]);
        let depths: Vec<u32> = order.iter().enumerate().map(depth_of).collect();
        let deepest = depths.iter().max().map_or(0, full);
        allowed(LayoutKind::Reorg, forest, deepest.saturating_mul(order.len() as u64))?;
        Ok(depths)
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Packed, LayoutError> {
        let depths = self.depths(forest, order, least_depth)?;
        let (trees, deepest) = (order.len(), depths.iter().max().map_or(0, full));
        let mut nodes = vec![PackedNode::Empty; trees * deepest as usize];
        for (k, t) in order.iter().enumerate() {
            fill(forest, *t, least_depth[k], |at| at * trees + k, &mut nodes);
        }
        let trees = trees as u32;
        Ok(Packed {
            kind: LayoutKind::Reorg,
            children: self.children(),
            nodes,
            roots: (0..trees).collect(),
            // left(i n + t) = (2i + 1) n + t = 2 (i n + t) + n - t
            constants: (0..trees).map(|t| trees - t).collect(),
            depths,
        })
    }
}
