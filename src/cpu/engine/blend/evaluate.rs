//! Evaluates every split of a tree for 64 rows at once: one compare for each split, and one choice between the exits
//! that its two children found.
//!
//! Ranks are bytes, so a register of 64 bytes holds a column of 64 rows. A tree of at most 256 leaves
//! numbers its exits from left to right. From the leaves up, each split chooses between the exit
//! numbers that its children found, and the root has the exit number of each row. No step waits for a
//! load that depends on a row. The work is proportional to the number of splits: a full tree of depth 8
//! takes 255 compares for 64 rows, where walks take 512.
//!
//! A tree whose levels repeat one split each (CatBoost's trees) takes one compare for each level, which
//! gives one bit of the exit number.
//!
//! Splits are grouped, so that most of the exit numbers that they find stay in registers. Groups take the last one to
//! three levels above leaves, and above those three levels at a time. A group may have gaps. A gap is
//! a split with the same child on both sides, and costs less than a separate group. A tree is made of the groups with
//! the least total cost, found from its leaves up.

use std::cell::RefCell;

use super::{
    build,
    groups::{Blend, LeafValues, MOST_LEAVES, ROW_BLOCK, Tree, of},
};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::isa::{Isa, isa};
use crate::{
    cost::Machine,
    cpu::cache_line::{CacheLine, flat},
    forest::Forest,
    layout::PackedForest,
};

/// Maximum number of row blocks that are evaluated together.
pub(super) const MOST_ROW_BLOCKS: usize = 4;

/// Working memory for the row blocks that are evaluated together. Each has one constant buffer for each
/// exit number, and then buffers for the results of groups.
#[derive(Debug, Default)]
pub(in crate::cpu) struct Values {
    pub(super) buffers: [Vec<CacheLine<[u8; ROW_BLOCK]>>; MOST_ROW_BLOCKS],
}

/// A tree's leaves, by exit number.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Leaves<'a> {
    /// Leaf slots.
    pub(in crate::cpu) slots: &'a [u32],
    /// The forest's own leaf values.
    pub(in crate::cpu) values: LeafValues<'a>,
}

/// The exits of a tree, by exit number.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) enum GroupExits<'a> {
    Leaves(Leaves<'a>),
    /// Addresses of nodes from which walks go on.
    Addresses(&'a [u32]),
}

/// Room for the leaf values of one tree.
pub(in crate::cpu) type Room = CacheLine<[f32; MOST_LEAVES]>;

/// Lends `f` working memory for a blend's groups. Each thread keeps its memory for the next call.
pub(in crate::cpu) fn with_values(blend: &Blend, f: impl FnOnce(&mut Values)) {
    thread_local!(static VALUES: RefCell<Values> = const { RefCell::new(Values { buffers: [const { Vec::new() }; MOST_ROW_BLOCKS] }) });
    let mut values = VALUES.with(RefCell::take);
    blend.prepare(&mut values);
    f(&mut values);
    VALUES.with(|v| v.replace(values));
}

impl<'r> Leaves<'r> {
    /// Copies this tree's leaf values from `values` to `room` and returns them. `values` are other leaf
    /// values than the forest's own, by leaf slot.
    pub(in crate::cpu) fn filled(&self, values: &[f32], room: &'r mut Room) -> LeafValues<'r> {
        for (value, slot) in room.0.iter_mut().zip(self.slots) {
            *value = values[*slot as usize];
        }
        LeafValues { singles: &room.0[..padded(self.slots.len())], byte_lists: &[] }
    }
}

impl Blend {
    /// Builds the blend of this many levels of every tree whose exits a byte can number. Returns `None`
    /// if there is no such tree.
    pub(in crate::cpu) fn new(forest: &Forest, packed: &PackedForest, levels: u32) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        let flipped = isa() == Isa::Avx2;
        #[cfg(not(target_arch = "x86_64"))]
        let flipped = false;
        build::build(forest, packed, levels, flipped)
    }

    /// Returns whether the blend reads ranks with the bit [`FLIPPED_BIT`](super::groups::FLIPPED_BIT) flipped.
    pub(in crate::cpu) fn flipped(&self) -> bool {
        self.flipped
    }

    /// Returns whether the blend has the tree at a position.
    pub(in crate::cpu) fn has(&self, position: usize) -> bool {
        self.trees[position].is_some()
    }

    /// Returns how many trees the blend has.
    pub(in crate::cpu) fn count(&self) -> usize {
        self.trees.iter().flatten().count()
    }

    /// Returns the number of splits that the blend evaluates.
    fn splits(&self) -> usize {
        let splits = |tree: &Tree| match tree.levels.1 - tree.levels.0 {
            0 => (tree.exits.1 as usize).saturating_sub(1),
            levels => levels as usize,
        };
        self.trees.iter().flatten().map(splits).sum()
    }

    /// Estimates the seconds of a row block through the blend's trees, once they are near.
    pub(in crate::cpu) fn seconds(&self) -> f64 {
        Machine::here().ways.blended(self.splits(), self.trees.len())
    }

    /// Estimates the seconds of bringing the blend's trees near.
    pub(in crate::cpu) fn load(&self) -> f64 {
        Machine::here().ways.load * self.splits() as f64
    }

    pub(in crate::cpu) fn bytes(&self) -> usize {
        size_of_val(&self.leaf_groups.0[..])
            + size_of_val(&self.leaf_groups.1[..])
            + size_of_val(&self.leaf_groups.2[..])
            + size_of_val(&self.groups_of_7[..])
            + size_of_val(&self.groups_of_3[..])
            + size_of_val(&self.groups_of_1[..])
            + size_of_val(&self.levels[..])
            + size_of_val(&self.exits[..])
            + size_of_val(&self.values[..])
            + size_of_val(&self.byte_lists[..])
    }

    /// Returns how many of the blend's trees are cut, which means that walks go on below some of their
    /// exits.
    pub(in crate::cpu) fn cut(&self) -> usize {
        self.trees.iter().flatten().filter(|tree| tree.cut).count()
    }

    /// Returns the exits, by exit number, of the tree at a position. The blend has this tree.
    pub(in crate::cpu) fn exits(&self, position: usize) -> GroupExits<'_> {
        let tree = self.trees[position].unwrap_or_default();
        let (first, count) = (tree.exits.0 as usize, tree.exits.1 as usize);
        let slots = &self.exits[first..][..count];
        if tree.cut {
            return GroupExits::Addresses(slots);
        }
        let (first, lines) = (tree.values as usize, padded(count) / 16);
        let values = self.values.get(first..first + lines).unwrap_or(&[]);
        let byte_lists = of(&self.byte_lists, tree.byte_lists);
        GroupExits::Leaves(Leaves { slots, values: LeafValues { singles: flat(values), byte_lists } })
    }

    /// Makes room in `values` for the results of groups, and fills the constant buffers.
    pub(in crate::cpu) fn prepare(&self, values: &mut Values) {
        let together = if self.together() { MOST_ROW_BLOCKS } else { 1 };
        for buffers in &mut values.buffers[..together] {
            let constants = buffers.len().min(MOST_LEAVES);
            buffers.resize(self.buffers.max(buffers.len()), CacheLine([0; ROW_BLOCK]));
            for (leaf, buffer) in buffers.iter_mut().enumerate().take(MOST_LEAVES).skip(constants) {
                *buffer = CacheLine([leaf as u8; ROW_BLOCK]);
            }
        }
    }

    /// Returns the exit number of each row of a row block in the tree at a position. `ranks` are
    /// `[column][row]`, with the bit [`FLIPPED_BIT`](super::groups::FLIPPED_BIT) flipped if [`Blend::flipped`] says so.
    #[inline]
    pub(in crate::cpu) fn evaluate(
        &self,
        position: usize,
        ranks: &[u8],
        values: &mut Values,
    ) -> [u8; ROW_BLOCK] {
        let Some(tree) = &self.trees[position] else { return [0; ROW_BLOCK] };
        let buffers = &mut values.buffers[0][..];
        assert!(ranks.len() >= self.columns_end && buffers.len() >= self.buffers);
        #[cfg(target_arch = "x86_64")]
        {
            // SAFETY: `available` says that the machine has AVX-512, and only a machine with AVX2 builds a flipped
            // blend. The assertion above checks that `ranks` has every column that a split names and that `buffers` has
            // every buffer that a group names.
            unsafe {
                if crate::cpu::arch::x86::avx512::blend::available() && !self.flipped {
                    return crate::cpu::arch::x86::avx512::blend::numbers(
                        self,
                        tree,
                        ranks.as_ptr(),
                        buffers.as_mut_ptr(),
                    );
                }
                if self.flipped {
                    let (ranks, buffers) = ([ranks.as_ptr()], [buffers.as_mut_ptr()]);
                    let [CacheLine(numbers)] =
                        crate::cpu::arch::x86::avx2::blend::evaluate(self, tree, ranks, buffers);
                    return numbers;
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        if isa() == Isa::Neon {
            // SAFETY: `isa` says that the machine has NEON. The assertion above checks that `ranks` has
            // every column that a split names and that `buffers` has every buffer that a group names.
            return unsafe {
                crate::cpu::arch::aarch64::neon::blend::evaluate(
                    self,
                    tree,
                    ranks.as_ptr(),
                    buffers.as_mut_ptr(),
                )
            };
        }
        crate::cpu::arch::portable::blend::evaluate(self, tree, ranks, buffers)
    }

    /// Returns whether the machine has a kernel for [`Blend::add_together`].
    pub(in crate::cpu) fn together(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.flipped || crate::cpu::arch::x86::avx512::blend::available();
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Adds the leaf value of each row to its sum, for up to `R` row blocks, and returns `true`.
    /// Returns `false` and adds nothing if the machine has no kernel for that. `own` are the tree's
    /// leaf values.
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
        const { assert!(R <= MOST_ROW_BLOCKS) };
        #[cfg(target_arch = "x86_64")]
        if let Some(tree) = &self.trees[position]
            && self.together()
        {
            assert!(ranks.iter().all(|ranks| ranks.len() >= self.columns_end));
            assert!(own.singles.len() >= padded(tree.exits.1 as usize));
            assert!(values.buffers.iter().all(|buffers| buffers.len() >= self.buffers));
            let ranks = ranks.map(<[u8]>::as_ptr);
            let mut buffers = [std::ptr::null_mut(); R];
            buffers.iter_mut().zip(&mut values.buffers).for_each(|(at, buffers)| *at = buffers.as_mut_ptr());
            // SAFETY: `together` says that the machine has the kernel. The assertions above check that
            // ranks and buffers have what splits and groups name, and that `own` has a value for each
            // exit number. `own` has byte lists only where `build` has found that the machine permutes
            // bytes.
            unsafe {
                match self.flipped {
                    false => {
                        crate::cpu::arch::x86::avx512::blend::add_up(self, tree, ranks, buffers, own, sums)
                    }
                    true => crate::cpu::arch::x86::avx2::blend::add_up(self, tree, ranks, buffers, own, sums),
                }
            }
            return true;
        }
        false
    }
}

/// Adds the leaf value of each row to its sum, for as many rows as there are sums, 64 at most.
///
/// # Safety
/// Every number is below the number of values in `own`, which is a power of two and at least 16.
#[inline]
pub(in crate::cpu) unsafe fn add(numbers: &[u8; ROW_BLOCK], own: LeafValues<'_>, sums: &mut [f32]) {
    let count = sums.len().min(ROW_BLOCK);
    #[cfg(target_arch = "x86_64")]
    if isa() >= Isa::Avx2 {
        // SAFETY: `isa` says that the machine has AVX2. The caller upholds that every number is below
        // the number of values, a power of two and at least 16.
        unsafe {
            crate::cpu::arch::x86::avx2::blend::add(
                numbers,
                LeafValues { byte_lists: &[], ..own },
                &mut sums[..count],
            )
        };
        return;
    }
    #[cfg(target_arch = "aarch64")]
    if isa() == Isa::Neon {
        // SAFETY: `isa` says that the machine has NEON. The caller upholds that every number is below
        // the number of values, a power of two and at least 16.
        unsafe { crate::cpu::arch::aarch64::neon::blend::add(numbers, own.singles, &mut sums[..count]) };
        return;
    }
    for (sum, number) in sums[..count].iter_mut().zip(numbers) {
        debug_assert!(usize::from(*number) < own.singles.len());
        // SAFETY: the caller upholds that every number is below the number of values.
        *sum += unsafe { *own.singles.get_unchecked(usize::from(*number)) };
    }
}

/// Returns how many leaf values a tree with this many exits takes: a power of two, and at least the 16
/// of a register.
pub(super) fn padded(leaves: usize) -> usize {
    leaves.next_power_of_two().max(16)
}
