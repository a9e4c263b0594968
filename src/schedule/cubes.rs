//! Schedules of a GPU in the order of their estimates: cubes whose units share the trees of rows and add up in shared
//! memory (SilvanForge, section 8).

use super::{Axis, Gpu, GpuDim, LayoutKind, Schedule, presets::interleaved};
use crate::{
    cost::{CUBES, CubeForest, CubeShape, Estimate, GpuFacts, LEAST_ROW_UNITS},
    forest::{Forest, ForestStats},
};

/// The greatest number of rows of a cube.
const MOST_ROWS: u32 = 256;
/// The greatest number of units of a row for each tree. More than one leaves units idle, but they share the loads of
/// the row.
const UNITS_PER_TREE: u32 = 4;
/// Least number of units of a cube, if the device has as many.
const LEAST_UNITS: u32 = 64;

/// A schedule of a GPU, with its estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedCube {
    /// The shape of its cubes.
    pub shape: CubeShape,
    /// The estimate.
    pub estimate: Estimate,
    /// The schedule.
    pub schedule: Schedule,
}

/// Returns schedules for batches of `rows` rows on a GPU with shared memory, the one with the least estimate first. The
/// first one is the default schedule for such batches.
///
/// Each has cubes of another shape: a power of two of rows, a power of two of units that share the trees of each, and
/// cached rows or not, as far as the device's units and shared memory allow.
///
/// ```
/// use fangorn::{import, schedule::{Gpu, ranked_cubes}};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &Default::default())?;
/// let [few, many] = [64, 1 << 20].map(|rows| ranked_cubes(&forest, &Gpu::PORTABLE, rows));
/// assert!(few.is_sorted_by(|a, b| a.estimate.seconds() <= b.estimate.seconds()));
/// // With few rows, many units share each.
/// assert!(few[0].shape.row_units > many[0].shape.row_units);
/// # Ok::<(), fangorn::Error>(())
/// ```
pub fn ranked_cubes(forest: &Forest, gpu: &Gpu, rows: usize) -> Vec<RankedCube> {
    let stats = forest.stats();
    let facts = GpuFacts {
        multiprocessors: gpu.multiprocessors,
        // A multiprocessor has more than it gives to one cube, except where one cube may have all of it.
        shared_bytes: gpu.shared_bytes.max(LEAST_SHARED),
    };
    let of_forest = cube_forest(forest, &stats);
    let ranked = shapes(gpu, &of_forest).into_iter().map(|shape| RankedCube {
        shape,
        estimate: CUBES.estimate(&facts, &of_forest, shape, rows),
        schedule: schedule(shape, &stats),
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|a, b| a.estimate.seconds().total_cmp(&b.estimate.seconds()));
    ranked
}

/// Bytes of shared memory that a multiprocessor has at least.
const LEAST_SHARED: u32 = 64 << 10;

/// Returns the schedule with the least estimate.
pub(super) fn fastest(forest: &Forest, gpu: &Gpu, rows: usize) -> Schedule {
    // There is a shape on every device: one row a unit.
    ranked_cubes(forest, gpu, rows).into_iter().next().map_or_else(Schedule::new, |first| first.schedule)
}

/// Returns the numbers that describe a forest to the estimate. A row goes left or right with even chances.
fn cube_forest(forest: &Forest, stats: &ForestStats) -> CubeForest {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let steps = |(depth, leaves): (usize, &usize)| depth as f64 * *leaves as f64 * 0.5f64.powi(depth as i32);
    let all: f64 = stats.leaf_depths.iter().enumerate().map(steps).sum();
    CubeForest {
        trees: number(stats.trees),
        columns: number(stats.features.len()),
        outputs: forest.outputs,
        steps: all / stats.trees.max(1) as f64,
    }
}

/// Returns the shapes that the device can carry out for the forest. There is always one.
fn shapes(gpu: &Gpu, forest: &CubeForest) -> Vec<CubeShape> {
    let powers = |most: u32| (0..=most.max(1).ilog2()).map(|power| 1u32 << power);
    let most_units = gpu.max_units.max(1);
    let most_of_a_row = forest.trees.saturating_mul(UNITS_PER_TREE).min(most_units).min(gpu.max_dim[1]);
    let fits = |shape: &CubeShape| {
        // An exact sum has two words.
        let exact = CubeForest { outputs: forest.outputs.saturating_mul(2), ..*forest };
        shape.shared_bytes(&exact).is_some_and(|bytes| bytes <= gpu.shared_bytes)
    };
    let mut shapes = Vec::new();
    for rows in powers(MOST_ROWS.min(most_units).min(gpu.max_dim[0])) {
        for row_units in powers(most_of_a_row).filter(|units| rows.saturating_mul(*units) <= most_units) {
            let caches = [true, false].map(|cached| CubeShape { rows, row_units, cached });
            shapes.extend(
                caches.into_iter().filter(|shape| fits(shape) && (!shape.cached || forest.columns > 0)),
            );
        }
    }
    // Planes of fewer units waste the others.
    let full = |shape: &CubeShape| shape.rows.saturating_mul(shape.row_units) >= LEAST_UNITS;
    let shared = |shape: &CubeShape| shape.row_units >= LEAST_ROW_UNITS.min(forest.trees);
    for wanted in [&full as &dyn Fn(&CubeShape) -> bool, &shared] {
        if shapes.iter().any(wanted) {
            shapes.retain(wanted);
        }
    }
    shapes
}

fn schedule(CubeShape { rows, row_units, cached }: CubeShape, stats: &ForestStats) -> Schedule {
    let mut schedule = Schedule::new().tile("batch", "b0", "b1", rows);
    if row_units > 1 {
        schedule = schedule.tile("tree", "t0", "t1", row_units).reorder(["b0", "b1", "t1", "t0"]);
    }
    schedule =
        schedule.gpu_dimension("b0", GpuDim::Grid(Axis::X)).gpu_dimension("b1", GpuDim::Block(Axis::X));
    if row_units > 1 {
        schedule = schedule.gpu_dimension("t1", GpuDim::Block(Axis::Y)).shared_reduce("t1");
    }
    if cached {
        schedule = schedule.cache("b0");
    }
    // With one row a cube, adjacent units walk adjacent trees, whose nodes then lie together.
    schedule.layout(if rows == 1 { interleaved(stats) } else { LayoutKind::Sparse })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_shape_for_every_device_and_forest() {
        for max_units in [1, 2, 32, 256, 1024] {
            for (trees, columns, outputs) in [(0, 0, 0), (1, 1, 1), (7, 5000, 3), (26_000, 16, 1000)] {
                for shared_bytes in [0, 16 << 10, 227 << 10] {
                    let gpu = Gpu { max_units, max_dim: [max_units; 3], shared_bytes, ..Gpu::PORTABLE };
                    let forest = CubeForest { trees, columns, outputs, steps: 5.0 };
                    let shapes = shapes(&gpu, &forest);
                    assert!(!shapes.is_empty(), "{gpu:?} {forest:?}");
                    for shape in shapes {
                        assert!(shape.rows * shape.row_units <= max_units, "{shape:?}");
                        assert!(shape.shared_bytes(&forest).is_some_and(|bytes| bytes <= shared_bytes));
                        assert!(shape.row_units <= (4 * trees).max(1), "{shape:?}");
                    }
                }
            }
        }
    }
}
