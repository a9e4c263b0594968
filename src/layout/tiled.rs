//! Layouts for trees of tiles (Treebeard, section 5.2): `layout(array)` and `layout(sparse)` of a schedule
//! with `tileNodes`.
//!
//! Both push leaves down by padding that has one child. A walk that steps on from a leaf does not stay there,
//! so [`Layout::leaves_hold`] is false.

use std::collections::VecDeque;

use super::{
    Children, Layout, LayoutError, LayoutKind, PackedForest, PackedNode, Shape, Sizes, addressable,
    array::allowed,
};
use crate::forest::{Forest, Node, Tree, tiling::Tiling};

/// Stores every tree as a full tree of tiles in level order. Each tile has one child more than a tile has
/// nodes.
pub struct TiledArray {
    /// The greatest number of nodes of a tile.
    pub nodes: u32,
    /// The tiling of each tree, by the tree's number in the forest.
    pub tilings: Vec<Tiling>,
}

/// Stores only the tiles of the trees. The children of a tile lie side by side, and the leaves of all trees
/// lie after all tiles.
///
/// The children of a tile are either all leaves or all tiles. If a tile has children of both kinds, padding
/// that leads only to the leaf replaces each leaf, which costs an extra step.
pub struct TiledSparse {
    /// The greatest number of nodes of a tile.
    pub nodes: u32,
    /// The tiling of each tree, by the tree's number in the forest.
    pub tilings: Vec<Tiling>,
}

/// Returns the depth of each tree in tiles after its leaves are pushed down to `least_depth`, by position.
fn depths(forest: &Forest, tilings: &[Tiling], order: &[u32], least_depth: &[u32]) -> Vec<u32> {
    let deepest = |t: u32| {
        let depths = tilings[t as usize].leaf_depths(&forest.trees[t as usize]);
        depths.map(|(depth, _)| depth).max().unwrap_or(0)
    };
    // Padding above a leaf does not deepen the tree, because a tile beside it leads at least as deep.
    order.iter().zip(least_depth).map(|(t, least)| deepest(*t).max(*least)).collect()
}

/// Appends the splits of a tile to `into`, and returns the start of the splits and the tile's shape.
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

/// The content of an address in a layout of tiles.
#[derive(Clone, Copy)]
enum TileEntry {
    Tile(u32),
    /// Padding above the leaf with this slot.
    Padding(u32),
    Leaf(u32),
}

impl TileEntry {
    /// Returns the entry for `node` at depth `depth` in tiles. A leaf above depth `least` becomes padding.
    fn at(tree: &Tree, tiling: &Tiling, node: u32, depth: u32, least: u32) -> Self {
        match tree.nodes[node as usize] {
            Node::Split { .. } => Self::Tile(tiling.tile_of(node)),
            Node::Leaf { slot } if depth < least => Self::Padding(slot),
            Node::Leaf { slot } => Self::Leaf(slot),
        }
    }

    /// Returns the children of the entry, from left to right. `depth` is the children's depth in tiles.
    fn below(self, tree: &Tree, tiling: &Tiling, depth: u32, least: u32) -> Vec<Self> {
        match self {
            Self::Tile(tile) => {
                let exits = tiling.exits(tree, tile).into_iter();
                exits.map(|node| Self::at(tree, tiling, node, depth, least)).collect()
            }
            Self::Padding(slot) if depth < least => vec![Self::Padding(slot)],
            Self::Padding(slot) => vec![Self::Leaf(slot)],
            Self::Leaf(_) => Vec::new(),
        }
    }

    fn is_leaf(self) -> bool {
        matches!(self, Self::Leaf(_))
    }
}

/// Returns the number of addresses of a full tree of tiles with `depth` levels below the root, each tile with
/// `children` children.
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

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<PackedForest, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let mut packed = PackedForest {
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
                    TileEntry::Padding(_) => PackedNode::Through { link: 0 },
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

/// Calls `tile` with each tile and each padding of a tree in the sparse layout, and with its children, in the
/// order of their addresses. For a tree of one leaf it calls `tile` with that leaf.
fn each_tile(tree: &Tree, tiling: &Tiling, least: u32, mut tile: impl FnMut(TileEntry, &[TileEntry])) {
    let mut level = VecDeque::from([(TileEntry::at(tree, tiling, 0, 0, least), 0u32)]);
    while let Some((item, depth)) = level.pop_front() {
        let mut below = item.below(tree, tiling, depth + 1, least);
        if !below.iter().all(|item| item.is_leaf()) {
            for item in &mut below {
                if let TileEntry::Leaf(slot) = *item {
                    *item = TileEntry::Padding(slot);
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

    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<PackedForest, LayoutError> {
        let sizes = self.sizes(forest, order, least_depth)?;
        let (mut tiles, mut leaves, mut splits) = (Vec::new(), Vec::new(), Vec::new());
        // Whether the link of each tile leads to a leaf. Leaves lie after all tiles, so their addresses are
        // known only at the end.
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
                    TileEntry::Padding(_) | TileEntry::Leaf(_) => PackedNode::Through { link },
                });
            });
        }
        let first_leaf_address = tiles.len() as u32;
        for (node, to_leaf) in tiles.iter_mut().zip(to_leaf) {
            if let PackedNode::Tile { link, .. } | PackedNode::Through { link } = node
                && to_leaf
            {
                *link += first_leaf_address;
            }
        }
        Ok(PackedForest {
            kind: self.kind(),
            children: self.children(),
            nodes: [tiles, leaves].concat(),
            inside: splits,
            roots: roots
                .into_iter()
                .map(|(at, leaf)| if leaf { at + first_leaf_address } else { at })
                .collect(),
            constants: vec![0; order.len()],
            depths: sizes.depths,
        })
    }
}
