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

use std::cell::RefCell;

use super::{
    build,
    groups::{BLOCK, Blend, LeafValues, MOST_LEAVES, Tree, of},
};
use crate::cpu::cache_line::{CacheLine, flat};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::isa::{Isa, isa};
use crate::{cost::Machine, forest::Forest, layout::Packed};

/// Blocks of rows that may be evaluated together.
pub(super) const TOGETHER: usize = 4;

/// What each of some blocks of rows is evaluated in: a constant for each leaf number, then what groups find.
#[derive(Debug, Default)]
pub(in crate::cpu) struct Values {
    pub(super) blocks: [Vec<CacheLine<[u8; BLOCK]>>; TOGETHER],
}

/// A tree's leaves, by their numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Leaves<'a> {
    /// Their slots.
    pub(in crate::cpu) slots: &'a [u32],
    /// The forest's own values.
    pub(in crate::cpu) values: LeafValues<'a>,
}

/// What the numbers that a tree's groups end with stand for.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) enum GroupExits<'a> {
    Leaves(Leaves<'a>),
    /// From which walks go on.
    Addresses(&'a [u32]),
}

/// Room for the values of a tree's leaves.
pub(in crate::cpu) type Room = CacheLine<[f32; MOST_LEAVES]>;

/// Lends `f` room for what a forest's groups find, which the thread keeps.
pub(in crate::cpu) fn with_values(blend: &Blend, f: impl FnOnce(&mut Values)) {
    thread_local!(static VALUES: RefCell<Values> = const { RefCell::new(Values { blocks: [const { Vec::new() }; TOGETHER] }) });
    let mut values = VALUES.with(RefCell::take);
    blend.prepare(&mut values);
    f(&mut values);
    VALUES.with(|v| v.replace(values));
}

impl<'r> Leaves<'r> {
    /// Other values than the forest's own, of all leaves by slot.
    pub(in crate::cpu) fn filled(&self, values: &[f32], room: &'r mut Room) -> LeafValues<'r> {
        for (place, slot) in room.0.iter_mut().zip(self.slots) {
            *place = values[*slot as usize];
        }
        LeafValues { singles: &room.0[..padded(self.slots.len())], planes: &[] }
    }
}

impl Blend {
    /// Of the trees that have room for it, so many of their levels; `None` where none has.
    pub(in crate::cpu) fn new(forest: &Forest, packed: &Packed, levels: u32) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let turned = isa() == Isa::Avx2;
        #[cfg(not(target_arch = "x86_64"))]
        let turned = false;
        build::build(forest, packed, levels, turned)
    }

    /// Whether the ranks that it evaluates have to be [`TURNED`].
    pub(in crate::cpu) fn turned(&self) -> bool {
        self.turned
    }

    /// Whether the tree at a position is one of them.
    pub(in crate::cpu) fn has(&self, position: usize) -> bool {
        self.trees[position].is_some()
    }

    /// How many of the trees are.
    pub(in crate::cpu) fn count(&self) -> usize {
        self.trees.iter().flatten().count()
    }

    /// Seconds of a block of rows through its trees, on ranks of so many columns of thresholds and of questions.
    pub(in crate::cpu) fn seconds(&self, columns: (usize, usize)) -> f64 {
        let splits = |tree: &Tree| match tree.levels.1 - tree.levels.0 {
            0 => (tree.exits.1 as usize).saturating_sub(1),
            levels => levels as usize,
        };
        let splits = self.trees.iter().flatten().map(splits).sum();
        let costs = Machine::here();
        costs.blend.block(splits, self.trees.len()) + costs.ranking.block(columns)
    }

    pub(in crate::cpu) fn bytes(&self) -> usize {
        size_of_val(&self.bottoms.0[..])
            + size_of_val(&self.bottoms.1[..])
            + size_of_val(&self.bottoms.2[..])
            + size_of_val(&self.sevens[..])
            + size_of_val(&self.threes[..])
            + size_of_val(&self.ones[..])
            + size_of_val(&self.levels[..])
            + size_of_val(&self.exits[..])
            + size_of_val(&self.values[..])
            + size_of_val(&self.planes[..])
    }

    /// How many of the trees are cut.
    pub(in crate::cpu) fn cut(&self) -> usize {
        self.trees.iter().flatten().filter(|tree| tree.cut).count()
    }

    /// The exits of the tree at a position, which is one of them, by number.
    pub(in crate::cpu) fn exits(&self, position: usize) -> GroupExits<'_> {
        let tree = self.trees[position].unwrap_or_default();
        let (first, count) = (tree.exits.0 as usize, tree.exits.1 as usize);
        let slots = &self.exits[first..][..count];
        if tree.cut {
            return GroupExits::Addresses(slots);
        }
        let (first, lines) = (tree.values as usize, padded(count) / 16);
        let values = self.values.get(first..first + lines).unwrap_or(&[]);
        let planes = of(&self.planes, tree.planes);
        GroupExits::Leaves(Leaves { slots, values: LeafValues { singles: flat(values), planes } })
    }

    /// Makes room for what groups find.
    pub(in crate::cpu) fn prepare(&self, values: &mut Values) {
        let together = if self.together() { TOGETHER } else { 1 };
        for blocks in &mut values.blocks[..together] {
            let constants = blocks.len().min(MOST_LEAVES);
            blocks.resize(self.blocks.max(blocks.len()), CacheLine([0; BLOCK]));
            for (leaf, block) in blocks.iter_mut().enumerate().take(MOST_LEAVES).skip(constants) {
                *block = CacheLine([leaf as u8; BLOCK]);
            }
        }
    }

    /// The number of the leaf of each row of a block of ranks, `[column][row]` and [`Blend::turned`] or not, in the tree at a position.
    #[inline]
    pub(in crate::cpu) fn evaluate(&self, position: usize, ranks: &[u8], values: &mut Values) -> [u8; BLOCK] {
        let Some(tree) = &self.trees[position] else { return [0; BLOCK] };
        let blocks = &mut values.blocks[0][..];
        assert!(ranks.len() >= self.columns_end && blocks.len() >= self.blocks);
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: the machine is able; a block of ranks holds every column that a split names, and the values hold every
            // block that a group does.
            unsafe {
                if crate::cpu::arch::x86::avx512::blend::available() && !self.turned {
                    return crate::cpu::arch::x86::avx512::blend::numbers(
                        self,
                        tree,
                        ranks.as_ptr(),
                        blocks.as_mut_ptr(),
                    );
                }
                if self.turned {
                    let (ranks, blocks) = ([ranks.as_ptr()], [blocks.as_mut_ptr()]);
                    let [CacheLine(numbers)] =
                        crate::cpu::arch::x86::avx2::blend::evaluate(self, tree, ranks, blocks);
                    return numbers;
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        if isa() == Isa::Neon {
            // SAFETY: the machine is able; a block of ranks holds every column that a split names, and the values hold every block
            // that a group does.
            return unsafe {
                crate::cpu::arch::aarch64::neon::blend::evaluate(
                    self,
                    tree,
                    ranks.as_ptr(),
                    blocks.as_mut_ptr(),
                )
            };
        }
        crate::cpu::arch::portable::blend::evaluate(self, tree, ranks, blocks)
    }

    /// Whether [`Blend::add_together`] is a way of the machine's own.
    pub(in crate::cpu) fn together(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.turned || crate::cpu::arch::x86::avx512::blend::available();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Adds to the sums of up to `R` blocks of rows the value of each row's leaf, if that is a way of the machine's own; otherwise
    /// `false`. `own` are the tree's values.
    #[inline]
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    pub(in crate::cpu) fn add_together<const R: usize>(
        &self,
        position: usize,
        ranks: [&[u8]; R],
        own: LeafValues<'_>,
        values: &mut Values,
        sums: &mut [f32],
    ) -> bool {
        const { assert!(R <= TOGETHER) };
        #[cfg(target_arch = "x86_64")]
        if let Some(tree) = &self.trees[position]
            && self.together()
        {
            assert!(ranks.iter().all(|ranks| ranks.len() >= self.columns_end));
            assert!(own.singles.len() >= padded(tree.exits.1 as usize));
            assert!(values.blocks.iter().all(|blocks| blocks.len() >= self.blocks));
            let ranks = ranks.map(<[u8]>::as_ptr);
            let mut blocks = [std::ptr::null_mut(); R];
            blocks.iter_mut().zip(&mut values.blocks).for_each(|(at, blocks)| *at = blocks.as_mut_ptr());
            // SAFETY: as for `evaluate`; a tree's numbers are below its leaves, which have values.
            unsafe {
                match self.turned {
                    false => {
                        crate::cpu::arch::x86::avx512::blend::add_up(self, tree, ranks, blocks, own, sums)
                    }
                    true => crate::cpu::arch::x86::avx2::blend::add_up(self, tree, ranks, blocks, own, sums),
                }
            }
            return true;
        }
        false
    }
}

/// Adds the value of each row's leaf to its sum: of as many rows as there are sums.
///
/// # Safety
/// Every number is below the values there are, which are sixteen at least.
#[inline]
pub(in crate::cpu) unsafe fn add(numbers: &[u8; BLOCK], own: LeafValues<'_>, sums: &mut [f32]) {
    let count = sums.len().min(BLOCK);
    #[cfg(target_arch = "x86_64")]
    if isa() >= Isa::Avx2 {
        // SAFETY: the machine is able; the rest as promised to this function.
        unsafe {
            crate::cpu::arch::x86::avx2::blend::add(
                numbers,
                LeafValues { planes: &[], ..own },
                &mut sums[..count],
            )
        };
        return;
    }
    #[cfg(target_arch = "aarch64")]
    if isa() == Isa::Neon {
        // SAFETY: the machine is able; the rest as promised to this function.
        unsafe { crate::cpu::arch::aarch64::neon::blend::add(numbers, own.singles, &mut sums[..count]) };
        return;
    }
    for (sum, number) in sums[..count].iter_mut().zip(numbers) {
        debug_assert!(usize::from(*number) < own.singles.len());
        // SAFETY: as promised to this function.
        *sum += unsafe { *own.singles.get_unchecked(usize::from(*number)) };
    }
}

/// Values that a tree of so many leaves takes: a power of two of them, and a register's at least.
pub(super) fn padded(leaves: usize) -> usize {
    leaves.next_power_of_two().max(16)
}
