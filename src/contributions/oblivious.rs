//! Oblivious trees, whose splits are the same on each level. CatBoost computes contributions with the last
//! split at the root, while the forest's trees have the first split there. Leaves are the same either way,
//! but the expected values of splits are not.

use std::borrow::Cow;

use crate::forest::{Covers, Forest, Node, Real, Tree};

/// Returns the forest with the splits that define its contributions: in CatBoost's oblivious trees, the last split is
/// at the root.
pub(super) fn prepare(forest: &Forest) -> Cow<'_, Forest> {
    let Some(covers) = forest.covers.as_ref().filter(|_| forest.producer.library == "catboost") else {
        return Cow::Borrowed(forest);
    };
    let mut turned = forest.clone();
    let mut all = Vec::with_capacity(forest.trees.len());
    for (t, tree) in turned.trees.iter_mut().enumerate() {
        let covers = covers.tree(t);
        all.push(match turn(tree, covers) {
            None => covers.to_vec(),
            Some((nodes, covers)) => {
                tree.nodes = nodes;
                covers
            }
        });
    }
    turned.covers = Covers::new(all);
    Cow::Owned(turned)
}

/// Returns the nodes and covers of a tree with its levels in reverse order. Returns `None` if the tree is not
/// complete, its nodes are not in level order, or a level has different splits.
fn turn(tree: &Tree, covers: &[Real]) -> Option<(Vec<Node>, Vec<Real>)> {
    let leaves = tree.nodes.len().div_ceil(2);
    if !leaves.is_power_of_two() {
        return None;
    }
    let levels = leaves.trailing_zeros();
    let mut splits = Vec::new();
    for level in 0..levels {
        let first = (1usize << level) - 1;
        for n in first..2 * first + 1 {
            let Node::Split { left, right, .. } = tree.nodes[n] else { return None };
            if (left as usize, right as usize) != (2 * n + 1, 2 * n + 2)
                || !same_split(tree.nodes[first], tree.nodes[n])
            {
                return None;
            }
        }
        splits.push(tree.nodes[first]);
    }
    let mut nodes = tree.nodes.clone();
    let mut turned = covers.to_vec();
    for p in 0..leaves {
        // The sides of a leaf's path are the bits of its index, the root's first.
        let from = if levels == 0 { 0 } else { p.reverse_bits() >> (usize::BITS - levels) };
        nodes[leaves - 1 + p] = tree.nodes[leaves - 1 + from];
        turned[leaves - 1 + p] = covers[leaves - 1 + from];
    }
    for n in (0..leaves - 1).rev() {
        let level = (n + 1).ilog2();
        let (index, split) = (n as u32, splits[(levels - 1 - level) as usize]);
        if let Node::Split { feature, predicate, missing, .. } = split {
            nodes[n] = Node::Split { feature, predicate, missing, left: 2 * index + 1, right: 2 * index + 2 };
        }
        turned[n] = Real(turned[2 * n + 1].0 + turned[2 * n + 2].0);
    }
    Some((nodes, turned))
}

fn same_split(a: Node, b: Node) -> bool {
    let decision = |node: Node| match node {
        Node::Split { feature, predicate, missing, .. } => Some((feature, predicate, missing)),
        Node::Leaf { .. } => None,
    };
    decision(a) == decision(b)
}
