//! Walks of a row and a background row through a tree at once, for trees whose paths have very many features.
//!
//! A walk goes on with both rows while they take the same side. At a split at which they part, it takes both sides. On
//! the row's side the split's feature is one that only the row satisfies, and on the other side one that only the
//! background row satisfies. Below, all splits on that feature send the walk where that row goes. So a walk reaches
//! only leaves of which one row or the other satisfies every feature (Lundberg et al.: *From local explanations to
//! global understanding with explainable AI for trees*, 2020, algorithm 3).
//!
//! Let `a` features of a path be satisfied by the row only, and `b` by the background row only. `a! b! / (a + b)!` is
//! the fraction of their orders that have the row's features first. One more feature of the row multiplies it by
//! `(a + 1) / (a + b + 1)`, one more of the background row by `(b + 1) / (a + b + 1)`. A walk multiplies as it goes:
//! nothing overflows, and each feature adds a rounding or two.

use super::interventional::MOST_FEATURES;
use crate::forest::{CategorySet, Forest, Node, Predicate, Side, reference};

/// The trees with a path of more than [`MOST_FEATURES`] features, and the data for walks through them.
#[derive(Clone, Debug)]
pub(super) struct LongTrees {
    /// For each tree of the forest, whether it is one of them.
    is_long: Vec<bool>,
    /// For each feature, the index of its column among the columns that some split reads.
    column_of: Vec<u32>,
    /// Number of columns that some split reads.
    columns: usize,
    /// The background's values of these columns, row after row.
    background: Vec<f64>,
}

impl LongTrees {
    /// Finds the long trees of a forest, or returns `None` if there are none. `columns` are the columns that some split
    /// reads, in ascending order, and `background` has their values of `count` rows, column after column.
    pub(super) fn find(forest: &Forest, columns: &[u32], background: &[f64], count: usize) -> Option<Self> {
        if columns.len() <= MOST_FEATURES {
            return None;
        }
        let is_long: Vec<bool> = forest.trees.iter().map(|tree| has_long_path(&tree.nodes)).collect();
        if !is_long.contains(&true) {
            return None;
        }
        let mut column_of = vec![0; forest.features.len()];
        for (index, column) in (0u32..).zip(columns) {
            column_of[*column as usize] = index;
        }
        Some(Self { is_long, column_of, columns: columns.len(), background: by_row(background, count) })
    }

    /// Returns whether a tree of the forest is one of them.
    pub(super) fn has(&self, tree: usize) -> bool {
        self.is_long[tree]
    }

    /// Calls `take` with the leaf slot that each background row reaches in a tree.
    pub(super) fn each_slot_of_background(&self, forest: &Forest, tree: usize, mut take: impl FnMut(u32)) {
        let nodes = &forest.trees[tree].nodes;
        for row in self.background.chunks_exact(self.columns) {
            let mut node = nodes[0];
            while let Node::Split { feature, predicate, missing, left, right } = node {
                let x = row[self.column_of[feature as usize] as usize];
                let goes_left = side(&forest.sets, predicate, missing, x) == Side::Left;
                node = nodes[if goes_left { left } else { right } as usize];
            }
            take(node.slot().unwrap_or(0));
        }
    }
}

/// Returns whether a path of a tree has more than [`MOST_FEATURES`] features.
fn has_long_path(nodes: &[Node]) -> bool {
    // The features of the path to the present node. An open node comes with the number of those that its path has, too.
    let mut features: Vec<u32> = Vec::new();
    let mut open = vec![(0u32, 0)];
    while let Some((n, above)) = open.pop() {
        features.truncate(above);
        let Node::Split { feature, left, right, .. } = nodes[n as usize] else { continue };
        if !features.contains(&feature) {
            features.push(feature);
        }
        if features.len() > MOST_FEATURES {
            return true;
        }
        open.extend([(left, features.len()), (right, features.len())]);
    }
    false
}

/// Returns values of `count` rows, which lie column after column, row after row.
pub(super) fn by_row(values: &[f64], count: usize) -> Vec<f64> {
    let mut all = Vec::with_capacity(values.len());
    for r in 0..count {
        all.extend(values.iter().skip(r).step_by(count));
    }
    all
}

/// Returns the side to which a split sends a value that is already cast to the forest's type.
#[inline]
pub(super) fn side(sets: &[CategorySet], predicate: Predicate, missing: Side, x: f64) -> Side {
    match predicate {
        Predicate::Less { threshold } if x < threshold.0 => Side::Left,
        Predicate::Less { .. } if !x.is_nan() => Side::Right,
        _ => reference::side_of_cast(sets, predicate, missing, x),
    }
}

/// The rows that a walk follows at the splits of a feature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// Both, because they have not parted at a split of the feature.
    Both,
    /// The row, which alone satisfies the feature.
    Row,
    /// The background row, which alone satisfies the feature.
    Background,
}

/// A part of a walk that is still to come.
#[derive(Clone, Copy)]
enum Next {
    /// Goes on at the background row's side of a split at which the rows parted.
    Enter { reached: Reached, column: u32 },
    /// Leaves the side of a split at which the rows parted.
    Leave { column: u32, follows: Follows },
}

/// A node that a walk reaches.
#[derive(Clone, Copy)]
pub(super) struct Reached {
    node: u32,
    /// The number of features that only the row satisfies.
    pub(super) of_row: u32,
    /// The number of features that only the background row satisfies.
    pub(super) of_background: u32,
    /// The weight of the background row times `of_row! of_background! / (of_row + of_background)!`.
    pub(super) orders: f64,
}

/// Takes what a walk of a row and a background row reaches.
pub(super) trait TakesLeaves {
    /// Enters a side of a split at which the rows part. Only one of the rows satisfies the split's feature there: the row,
    /// or else the background row.
    fn enter(&mut self, column: u32, is_of_row: bool);

    /// Leaves the side of a split that was entered last.
    fn leave(&mut self, column: u32, is_of_row: bool);

    /// Takes a leaf, whose features that one row alone satisfies are those of the sides that were entered and not left.
    fn leaf(&mut self, slot: u32, at: Reached);
}

/// The walks of rows and background rows through the long trees of a forest.
pub(super) struct Walks<'a> {
    forest: &'a Forest,
    long: &'a LongTrees,
    /// For each column, the rows that the present walk follows.
    follows: Vec<Follows>,
    open: Vec<Next>,
}

impl<'a> Walks<'a> {
    pub(super) fn new(forest: &'a Forest, long: &'a LongTrees) -> Self {
        Self { forest, long, follows: vec![Follows::Both; long.columns], open: Vec::new() }
    }

    /// Adds the contributions of a row from a tree to `sums`: a number for each column, for each value of a leaf.
    pub(super) fn add(&mut self, tree: usize, row: &[f64], sums: &mut [f64]) {
        let width = self.forest.leaf_width();
        let (forest, columns) = (self.forest, self.long.columns);
        self.walk(
            tree,
            row,
            &mut Contributions { forest, columns, width, added: vec![0.0; 2 * width], sums },
        );
    }

    /// Walks through a tree with a row and each background row.
    pub(super) fn walk(&mut self, tree: usize, row: &[f64], taker: &mut impl TakesLeaves) {
        let long = self.long;
        let weight = 1.0 / (long.background.len() / long.columns) as f64;
        for other in long.background.chunks_exact(long.columns) {
            self.walk_with(tree, row, other, weight, taker);
        }
    }

    fn walk_with(
        &mut self,
        tree: usize,
        row: &[f64],
        other: &[f64],
        weight: f64,
        taker: &mut impl TakesLeaves,
    ) {
        let nodes = &self.forest.trees[tree].nodes;
        let mut at = Reached { node: 0, of_row: 0, of_background: 0, orders: weight };
        loop {
            while let Node::Split { feature, predicate, missing, left, right } = nodes[at.node as usize] {
                let column = self.long.column_of[feature as usize];
                let goes_left = |row: &[f64]| {
                    side(&self.forest.sets, predicate, missing, row[column as usize]) == Side::Left
                };
                let child = |goes_left: bool| if goes_left { left } else { right };
                at.node = match self.follows[column as usize] {
                    Follows::Row => child(goes_left(row)),
                    Follows::Background => child(goes_left(other)),
                    Follows::Both => {
                        let (own, others) = (goes_left(row), goes_left(other));
                        if own != others {
                            let count = f64::from(at.of_row + at.of_background + 1);
                            let of_background = at.of_background + 1;
                            let orders = at.orders * (f64::from(of_background) / count);
                            let reached = Reached { node: child(others), of_background, orders, ..at };
                            self.open.push(Next::Enter { reached, column });
                            at.of_row += 1;
                            at.orders *= f64::from(at.of_row) / count;
                            self.enter(column, Follows::Row, taker);
                        }
                        child(own)
                    }
                };
            }
            taker.leaf(nodes[at.node as usize].slot().unwrap_or(0), at);
            at = loop {
                match self.open.pop() {
                    None => return,
                    Some(Next::Leave { column, follows }) => {
                        self.follows[column as usize] = Follows::Both;
                        taker.leave(column, follows == Follows::Row);
                    }
                    Some(Next::Enter { reached, column }) => {
                        self.enter(column, Follows::Background, taker);
                        break reached;
                    }
                }
            };
        }
    }

    /// Enters a side of a split at which the rows part. Only the row that `follows` names satisfies the feature there.
    fn enter(&mut self, column: u32, follows: Follows, taker: &mut impl TakesLeaves) {
        self.follows[column as usize] = follows;
        self.open.push(Next::Leave { column, follows });
        taker.enter(column, follows == Follows::Row);
    }
}

/// Adds up the contributions of a row.
struct Contributions<'a> {
    forest: &'a Forest,
    columns: usize,
    /// The number of values of a leaf.
    width: usize,
    /// For each side that the present walk has entered, the outermost first, what its leaves add to a feature that only
    /// the row satisfies, and to one that only the background row satisfies: a number for each value of a leaf.
    added: Vec<f64>,
    sums: &'a mut [f64],
}

impl TakesLeaves for Contributions<'_> {
    fn enter(&mut self, _: u32, _: bool) {
        self.added.resize(self.added.len() + 2 * self.width, 0.0);
    }

    /// The split's feature gets what the leaves of the side add.
    fn leave(&mut self, column: u32, is_of_row: bool) {
        let width = self.width;
        let length = self.added.len() - 2 * width;
        let (before, here) = self.added.split_at_mut(length);
        let own = if is_of_row { &here[..width] } else { &here[width..] };
        let sums = self.sums.iter_mut().skip(column as usize).step_by(self.columns);
        sums.zip(own).for_each(|(sum, added)| *sum += added);
        before[length - 2 * width..].iter_mut().zip(&*here).for_each(|(sum, added)| *sum += added);
        self.added.truncate(length);
    }

    /// Adds the values of the leaf to the side that was entered last.
    fn leaf(&mut self, slot: u32, at: Reached) {
        let first = self.added.len() - 2 * self.width;
        let (of_row, of_background) = self.added[first..].split_at_mut(self.width);
        let values = self.forest.leaf(slot);
        // Divided by `a`, the fraction of orders is `(a - 1)! b! / (a + b)!`, and divided by `b` it is
        // `a! (b - 1)! / (a + b)!`.
        if at.of_row > 0 {
            let share = at.orders / f64::from(at.of_row);
            of_row.iter_mut().zip(values).for_each(|(added, value)| *added += value.0 * share);
        }
        if at.of_background > 0 {
            let share = at.orders / f64::from(at.of_background);
            of_background.iter_mut().zip(values).for_each(|(added, value)| *added -= value.0 * share);
        }
    }
}
