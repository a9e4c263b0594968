//! How nodes lie in memory, as plug-ins behind one trait.
//!
//! A [`Layout`] gives every node an address and says by a [`Children`] rule how a walk gets from a node's address to
//! its children's. That is all that targets know of it: they encode the [`Packed`] nodes in address order in words
//! of their own and step by the rule, so a layout that fits the rules needs no line in a target.

mod array;
mod depth_first;
mod reorg;
mod shape;
mod sparse;
mod tiled;

pub use array::Array;
pub use depth_first::DepthFirst;
pub(crate) use fangorn_ir::{Children, LayoutKind, question};
pub use reorg::Reorg;
pub use shape::Shape;
pub use sparse::Sparse;
pub use tiled::{TiledArray, TiledSparse};

use crate::forest::{CategoryRule, CategorySet, Forest, Predicate, Side, ZERO_ZONE, tiling::Tiling};

/// A forest that a layout can't hold, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layout({layout}): {remedy}")]
pub struct LayoutError {
    /// The layout.
    pub layout: LayoutKind,
    /// What is wrong and what to do.
    pub remedy: String,
}

/// A node at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PackedNode {
    /// No walk comes here.
    Empty,
    /// A split.
    Split {
        /// Column.
        feature: u32,
        /// What is asked.
        predicate: Predicate,
        /// Where a missing value goes.
        missing: Side,
        /// The address of the child that the rule has a node name ([`Children::named`]); otherwise 0.
        link: u32,
    },
    /// Splits that are decided at once.
    Tile {
        /// Where in [`Packed::inside`] they begin.
        first: u32,
        /// How they hang together, and with that how many they are.
        shape: Shape,
        /// The address of its leftmost child, where the rule has a tile name it; otherwise 0.
        link: u32,
    },
    /// Padding above a leaf that was pushed down: every row goes left.
    Through {
        /// The left child's address, where the rule has a node name a child; otherwise 0.
        link: u32,
    },
    /// A leaf. Where the rule has nodes name a child a step from it stays.
    Leaf {
        /// Its slot; copies of a leaf share it.
        slot: u32,
    },
}

/// A forest in memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packed {
    /// The layout.
    pub kind: LayoutKind,
    /// How walks step.
    pub children: Children,
    /// Nodes by address.
    pub nodes: Vec<PackedNode>,
    /// The splits of tiles, tile after tile, each in level order.
    pub inside: Vec<PackedNode>,
    /// Address of each tree's root, by position.
    pub roots: Vec<u32>,
    /// The rule's constant of each tree, by position ([`Children::Affine`], wrapping).
    pub constants: Vec<u32>,
    /// Depth of each tree as laid out, by position.
    pub depths: Vec<u32>,
}

/// How large trees are when they are laid out, by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Depth of each.
    pub depths: Vec<u32>,
    /// Places for nodes that each takes.
    pub nodes: Vec<u64>,
}

impl Sizes {
    /// Places in all.
    pub fn total(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// The depth of each tree with its leaves no higher than asked for.
fn depths(forest: &Forest, order: &[u32], least_depth: &[u32]) -> Vec<u32> {
    order.iter().zip(least_depth).map(|(t, least)| forest.trees[*t as usize].depth().max(*least)).collect()
}

/// Refuses more nodes than addresses reach.
fn addressable(layout: LayoutKind, sizes: &Sizes) -> Result<(), LayoutError> {
    let total = sizes.total();
    if total < 1 << 31 {
        return Ok(());
    }
    let remedy =
        format!("{total} nodes; fewer than 2^31 can be addressed, so split the forest or pad it less");
    Err(LayoutError { layout, remedy })
}

/// A way to lay nodes in memory.
pub trait Layout {
    /// Its name.
    fn kind(&self) -> LayoutKind;

    /// How walks step through it.
    fn children(&self) -> Children;

    /// Whether a walk that steps on from a leaf stays there. Where it does not, `pack` has to push leaves down.
    fn leaves_hold(&self) -> bool;

    /// What [`Layout::pack`] would give, without the nodes.
    ///
    /// # Errors
    /// Trees that would take unreasonably more room than their nodes do.
    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError>;

    /// Lays out the trees `order[0]`, `order[1]`, … so that no leaf of the tree at position `k` is shallower than
    /// `least_depth[k]` (unless leaves hold).
    ///
    /// # Errors
    /// What [`Layout::sizes`] refuses.
    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Packed, LayoutError>;
}

/// The questions of a forest that take more than a threshold, as words one after the other: what a node
/// names by its place.
///
/// A category set is its number of words, with [`question`] bits that say how a value is read, and then the words. Any
/// other is a word of [`question`] bits and the threshold, as `encode` makes it.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// The words.
    pub words: Vec<u32>,
    places: Vec<u32>,
    others: std::collections::HashMap<(u32, u64), u32>,
}

// Kernels can't see the HIR, so they have the constant again.
const _: () = assert!(question::ZERO_ZONE.to_bits() == ZERO_ZONE.to_bits());

impl Questions {
    /// The forest's category sets.
    pub fn new(forest: &Forest) -> Self {
        Self::of_sets(&forest.sets)
    }

    /// These category sets.
    pub fn of_sets(sets: &[CategorySet]) -> Self {
        let mut questions = Self::default();
        for set in sets {
            questions.places.push(questions.words.len() as u32);
            let reads = match set.rule {
                CategoryRule::NotNegative => question::NOT_NEGATIVE,
                CategoryRule::Truncated => question::TRUNCATED,
                CategoryRule::Whole => question::WHOLE,
            };
            questions.words.push(set.words.len() as u32 | reads);
            questions.words.extend(&set.words);
        }
        questions
    }

    /// The place of what a predicate asks, and whether what it names goes right; `None` where a threshold says it
    /// all.
    pub fn place<const N: usize>(
        &mut self,
        predicate: Predicate,
        encode: impl Fn(f64) -> [u32; N],
    ) -> Option<(u32, Side)> {
        match predicate {
            Predicate::Less { .. } | Predicate::Always => None,
            Predicate::InSet { set, inside } => Some((self.places[set as usize], inside)),
            Predicate::LessZeroAside { threshold } => {
                Some((self.other(question::ZERO_ASIDE, threshold.0, encode), Side::Left))
            }
            Predicate::Equal { value } => Some((self.other(question::EQUAL, value.0, encode), Side::Left)),
        }
    }

    fn other<const N: usize>(&mut self, kind: u32, value: f64, encode: impl Fn(f64) -> [u32; N]) -> u32 {
        let words = &mut self.words;
        *self.others.entry((kind, value.to_bits())).or_insert_with(|| {
            words.push(kind);
            words.extend(encode(value));
            (words.len() - N - 1) as u32
        })
    }
}

/// The layout of that name.
pub fn layout(kind: LayoutKind) -> Box<dyn Layout> {
    match kind {
        LayoutKind::Array => Box::new(Array),
        LayoutKind::Sparse => Box::new(Sparse),
        LayoutKind::Reorg => Box::new(Reorg),
        LayoutKind::DepthFirst => Box::new(DepthFirst),
    }
}

/// The layout of that name for tiles of so many nodes, each tree's by its number in the forest.
///
/// # Errors
/// A layout that has no tiles.
pub fn tiled(kind: LayoutKind, nodes: u32, tilings: Vec<Tiling>) -> Result<Box<dyn Layout>, LayoutError> {
    match kind {
        LayoutKind::Array => Ok(Box::new(TiledArray { nodes, tilings })),
        LayoutKind::Sparse => Ok(Box::new(TiledSparse { nodes, tilings })),
        LayoutKind::Reorg | LayoutKind::DepthFirst => {
            let remedy = "it has no tiles; use layout(sparse) or layout(array) with tileNodes, or tileNodes(1, uniform)";
            Err(LayoutError { layout: kind, remedy: remedy.into() })
        }
    }
}

impl Packed {
    /// From a left child to its right sibling, where that is the same for every node; otherwise 1.
    pub fn stride(&self) -> u32 {
        match self.children {
            Children::Affine { stride } => stride,
            Children::Interleaved => self.roots.len() as u32,
            Children::Linked | Children::Near => 1,
            Children::TilesComputed { .. } | Children::TilesLinked { .. } => 1,
        }
    }

    /// The address of the child number `k`, from the left, of the tile or the padding at `address` in the tree at
    /// `position`.
    pub fn child(&self, position: usize, address: u32, k: u32) -> u32 {
        match (self.nodes[address as usize], self.children) {
            (PackedNode::Tile { link, .. } | PackedNode::Through { link }, Children::TilesLinked { .. }) => {
                link + k
            }
            // A leaf has none.
            (_, Children::TilesLinked { .. }) => address,
            (_, Children::TilesComputed { nodes }) => {
                address.wrapping_mul(nodes + 1).wrapping_add(self.constants[position]).wrapping_add(k)
            }
            _ => self.step(position, address, if k == 0 { Side::Left } else { Side::Right }),
        }
    }

    /// The address after a step from `address` in the tree at `position`.
    pub fn step(&self, position: usize, address: u32, side: Side) -> u32 {
        let right = u32::from(side == Side::Right);
        match (self.nodes[address as usize], self.children) {
            (
                PackedNode::Leaf { .. } | PackedNode::Empty | PackedNode::Tile { .. },
                Children::Linked | Children::Near,
            ) => address,
            (PackedNode::Split { link, .. } | PackedNode::Through { link }, Children::Linked) => link + right,
            (PackedNode::Split { link, .. }, Children::Near) if side == Side::Right => link,
            (_, Children::Near) => address + 1,
            (_, Children::TilesComputed { .. } | Children::TilesLinked { .. }) => {
                self.child(position, address, right)
            }
            (_, Children::Affine { .. } | Children::Interleaved) => {
                let left = address.wrapping_mul(2).wrapping_add(self.constants[position]);
                left.wrapping_add(right * self.stride())
            }
        }
    }

    /// The position of the tree whose node lies at an address of a layout without tiles.
    pub fn position(&self, address: u32) -> u32 {
        let trees = self.roots.len() as u32;
        match self.children {
            Children::Interleaved => address % trees.max(1),
            // Tree by tree, each from its root on.
            _ => self.roots.partition_point(|root| *root <= address) as u32 - 1,
        }
    }

    /// The slot at each address; addresses that are no leaves have slot 0.
    pub fn slots(&self) -> Vec<u32> {
        let slot = |n: &PackedNode| if let PackedNode::Leaf { slot } = n { *slot } else { 0 };
        self.nodes.iter().map(slot).collect()
    }

    /// Checks that from every root each path stays in range and ends in a leaf within the tree's depth: what
    /// targets rest on when they leave out their own checks.
    pub fn verify(&self) -> Result<(), String> {
        let is_leaf = |n: &PackedNode| matches!(n, PackedNode::Leaf { .. });
        if matches!(self.children, Children::TilesLinked { .. }) && !self.nodes.is_sorted_by_key(is_leaf) {
            return Err("a leaf among the tiles".into());
        }
        for (position, root) in self.roots.iter().enumerate() {
            let mut open = vec![(*root, 0u32)];
            while let Some((address, depth)) = open.pop() {
                let place = || format!("tree at position {position}, address {address}");
                if depth > self.depths[position] {
                    return Err(format!("{}: deeper than {}", place(), self.depths[position]));
                }
                match self.nodes.get(address as usize) {
                    None => return Err(format!("{}: out of range", place())),
                    Some(PackedNode::Empty) => return Err(format!("{}: empty", place())),
                    Some(PackedNode::Leaf { .. }) => {}
                    Some(PackedNode::Tile { first, shape, .. }) => {
                        let inside = *first as usize..*first as usize + shape.nodes() as usize;
                        if self.inside.get(inside).is_none() || shape.nodes() > self.children.tile() {
                            return Err(format!("{}: a tile of {} nodes", place(), shape.nodes()));
                        }
                        let children = (0..=shape.nodes()).map(|k| self.child(position, address, k));
                        open.extend(children.map(|child| (child, depth + 1)));
                    }
                    Some(PackedNode::Through { .. }) => {
                        open.push((self.step(position, address, Side::Left), depth + 1))
                    }
                    Some(PackedNode::Split { .. }) => {
                        open.extend(
                            [Side::Left, Side::Right].map(|s| (self.step(position, address, s), depth + 1)),
                        );
                    }
                }
            }
        }
        Ok(())
    }
}
