//! How nodes lie in memory, with one implementation of a trait for each layout.
//!
//! A [`Layout`] gives every node an address, and its [`Children`] rule says how a walk gets from a node's
//! address to the addresses of the node's children. Targets know nothing else of a layout. They encode the
//! [`PackedForest`] nodes in address order in words of their own and step by the rule, so a layout that fits the
//! rules needs no line in a target.

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

/// The error of a forest that a layout can't hold, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("layout({layout}): {remedy}")]
pub struct LayoutError {
    /// The layout that can't hold the forest.
    pub layout: LayoutKind,
    /// What is wrong and what to do.
    pub remedy: String,
}

/// The node at an address of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PackedNode {
    /// No node. No walk reaches this address.
    Empty,
    /// A split.
    Split {
        /// Column of the row that the split reads.
        feature: u32,
        /// What the split asks of the value.
        predicate: Predicate,
        /// The side of a missing value.
        missing: Side,
        /// The address of the child that the node holds under the rule ([`Children::named`]), otherwise 0.
        link: u32,
    },
    /// A tile: splits that one step decides together.
    Tile {
        /// Start of the tile's splits in [`PackedForest::inside`].
        first: u32,
        /// How the tile's splits are connected, which implies their number.
        shape: Shape,
        /// The address of the tile's leftmost child if a tile holds it under the rule, otherwise 0.
        link: u32,
    },
    /// Padding above a leaf that was pushed down. Every row goes left.
    Through {
        /// The address of the left child if a node holds a child's address under the rule, otherwise 0.
        link: u32,
    },
    /// A leaf. Under [`Children::Linked`] and [`Children::Near`] a step from a leaf stays at the leaf.
    Leaf {
        /// The leaf's slot. A leaf that is stored at several addresses has one slot.
        slot: u32,
    },
}

/// A forest as a layout stores it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PackedForest {
    /// The layout that stores the forest.
    pub kind: LayoutKind,
    /// The rule by which walks step to a child.
    pub children: Children,
    /// The nodes, by address.
    pub nodes: Vec<PackedNode>,
    /// The splits of all tiles, tile after tile. The splits of a tile are in level order.
    pub inside: Vec<PackedNode>,
    /// Address of each tree's root, by position.
    pub roots: Vec<u32>,
    /// Constant of the rule for each tree, by position ([`Children::Affine`]). It is added with wrapping.
    pub constants: Vec<u32>,
    /// Depth of each tree as stored, padding included, by position.
    pub depths: Vec<u32>,
}

/// The sizes of trees as a layout stores them, by position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Depth of each tree, padding included.
    pub depths: Vec<u32>,
    /// Number of addresses that each tree takes.
    pub nodes: Vec<u64>,
}

impl Sizes {
    /// Returns the number of addresses that all trees take.
    pub fn total(&self) -> u64 {
        self.nodes.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

/// Returns the depth of each tree after its leaves are pushed down to `least_depth`, by position.
fn depths(forest: &Forest, order: &[u32], least_depth: &[u32]) -> Vec<u32> {
    order.iter().zip(least_depth).map(|(t, least)| forest.trees[*t as usize].depth().max(*least)).collect()
}

/// Refuses more nodes than addresses can reach.
fn addressable(layout: LayoutKind, sizes: &Sizes) -> Result<(), LayoutError> {
    let total = sizes.total();
    if total < 1 << 31 {
        return Ok(());
    }
    let remedy =
        format!("{total} nodes; fewer than 2^31 can be addressed, so split the forest or pad it less");
    Err(LayoutError { layout, remedy })
}

/// A layout of nodes in memory.
pub trait Layout {
    /// Returns the layout's name.
    fn kind(&self) -> LayoutKind;

    /// Returns the rule by which walks step to a child.
    fn children(&self) -> Children;

    /// Returns whether a walk that steps on from a leaf stays at the leaf. If not, a caller has to ask
    /// [`Layout::pack`] to push leaves down as far as walks step without a leaf test.
    fn leaves_hold(&self) -> bool;

    /// Returns the sizes of the trees that [`Layout::pack`] would store, without storing them.
    ///
    /// # Errors
    /// The trees would take unreasonably more memory than their nodes need, or have more nodes than can be
    /// addressed.
    fn sizes(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<Sizes, LayoutError>;

    /// Stores the trees `order[0]`, `order[1]`, … of the forest. It pushes leaves down so that no leaf of the
    /// tree at position `k` is shallower than `least_depth[k]`.
    ///
    /// # Errors
    /// The errors of [`Layout::sizes`].
    fn pack(&self, forest: &Forest, order: &[u32], least_depth: &[u32]) -> Result<PackedForest, LayoutError>;
}

/// The questions of a forest, stored as words one after the other. A node refers to a question by the index of
/// its first word.
///
/// A category set is one word, with the number of its words and the [`question`] bits that say how a value is
/// read, followed by the words of the set. Any other question is a word of [`question`] bits followed by its
/// number, encoded by `encode`.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// The words of all questions.
    pub words: Vec<u32>,
    /// For each category set, the index of its question.
    set_questions: Vec<u32>,
    /// The index of each other question, by its kind and its number.
    other_questions: std::collections::HashMap<(u32, u64), u32>,
}

// Kernels can't see the HIR, so the crate `fangorn_ir` repeats the constant.
const _: () = assert!(question::ZERO_ZONE.to_bits() == ZERO_ZONE.to_bits());

impl Questions {
    /// Returns the questions of the forest's category sets.
    pub fn new(forest: &Forest) -> Self {
        Self::of_sets(&forest.sets)
    }

    /// Returns the questions of the category sets `sets`.
    pub fn of_sets(sets: &[CategorySet]) -> Self {
        let mut questions = Self::default();
        for set in sets {
            questions.set_questions.push(questions.words.len() as u32);
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

    /// Returns the index of a predicate's question, and the side of the values that satisfy it. Adds the
    /// question if it is new. Returns `None` if the predicate is a threshold or always holds.
    pub fn add<const N: usize>(
        &mut self,
        predicate: Predicate,
        encode: impl Fn(f64) -> [u32; N],
    ) -> Option<(u32, Side)> {
        match predicate {
            Predicate::Less { .. } | Predicate::Always => None,
            Predicate::InSet { set, inside } => Some((self.set_questions[set as usize], inside)),
            Predicate::LessZeroAside { threshold } => {
                Some((self.other(question::ZERO_ASIDE, threshold.0, encode), Side::Left))
            }
            Predicate::Equal { value } => Some((self.other(question::EQUAL, value.0, encode), Side::Left)),
        }
    }

    fn other<const N: usize>(&mut self, kind: u32, value: f64, encode: impl Fn(f64) -> [u32; N]) -> u32 {
        let words = &mut self.words;
        *self.other_questions.entry((kind, value.to_bits())).or_insert_with(|| {
            words.push(kind);
            words.extend(encode(value));
            (words.len() - N - 1) as u32
        })
    }
}

/// Returns the layout of this kind.
pub fn layout(kind: LayoutKind) -> Box<dyn Layout> {
    match kind {
        LayoutKind::Array => Box::new(Array),
        LayoutKind::Sparse => Box::new(Sparse),
        LayoutKind::Reorg => Box::new(Reorg),
        LayoutKind::DepthFirst => Box::new(DepthFirst),
    }
}

/// Returns the layout of this kind for tiles of at most `nodes` nodes. `tilings` holds the tiling of each
/// tree, by the tree's number in the forest.
///
/// # Errors
/// The layout has no tiles.
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

impl PackedForest {
    /// Returns the distance from a left child to its right sibling if it is the same for every node,
    /// otherwise 1.
    pub fn stride(&self) -> u32 {
        match self.children {
            Children::Affine { stride } => stride,
            Children::Interleaved => self.roots.len() as u32,
            Children::Linked | Children::Near => 1,
            Children::TilesComputed { .. } | Children::TilesLinked { .. } => 1,
        }
    }

    /// Returns the address of child number `k`, counted from the left, of the tile or the padding at
    /// `address` in the tree at `position`.
    pub fn child(&self, position: usize, address: u32, k: u32) -> u32 {
        match (self.nodes[address as usize], self.children) {
            (PackedNode::Tile { link, .. } | PackedNode::Through { link }, Children::TilesLinked { .. }) => {
                link + k
            }
            // A leaf has no children, so a step stays at the leaf.
            (_, Children::TilesLinked { .. }) => address,
            (_, Children::TilesComputed { nodes }) => {
                address.wrapping_mul(nodes + 1).wrapping_add(self.constants[position]).wrapping_add(k)
            }
            _ => self.step(position, address, if k == 0 { Side::Left } else { Side::Right }),
        }
    }

    /// Returns the address that a step from `address` to `side` reaches in the tree at `position`.
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

    /// Returns the position of the tree whose node lies at `address`, in a layout without tiles.
    pub fn position(&self, address: u32) -> u32 {
        let trees = self.roots.len() as u32;
        match self.children {
            Children::Interleaved => address % trees.max(1),
            // Trees lie one after the other, each from its root on.
            _ => self.roots.partition_point(|root| *root <= address) as u32 - 1,
        }
    }

    /// Returns the leaf slot at each address. An address that holds no leaf gets slot 0.
    pub fn slots(&self) -> Vec<u32> {
        let slot = |n: &PackedNode| if let PackedNode::Leaf { slot } = n { *slot } else { 0 };
        self.nodes.iter().map(slot).collect()
    }

    /// Checks that every path from a root stays in range and ends in a leaf within the tree's depth. Targets
    /// rely on it and do not check addresses themselves.
    pub fn verify(&self) -> Result<(), String> {
        let is_leaf = |n: &PackedNode| matches!(n, PackedNode::Leaf { .. });
        if matches!(self.children, Children::TilesLinked { .. }) && !self.nodes.is_sorted_by_key(is_leaf) {
            return Err("a leaf among the tiles".into());
        }
        for (position, root) in self.roots.iter().enumerate() {
            let mut open = vec![(*root, 0u32)];
            while let Some((address, depth)) = open.pop() {
                let node = || format!("tree at position {position}, address {address}");
                if depth > self.depths[position] {
                    return Err(format!("{}: deeper than {}", node(), self.depths[position]));
                }
                match self.nodes.get(address as usize) {
                    None => return Err(format!("{}: out of range", node())),
                    Some(PackedNode::Empty) => return Err(format!("{}: empty", node())),
                    Some(PackedNode::Leaf { .. }) => {}
                    Some(PackedNode::Tile { first, shape, .. }) => {
                        let inside = *first as usize..*first as usize + shape.nodes() as usize;
                        if self.inside.get(inside).is_none() || shape.nodes() > self.children.tile() {
                            return Err(format!("{}: a tile of {} nodes", node(), shape.nodes()));
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
