//! Tiles of four levels.

use super::{Cut, TileKind, TreeToCut, answers::LookUps};
use crate::cost;
use crate::forest::{Forest, Node, Side};

/// Levels of a tile.
const LEVELS: u32 = 4;

/// Four levels of a tree, as fifteen splits. All tiles are full, so they have the same shape (tree tiling: Treebeard,
/// section 3.2). One vector compare makes all fifteen decisions of a tile. The four decisions on the row's path select
/// the exit.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Tile {
    /// Thresholds, level by level. Values that reach a threshold go right. The last entry has no split. No value reaches
    /// the NaN of an entry without a split.
    pub(crate) thresholds: [f32; 16],
    /// The index of each split's column among the values in registers.
    pub(crate) columns: [u8; 16],
    /// Where a walk goes from each of the tile's sixteen ends, left to right: to a leaf or to another tile.
    /// [`LEAF`](super::LEAF) tells them apart.
    pub(crate) exits: [u16; 16],
    /// One bit for each split, set if missing values go right.
    pub(crate) missing: u16,
}

impl TileKind for Tile {
    const SPLITS: usize = 15;
    const TAKES_CATEGORIES: bool = false;

    fn cut(tree: &TreeToCut<'_>, top: u32) -> Option<Cut<Self>> {
        let mut exact = vec![f64::NAN; Self::ENTRIES];
        let mut tile = Self { thresholds: [f32::NAN; 16], columns: [0; 16], exits: [0; 16], missing: 0 };
        let mut level = vec![top];
        for depth in 0..LEVELS {
            let first = (1usize << depth) - 1;
            let mut next = Vec::with_capacity(2 * level.len());
            for (i, node) in level.into_iter().enumerate() {
                match tree.nodes[node as usize] {
                    // An entry without a split has the same node on both sides, so its compare does not matter.
                    Node::Leaf { .. } => next.extend([node, node]),
                    Node::Split { feature, predicate, missing, left, right } => {
                        let index = first + i;
                        (tile.thresholds[index], exact[index]) = tree.threshold(predicate)?;
                        tile.columns[index] = tree.column(feature)?;
                        tile.missing |= u16::from(missing == Side::Right) << index;
                        next.extend([tree.settled(left), tree.settled(right)]);
                    }
                }
            }
            level = next;
        }
        Some(Cut { tile, exact, exits: level, asking: Vec::new() })
    }

    fn look_up(&mut self, _: LookUps) {}

    fn may_be_faster(_: &Forest) -> bool {
        true
    }

    fn exits(&mut self) -> &mut [u16] {
        &mut self.exits
    }

    fn costs(costs: &cost::Registers) -> &cost::TileCosts {
        &costs.tile
    }
}
