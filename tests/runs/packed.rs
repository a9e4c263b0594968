//! A walk over packed nodes, as a plan says it goes: what a target does in words of its own.

use fangorn::{
    Forest,
    forest::{Side, reference},
    plan::{PackedForest, PackedNode, Remainder},
};

/// The slot where a walk of the tree at `position` ends, which takes `steps` without a test for a leaf, and then the rest.
pub fn end(
    forest: &Forest,
    packed: &PackedForest,
    position: usize,
    row: &[f32],
    (steps, rest): (u32, Remainder),
) -> Result<u32, String> {
    let mut at = packed.roots[position];
    let leaf = |at: u32| matches!(packed.nodes[at as usize], PackedNode::Leaf { .. });
    let step = |at: u32| match packed.nodes.get(at as usize) {
        Some(PackedNode::Split { feature, predicate, missing, .. }) => {
            let side = reference::side(forest, *predicate, *missing, row[*feature as usize]);
            Ok(packed.step(position, at, side))
        }
        Some(PackedNode::Through { .. }) => Ok(packed.step(position, at, Side::Left)),
        // Where children are computed, what lies past a leaf is anything.
        Some(PackedNode::Leaf { .. }) if packed.children.named() => Ok(at),
        other => Err(format!("a step from {other:?} at address {at}")),
    };
    let counted = match rest {
        Remainder::Counted => steps.max(packed.depths[position]),
        Remainder::Nothing | Remainder::UntilLeaf => steps,
    };
    for _ in 0..counted {
        at = step(at)?;
    }
    while rest == Remainder::UntilLeaf && !leaf(at) {
        at = step(at)?;
    }
    match packed.nodes[at as usize] {
        PackedNode::Leaf { slot } => Ok(slot),
        node => Err(format!("it ends at {node:?}")),
    }
}
