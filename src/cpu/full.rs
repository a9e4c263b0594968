//! A row through full trees, four at a time: what is left for a row that fits no registers.
//!
//! A step of a walk is four instructions where a tree is full and its nodes are numbered from 1 on, the children of `n` being
//! `2 n` and `2 n + 1`: the node's column, the row's value there, a compare that leaves the answer in the carry flag, and an
//! addition of the number to itself with carry. Compilers make more of it, so it is written out; four trees side by side keep the
//! loads of each other's steps busy. A missing value sets the carry, too, and goes where values below the threshold go: rows
//! that have one are walked here only where no split sends it the other way.

use super::{
    isa::{Isa, isa},
    rows::Rows,
    sink::Sink,
    walk::Span,
};
use crate::forest::{Forest, Node, Predicate, Side, least_f32_not_below};

/// Bytes of all trees, at most: what second caches hold beside rows.
const MOST_BYTES: usize = 1 << 20;
/// Levels of a tree, at most.
const MOST_LEVELS: u32 = 12;
/// Cycles of a step of a walk, about, where four go side by side. Measured: see the book's results.
const STEP: f64 = 2.2;

/// A split of a full tree.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Split {
    /// Values below it go to the child of odd number, and so does a missing one. NaN sends everything there.
    pub(super) threshold: f32,
    /// Where the column begins in a row, in bytes.
    pub(super) column: u32,
}

/// A tree's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    /// The place before the root.
    splits: u32,
    /// Its first exit's.
    exits: u32,
    levels: u32,
}

/// The trees of a forest, by position.
#[derive(Clone, Debug)]
pub(super) struct Full {
    splits: Vec<Split>,
    /// Slots, from the last value to the first.
    exits: Vec<u32>,
    trees: Vec<Tree>,
    /// Whether some missing value goes where values not below the threshold go.
    missing_right: bool,
    columns: usize,
    /// Whether the machine has the instructions of [`steps_avx`].
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    avx: bool,
}

impl Full {
    /// `None` for a forest that asks more than thresholds, or is too large once it is full.
    pub(super) fn new(forest: &Forest, order: &[u32]) -> Option<Self> {
        let columns = forest.features.len();
        let mut full = Self {
            splits: Vec::new(),
            exits: Vec::new(),
            trees: Vec::with_capacity(order.len()),
            missing_right: false,
            columns,
            avx: isa() >= Isa::Avx2,
        };
        let depths: Vec<u32> = order.iter().map(|t| forest.trees[*t as usize].depth()).collect();
        for (position, t) in order.iter().enumerate() {
            let tree = &forest.trees[*t as usize];
            // Those that go side by side are equally deep, so that none has steps of its own.
            let beside = &depths[position / TREES * TREES..];
            let levels = beside.iter().take(TREES).copied().max().unwrap_or(0);
            let room = size_of_val(&full.splits[..]) + size_of_val(&full.exits[..]);
            if levels > MOST_LEVELS || room + (12 << levels) > MOST_BYTES {
                return None;
            }
            let own = Tree { splits: full.splits.len() as u32, exits: full.exits.len() as u32, levels };
            full.trees.push(own);
            full.fill(&tree.nodes, levels)?;
        }
        (columns > 0).then_some(full)
    }

    /// Adds a tree, level by level.
    fn fill(&mut self, nodes: &[Node], levels: u32) -> Option<()> {
        const THROUGH: Split = Split { threshold: f32::NAN, column: 0 };
        // No walk comes to number 0.
        self.splits.push(THROUGH);
        let mut row = vec![0u32];
        for _ in 0..levels {
            let mut below = Vec::with_capacity(2 * row.len());
            for node in row {
                let (split, children) = match nodes[node as usize] {
                    Node::Leaf { .. } => (THROUGH, [node; 2]),
                    Node::Split { predicate: Predicate::Always, missing: Side::Left, left, .. } => {
                        (THROUGH, [left; 2])
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
                        (Split { threshold, column }, [right, left])
                    }
                    Node::Split { .. } => return None,
                };
                self.splits.push(split);
                below.extend(children);
            }
            row = below;
        }
        let slots: Option<Vec<u32>> = row.iter().map(|node| nodes[*node as usize].slot()).collect();
        self.exits.extend(slots?);
        Some(())
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.splits[..]) + size_of_val(&self.exits[..]) + size_of_val(&self.trees[..])
    }

    /// Cycles of a row, about.
    pub(super) fn cycles(&self) -> f64 {
        self.trees.iter().map(|tree| STEP * f64::from(tree.levels)).sum()
    }

    /// The values of a row, where the row is one that can be walked here.
    pub(super) fn row<'a>(&self, rows: &Rows<'a>, row: usize) -> Option<&'a [f32]> {
        let values = rows.from(row).get(..self.columns).filter(|_| rows.is_unit())?;
        (!self.missing_right || !any_missing(values)).then_some(values)
    }

    /// Walks a row's [values](Full::row) through every tree of `tree`.
    pub(super) fn block<S: Sink>(&self, values: &[f32], row: usize, tree: Span, sink: S) {
        let mut sum = S::Value::default();
        for t in (0..tree.count).step_by(TREES) {
            // What stands beside the last trees is the last again.
            let mut positions = [0; TREES];
            for (k, position) in positions.iter_mut().enumerate() {
                *position = tree.at((t + k).min(tree.count - 1));
            }
            let slots = self.walk(values, positions);
            for (slot, position) in slots.iter().zip(positions).take(tree.count - t) {
                match S::ONE_VALUE {
                    true => sum += sink.slot_value(*slot as usize),
                    false => sink.slot(row, position, *slot as usize),
                }
            }
        }
        if S::ONE_VALUE {
            sink.add(row, sum);
        }
    }

    /// The slots that a row comes to in these trees.
    #[inline]
    fn walk(&self, row: &[f32], positions: [usize; TREES]) -> [u32; TREES] {
        assert!(row.len() >= self.columns);
        let mut trees = [Tree { splits: 0, exits: 0, levels: 0 }; TREES];
        let mut splits = [std::ptr::null::<Split>(); TREES];
        let mut together = u32::MAX;
        for k in 0..TREES {
            trees[k] = self.trees[positions[k]];
            splits[k] = self.splits[trees[k].splits as usize..][..1 << trees[k].levels].as_ptr();
            together = together.min(trees[k].levels);
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let mut numbers = match self.avx {
            // SAFETY: the machine has AVX; otherwise as below.
            true => unsafe { steps_avx(row.as_ptr(), splits, together) },
            // SAFETY: as below.
            false => unsafe { steps(row.as_ptr(), splits, together) },
        };
        // SAFETY: so many levels have as many splits, and a number that a step begins with is below that; a split's column is one
        // of the row's, whose length was just checked.
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let mut numbers = unsafe { steps(row.as_ptr(), splits, together) };
        let mut slots = [0; TREES];
        for k in 0..TREES {
            let tree = trees[k];
            for _ in together..tree.levels {
                let split = self.splits[tree.splits as usize + numbers[k]];
                let x = row[split.column as usize / size_of::<f32>()];
                numbers[k] = 2 * numbers[k] + usize::from(!at_least(x, split.threshold));
            }
            slots[k] = self.exits[tree.exits as usize + numbers[k] - (1 << tree.levels)];
        }
        slots
    }
}

/// Trees side by side.
const TREES: usize = 4;

/// Whether a value goes to the even child: NaN on either side goes on like what is below.
#[inline(always)]
fn at_least(x: f32, threshold: f32) -> bool {
    x >= threshold
}

/// Whether some value is NaN.
fn any_missing(values: &[f32]) -> bool {
    let missing = |values: &[f32]| values.iter().fold(false, |any, value| any | value.is_nan());
    let (chunks, rest) = values.as_chunks::<64>();
    chunks.iter().any(|chunk| missing(chunk)) || missing(rest)
}

/// The numbers that a row comes to after so many steps from the roots of these trees.
///
/// # Safety
/// `2^count` splits stand at each, and their columns are the row's.
unsafe fn steps(row: *const f32, trees: [*const Split; TREES], count: u32) -> [usize; TREES] {
    let mut numbers = [1usize; TREES];
    for _ in 0..count {
        for (number, splits) in numbers.iter_mut().zip(trees) {
            // SAFETY: a number before the last step is below `2^count`; otherwise as promised to this function.
            let (x, threshold) = unsafe {
                let split = &*splits.add(*number);
                (*row.byte_add(split.column as usize), split.threshold)
            };
            *number = 2 * *number + usize::from(!at_least(x, threshold));
        }
    }
    numbers
}

/// The same where the machine has AVX: an older load would wait for what its register held before.
///
/// # Safety
/// AVX; as for [`steps`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn steps_avx(row: *const f32, trees: [*const Split; TREES], count: u32) -> [usize; TREES] {
    let mut numbers = [1usize; TREES];
    if count == 0 {
        return numbers;
    }
    let [a, b, c, d] = &mut numbers;
    // SAFETY: it reads splits and values that are there, as promised to this function, and writes registers.
    unsafe {
        std::arch::asm!(
            "2:",
            "mov {x:e}, dword ptr [{ta} + 8*{a} + 4]",
            "mov {y:e}, dword ptr [{tb} + 8*{b} + 4]",
            "vmovss {p}, dword ptr [{row} + {x}]",
            "vmovss {q}, dword ptr [{row} + {y}]",
            "mov {x:e}, dword ptr [{tc} + 8*{c} + 4]",
            "mov {y:e}, dword ptr [{td} + 8*{d} + 4]",
            "vmovss {r}, dword ptr [{row} + {x}]",
            "vmovss {s}, dword ptr [{row} + {y}]",
            "vucomiss {p}, dword ptr [{ta} + 8*{a}]",
            "adc {a}, {a}",
            "vucomiss {q}, dword ptr [{tb} + 8*{b}]",
            "adc {b}, {b}",
            "vucomiss {r}, dword ptr [{tc} + 8*{c}]",
            "adc {c}, {c}",
            "vucomiss {s}, dword ptr [{td} + 8*{d}]",
            "adc {d}, {d}",
            "dec {count:e}",
            "jnz 2b",
            row = in(reg) row,
            ta = in(reg) trees[0],
            tb = in(reg) trees[1],
            tc = in(reg) trees[2],
            td = in(reg) trees[3],
            a = inout(reg) *a,
            b = inout(reg) *b,
            c = inout(reg) *c,
            d = inout(reg) *d,
            x = out(reg) _,
            y = out(reg) _,
            p = out(xmm_reg) _,
            q = out(xmm_reg) _,
            r = out(xmm_reg) _,
            s = out(xmm_reg) _,
            count = inout(reg) count => _,
            options(nostack, readonly),
        );
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::{CompareType, reference};

    /// Trees of several depths with leaves at any, missing values either way, and a column that nothing reads.
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

    #[test]
    fn rows_come_to_the_reference_s_leaves() {
        for missing in [[Side::Left; 2], [Side::Left, Side::Right], [Side::Right; 2]] {
            let forest = forest(missing);
            let order: Vec<u32> = (0..forest.trees.len() as u32).rev().collect();
            let full = Full::new(&forest, &order).expect("thresholds");
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
                let slots = reference::slots(&forest, &row);
                let portable = Full { avx: false, ..full.clone() };
                for t in 0..order.len() {
                    let positions = std::array::from_fn(|k| (t + k) % order.len());
                    let expected = positions.map(|p: usize| slots[order[p] as usize]);
                    assert_eq!(full.walk(values, positions), expected, "row {r}: {row:?}");
                    assert_eq!(portable.walk(values, positions), expected, "row {r}: {row:?}");
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
        assert!(Full::new(&chain, &[0]).is_none(), "{} levels", MOST_LEVELS + 1);
        let mut equal = Forest::builder(1, 1);
        let mut tree = equal.tree(0);
        tree.split(0, Predicate::Equal { value: 1.0.into() }, Side::Left, 1, 2);
        tree.leaf(1, &[0.0]);
        tree.leaf(2, &[1.0]);
        assert!(Full::new(&equal.build().expect("a forest"), &[0]).is_none());
    }
}
