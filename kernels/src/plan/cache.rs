//! The row cache of a cube: how it lies, and what it may make of rows.

use super::{Dim, GpuDim, Map, Op, Plan, RowType};

/// Banks of shared memory, on every GPU there is.
const BANKS: u32 = 32;

impl Plan {
    /// The type of the rows in memory.
    pub fn input(&self) -> RowType {
        self.ranks_from.unwrap_or(self.rows)
    }

    /// Whether each row is read once, into a cube's cache, so that it can become ranks on the way.
    pub fn caches_each_row_once(&self) -> bool {
        let caches = |op: &Op| matches!(op, Op::CacheRows { .. });
        let once = |op: &&Op| match op {
            Op::Walk(w) => w.cached_rows,
            Op::Loop(l) if l.dim == Dim::Tree => {
                // Cubes with trees of their own each cache the row, and so does each iteration round the cache.
                !matches!(l.map, Map::Gpu { dim: GpuDim::Grid(_), .. }) && !any(&l.body, &caches)
            }
            _ => true,
        };
        let ops = self.ops();
        ops.iter().filter(|op| caches(op)).count() == 1 && ops.iter().all(once)
    }

    /// The rows of the one window that each row is read into once, outside all loops over trees, where there are blends that
    /// find their rows in it (CPU).
    pub fn blend_window(&self) -> Option<u32> {
        fn within(ops: &[Op], window: bool) -> bool {
            let mut window = window;
            ops.iter().all(|op| match op {
                Op::CacheRows { .. } => {
                    window = true;
                    true
                }
                Op::Walk(_) => window,
                Op::Loop(l) if l.dim == Dim::Tree && !window => {
                    !any(&l.body, &|op| matches!(op, Op::CacheRows { .. })) && within(&l.body, window)
                }
                op => op.bodies().into_iter().all(|body| within(body, window)),
            })
        }
        let ops = self.ops();
        let window = |op: &&Op| if let Op::CacheRows { rows } = op { Some(*rows) } else { None };
        let windows: Vec<u32> = ops.iter().filter_map(window).collect();
        let blends = ops.iter().any(|op| matches!(op, Op::Walk(w) if w.blend.is_some()));
        match windows[..] {
            [rows] if blends && within(&self.body, false) => Some(rows),
            _ => None,
        }
    }

    /// From column to column of the row cache: the window's rows, rounded up to a multiple of shared memory's banks where
    /// there are as many, so that units with rows of their own never ask one bank for two keys.
    pub fn cached_stride(&self) -> u32 {
        match self.cached_rows.unwrap_or(0) {
            rows if rows < BANKS => rows,
            rows => rows.checked_next_multiple_of(BANKS).unwrap_or(rows),
        }
    }

    /// Keys that the row cache has room for.
    pub fn cached_keys(&self) -> u32 {
        self.cached_stride().saturating_mul(self.features)
    }
}

fn any(ops: &[Op], of: &impl Fn(&Op) -> bool) -> bool {
    ops.iter().any(|op| of(op) || op.bodies().into_iter().any(|body| any(body, of)))
}
