//! `layout(sparse)`: only the nodes there are; siblings side by side, so that a node names one child (Treebeard;
//! SilvanForge, section 6).

use super::{Children, Layout, LayoutError, LayoutKind, Packed, PackedNode};
use crate::forest::{Forest, Node, Tree};

/// Breadth first: the nodes of a level follow each other, so the top of a tree, which every walk reads, is dense.
pub struct Sparse;

impl Layout for Sparse {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Sparse
    }

    fn children(&self) -> Children {
        Children::Linked
    }

    fn leaves_hold(&self) -> bool {
        true
    }

    fn depths(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Vec<u32>, LayoutError> {
        let added = |(k, t): (usize, &u32)| match least_depth[k] {
            0 => 0,
            least => padding(&forest.trees[*t as usize], least),
        };
        let present: u64 = forest.trees.iter().map(|t| t.nodes.len() as u64).sum();
        let total = present.saturating_add(order.iter().enumerate().map(added).fold(0, u64::saturating_add));
        if total >= 1 << 31 {
            let remedy = format!(
                "{total} nodes; fewer than 2^31 can be addressed, so split the forest or pad it less"
            );
            return Err(LayoutError { layout: LayoutKind::Sparse, remedy });
        }
        let depth_of = |(k, t): (usize, &u32)| forest.trees[*t as usize].depth().max(least_depth[k]);
        Ok(order.iter().enumerate().map(depth_of).collect())
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Packed, LayoutError> {
        let depths = self.depths(forest, order, least_depth)?;
        let mut packed = Packed {
            kind: LayoutKind::Sparse,
            children: self.children(),
            nodes: Vec::with_capacity(forest.trees.iter().map(|t| t.nodes.len()).sum()),
            roots: Vec::with_capacity(order.len()),
            constants: vec![0; order.len()],
            depths,
        };
        for (k, t) in order.iter().enumerate() {
            let nodes = &forest.trees[*t as usize].nodes;
            let root = packed.nodes.len() as u32;
            packed.roots.push(root);
            let mut level = std::collections::VecDeque::from([(0u32, 0u32)]);
            let mut next = root + 1;
            while let Some((node, depth)) = level.pop_front() {
                packed.nodes.push(match nodes[node as usize] {
                    Node::Leaf { slot } if depth >= least_depth[k] => PackedNode::Leaf { slot },
                    Node::Leaf { .. } => {
                        level.extend([(node, depth + 1), (node, u32::MAX)]);
                        next += 2;
                        PackedNode::Through { link: next - 2 }
                    }
                    Node::Split { feature, predicate, missing, left, right } => {
                        level.extend([(left, depth + 1), (right, depth + 1)]);
                        next += 2;
                        PackedNode::Split { feature, predicate, missing, link: next - 2 }
                    }
                });
            }
        }
        Ok(packed)
    }
}

/// Nodes that pushing a tree's leaves down to `least` adds: at each step the way down, and a copy of the leaf as its
/// sibling, which no walk reaches.
fn padding(tree: &Tree, least: u32) -> u64 {
    let depths = tree.depths();
    let leaves = tree.nodes.iter().zip(&depths).filter(|(n, _)| n.slot().is_some());
    leaves.map(|(_, d)| 2 * u64::from(least.saturating_sub(*d))).sum()
}
