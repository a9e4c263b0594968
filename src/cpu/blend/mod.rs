//! Every split of a tree for 64 rows at once: a compare a split, and of what its children gave the one that it chooses.
//!
//! Ranks are bytes, so that a register of 64 bytes holds a column of 64 rows. A tree of at most 256 leaves numbers them
//! from left to right; a split blends the numbers that its children found, from the leaves up, and what is left at the
//! root is each row's leaf. No step waits for a load of a row's own, and the work is the splits there are: a full tree of
//! depth 8 takes 255 compares for 64 rows, of which a walk would take 512.
//!
//! A tree whose levels ask one question each (CatBoost's) takes one compare a level, a bit of the leaf's number.
//!
//! Splits are grouped, so that most of what they find stays in registers: the last one to three levels above leaves, and
//! above those three levels at a time. Groups need not be full: an empty place is a split of no consequence, and costs less
//! than a group of its own. Which groups a tree is made of is the least of a sum over the tree, found from its leaves up.

mod build;
mod portable;
#[cfg(test)]
mod tests;

use std::cell::RefCell;

#[cfg(target_arch = "x86_64")]
use super::isa::{Isa, isa};
use crate::{forest::Forest, layout::Packed, schedule::blend_cycles};

/// Rows that are evaluated together, and bytes of a column of them.
pub(super) const BLOCK: usize = 64;
/// Fewer rows than this are walked.
pub(super) const FEW_ROWS: usize = 16;
/// Leaves of a tree, at most: a leaf's number is a byte.
const MOST_LEAVES: usize = 256;

/// A split: the column's place in a block of ranks, in bytes, and its threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Split {
    pub(super) column: u32,
    /// Ranks below each of its bytes, which are the same, go left: four are spread over a register as they are loaded, one
    /// takes an instruction more.
    pub(super) threshold: u32,
}

/// The bit of ranks and thresholds that is turned where a machine compares bytes as signed numbers.
pub(super) const TURNED: u8 = 0x80;

impl Split {
    /// Ranks below `threshold` go left.
    fn new(column: u32, threshold: u8) -> Self {
        Self { column, threshold: u32::from_ne_bytes([threshold; 4]) }
    }
}

/// Full levels of splits above leaves numbered one after the other, level by level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bottom<const SPLITS: usize> {
    pub(super) splits: [Split; SPLITS],
    /// The leftmost leaf.
    pub(super) first: u8,
    /// Where the found numbers go, in blocks of the values.
    pub(super) out: u16,
}

/// Some splits above children that are leaves or were found before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<const SPLITS: usize, const CHILDREN: usize> {
    /// Level by level.
    pub(super) splits: [Split; SPLITS],
    /// Blocks of the values, from left to right.
    pub(super) children: [u16; CHILDREN],
    /// Where the found numbers go.
    pub(super) out: u16,
}

/// A tree's parts, in the order in which they are evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tree {
    pub(super) bottoms: [(u32, u32); 3],
    pub(super) sevens: (u32, u32),
    pub(super) threes: (u32, u32),
    pub(super) ones: (u32, u32),
    /// Of a tree whose levels ask one question each: those, from the last up, and nothing else.
    pub(super) levels: (u32, u32),
    /// The block that holds the leaf of every row in the end.
    pub(super) root: u16,
    /// First exit in [`Blend::exits`], and how many.
    exits: (u32, u32),
    /// Whether some exits are splits from which walks go on.
    cut: bool,
    /// First value in [`Blend::values`].
    values: u32,
}

/// The trees of a forest on ranks of a byte, by position.
#[derive(Clone, Debug)]
pub(super) struct Blend {
    trees: Vec<Option<Tree>>,
    /// Of one to three levels.
    pub(super) bottoms: (Vec<Bottom<1>>, Vec<Bottom<3>>, Vec<Bottom<7>>),
    pub(super) sevens: Vec<Group<7, 8>>,
    pub(super) threes: Vec<Group<3, 4>>,
    pub(super) ones: Vec<Group<1, 2>>,
    /// Splits of trees that have one a level.
    pub(super) levels: Vec<Split>,
    /// The exits of all trees, from left to right: slots of leaves, or addresses where the tree is cut.
    exits: Vec<u32>,
    /// Their values, where leaves are single values: each tree's padded to a power of two and at least 16.
    values: Vec<f32>,
    /// Blocks that values take: a constant for each leaf number, and what groups find.
    blocks: usize,
    /// Bytes of a block of ranks.
    columns_end: usize,
    /// Whether thresholds are [`TURNED`], and ranks have to be.
    turned: bool,
}

/// A tree's part of all trees' groups.
pub(super) fn of<T>(all: &[T], (from, to): (u32, u32)) -> &[T] {
    &all[from as usize..to as usize]
}

/// What two blocks of rows are evaluated in, one after the other: a constant for each leaf number, then what groups find.
#[derive(Debug, Default)]
pub(super) struct Values {
    blocks: [Vec<[u8; BLOCK]>; 2],
}

/// A tree's leaves, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaves<'a> {
    /// Their slots.
    pub(super) slots: &'a [u32],
    /// The forest's own values, padded to a power of two.
    pub(super) values: &'a [f32],
}

/// What the numbers that a tree's groups end with stand for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exits<'a> {
    Leaves(Leaves<'a>),
    /// From which walks go on.
    Addresses(&'a [u32]),
}

/// Room for the values of a tree's leaves.
pub(super) type Room = [f32; MOST_LEAVES];

/// Lends `f` room for what a forest's groups find, which the thread keeps.
pub(super) fn with_values(blend: &Blend, f: impl FnOnce(&mut Values)) {
    thread_local!(static VALUES: RefCell<Values> = const { RefCell::new(Values { blocks: [Vec::new(), Vec::new()] }) });
    let mut values = VALUES.with(RefCell::take);
    blend.prepare(&mut values);
    f(&mut values);
    VALUES.with(|v| v.replace(values));
}

impl<'r> Leaves<'r> {
    /// Other values than the forest's own, of all leaves by slot.
    pub(super) fn filled(&self, values: &[f32], room: &'r mut Room) -> &'r [f32] {
        for (place, slot) in room.iter_mut().zip(self.slots) {
            *place = values[*slot as usize];
        }
        &room[..padded(self.slots.len())]
    }
}

impl Blend {
    /// Of the trees that have room for it, so many of their levels; `None` where none has.
    pub(super) fn new(forest: &Forest, packed: &Packed, levels: u32) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let turned = isa() == Isa::Avx2;
        #[cfg(not(target_arch = "x86_64"))]
        let turned = false;
        build::build(forest, packed, levels, turned)
    }

    /// Whether the ranks that it evaluates have to be [`TURNED`].
    pub(super) fn turned(&self) -> bool {
        self.turned
    }

    /// Whether the tree at a position is one of them.
    pub(super) fn has(&self, position: usize) -> bool {
        self.trees[position].is_some()
    }

    /// How many of the trees are.
    pub(super) fn count(&self) -> usize {
        self.trees.iter().flatten().count()
    }

    /// [`blend_cycles`] of its trees, on ranks of so many columns of thresholds and of questions.
    pub(super) fn cycles(&self, columns: (usize, usize)) -> f64 {
        let splits = |tree: &Tree| match tree.levels.1 - tree.levels.0 {
            0 => (tree.exits.1 as usize).saturating_sub(1),
            levels => levels as usize,
        };
        let splits = self.trees.iter().flatten().map(splits).sum();
        blend_cycles(splits, self.trees.len(), columns)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.bottoms.0[..])
            + size_of_val(&self.bottoms.1[..])
            + size_of_val(&self.bottoms.2[..])
            + size_of_val(&self.sevens[..])
            + size_of_val(&self.threes[..])
            + size_of_val(&self.ones[..])
            + size_of_val(&self.levels[..])
            + size_of_val(&self.exits[..])
            + size_of_val(&self.values[..])
    }

    /// How many of the trees are cut.
    pub(super) fn cut(&self) -> usize {
        self.trees.iter().flatten().filter(|tree| tree.cut).count()
    }

    /// The exits of the tree at a position, which is one of them, by number.
    pub(super) fn exits(&self, position: usize) -> Exits<'_> {
        let tree = self.trees[position].unwrap_or_default();
        let (first, count) = (tree.exits.0 as usize, tree.exits.1 as usize);
        let slots = &self.exits[first..][..count];
        if tree.cut {
            return Exits::Addresses(slots);
        }
        let values =
            self.values.get(tree.values as usize..tree.values as usize + padded(count)).unwrap_or(&[]);
        Exits::Leaves(Leaves { slots, values })
    }

    /// Makes room for what groups find.
    pub(super) fn prepare(&self, values: &mut Values) {
        for blocks in &mut values.blocks {
            let constants = blocks.len().min(MOST_LEAVES);
            blocks.resize(self.blocks.max(blocks.len()), [0; BLOCK]);
            for (leaf, block) in blocks.iter_mut().enumerate().take(MOST_LEAVES).skip(constants) {
                *block = [leaf as u8; BLOCK];
            }
        }
    }

    /// The leaf of each row of a block of ranks, `[column][row]` and [`Blend::turned`] or not, in the tree at a position.
    #[inline]
    pub(super) fn evaluate(&self, position: usize, ranks: &[u8], values: &mut Values) -> Numbers {
        let Some(tree) = &self.trees[position] else { return Numbers::Bytes([0; BLOCK]) };
        let blocks = &mut values.blocks[0][..];
        assert!(ranks.len() >= self.columns_end && blocks.len() >= self.blocks);
        #[cfg(target_arch = "x86_64")]
        {
            if super::simd::blend::available() && !self.turned {
                // SAFETY: the machine is able; a block of ranks holds every column that a split names, and the values hold
                // every block that a group does.
                let [numbers] = unsafe {
                    super::simd::blend::evaluate(self, tree, [ranks.as_ptr()], [blocks.as_mut_ptr()])
                };
                return Numbers::Register(numbers);
            }
            if self.turned {
                // SAFETY: as above.
                return Numbers::Bytes(unsafe {
                    super::simd::avx2::blend::evaluate(self, tree, ranks.as_ptr(), blocks.as_mut_ptr())
                });
            }
        }
        Numbers::Bytes(portable::evaluate(self, tree, ranks, blocks))
    }

    /// The same of two blocks at once; `None` where that is no faster.
    #[inline]
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    pub(super) fn evaluate_pair(
        &self,
        position: usize,
        ranks: [&[u8]; 2],
        values: &mut Values,
    ) -> Option<[Numbers; 2]> {
        #[cfg(target_arch = "x86_64")]
        if let Some(tree) = &self.trees[position]
            && super::simd::blend::available()
            && !self.turned
        {
            assert!(ranks.iter().all(|ranks| ranks.len() >= self.columns_end));
            assert!(values.blocks.iter().all(|blocks| blocks.len() >= self.blocks));
            let [a, b] = &mut values.blocks;
            let (ranks, blocks) = (ranks.map(<[u8]>::as_ptr), [a.as_mut_ptr(), b.as_mut_ptr()]);
            // SAFETY: as for one block.
            let numbers = unsafe { super::simd::blend::evaluate(self, tree, ranks, blocks) };
            return Some(numbers.map(Numbers::Register));
        }
        None
    }
}

/// The numbers of 64 rows' leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbers {
    Bytes([u8; BLOCK]),
    /// On a machine where [`super::simd::blend::available`].
    #[cfg(target_arch = "x86_64")]
    Register(std::arch::x86_64::__m512i),
}

impl Numbers {
    /// One by one.
    pub(super) fn bytes(self) -> [u8; BLOCK] {
        match self {
            Self::Bytes(bytes) => bytes,
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a register is 64 bytes, and every one of them is a byte.
            Self::Register(register) => unsafe {
                std::mem::transmute::<std::arch::x86_64::__m512i, [u8; BLOCK]>(register)
            },
        }
    }

    /// Adds the value of each row's leaf to its sum: `values` are a tree's, padded, and `sums` those of as many rows as there
    /// are.
    #[inline]
    pub(super) fn add(self, values: &[f32], sums: &mut [f32]) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Register(register) => {
                let count = sums.len().min(BLOCK);
                assert!(values.len() >= padded(1));
                // SAFETY: the machine is able, or there were no register; a tree's numbers are below its leaves.
                unsafe { super::simd::blend::add(register, values, sums.as_mut_ptr(), count) };
            }
            #[cfg(target_arch = "x86_64")]
            Self::Bytes(bytes) if isa() == Isa::Avx2 => {
                let count = sums.len().min(BLOCK);
                assert!(values.len() >= padded(1));
                // SAFETY: the machine is able; a tree's numbers are below its exits, which have a value each.
                unsafe { super::simd::avx2::blend::add(&bytes, values, &mut sums[..count]) };
            }
            Self::Bytes(bytes) => {
                for (sum, number) in sums.iter_mut().zip(bytes) {
                    debug_assert!(usize::from(number) < values.len());
                    // SAFETY: a tree's numbers are below its exits, which have a value each.
                    *sum += unsafe { *values.get_unchecked(usize::from(number)) };
                }
            }
        }
    }
}

/// Values that a tree of so many leaves takes: a power of two of them, and a register's at least.
fn padded(leaves: usize) -> usize {
    leaves.next_power_of_two().max(16)
}
