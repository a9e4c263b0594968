//! The micro-kernels: a block of rows against a block of trees, some walks advancing together.

use crate::cpu::{
    nodes::Compare,
    rows::{Read, Row, Rows},
};
use crate::plan::Remainder;

/// Leaves that a kernel finds before they are handed over, at most: whole registers of any instruction set.
pub(in crate::cpu) const MOST_ADDRESSES: usize = 512;

/// The addresses of the leaves that walks end at: a tree's rows side by side where rows are inside, otherwise a row's trees. Walks
/// know nothing of what becomes of leaves, so each is compiled once.
pub(in crate::cpu) type LeafAddresses = [u32; MOST_ADDRESSES];

/// A forest in memory, as walks go through it: node by node, or tile by tile.
pub(in crate::cpu) trait NodeStore {
    /// The type of the thresholds.
    type Compare: Compare;
    /// Whether a step from a leaf stays there.
    const HOLDS: bool;
    /// The root's address and the constant of the tree at a position.
    fn start(&self, position: usize) -> (u32, u32);
    /// The depth of the tree at a position, in steps.
    fn depth(&self, position: usize) -> u32;
    /// The address after a step.
    ///
    /// # Safety
    /// `address` is one that the packed forest's walks reach, of a leaf only where it [holds](NodeStore::HOLDS), and `row`
    /// holds every column.
    unsafe fn step<T: Row + Read<Self::Compare>, const QUESTIONS: bool, const UNIT: bool>(
        &self,
        address: u32,
        constant: u32,
        rows: &Rows<'_, T>,
        row: usize,
    ) -> u32;
    /// Whether the walk has come to a leaf.
    ///
    /// # Safety
    /// `address` is one that the packed forest's walks reach.
    unsafe fn is_leaf(&self, address: u32) -> bool;
    /// The leaf's address where nothing but that leaf is behind this one.
    ///
    /// # Safety
    /// As for [`NodeStore::is_leaf`].
    #[inline(always)]
    unsafe fn past_hop(&self, address: u32) -> u32 {
        address
    }
    /// An address from where a step can be taken, for what it leads to does not count: the given one, unless it is a
    /// leaf's that has no node.
    #[inline(always)]
    fn readable(&self, address: u32) -> u32 {
        address
    }
}

/// Positions `start, start + step, …`, `count` of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Span {
    pub(in crate::cpu) start: usize,
    pub(in crate::cpu) step: usize,
    pub(in crate::cpu) count: usize,
}

impl Span {
    /// The position of number `k` alone.
    pub(in crate::cpu) fn one(self, k: usize) -> Self {
        Self { start: self.at(k), step: 1, count: 1 }
    }

    pub(in crate::cpu) fn at(self, k: usize) -> usize {
        self.start + k * self.step
    }

    /// The same in parts of so many positions, the last of what is left.
    pub(in crate::cpu) fn parts(self, most: usize) -> impl Iterator<Item = Self> {
        let part = move |k| Self { start: self.at(k), step: self.step, count: most.min(self.count - k) };
        (0..self.count).step_by(most.max(1)).map(part)
    }

    /// Those of the positions that are in a range.
    pub(in crate::cpu) fn within(self, range: &std::ops::Range<usize>) -> Self {
        let before = |end: usize| end.saturating_sub(self.start).div_ceil(self.step).min(self.count);
        let first = before(range.start);
        Self { start: self.at(first), count: before(range.end).saturating_sub(first), ..self }
    }

    /// One past the last position.
    pub(in crate::cpu) fn end(self) -> usize {
        if self.count == 0 { 0 } else { self.at(self.count - 1) + 1 }
    }
}

/// A block's order and how its walks go.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Shape {
    /// Whether the inner loop goes over rows (a tree at a time) or over trees (a row at a time).
    pub(in crate::cpu) rows_inside: bool,
    /// Walks of the inner loop that advance together.
    pub(in crate::cpu) lanes: usize,
    /// Steps without a leaf test.
    pub(in crate::cpu) steps: u32,
    /// Steps after those, each with a test that sees a leaf through the padding above it.
    pub(in crate::cpu) tested: u32,
    /// What follows them.
    pub(in crate::cpu) rest: Remainder,
    /// Levels from the root down that blends take the place of where they can, `u32::MAX` for all.
    pub(in crate::cpu) blend: Option<u32>,
}

impl Shape {
    /// Walks of a tree that test for a leaf at each step.
    pub(in crate::cpu) const PLAIN: Self =
        Self { rows_inside: true, lanes: 1, steps: 0, tested: 0, rest: Remainder::UntilLeaf, blend: None };

    /// The same one row after the other, each through eight trees at a time.
    pub(in crate::cpu) fn by_row(self) -> Self {
        Self { rows_inside: false, lanes: 8, ..self }
    }

    /// The shape for walks of these trees side by side, by what the table says of their depths.
    #[inline(always)]
    pub(in crate::cpu) fn of_trees<N: NodeStore>(self, nodes: &N, positions: &[usize]) -> Self {
        let depths = || positions.iter().map(|p| nodes.depth(*p));
        // Where a leaf holds, the deepest tree's steps are right for the others, too, and none needs more.
        let deepest = || depths().max().unwrap_or(0);
        match self.rest {
            Remainder::Counted if N::HOLDS || positions.len() == 1 => {
                Self { steps: deepest(), rest: Remainder::Nothing, ..self }
            }
            // The shallowest tree's steps go past no leaf.
            Remainder::Counted => {
                Self { steps: depths().min().unwrap_or(0), rest: Remainder::UntilLeaf, ..self }
            }
            Remainder::Nothing | Remainder::UntilLeaf if N::HOLDS => {
                Self { steps: self.steps.min(deepest()), ..self }
            }
            Remainder::Nothing | Remainder::UntilLeaf => self,
        }
    }
}

/// Walks `L` trees and rows in step. `trees[l]` is a root and a constant.
///
/// # Safety
/// Rows are in range; roots and constants are the packed forest's, whose walks of `steps` steps stay inside it.
#[inline(always)]
unsafe fn walk<
    N: NodeStore,
    T: Row + Read<N::Compare>,
    const QUESTIONS: bool,
    const UNIT: bool,
    const L: usize,
>(
    nodes: &N,
    rows: &Rows<'_, T>,
    row: [usize; L],
    trees: [(u32, u32); L],
    shape: Shape,
) -> [u32; L] {
    let mut at = [0; L];
    (0..L).for_each(|l| at[l] = trees[l].0);
    for _ in 0..shape.steps {
        for l in 0..L {
            // SAFETY: as promised to this function.
            at[l] = unsafe { nodes.step::<T, QUESTIONS, UNIT>(at[l], trees[l].1, rows, row[l]) };
        }
    }
    if shape.rest == Remainder::Nothing {
        return at;
    }
    let mut tested = shape.tested;
    loop {
        if tested > 0 {
            for at in &mut at {
                // SAFETY: as promised to this function.
                *at = unsafe { nodes.past_hop(*at) };
            }
            tested -= 1;
        }
        let mut open = [false; L];
        for l in 0..L {
            // SAFETY: as promised to this function; leaves end the loop (`Packed::verify`).
            open[l] = unsafe { !nodes.is_leaf(at[l]) };
        }
        if !open.contains(&true) {
            return at;
        }
        for l in 0..L {
            // Lanes wait at their leaf for the others, whose loads overlap.
            let from = nodes.readable(at[l]);
            // SAFETY: as promised to this function; a leaf, too, is a node that can be read, or one that can stands in.
            let next = unsafe { nodes.step::<T, QUESTIONS, UNIT>(from, trees[l].1, rows, row[l]) };
            at[l] = if N::HOLDS || open[l] { next } else { at[l] };
        }
    }
}

/// Where walks of a tree begin that are on their way already: an address for each row.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct WalkStarts<'a> {
    pub(in crate::cpu) position: usize,
    pub(in crate::cpu) addresses: &'a [u32],
}

/// Walks a tree on from an address for each row until the leaves.
///
/// # Safety
/// Rows are in range and have the forest's columns; there is an address for each, of a node of the tree at the position; no
/// node asks a question.
pub(in crate::cpu) unsafe fn walk_on<N: NodeStore, T: Row + Read<N::Compare>>(
    nodes: &N,
    rows: &Rows<'_, T>,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    /// Walks side by side.
    const L: usize = 4;
    let (_, constant) = nodes.start(from.position);
    for r in (0..row.count).step_by(L) {
        let (mut own, mut trees) = ([0; L], [(0, constant); L]);
        for l in 0..L {
            // A walk past the last row is the last row's again.
            let r = (r + l).min(row.count - 1);
            (own[l], trees[l].0) = (row.at(r), from.addresses[r]);
        }
        // SAFETY: as promised to this function.
        let ends = unsafe { walk::<N, T, false, false, L>(nodes, rows, own, trees, Shape::PLAIN) };
        let count = L.min(row.count - r);
        found[r..r + count].copy_from_slice(&ends[..count]);
    }
}

/// Walks every row of `row` through every tree of `tree`, at most [`MOST_ADDRESSES`] walks, with as many side by side as the shape says.
///
/// # Safety
/// Rows are in range and have the forest's columns, trees are positions, `UNIT` only where rows are; the shape's
/// walks stay inside the nodes.
pub(in crate::cpu) unsafe fn block<
    N: NodeStore,
    T: Row + Read<N::Compare>,
    const QUESTIONS: bool,
    const UNIT: bool,
>(
    nodes: &N,
    rows: &Rows<'_, T>,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    // Rows that are walked together come to a tree's leaves in the order they had: that costs nothing, and their loads overlap.
    let together = if shape.rows_inside && shape.lanes == 1 { 8 } else { shape.lanes };
    // SAFETY: as promised to this function.
    unsafe {
        match together {
            8.. => lanes::<N, T, QUESTIONS, UNIT, 8>(nodes, rows, row, tree, shape, found),
            4..8 => lanes::<N, T, QUESTIONS, UNIT, 4>(nodes, rows, row, tree, shape, found),
            2..4 => lanes::<N, T, QUESTIONS, UNIT, 2>(nodes, rows, row, tree, shape, found),
            _ => lanes::<N, T, QUESTIONS, UNIT, 1>(nodes, rows, row, tree, shape, found),
        }
    }
}

/// The same with `L` walks side by side.
///
/// # Safety
/// As for [`block`].
pub(in crate::cpu) unsafe fn lanes<
    N: NodeStore,
    T: Row + Read<N::Compare>,
    const QUESTIONS: bool,
    const UNIT: bool,
    const L: usize,
>(
    nodes: &N,
    rows: &Rows<'_, T>,
    row: Span,
    tree: Span,
    shape: Shape,
    found: &mut LeafAddresses,
) {
    if shape.rows_inside {
        for (t, found) in found.chunks_exact_mut(row.count.max(1)).enumerate().take(tree.count) {
            let position = tree.at(t);
            let start = nodes.start(position);
            let shape = shape.of_trees(nodes, &[position]);
            let mut r = 0;
            while r + L <= row.count {
                let mut group = [0; L];
                (0..L).for_each(|l| group[l] = row.at(r + l));
                // SAFETY: as promised to this function.
                let ends = unsafe { walk::<N, T, QUESTIONS, UNIT, L>(nodes, rows, group, [start; L], shape) };
                found[r..r + L].copy_from_slice(&ends);
                r += L;
            }
            for (r, found) in found.iter_mut().enumerate().skip(r) {
                // SAFETY: as promised to this function.
                [*found] =
                    unsafe { walk::<N, T, QUESTIONS, UNIT, 1>(nodes, rows, [row.at(r)], [start], shape) };
            }
        }
    } else {
        for (r, found) in found.chunks_exact_mut(tree.count.max(1)).enumerate().take(row.count) {
            let row = row.at(r);
            let mut t = 0;
            while t + L <= tree.count {
                let (mut group, mut starts) = ([0; L], [(0, 0); L]);
                for l in 0..L {
                    group[l] = tree.at(t + l);
                    starts[l] = nodes.start(group[l]);
                }
                let shape = shape.of_trees(nodes, &group);
                // SAFETY: as promised to this function.
                let ends = unsafe { walk::<N, T, QUESTIONS, UNIT, L>(nodes, rows, [row; L], starts, shape) };
                found[t..t + L].copy_from_slice(&ends);
                t += L;
            }
            for (t, found) in found.iter_mut().enumerate().skip(t) {
                let position = tree.at(t);
                let shape = shape.of_trees(nodes, &[position]);
                let start = [nodes.start(position)];
                // SAFETY: as promised to this function.
                [*found] = unsafe { walk::<N, T, QUESTIONS, UNIT, 1>(nodes, rows, [row], start, shape) };
            }
        }
    }
}
