//! Trees as groups of splits: plain data that the kernels of every instruction set evaluate.

/// Number of rows that are evaluated together, which is also the number of bytes of a column of their ranks.
pub(in crate::cpu) use crate::cost::ROW_BLOCK;
use crate::cpu::cache_line::CacheLine;

/// Maximum number of leaves of a tree. The number of an exit is a byte.
pub(super) const MOST_LEAVES: usize = 256;

/// A split: where its column begins in a row block of ranks, in bytes, and its threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(in crate::cpu) struct Split {
    pub(in crate::cpu) column: u32,
    /// The threshold in each of four equal bytes. Ranks below it go left. A kernel spreads four bytes
    /// over a register as it loads them, while a single byte takes one more instruction.
    pub(in crate::cpu) threshold: u32,
}

/// The bit of ranks and thresholds that is flipped if the machine compares bytes as signed numbers.
pub(in crate::cpu) const FLIPPED_BIT: u8 = 0x80;

impl Split {
    /// Makes a split that sends ranks below `threshold` left.
    pub(super) fn new(column: u32, threshold: u8) -> Self {
        Self { column, threshold: u32::from_ne_bytes([threshold; 4]) }
    }
}

/// Full levels of splits above leaves with consecutive exit numbers.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct LeafGroup<const SPLITS: usize> {
    pub(in crate::cpu) splits: [Split; SPLITS],
    /// The exit number of the leftmost leaf.
    pub(in crate::cpu) first: u8,
    /// The buffer that takes the exit numbers that the group finds.
    pub(in crate::cpu) out: u16,
}

/// Splits above children that are exits or the results of earlier groups.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Group<const SPLITS: usize, const CHILDREN: usize> {
    /// The splits, level by level.
    pub(in crate::cpu) splits: [Split; SPLITS],
    /// The buffers with the children's exit numbers, from left to right.
    pub(in crate::cpu) children: [u16; CHILDREN],
    /// The buffer that takes the exit numbers that the group finds.
    pub(in crate::cpu) out: u16,
}

/// The ranges of one tree in the lists of a [`Blend`], in the order in which they are evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cpu) struct Tree {
    pub(in crate::cpu) leaf_groups: [(u32, u32); 3],
    pub(in crate::cpu) groups_of_7: (u32, u32),
    pub(in crate::cpu) groups_of_3: (u32, u32),
    pub(in crate::cpu) groups_of_1: (u32, u32),
    /// Range in [`Blend::levels`] of a tree whose levels repeat one split each, from the last level up.
    /// Such a tree has no groups.
    pub(in crate::cpu) levels: (u32, u32),
    /// The buffer that holds the exit number of each row after the last group.
    pub(in crate::cpu) root: u16,
    /// First exit in [`Blend::exits`], and number of exits.
    pub(super) exits: (u32, u32),
    /// Whether some exits are splits from which walks go on.
    pub(super) cut: bool,
    /// First cache line in [`Blend::values`].
    pub(super) values: u32,
    /// Range of cache lines in [`Blend::byte_lists`].
    pub(super) byte_lists: (u32, u32),
}

/// The trees of a forest on ranks of one byte, by position. A tree is `None` if blends can't evaluate
/// it.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Blend {
    pub(super) trees: Vec<Option<Tree>>,
    /// Groups above leaves: of one, two and three levels.
    pub(in crate::cpu) leaf_groups: (Vec<LeafGroup<1>>, Vec<LeafGroup<3>>, Vec<LeafGroup<7>>),
    pub(in crate::cpu) groups_of_7: Vec<Group<7, 8>>,
    pub(in crate::cpu) groups_of_3: Vec<Group<3, 4>>,
    pub(in crate::cpu) groups_of_1: Vec<Group<1, 2>>,
    /// The splits of trees whose levels repeat one split each.
    pub(in crate::cpu) levels: Vec<Split>,
    /// The exits of all trees, each tree's from left to right: leaf slots, or addresses if the tree is
    /// cut.
    pub(super) exits: Vec<u32>,
    /// The leaf values of all trees, if a leaf has a single value. A tree's values are padded to a power of
    /// two, at least to 16.
    pub(super) values: Vec<CacheLine<[f32; 16]>>,
    /// The leaf values once more, byte by byte, on a machine that permutes bytes: see
    /// [`LeafValues::byte_lists`].
    pub(super) byte_lists: Vec<CacheLine<[u8; ROW_BLOCK]>>,
    /// Buffers of 64 bytes for one row block: a constant for each exit number, and the results of
    /// groups.
    pub(super) buffers: usize,
    /// Bytes of the ranks of one row block.
    pub(super) columns_end: usize,
    /// Whether thresholds have the bit [`FLIPPED_BIT`] flipped, so that ranks need it flipped, too.
    pub(super) flipped: bool,
}

/// Returns the entries of one tree in a list of all trees.
pub(in crate::cpu) fn of<T>(all: &[T], (from, to): (u32, u32)) -> &[T] {
    &all[from as usize..to as usize]
}

/// The leaf values of a tree, by exit number.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cpu) struct LeafValues<'a> {
    /// The values, padded to a power of two.
    pub(in crate::cpu) singles: &'a [f32],
    /// The values as four lists of bytes: the first bytes of all values, then their second bytes, and so
    /// on, each list in whole cache lines. A machine with VBMI has byte lists of 64, 128 or 256 values,
    /// and one with AVX2 but no AVX-512 has byte lists of 32 or 64 values. Elsewhere there are none. A
    /// permute of bytes serves as many rows as a register has bytes. A permute of values serves a
    /// quarter of these rows and reads more registers. Without permutes, a gather reads the values.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) byte_lists: &'a [CacheLine<[u8; ROW_BLOCK]>],
}
