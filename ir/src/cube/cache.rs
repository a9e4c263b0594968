//! The row cache of a cube: its memory layout, and whether it can turn values into ranks.

use super::{Cube, MappedLoop, Statement};
use crate::{Dim, GpuDim, Map, Op, Plan, RowType, plan::any};

/// Number of banks of shared memory. It is the same on every GPU there is.
const BANKS: u32 = 32;

impl Plan<Cube> {
    /// Returns the type of the rows in memory.
    pub fn input(&self) -> RowType {
        self.own.ranks_from.unwrap_or(self.rows)
    }

    /// Whether each row is read once, into a cube's cache, so that its values can become ranks on the way.
    pub fn caches_each_row_once(&self) -> bool {
        let caches = |op: &Op<Cube>| matches!(op, Op::Own(Statement::CacheRows { .. }));
        let once = |op: &&Op<Cube>| match op {
            Op::Walk(w) => w.own.cached_rows,
            Op::Loop(l) if l.dim == Dim::Tree => {
                // A loop over trees that is mapped to the grid makes several cubes cache the same row. A loop
                // over trees around the cache reads the row in each iteration.
                !matches!(l.map, Map::Own(MappedLoop { dim: GpuDim::Grid(_), .. })) && !any(&l.body, &caches)
            }
            _ => true,
        };
        let ops = self.ops();
        ops.iter().filter(|op| caches(op)).count() == 1 && ops.iter().all(once)
    }

    /// Returns the distance between two columns of the row cache, in keys. It is the number of
    /// cached rows, rounded up to a multiple of the banks of shared memory if there are at least as many rows
    /// as banks. Then a key's bank depends on its row alone, and units with rows of their own read from
    /// different banks.
    pub fn cached_stride(&self) -> u32 {
        match self.own.cached_rows.unwrap_or(0) {
            rows if rows < BANKS => rows,
            rows => rows.checked_next_multiple_of(BANKS).unwrap_or(rows),
        }
    }

    /// Returns the number of keys that the row cache has room for.
    pub fn cached_keys(&self) -> u32 {
        self.cached_stride().saturating_mul(self.own.features)
    }
}
