//! Follows the trees from their roots and builds the forest's nodes.

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::ensemble::{Ensemble, Mode, Node};
use crate::forest::{
    CategoryRule, CompareType, ForestBuilder, MOST_CATEGORIES, Predicate, Side, TreeBuilder,
};

/// A node of the forest that is built.
#[derive(Clone, Copy, Debug)]
struct ReachedNode {
    /// Index of the file's node.
    node: u32,
    sort: Sort,
    /// Index within the tree of the child on the true branch. The child on the false branch is the next one.
    child: u32,
}

#[derive(Clone, Copy, Debug)]
enum Sort {
    Leaf,
    Split,
    /// A chain of this many nodes that each ask for one value and share the true branch. It becomes one set.
    Chain(u32),
    /// A set of whole numbers.
    Set,
    /// One member, by its index, of a set whose members are not all whole numbers.
    Member(u32),
}

/// The nodes that the root of each tree reaches, parents before children.
pub(super) struct ReachedTrees<'e> {
    ensemble: &'e Ensemble,
    nodes: Vec<ReachedNode>,
    /// Index in `nodes` where each tree begins.
    starts: Vec<usize>,
}

/// A node that is still to be visited. If a set is split into its members, `member` is the range of the
/// members that are left, as first and last index.
#[derive(Clone, Copy)]
struct OpenNode {
    node: u32,
    member: Option<(u32, u32)>,
}

impl<'e> ReachedTrees<'e> {
    /// Follows all trees from their roots. A leaf may have several parents. An inner node may not, except for the
    /// shared true branch of a chain that stands for a set.
    pub(super) fn new(ensemble: &'e Ensemble, budget: &mut Budget<'_>) -> Result<Self, ImportError> {
        let mut reached =
            Self { ensemble, nodes: Vec::new(), starts: Vec::with_capacity(ensemble.roots.len()) };
        let mut seen = vec![false; ensemble.nodes.len()];
        let mut open: Vec<OpenNode> = Vec::new();
        for root in &ensemble.roots {
            let start = reached.nodes.len();
            reached.starts.push(start);
            open.clear();
            open.push(OpenNode { node: *root, member: None });
            let mut next = 0;
            while let Some(OpenNode { node: n, member }) = open.get(next).copied() {
                next += 1;
                // Copies of shared leaves, and members of sets that are split, are nodes that the file does
                // not have, so charge them to the budget.
                if member.is_some() || reached.node(n).mode == Mode::Leaf && mark(&mut seen, n) {
                    budget.nodes(1, || Location::Field(ensemble.location.clone()))?;
                }
                let (sort, children) = reached.visit(n, member, &mut seen)?;
                let child = open.len() as u32;
                open.extend(children.into_iter().flatten());
                reached.nodes.push(ReachedNode { node: n, sort, child });
            }
        }
        let lost = seen.iter().position(|s| !s).filter(|_| ensemble.one_root);
        if let Some(n) = lost {
            let cause = "the first node of its tree does not reach this node: a second root or a cycle";
            return Err(ensemble.at(ErrorKind::Structure, "nodes_nodeids", n as u32, cause));
        }
        Ok(reached)
    }

    fn visit(
        &self,
        n: u32,
        member: Option<(u32, u32)>,
        seen: &mut [bool],
    ) -> Result<(Sort, Option<[OpenNode; 2]>), ImportError> {
        let node = self.node(n);
        let plain = |node| OpenNode { node, member: None };
        if node.mode == Mode::Leaf {
            return Ok((Sort::Leaf, None));
        }
        if member.is_none() && mark(seen, n) {
            let cause = "an inner node with two parents, or a cycle, is not supported";
            return Err(self
                .ensemble
                .at(ErrorKind::Unsupported, "nodes_truenodeids", n, cause)
                .with_remedy("write a copy of the subtree for each parent"));
        }
        let both = |no| Some([plain(node.yes), plain(no)]);
        match node.mode {
            Mode::Member(begin, end) => {
                let members = self.members(begin, end);
                if members.iter().all(|v| whole(*v).is_some()) {
                    return Ok((Sort::Set, both(node.no)));
                }
                if members.len() > 1 && self.node(node.yes).mode != Mode::Leaf {
                    let cause = "a set of values that are not whole numbers from 0 to 2^24 - 1 needs a leaf on its true branch";
                    return Err(self
                        .ensemble
                        .at(ErrorKind::Unsupported, "nodes_modes", n, cause)
                        .with_remedy("write one BRANCH_EQ node for each member"));
                }
                let (first, last) = member.unwrap_or((begin, end - 1));
                let no = match first < last {
                    true => OpenNode { node: n, member: Some((first + 1, last)) },
                    false => plain(node.no),
                };
                Ok((Sort::Member(first), Some([plain(node.yes), no])))
            }
            Mode::Equal if whole(node.threshold).is_some() => {
                let mut last = node;
                let mut length = 1u32;
                while self.continues(node, last.no) && !mark(seen, last.no) {
                    last = self.node(last.no);
                    length += 1;
                }
                let sort = if length > 1 { Sort::Chain(length) } else { Sort::Split };
                Ok((sort, both(last.no)))
            }
            _ => Ok((Sort::Split, both(node.no))),
        }
    }

    /// Returns whether node `n` asks for another value of the same feature and has the same true branch.
    fn continues(&self, first: Node, n: u32) -> bool {
        let node = self.node(n);
        node.mode == Mode::Equal
            && node.feature == first.feature
            && node.yes == first.yes
            && whole(node.threshold).is_some()
    }

    fn node(&self, n: u32) -> Node {
        // Readers check children, so this fallback is never used.
        let leaf =
            Node { mode: Mode::Leaf, feature: 0, threshold: 0.0, missing_is_true: false, yes: 0, no: 0 };
        self.ensemble.nodes.get(n as usize).copied().unwrap_or(leaf)
    }

    fn members(&self, begin: u32, end: u32) -> &[f64] {
        self.ensemble.members.get(begin as usize..end as usize).unwrap_or(&[])
    }

    /// Returns the ensemble of the trees.
    pub(super) fn ensemble(&self) -> &'e Ensemble {
        self.ensemble
    }

    /// Returns the number of trees.
    pub(super) fn trees(&self) -> usize {
        self.starts.len()
    }

    /// Returns the leaves of a tree, as node indices of the file. A shared leaf occurs as often as it is
    /// reached.
    pub(super) fn leaves(&self, tree: usize) -> impl Iterator<Item = u32> + '_ {
        self.nodes(tree).iter().filter(|s| matches!(s.sort, Sort::Leaf)).map(|s| s.node)
    }

    /// Returns the number of leaves of all trees.
    pub(super) fn leaf_count(&self) -> usize {
        self.nodes.iter().filter(|s| matches!(s.sort, Sort::Leaf)).count()
    }

    fn nodes(&self, tree: usize) -> &[ReachedNode] {
        let begin = self.starts.get(tree).copied().unwrap_or(self.nodes.len());
        let end = self.starts.get(tree + 1).copied().unwrap_or(self.nodes.len());
        self.nodes.get(begin..end).unwrap_or(&[])
    }

    /// Adds a tree's category sets to the forest. Returns their numbers, in the order of the tree's nodes.
    pub(super) fn sets(
        &self,
        tree: usize,
        builder: &mut ForestBuilder,
        budget: &mut Budget<'_>,
    ) -> Result<Vec<u32>, ImportError> {
        let mut sets = Vec::new();
        for reached in self.nodes(tree) {
            let members: Vec<u32> = match reached.sort {
                Sort::Chain(length) => {
                    self.chain(reached.node, length).filter_map(|n| whole(n.threshold)).collect()
                }
                Sort::Set => match self.node(reached.node).mode {
                    Mode::Member(begin, end) => {
                        self.members(begin, end).iter().filter_map(|v| whole(*v)).collect()
                    }
                    _ => Vec::new(),
                },
                _ => continue,
            };
            let words = members.iter().max().map_or(0, |largest| *largest as usize / 32 + 1);
            budget.category_words(words, || {
                Location::Field(format!("{}.nodes_modes[{}]", self.ensemble.location, reached.node))
            })?;
            sets.push(builder.set(members, CategoryRule::Whole));
        }
        Ok(sets)
    }

    fn chain(&self, first: u32, length: u32) -> impl Iterator<Item = Node> + '_ {
        let next = |node: &Node| Some(self.node(node.no));
        std::iter::successors(Some(self.node(first)), next).take(length as usize)
    }

    /// Builds a tree. `values` returns the leaf value of a leaf, by its index in the file.
    pub(super) fn build(
        &self,
        tree: usize,
        compare: CompareType,
        sets: &[u32],
        builder: &mut TreeBuilder<'_>,
        mut values: impl FnMut(u32) -> Vec<f64>,
    ) {
        let nodes = self.nodes(tree);
        builder.reserve(nodes.len());
        let mut sets = sets.iter().copied();
        for reached in nodes {
            let node = self.node(reached.node);
            let true_side = if node.missing_is_true { Side::Left } else { Side::Right };
            let (predicate, missing, swapped) = match reached.sort {
                Sort::Leaf => {
                    let id = self.ensemble.ids.get(reached.node as usize).copied().unwrap_or(0);
                    builder.leaf(id, &values(reached.node));
                    continue;
                }
                Sort::Split => predicate_of(node, compare),
                Sort::Member(first) => {
                    let value = self.members(first, first + 1).first().copied().unwrap_or(f64::INFINITY);
                    predicate_of(Node { mode: Mode::Equal, threshold: value, ..node }, compare)
                }
                Sort::Chain(length) => {
                    let any = self.chain(reached.node, length).any(|n| n.missing_is_true);
                    let set = sets.next().unwrap_or(u32::MAX);
                    let missing = if any { Side::Left } else { Side::Right };
                    (Predicate::InSet { set, inside: Side::Left }, missing, false)
                }
                Sort::Set => {
                    let set = sets.next().unwrap_or(u32::MAX);
                    (Predicate::InSet { set, inside: Side::Left }, true_side, false)
                }
            };
            let (left, right) =
                if swapped { (reached.child + 1, reached.child) } else { (reached.child, reached.child + 1) };
            builder.split(node.feature, predicate, missing, left, right);
        }
    }
}

/// Marks a node as seen. Returns whether it had been seen before.
fn mark(seen: &mut [bool], n: u32) -> bool {
    seen.get_mut(n as usize).is_none_or(|seen| std::mem::replace(seen, true))
}

/// Returns the category that a value is, if it is a whole number below [`MOST_CATEGORIES`].
fn whole(value: f64) -> Option<u32> {
    (value >= 0.0 && value < f64::from(MOST_CATEGORIES) && value == value.trunc()).then_some(value as u32)
}

/// Returns a node's predicate, the side of missing values, and whether the left child is the child of the
/// false branch.
fn predicate_of(node: Node, compare: CompareType) -> (Predicate, Side, bool) {
    let t = node.threshold;
    let (predicate, swapped) = match node.mode {
        Mode::LessOrEqual => (compare.at_most(t), false),
        Mode::Less => (compare.less(t), false),
        Mode::GreaterOrEqual => (compare.less(t), true),
        Mode::Greater => (compare.at_most(t), true),
        Mode::NotEqual => (equal(t, compare), true),
        _ => (equal(t, compare), false),
    };
    // No value equals this threshold. `Always` with the children swapped says so.
    let swapped = swapped
        != (matches!(node.mode, Mode::Equal | Mode::NotEqual | Mode::Member(..))
            && predicate == Predicate::Always);
    // A comparison with NaN is false, except `!=`.
    let missing_is_true = node.missing_is_true || node.mode == Mode::NotEqual;
    let missing = if missing_is_true != swapped { Side::Left } else { Side::Right };
    (predicate, missing, swapped)
}

/// Returns `x == value`, or [`Predicate::Always`] if no `x` of the type equals the value. The caller swaps
/// the children in that case.
fn equal(value: f64, compare: CompareType) -> Predicate {
    if compare.cast(value) == value { Predicate::Equal { value: value.into() } } else { Predicate::Always }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [Mode; 6] =
        [Mode::LessOrEqual, Mode::Less, Mode::GreaterOrEqual, Mode::Greater, Mode::Equal, Mode::NotEqual];

    /// Returns what the standard says about a comparison of doubles.
    fn holds(mode: Mode, x: f64, t: f64) -> bool {
        match mode {
            Mode::LessOrEqual => x <= t,
            Mode::Less => x < t,
            Mode::GreaterOrEqual => x >= t,
            Mode::Greater => x > t,
            Mode::Equal => x == t,
            _ => x != t,
        }
    }

    fn takes_true(mode: Mode, missing_is_true: bool, t: f64, x: f64, compare: CompareType) -> bool {
        let node = Node { mode, feature: 0, threshold: t, missing_is_true, yes: 1, no: 2 };
        let (predicate, missing, swapped) = predicate_of(node, compare);
        let side = match predicate {
            _ if x.is_nan() => missing,
            Predicate::Less { threshold } if x < threshold.0 => Side::Left,
            Predicate::Equal { value } if x == value.0 => Side::Left,
            Predicate::Always => Side::Left,
            _ => Side::Right,
        };
        (side == Side::Left) != swapped
    }

    fn values() -> Vec<f64> {
        let mut values = vec![0.0f32, -0.0, 1e-45, f32::MIN_POSITIVE, 1.0, 0.1, 16_777_216.0, f32::MAX];
        values.extend([f32::INFINITY, f32::NEG_INFINITY, -1.0, 1e30, f32::MIN]);
        values.iter().flat_map(|v| [v.next_down(), *v, v.next_up(), f32::NAN]).map(f64::from).collect()
    }

    #[test]
    fn every_mode_asks_what_the_standard_says_of_floats() {
        for mode in MODES {
            for t in values().into_iter().filter(|t| !t.is_nan()) {
                for wide in [t.next_down(), t, t.next_up()] {
                    for x in values() {
                        for tracks in [false, true] {
                            let expected = holds(mode, x, wide) || tracks && x.is_nan();
                            let found = takes_true(mode, tracks, wide, x, CompareType::F32);
                            assert_eq!(found, expected, "{mode:?} {wide:e}, x {x:e}, tracks {tracks}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_mode_asks_what_the_standard_says_of_doubles() {
        for mode in MODES {
            for t in values().into_iter().chain([0.1, 1e300]).filter(|t| !t.is_nan()) {
                for x in [t.next_down(), t, t.next_up(), f64::NAN, 0.0, -0.0] {
                    for tracks in [false, true] {
                        let expected = holds(mode, x, t) || tracks && x.is_nan();
                        let found = takes_true(mode, tracks, t, x, CompareType::F64);
                        assert_eq!(found, expected, "{mode:?} {t:e}, x {x:e}, tracks {tracks}");
                    }
                }
            }
        }
    }

    #[test]
    fn only_whole_numbers_below_the_limit_are_categories() {
        assert_eq!([0.0, -0.0, 2.0, 16_777_215.0].map(whole), [Some(0), Some(0), Some(2), Some(16_777_215)]);
        assert_eq!([-1.0, 0.5, 16_777_216.0, 1e30, f64::NAN].map(whole), [None; 5]);
    }
}
