//! `layout(array)`: stores every tree as a full binary tree in level order (Treebeard; SilvanForge, section
//! 6).

use super::{Children, Layout, LayoutError, LayoutKind, PackedForest, PackedNode, Sizes, depths};
use crate::forest::{Forest, Node};

/// Level order: the children of a tree's node `i` are the tree's nodes `2i + 1` and `2i + 2`.
pub struct Array;

/// Full trees may have at most this many times the nodes of the forest. Full trees of at most
/// [`ALWAYS_ALLOWED`] nodes in all are exempt.
const MOST_GROWTH: u64 = 64;
/// Full trees may have this many nodes in all, however few nodes the forest has.
const ALWAYS_ALLOWED: u64 = 1 << 16;

/// Returns the number of nodes of a full tree of depth `depth`.
pub(super) fn full(depth: &u32) -> u64 {
    if *depth < 32 { (2 << depth) - 1 } else { u32::MAX.into() }
}

/// Refuses full trees that would store far more nodes, `total` in all, than the forest has.
pub(super) fn allowed(layout: LayoutKind, forest: &Forest, total: u64) -> Result<(), LayoutError> {
    let present: u64 = forest.trees.iter().map(|t| t.nodes.len() as u64).sum();
    if total > ALWAYS_ALLOWED.max(present.saturating_mul(MOST_GROWTH)) || total >= 1 << 31 {
        let remedy = format!("{total} nodes would be stored for a forest of {present}; use layout(sparse)");
        return Err(LayoutError { layout, remedy });
    }
    Ok(())
}

/// Lays a tree out in level order, its `i`th node at `address(i)`. It pushes leaves above depth `least` down to
/// `least`.
pub(super) fn fill(
    forest: &Forest,
    tree: u32,
    least: u32,
    address: impl Fn(usize) -> usize,
    into: &mut [PackedNode],
) {
    let nodes = &forest.trees[tree as usize].nodes;
    let mut open = vec![(0usize, 0usize, 0u32)];
    while let Some((node, mut at, mut depth)) = open.pop() {
        match nodes[node] {
            Node::Split { feature, predicate, missing, left, right } => {
                into[address(at)] = PackedNode::Split { feature, predicate, missing, link: 0 };
                open.push((left as usize, 2 * at + 1, depth + 1));
                open.push((right as usize, 2 * at + 2, depth + 1));
            }
            Node::Leaf { slot } => {
                while depth < least {
                    into[address(at)] = PackedNode::Through { link: 0 };
                    at = 2 * at + 1;
                    depth += 1;
                }
                into[address(at)] = PackedNode::Leaf { slot };
            }
        }
    }
}

impl Layout for Array {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Array
    }

    fn children(&self) -> Children {
        Children::Affine { stride: 1 }
    }

    fn leaves_hold(&self) -> bool {
        false
    }

    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError> {
        let depths = depths(forest, order, least_depth);
        let sizes = Sizes { nodes: depths.iter().map(full).collect(), depths };
        allowed(LayoutKind::Array, forest, sizes.total())?;
        Ok(sizes)
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<PackedForest, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let mut packed = PackedForest {
            kind: LayoutKind::Array,
            children: self.children(),
            inside: Vec::new(),
            nodes: vec![PackedNode::Empty; sizes.total() as usize],
            roots: Vec::with_capacity(order.len()),
            constants: Vec::with_capacity(order.len()),
            depths: sizes.depths,
        };
        let mut root = 0u32;
        for (k, t) in order.iter().enumerate() {
            packed.roots.push(root);
            // left(root + i) = root + 2i + 1 = 2 (root + i) + 1 - root
            packed.constants.push(1u32.wrapping_sub(root));
            fill(forest, *t, least_depth[k], |at| root as usize + at, &mut packed.nodes);
            root += sizes.nodes[k] as u32;
        }
        Ok(packed)
    }
}
