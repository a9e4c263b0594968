//! `layout(sparse)`: only the nodes there are; siblings side by side, so that a node names one child (Treebeard;
//! SilvanForge, section 6).

use super::{Children, Layout, LayoutError, LayoutKind, Packed, PackedNode};
use crate::forest::{Forest, Node};

/// Breadth first: the nodes of a level follow each other, so the top of a tree, which every walk reads, is dense.
pub struct Sparse;

fn nodes(forest: &Forest) -> usize {
    forest.trees.iter().map(|t| t.nodes.len()).sum()
}

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

    fn depths(&self, forest: &Forest, order: &[u32], _least_depth: &[u32]) -> Result<Vec<u32>, LayoutError> {
        let total = nodes(forest);
        if total >= 1 << 31 {
            let remedy = format!("{total} nodes; fewer than 2^31 can be addressed, so split the forest");
            return Err(LayoutError { layout: LayoutKind::Sparse, remedy });
        }
        Ok(order.iter().map(|t| forest.trees[*t as usize].depth()).collect())
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Packed, LayoutError> {
        let depths = self.depths(forest, order, least_depth)?;
        let mut packed = Packed {
            kind: LayoutKind::Sparse,
            children: self.children(),
            nodes: Vec::with_capacity(nodes(forest)),
            roots: Vec::with_capacity(order.len()),
            constants: vec![0; order.len()],
            depths,
        };
        for t in order {
            let nodes = &forest.trees[*t as usize].nodes;
            let root = packed.nodes.len() as u32;
            packed.roots.push(root);
            let mut level = std::collections::VecDeque::from([0u32]);
            let mut next = root + 1;
            while let Some(node) = level.pop_front() {
                packed.nodes.push(match nodes[node as usize] {
                    Node::Leaf { slot } => PackedNode::Leaf { slot },
                    Node::Split { feature, predicate, missing, left, right } => {
                        level.extend([left, right]);
                        next += 2;
                        PackedNode::Split { feature, predicate, missing, link: next - 2 }
                    }
                });
            }
        }
        Ok(packed)
    }
}
