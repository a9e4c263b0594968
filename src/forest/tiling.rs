//! Tiles: connected splits of a tree that a walk decides at once (Treebeard, sections 3.2 to 3.4).
//!
//! A [`Tiling`] says which nodes belong together, and nothing of how they lie in memory. It is *valid* if it keeps four
//! rules: every node is in one tile; a tile is connected; a leaf is alone; and a tile of fewer nodes than there may be
//! has no split beside it that could have been in it.

use std::collections::VecDeque;

use super::{Node, Tree};

/// Nodes of a tile, at most.
pub const MOST_TILE: u32 = 8;

/// Whether a tree's nodes are in tiles of theirs: a tile's number for each node, and what each tile holds.
///
/// Tiles are numbered level by level, each level from left to right; the root is in tile 0. The nodes of a tile are in
/// level order, so that the first is the one that walks come in by, and two tiles of one shape have their nodes in one
/// order.
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
    /// Every node of the tree, tile after tile.
    nodes: Vec<u32>,
    /// Where in `nodes` each tile begins, and the end of the last.
    starts: Vec<u32>,
    /// The tile of each node.
    tile_of: Vec<u32>,
    /// Tiles above each tile.
    depths: Vec<u32>,
}

impl Tiling {
    /// Tiles of `size` nodes, at least 1, each filled level by level (Treebeard, algorithm 1).
    pub fn uniform(tree: &Tree, size: u32) -> Self {
        Self::grown(tree, size, |_| 0)
    }

    /// Tiles of `size` nodes, at least 1, each filled with the splits beside it that most rows come to, of equals the
    /// highest, leftmost one (Treebeard, algorithm 2). `weights` are by node ([`weights`]).
    pub fn by_probability(tree: &Tree, size: u32, weights: &[u64]) -> Self {
        Self::grown(tree, size, |node| weights[node as usize])
    }

    /// Grows tiles from the root on: of the splits beside a tile the one with the greatest `wanted` joins it, of equals
    /// the one that was beside it first.
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
                // The first of the greatest.
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

    /// Number of tiles, leaves included.
    pub fn len(&self) -> usize {
        self.depths.len()
    }

    /// Whether there is no tile, which is so of no tree.
    pub fn is_empty(&self) -> bool {
        self.depths.is_empty()
    }

    /// The nodes of a tile, in level order.
    pub fn nodes(&self, tile: u32) -> &[u32] {
        let [from, to] = [0, 1].map(|i| self.starts[tile as usize + i] as usize);
        &self.nodes[from..to]
    }

    /// The tile that a node is in.
    pub fn tile_of(&self, node: u32) -> u32 {
        self.tile_of[node as usize]
    }

    /// The nodes that a walk may go on to from a tile, from left to right: one more than the tile has splits, and none
    /// of a leaf.
    pub fn exits(&self, tree: &Tree, tile: u32) -> Vec<u32> {
        in_order(tree, self.nodes(tile)[0], |n| self.tile_of(n) == tile).1
    }

    /// The depth of each leaf in tiles, with its slot: how many a walk decides that ends there.
    pub fn leaf_depths<'a>(&'a self, tree: &'a Tree) -> impl Iterator<Item = (u32, u32)> + 'a {
        tree.nodes
            .iter()
            .zip(&self.tile_of)
            .filter_map(|(node, tile)| node.slot().map(|slot| (self.depths[*tile as usize], slot)))
    }

    /// The first of the four rules of a valid tiling of tiles of `size` nodes that this one breaks, of this tree.
    ///
    /// # Errors
    /// The rule, and where.
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
                return Err(format!("connectedness: tile {tile} is in {entries} pieces"));
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

/// The nodes from `entry` down that are `inside`, in level order, and those that one comes to outside, from left to right.
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
            // A leaf by itself leads nowhere.
            _ if n == entry => {}
            _ => exits.push(n),
        }
    }
    (nodes, exits)
}

/// How many of a profile's rows come to each node of a tree, given its [visits](super::Profile::visits) by slot.
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

/// Whether a few of a tree's leaves, at most 5% of them, hold at least 90% of the rows: then tiles by probability pay
/// (Treebeard, section 3.4.1). `visits` are by slot.
pub fn is_leaf_biased(tree: &Tree, visits: &[u64]) -> bool {
    let mut own: Vec<u64> = tree.nodes.iter().filter_map(|n| Some(visits[n.slot()? as usize])).collect();
    let all: u128 = own.iter().map(|n| u128::from(*n)).sum();
    own.sort_unstable_by(|a, b| b.cmp(a));
    let few = own.len() * 5 / 100;
    let held: u128 = own.iter().take(few).map(|n| u128::from(*n)).sum();
    all > 0 && held * 10 >= all * 9
}
