//! Nodes as the CPU reads them.

use super::{
    engine::walk::NodeStore,
    rows::{Read, Row, Rows},
};
use crate::{
    forest::{CategoryRule, Forest, Predicate, Side, ZERO_ZONE, least_f32_not_below},
    layout::{Children, Packed, PackedNode, Questions, question},
};

/// A missing value goes right.
const MISSING_RIGHT: u32 = 1 << 31;
/// The node is a leaf.
pub(super) const LEAF: u32 = 1 << 30;
/// The node asks more than a threshold: see [`Questions`].
const QUESTION: u32 = 1 << 29;
/// What the question names goes right.
const NAMED_RIGHT: u32 = 1 << 28;
/// The column.
pub(super) const FEATURE: u32 = (1 << 24) - 1;

/// A type in which thresholds are stored and compared.
pub trait Compare: Copy + Send + Sync + PartialOrd + Into<f64> + std::fmt::Debug + 'static {
    /// Stands in nodes that send everything left.
    const NAN: Self;
    /// Stands in nodes that send everything right.
    const LEAST: Self;
    /// The threshold that decides this type's values as `t` does.
    fn threshold(t: f64) -> Self;
    /// A question's place, in a threshold's stead.
    fn from_place(place: u32) -> Self;
    /// The place again.
    fn place(self) -> usize;
    /// Values as `f32`, where they are of this type.
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
    fn from_place(place: u32) -> Self {
        Self::from_bits(place)
    }
    fn place(self) -> usize {
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
    fn from_place(place: u32) -> Self {
        Self::from_bits(place.into())
    }
    fn place(self) -> usize {
        self.to_bits() as usize
    }
}

/// A node: what is asked, and of which column.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Node<C = f32> {
    /// The threshold, or a question's place in [`Nodes::questions`].
    pub(super) threshold: C,
    /// Column and flags.
    pub(super) meta: u32,
}

/// A node that names one of its children: the left one, unless it is in a [`DepthFirstNode`].
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinkedNode<C = f32> {
    node: Node<C>,
    link: u32,
}

/// A node of few words that names its left child: what a vector kernel gathers at once. Not every forest fits.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ShortNode {
    /// The threshold, or a question's place.
    threshold: f32,
    /// Flags, column, and how far on the left child is: 4, 12 and 16 bits. A leaf's is itself.
    meta: u32,
}

/// Where a [`ShortNode`]'s column starts.
pub(super) const SHORT_SHIFT: u32 = 16;
/// A [`ShortNode`]'s column, shifted down; any greater one does not fit.
pub(super) const SHORT_FEATURE: u32 = (1 << 12) - 1;
/// The way to a [`ShortNode`]'s left child; any longer one does not fit.
pub(super) const SHORT_LINK: u32 = (1 << SHORT_SHIFT) - 1;
/// A node on ranks that names its left child, in four bytes. Not every forest fits: columns and ways are below 2048.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct RankNode {
    /// From above: the threshold (9 bits), a leaf's flag, the column (11) and how far on the left child is (11). A leaf's
    /// is itself. Where everything goes left, the threshold is above every rank.
    word: u32,
}

/// Where a [`RankNode`]'s threshold starts, and its column.
pub(super) const RANK_SHIFTS: [u32; 2] = [23, 11];
/// A [`RankNode`]'s column or way; any greater one does not fit.
pub(super) const RANK_MASK: u32 = (1 << 11) - 1;
/// From a [`RankNode`]'s leaf flag up to [`LEAF`].
pub(super) const RANK_LEAF_SHIFT: u32 = 8;
/// Above every rank of a byte.
const NO_RANK: u32 = (1 << 9) - 1;

/// A node whose left child lies behind it: the child that it names is the right one. A leaf sends everything right, to
/// itself.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct DepthFirstNode<N>(pub(super) N);

/// Flags of any node.
const FLAGS: u32 = 15 << 28;

/// How a walk steps: the layout's rule, compiled in.
pub trait WalkRule: Copy + Send + Sync + 'static {
    /// The type of the thresholds.
    type Compare: Compare;
    /// Whether a step from a leaf stays there.
    const HOLDS: bool;
    /// Whether [`WalkRule::apart`] is a node's own.
    const NEAR: bool = false;
    /// What lies at an address.
    fn node(&self) -> Node<Self::Compare>;
    /// The left child's address, given its own and the tree's constant.
    fn left(&self, address: u32, constant: u32) -> u32;
    /// From the left child to the right one, which `stride` is wherever it is the same for all nodes.
    #[inline(always)]
    fn apart(&self, _address: u32, stride: u32) -> u32 {
        stride
    }
}

impl<C: Compare> WalkRule for Node<C> {
    type Compare = C;
    const HOLDS: bool = false;
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
    const HOLDS: bool = true;
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
    const HOLDS: bool = true;
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
    const HOLDS: bool = true;
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
    const HOLDS: bool = true;
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
    /// Sends everything left.
    pub(super) fn still() -> Self {
        Self { threshold: C::NAN, meta: 0 }
    }

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
        let asked = &questions[self.threshold.place()..];
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

/// The nodes of a forest, by address, and what they ask besides thresholds.
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
    /// The questions, one after the other; their thresholds are the two halves of an `f64`, the low one first.
    pub questions: Vec<u32>,
    /// Top levels for kernels that hold them in registers, where the layout alone does not give them.
    pub(super) tops: Vec<TreeTop>,
}

/// Levels of a tree in a [`TreeTop`], …
pub(super) const TOP_LEVELS: u32 = 5;
/// … and where registers hold eight nodes.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) const TOP_LEVELS_8: u32 = 3;

/// The first levels of a tree as those of a full one: leaves that come sooner send every row left.
#[derive(Clone, Debug)]
#[repr(C)]
pub(super) struct TreeTop {
    /// In level order; the last is not one.
    pub(super) nodes: [Node; 1 << TOP_LEVELS],
    /// The addresses below, from left to right.
    pub(super) exits: [u32; 1 << TOP_LEVELS],
}

impl<R: WalkRule<Compare = f32>> Nodes<R> {
    /// Lays out the top of every tree, whose leaves hold: so many levels, [`TOP_LEVELS`] at most.
    #[must_use]
    pub(super) fn with_tops(mut self, levels: u32) -> Self {
        self.tops = (0..self.roots.len()).map(|position| self.top(position, levels)).collect();
        self
    }

    fn top(&self, position: usize, levels: u32) -> TreeTop {
        let full = 1usize << TOP_LEVELS;
        let levels = self.depths[position].min(levels).min(TOP_LEVELS);
        let still = Node { threshold: f32::NAN, meta: 0 };
        let mut top = TreeTop { nodes: [still; 1 << TOP_LEVELS], exits: [0; 1 << TOP_LEVELS] };
        let mut addresses = vec![self.roots[position]];
        for place in 0..(1usize << levels) - 1 {
            let address = addresses[place];
            let at = &self.nodes[address as usize];
            top.nodes[place] = at.node();
            // A leaf may have no neighbour.
            let left = at.left(address, self.constants[position]);
            let leaf = at.node().is_leaf();
            addresses.extend(if leaf { [address; 2] } else { [left, left + at.apart(address, 1)] });
        }
        let exits = &addresses[(1 << levels) - 1..];
        top.exits[..exits.len().min(full)].copy_from_slice(exits);
        top
    }
}

/// Encodes packed nodes; `make` adds the link.
fn encode<C: Compare, R>(
    forest: &Forest,
    packed: &Packed,
    stride: u32,
    make: impl Fn(Node<C>, u32) -> R,
) -> Nodes<R> {
    let mut splits = Splits::new(forest);
    let still = |flags| Node { meta: flags, ..Node::still() };
    let nodes = packed.nodes.iter().enumerate().map(|(address, node)| match *node {
        // Tiles are in nodes of their own.
        PackedNode::Empty | PackedNode::Tile { .. } => make(still(0), address as u32),
        PackedNode::Through { link } => make(still(0), link),
        PackedNode::Leaf { .. } if packed.children == Children::Near => {
            make(Node { threshold: C::LEAST, meta: LEAF | MISSING_RIGHT }, address as u32)
        }
        PackedNode::Leaf { .. } => make(still(LEAF), address as u32),
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

/// Splits as nodes, and the questions among them.
pub(super) struct Splits(Questions);

impl Splits {
    pub(super) fn new(forest: &Forest) -> Self {
        Self(Questions::new(forest))
    }

    /// A split's node; anything else sends everything left.
    pub(super) fn node<C: Compare>(&mut self, split: &PackedNode) -> Node<C> {
        let PackedNode::Split { feature, predicate, missing, .. } = *split else { return Node::still() };
        let halves = |value: f64| [value.to_bits() as u32, (value.to_bits() >> 32) as u32];
        let mut meta = feature;
        if missing == Side::Right {
            meta |= MISSING_RIGHT;
        }
        let threshold = match (predicate, self.0.place(predicate, halves)) {
            (_, Some((place, named))) => {
                meta |= QUESTION;
                if named == Side::Right {
                    meta |= NAMED_RIGHT;
                }
                C::from_place(place)
            }
            (Predicate::Less { threshold }, None) => C::threshold(threshold.0),
            // No value is at least NaN.
            (_, None) => C::NAN,
        };
        Node { threshold, meta }
    }

    /// The words of the questions.
    pub(super) fn questions(self) -> Vec<u32> {
        self.0.words
    }
}

impl<C: Compare> Nodes<Node<C>> {
    /// For an affine rule.
    pub fn affine(forest: &Forest, packed: &Packed) -> Self {
        encode(forest, packed, packed.stride(), |node, _| node)
    }
}

impl<C: Compare> Nodes<LinkedNode<C>> {
    /// For the linked rule.
    pub fn linked(forest: &Forest, packed: &Packed) -> Self {
        encode(forest, packed, 1, |node, link| LinkedNode { node, link })
    }
}

impl Nodes<ShortNode> {
    /// The same nodes in fewer words; `None` where a column or a way is too long.
    pub fn short(nodes: &Nodes<LinkedNode>) -> Option<Self> {
        nodes.each(|address, at| {
            let way = at.link.checked_sub(address).filter(|way| *way <= SHORT_LINK)?;
            let column = at.node.meta & FEATURE;
            let meta = at.node.meta & FLAGS | column << SHORT_SHIFT | way;
            (column <= SHORT_FEATURE).then_some(ShortNode { threshold: at.node.threshold, meta })
        })
    }
}

impl Nodes<RankNode> {
    /// The nodes of a forest on ranks of a byte in four; `None` where a column or a way is too long.
    pub fn ranked(nodes: &Nodes<LinkedNode>) -> Option<Self> {
        nodes.each(RankNode::new)
    }
}

impl<C: Compare> Nodes<DepthFirstNode<LinkedNode<C>>> {
    /// For the rule that has a node name its right child.
    pub fn near(forest: &Forest, packed: &Packed) -> Self {
        encode(forest, packed, 1, |node, link| DepthFirstNode(LinkedNode { node, link }))
    }
}

impl Nodes<DepthFirstNode<RankNode>> {
    /// The nodes of a forest on ranks of a byte in four; `None` where a column or a way is too long.
    pub fn near_ranked(nodes: &Nodes<DepthFirstNode<LinkedNode>>) -> Option<Self> {
        nodes.each(|address, at| RankNode::new(address, &at.0).map(DepthFirstNode))
    }
}

impl RankNode {
    fn new(address: u32, at: &LinkedNode) -> Option<Self> {
        let way = at.link.checked_sub(address).filter(|way| *way <= RANK_MASK)?;
        let column = at.node.meta & FEATURE;
        let threshold = if at.node.threshold.is_nan() { NO_RANK } else { at.node.threshold as u32 };
        let leaf = (at.node.meta & LEAF) >> RANK_LEAF_SHIFT;
        let word = threshold << RANK_SHIFTS[0] | leaf | column << RANK_SHIFTS[1] | way;
        (column <= RANK_MASK).then_some(Self { word })
    }
}

impl<N> Nodes<N> {
    /// The same forest in other nodes; `None` where one has no other.
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
    const HOLDS: bool = R::HOLDS;

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
        // SAFETY: reachable addresses are in range (`Packed::verify`).
        let at = unsafe { self.nodes.get_unchecked(address as usize) };
        let node = at.node();
        // SAFETY: a verified forest's features are columns, which `Rows` has checked against its data.
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
        // SAFETY: reachable addresses are in range (`Packed::verify`).
        unsafe { self.nodes.get_unchecked(address as usize) }.node().is_leaf()
    }
}
