//! `layout(sparse)`: stores only the forest's nodes. Siblings lie side by side, so a split holds the address
//! of only one child (Treebeard; SilvanForge, section 6).

use super::{
    Children, Layout, LayoutError, LayoutKind, PackedForest, PackedNode, Sizes, addressable, depths,
};
use crate::forest::{Forest, Node, passes::padding};

/// Breadth first: the nodes of a level are adjacent, so the top of a tree, which every walk reads, is dense.
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

    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError> {
        let nodes = |(t, least): (&u32, &u32)| {
            let tree = &forest.trees[*t as usize];
            tree.nodes.len() as u64 + if *least == 0 { 0 } else { padding(tree, *least) }
        };
        let sizes = Sizes {
            nodes: order.iter().zip(least_depth).map(nodes).collect(),
            depths: depths(forest, order, least_depth),
        };
        addressable(LayoutKind::Sparse, &sizes)?;
        Ok(sizes)
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<PackedForest, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let mut packed = PackedForest {
            kind: LayoutKind::Sparse,
            children: self.children(),
            inside: Vec::new(),
            nodes: Vec::with_capacity(sizes.total() as usize),
            roots: Vec::with_capacity(order.len()),
            constants: vec![0; order.len()],
            depths: sizes.depths,
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
