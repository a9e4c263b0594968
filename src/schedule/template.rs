//! SilvanForge's template of GPU schedules (section 8.1, table 5).

use super::{Axis, GpuDim, LayoutKind, Schedule};

/// The nine parameters of the schedules that SilvanForge searches. Every combination of values gives a schedule.
/// [`Template::all`] returns the combinations of the values in the paper's table.
///
/// ```
/// use fangorn::schedule::{LayoutKind, Template};
///
/// let template = Template { interleave: 2, unroll_walks: true, layout: LayoutKind::Array, ..Template::default() };
/// assert!(template.schedule().to_string().contains("interleave(t3)"));
/// assert_eq!(Template::all().count(), 5184);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// Number of rows of a cube.
    pub rows_per_cube: u32,
    /// Number of rows of a unit.
    pub rows_per_unit: u32,
    /// Number of units that share the trees of a row.
    pub tree_units: u32,
    /// Whether a cube's rows are cached in shared memory.
    pub cache_rows: bool,
    /// Whether the trees that a cube walks at a time are cached in shared memory.
    pub cache_trees: bool,
    /// Whether walks are straight-line code.
    pub unroll_walks: bool,
    /// Number of a unit's walks that advance together.
    pub interleave: u32,
    /// Whether partial sums are kept in shared memory.
    pub shared_reduce: bool,
    /// How nodes lie in memory.
    pub layout: LayoutKind,
}

impl Default for Template {
    /// Returns a template with 32 rows a cube, one row a unit, ten units for the trees of a row, cached rows
    /// and shared sums.
    fn default() -> Self {
        Self {
            rows_per_cube: 32,
            rows_per_unit: 1,
            tree_units: 10,
            cache_rows: true,
            cache_trees: false,
            unroll_walks: false,
            interleave: 1,
            shared_reduce: true,
            layout: LayoutKind::Sparse,
        }
    }
}

/// The layouts in the paper's table.
const LAYOUTS: [LayoutKind; 3] = [LayoutKind::Array, LayoutKind::Sparse, LayoutKind::Reorg];

impl Template {
    /// Returns every combination of the values in the paper's table: 5184 templates.
    pub fn all() -> impl Iterator<Item = Self> {
        let flags = [false, true];
        let rows = [8, 32, 64].into_iter().flat_map(|cube| [1, 2, 4].map(|unit| (cube, unit)));
        let units = rows.flat_map(|rows| [2, 10, 20, 50].map(|units| (rows, units)));
        let caches = units.flat_map(move |u| flags.map(|rows| (u, rows)));
        let caches = caches.flat_map(move |c| flags.map(|trees| (c, trees)));
        let walks = caches.flat_map(move |c| flags.map(|unroll| (c, unroll)));
        let walks = walks.flat_map(|w| [1, 2, 4].map(|interleave| (w, interleave)));
        let sums = walks.flat_map(move |w| flags.map(|shared| (w, shared)));
        sums.flat_map(|s| LAYOUTS.map(|layout| (s, layout))).map(|(sums, layout)| {
            let (walks, shared_reduce) = sums;
            let ((caches, unroll_walks), interleave) = walks;
            let ((((rows_per_cube, rows_per_unit), tree_units), cache_rows), cache_trees) = caches;
            Self {
                rows_per_cube,
                rows_per_unit,
                tree_units,
                cache_rows,
                cache_trees,
                unroll_walks,
                interleave,
                shared_reduce,
                layout,
            }
        })
    }

    /// Returns the 36 templates that SilvanForge's heuristic times first for batches of `rows` rows of
    /// `features` columns, in the order of its listing (section 8.2, Algorithm 1, lines 1 to 20). It then times
    /// the fastest three [with shared sums](Template::with_shared_sums) (lines 25 to 28) and takes the fastest
    /// of all 39.
    ///
    /// ```
    /// use fangorn::schedule::Template;
    ///
    /// let small: Vec<Template> = Template::heuristic(512, 28).collect();
    /// assert_eq!(small.len(), 36);
    /// assert!(small.iter().all(|t| [8, 32].contains(&t.rows_per_cube) && !t.shared_reduce));
    /// ```
    pub fn heuristic(rows: usize, features: usize) -> impl Iterator<Item = Self> {
        const ROWS: usize = 2048;
        const FEATURES: usize = 128;
        let (cube_rows, units) = match rows <= ROWS || features > FEATURES {
            true => ([8, 32], [20, 50]),
            false => ([32, 64], [2, 10]),
        };
        let sizes = cube_rows.into_iter().flat_map(move |rows| units.map(|units| (rows, units)));
        let lanes = sizes.flat_map(|size| [1, 2, 4].map(|interleave| (size, interleave)));
        let all = lanes.flat_map(|lanes| LAYOUTS.map(|layout| (lanes, layout)));
        all.map(|(((rows_per_cube, tree_units), interleave), layout)| Self {
            rows_per_cube,
            rows_per_unit: 1,
            tree_units,
            cache_rows: true,
            cache_trees: false,
            unroll_walks: interleave != 1,
            interleave,
            shared_reduce: false,
            layout,
        })
    }

    /// Returns the template with partial sums in shared memory.
    pub fn with_shared_sums(self) -> Self {
        Self { shared_reduce: true, ..self }
    }

    /// Returns the schedule. A cube has `rows_per_cube` rows and all trees. Each of its units has
    /// `rows_per_unit` of the rows, and one tree of every `tree_units` trees.
    pub fn schedule(&self) -> Schedule {
        let (rows, trees) = (self.rows_per_cube.max(1), self.tree_units.max(1));
        let mut schedule = Schedule::new()
            .tile("batch", "b0", "b1", rows)
            .tile("b1", "b2", "b3", self.rows_per_unit.max(1))
            .tile("tree", "t0", "t1", trees);
        let innermost = match self.interleave {
            0 | 1 => "t0",
            lanes => {
                schedule = schedule.tile("t0", "t2", "t3", lanes);
                "t3"
            }
        };
        let outer = if innermost == "t0" { "t0" } else { "t2" };
        schedule = match (self.cache_trees, innermost) {
            // A cube's units fill a cache together, so the loops over the cached rows and trees stand outside the loops
            // of the units.
            (true, "t3") => schedule.reorder(["b0", "t2", "b2", "t1", "b3", "t3"]),
            (true, _) => schedule.reorder(["b0", "t0", "b2", "t1", "b3"]),
            (false, "t3") => schedule.reorder(["b0", "b2", "t1", "b3", "t2", "t3"]),
            (false, _) => schedule.reorder(["b0", "b2", "t1", "b3", "t0"]),
        };
        let walks = if self.cache_trees && innermost == "t0" { "b3" } else { innermost };
        schedule = schedule
            .gpu_dimension("b0", GpuDim::Grid(Axis::X))
            .gpu_dimension("b2", GpuDim::Block(Axis::X))
            .gpu_dimension("t1", GpuDim::Block(Axis::Y));
        if self.cache_rows {
            schedule = schedule.cache("b0");
        }
        if self.cache_trees {
            schedule = schedule.cache(outer);
        }
        if self.interleave > 1 {
            schedule = schedule.interleave("t3");
        }
        if self.unroll_walks {
            schedule = schedule.unroll_walk(walks, None);
        }
        if self.shared_reduce {
            schedule = schedule.shared_reduce("t1");
        }
        schedule.layout(self.layout)
    }
}
