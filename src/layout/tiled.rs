//! Trees of tiles in memory (Treebeard, section 5.2): `layout(array)` and `layout(sparse)` where a schedule has
//! `tileNodes`.
//!
//! Both push leaves down by padding that leads to one child, so a step past a leaf is no step: leaves don't hold.

use std::collections::VecDeque;

use super::{
    Children, Layout, LayoutError, LayoutKind, Packed, PackedNode, Shape, Sizes, addressable, array::allowed,
};
use crate::forest::{Forest, Node, Tree, tiling::Tiling};

/// Every tree a full tree of tiles in level order, each tile with one child more than tiles have nodes.
pub struct TiledArray {
    /// Nodes of a tile, at most.
    pub nodes: u32,
    /// Of each tree, by its number in the forest.
    pub tilings: Vec<Tiling>,
}

/// Only the tiles there are, the children of one side by side, and the leaves of all trees behind all tiles.
///
/// A tile's children are all leaves or all tiles. Where they are of both kinds, each leaf is kept in a tile that leads to
/// it alone, an extra hop.
pub struct TiledSparse {
    /// Nodes of a tile, at most.
    pub nodes: u32,
    /// Of each tree, by its number in the forest.
    pub tilings: Vec<Tiling>,
}

/// The depth of each tree in tiles, with its leaves no higher than asked for.
fn depths(forest: &Forest, tilings: &[Tiling], order: &[u32], least_depth: &[u32]) -> Vec<u32> {
    let deepest = |t: u32| {
        let depths = tilings[t as usize].leaf_depths(&forest.trees[t as usize]);
        depths.map(|(depth, _)| depth).max().unwrap_or(0)
    };
    // A hop leads no deeper than the tile beside it does.
    order.iter().zip(least_depth).map(|(t, least)| deepest(*t).max(*least)).collect()
}

/// The splits of a tile, put behind those of the tiles before it.
fn inside(tree: &Tree, splits: &[u32], into: &mut Vec<PackedNode>) -> (u32, Shape) {
    let first = into.len() as u32;
    into.extend(splits.iter().filter_map(|n| match tree.nodes[*n as usize] {
        Node::Split { feature, predicate, missing, .. } => {
            Some(PackedNode::Split { feature, predicate, missing, link: 0 })
        }
        Node::Leaf { .. } => None,
    }));
    (first, Shape::of(tree, splits))
}

/// What stands at an address.
#[derive(Clone, Copy)]
enum TileEntry {
    Tile(u32),
    /// Padding above the leaf with this slot.
    Above(u32),
    Leaf(u32),
}

impl TileEntry {
    /// What a walk comes to by a node, its leaves no higher than `least`.
    fn at(tree: &Tree, tiling: &Tiling, node: u32, depth: u32, least: u32) -> Self {
        match tree.nodes[node as usize] {
            Node::Split { .. } => Self::Tile(tiling.tile_of(node)),
            Node::Leaf { slot } if depth < least => Self::Above(slot),
            Node::Leaf { slot } => Self::Leaf(slot),
        }
    }

    /// What it leads to, from left to right, `depth` steps from the root.
    fn below(self, tree: &Tree, tiling: &Tiling, depth: u32, least: u32) -> Vec<Self> {
        match self {
            Self::Tile(tile) => {
                let exits = tiling.exits(tree, tile).into_iter();
                exits.map(|node| Self::at(tree, tiling, node, depth, least)).collect()
            }
            Self::Above(slot) if depth < least => vec![Self::Above(slot)],
            Self::Above(slot) => vec![Self::Leaf(slot)],
            Self::Leaf(_) => Vec::new(),
        }
    }

    fn is_leaf(self) -> bool {
        matches!(self, Self::Leaf(_))
    }
}

/// Places of a full tree of so many levels of tiles below the root's, each with so many children.
fn full(depth: u32, children: u32) -> u64 {
    let (mut level, mut all) = (1u64, 1u64);
    for _ in 0..depth {
        level = level.saturating_mul(children.into());
        all = all.saturating_add(level);
    }
    all
}

impl Layout for TiledArray {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Array
    }

    fn children(&self) -> Children {
        Children::TilesComputed { nodes: self.nodes }
    }

    fn leaves_hold(&self) -> bool {
        false
    }

    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError> {
        let depths = depths(forest, &self.tilings, order, least_depth);
        let nodes = depths.iter().map(|d| full(*d, self.nodes + 1)).collect();
        let sizes = Sizes { nodes, depths };
        allowed(self.kind(), forest, sizes.total())?;
        Ok(sizes)
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Packed, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let mut packed = Packed {
            kind: self.kind(),
            children: self.children(),
            nodes: vec![PackedNode::Empty; sizes.total() as usize],
            inside: Vec::new(),
            roots: Vec::with_capacity(order.len()),
            constants: Vec::with_capacity(order.len()),
            depths: sizes.depths,
        };
        let mut root = 0u32;
        for (k, t) in order.iter().enumerate() {
            let (tree, tiling, least) =
                (&forest.trees[*t as usize], &self.tilings[*t as usize], least_depth[k]);
            packed.roots.push(root);
            // child = root + (nodes + 1) i + 1 + k = (nodes + 1) (root + i) + 1 - nodes x root + k
            packed.constants.push(1u32.wrapping_sub(self.nodes.wrapping_mul(root)));
            let mut open = vec![(TileEntry::at(tree, tiling, 0, 0, least), root, 0u32)];
            while let Some((item, address, depth)) = open.pop() {
                packed.nodes[address as usize] = match item {
                    TileEntry::Tile(tile) => {
                        let (first, shape) = inside(tree, tiling.nodes(tile), &mut packed.inside);
                        PackedNode::Tile { first, shape, link: 0 }
                    }
                    TileEntry::Above(_) => PackedNode::Through { link: 0 },
                    TileEntry::Leaf(slot) => PackedNode::Leaf { slot },
                };
                let below = item.below(tree, tiling, depth + 1, least);
                open.extend((0..).zip(below).map(|(i, item)| (item, packed.child(k, address, i), depth + 1)));
            }
            root += sizes.nodes[k] as u32;
        }
        Ok(packed)
    }
}

/// The tiles and the leaves of a tree of the sparse layout: each tile with what it leads to, in the order of their places.
fn each_tile(tree: &Tree, tiling: &Tiling, least: u32, mut tile: impl FnMut(TileEntry, &[TileEntry])) {
    let mut level = VecDeque::from([(TileEntry::at(tree, tiling, 0, 0, least), 0u32)]);
    while let Some((item, depth)) = level.pop_front() {
        let mut below = item.below(tree, tiling, depth + 1, least);
        if !below.iter().all(|item| item.is_leaf()) {
            for item in &mut below {
                if let TileEntry::Leaf(slot) = *item {
                    *item = TileEntry::Above(slot);
                }
            }
            level.extend(below.iter().map(|item| (*item, depth + 1)));
        }
        tile(item, &below);
    }
}

impl Layout for TiledSparse {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Sparse
    }

    fn children(&self) -> Children {
        Children::TilesLinked { nodes: self.nodes }
    }

    fn leaves_hold(&self) -> bool {
        false
    }

    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError> {
        let nodes = |(t, least): (&u32, &u32)| {
            let mut count = 0;
            each_tile(&forest.trees[*t as usize], &self.tilings[*t as usize], *least, |_, below| {
                count += 1 + below.iter().filter(|item| item.is_leaf()).count() as u64;
            });
            count
        };
        let nodes = order.iter().zip(least_depth).map(nodes).collect();
        let sizes = Sizes { nodes, depths: depths(forest, &self.tilings, order, least_depth) };
        addressable(self.kind(), &sizes)?;
        Ok(sizes)
    }

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Packed, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let (mut tiles, mut leaves, mut splits) = (Vec::new(), Vec::new(), Vec::new());
        // Whether each link, and each root, is a leaf's; the leaves lie behind the tiles, whose number is known last.
        let mut to_leaf = Vec::new();
        let mut roots = Vec::with_capacity(order.len());
        for (t, least) in order.iter().zip(least_depth) {
            let (tree, tiling) = (&forest.trees[*t as usize], &self.tilings[*t as usize]);
            if let TileEntry::Leaf(slot) = TileEntry::at(tree, tiling, 0, 0, *least) {
                roots.push((leaves.len() as u32, true));
                leaves.push(PackedNode::Leaf { slot });
                continue;
            }
            roots.push((tiles.len() as u32, false));
            let mut next = tiles.len() as u32 + 1;
            each_tile(tree, tiling, *least, |item, below| {
                let all_leaves = below.iter().all(|item| item.is_leaf());
                let link = if all_leaves { leaves.len() as u32 } else { next };
                to_leaf.push(all_leaves);
                match all_leaves {
                    true => leaves.extend(below.iter().filter_map(|item| match item {
                        TileEntry::Leaf(slot) => Some(PackedNode::Leaf { slot: *slot }),
                        _ => None,
                    })),
                    false => next += below.len() as u32,
                }
                tiles.push(match item {
                    TileEntry::Tile(tile) => {
                        let (first, shape) = inside(tree, tiling.nodes(tile), &mut splits);
                        PackedNode::Tile { first, shape, link }
                    }
                    TileEntry::Above(_) | TileEntry::Leaf(_) => PackedNode::Through { link },
                });
            });
        }
        let behind = tiles.len() as u32;
        for (node, to_leaf) in tiles.iter_mut().zip(to_leaf) {
            if let PackedNode::Tile { link, .. } | PackedNode::Through { link } = node
                && to_leaf
            {
                *link += behind;
            }
        }
        Ok(Packed {
            kind: self.kind(),
            children: self.children(),
            nodes: [tiles, leaves].concat(),
            inside: splits,
            roots: roots.into_iter().map(|(at, leaf)| if leaf { at + behind } else { at }).collect(),
            constants: vec![0; order.len()],
            depths: sizes.depths,
        })
    }
}
