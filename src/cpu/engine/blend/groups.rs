//! Trees as groups of splits: the plain data that kernels of every instruction set evaluate.

/// Rows that are evaluated together, and bytes of a column of them.
pub(in crate::cpu) use crate::cost::BLOCK;
use crate::cpu::cache_line::CacheLine;

/// Leaves of a tree, at most: a leaf's number is a byte.
pub(super) const MOST_LEAVES: usize = 256;

/// A split: the column's place in a block of ranks, in bytes, and its threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(in crate::cpu) struct Split {
    pub(in crate::cpu) column: u32,
    /// Ranks below each of its bytes, which are the same, go left: four are spread over a register as they are loaded, one
    /// takes an instruction more.
    pub(in crate::cpu) threshold: u32,
}

/// The bit of ranks and thresholds that is turned where a machine compares bytes as signed numbers.
pub(in crate::cpu) const TURNED: u8 = 0x80;

impl Split {
    /// Ranks below `threshold` go left.
    pub(super) fn new(column: u32, threshold: u8) -> Self {
        Self { column, threshold: u32::from_ne_bytes([threshold; 4]) }
    }
}

/// Full levels of splits above leaves numbered one after the other, level by level.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct LeafGroup<const SPLITS: usize> {
    pub(in crate::cpu) splits: [Split; SPLITS],
    /// The leftmost leaf.
    pub(in crate::cpu) first: u8,
    /// Where the found numbers go, in blocks of the values.
    pub(in crate::cpu) out: u16,
}

/// Some splits above children that are leaves or were found before.
#[derive(Clone, Copy, Debug)]
pub(in crate::cpu) struct Group<const SPLITS: usize, const CHILDREN: usize> {
    /// Level by level.
    pub(in crate::cpu) splits: [Split; SPLITS],
    /// Blocks of the values, from left to right.
    pub(in crate::cpu) children: [u16; CHILDREN],
    /// Where the found numbers go.
    pub(in crate::cpu) out: u16,
}

/// A tree's parts, in the order in which they are evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cpu) struct Tree {
    pub(in crate::cpu) bottoms: [(u32, u32); 3],
    pub(in crate::cpu) sevens: (u32, u32),
    pub(in crate::cpu) threes: (u32, u32),
    pub(in crate::cpu) ones: (u32, u32),
    /// Of a tree whose levels ask one question each: those, from the last up, and nothing else.
    pub(in crate::cpu) levels: (u32, u32),
    /// The block that holds the leaf of every row in the end.
    pub(in crate::cpu) root: u16,
    /// First exit in [`Blend::exits`], and how many.
    pub(super) exits: (u32, u32),
    /// Whether some exits are splits from which walks go on.
    pub(super) cut: bool,
    /// First line in [`Blend::values`].
    pub(super) values: u32,
    /// First line in [`Blend::planes`], and how many.
    pub(super) planes: (u32, u32),
}

/// The trees of a forest on ranks of a byte, by position.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Blend {
    pub(super) trees: Vec<Option<Tree>>,
    /// Of one to three levels.
    pub(in crate::cpu) bottoms: (Vec<LeafGroup<1>>, Vec<LeafGroup<3>>, Vec<LeafGroup<7>>),
    pub(in crate::cpu) sevens: Vec<Group<7, 8>>,
    pub(in crate::cpu) threes: Vec<Group<3, 4>>,
    pub(in crate::cpu) ones: Vec<Group<1, 2>>,
    /// Splits of trees that have one a level.
    pub(in crate::cpu) levels: Vec<Split>,
    /// The exits of all trees, from left to right: slots of leaves, or addresses where the tree is cut.
    pub(super) exits: Vec<u32>,
    /// Their values, where leaves are single values: each tree's padded to a power of two and at least 16.
    pub(super) values: Vec<CacheLine<[f32; 16]>>,
    /// The same values once more where a machine permutes bytes: of each 64 of a tree's the first bytes, … ; see
    /// [`LeafValues::planes`].
    pub(super) planes: Vec<CacheLine<[u8; BLOCK]>>,
    /// Blocks that values take: a constant for each leaf number, and what groups find.
    pub(super) blocks: usize,
    /// Bytes of a block of ranks.
    pub(super) columns_end: usize,
    /// Whether thresholds are [`TURNED`], and ranks have to be.
    pub(super) turned: bool,
}

/// A tree's part of all trees' groups.
pub(in crate::cpu) fn of<T>(all: &[T], (from, to): (u32, u32)) -> &[T] {
    &all[from as usize..to as usize]
}

/// The values of a tree's leaves, by their numbers.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::cpu) struct LeafValues<'a> {
    /// Padded to a power of two.
    pub(in crate::cpu) singles: &'a [f32],
    /// Their bytes apart, the first ones of all values before the second ones, each in whole lines: of 64, 128 or 256 values on a
    /// machine with VBMI, of 32 or 64 on one that has AVX2 and no AVX-512, otherwise none. Bytes are permuted for as many rows as a
    /// register has bytes, values for a quarter of them and out of more registers, or gathered.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(in crate::cpu) planes: &'a [CacheLine<[u8; BLOCK]>],
}
