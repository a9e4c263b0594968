//! The words of a forest's contributions, which a host encodes and the kernels read.
//!
//! | word of an instruction | content |
//! |---|---|
//! | 0 | the opcode and flags, and from bit 8 on the level of the split above on the same feature |
//! | 1 to 3 | the column, and what is asked of it: words 0 and 1 of a split's node |
//! | 4 | the index of the split's lists in its pass, if a split above has the same feature |
//! | 5 | the share of the left child in the cover |
//! | 6, 7 | the values of children that are leaves |
//! | 8 | the index of the feature among the sums of a row |
//! | 9, 10 | for interactions: the index of the first of the split's ancestors, and their number |
//!
//! Against a background, words 4 and 5 differ:
//!
//! | word of an instruction | content |
//! |---|---|
//! | 4 | of an instruction that goes to a child: where the instruction after those of the child begins, in words from the tree's first instruction |
//! | 5 | the index of the split's sides: a bit for each background row, set if the row goes left |
//!
//! | word of an ancestor | content |
//! |---|---|
//! | 0 | the level of the feature's nearest split above; the highest bit is set if the path goes left there |
//! | 1 | the index, from the pass's points on, of `(1 - zero) / factor` of its feature at each point (`fangorn::contributions::pairs`); not used against a background |
//! | 2 | the index of the pair among the sums of a row |
//!
//! | word of a subtree with tables | content |
//! |---|---|
//! | 0, 1 | the index of its first test, and the number of tests |
//! | 2, 3 | the index of its first feature, and the number of features |
//! | 4 | the index of its first table |
//!
//! A test is the words 1 to 3 of an instruction. A feature is its index among the sums of a row. A table has a number for
//! each pattern of answers, in which bit `i` is set if a row goes left at test `i`.

/// Words of an instruction.
pub const INSTRUCTION_WORDS: u32 = 9;
/// Words of an instruction with its ancestors, for interactions.
pub const INTERACTION_WORDS: u32 = INSTRUCTION_WORDS + 2;
/// The word of an instruction that goes to a child with the index of the instruction after those of the child, counted
/// in words from the tree's first instruction on. Only instructions against a background have it.
pub const AFTER_WORD: u32 = 4;
/// Words of an ancestor.
pub const ANCESTOR_WORDS: u32 = 3;
/// Flag of an ancestor's level: the path goes left there.
pub const PATH_LEFT: u32 = 1 << 31;
/// Background rows of a block, which a unit takes one after the other.
pub const BLOCK_ROWS: u32 = 64;
/// Words of a subtree with tables.
pub const SUBTREE_WORDS: u32 = 5;
/// Words of a test.
pub const TEST_WORDS: u32 = 3;
/// Words of a pass: the index of its first instruction, the number of its instructions, and the index of its points.
/// The points come first, then their weights, then the lists.
pub const PASS_WORDS: u32 = 3;

/// Opcode: goes to the left child.
pub const LEFT: u32 = 0;
/// Opcode: goes to the right child.
pub const RIGHT: u32 = 1;
/// Opcode: comes back from a child.
pub const BACK: u32 = 2;
/// Opcode: ends a split with two leaves.
pub const LEAVES: u32 = 3;
/// Opcode: ends a split whose right child is a leaf.
pub const RIGHT_LEAF: u32 = 4;
/// Opcode: ends a split whose left child is a leaf.
pub const LEFT_LEAF: u32 = 5;
/// Opcode: ends a split without leaves.
pub const JOIN: u32 = 6;
/// The bits of an instruction's opcode.
pub const OPCODE: u32 = 7;
/// Flag: the instruction is the first one of its split.
pub const ENTERS: u32 = 8;
/// Flag: a split above on the path has the same feature.
pub const REPEATED: u32 = 16;
/// Flag: the path goes left at the split above on the same feature.
pub const ABOVE_LEFT: u32 = 32;
/// Number of the lowest bit of the level of the split above.
pub const ABOVE_SHIFT: u32 = 8;

/// Maximum number of bytes of a unit's stacks. It is the room that WGSL promises for the variables of a function.
const MOST_STACK_BYTES: usize = 8192;

/// Returns the maximum number of points of a pass for trees with at most `deepest` splits on a path, or `None` if the
/// stacks of such trees have no room.
pub fn points_for(deepest: usize) -> Option<u32> {
    (1..=8).rev().find(|points| stack_bytes(deepest, *points) <= MOST_STACK_BYTES)
}

/// Returns the maximum number of splits on a path for which [`points_for`] finds room.
pub fn deepest_path() -> usize {
    // A level with one point takes three words.
    MOST_STACK_BYTES / 12 / 4 * 4 - 2
}

fn stack_bytes(deepest: usize, points: u32) -> usize {
    let points = points as usize;
    levels(deepest).saturating_mul(2 * points + 1).saturating_add(points).saturating_mul(4)
}

/// Returns the number of levels of a stack for trees with at most `deepest` splits on a path, rounded up so that
/// forests of about the same depth share a kernel.
pub fn levels(deepest: usize) -> usize {
    deepest.saturating_add(2).checked_next_multiple_of(4).unwrap_or(usize::MAX)
}
