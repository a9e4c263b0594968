//! `layout(depth_first)`: stores only the forest's nodes. Each split is followed by its left child and holds
//! the address of its right child (nvForest's depth-first layout).

use super::{
    Children, Layout, LayoutError, LayoutKind, PackedForest, PackedNode, Sizes, addressable, depths,
};
use crate::forest::{Forest, Node, passes::padding};

/// Preorder: half of all steps go to the adjacent node.
pub struct DepthFirst;

/// A node that is still to be laid out.
enum PendingNode {
    /// A node and its depth.
    Node(u32, u32),
    /// The right child of the split at an address, and its depth: address, node, depth.
    Right(usize, u32, u32),
}

impl Layout for DepthFirst {
    fn kind(&self) -> LayoutKind {
        LayoutKind::DepthFirst
    }

    fn children(&self) -> Children {
        Children::Near
    }

    fn leaves_hold(&self) -> bool {
        true
    }

    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError> {
        let nodes = |(t, least): (&u32, &u32)| {
            let tree = &forest.trees[*t as usize];
            // A leaf that is pushed down adds one node for each level, and no sibling.
            tree.nodes.len() as u64 + if *least == 0 { 0 } else { padding(tree, *least) / 2 }
        };
        let nodes = order.iter().zip(least_depth).map(nodes).collect();
        let sizes = Sizes { nodes, depths: depths(forest, order, least_depth) };
        addressable(self.kind(), &sizes)?;
        Ok(sizes)
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<PackedForest, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let mut packed = PackedForest {
            kind: self.kind(),
            children: self.children(),
            inside: Vec::new(),
            nodes: Vec::with_capacity(sizes.total() as usize),
            roots: Vec::with_capacity(order.len()),
            constants: vec![0; order.len()],
            depths: sizes.depths,
        };
        for (t, least) in order.iter().zip(least_depth) {
            let nodes = &forest.trees[*t as usize].nodes;
            packed.roots.push(packed.nodes.len() as u32);
            let mut open = vec![PendingNode::Node(0, 0)];
            while let Some(next) = open.pop() {
                let address = packed.nodes.len();
                let (node, depth) = match next {
                    PendingNode::Node(node, depth) => (node, depth),
                    PendingNode::Right(above, node, depth) => {
                        if let PackedNode::Split { link, .. } = &mut packed.nodes[above] {
                            *link = address as u32;
                        }
                        (node, depth)
                    }
                };
                packed.nodes.push(match nodes[node as usize] {
                    Node::Leaf { slot } if depth >= *least => PackedNode::Leaf { slot },
                    Node::Leaf { .. } => {
                        open.push(PendingNode::Node(node, depth + 1));
                        PackedNode::Through { link: address as u32 + 1 }
                    }
                    Node::Split { feature, predicate, missing, left, right } => {
                        open.push(PendingNode::Right(address, right, depth + 1));
                        open.push(PendingNode::Node(left, depth + 1));
                        PackedNode::Split { feature, predicate, missing, link: 0 }
                    }
                });
            }
        }
        Ok(packed)
    }
}
