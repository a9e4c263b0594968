//! Estimates of a batch's time on a GPU, for cubes whose units share the trees of rows.
//!
//! A multiprocessor runs as many cubes side by side as it has units and shared memory for. If there are more cubes, they
//! take turns, in *waves*. An estimate has two halves. The first is what one unit does, one thing after the other, in each
//! wave: it waits for each load before the next step. The second is what all units of a multiprocessor do together, which
//! takes time even if no unit waits. Few rows make the first half large, many rows the second.

use super::estimate::{Estimate, Term};

/// Costs of a GPU, in seconds: the constants of [estimates of cubes](CubeCosts::estimate).
///
/// `fangorn-benches gpu-synthetic` times cubes of many shapes on random models, and
/// `benches/experiments/fit_cubes.py` fits these numbers to the times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubeCosts {
    /// Name of the GPU that they were measured on.
    pub name: &'static str,
    /// Seconds of a call and the wait for its result, besides the kernel.
    pub call: f64,
    /// Seconds of a step of one unit, from a node to its child.
    pub step: f64,
    /// Seconds of a load of one unit from a row, into the row cache.
    pub load: f64,
    /// Seconds of a level at which units add up their sums of one output in pairs.
    pub level: f64,
    /// Seconds of a step, if a multiprocessor takes as many steps as it can.
    pub every_step: f64,
    /// Seconds of a load into the row cache, if a multiprocessor makes as many as it can.
    pub every_load: f64,
    /// Seconds of a unit's sum of one output, of all sums of a multiprocessor.
    pub every_sum: f64,
    /// Seconds of starting a cube, of all cubes of a multiprocessor.
    pub every_cube: f64,
    /// Seconds that a step takes longer if rows are not cached.
    pub uncached_step: f64,
    /// Seconds that a step takes longer if the rows of its multiprocessor do not fit the first-level cache either.
    pub missed_step: f64,
    /// Seconds of adding a leaf to one of several sums that a unit keeps for itself.
    pub own_sum: f64,
    /// Seconds of compiling a schedule's kernel, up to the first result.
    pub compiling: f64,
}

/// The least number of units of a row, if there are as many trees. On an NVIDIA H200 four took 0.4 to 0.7 of the time of
/// one and two for 131 072 rows of four trained models, which the costs, fitted to random ones, do not show.
pub(crate) const LEAST_ROW_UNITS: u32 = 4;

/// If there are fewer private copies of a sum than this, one unit adds them up, because halving their number takes a
/// barrier each time. It was not measured on a GPU.
pub(crate) const FEW_COPIES: u32 = 8;

/// The costs of GPUs, as measured on an NVIDIA H200 with CUDA, 28 November 2026.
pub const CUBES: CubeCosts = CubeCosts {
    name: "NVIDIA H200",
    call: 62.2e-6,
    step: 393e-9,
    load: 118e-9,
    level: 87.7e-9,
    every_step: 80.6e-12,
    every_load: 291e-12,
    every_sum: 222e-12,
    every_cube: 64.2e-9,
    uncached_step: 110e-12,
    missed_step: 453e-12,
    own_sum: 1.29e-9,
    compiling: 45e-3,
};

/// The greatest number of units that a multiprocessor runs side by side.
const RESIDENT_UNITS: u32 = 2048;
/// The greatest number of cubes that a multiprocessor runs side by side.
const RESIDENT_CUBES: u32 = 32;
/// Bytes of shared memory that a cube takes besides its own.
const SHARED_OVERHEAD: u32 = 1024;
/// Bytes of a row's values that a multiprocessor's first-level cache holds, of rows that are not cached.
const CACHED_ROW_BYTES: f64 = 100e3;
/// Up to this many waves, the last one takes as long as the others although it is not full.
const WHOLE_WAVES: f64 = 4.0;

/// What a GPU can do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFacts {
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of shared memory of a multiprocessor.
    pub shared_bytes: u32,
}

/// The numbers of a forest from which the time of its cubes is estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CubeForest {
    /// Number of trees.
    pub trees: u32,
    /// Number of columns that are loaded of a row.
    pub columns: u32,
    /// Number of outputs.
    pub outputs: u32,
    /// Mean number of steps of a walk through one tree.
    pub steps: f64,
}

/// The shape of a cube whose units share the trees of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CubeShape {
    /// Rows of a cube.
    pub rows: u32,
    /// Units that share the trees of a row. They add up their sums in shared memory.
    pub row_units: u32,
    /// Whether the cube's rows are cached in shared memory.
    pub cached: bool,
}

impl CubeShape {
    /// Returns the bytes of shared memory of a cube; `None` if they are too many for a number.
    pub fn shared_bytes(self, forest: &CubeForest) -> Option<u32> {
        let rows = if self.cached { self.rows.checked_mul(forest.columns)? } else { 0 };
        let units = self.rows.checked_mul(self.row_units)?;
        let sums = if self.row_units > 1 { units.checked_mul(forest.outputs)? } else { 0 };
        rows.checked_add(sums)?.checked_mul(4)
    }
}

impl CubeCosts {
    /// Estimates the time of a batch of `rows` rows in cubes of a shape.
    ///
    /// ```
    /// use fangorn::cost::{CUBES, CubeForest, CubeShape, GpuFacts};
    ///
    /// let gpu = GpuFacts { multiprocessors: 132, shared_bytes: 227 << 10 };
    /// let forest = CubeForest { trees: 100, columns: 28, outputs: 1, steps: 6.0 };
    /// let seconds = |rows, row_units, batch| {
    ///     let shape = CubeShape { rows, row_units, cached: true };
    ///     CUBES.estimate(&gpu, &forest, shape, batch).seconds()
    /// };
    /// // Few rows need many units for each, many rows do not.
    /// assert!(seconds(1, 256, 512) < seconds(32, 16, 512));
    /// assert!(seconds(1, 256, 1 << 20) > seconds(32, 16, 1 << 20));
    /// ```
    pub fn estimate(&self, gpu: &GpuFacts, forest: &CubeForest, shape: CubeShape, rows: usize) -> Estimate {
        let CubeShape { rows: cube_rows, row_units, cached } = shape;
        let units = cube_rows.saturating_mul(row_units).max(1);
        let shared = shape.shared_bytes(forest).unwrap_or(u32::MAX).saturating_add(SHARED_OVERHEAD);
        let resident = RESIDENT_CUBES.min(RESIDENT_UNITS / units).min(gpu.shared_bytes / shared).max(1);
        let multiprocessors = f64::from(gpu.multiprocessors.max(1));
        let cubes = rows.div_ceil(cube_rows.max(1) as usize) as f64;
        let turns = cubes / (multiprocessors * f64::from(resident));
        let waves = if turns <= WHOLE_WAVES { turns.ceil().max(1.0) } else { turns };
        let one = |count: f64| waves * count;
        let all = |count: f64| rows as f64 * count / multiprocessors;
        let walks = f64::from(forest.trees.div_ceil(row_units.max(1)));
        let (columns, outputs) = (f64::from(forest.columns), f64::from(forest.outputs));
        let (shares, of_units) = (row_units > 1, f64::from(row_units.max(1)));
        let steps = f64::from(forest.trees) * forest.steps;
        let row_bytes = f64::from(resident) * f64::from(cube_rows) * columns * 4.0;
        let missed = if cached { 0.0 } else { (1.0 - CACHED_ROW_BYTES / row_bytes.max(1.0)).max(0.0) };
        let if_some = |is: bool, count: f64| if is { count } else { 0.0 };
        let term = |what, cost, count, each| Term { what, cost, count, each };
        Estimate {
            terms: vec![
                term("call and its wait", "call", 1.0, self.call),
                term("steps of a unit", "step", one(walks * forest.steps), self.step),
                term(
                    "loads of a unit into the row cache",
                    "load",
                    one(if_some(cached, (columns / of_units).ceil())),
                    self.load,
                ),
                term(
                    "levels of adding up sums",
                    "level",
                    one(if_some(shares, of_units.log2() * outputs)),
                    self.level,
                ),
                term("steps of a multiprocessor", "every_step", all(steps), self.every_step),
                term(
                    "loads of a multiprocessor into row caches",
                    "every_load",
                    all(if_some(cached, columns)),
                    self.every_load,
                ),
                term(
                    "sums of a multiprocessor's units",
                    "every_sum",
                    all(if_some(shares, of_units * outputs)),
                    self.every_sum,
                ),
                term("cubes of a multiprocessor", "every_cube", cubes / multiprocessors, self.every_cube),
                term(
                    "steps that read a row which is not cached",
                    "uncached_step",
                    all(if_some(!cached, steps)),
                    self.uncached_step,
                ),
                term(
                    "of these that miss the first-level cache",
                    "missed_step",
                    all(missed * steps),
                    self.missed_step,
                ),
                term(
                    "leaves that a unit adds to one of several sums of its own",
                    "own_sum",
                    all(if_some(!shares && forest.outputs > 1, f64::from(forest.trees))),
                    self.own_sum,
                ),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_finite_for_any_numbers() {
        let (gpu, most) = (GpuFacts { multiprocessors: 0, shared_bytes: 0 }, u32::MAX);
        for forest in [
            CubeForest { trees: 0, columns: 0, outputs: 0, steps: 0.0 },
            CubeForest { trees: most, columns: most, outputs: most, steps: 1e3 },
        ] {
            for (rows, row_units) in [(0, 0), (1, 1), (most, most), (256, 1), (1, 1024)] {
                for cached in [false, true] {
                    for batch in [0, 1, 1 << 28] {
                        let shape = CubeShape { rows, row_units, cached };
                        let seconds = CUBES.estimate(&gpu, &forest, shape, batch).seconds();
                        assert!(seconds.is_finite() && seconds > 0.0, "{forest:?} {shape:?} {batch}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_cube_that_crowds_out_others_takes_more_waves() {
        let gpu = GpuFacts { multiprocessors: 100, shared_bytes: 100 << 10 };
        let forest = CubeForest { trees: 64, columns: 1000, outputs: 1, steps: 5.0 };
        let steps = |rows, batch| {
            let shape = CubeShape { rows, row_units: 8, cached: true };
            let estimate = CUBES.estimate(&gpu, &forest, shape, batch);
            estimate.terms.iter().find(|term| term.cost == "step").expect("the term").count
        };
        // A walk of 5 steps for each of 8 trees a unit; 16 rows of 4000 bytes leave room for one cube.
        assert_eq!(steps(16, 1600), 40.0);
        assert_eq!(steps(16, 1601), 80.0);
        // Cubes of 8 rows: three side by side.
        assert_eq!(steps(8, 2400), 40.0);
    }
}
