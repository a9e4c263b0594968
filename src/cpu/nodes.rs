//! Nodes as the CPU reads them.

use super::rows::Rows;
use crate::{
    forest::{Forest, Predicate, Side, reference::CATEGORY_LIMIT},
    layout::{Packed, PackedNode, flat_sets},
};

/// A missing value goes right.
const MISSING_RIGHT: u32 = 1 << 31;
/// The node is a leaf.
pub(super) const LEAF: u32 = 1 << 30;
/// The node asks for a category.
const CATEGORY: u32 = 1 << 29;
/// Members of the category set go right.
const INSIDE_RIGHT: u32 = 1 << 28;
/// The column.
pub(super) const FEATURE: u32 = (1 << 24) - 1;

/// A node: what is asked, and of which column.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Node {
    /// The threshold; for a category split the bits of its set's place in [`Nodes::sets`].
    threshold: f32,
    /// Column and flags.
    meta: u32,
}

/// A node that names its left child.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinkedNode {
    node: Node,
    link: u32,
}

/// How a walk steps: the layout's rule, compiled in.
pub trait Rule: Copy + Send + Sync + 'static {
    /// What lies at an address.
    fn node(&self) -> Node;
    /// The left child's address, given its own and the tree's constant.
    fn left(&self, address: u32, constant: u32) -> u32;
}

impl Rule for Node {
    #[inline(always)]
    fn node(&self) -> Node {
        *self
    }
    #[inline(always)]
    fn left(&self, address: u32, constant: u32) -> u32 {
        address.wrapping_mul(2).wrapping_add(constant)
    }
}

impl Rule for LinkedNode {
    #[inline(always)]
    fn node(&self) -> Node {
        self.node
    }
    #[inline(always)]
    fn left(&self, _address: u32, _constant: u32) -> u32 {
        self.link
    }
}

impl Node {
    /// Whether a walk ends here.
    #[inline(always)]
    pub fn is_leaf(self) -> bool {
        self.meta & LEAF != 0
    }

    /// The column that is read.
    #[inline(always)]
    pub fn feature(self) -> usize {
        (self.meta & FEATURE) as usize
    }

    /// 1 where `x` goes right, 0 where it goes left: the one place where the CPU compares a threshold.
    ///
    /// `x < t` goes left and NaN by its flag. A threshold of NaN with the flag off, which leaves and padding have,
    /// sends everything left.
    #[inline(always)]
    pub fn right<const CATEGORIES: bool>(self, x: f32, sets: &[u32]) -> u32 {
        if CATEGORIES && self.meta & CATEGORY != 0 {
            return self.category_right(x, sets);
        }
        u32::from(x >= self.threshold) | (u32::from(x.is_nan()) & (self.meta >> 31))
    }

    #[inline(never)]
    fn category_right(self, x: f32, sets: &[u32]) -> u32 {
        if x.is_nan() {
            return self.meta >> 31;
        }
        let at = self.threshold.to_bits() as usize;
        let category = if (0.0..CATEGORY_LIMIT).contains(&x) { x as u32 } else { u32::MAX };
        let word = (category / 32) as usize;
        let member = word < sets[at] as usize && sets[at + 1 + word] >> (category % 32) & 1 == 1;
        u32::from(member == (self.meta & INSIDE_RIGHT != 0))
    }
}

/// The nodes of a forest, by address, and its category sets.
#[derive(Clone, Debug)]
pub struct Nodes<R> {
    /// By address.
    pub nodes: Vec<R>,
    /// Address of each root, by position.
    pub roots: Vec<u32>,
    /// Constant of each tree, by position.
    pub constants: Vec<u32>,
    /// Depth of each tree, by position.
    pub depths: Vec<u32>,
    /// From a left child to its right sibling.
    pub stride: u32,
    /// The category sets: each its number of words, then the words.
    pub sets: Vec<u32>,
}

/// Encodes packed nodes; `make` adds the link.
fn encode<R>(forest: &Forest, packed: &Packed, stride: u32, make: impl Fn(Node, u32) -> R) -> Nodes<R> {
    let (sets, places) = flat_sets(forest);
    let still = |flags| Node { threshold: f32::NAN, meta: flags };
    let nodes = packed.nodes.iter().enumerate().map(|(address, node)| match *node {
        PackedNode::Empty | PackedNode::Through => make(still(0), address as u32),
        PackedNode::Leaf { .. } => make(still(LEAF), address as u32),
        PackedNode::Split { feature, predicate, missing, link } => {
            let mut meta = feature;
            if missing == Side::Right {
                meta |= MISSING_RIGHT;
            }
            let threshold = match predicate {
                Predicate::Less { threshold } => threshold.0 as f32,
                Predicate::InSet { set, inside } => {
                    meta |= CATEGORY;
                    if inside == Side::Right {
                        meta |= INSIDE_RIGHT;
                    }
                    f32::from_bits(places[set as usize])
                }
            };
            make(Node { threshold, meta }, link)
        }
    });
    Nodes {
        nodes: nodes.collect(),
        roots: packed.roots.clone(),
        constants: packed.constants.clone(),
        depths: packed.depths.clone(),
        stride,
        sets,
    }
}

impl Nodes<Node> {
    /// For an affine rule.
    pub fn affine(forest: &Forest, packed: &Packed, stride: u32) -> Self {
        encode(forest, packed, stride, |node, _| node)
    }
}

impl Nodes<LinkedNode> {
    /// For the linked rule.
    pub fn linked(forest: &Forest, packed: &Packed) -> Self {
        encode(forest, packed, 1, |node, link| LinkedNode { node, link })
    }
}

impl<R: Rule> Nodes<R> {
    /// The address after a step.
    ///
    /// # Safety
    /// `address` is one that the packed forest's walks reach, and `row` holds every column.
    #[inline(always)]
    pub unsafe fn step<const CATEGORIES: bool, const UNIT: bool>(
        &self,
        address: u32,
        constant: u32,
        rows: &Rows<'_>,
        row: usize,
    ) -> u32 {
        // SAFETY: reachable addresses are in range (`Packed::verify`).
        let at = unsafe { self.nodes.get_unchecked(address as usize) };
        let node = at.node();
        // SAFETY: a verified forest's features are columns, which `Rows` has checked against its data.
        let x = unsafe { rows.get::<UNIT>(row, node.feature()) };
        let right = node.right::<CATEGORIES>(x, &self.sets);
        at.left(address, constant).wrapping_add(if CATEGORIES || self.stride != 1 {
            right * self.stride
        } else {
            right
        })
    }

    /// Whether the walk has come to a leaf.
    ///
    /// # Safety
    /// `address` is one that the packed forest's walks reach.
    #[inline(always)]
    pub unsafe fn is_leaf(&self, address: u32) -> bool {
        // SAFETY: reachable addresses are in range (`Packed::verify`).
        unsafe { self.nodes.get_unchecked(address as usize) }.node().is_leaf()
    }
}
