//! Cuts trees into tiles of four levels.

use super::{BlockEngine, LEAF, LEVELS, MOST_COLUMNS, Registers, Tile, Tree};
use crate::cost::{Machine, Registers as Costs};
use crate::forest::{Forest, Node, Predicate, Real, Side, least_f32_not_below};

/// Cuts the trees of a forest into tiles, at the costs of a machine. See [`Registers::new`].
pub(super) fn build(forest: &Forest, order: &[u32], machine: &Machine) -> Option<Registers> {
    let used = forest.used_columns();
    let direct = forest.features.len() <= MOST_COLUMNS;
    let (values, columns) = match direct {
        true => (forest.features.len(), None),
        false => (used.len(), Some(used)),
    };
    if values > MOST_COLUMNS {
        return None;
    }
    let mut few = Registers {
        tiles: Vec::new(),
        trees: Vec::with_capacity(order.len()),
        columns,
        values,
        row_tiles: 0.0,
        seconds: 0.0,
    };
    for t in order {
        let covers = forest.covers.as_ref().map(|covers| covers.tree(*t as usize));
        let tree = few.cut(&forest.trees[*t as usize].nodes, covers, &machine.registers)?;
        few.trees.push(tree);
    }
    few.seconds += few.row_tiles * machine.registers.far_tile * machine.far_part(few.bytes());
    Some(few)
}

/// Returns how many tiles every walk of a tree goes through without a branch on whether it is at a leaf, and
/// the seconds of a walk. `ended[n]` is the share of the walks that end after `n` tiles, and `tile` is the seconds of a
/// tile. One more tile for all walks is weighed against a branch that may be mispredicted.
fn shared(ended: &[f64], tile: f64, costs: &Costs) -> (u32, f64) {
    let last = ended.len() - 1;
    let seconds = |tiles: usize| {
        let mut total = tile * tiles as f64 + costs.kept * (tiles - 1) as f64;
        // The walks that come to the branch after `n` tiles, and those of them that end there.
        let (mut walks, mut ends): (f64, f64) = (1.0, ended[..=tiles].iter().sum());
        for n in tiles..last {
            total += costs.misprediction * ends.min(walks - ends).max(0.0);
            walks -= ends;
            total += tile * walks;
            ends = ended[n + 1];
        }
        total
    };
    let choices = (1..=last).map(|tiles| (tiles as u32, seconds(tiles)));
    choices.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1, tile))
}

/// Returns the first node from `node` on that is not a split that sends every row left.
fn settled(nodes: &[Node], mut node: u32) -> u32 {
    while let Node::Split { predicate: Predicate::Always, missing: Side::Left, left, .. } =
        nodes[node as usize]
    {
        node = left;
    }
    node
}

impl Registers {
    /// Adds a tree's tiles, the root's tile first. Without covers, rows reach each leaf equally often.
    fn cut(&mut self, nodes: &[Node], covers: Option<&[Real]>, costs: &Costs) -> Option<Tree> {
        let root = u32::try_from(self.tiles.len()).ok()?;
        let slots = nodes.iter().filter_map(Node::slot).min()?;
        // The top node of each tile, and how many tiles a walk has gone through when it gets there.
        let mut open = vec![(settled(nodes, 0), 0u32)];
        // How many rows reach a leaf after each number of tiles, and whether a leaf is there.
        let mut reached = vec![0.0];
        let mut ends = vec![false];
        let mut done = 0;
        while let Some(&(top, above)) = open.get(done) {
            done += 1;
            let mut tile = self.empty();
            let mut level = vec![top];
            for depth in 0..LEVELS {
                let first = (1usize << depth) - 1;
                let mut next = Vec::with_capacity(2 * level.len());
                for (i, node) in level.into_iter().enumerate() {
                    match nodes[node as usize] {
                        // An entry without a split has the same node on both sides, so its compare does
                        // not matter.
                        Node::Leaf { .. } => next.extend([node, node]),
                        Node::Split { feature, predicate, missing, left, right } => {
                            let index = first + i;
                            tile.thresholds[index] = match predicate {
                                Predicate::Less { threshold } => least_f32_not_below(threshold.0),
                                // No value reaches NaN, so every value goes left.
                                Predicate::Always => f32::NAN,
                                _ => return None,
                            };
                            tile.columns[index] = self.column_index(feature)?;
                            tile.missing |= u16::from(missing == Side::Right) << index;
                            next.extend([settled(nodes, left), settled(nodes, right)]);
                        }
                    }
                }
                level = next;
            }
            let mut before = None;
            for (exit, node) in tile.exits.iter_mut().zip(level) {
                // A leaf above the last level of a tile has several exits, side by side.
                let first = before.replace(node) != Some(node);
                *exit = match nodes[node as usize] {
                    Node::Leaf { slot } => {
                        let tiles = above as usize + 1;
                        reached.resize(reached.len().max(tiles + 1), 0.0);
                        ends.resize(reached.len(), false);
                        ends[tiles] = true;
                        if first {
                            reached[tiles] += covers.map_or(1.0, |covers| covers[node as usize].0);
                        }
                        LEAF | u16::try_from(slot - slots).ok().filter(|n| *n < LEAF)?
                    }
                    Node::Split { .. } => {
                        open.push((node, above + 1));
                        u16::try_from(open.len() - 1).ok().filter(|n| *n < LEAF)?
                    }
                };
            }
            self.tiles.push(tile);
        }
        let tile = costs.tile[self.values.saturating_sub(1) / 32 % costs.tile.len()];
        let all: f64 = reached.iter().sum();
        let share = |rows: &f64| if all > 0.0 { rows / all } else { 0.0 };
        let ended: Vec<f64> = reached.iter().map(share).collect();
        let (tiles, seconds) = shared(&ended, tile, costs);
        self.seconds += seconds + costs.tree;
        self.row_tiles += ended.iter().enumerate().map(|(n, share)| n as f64 * share).sum::<f64>();
        let ends_together = ends.iter().filter(|ends| **ends).count() == 1;
        let tiles = if ends_together { ends.len() as u32 - 1 } else { tiles };
        Some(Tree { root, slots, tiles, ends_together })
    }

    fn empty(&self) -> Tile {
        Tile { thresholds: [f32::INFINITY; 16], columns: [0; 16], exits: [LEAF; 16], missing: 0 }
    }

    /// Returns the index of a column among the values in registers.
    fn column_index(&self, feature: u32) -> Option<u8> {
        match &self.columns {
            None => u8::try_from(feature).ok(),
            Some(columns) => columns.binary_search(&feature).ok().and_then(|at| u8::try_from(at).ok()),
        }
    }
}
