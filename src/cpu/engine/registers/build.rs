//! Cuts trees into tiles.

use super::{Answers, BlockEngine, Cut, InRegisters, LEAF, MOST_COLUMNS, TileKind, Tree};
use crate::cost::{Machine, Registers as Costs, TileCosts};
use crate::forest::{CompareType, Forest, Node, Predicate, Real, Side, least_f32_not_below};

/// Cuts the trees of a forest into tiles, at the costs of a machine. See [`InRegisters::new`].
pub(super) fn build<P: TileKind>(
    forest: &Forest,
    order: &[u32],
    machine: &Machine,
) -> Option<InRegisters<P>> {
    let used = forest.used_columns();
    let direct = forest.features.len() <= MOST_COLUMNS;
    let (values, columns) = match direct {
        true => (forest.features.len(), None),
        false => (used.len(), Some(used)),
    };
    if values > MOST_COLUMNS {
        return None;
    }
    let mut few = InRegisters {
        tiles: Vec::new(),
        exact: Vec::new(),
        answers: if P::TAKES_CATEGORIES { Answers::new(forest)? } else { Answers::default() },
        trees: Vec::with_capacity(order.len()),
        columns,
        values,
        row_tiles: 0.0,
        seconds: 0.0,
    };
    for t in order {
        let tree = few.add(forest, *t as usize, &machine.registers)?;
        few.trees.push(tree);
        if few.bytes() > MOST_BYTES {
            return None;
        }
    }
    few.tiles.shrink_to_fit();
    // Splits that no row reaches may be the only ones that ask.
    if few.answers.look_ups.is_empty() {
        few.answers = Answers::default();
    }
    // A thread may take an `f32` that is smaller than normal numbers for 0, so such thresholds are not to be rounded.
    let tiny = |threshold: &f64| *threshold != 0.0 && threshold.abs() < f64::from(f32::MIN_POSITIVE);
    if few.exact.iter().any(tiny) {
        few.exact.clear();
    }
    few.exact.shrink_to_fit();
    few.seconds += few.row_tiles * P::costs(&machine.registers).far * machine.far_part(few.walked_bytes());
    Some(few)
}

/// The most bytes of tables. No cache holds more, and other engines read the nodes that there are anyway.
const MOST_BYTES: usize = 256 << 20;

/// A tree that is cut into tiles.
pub(crate) struct TreeToCut<'a> {
    pub(super) nodes: &'a [Node],
    /// The columns that registers hold, if not all.
    columns: Option<&'a [u32]>,
    /// How many rows reach each node.
    rows: Vec<f64>,
}

impl TreeToCut<'_> {
    /// Returns how many rows reach a node. Without covers, rows reach each leaf equally often.
    pub(super) fn rows(&self, node: u32) -> f64 {
        self.rows[node as usize]
    }

    /// Returns the share of the rows that reach a node, and 0 if none is known to reach the tree.
    fn share(&self, node: u32) -> f64 {
        if self.rows[0] > 0.0 { (self.rows(node) / self.rows[0]).min(1.0) } else { 0.0 }
    }

    /// Returns the first node from `node` on that is not a split that sends every row left.
    pub(super) fn settled(&self, mut node: u32) -> u32 {
        while let Node::Split { predicate: Predicate::Always, missing: Side::Left, left, .. } =
            self.nodes[node as usize]
        {
            node = left;
        }
        node
    }

    /// Returns the threshold which values that go right reach, as `f32` and exactly, or `None` if the predicate has none.
    pub(super) fn threshold(&self, predicate: Predicate) -> Option<(f32, f64)> {
        let exact = match predicate {
            Predicate::Less { threshold } => threshold.0,
            // No value reaches NaN, so every value goes left.
            Predicate::Always => f64::NAN,
            _ => return None,
        };
        Some((least_f32_not_below(exact), exact))
    }

    /// Returns the index of a column among the values in registers.
    pub(super) fn column(&self, feature: u32) -> Option<u8> {
        match self.columns {
            None => u8::try_from(feature).ok(),
            Some(columns) => columns.binary_search(&feature).ok().and_then(|at| u8::try_from(at).ok()),
        }
    }
}

/// Returns how many rows reach each node: its cover, or the number of its leaves.
fn rows_of(nodes: &[Node], covers: Option<&[Real]>) -> Vec<f64> {
    if let Some(covers) = covers {
        return covers.iter().map(|cover| cover.0).collect();
    }
    let mut from_root = vec![0u32];
    let mut seen = 0;
    while let Some(node) = from_root.get(seen) {
        seen += 1;
        if let Node::Split { left, right, .. } = nodes[*node as usize] {
            from_root.extend([left, right]);
        }
    }
    let mut rows = vec![1.0; nodes.len()];
    for node in from_root.into_iter().rev() {
        if let Node::Split { left, right, .. } = nodes[node as usize] {
            rows[node as usize] = rows[left as usize] + rows[right as usize];
        }
    }
    rows
}

/// Returns how many tiles every walk of a tree goes through without a branch on whether it is at a leaf, and
/// the seconds of a walk. `ended[n]` is the share of the walks that end after `n` tiles. The first tile takes `first`
/// seconds, and each one below it `next`. One more tile for all walks is weighed against a branch that may be
/// mispredicted.
fn shared(ended: &[f64], [first, next]: [f64; 2], kept: f64, misprediction: f64) -> (u32, f64) {
    let last = ended.len() - 1;
    let seconds = |tiles: usize| {
        let mut total = first + (next + kept) * (tiles - 1) as f64;
        // The walks that come to the branch after `n` tiles, and those of them that end there.
        let (mut walks, mut ends): (f64, f64) = (1.0, ended[..=tiles].iter().sum());
        for n in tiles..last {
            total += misprediction * ends.min(walks - ends).max(0.0);
            walks -= ends;
            total += next * walks;
            ends = ended[n + 1];
        }
        total
    };
    let choices = (1..=last).map(|tiles| (tiles as u32, seconds(tiles)));
    choices.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1, first))
}

impl<P: TileKind> InRegisters<P> {
    /// Adds a tree's tiles, the root's tile first.
    fn add(&mut self, forest: &Forest, tree: usize, costs: &Costs) -> Option<Tree> {
        let nodes = &forest.trees[tree].nodes;
        let covers = forest.covers.as_ref().map(|covers| covers.tree(tree));
        let root = u32::try_from(self.tiles.len()).ok()?;
        let slots = nodes.iter().filter_map(Node::slot).min()?;
        let to_cut = TreeToCut { nodes, columns: self.columns.as_deref(), rows: rows_of(nodes, covers) };
        // The top node of each tile, and how many tiles a walk has gone through when it gets there.
        let mut open = vec![(to_cut.settled(0), 0u32)];
        // How many rows reach a leaf after each number of tiles, and whether a leaf is there.
        let mut reached = vec![0.0];
        let mut ends = vec![false];
        // How many look-ups a row comes to.
        let mut look_ups = 0.0;
        let mut done = 0;
        while let Some(&(top, above)) = open.get(done) {
            done += 1;
            let Cut { mut tile, exact, exits, asking } = P::cut(&to_cut, top)?;
            let mut before = None;
            for (exit, node) in tile.exits().iter_mut().zip(exits) {
                // A leaf above the last level of a full tile has several exits, side by side.
                let first = before.replace(node) != Some(node);
                *exit = match nodes[node as usize] {
                    Node::Leaf { slot } => {
                        let tiles = above as usize + 1;
                        reached.resize(reached.len().max(tiles + 1), 0.0);
                        ends.resize(reached.len(), false);
                        ends[tiles] = true;
                        if first {
                            reached[tiles] += to_cut.rows(node);
                        }
                        LEAF | u16::try_from(slot - slots).ok().filter(|n| *n < LEAF)?
                    }
                    Node::Split { .. } => {
                        open.push((node, above + 1));
                        u16::try_from(open.len() - 1).ok().filter(|n| *n < LEAF)?
                    }
                };
            }
            let of_tile = self.answers.add(forest, asking)?;
            look_ups += f64::from(of_tile.count) * to_cut.share(top);
            tile.look_up(of_tile);
            self.tiles.push(tile);
            if forest.compare == CompareType::F64 {
                self.exact.extend(exact);
            }
        }
        let TileCosts { first, next, misprediction, .. } = P::costs(costs);
        let tile = [first, next].map(|of| of[self.values.saturating_sub(1) / 32 % of.len()]);
        let all: f64 = reached.iter().sum();
        let share = |rows: &f64| if all > 0.0 { rows / all } else { 0.0 };
        let ended: Vec<f64> = reached.iter().map(share).collect();
        let (tiles, seconds) = shared(&ended, tile, costs.kept, *misprediction);
        self.seconds += seconds + look_ups * costs.look_up;
        self.row_tiles += ended.iter().enumerate().map(|(n, share)| n as f64 * share).sum::<f64>();
        let ends_together = ends.iter().filter(|ends| **ends).count() == 1;
        let tiles = if ends_together { ends.len() as u32 - 1 } else { tiles };
        Some(Tree { root, slots, tiles, ends_together })
    }
}
