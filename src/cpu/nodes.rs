//! Nodes as the CPU reads them.

use super::{
    engine::walk::NodeStore,
    rows::{Read, Row, Rows},
};
use crate::{
    forest::{CategoryRule, Forest, Predicate, Side, ZERO_ZONE, least_f32_not_below},
    layout::{Children, PackedForest, PackedNode, Questions, question},
};

/// Flag of [`Node::meta`]: a missing value goes right.
const MISSING_RIGHT: u32 = 1 << 31;
/// Flag of [`Node::meta`]: the node is a leaf.
pub(super) const LEAF: u32 = 1 << 30;
/// Flag of [`Node::meta`]: the node asks a question instead of comparing with a threshold. See [`Questions`].
const QUESTION: u32 = 1 << 29;
/// Flag of [`Node::meta`]: the values for which the question's answer is yes go right.
const NAMED_RIGHT: u32 = 1 << 28;
/// The bits of [`Node::meta`] that hold the column.
pub(super) const FEATURE: u32 = (1 << 24) - 1;

/// A number type in which thresholds are stored and compared.
pub trait Compare: Copy + Send + Sync + PartialOrd + Into<f64> + std::fmt::Debug + 'static {
    /// The threshold of nodes that send everything left.
    const NAN: Self;
    /// The threshold of nodes that send every value right.
    const LEAST: Self;
    /// Returns the threshold of this type that decides the type's values as `t` does.
    fn threshold(t: f64) -> Self;
    /// Stores a question's index where a threshold would be.
    fn from_question_index(index: u32) -> Self;
    /// Returns the question's index that [`Self::from_question_index`] stored.
    fn question_index(self) -> usize;
    /// Returns values as `f32`, or `None` if `Self` is another type.
    fn singles(_values: &[Self]) -> Option<&[f32]> {
        None
    }
}

impl Compare for f32 {
    const NAN: Self = Self::NAN;
    const LEAST: Self = Self::NEG_INFINITY;
    fn threshold(t: f64) -> Self {
        least_f32_not_below(t)
    }
    fn from_question_index(index: u32) -> Self {
        Self::from_bits(index)
    }
    fn question_index(self) -> usize {
        self.to_bits() as usize
    }
    fn singles(values: &[Self]) -> Option<&[Self]> {
        Some(values)
    }
}

impl Compare for f64 {
    const NAN: Self = Self::NAN;
    const LEAST: Self = Self::NEG_INFINITY;
    fn threshold(t: f64) -> Self {
        t
    }
    fn from_question_index(index: u32) -> Self {
        Self::from_bits(index.into())
    }
    fn question_index(self) -> usize {
        self.to_bits() as usize
    }
}

/// A node: its threshold or question, its column and its flags.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Node<C = f32> {
    /// The threshold, or a question's index in [`Nodes::questions`].
    pub(super) threshold: C,
    /// The column and the flags.
    pub(super) meta: u32,
}

/// A node with a link to one of its children: the left one, or the right one inside a [`DepthFirstNode`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinkedNode<C = f32> {
    node: Node<C>,
    link: u32,
}

/// A node of eight bytes with a link to its left child, which a vector kernel gathers at once. Not every
/// forest fits.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ShortNode {
    /// The threshold, or a question's index.
    threshold: f32,
    /// From the highest bits down: flags (4 bits), column (12 bits), and the distance to the left child (16
    /// bits), which is 0 in a leaf.
    meta: u32,
}

/// Bit of [`ShortNode`]'s `meta` at which the column starts.
pub(super) const SHORT_SHIFT: u32 = 16;
/// Mask and largest value of a [`ShortNode`]'s column, shifted down.
pub(super) const SHORT_FEATURE: u32 = (1 << 12) - 1;
/// Mask and largest value of the distance from a [`ShortNode`] to its left child.
pub(super) const SHORT_LINK: u32 = (1 << SHORT_SHIFT) - 1;
/// A node on ranks with a link to its left child, in four bytes. Not every forest fits: columns and distances
/// are below 2048.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct RankNode {
    /// From the highest bits down: the threshold (9 bits), a leaf's flag (1), the column (11) and the
    /// distance to the left child (11), which is 0 in a leaf. If everything goes left, the threshold is above
    /// every rank.
    word: u32,
}

/// Bits of a [`RankNode`]'s word at which the threshold and the column start.
pub(super) const RANK_SHIFTS: [u32; 2] = [23, 11];
/// Mask and largest value of a [`RankNode`]'s column, and of the distance to its left child.
pub(super) const RANK_MASK: u32 = (1 << 11) - 1;
/// How far to shift a [`RankNode`]'s leaf flag up to get [`LEAF`].
pub(super) const RANK_LEAF_SHIFT: u32 = 8;
/// A threshold above every rank of one byte.
const NO_RANK: u32 = (1 << 9) - 1;

/// A node whose left child comes directly after it, so that its link leads to the right child. A leaf sends
/// everything right, to itself.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct DepthFirstNode<N>(pub(super) N);

/// The bits that hold the flags of any node.
const FLAGS: u32 = 15 << 28;

/// How a walk goes from node to node: the layout's rule, compiled in.
pub trait WalkRule: Copy + Send + Sync + 'static {
    /// The type of the thresholds.
    type Compare: Compare;
    /// Whether a step from a leaf stays at the leaf.
    const LEAVES_HOLD: bool;
    /// Whether [`WalkRule::apart`] differs from node to node.
    const NEAR: bool = false;
    /// Returns the node in its common form.
    fn node(&self) -> Node<Self::Compare>;
    /// Returns the address of the left child, from the node's own address and its tree's constant.
    fn left(&self, address: u32, constant: u32) -> u32;
    /// Returns the distance from the left child to the right one. If all nodes have the same distance, it is
    /// `stride`.
    #[inline(always)]
    fn apart(&self, _address: u32, stride: u32) -> u32 {
        stride
    }
}

impl<C: Compare> WalkRule for Node<C> {
    type Compare = C;
    const LEAVES_HOLD: bool = false;
    #[inline(always)]
    fn node(&self) -> Self {
        *self
    }
    #[inline(always)]
    fn left(&self, address: u32, constant: u32) -> u32 {
        address.wrapping_mul(2).wrapping_add(constant)
    }
}

impl<C: Compare> WalkRule for LinkedNode<C> {
    type Compare = C;
    const LEAVES_HOLD: bool = true;
    #[inline(always)]
    fn node(&self) -> Node<C> {
        self.node
    }
    #[inline(always)]
    fn left(&self, _address: u32, _constant: u32) -> u32 {
        self.link
    }
}

impl WalkRule for ShortNode {
    type Compare = f32;
    const LEAVES_HOLD: bool = true;
    #[inline(always)]
    fn node(&self) -> Node {
        let column = self.meta >> SHORT_SHIFT & SHORT_FEATURE;
        Node { threshold: self.threshold, meta: self.meta & FLAGS | column }
    }
    #[inline(always)]
    fn left(&self, address: u32, _constant: u32) -> u32 {
        address + (self.meta & SHORT_LINK)
    }
}

impl WalkRule for RankNode {
    type Compare = f32;
    const LEAVES_HOLD: bool = true;
    #[inline(always)]
    fn node(&self) -> Node {
        let column = self.word >> RANK_SHIFTS[1] & RANK_MASK;
        let threshold = (self.word >> RANK_SHIFTS[0]) as f32;
        Node { threshold, meta: self.word << RANK_LEAF_SHIFT & LEAF | column }
    }
    #[inline(always)]
    fn left(&self, address: u32, _constant: u32) -> u32 {
        address + (self.word & RANK_MASK)
    }
}

impl<N: WalkRule> WalkRule for DepthFirstNode<N> {
    type Compare = N::Compare;
    const LEAVES_HOLD: bool = true;
    const NEAR: bool = true;
    #[inline(always)]
    fn node(&self) -> Node<N::Compare> {
        self.0.node()
    }
    #[inline(always)]
    fn left(&self, address: u32, _constant: u32) -> u32 {
        address + 1
    }
    #[inline(always)]
    fn apart(&self, address: u32, _stride: u32) -> u32 {
        self.0.left(address, 0).wrapping_sub(address + 1)
    }
}

impl<C: Compare> Node<C> {
    /// Returns a node that sends everything left.
    pub(super) fn always_left() -> Self {
        Self { threshold: C::NAN, meta: 0 }
    }

    /// Returns whether a walk ends here.
    #[inline(always)]
    pub fn is_leaf(self) -> bool {
        self.meta & LEAF != 0
    }

    /// Returns the column that the node reads.
    #[inline(always)]
    pub fn feature(self) -> usize {
        (self.meta & FEATURE) as usize
    }

    /// Returns 1 if `x` goes right and 0 if it goes left. Only here the CPU compares a value with a
    /// threshold.
    ///
    /// A value `x < t` goes left, and NaN goes where its flag says. A threshold of NaN with the flag off,
    /// which leaves and padding have, sends everything left.
    #[inline(always)]
    pub fn right<const QUESTIONS: bool>(self, x: C, questions: &[u32]) -> u32 {
        if QUESTIONS && self.meta & QUESTION != 0 {
            return self.question_right(x.into(), questions);
        }
        // Only NaN differs from itself.
        #[allow(clippy::eq_op)]
        let missing = u32::from(x != x);
        u32::from(x >= self.threshold) | (missing & (self.meta >> 31))
    }

    #[inline(never)]
    fn question_right(self, x: f64, questions: &[u32]) -> u32 {
        if x.is_nan() {
            return self.meta >> 31;
        }
        let asked = &questions[self.threshold.question_index()..];
        let value = || f64::from_bits(u64::from(asked[1]) | u64::from(asked[2]) << 32);
        let member = |rule: CategoryRule| {
            rule.category(x).is_some_and(|category| {
                let word = category / 32;
                word < asked[0] & !question::KIND && asked[1 + word as usize] >> (category % 32) & 1 == 1
            })
        };
        let named = match asked[0] & question::KIND {
            question::ZERO_ASIDE => (x < value()) != (x.abs() <= f64::from(ZERO_ZONE)),
            question::EQUAL => x == value(),
            question::TRUNCATED => member(CategoryRule::Truncated),
            question::WHOLE => member(CategoryRule::Whole),
            _ => member(CategoryRule::NotNegative),
        };
        u32::from(named == (self.meta & NAMED_RIGHT != 0))
    }
}

/// The nodes of a forest, by address, and their questions.
#[derive(Clone, Debug)]
pub struct Nodes<R> {
    /// The nodes, by address.
    pub nodes: Vec<R>,
    /// Address of each root, by position.
    pub roots: Vec<u32>,
    /// Constant of each tree, by position.
    pub constants: Vec<u32>,
    /// Depth of each tree, by position.
    pub depths: Vec<u32>,
    /// Distance from a left child to its right sibling, if all nodes have the same.
    pub stride: u32,
    /// The words of all questions, one question after the other. A threshold in a question is the two halves
    /// of an `f64`, the low half first.
    pub questions: Vec<u32>,
    /// The top levels of each tree, by position, for kernels that hold them in registers. Empty without
    /// [`Self::with_tops`].
    pub(super) tops: Vec<TreeTop>,
}

/// Levels of a tree in a [`TreeTop`].
pub(super) const TOP_LEVELS: u32 = 5;
/// Levels of a tree's top if a register holds eight nodes.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) const TOP_LEVELS_8: u32 = 3;

/// The first levels of a tree, filled up to a full tree: a leaf further up sends every row left.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct TreeTop {
    /// The nodes in level order. The last entry is padding.
    pub(super) nodes: [Node; 1 << TOP_LEVELS],
    /// The addresses below the top, from left to right.
    pub(super) exits: [u32; 1 << TOP_LEVELS],
}

impl<R: WalkRule<Compare = f32>> Nodes<R> {
    /// Lays out the top of every tree: `levels` levels, at most [`TOP_LEVELS`]. A step from a leaf has to
    /// stay there.
    #[must_use]
    pub(super) fn with_tops(mut self, levels: u32) -> Self {
        self.tops = (0..self.roots.len()).map(|position| self.top(position, levels)).collect();
        self
    }

    fn top(&self, position: usize, levels: u32) -> TreeTop {
        let full = 1usize << TOP_LEVELS;
        let levels = self.depths[position].min(levels).min(TOP_LEVELS);
        let always_left = Node { threshold: f32::NAN, meta: 0 };
        let mut top = TreeTop { nodes: [always_left; 1 << TOP_LEVELS], exits: [0; 1 << TOP_LEVELS] };
        let mut addresses = vec![self.roots[position]];
        for index in 0..(1usize << levels) - 1 {
            let address = addresses[index];
            let at = &self.nodes[address as usize];
            top.nodes[index] = at.node();
            // Both children of a leaf are the leaf itself: there may be no node after it.
            let left = at.left(address, self.constants[position]);
            let leaf = at.node().is_leaf();
            addresses.extend(if leaf { [address; 2] } else { [left, left + at.apart(address, 1)] });
        }
        let exits = &addresses[(1 << levels) - 1..];
        top.exits[..exits.len().min(full)].copy_from_slice(exits);
        top
    }
}

/// Encodes packed nodes. `make` puts a node and its link together.
fn encode<C: Compare, R>(
    forest: &Forest,
    packed: &PackedForest,
    stride: u32,
    make: impl Fn(Node<C>, u32) -> R,
) -> Nodes<R> {
    let mut splits = Splits::new(forest);
    let always_left = |flags| Node { meta: flags, ..Node::always_left() };
    let nodes = packed.nodes.iter().enumerate().map(|(address, node)| match *node {
        // Tiles have an encoding of their own.
        PackedNode::Empty | PackedNode::Tile { .. } => make(always_left(0), address as u32),
        PackedNode::Through { link } => make(always_left(0), link),
        PackedNode::Leaf { .. } if packed.children == Children::Near => {
            make(Node { threshold: C::LEAST, meta: LEAF | MISSING_RIGHT }, address as u32)
        }
        PackedNode::Leaf { .. } => make(always_left(LEAF), address as u32),
        split @ PackedNode::Split { link, .. } => make(splits.node(&split), link),
    });
    Nodes {
        nodes: nodes.collect(),
        roots: packed.roots.clone(),
        constants: packed.constants.clone(),
        depths: packed.depths.clone(),
        stride,
        questions: splits.questions(),
        tops: Vec::new(),
    }
}

/// Encodes splits as nodes, and collects the questions that they ask.
pub(super) struct Splits(Questions);

impl Splits {
    pub(super) fn new(forest: &Forest) -> Self {
        Self(Questions::new(forest))
    }

    /// Returns the node of a split. For any other packed node it returns a node that sends everything left.
    pub(super) fn node<C: Compare>(&mut self, split: &PackedNode) -> Node<C> {
        let PackedNode::Split { feature, predicate, missing, .. } = *split else {
            return Node::always_left();
        };
        let halves = |value: f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
        let mut meta = feature;
        if missing == Side::Right {
            meta |= MISSING_RIGHT;
        }
        let threshold = match (predicate, self.0.add(predicate, halves)) {
            (_, Some((index, named))) => {
                meta |= QUESTION;
                if named == Side::Right {
                    meta |= NAMED_RIGHT;
                }
                C::from_question_index(index)
            }
            (Predicate::Less { threshold }, None) => C::threshold(threshold.0),
            // `Predicate::Always`: no value compares as at least NaN, so every value goes left.
            (_, None) => C::NAN,
        };
        Node { threshold, meta }
    }

    /// Returns the words of the questions.
    pub(super) fn questions(self) -> Vec<u32> {
        self.0.words
    }
}

impl<C: Compare> Nodes<Node<C>> {
    /// Encodes nodes for a layout whose child addresses are an affine function of the node's.
    pub fn affine(forest: &Forest, packed: &PackedForest) -> Self {
        encode(forest, packed, packed.stride(), |node, _| node)
    }
}

impl<C: Compare> Nodes<LinkedNode<C>> {
    /// Encodes nodes for a layout whose nodes link to their left child.
    pub fn linked(forest: &Forest, packed: &PackedForest) -> Self {
        encode(forest, packed, 1, |node, link| LinkedNode { node, link })
    }
}

impl Nodes<ShortNode> {
    /// Encodes linked nodes in eight bytes each; `None` if a column or a distance is too large.
    pub fn short(nodes: &Nodes<LinkedNode>) -> Option<Self> {
        nodes.each(|address, at| {
            let distance = at.link.checked_sub(address).filter(|distance| *distance <= SHORT_LINK)?;
            let column = at.node.meta & FEATURE;
            let meta = at.node.meta & FLAGS | column << SHORT_SHIFT | distance;
            (column <= SHORT_FEATURE).then_some(ShortNode { threshold: at.node.threshold, meta })
        })
    }
}

impl Nodes<RankNode> {
    /// Encodes linked nodes on ranks of one byte in four bytes each; `None` if a column or a distance is too
    /// large.
    pub fn ranked(nodes: &Nodes<LinkedNode>) -> Option<Self> {
        nodes.each(RankNode::new)
    }
}

impl<C: Compare> Nodes<DepthFirstNode<LinkedNode<C>>> {
    /// Encodes nodes for a layout whose nodes link to their right child. The left child comes directly after
    /// its parent.
    pub fn near(forest: &Forest, packed: &PackedForest) -> Self {
        encode(forest, packed, 1, |node, link| DepthFirstNode(LinkedNode { node, link }))
    }
}

impl Nodes<DepthFirstNode<RankNode>> {
    /// Encodes depth-first nodes on ranks of one byte in four bytes each; `None` if a column or a distance is
    /// too large.
    pub fn near_ranked(nodes: &Nodes<DepthFirstNode<LinkedNode>>) -> Option<Self> {
        nodes.each(|address, at| RankNode::new(address, &at.0).map(DepthFirstNode))
    }
}

impl RankNode {
    fn new(address: u32, at: &LinkedNode) -> Option<Self> {
        let distance = at.link.checked_sub(address).filter(|distance| *distance <= RANK_MASK)?;
        let column = at.node.meta & FEATURE;
        let threshold = if at.node.threshold.is_nan() { NO_RANK } else { at.node.threshold as u32 };
        let leaf = (at.node.meta & LEAF) >> RANK_LEAF_SHIFT;
        let word = threshold << RANK_SHIFTS[0] | leaf | column << RANK_SHIFTS[1] | distance;
        (column <= RANK_MASK).then_some(Self { word })
    }
}

impl<N> Nodes<N> {
    /// Converts every node by `other`; `None` if `other` can't convert one of them.
    fn each<M>(&self, other: impl Fn(u32, &N) -> Option<M>) -> Option<Nodes<M>> {
        let nodes = self.nodes.iter().enumerate().map(|(address, at)| other(address as u32, at));
        Some(Nodes {
            nodes: nodes.collect::<Option<_>>()?,
            roots: self.roots.clone(),
            constants: self.constants.clone(),
            depths: self.depths.clone(),
            stride: self.stride,
            questions: self.questions.clone(),
            tops: Vec::new(),
        })
    }
}

impl<R: WalkRule> NodeStore for Nodes<R> {
    type Compare = R::Compare;
    const LEAVES_HOLD: bool = R::LEAVES_HOLD;

    #[inline(always)]
    fn start(&self, position: usize) -> (u32, u32) {
        (self.roots[position], self.constants[position])
    }

    #[inline(always)]
    fn depth(&self, position: usize) -> u32 {
        self.depths[position]
    }

    #[inline(always)]
    unsafe fn step<T: Row + Read<R::Compare>, const QUESTIONS: bool, const UNIT: bool>(
        &self,
        address: u32,
        constant: u32,
        rows: &Rows<'_, T>,
        row: usize,
    ) -> u32 {
        // SAFETY: the caller upholds that a walk of the packed forest reaches `address`; `PackedForest::verify`
        // bounds all of these.
        let at = unsafe { self.nodes.get_unchecked(address as usize) };
        let node = at.node();
        // SAFETY: `Forest::verify` bounds the node's column by the forest's columns. The caller upholds that
        // `row` exists and has them all, and that `UNIT` is set only if a row's values follow each other.
        let x = unsafe { rows.get::<UNIT>(row, node.feature()) }.read();
        let right = node.right::<QUESTIONS>(x, &self.questions);
        let apart = at.apart(address, self.stride);
        at.left(address, constant).wrapping_add(if R::NEAR || QUESTIONS || self.stride != 1 {
            right.wrapping_mul(apart)
        } else {
            right
        })
    }

    #[inline(always)]
    unsafe fn is_leaf(&self, address: u32) -> bool {
        // SAFETY: the caller upholds that a walk of the packed forest reaches `address`; `PackedForest::verify`
        // bounds all of these.
        unsafe { self.nodes.get_unchecked(address as usize) }.node().is_leaf()
    }
}
