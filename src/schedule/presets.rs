//! Named schedules. Each says in the schedule language what a known system does.

use super::{
    Axis, BatchSchedules, Device, Evaluation, FewRows, Gpu, GpuDim, LayoutKind, Schedule, Size, Tiler, cubes,
};
use crate::{
    cost::{BLENDED_ROWS, CHOICE_ROWS, ForestFacts, Machine, ReachedSplits, RowTile, Work},
    forest::{Forest, ForestStats, Targets},
    ranks::{Choice, Ranks, Width},
};

/// Rows of the batches that a GPU has default schedules for.
const GPU_BATCHES: [usize; 5] = [64, 512, 4096, 32_768, 262_144];

/// A named schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// The schedule that Fangorn takes if no schedule is given.
    Default,
    /// XGBoost on the CPU: each chunk of 64 rows runs against every tree, chunks in parallel (SilvanForge,
    /// section 3.2).
    Xgboost,
    /// Treebeard, one tree at a time: a tree runs against all rows of a row block, 8 rows interleaved,
    /// walks unrolled.
    TreebeardOneTree,
    /// Treebeard with tiles: a tree runs against all rows of a row block, 8 rows interleaved, eight nodes
    /// decided in one step, walks peeled down to the first leaf.
    TreebeardTiles,
    /// Treebeard, one row at a time: a row runs against all trees, 8 trees interleaved.
    TreebeardOneRow,
    /// Tahoe's direct method: a unit walks all trees for its row (SilvanForge, section 3.2).
    TahoeDirect,
    /// Tahoe's shared data: a cube walks all trees for one cached row, in parallel (SilvanForge, section
    /// 3.2).
    TahoeSharedData,
    /// Tahoe's shared forest: rows over grid and block, the whole forest in shared memory.
    TahoeSharedForest,
    /// Tahoe's shared partial forest: rows over grid and block, groups of trees over the grid, each group in
    /// shared memory.
    TahoeSharedPartialForest,
    /// RAPIDS FIL: one cube for each row, trees over 256 units, nodes interleaved (SilvanForge, section 1).
    RapidsFil,
    /// nvForest with its breadth-first layout: a few rows a cube, each row's trees over many units.
    Nvforest,
    /// nvForest with its depth-first layout: a few rows a cube, each row's trees over many units, and each
    /// node followed by its left child.
    NvforestDepthFirst,
    /// nvForest with its layered layout: a few rows a cube, each row's trees over many units, and the trees'
    /// levels interleaved.
    NvforestLayered,
    /// Hummingbird's perfect-tree traversal: every pair of a row and a tree at once, trees filled up to one
    /// depth, and sums in a kernel of their own.
    Hummingbird,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 14] = [
        Self::Default,
        Self::Xgboost,
        Self::TreebeardOneTree,
        Self::TreebeardTiles,
        Self::TreebeardOneRow,
        Self::TahoeDirect,
        Self::TahoeSharedData,
        Self::TahoeSharedForest,
        Self::TahoeSharedPartialForest,
        Self::RapidsFil,
        Self::Nvforest,
        Self::NvforestDepthFirst,
        Self::NvforestLayered,
        Self::Hummingbird,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Xgboost => "xgboost",
            Self::TreebeardOneTree => "treebeard_one_tree",
            Self::TreebeardTiles => "treebeard_tiles",
            Self::TreebeardOneRow => "treebeard_one_row",
            Self::TahoeDirect => "tahoe_direct",
            Self::TahoeSharedData => "tahoe_shared_data",
            Self::TahoeSharedForest => "tahoe_shared_forest",
            Self::TahoeSharedPartialForest => "tahoe_shared_partial_forest",
            Self::RapidsFil => "rapids_fil",
            Self::Nvforest => "nvforest",
            Self::NvforestDepthFirst => "nvforest_depth_first",
            Self::NvforestLayered => "nvforest_layered",
            Self::Hummingbird => "hummingbird",
        }
    }

    /// Returns the preset with the name `name`, or `None`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Returns the schedule for a forest on a device. It is [`Preset::schedule`], but the default preset is
    /// [`Preset::TahoeDirect`] on a device where kernels can't have shared memory or where a barrier is
    /// expensive, and on another GPU it is [its schedule](Preset::schedules_on) for batches of
    /// [`BatchSchedules::USUAL_ROWS`].
    pub fn schedule_on(self, forest: &Forest, device: Device) -> Schedule {
        match (self, device) {
            (Self::Default, Device::Gpu(gpu)) if gpu.units_are_threads || !gpu.shared_memory => {
                Self::TahoeDirect.schedule(forest, true)
            }
            (Self::Default, Device::Gpu(gpu)) => cubes::fastest(forest, &gpu, BatchSchedules::USUAL_ROWS),
            (preset, device) => preset.schedule(forest, device != Device::Cpu),
        }
    }

    /// Returns the schedules for a forest on a device, by batch size. [`Preset::Default`] has five on a GPU with shared
    /// memory, every other preset has one.
    ///
    /// ```
    /// use fangorn::{Forest, schedule::{Device, Preset}};
    ///
    /// let forest = Forest::builder(4, 1).build()?;
    /// let schedules = Preset::Default.schedules_on(&forest, Device::PORTABLE_GPU);
    /// assert_eq!(schedules.buckets().map(|(rows, _)| rows).collect::<Vec<_>>(), [64, 512, 4096, 32768, 262144]);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    pub fn schedules_on(self, forest: &Forest, device: Device) -> BatchSchedules {
        match device {
            Device::Gpu(gpu) if self == Self::Default && !gpu.units_are_threads && gpu.shared_memory => {
                let by_batch = GPU_BATCHES.map(|rows| (rows, cubes::fastest(forest, &gpu, rows)));
                BatchSchedules::new(by_batch).unwrap_or_else(|| self.schedule_on(forest, device).into())
            }
            _ => self.schedule_on(forest, device).into(),
        }
    }

    /// Returns the schedule for a forest. `gpu` maps loops that the preset leaves unmapped to the grid and
    /// the block, so that each preset runs on either target.
    pub fn schedule(self, forest: &Forest, gpu: bool) -> Schedule {
        let grid = GpuDim::Grid(Axis::X);
        let block = GpuDim::Block(Axis::X);
        let stats = forest.stats();
        let layout = layout_for(&stats);
        let chunks = |s: Schedule| match gpu {
            false => s.parallel("b0"),
            true => s.gpu_dimension("b0", grid).gpu_dimension("b1", block),
        };
        match self {
            Self::Default if gpu => cubes::fastest(forest, &Gpu::PORTABLE, BatchSchedules::USUAL_ROWS),
            Self::Default => default_cpu(forest, &stats),
            Self::Xgboost => {
                chunks(Schedule::new().tile("batch", "b0", "b1", 64u32).reorder(["b0", "tree", "b1"]))
                    .layout(LayoutKind::Sparse)
            }
            Self::TreebeardOneTree => {
                // On a CPU a load is cheap and cache is not, so Treebeard is at its best with the sparse
                // layout.
                let layout = if gpu { layout } else { LayoutKind::Sparse };
                one_tree(gpu).unroll_walk("b3", None).layout(layout)
            }
            // A GPU has no tiles.
            Self::TreebeardTiles if gpu => one_tree(gpu).peel_walk("b3", 8).layout(LayoutKind::Sparse),
            Self::TreebeardTiles => {
                one_tree(gpu).peel_walk("b3", 8).tile_nodes(8, Tiler::Uniform).layout(LayoutKind::Sparse)
            }
            Self::TreebeardOneRow => {
                // Trees with outputs of their own need more registers. On a GPU, eight such trees together
                // spill.
                let own_outputs = forest.outputs > 1 && forest.targets != Targets::All;
                let together = if gpu && own_outputs { 4u32 } else { 8 };
                let tiled =
                    Schedule::new().tile("batch", "b0", "b1", 64u32).tile("tree", "t0", "t1", together);
                chunks(tiled).interleave("t1").unroll_walk("t1", None).layout(layout)
            }
            Self::TahoeDirect => {
                let tiled = Schedule::new().tile("batch", "b0", "b1", 64u32).reorder(["b0", "b1", "tree"]);
                tiled.gpu_dimension("b0", grid).gpu_dimension("b1", block).layout(LayoutKind::Sparse)
            }
            Self::TahoeSharedData => {
                let ordered = Schedule::new().reorder(["batch", "tree"]).gpu_dimension("batch", grid);
                ordered.gpu_dimension("tree", block).cache("batch").layout(LayoutKind::Sparse)
            }
            Self::TahoeSharedForest => {
                let tiled =
                    Schedule::new().tile("batch", "b0", "b1", 64u32).tile("tree", "t0", "t1", Size::Trees);
                let ordered = tiled.reorder(["b0", "t0", "b1", "t1"]);
                ordered
                    .gpu_dimension("b0", grid)
                    .gpu_dimension("b1", block)
                    .cache("t0")
                    .layout(LayoutKind::Sparse)
            }
            Self::TahoeSharedPartialForest => {
                let group = trees_of_a_cache(&stats);
                let tiled = Schedule::new().tile("batch", "b0", "b1", 64u32).tile("tree", "t0", "t1", group);
                let ordered = tiled.reorder(["b0", "t0", "b1", "t1"]);
                let mapped = ordered.gpu_dimension("b0", grid).gpu_dimension("t0", GpuDim::Grid(Axis::Y));
                mapped.gpu_dimension("b1", block).cache("t0").layout(LayoutKind::Sparse)
            }
            Self::RapidsFil => {
                let tiled = Schedule::new().tile("tree", "t0", "t1", 256u32).reorder(["batch", "t1", "t0"]);
                let mapped = tiled.gpu_dimension("batch", grid).gpu_dimension("t1", block);
                mapped.cache("batch").shared_reduce("t1").layout(interleaved(&stats))
            }
            Self::Nvforest => nvforest().layout(LayoutKind::Sparse),
            Self::NvforestDepthFirst => nvforest().layout(LayoutKind::DepthFirst),
            Self::NvforestLayered => nvforest().layout(interleaved(&stats)),
            Self::Hummingbird => {
                let tiled = Schedule::new().tile("batch", "b0", "b1", 256u32).reorder(["b0", "tree", "b1"]);
                let mapped = tiled.gpu_dimension("b0", grid).gpu_dimension("tree", GpuDim::Grid(Axis::Y));
                mapped.gpu_dimension("b1", block).unroll_walk("b1", None).layout(layout)
            }
        }
    }
}

/// Returns a schedule of one tree against 64 rows, 8 rows interleaved.
fn one_tree(gpu: bool) -> Schedule {
    let tiled = Schedule::new().tile("batch", "b0", "b1", 64u32).tile("b1", "b2", "b3", 8u32);
    let ordered = tiled.reorder(["b0", "tree", "b2", "b3"]);
    let mapped = match gpu {
        false => ordered.parallel("b0"),
        true => {
            ordered.gpu_dimension("b0", GpuDim::Grid(Axis::X)).gpu_dimension("b2", GpuDim::Block(Axis::X))
        }
    };
    mapped.interleave("b3")
}

/// Returns the schedule for a CPU. It evaluates a forest in the way that takes the least time
/// by its [estimate](crate::cost::Estimate), for [`CHOICE_ROWS`] rows.
fn default_cpu(forest: &Forest, stats: &ForestStats) -> Schedule {
    let facts = cpu_facts(forest, stats);
    let fastest = Machine::here().fastest(&facts, &Work::OF_MANY_ROWS, CHOICE_ROWS);
    cpu_schedule(fastest.unwrap_or(Work::UntestedWalks(RowTile::Small)))
}

/// Returns a schedule that evaluates row blocks in this way. `fewRows` is `auto`, except for [`Work::RowWalks`], which
/// walks a few rows row by row.
pub(crate) fn cpu_schedule(work: Work) -> Schedule {
    match work {
        Work::Blends => blended().few_rows(FewRows::Auto),
        Work::UntestedWalks(tile) => walked(true, tile).few_rows(FewRows::Auto),
        Work::TestedWalks(tile) => walked(false, tile).few_rows(FewRows::Auto),
        Work::RowWalks => walked(false, RowTile::Small).few_rows(FewRows::Rows),
    }
}

/// The greatest number of leaves of a tree that is evaluated by blends.
const MOST_BLENDED_LEAVES: usize = 256;

/// Returns the numbers that describe a forest to the cost model.
pub(crate) fn cpu_facts(forest: &Forest, stats: &ForestStats) -> ForestFacts {
    let mean = |counts: &[usize]| {
        let sum: f64 = counts.iter().enumerate().map(|(depth, count)| depth as f64 * *count as f64).sum();
        sum / counts.iter().sum::<usize>().max(1) as f64
    };
    let columns = Ranks::columns_of(forest, Width::U8).ok();
    ForestFacts {
        trees: stats.trees,
        splits: stats.leaves.saturating_sub(stats.trees),
        set_splits: stats.features.iter().map(|feature| feature.category_splits).sum(),
        leaf_depth: mean(&stats.leaf_depths),
        tree_depth: mean(&stats.depths),
        row_columns: forest.features.len(),
        columns: stats.features.len(),
        category_columns: stats.features.iter().filter(|feature| feature.category_splits > 0).count(),
        rank_columns: columns.unwrap_or_default(),
        reached: ReachedSplits::new(forest.split_probabilities()),
        blends: stats.trees > 0
            && columns.is_some()
            && forest.trees.iter().all(|t| t.nodes.len() < 2 * MOST_BLENDED_LEAVES),
    }
}

/// Returns the schedule that evaluates every split of a tree for row blocks at once.
fn blended() -> Schedule {
    let ranked = Schedule::new().ranks(Some(Choice::U8)).tile("batch", "b0", "b1", BLENDED_ROWS as u32);
    let near = ranked.reorder(["b0", "tree", "b1"]).parallel("b0").cache("b0");
    near.evaluate("b1", Evaluation::Blend).layout(LayoutKind::Sparse)
}

/// Returns a schedule that takes one tree for a tile of rows at a time, with the columns in use cached, and walks
/// with or without leaf tests. It was the fastest of the orders, layouts and caches measured on trained
/// models (`benches/NOTEBOOK.md`).
fn walked(untested: bool, tile: RowTile) -> Schedule {
    let tiled = Schedule::new().tile("batch", "b0", "b1", tile.rows() as u32);
    let ordered = tiled.reorder(["b0", "tree", "b1"]);
    let near = ordered.parallel("b0").cache("b0");
    let walked = if untested { near.unroll_walk("b1", None) } else { near };
    walked.layout(LayoutKind::Sparse)
}

/// Returns the array layout if filling up trees costs little memory, otherwise the sparse layout.
fn layout_for(stats: &ForestStats) -> LayoutKind {
    let depth = stats.depths.len().saturating_sub(1) as u32;
    let full = 2f64.powi(depth as i32) * stats.trees as f64;
    if depth <= 10 && full <= 8.0 * stats.leaves.max(1) as f64 {
        LayoutKind::Array
    } else {
        LayoutKind::Sparse
    }
}

/// Returns the interleaved layout if full trees of the greatest depth have not many more nodes than the forest,
/// otherwise the sparse layout.
pub(super) fn interleaved(stats: &ForestStats) -> LayoutKind {
    let depth = stats.depths.len().saturating_sub(1) as i32;
    let full = 2f64.powi(depth + 1) * stats.trees as f64;
    if full <= 65_536f64.max(32.0 * stats.leaves as f64) { LayoutKind::Reorg } else { LayoutKind::Sparse }
}

/// Returns how many trees fill most of the least shared memory that devices have, at two words a node.
fn trees_of_a_cache(stats: &ForestStats) -> u32 {
    const WORDS: usize = (10 << 10) / 4;
    let nodes = (2 * stats.leaves / stats.trees.max(1)).max(1);
    (WORDS / 2 / nodes).clamp(1, 1 << 16) as u32
}

/// Returns nvForest's schedule without a layout: four rows a cube, 64 units for the trees of each row.
fn nvforest() -> Schedule {
    let tiled = Schedule::new().tile("batch", "b0", "b1", 4u32).tile("tree", "t0", "t1", 64u32);
    let ordered = tiled.reorder(["b0", "b1", "t1", "t0"]);
    let mapped =
        ordered.gpu_dimension("b0", GpuDim::Grid(Axis::X)).gpu_dimension("b1", GpuDim::Block(Axis::X));
    mapped.gpu_dimension("t1", GpuDim::Block(Axis::Y)).cache("b0").shared_reduce("t1")
}
