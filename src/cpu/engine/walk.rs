//! The micro-kernels. They walk a block of rows through a block of trees, and several walks advance together.

use crate::cpu::{
    nodes::Compare,
    rows::{Read, Row, Rows},
};

/// Maximum number of leaves that a kernel finds before it hands them over: whole registers of any instruction
/// set.
pub(in crate::cpu) const MOST_ADDRESSES: usize = 512;

/// The addresses of the leaves that walks reach. Those of a tree's rows lie side by side if rows are inside,
/// otherwise those of a row's trees. Walks fill this buffer and know nothing of sinks, so each walk is
/// compiled once.
pub(in crate::cpu) type LeafAddresses = [u32; MOST_ADDRESSES];

/// An encoded forest that walks read node by node, or tile by tile.
pub(in crate::cpu) trait NodeStore {
    /// The type of the thresholds.
    type Compare: Compare;
    /// Whether a step from a leaf stays at the leaf.
    const LEAVES_HOLD: bool;
    /// Returns the address of the root, and the constant of the rule for children, of the tree at a
    /// position.
    fn start(&self, position: usize) -> (u32, u32);
    /// Returns the depth of the tree at a position, in steps.
    fn depth(&self, position: usize) -> u32;
    /// Returns the address after one step from `address`.
    ///
    /// # Safety
    /// `address` is one that the packed forest's walks reach, or the result of [`NodeStore::readable`] for
    /// it. If leaves do not [hold](NodeStore::LEAVES_HOLD), the caller discards the result of a step from a
    /// leaf. `row` is in range and has every column that nodes read. `UNIT` is set only if the values of a
    /// row follow each other.
    unsafe fn step<T: Row + Read<Self::Compare>, const QUESTIONS: bool, const UNIT: bool>(
        &self,
        address: u32,
        constant: u32,
        rows: &Rows<'_, T>,
        row: usize,
    ) -> u32;
    /// Returns whether the node at `address` is a leaf.
    ///
    /// # Safety
    /// `address` is one that the packed forest's walks reach.
    unsafe fn is_leaf(&self, address: u32) -> bool;
    /// Returns the address of the leaf below `address` if `address` is padding directly above a leaf.
    /// Otherwise, or if the encoding does not tell, returns `address` itself.
    ///
    /// # Safety
    /// `address` is one that the packed forest's walks reach.
    #[inline(always)]
    unsafe fn leaf_behind_padding(&self, address: u32) -> u32 {
        address
    }
    /// Returns an address from which a step can be taken if its result is discarded. This is `address`
    /// itself, unless it is the address of a leaf without a node.
    #[inline(always)]
    fn readable(&self, address: u32) -> u32 {
        address
    }
}

/// The numbers `start`, `start + stride` and so on, `count` of them: rows, or positions of trees.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Span {
    pub(in crate::cpu) start: usize,
    pub(in crate::cpu) stride: usize,
    pub(in crate::cpu) count: usize,
}

impl Span {
    /// Returns the span of only the `k`th number.
    pub(in crate::cpu) fn one(self, k: usize) -> Self {
        Self { start: self.at(k), stride: 1, count: 1 }
    }

    pub(in crate::cpu) fn at(self, k: usize) -> usize {
        self.start + k * self.stride
    }

    /// Splits the span into chunks of `most` numbers. The last chunk may be shorter.
    pub(in crate::cpu) fn chunks(self, most: usize) -> impl Iterator<Item = Self> {
        let chunk = move |k| Self { start: self.at(k), stride: self.stride, count: most.min(self.count - k) };
        (0..self.count).step_by(most.max(1)).map(chunk)
    }

    /// Returns the numbers of the span that lie in a range.
    pub(in crate::cpu) fn within(self, range: &std::ops::Range<usize>) -> Self {
        let before = |end: usize| end.saturating_sub(self.start).div_ceil(self.stride).min(self.count);
        let first = before(range.start);
        Self { start: self.at(first), count: before(range.end).saturating_sub(first), ..self }
    }

    /// Returns one past the last number, or 0 if there is none.
    pub(in crate::cpu) fn end(self) -> usize {
        if self.count == 0 { 0 } else { self.at(self.count - 1) + 1 }
    }
}

/// Where a walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cpu) enum Ending {
    /// After [`Shape::steps`], which reach every leaf.
    AfterSteps,
    /// At a leaf. Each step after [`Shape::steps`] has a leaf test.
    AtLeaf,
    /// After as many steps in all as the tree is deep, with no leaf test.
    AtDepth,
}

/// The order of a block's loops, and how its walks take their steps.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Shape {
    /// Whether the inner loop goes over rows (a tree at a time) or over trees (a row at a time).
    pub(in crate::cpu) rows_inside: bool,
    /// Number of walks of the inner loop that advance together.
    pub(in crate::cpu) lanes: usize,
    /// Number of steps that a walk takes first, without a leaf test.
    pub(in crate::cpu) steps: u32,
    /// Number of steps after `steps`, each with a leaf test. In tiles, padding directly above a leaf counts
    /// as the leaf.
    pub(in crate::cpu) tested: u32,
    /// Where the walk ends.
    pub(in crate::cpu) ending: Ending,
    /// How many levels, from the root down, a blend may evaluate in place of walks: `u32::MAX` for all,
    /// `None` for no blend.
    pub(in crate::cpu) blend: Option<u32>,
}

impl Shape {
    /// Walks of one tree that test for a leaf at each step.
    pub(in crate::cpu) const PLAIN: Self =
        Self { rows_inside: true, lanes: 1, steps: 0, tested: 0, ending: Ending::AtLeaf, blend: None };

    /// Returns this shape for one row after the other, each through eight trees at a time.
    pub(in crate::cpu) fn by_row(self) -> Self {
        Self { rows_inside: false, lanes: 8, ..self }
    }

    /// Returns this shape for walks of the trees at `positions` that advance together, by the depths of these
    /// trees.
    #[inline(always)]
    pub(in crate::cpu) fn of_trees<N: NodeStore>(self, nodes: &N, positions: &[usize]) -> Self {
        let depths = || positions.iter().map(|p| nodes.depth(*p));
        // If leaves hold, the deepest tree's number of steps suits the other trees, too, and no tree needs
        // more.
        let deepest = || depths().max().unwrap_or(0);
        match self.ending {
            Ending::AtDepth if N::LEAVES_HOLD || positions.len() == 1 => {
                Self { steps: deepest(), ending: Ending::AfterSteps, ..self }
            }
            // No tree is shallower, so this many steps go past no leaf.
            Ending::AtDepth => Self { steps: depths().min().unwrap_or(0), ending: Ending::AtLeaf, ..self },
            Ending::AfterSteps | Ending::AtLeaf if N::LEAVES_HOLD => {
                Self { steps: self.steps.min(deepest()), ..self }
            }
            Ending::AfterSteps | Ending::AtLeaf => self,
        }
    }
}

/// Walks `L` rows through as many trees together, and returns the address of each leaf. `trees[l]` is a root
/// and a constant.
///
/// # Safety
/// Rows are in range and have the forest's columns. Roots and constants are the packed forest's, and walks of
/// `steps` steps stay inside it. `UNIT` is set only if the values of a row follow each other.
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
            // SAFETY: the caller upholds that rows are in range and that walks of `steps` steps stay
            // inside the forest.
            at[l] = unsafe { nodes.step::<T, QUESTIONS, UNIT>(at[l], trees[l].1, rows, row[l]) };
        }
    }
    if shape.ending == Ending::AfterSteps {
        return at;
    }
    let mut tested = shape.tested;
    loop {
        if tested > 0 {
            for at in &mut at {
                // SAFETY: the walk has reached this address, and `PackedForest::verify` bounds every address
                // that walks reach.
                *at = unsafe { nodes.leaf_behind_padding(*at) };
            }
            tested -= 1;
        }
        let mut open = [false; L];
        for l in 0..L {
            // SAFETY: the walk has reached this address, and `PackedForest::verify` bounds every address that
            // walks reach. Leaves end the loop, so no walk goes past one.
            open[l] = unsafe { !nodes.is_leaf(at[l]) };
        }
        if !open.contains(&true) {
            return at;
        }
        for l in 0..L {
            // A walk at its leaf waits for the other walks, whose loads overlap.
            let from = nodes.readable(at[l]);
            // SAFETY: the caller upholds that rows are in range. `from` is the address that the walk
            // has reached, which `PackedForest::verify` bounds, or a readable one instead of a leaf's. The line
            // below discards a step from a leaf that does not hold.
            let next = unsafe { nodes.step::<T, QUESTIONS, UNIT>(from, trees[l].1, rows, row[l]) };
            at[l] = if N::LEAVES_HOLD || open[l] { next } else { at[l] };
        }
    }
}

/// The nodes from which walks of one tree go on: the tree's position, and an address for each row.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct WalkStarts<'a> {
    pub(in crate::cpu) position: usize,
    pub(in crate::cpu) addresses: &'a [u32],
}

/// Takes the walks of one tree on, from an address for each row to the leaves.
///
/// # Safety
/// Rows are in range and have the forest's columns. `from` has an address for each row, of a node of
/// the tree at its position. No node asks a question.
pub(in crate::cpu) unsafe fn walk_on<N: NodeStore, T: Row + Read<N::Compare>>(
    nodes: &N,
    rows: &Rows<'_, T>,
    row: Span,
    from: WalkStarts<'_>,
    found: &mut LeafAddresses,
) {
    /// Number of walks that advance together.
    const L: usize = 4;
    let (_, constant) = nodes.start(from.position);
    for r in (0..row.count).step_by(L) {
        let (mut own, mut trees) = ([0; L], [(0, constant); L]);
        for l in 0..L {
            // Past the last row, the last row's walk fills the group.
            let r = (r + l).min(row.count - 1);
            (own[l], trees[l].0) = (row.at(r), from.addresses[r]);
        }
        // SAFETY: the caller upholds that rows are in range and that each address is that of a node of
        // the tree. `Shape::PLAIN` tests for a leaf before each step, so no walk goes past one.
        let ends = unsafe { walk::<N, T, false, false, L>(nodes, rows, own, trees, Shape::PLAIN) };
        let count = L.min(row.count - r);
        found[r..r + count].copy_from_slice(&ends[..count]);
    }
}

/// Walks every row of `row` through every tree of `tree`: at most [`MOST_ADDRESSES`] walks. The shape says
/// how many advance together.
///
/// # Safety
/// Rows are in range and have the forest's columns. Trees are positions, and the steps of the shape stay
/// inside the nodes. `UNIT` is set only if the values of a row follow each other.
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
    // Rows that walk a tree together reach its leaves in the same order as one by one. This costs nothing,
    // and their loads overlap.
    let together = if shape.rows_inside && shape.lanes == 1 { 8 } else { shape.lanes };
    // SAFETY: the caller upholds that rows are in range, that trees are positions and that the shape's
    // steps stay inside the nodes.
    unsafe {
        match together {
            8.. => lanes::<N, T, QUESTIONS, UNIT, 8>(nodes, rows, row, tree, shape, found),
            4..8 => lanes::<N, T, QUESTIONS, UNIT, 4>(nodes, rows, row, tree, shape, found),
            2..4 => lanes::<N, T, QUESTIONS, UNIT, 2>(nodes, rows, row, tree, shape, found),
            _ => lanes::<N, T, QUESTIONS, UNIT, 1>(nodes, rows, row, tree, shape, found),
        }
    }
}

/// Like [`block`], with `L` walks that advance together.
///
/// # Safety
/// Rows are in range and have the forest's columns. Trees are positions, and the steps of the shape stay
/// inside the nodes. `UNIT` is set only if the values of a row follow each other.
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
                // SAFETY: the caller upholds that rows are in range and that the shape's steps stay
                // inside the nodes.
                let ends = unsafe { walk::<N, T, QUESTIONS, UNIT, L>(nodes, rows, group, [start; L], shape) };
                found[r..r + L].copy_from_slice(&ends);
                r += L;
            }
            for (r, found) in found.iter_mut().enumerate().skip(r) {
                // SAFETY: the caller upholds that rows are in range and that the shape's steps stay
                // inside the nodes.
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
                // SAFETY: the caller upholds that rows are in range and that the shape's steps stay
                // inside the nodes.
                let ends = unsafe { walk::<N, T, QUESTIONS, UNIT, L>(nodes, rows, [row; L], starts, shape) };
                found[t..t + L].copy_from_slice(&ends);
                t += L;
            }
            for (t, found) in found.iter_mut().enumerate().skip(t) {
                let position = tree.at(t);
                let shape = shape.of_trees(nodes, &[position]);
                let start = [nodes.start(position)];
                // SAFETY: the caller upholds that rows are in range and that the shape's steps stay
                // inside the nodes.
                [*found] = unsafe { walk::<N, T, QUESTIONS, UNIT, 1>(nodes, rows, [row], start, shape) };
            }
        }
    }
}
