//! Tiles of any shape, whose exits are found by masks.

use std::collections::BinaryHeap;

use super::{Piece, TreeToCut};
use crate::cost;
use crate::forest::{Node, Side};

/// The maximum number of splits of a tile.
const SPLITS: usize = 31;

/// Up to 31 connected splits of a tree, and their exits from left to right. Two vector compares make all decisions of a
/// tile. Each split where the row goes right rules out the exits below its left side; the row takes the first exit that is
/// left. Such a tile holds a whole tree of 32 leaves, however deep it is.
///
/// The masks are those of QuickScorer (Lucchese et al., SIGIR 2015, section 3.1), which goes through the splits of a column
/// in the order of their thresholds. Here a tile's splits are decided together.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct MaskTile {
    /// Thresholds. Values that reach a threshold go right. An entry without a split is infinite, and rules out nothing.
    pub(crate) thresholds: [f32; 32],
    /// The exits below the left side of each split: a bit for each exit.
    pub(crate) left: [u32; 32],
    /// The index of each split's column among the values in registers.
    pub(crate) columns: [u8; 32],
    /// Where a walk goes from each exit: to a leaf or to another tile. [`LEAF`](super::LEAF) tells them apart.
    pub(crate) exits: [u16; 32],
    /// One bit for each split, set if missing values go right.
    pub(crate) missing: u32,
}

/// A split that the tile could take, ordered by the rows that reach it. Of equal ones the first in the tree is taken.
struct Open {
    rows: f64,
    node: u32,
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rows.total_cmp(&other.rows).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Open {}

/// Returns the splits of a tile, in the order of the nodes: those that most rows reach.
fn splits(tree: &TreeToCut<'_>, top: u32) -> Vec<u32> {
    let mut open = BinaryHeap::new();
    let add = |open: &mut BinaryHeap<Open>, node: u32| {
        if matches!(tree.nodes[node as usize], Node::Split { .. }) {
            open.push(Open { rows: tree.rows(node), node });
        }
    };
    add(&mut open, top);
    let mut splits = Vec::with_capacity(SPLITS);
    while splits.len() < SPLITS
        && let Some(Open { node, .. }) = open.pop()
    {
        splits.push(node);
        if let Node::Split { left, right, .. } = tree.nodes[node as usize] {
            add(&mut open, tree.settled(left));
            add(&mut open, tree.settled(right));
        }
    }
    splits.sort_unstable();
    splits
}

impl Piece for MaskTile {
    const SPLITS: usize = SPLITS;

    fn cut(tree: &TreeToCut<'_>, top: u32) -> Option<(Self, Vec<u32>)> {
        let mut tile = Self {
            thresholds: [f32::INFINITY; 32],
            left: [0; 32],
            columns: [0; 32],
            exits: [0; 32],
            missing: 0,
        };
        let splits = splits(tree, top);
        let mut exits = Vec::with_capacity(splits.len() + 1);
        // Nodes from left to right, each with the splits that have it on their left side.
        let mut open = vec![(top, 0u32)];
        while let Some((node, left_of)) = open.pop() {
            match (tree.nodes[node as usize], splits.binary_search(&node)) {
                (Node::Split { feature, predicate, missing, left, right }, Ok(index)) => {
                    tile.thresholds[index] = tree.threshold(predicate)?;
                    tile.columns[index] = tree.column(feature)?;
                    tile.missing |= u32::from(missing == Side::Right) << index;
                    open.push((tree.settled(right), left_of));
                    open.push((tree.settled(left), left_of | 1 << index));
                }
                _ => {
                    for (index, left) in tile.left.iter_mut().enumerate() {
                        *left |= (left_of >> index & 1) << exits.len();
                    }
                    exits.push(node);
                }
            }
        }
        Some((tile, exits))
    }

    fn exits(&mut self) -> &mut [u16] {
        &mut self.exits
    }

    fn costs(costs: &cost::Registers) -> &cost::PieceCosts {
        &costs.mask_tile
    }
}
