//! Tiles: connected splits of a tree that one step of a walk decides together (Treebeard, sections 3.2 to
//! 3.4).
//!
//! A [`Tiling`] says which nodes belong together, and nothing about where they lie in memory. It is *valid* if
//! it keeps four rules. Every node is in one tile. A tile is connected. A leaf is alone in its tile. No split
//! beside a tile could join it: the tile has the greatest size, or only leaves are beside it.

use std::collections::VecDeque;

use super::{Node, Tree};

/// The greatest number of nodes of a tile.
pub const MOST_TILE: u32 = 8;

/// An assignment of a tree's nodes to tiles: the tile of each node, and the nodes of each tile.
///
/// Tiles are numbered level by level, each level from left to right. The root is in tile 0. The nodes of a
/// tile are in level order: a walk enters a tile at its first node, and tiles of one shape list their nodes
/// in the same order.
///
/// ```
/// use fangorn::{forest::{CompareType, Side, tiling::Tiling}, Forest};
///
/// let mut forest = Forest::builder(1, 1);
/// let mut tree = forest.tree(0);
/// tree.split(0, CompareType::F32.at_most(0.0), Side::Left, 1, 2);
/// tree.split(0, CompareType::F32.at_most(-1.0), Side::Left, 3, 4);
/// for leaf in 2..5 {
///     tree.leaf(leaf, &[0.5]);
/// }
/// let forest = forest.build()?;
/// let tiling = Tiling::uniform(&forest.trees[0], 2);
/// assert_eq!(tiling.nodes(0), [0, 1]);
/// assert_eq!(tiling.len(), 4, "one tile of two splits, and three leaves");
/// assert_eq!(tiling.verify(&forest.trees[0], 2), Ok(()));
/// # Ok::<(), fangorn::forest::VerifyError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tiling {
    /// All nodes of the tree, tile after tile.
    nodes: Vec<u32>,
    /// Start of each tile in `nodes`, and the end of the last tile.
    starts: Vec<u32>,
    /// The tile of each node, by node.
    tile_of: Vec<u32>,
    /// Number of tiles above each tile, by tile.
    depths: Vec<u32>,
}

impl Tiling {
    /// Returns tiles of at most `size` nodes, at least 1, that are filled level by level (Treebeard,
    /// algorithm 1).
    pub fn uniform(tree: &Tree, size: u32) -> Self {
        Self::grown(tree, size, |_| 0)
    }

    /// Returns tiles of at most `size` nodes, at least 1. The split beside a tile that most rows reach joins
    /// it; of equal splits the highest, leftmost one joins (Treebeard, algorithm 2). `weights` holds for each
    /// node how many rows reach it ([`weights`]).
    pub fn by_probability(tree: &Tree, size: u32, weights: &[u64]) -> Self {
        Self::grown(tree, size, |node| weights[node as usize])
    }

    /// Grows tiles from the root down. Of the splits beside a tile, the one with the greatest `wanted` joins
    /// it. Of equal splits, the one that came to lie beside the tile first joins.
    fn grown(tree: &Tree, size: u32, wanted: impl Fn(u32) -> u64) -> Self {
        let mut tiling = Self { tile_of: vec![0; tree.nodes.len()], starts: vec![0], ..Self::default() };
        let mut open = VecDeque::from([(0u32, 0u32)]);
        let is_split = |n: u32| tree.nodes[n as usize].slot().is_none();
        while let Some((entry, depth)) = open.pop_front() {
            let mut tile = vec![entry];
            let mut beside: Vec<u32> = Vec::new();
            let mut last = entry;
            while is_split(entry) && (tile.len() as u32) < size {
                if let Node::Split { left, right, .. } = tree.nodes[last as usize] {
                    beside.extend([left, right].into_iter().filter(|c| is_split(*c)));
                }
                // `max_by_key` returns the last maximum, so the reversed range gives the first one.
                let best = (0..beside.len()).rev().max_by_key(|i| wanted(beside[*i]));
                let Some(best) = best else { break };
                last = beside.remove(best);
                tile.push(last);
            }
            let number = tiling.depths.len() as u32;
            tile.iter().for_each(|n| tiling.tile_of[*n as usize] = number);
            let (inside, exits) = in_order(tree, entry, |n| tile.contains(&n));
            tiling.nodes.extend(inside);
            tiling.starts.push(tiling.nodes.len() as u32);
            tiling.depths.push(depth);
            open.extend(exits.into_iter().map(|exit| (exit, depth + 1)));
        }
        tiling
    }

    /// Returns the number of tiles. Each leaf is a tile.
    pub fn len(&self) -> usize {
        self.depths.len()
    }

    /// Returns whether there are no tiles. Every tree has a tile.
    pub fn is_empty(&self) -> bool {
        self.depths.is_empty()
    }

    /// Returns the nodes of a tile in level order.
    pub fn nodes(&self, tile: u32) -> &[u32] {
        let [from, to] = [0, 1].map(|i| self.starts[tile as usize + i] as usize);
        &self.nodes[from..to]
    }

    /// Returns the tile that holds a node.
    pub fn tile_of(&self, node: u32) -> u32 {
        self.tile_of[node as usize]
    }

    /// Returns the nodes at which a walk may go on after a tile, from left to right. They are one more than
    /// the tile has splits, and none if the tile is a leaf.
    pub fn exits(&self, tree: &Tree, tile: u32) -> Vec<u32> {
        in_order(tree, self.nodes(tile)[0], |n| self.tile_of(n) == tile).1
    }

    /// Returns the depth of each leaf, counted in tiles, with the leaf's slot. The depth is the number of
    /// tiles that a walk to this leaf decides.
    pub fn leaf_depths<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = (u32, u32)> + 'a {
        tree.nodes
            .iter()
            .zip(&self.tile_of)
            .filter_map(|(node, tile)| node.slot().map(|slot| (self.depths[*tile as usize], slot)))
    }

    /// Checks that this is a valid tiling of `tree` into tiles of at most `size` nodes.
    ///
    /// # Errors
    /// Returns the first of the four rules that is broken, and where.
    pub fn verify(&self, tree: &Tree, size: u32) -> Result<(), String> {
        let tiles = self.len() as u32;
        let mut seen = vec![false; tree.nodes.len()];
        if self.tile_of.len() != tree.nodes.len() {
            return Err(format!("partitioning: {} of {} nodes", self.tile_of.len(), tree.nodes.len()));
        }
        for tile in 0..tiles {
            let nodes = self.nodes(tile);
            for n in nodes {
                let twice = seen.get_mut(*n as usize).map(|seen| std::mem::replace(seen, true));
                if twice != Some(false) || self.tile_of(*n) != tile {
                    return Err(format!("partitioning: node {n} in tile {tile}"));
                }
            }
            if nodes.is_empty() || nodes.len() as u32 > size.max(1) {
                return Err(format!("partitioning: {} nodes in tile {tile}", nodes.len()));
            }
            let leaves = nodes.iter().filter(|n| tree.nodes[**n as usize].slot().is_some()).count();
            if leaves > 0 && nodes.len() > 1 {
                return Err(format!("leaf separation: a leaf is not alone in tile {tile}"));
            }
            let children = |n: &u32| match tree.nodes[*n as usize] {
                Node::Split { left, right, .. } => vec![left, right],
                Node::Leaf { .. } => Vec::new(),
            };
            let below: Vec<u32> = nodes.iter().flat_map(children).collect();
            let entries = nodes.iter().filter(|n| !below.contains(n)).count();
            if entries != 1 {
                return Err(format!("connectedness: tile {tile} has {entries} entries"));
            }
            let could = |n: &&u32| self.tile_of(**n) != tile && tree.nodes[**n as usize].slot().is_none();
            if let Some(n) = below.iter().find(could)
                && (nodes.len() as u32) < size
            {
                return Err(format!("maximal tiling: node {n} has room in tile {tile}"));
            }
        }
        match seen.iter().position(|seen| !seen) {
            Some(n) => Err(format!("partitioning: node {n} is in no tile")),
            None => Ok(()),
        }
    }
}

/// Returns the nodes from `entry` down that are `inside`, in level order, and the nodes just outside, from
/// left to right.
fn in_order(tree: &Tree, entry: u32, inside: impl Fn(u32) -> bool) -> (Vec<u32>, Vec<u32>) {
    let mut nodes = Vec::new();
    let mut level = VecDeque::from([entry]);
    while let Some(n) = level.pop_front() {
        nodes.push(n);
        if let Node::Split { left, right, .. } = tree.nodes[n as usize] {
            level.extend([left, right].into_iter().filter(|c| inside(*c)));
        }
    }
    let mut exits = Vec::new();
    let mut open = vec![entry];
    while let Some(n) = open.pop() {
        match tree.nodes[n as usize] {
            Node::Split { left, right, .. } if inside(n) => open.extend([right, left]),
            // A leaf at the entry has no exits.
            _ if n == entry => {}
            _ => exits.push(n),
        }
    }
    (nodes, exits)
}

/// Returns how many of a profile's rows reach each node of a tree. `visits` is the profile's
/// [visits](super::Profile::visits), by leaf slot.
pub fn weights(tree: &Tree, visits: &[u64]) -> Vec<u64> {
    let mut order = Vec::with_capacity(tree.nodes.len());
    let mut open = vec![0u32];
    while let Some(n) = open.pop() {
        order.push(n);
        if let Node::Split { left, right, .. } = tree.nodes[n as usize] {
            open.extend([left, right]);
        }
    }
    let mut weights = vec![0u64; tree.nodes.len()];
    for n in order.into_iter().rev() {
        weights[n as usize] = match tree.nodes[n as usize] {
            Node::Leaf { slot } => visits[slot as usize],
            Node::Split { left, right, .. } => weights[left as usize].saturating_add(weights[right as usize]),
        };
    }
    weights
}

/// Returns whether at most 5% of a tree's leaves hold at least 90% of its rows. Tiles by probability pay for
/// such a tree (Treebeard, section 3.4.1). `visits` is by leaf slot.
pub fn is_leaf_biased(tree: &Tree, visits: &[u64]) -> bool {
    let mut own: Vec<u64> = tree.nodes.iter().filter_map(|n| Some(visits[n.slot()? as usize])).collect();
    let all: u128 = own.iter().map(|n| u128::from(*n)).sum();
    own.sort_unstable_by(|a, b| b.cmp(a));
    let few = own.len() * 5 / 100;
    let held: u128 = own.iter().take(few).map(|n| u128::from(*n)).sum();
    all > 0 && held * 10 >= all * 9
}
