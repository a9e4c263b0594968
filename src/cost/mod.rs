//! What evaluating a forest costs: the seconds that each engine's parts take on one thread.
//!
//! Choices read them: the default schedule between walks and blends, a program's engine for a few
//! rows, the groups that a tree's splits are blended in, how a line of columns becomes ranks, and how many threads a batch is worth. Limits of a
//! kernel, of columns say, stand beside the kernel. A
//! choice never changes a result, only what it takes.
//!
//! There is one [`Machine`] for each instruction set. `cargo run --release -p fangorn-benches -- fit` measures its numbers again on the
//! machine at hand and prints the shipped ones beside them; `FANGORN_ISA` chooses the instruction set. What comes in here:
//! seconds, sizes and the sums that they are used in. What stays out: forests, schedules, plans and engines.

#[cfg(target_arch = "x86_64")]
mod gather;
mod shipped;

#[cfg(target_arch = "x86_64")]
pub(crate) use gather::gathers;

use crate::isa::{Isa, isa};

/// Whole picoseconds: sums of the same costs in another order are equal.
pub(crate) fn picoseconds(seconds: f64) -> u64 {
    (seconds * 1e12).round() as u64
}

/// Rows of a block that is blended, ranked or walked in vectors.
pub const BLOCK: usize = 64;

/// The costs of one machine with one instruction set, in seconds of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// The machine's name, and the instruction set's.
    pub name: &'static str,
    /// What the machine is made of.
    pub hardware: Hardware,
    /// Walks, a split a step.
    pub walk: Walk,
    /// One row in registers.
    pub registers: Registers,
    /// Every split of a tree for a block of rows.
    pub blend: Blend,
    /// A block of rows on their way to ranks.
    pub ranking: Ranking,
    /// Seconds of work that are worth waking a thread for.
    pub thread: f64,
}

/// What a machine is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Cycles a second.
    pub clock: f64,
    /// Bytes of the second cache that a core has to itself.
    pub cache: usize,
    /// Bytes that one thread reads from memory in a second.
    pub bandwidth: f64,
    /// Cache lines of a row that the machine's own prefetch brings in time; rows of more are asked for ahead.
    pub prefetched: usize,
    /// Seconds that a gather of eight values from the first cache takes at most, at this clock, where gathers count as fast.
    pub gather: f64,
}

/// Seconds of a step of a walk, from a node to its child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walk {
    /// Of one row, beside steps of other trees.
    pub one: f64,
    /// Of one row among a whole block that is walked through one tree.
    pub many: f64,
    /// The same with a test for a leaf before it.
    pub tested: f64,
    /// Of such a block, however few of its rows there are: its walks wait for their loads.
    pub block: f64,
    /// Of one row through 64 trees abreast.
    pub abreast: f64,
    /// Of one row through full trees, four side by side.
    pub full: f64,
    /// Fewer rows than this take less time through tiles one by one than in a block.
    pub tiled_rows: usize,
    /// Places of complete trees for each leaf there is, at most, where walks of complete trees, which need no links, take less.
    pub places: f64,
}

impl Walk {
    /// Fewer rows than this take less time one by one, each beside steps of other trees, than in a block: at least one, and no more than
    /// a block has.
    pub(crate) fn rows_one_by_one(&self) -> usize {
        // As a cast makes of any number, so of none.
        ((self.block / self.one).round() as usize).clamp(1, BLOCK)
    }
}

/// Seconds of a row that stands in registers, through tiles of four levels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Registers {
    /// Of a tile, by the pairs of registers that the row takes: for up to 32, 64, 96 and 128 columns.
    pub tile: [f64; 4],
    /// Of a tree, besides its tiles.
    pub tree: f64,
    /// Of a branch that goes another way than the last time.
    pub surprise: f64,
    /// From so many rows of a block on, walks of all of them take less.
    pub rows: usize,
}

/// Seconds of a [block](BLOCK) of rows through every split of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blend {
    /// Of a split, …
    pub split: f64,
    /// … and of a tree besides, before it is known how its splits are grouped.
    pub tree: f64,
    /// Of a group above leaves only, of one, two and three levels.
    pub bottom: [f64; 3],
    /// Of another group of three levels.
    pub seven: f64,
    /// Of a group of two levels at a root.
    pub three: f64,
    /// Of a group of one level at a root.
    pub one: f64,
}

impl Blend {
    /// A block through so many splits in so many trees.
    pub(crate) fn block(&self, splits: usize, trees: usize) -> f64 {
        self.split * splits as f64 + self.tree * trees as f64
    }
}

/// Seconds of a [block](BLOCK) of rows that becomes ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranking {
    /// Of a column of thresholds, before it is known how it is ranked.
    pub thresholds: f64,
    /// Of a column that answers one question.
    pub question: f64,
    /// Fewer rows than this take less time one by one than in a block.
    pub rows: usize,
    /// Of the parts of a line of sixteen columns, where the machine has kernels for them.
    pub column_block: Option<ColumnBlock>,
}

impl Ranking {
    /// A block's columns: so many of thresholds, and so many that answer a question.
    pub(crate) fn block(&self, (thresholds, questions): (usize, usize)) -> f64 {
        self.thresholds * thresholds as f64 + self.question * questions as f64
    }
}

/// Seconds of a [block](BLOCK) of rows of sixteen columns that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnBlock {
    /// Of bringing them into columns.
    pub copy: f64,
    /// Of a compare of all of them with a threshold each, where they lie.
    pub layer: f64,
    /// Of a column's threshold in such a compare.
    pub threshold: f64,
    /// Of a search of a column's thresholds.
    pub search: f64,
    /// Of a level of such a search.
    pub level: f64,
}

impl Machine {
    /// The costs that choices on this machine read: those shipped for its [instruction set](crate::cpu::ISA).
    pub fn here() -> &'static Self {
        match isa() {
            Isa::Avx512 => &shipped::AVX512,
            Isa::Avx2 => &shipped::AVX2,
            // NEON's walks are the portable ones, and its blends are as wide as compilers make those.
            Isa::Neon | Isa::Portable => &shipped::PORTABLE,
        }
    }
}
