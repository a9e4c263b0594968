//! Walks one row through full trees, four trees at a time. It serves a few rows that do not fit
//! registers.
//!
//! A full tree's nodes are numbered from 1 on, and the children of node `n` are `2 n` and `2 n + 1`. A
//! step of a walk is then four instructions: load the node's column, load the row's value there,
//! compare it with the threshold, which puts the answer into the carry flag, and add the number to
//! itself with carry. Compilers emit more instructions, so the step is written in assembly. Four trees
//! advance side by side, so that each one's loads overlap with the steps of the others.
//!
//! A missing value sets the carry flag, too, and so takes the side of values below the threshold. A row
//! with a missing value is walked here only if no split of the forest sends missing values to the other
//! side.

use super::{
    Block, BlockEngine, EngineRequest, Source, Trees, hand_over,
    walk::{MOST_ADDRESSES, Span},
    walks,
};
#[cfg(target_arch = "x86_64")]
use crate::cpu::arch::x86::avx2::full as avx2;
use crate::cpu::{
    arch::portable::full as portable,
    engines::Engine,
    isa::{Isa, isa},
    rows::{Row, Rows},
    sink::Sink,
};
use crate::forest::{Forest, Node, Predicate, Side, least_f32_not_below};
use crate::{
    arrays::{self, MapInline},
    cost::Machine,
};

/// Maximum number of levels of a tree.
const MOST_LEVELS: u32 = 12;

/// A split of a full tree.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(in crate::cpu) struct FullSplit {
    /// Values below it, and missing values, go to the child with the odd number. A threshold of NaN
    /// sends every value there.
    pub(in crate::cpu) threshold: f32,
    /// Byte offset of the column in a row.
    pub(in crate::cpu) column: u32,
}

/// Indices at which a tree's splits, exits and leaf slots begin.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Tree {
    /// Index in `FullTrees::splits` of the tree's unused node 0. The root is the next one.
    splits: u32,
    /// Index in `FullTrees::exits` of the tree's first exit.
    exits: u32,
    levels: u32,
    /// The tree's least leaf slot, which is added to an exit.
    slots: u32,
}

/// The trees of a forest, filled up to full trees, by position.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct FullTrees {
    splits: Vec<FullSplit>,
    /// The leaf at each exit, from the rightmost exit of a tree to the leftmost: its leaf slot minus the
    /// tree's least leaf slot.
    exits: Vec<u16>,
    trees: Vec<Tree>,
    /// Whether some split sends missing values right, where values not below the threshold go.
    missing_right: bool,
    columns: usize,
    /// Estimated seconds of one row through all trees.
    seconds: f64,
    /// Whether the machine has AVX2.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    avx: bool,
}

impl BlockEngine for FullTrees {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        if wanted.has_few_rows(false) { Self::new(wanted.forest, wanted.order) } else { None }
    }

    fn serves<T: Row>(&self, _: &Trees<'_>, source: Source<'_, '_, T>, _: &Block) -> bool {
        source.singles().is_some_and(Rows::is_unit)
    }

    unsafe fn run<T: Row, S: Sink>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: Block,
        rest: Engine,
        sink: S,
    ) {
        let Some(rows) = source.singles() else {
            unreachable!("full trees serve rows of `f32`, as they were handed over");
        };
        let found = &mut [0; MOST_ADDRESSES];
        for r in 0..block.row.count {
            match self.row(rows, block.row.at(r)) {
                Some(values) => self.block(values, block.row.at(r), block.tree, sink),
                None => {
                    let (row, shape) = (block.row.one(r), block.shape.by_row());
                    let block = Block { row, shape, ..block };
                    // SAFETY: the caller upholds that the spans lie inside rows and trees and that rows
                    // have the forest's columns.
                    hand_over(block, 0, found, sink.by(rest), &mut |row, tree, found| unsafe {
                        walks::portable(trees, rows, Block { row, tree, shape }, found);
                    });
                }
            }
        }
    }

    fn seconds(&self, rows: usize) -> f64 {
        self.seconds * rows as f64
    }

    fn text(&self) -> String {
        "trees filled up, four side by side".into()
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.splits[..]) + size_of_val(&self.exits[..]) + size_of_val(&self.trees[..])
    }
}

impl FullTrees {
    /// Fills up the trees of a forest. Returns `None` for a forest that has predicates other than thresholds,
    /// that has no columns, or whose full trees are too large.
    fn new(forest: &Forest, order: &[u32]) -> Option<Self> {
        let columns = forest.features.len();
        let mut full = Self {
            splits: Vec::new(),
            exits: Vec::new(),
            trees: Vec::with_capacity(order.len()),
            missing_right: false,
            columns,
            seconds: 0.0,
            avx: isa() >= Isa::Avx2,
        };
        let depths: Vec<u32> = order.iter().map(|t| forest.trees[*t as usize].depth()).collect();
        for (position, t) in order.iter().enumerate() {
            let tree = &forest.trees[*t as usize];
            // Trees that are walked side by side get the same number of levels, so they all take the same
            // number of steps.
            let beside = &depths[position / SIDE_BY_SIDE * SIDE_BY_SIDE..];
            let levels = beside.iter().take(SIDE_BY_SIDE).copied().max().unwrap_or(0);
            let room = size_of_val(&full.splits[..]) + size_of_val(&full.exits[..]);
            if levels > MOST_LEVELS || room + (10 << levels) > Machine::here().hardware.cache {
                return None;
            }
            let slots = tree.nodes.iter().filter_map(Node::slot).min()?;
            let (splits, exits) = (full.splits.len() as u32, full.exits.len() as u32);
            full.trees.push(Tree { splits, exits, levels, slots });
            full.fill(&tree.nodes, levels, slots)?;
        }
        let levels: f64 = full.trees.iter().map(|tree| f64::from(tree.levels)).sum();
        full.seconds = Machine::here().walk.full * levels;
        (columns > 0).then_some(full)
    }

    /// Appends a tree's splits, level by level, and its exits. Returns `None` if a split's predicate is no
    /// threshold.
    fn fill(&mut self, nodes: &[Node], levels: u32, slots: u32) -> Option<()> {
        const ALL_LEFT: FullSplit = FullSplit { threshold: f32::NAN, column: 0 };
        // Numbers start at 1, so no walk reads the split with number 0.
        self.splits.push(ALL_LEFT);
        let mut row = vec![0u32];
        for _ in 0..levels {
            let mut below = Vec::with_capacity(2 * row.len());
            for node in row {
                let (split, children) = match nodes[node as usize] {
                    Node::Leaf { .. } => (ALL_LEFT, [node; 2]),
                    Node::Split { predicate: Predicate::Always, missing: Side::Left, left, .. } => {
                        (ALL_LEFT, [left; 2])
                    }
                    Node::Split {
                        predicate: Predicate::Less { threshold },
                        feature,
                        missing,
                        left,
                        right,
                    } => {
                        self.missing_right |= missing == Side::Right;
                        let threshold = least_f32_not_below(threshold.0);
                        let column = feature.checked_mul(size_of::<f32>() as u32)?;
                        (FullSplit { threshold, column }, [right, left])
                    }
                    Node::Split { .. } => return None,
                };
                self.splits.push(split);
                below.extend(children);
            }
            row = below;
        }
        let exit = |node: &u32| u16::try_from(nodes[*node as usize].slot()? - slots).ok();
        self.exits.extend(row.iter().map(exit).collect::<Option<Vec<u16>>>()?);
        Some(())
    }

    /// Returns the values of a row, or `None` if full trees can't walk this row.
    fn row<'a>(&self, rows: &Rows<'a>, row: usize) -> Option<&'a [f32]> {
        let values = rows.from(row).get(..self.columns).filter(|_| rows.is_unit())?;
        if !self.missing_right {
            return Some(values);
        }
        #[cfg(target_arch = "x86_64")]
        if self.avx {
            // SAFETY: `avx` says that the machine has AVX2.
            let missing = unsafe { avx2::any_missing(values) };
            return (!missing).then_some(values);
        }
        (!portable::any_missing(values)).then_some(values)
    }

    /// Walks a row with these [values](FullTrees::row) through the trees at the positions `tree`.
    fn block<S: Sink>(&self, values: &[f32], row: usize, tree: Span, sink: S) {
        assert!(values.len() >= self.columns && tree.end() <= self.trees.len());
        let mut sum = S::Value::default();
        let mut take = |position: usize, slot: u32| match S::TAKES_ROW_SUMS {
            true => sum += sink.slot_value(slot as usize),
            false => sink.slot(row, position, slot as usize),
        };
        // Whole groups of neighbouring trees: `new` gives the trees of such a group the same number of
        // levels.
        let whole = if tree.stride == 1 && tree.start.is_multiple_of(SIDE_BY_SIDE) {
            tree.count / SIDE_BY_SIDE * SIDE_BY_SIDE
        } else {
            0
        };
        let mut position = tree.start;
        for run in self.trees[tree.start..][..whole].chunk_by(|a, b| a.levels == b.levels) {
            // SAFETY: the assertion above checks that the row has every column and that the trees are
            // this forest's. Each run consists of whole groups, because `new` gives the trees of a
            // group the same number of levels.
            unsafe {
                self.equally_deep(values, run, |slot| {
                    take(position, slot);
                    position += 1;
                });
            }
        }
        for t in (whole..tree.count).step_by(SIDE_BY_SIDE) {
            // Past the last tree, the last tree fills the group.
            let own: [usize; SIDE_BY_SIDE] = arrays::from_fn(|k| tree.at((t + k).min(tree.count - 1)));
            // SAFETY: the assertion above checks that the row has every column and that the positions
            // are this forest's.
            let slots = unsafe { self.walk(values, own.map_inline(|position| self.trees[position])) };
            for (position, slot) in own.into_iter().zip(slots).take(tree.count - t) {
                take(position, slot);
            }
        }
        if S::TAKES_ROW_SUMS {
            sink.add(row, sum);
        }
    }

    /// Calls `take` with the leaf slot that a row reaches in each tree. The trees have the same number
    /// of levels, and they are a whole number of groups.
    ///
    /// # Safety
    /// `row` has the forest's columns, and `trees` are trees of this forest.
    #[inline(always)]
    unsafe fn equally_deep(&self, row: &[f32], trees: &[Tree], mut take: impl FnMut(u32)) {
        let groups = trees.as_chunks::<SIDE_BY_SIDE>().0;
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.avx {
            macro_rules! levels {
                ($($n:literal)*) => {
                    match trees.first().map_or(0, |tree| tree.levels) {
                        $($n => {
                            for group in groups {
                                let splits = self.splits_of(group);
                                // SAFETY: `avx` says that the machine has AVX2. The caller upholds that
                                // the row has the forest's columns and that the trees are this
                                // forest's, so `2^$n` splits stand at each.
                                let numbers = unsafe { avx2::steps::<$n>(row.as_ptr(), splits) };
                                // SAFETY: `$n` steps from number 1 lead to at least `2^$n` and to less
                                // than twice that.
                                (0..SIDE_BY_SIDE).for_each(|k| take(unsafe { self.slot(&group[k], numbers[k]) }));
                            }
                            return;
                        })*
                        _ => {}
                    }
                };
            }
            levels!(3 4 5 6 7 8 9 10);
        }
        for group in groups {
            // SAFETY: the caller upholds that the row has the forest's columns and that the trees are
            // this forest's.
            unsafe { self.walk(row, *group) }.into_iter().for_each(&mut take);
        }
    }

    /// Returns pointers to the splits of each tree. The first of them is the unused split with number 0.
    #[inline(always)]
    fn splits_of(&self, trees: &[Tree; SIDE_BY_SIDE]) -> [*const FullSplit; SIDE_BY_SIDE] {
        let mut splits = [std::ptr::null(); SIDE_BY_SIDE];
        for (splits, tree) in splits.iter_mut().zip(trees) {
            debug_assert!((tree.splits as usize) < self.splits.len());
            // SAFETY: the trees are this forest's, and `new` has put their splits at `tree.splits`.
            *splits = unsafe { self.splits.as_ptr().add(tree.splits as usize) };
        }
        splits
    }

    /// Returns the leaf slot at the exit with this number.
    ///
    /// # Safety
    /// `tree` is a tree of this forest. `number` is the node number that a walk has reached after as many
    /// steps as the tree has levels: at least `2^levels` and below twice that.
    #[inline(always)]
    unsafe fn slot(&self, tree: &Tree, number: usize) -> u32 {
        let exit = tree.exits as usize + number - (1 << tree.levels);
        debug_assert!(exit < self.exits.len());
        // SAFETY: a tree has `2^levels` exits, and the caller upholds that `number` is from `2^levels`
        // up to twice that.
        tree.slots + u32::from(unsafe { *self.exits.get_unchecked(exit) })
    }

    /// Returns the leaf slots that a row reaches in these trees.
    ///
    /// # Safety
    /// `row` has the forest's columns, and `trees` are trees of this forest.
    #[inline]
    unsafe fn walk(&self, row: &[f32], trees: [Tree; SIDE_BY_SIDE]) -> [u32; SIDE_BY_SIDE] {
        let together = trees.iter().fold(u32::MAX, |least, tree| least.min(tree.levels));
        // SAFETY: each tree has at least `together` levels, so at least `2^together` splits stand where
        // it begins. The caller upholds that the row has the forest's columns, and `fill` takes columns
        // from the forest alone.
        let mut numbers = unsafe { steps(row.as_ptr(), self.splits_of(&trees), together) };
        let mut slots = [0; SIDE_BY_SIDE];
        for k in 0..SIDE_BY_SIDE {
            let tree = trees[k];
            for _ in together..tree.levels {
                let split = self.splits[tree.splits as usize + numbers[k]];
                let x = row[split.column as usize / size_of::<f32>()];
                numbers[k] = 2 * numbers[k] + usize::from(!at_least(x, split.threshold));
            }
            // SAFETY: `numbers[k]` is the node number after as many steps as the tree has levels.
            slots[k] = unsafe { self.slot(&tree, numbers[k]) };
        }
        slots
    }
}

/// Trees that advance side by side.
pub(in crate::cpu) const SIDE_BY_SIDE: usize = 4;

/// Returns whether a value goes to the child with the even number. It does not if the value or the
/// threshold is NaN.
#[inline(always)]
fn at_least(x: f32, threshold: f32) -> bool {
    x >= threshold
}

/// Takes `count` steps from the root of each tree and returns the number that the row has reached in
/// each.
///
/// # Safety
/// Each of `trees` points to `2^count` splits, the unused number 0 among them. Their columns lie inside
/// the row at `row`.
unsafe fn steps(
    row: *const f32,
    trees: [*const FullSplit; SIDE_BY_SIDE],
    count: u32,
) -> [usize; SIDE_BY_SIDE] {
    let mut numbers = [1usize; SIDE_BY_SIDE];
    for _ in 0..count {
        for (number, splits) in numbers.iter_mut().zip(trees) {
            // SAFETY: before the last step a number is below `2^count`. The caller upholds that as many
            // splits stand at each tree and that their columns lie inside the row.
            let (x, threshold) = unsafe {
                let split = &*splits.add(*number);
                (*row.byte_add(split.column as usize), split.threshold)
            };
            *number = 2 * *number + usize::from(!at_least(x, threshold));
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::{CompareType, reference};

    /// Returns trees of several depths with leaves at any depth, missing values on either side, and a
    /// column that no split reads.
    fn forest(missing: [Side; 2]) -> Forest {
        let mut forest = Forest::builder(6, 1).base_score([0.0]);
        for levels in [0u32, 3, 5, 5, 6, 6, 6, 1, 4] {
            let mut tree = forest.tree(0);
            let (mut open, mut next, mut number) = (std::collections::VecDeque::from([0u32]), 1u32, 0u32);
            while let Some(depth) = open.pop_front() {
                if depth == levels || number % 11 == 10 {
                    tree.leaf(number, &[f64::from(number)]);
                } else {
                    let predicate = match number % 9 {
                        8 => Predicate::Always,
                        n => CompareType::F32.less(f64::from(n) - 4.0),
                    };
                    let side = if number % 9 == 8 { Side::Left } else { missing[number as usize % 2] };
                    tree.split(number * 3 % 5, predicate, side, next, next + 1);
                    next += 2;
                    open.extend([depth + 1; 2]);
                }
                number += 1;
            }
        }
        forest.build().expect("a forest")
    }

    /// Records positions and leaf slots in the order in which they come.
    #[derive(Clone, Copy)]
    struct Recorder<'a>(&'a std::cell::RefCell<Vec<(usize, usize)>>);

    impl Sink for Recorder<'_> {
        type Value = f32;
        const TAKES_ROW_SUMS: bool = false;
        fn leaf(&self, _row: usize, _position: usize, _address: u32) {}
        fn slot(&self, row: usize, position: usize, slot: usize) {
            assert_eq!(row, 5);
            self.0.borrow_mut().push((position, slot));
        }
        fn value(&self, _address: u32) -> f32 {
            0.0
        }
        fn add(&self, _row: usize, _sum: f32) {}
    }

    #[test]
    fn rows_come_to_the_reference_s_leaves() {
        for missing in [[Side::Left; 2], [Side::Left, Side::Right], [Side::Right; 2]] {
            let forest = forest(missing);
            let order: Vec<u32> = (0..forest.trees.len() as u32).rev().collect();
            let full = FullTrees::new(&forest, &order).expect("thresholds");
            let (mut walked, mut left_out) = (0, 0);
            for r in 0..300u32 {
                let value = |c: u32| match (r * 7 + c * 5) % 31 {
                    30 => f32::NAN,
                    29 => f32::INFINITY,
                    28 => -0.0,
                    n => (n as f32 - 14.0) / 2.0,
                };
                let row: Vec<f32> = (0..6).map(value).collect();
                let rows = Rows::new(&row, 6).expect("a row");
                let Some(values) = full.row(&rows, 0) else {
                    assert!(missing.contains(&Side::Right) && row.iter().any(|x| x.is_nan()));
                    left_out += 1;
                    continue;
                };
                walked += 1;
                let slots = reference::leaf_slots(&forest, &row);
                for full in [&full, &FullTrees { avx: false, ..full.clone() }] {
                    for (start, stride, count) in [
                        (0, 1, 9),
                        (0, 1, 4),
                        (4, 1, 5),
                        (1, 1, 7),
                        (1, 3, 2),
                        (8, 1, 1),
                        (2, 2, 4),
                        (5, 1, 4),
                    ] {
                        let tree = Span { start, stride, count };
                        let found = std::cell::RefCell::new(Vec::new());
                        full.block(values, 5, tree, Recorder(&found));
                        let expected: Vec<_> = (0..count)
                            .map(|t| (tree.at(t), slots[order[tree.at(t)] as usize] as usize))
                            .collect();
                        assert_eq!(found.into_inner(), expected, "row {r}: {row:?}");
                    }
                }
            }
            assert!(walked > 100 && (left_out > 0) == missing.contains(&Side::Right));
        }
    }

    #[test]
    fn what_is_too_large_or_asks_more_is_left_alone() {
        let mut chain = Forest::builder(1, 1);
        let mut tree = chain.tree(0);
        for n in 0..13 {
            tree.split(0, CompareType::F32.less(f64::from(n)), Side::Left, 2 * n + 1, 2 * n + 2);
            tree.leaf(2 * n + 1, &[0.0]);
        }
        tree.leaf(26, &[1.0]);
        let chain = chain.build().expect("a chain");
        assert!(FullTrees::new(&chain, &[0]).is_none(), "{} levels", MOST_LEVELS + 1);
        let mut equal = Forest::builder(1, 1);
        let mut tree = equal.tree(0);
        tree.split(0, Predicate::Equal { value: 1.0.into() }, Side::Left, 1, 2);
        tree.leaf(1, &[0.0]);
        tree.leaf(2, &[1.0]);
        assert!(FullTrees::new(&equal.build().expect("a forest"), &[0]).is_none());
    }
}
