//! Costs of evaluating a forest: the seconds that the operations of each engine take on one thread.
//!
//! These choices read costs:
//!
//! - whether the default schedule walks or blends, and on a GPU the shape of its cubes,
//! - a program's engine for a few rows,
//! - the groups that blends make of a tree's splits,
//! - how a column block, and how sparse rows become ranks,
//! - how many threads a batch is worth,
//! - whether leaves that are vectors are added up by the walks or after them,
//! - whether a tree's contributions come from pattern tables or from a quadrature,
//! - in a graph, whether a product skips zeros, the type that it is computed in, and whether a forest becomes matrix
//!   products,
//! - which operators of linear algebra are fused.
//!
//! A choice changes the time of a result, never the result. There is one exception: a forest that becomes matrix
//! products finds the same leaves, but rounds its sums in another order. A limit of a kernel, such as its number of
//! columns, stands beside the kernel.
//!
//! There is one [`Machine`] for each instruction set. `fangorn costs measure` measures its [`Ways`] for one machine. Two
//! commands measure its numbers again on the machine on which they run, to be shipped: `benches/experiments/fit_estimates.py` fits those of [`Ways`] to times of random models, and
//! `cargo run --release -p fangorn-benches -- fit` measures the others. `FANGORN_ISA` chooses the instruction set.
//! [`CUBES`] are the costs of GPUs; `fangorn-benches gpu-synthetic` and `benches/experiments/fit_cubes.py` fit them.
//! [`PRODUCTS`], [`FOREST_PRODUCTS`] and [`THROUGHPUT`] are for any of them: `fangorn-benches products`,
//! `fangorn-benches matrices` and the example `bandwidth` of `fangorn-fusion` measure them. This module computes with
//! seconds and sizes. It knows nothing of forests, schedules, plans and engines.

mod caches;
mod cubes;
mod dtypes;
mod estimate;
#[cfg(target_arch = "x86_64")]
mod gather;
mod matrices;
mod measured;
mod shipped;
mod throughput;

#[cfg(target_arch = "x86_64")]
pub(crate) use gather::gathers;

pub use cubes::{CUBES, CubeCosts, CubeForest, CubeShape, GpuFacts};
pub(crate) use cubes::{FEW_COPIES, LEAST_ROW_UNITS};
pub use dtypes::{NumberType, PRODUCT_SPEEDS, Speeds};
pub(crate) use estimate::VectorWork;
pub use estimate::{Estimate, ForestFacts, RankColumns, ReachedSplits, RowTile, Term, Work};
pub use matrices::{FOREST_PRODUCTS, ForestChoice, ForestProducts};
pub use measured::MeasuredWays;
pub use throughput::{THROUGHPUT, Throughput};

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::isa::{Isa, isa};

/// Rounds seconds to whole picoseconds, so that sums of the same costs are equal in every order.
pub(crate) fn picoseconds(seconds: f64) -> u64 {
    (seconds * 1e12).round() as u64
}

/// The device that runs a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum GraphTarget {
    /// This machine's CPU.
    #[default]
    Cpu,
    /// A device of burn's.
    Device,
}

impl GraphTarget {
    /// All targets.
    pub const ALL: [Self; 2] = [Self::Cpu, Self::Device];
}

/// Rows of a row block, which is blended, ranked or walked in vectors as a whole.
pub const ROW_BLOCK: usize = 64;
/// Maximum bytes of a piece of a batch: of a tensor, if a graph runs a batch in pieces, and of a row block that a table or
/// sparse rows are written into. The two or three pieces that exist at a time then fit into a second-level cache.
/// `fangorn bench` on scalers and linear models says which size is fastest.
pub const PIECE_BYTES: usize = 256 << 10;

/// Costs of the product of a row with a weight matrix, if it is dense and if it skips the weight's zeros.
///
/// `fangorn-benches products` times both on this machine, for weights of several shapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Products {
    /// Seconds of an element of the weight in a dense product.
    pub dense: f64,
    /// Seconds of a nonzero element of the weight, if zeros are skipped.
    pub filled: f64,
    /// Seconds of checking a number of the row, if zeros are skipped: NaN or infinity times zero is NaN.
    pub checked: f64,
    /// Seconds of a column of the result, if zeros are skipped.
    pub output: f64,
    /// Seconds of an element of the weight in a dense product by plain loops, which pack nothing.
    pub unpacked: f64,
    /// Seconds of packing an element of the weight for a dense product, once for all rows.
    pub packing: f64,
}

/// The costs of products, as measured on AMD Zen 4.
pub const PRODUCTS: Products = Products {
    dense: 0.04e-9,
    filled: 0.57e-9,
    checked: 0.25e-9,
    output: 3e-9,
    unpacked: 0.09e-9,
    packing: 0.6e-9,
};

impl Products {
    /// Returns the seconds of the product of a row with a weight of `rows x columns`.
    pub fn dense_seconds(&self, [rows, columns]: [usize; 2]) -> f64 {
        rows as f64 * columns as f64 * self.dense
    }

    /// Returns the seconds of the product of a row with a weight of `rows x columns` of which `filled` elements are not
    /// 0, if the others are skipped.
    pub fn skipping_seconds(&self, [rows, columns]: [usize; 2], filled: usize) -> f64 {
        let [rows, columns, filled] = [rows, columns, filled].map(|count| count as f64);
        filled * self.filled + rows * self.checked + columns * self.output
    }

    /// Returns the number of rows up to which a dense product takes less time by plain loops than with a packed weight.
    pub(crate) const fn unpacked_rows(&self) -> usize {
        (self.packing / (self.unpacked - self.dense) + 0.5) as usize
    }

    /// Returns whether skipping zeros is faster for a weight of `rows x columns` of which `filled` elements are not 0.
    pub fn skipping_pays(&self, shape: [usize; 2], filled: usize) -> bool {
        self.skipping_seconds(shape, filled) < self.dense_seconds(shape)
    }
}

/// Costs of adding up leaves that are vectors, in seconds of a row and a tree: by the walks, which add each leaf to its
/// row's sums as they find it, or after them.
///
/// `fangorn-benches fit` times forests of narrow and of wide leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafVectors {
    /// Seconds of a value that the walks add.
    pub by_walks: f64,
    /// Seconds of a value that is added after the walks.
    pub after_walks: f64,
    /// Seconds of keeping a leaf's slot until the walks have ended.
    pub slot: f64,
}

impl LeafVectors {
    /// Returns whether vectors of `width` values take less time to add after the walks.
    pub fn are_added_after_walks(&self, width: usize) -> bool {
        self.slot + width as f64 * self.after_walks <= width as f64 * self.by_walks
    }
}

/// Seconds of writing a value, if many are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Writes {
    /// Seconds of a value whose index is looked up.
    pub indexed: f64,
    /// Seconds of a value next to the one before.
    pub filled: f64,
}

/// Rows that are copied before a matrix product packs them, so that they are in the first-level cache when it reads
/// their elements column by column. `fangorn bench` on LinearSVC of `benches/classical` takes 36 ms without the copy and
/// 33 ms with it (Zen 4).
pub(crate) const COPIED_ROWS: usize = 64;

/// Tasks of each thread from which on a plan's own tasks stay as they are. The last tasks then leave a thread idle for
/// at most a fifth of the time.
pub(crate) const TASKS_A_THREAD: usize = 4;

/// Rows that the default schedule blends with one tree before it goes on to the next one.
pub const BLENDED_ROWS: usize = 256;

/// Maximum bytes of a copy of rows that a thread keeps. Larger copies are not made.
pub const COPY_BYTES: usize = 16 << 20;

/// Rows of the batch whose estimates choose the default schedule. The [largest tile](RowTile::Largest) is full, so its
/// estimate differs from those of smaller ones.
pub const CHOICE_ROWS: usize = RowTile::Largest.rows();

/// The costs of one machine with one instruction set, in seconds of one thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Name of the instruction set.
    pub name: &'static str,
    /// Clock and caches of the machine.
    pub hardware: Hardware,
    /// Costs of the ways that the default schedule is chosen among.
    pub ways: Ways,
    /// Whether [`Machine::ways`] were measured on this machine.
    pub measured: bool,
    /// Costs of walks that take one split a step.
    pub walk: Walk,
    /// Costs of walks with one row in registers.
    pub registers: Registers,
    /// Costs of blends, which evaluate every split of a tree for a row block.
    pub blend: Blend,
    /// Costs of turning a row block into ranks.
    pub ranking: Ranking,
    /// Costs of the algorithms for contributions.
    pub contributions: ContributionCosts,
    /// Costs of adding up leaves that are vectors.
    pub leaf_vectors: LeafVectors,
    /// Costs of writing values.
    pub writes: Writes,
    /// Seconds of the least work on a row before or after its walks: scaling or transforming its margin, or ranking a
    /// few columns.
    pub row: f64,
    /// Seconds of work for which it is worth waking a thread.
    pub thread: f64,
}

/// Clock and caches of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardware {
    /// Clock rate, in cycles per second, with which cycles were converted to seconds. They are compared with each
    /// other, so a machine with another clock rate chooses in the same way.
    pub clock: f64,
    /// Bytes of data in the first-level cache of a core. [`Machine::here`] has the machine's own, if it says so.
    pub closest_cache: usize,
    /// Bytes of the second-level cache of a core. [`Machine::here`] has the machine's own, if it says so.
    pub cache: usize,
    /// Bytes of a tile's copy of rows up to which a column takes no longer to copy.
    pub near_copy: usize,
    /// Maximum seconds of a fast gather: of eight values from the first-level cache, at this clock.
    pub gather: f64,
}

impl Hardware {
    /// Returns the same hardware with the caches of this machine, if it says how large they are.
    fn with_own_caches(self) -> Self {
        let [closest_cache, cache] = caches::data_caches().unwrap_or([self.closest_cache, self.cache]);
        Self { closest_cache, cache, ..self }
    }
}

/// Costs of the ways to evaluate many rows, in seconds: the constants of [estimates](Estimate).
///
/// `fangorn-benches synthetic` times random models, and `benches/experiments/fit_estimates.py` fits these numbers
/// to the times. [`MeasuredWays`] are those of one machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ways {
    /// Seconds of a split that is blended for a [row block](ROW_BLOCK).
    pub split: f64,
    /// Seconds of bringing a split's blend near, once for each [`BLENDED_ROWS`] rows.
    pub load: f64,
    /// Seconds of a tree that is blended for a row block, besides its splits.
    pub tree: f64,
    /// Seconds of ranking a column of thresholds of a row block, besides the levels of its search.
    pub thresholds: f64,
    /// Seconds of a level of the search of a column's thresholds, of a row block.
    pub level: f64,
    /// Seconds of ranking a column of a row block that answers one question.
    pub question: f64,
    /// Seconds of reading a column of categories of a row block, besides its questions.
    pub codes: f64,
    /// Seconds of copying a column of a row block that walks read.
    pub column: f64,
    /// Seconds that copying such a column adds in the part of the copy past [`Hardware::near_copy`].
    pub far_column: f64,
    /// Seconds of a step of one row, in a whole row block that is walked through one tree.
    pub step: f64,
    /// Seconds of a step of one row with a leaf test before it, in whole row blocks that are walked through one tree.
    pub tested_step: f64,
    /// Seconds of a step of a whole row block that is walked through one tree, however few of its rows there
    /// are: the walks wait for their loads.
    pub waiting_step: f64,
    /// Seconds that a step of one row adds whose value lies in the part of a tile's copy that the closest cache
    /// has no room for.
    pub far_step: f64,
    /// Seconds of bringing a split near that walks of a [tile of rows](RowTile) reach, once for each tile.
    pub node: f64,
    /// Seconds that a step adds that asks whether a category is in a set, in a row block.
    pub set_step: f64,
    /// Seconds of a step of one row that walks several trees at a time.
    pub row_step: f64,
}

impl Ways {
    /// Number of costs.
    pub const COUNT: usize = 16;

    /// Returns the costs by the names of their fields.
    pub fn all(&self) -> [(&'static str, f64); Self::COUNT] {
        let mut copy = *self;
        copy.all_mut().map(|(name, cost)| (name, *cost))
    }

    /// Returns the costs by the names of their fields, to be changed.
    pub(crate) fn all_mut(&mut self) -> [(&'static str, &mut f64); Self::COUNT] {
        [
            ("split", &mut self.split),
            ("load", &mut self.load),
            ("tree", &mut self.tree),
            ("thresholds", &mut self.thresholds),
            ("level", &mut self.level),
            ("question", &mut self.question),
            ("codes", &mut self.codes),
            ("column", &mut self.column),
            ("far_column", &mut self.far_column),
            ("step", &mut self.step),
            ("tested_step", &mut self.tested_step),
            ("waiting_step", &mut self.waiting_step),
            ("far_step", &mut self.far_step),
            ("node", &mut self.node),
            ("set_step", &mut self.set_step),
            ("row_step", &mut self.row_step),
        ]
    }

    /// Returns the seconds of blending a row block, once its splits are near, with this many splits in this many trees.
    pub(crate) fn blended(&self, splits: usize, trees: usize) -> f64 {
        self.split * splits as f64 + self.tree * trees as f64
    }

    /// Returns the seconds of ranking a row block. It leaves out the reading of categories.
    pub(crate) fn ranked(&self, columns: RankColumns) -> f64 {
        self.thresholds * columns.thresholds as f64
            + self.level * columns.levels as f64
            + self.question * columns.questions as f64
    }
}

/// Costs of walks of few rows: mostly seconds of one step, from a node to its child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walk {
    /// Seconds of a step of one row that walks several trees at a time.
    pub one: f64,
    /// Seconds of a step of a whole row block that is walked through one tree, however few of its rows
    /// there are: the walks wait for their loads.
    pub block: f64,
    /// Seconds of a step of one row through 64 trees abreast.
    pub abreast: f64,
    /// Seconds that such a step adds whose node lies in the part of the nodes that half of the second cache has no room
    /// for.
    pub far_abreast: f64,
    /// Seconds of a step of one row through full trees, four side by side.
    pub full: f64,
    /// Seconds of a step through tiles.
    pub tiles: RowOrBlock,
}

impl Walk {
    /// Returns the number of rows below which walking rows one by one, each through several trees at a time, takes less
    /// time than walking a row block. It is at least 1, and at most the rows of a row block.
    pub(crate) fn rows_one_by_one(&self) -> usize {
        RowOrBlock { row: self.one, block: self.block }.rows()
    }
}

/// Seconds of the same work for one row alone, and for a [row block](ROW_BLOCK), however few rows it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowOrBlock {
    /// Seconds of one row alone.
    pub row: f64,
    /// Seconds of a row block.
    pub block: f64,
}

impl RowOrBlock {
    /// Returns the seconds of work of `row` seconds a row that takes as long for a row block as for `rows` rows.
    const fn of_rows(row: f64, rows: f64) -> Self {
        Self { row, block: row * rows }
    }

    /// Returns the number of rows below which rows take less time one by one than as a row block. It is at least 1, and
    /// at most the rows of a row block.
    ///
    /// ```
    /// use fangorn::cost::RowOrBlock;
    ///
    /// assert_eq!(RowOrBlock { row: 2e-9, block: 16e-9 }.rows(), 8);
    /// ```
    pub fn rows(&self) -> usize {
        // The cast saturates and makes 0 of NaN, so every cost gives a number of rows.
        ((self.block / self.row).round() as usize).clamp(1, ROW_BLOCK)
    }
}

/// Costs of a kind of tiles that a row in registers goes through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileCosts {
    /// Seconds of a tree's first tile, by the pairs of registers that the row takes: for up to 32, 64, 96 and 128
    /// columns. First tiles are read in the order of the trees, so their addresses are known early.
    pub first: [f64; 4],
    /// Seconds of a tile below another one, for as many columns.
    pub next: [f64; 4],
    /// Seconds of a mispredicted branch after a tile, with the work on the next trees that is lost. It is larger for
    /// tiles that take longer.
    pub misprediction: f64,
    /// Seconds that a tile adds which lies in the part of the tiles that half of the second cache has no room for.
    pub far: f64,
}

/// Costs of walks with the row in registers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Registers {
    /// Tiles of four levels.
    pub tile: TileCosts,
    /// Tiles of any shape, with up to 31 splits.
    pub mask_tile: TileCosts,
    /// Seconds of keeping the exit of a walk that may have ended, in a tile that all walks go through.
    pub kept: f64,
    /// Seconds of a look-up that answers all splits of a tile on one column of categories.
    pub look_up: f64,
    /// Seconds of a full tree of eight levels. A row block goes through it by walks.
    pub tree_of_eight: RowOrBlock,
}

/// Seconds of a [row block](ROW_BLOCK) through the groups that blends make of a tree's splits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blend {
    /// Seconds of a group that has only leaves below it, of one, two and three levels.
    pub bottom: [f64; 3],
    /// Seconds of a group of three levels whose children are not all leaves.
    pub seven: f64,
    /// Seconds of a group of two levels at a root.
    pub three: f64,
    /// Seconds of a group of one level at a root.
    pub one: f64,
}

/// Costs of turning a [row block](ROW_BLOCK) into ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranking {
    /// Seconds of ranking sixteen columns of a few thresholds.
    pub columns: RowOrBlock,
    /// How sparse rows become ranks.
    pub sparse: SparseRanking,
    /// Costs of a column block, if the machine has kernels for it.
    pub column_block: Option<ColumnBlock>,
}

/// Costs of ranking a [row block](ROW_BLOCK) of sparse rows, besides writing the ranks of absent values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseRanking {
    /// Seconds of an element that is ranked by itself.
    pub element: f64,
    /// Costs of ranking compressed columns.
    pub compressed: SparseColumns,
    /// Costs of writing the rows out and ranking them.
    pub written: SparseColumns,
}

/// Costs of ranking the columns of a [row block](ROW_BLOCK) of sparse rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SparseColumns {
    /// Seconds of a column of ranks, besides its elements.
    pub column: f64,
    /// Seconds of an element.
    pub element: f64,
}

impl SparseColumns {
    fn seconds(&self, elements: usize, columns: usize) -> f64 {
        self.column * columns as f64 + self.element * elements as f64
    }
}

/// A way to rank sparse rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SparseWay {
    /// The elements that the rows hold, one by one.
    Elements,
    /// Of each column, only the values that the rows hold.
    CompressedColumns,
    /// The rows are written out.
    WrittenOut,
}

impl SparseRanking {
    /// Returns the fastest way to rank a row block of this many elements in this many columns of ranks.
    ///
    /// ```
    /// use fangorn::cost::{Machine, SparseWay};
    ///
    /// let sparse = Machine::here().ranking.sparse;
    /// assert_eq!(sparse.way(640, 1000, false), SparseWay::Elements);
    /// assert_eq!(sparse.way(6400, 1000, true), SparseWay::CompressedColumns);
    /// assert_eq!(sparse.way(64_000, 1000, true), SparseWay::WrittenOut);
    /// ```
    pub fn way(&self, elements: usize, columns: usize, has_kernels: bool) -> SparseWay {
        let compressed = if has_kernels { self.compressed.seconds(elements, columns) } else { f64::INFINITY };
        let ways = [
            (SparseWay::Elements, self.element * elements as f64),
            (SparseWay::CompressedColumns, compressed),
            (SparseWay::WrittenOut, self.written.seconds(elements, columns)),
        ];
        ways.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(SparseWay::WrittenOut, |(way, _)| way)
    }
}

/// Seconds of ranking a [row block](ROW_BLOCK) of one column block, sixteen adjacent columns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnBlock {
    /// Seconds of copying the values to columns.
    pub copy: f64,
    /// Seconds of a compare of all sixteen columns with a threshold each, on the rows themselves.
    pub layer: f64,
    /// Seconds that the threshold of one column adds to a compare of all sixteen columns.
    pub threshold: f64,
    /// Seconds of a search of one column's thresholds, besides its levels.
    pub search: f64,
    /// Seconds of one level of a search of a column's thresholds.
    pub level: f64,
}

/// Costs of path-dependent contributions, in seconds of one row. Rows lie side by side in full registers.
///
/// `fangorn-benches fit` times both algorithms on drawn forests and fits these numbers to the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContributionCosts {
    /// Seconds of a test of a column's value.
    pub test: f64,
    /// Seconds of a split of a quadrature, besides its test and its points.
    pub split: f64,
    /// Seconds of a split at one point of a quadrature.
    pub point: f64,
    /// Seconds of one bit of a pattern.
    pub bit: f64,
    /// Seconds of adding a number from a table, besides the reads.
    pub lookup: f64,
    /// Seconds of reading a register or a cache line of entries from a table.
    pub read: f64,
}

/// What the contributions of a row take: how often there is each of the [costs](ContributionCosts).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContributionWork {
    /// Tests of a column's value.
    pub tests: usize,
    /// Splits of quadratures.
    pub splits: usize,
    /// Splits of quadratures, each times its number of points.
    pub points: usize,
    /// Bits of patterns.
    pub bits: usize,
    /// Numbers that are added from tables.
    pub lookups: usize,
    /// Reads of a register or a cache line of entries from tables.
    pub reads: usize,
}

impl ContributionWork {
    /// Returns the counts in the order of [`ContributionCosts::all`].
    pub fn all(&self) -> [usize; 6] {
        [self.tests, self.splits, self.points, self.bits, self.lookups, self.reads]
    }
}

impl std::ops::Add for ContributionWork {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tests: self.tests + other.tests,
            splits: self.splits + other.splits,
            points: self.points + other.points,
            bits: self.bits + other.bits,
            lookups: self.lookups + other.lookups,
            reads: self.reads + other.reads,
        }
    }
}

impl ContributionCosts {
    /// Returns the costs, with their names.
    pub fn all(&self) -> [(&'static str, f64); 6] {
        [
            ("contributions.test", self.test),
            ("contributions.split", self.split),
            ("contributions.point", self.point),
            ("contributions.bit", self.bit),
            ("contributions.lookup", self.lookup),
            ("contributions.read", self.read),
        ]
    }

    /// Returns the estimated seconds of a row.
    pub fn seconds(&self, work: &ContributionWork) -> f64 {
        self.all().iter().zip(work.all()).map(|((_, cost), count)| cost * count as f64).sum()
    }
}

impl Machine {
    /// Returns the costs that choices on this machine read: the shipped costs for its [instruction
    /// set](crate::cpu::ISA), with the sizes of its own caches and with the [ways](MeasuredWays) that were measured on it,
    /// if some are kept. The first call reads them, and later ones return the same.
    pub fn here() -> &'static Self {
        static HERE: OnceLock<Machine> = OnceLock::new();
        HERE.get_or_init(|| {
            let shipped = Self::shipped_here();
            // Costs that can't be read are as good as none: every choice gives the same results. Tests of this crate say
            // the same on every machine.
            let kept = if cfg!(test) { None } else { MeasuredWays::kept().ok().flatten() };
            Self {
                hardware: shipped.hardware.with_own_caches(),
                ways: kept.map_or(shipped.ways, |kept| kept.ways),
                measured: kept.is_some(),
                ..*shipped
            }
        })
    }

    /// Returns the shipped costs for this machine's instruction set.
    pub fn shipped_here() -> &'static Self {
        match isa() {
            Isa::Avx512 => &shipped::AVX512,
            Isa::Avx2 => &shipped::AVX2,
            // NEON's walks are the portable walks. Its blends take vectors as wide as a compiler makes of portable
            // blends.
            Isa::Neon | Isa::Portable => &shipped::PORTABLE,
        }
    }

    /// Returns the part of tables of `bytes` bytes that half of the second cache has no room for. Rows, sums and
    /// whatever else the processor does take the other half.
    pub(crate) fn far_part(&self, bytes: usize) -> f64 {
        (1.0 - self.hardware.cache as f64 / 2.0 / bytes as f64).max(0.0)
    }

    /// Returns the rows of a task that ranks rows before they are walked, or scales or transforms margins. With fewer rows
    /// it does not pay to wake a thread.
    pub(crate) fn rows_a_task(&self) -> usize {
        // Whatever the costs are, a task has at least a row block and at most a million rows.
        ((self.thread / self.row) as usize).clamp(ROW_BLOCK, 1 << 20).next_multiple_of(ROW_BLOCK)
    }

    /// Returns the seconds of a gather of eight values on this machine, measured now, at the clock of
    /// [`Hardware::clock`]; `None` without AVX2.
    pub fn measured_gather() -> Option<f64> {
        #[cfg(target_arch = "x86_64")]
        return gather::seconds_of_a_gather();
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    /// Returns all machines that there are costs for, the one with the widest instructions first.
    pub fn shipped() -> [&'static Self; 3] {
        [&shipped::AVX512, &shipped::AVX2, &shipped::PORTABLE]
    }
}
