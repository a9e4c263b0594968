//! The row cache of a cube: how it lies, and what it may make of rows.

use super::{Cube, MappedLoop, Statement};
use crate::{Dim, GpuDim, Map, Op, Plan, RowType, plan::any};

/// Banks of shared memory, on every GPU there is.
const BANKS: u32 = 32;

impl Plan<Cube> {
    /// The type of the rows in memory.
    pub fn input(&self) -> RowType {
        self.own.ranks_from.unwrap_or(self.rows)
    }

    /// Whether each row is read once, into a cube's cache, so that it can become ranks on the way.
    pub fn caches_each_row_once(&self) -> bool {
        let caches = |op: &Op<Cube>| matches!(op, Op::Own(Statement::CacheRows { .. }));
        let once = |op: &&Op<Cube>| match op {
            Op::Walk(w) => w.own.cached_rows,
            Op::Loop(l) if l.dim == Dim::Tree => {
                // Cubes with trees of their own each cache the row, and so does each iteration round the cache.
                !matches!(l.map, Map::Own(MappedLoop { dim: GpuDim::Grid(_), .. })) && !any(&l.body, &caches)
            }
            _ => true,
        };
        let ops = self.ops();
        ops.iter().filter(|op| caches(op)).count() == 1 && ops.iter().all(once)
    }

    /// From column to column of the row cache: the window's rows, rounded up to a multiple of shared memory's banks where
    /// there are as many, so that units with rows of their own never ask one bank for two keys.
    pub fn cached_stride(&self) -> u32 {
        match self.own.cached_rows.unwrap_or(0) {
            rows if rows < BANKS => rows,
            rows => rows.checked_next_multiple_of(BANKS).unwrap_or(rows),
        }
    }

    /// Keys that the row cache has room for.
    pub fn cached_keys(&self) -> u32 {
        self.cached_stride().saturating_mul(self.own.features)
    }
}
