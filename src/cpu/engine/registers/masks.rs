//! Tiles of any shape, whose exits are found by masks.

use super::{
    Cut, TileKind, TreeToCut,
    answers::{CategorySplit, LookUps},
};
use crate::cost;
use crate::forest::{Forest, Node, Predicate, Side};

/// The maximum number of splits of a tile.
const SPLITS: usize = 31;

/// Up to 31 connected splits of a tree, and their exits from left to right. Two vector compares make all decisions of a
/// tile. Each split where the row goes right rules out the exits below its left side; the row takes the first exit that
/// is left. Such a tile holds a whole tree of 32 leaves, however deep it is.
///
/// The masks are those of QuickScorer (Lucchese et al., SIGIR 2015, section 3.1), which goes through the splits of a
/// column in the order of their thresholds. Here a tile's splits are decided together.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct MaskTile {
    /// Thresholds. Values that reach a threshold go right. No value reaches the NaN of an entry without a split.
    pub(crate) thresholds: [f32; 32],
    /// The exits below the left side of each split: a bit for each exit.
    pub(crate) left: [u32; 32],
    /// The index of each split's column among the values in registers.
    pub(crate) columns: [u8; 32],
    /// Where a walk goes from each exit: to a leaf or to another tile. [`LEAF`](super::LEAF) tells them apart.
    pub(crate) exits: [u16; 32],
    /// One bit for each split, set if missing values go right. Answers say it for splits on categories.
    pub(crate) missing: u32,
    /// The tile's look-ups, which answer its splits on categories.
    pub(crate) look_ups: LookUps,
}

/// Returns the splits of a tile, in the order of the nodes: those that most rows reach.
fn splits(tree: &TreeToCut<'_>, top: u32) -> Vec<u32> {
    // The splits that the tile could take next, at most 32.
    let mut open = Vec::with_capacity(SPLITS + 1);
    let add = |open: &mut Vec<u32>, node: u32| {
        if matches!(tree.nodes[node as usize], Node::Split { .. }) {
            open.push(node);
        }
    };
    add(&mut open, top);
    let mut splits = Vec::with_capacity(SPLITS);
    while splits.len() < SPLITS
        && let Some(most) = (0..open.len()).max_by(|a, b| tree.rows(open[*a]).total_cmp(&tree.rows(open[*b])))
    {
        let node = open.swap_remove(most);
        splits.push(node);
        if let Node::Split { left, right, .. } = tree.nodes[node as usize] {
            add(&mut open, tree.settled(left));
            add(&mut open, tree.settled(right));
        }
    }
    splits.sort_unstable();
    splits
}

impl TileKind for MaskTile {
    const SPLITS: usize = SPLITS;
    const TAKES_CATEGORIES: bool = true;

    fn cut(tree: &TreeToCut<'_>, top: u32) -> Option<Cut<Self>> {
        let mut exact = vec![f64::NAN; Self::ENTRIES];
        let mut tile = Self {
            thresholds: [f32::NAN; 32],
            left: [0; 32],
            columns: [0; 32],
            exits: [0; 32],
            missing: 0,
            look_ups: LookUps::default(),
        };
        let mut asking = Vec::new();
        let splits = splits(tree, top);
        let mut exits = Vec::with_capacity(splits.len() + 1);
        // Nodes from left to right, each with the splits that have it on their left side.
        let mut open = vec![(top, 0u32)];
        while let Some((node, left_of)) = open.pop() {
            match (tree.nodes[node as usize], splits.binary_search(&node)) {
                (Node::Split { feature, predicate, missing, left, right }, Ok(index)) => {
                    match predicate {
                        Predicate::InSet { set, inside } => {
                            // No value reaches NaN, so the answers alone decide.
                            asking.push(CategorySplit { index, column: feature, set, inside, missing });
                        }
                        _ => {
                            (tile.thresholds[index], exact[index]) = tree.threshold(predicate)?;
                            tile.columns[index] = tree.column(feature)?;
                            tile.missing |= u32::from(missing == Side::Right) << index;
                        }
                    }
                    open.push((tree.settled(right), left_of));
                    open.push((tree.settled(left), left_of | 1 << index));
                }
                _ => {
                    let mut rest = left_of;
                    while rest != 0 {
                        tile.left[rest.trailing_zeros() as usize] |= 1 << exits.len();
                        rest &= rest - 1;
                    }
                    exits.push(node);
                }
            }
        }
        Some(Cut { tile, exact, exits, asking })
    }

    fn look_up(&mut self, look_ups: LookUps) {
        self.look_ups = look_ups;
    }

    /// In larger trees, few walks end in the first tile. Tiles of four levels are faster then.
    fn may_be_faster(forest: &Forest) -> bool {
        forest.leaf_count() <= 2 * (SPLITS + 1) * forest.trees.len()
    }

    fn exits(&mut self) -> &mut [u16] {
        &mut self.exits
    }

    fn costs(costs: &cost::Registers) -> &cost::TileCosts {
        &costs.mask_tile
    }
}
