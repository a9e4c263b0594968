//! The schedules that a tuner tries on the CPU: those that Treebeard explores (order of the loops,
//! interleaving, node tiles, unrolled walks), and those with ranks, blends, row blocks and engines for a few
//! rows.

use crate::{
    ranks::Choice,
    schedule::{Evaluation, FewRows, LayoutKind, Schedule, Tiler},
};

/// Maximum number of points of the CPU's space.
pub const MOST_CPU_POINTS: usize = 600;

/// One point of the CPU's space. Any point makes a schedule, which a forest may refuse.
///
/// ```
/// use fangorn::auto::{CpuPoint, Evaluate};
///
/// let point = CpuPoint { rows: 256, evaluate: Evaluate::Blend, ..CpuPoint::default() };
/// assert!(point.schedule().to_string().contains("evaluate(b1, blend)"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpuPoint {
    /// Number of rows of a row block.
    pub rows: u32,
    /// How a row block goes through a tree.
    pub evaluate: Evaluate,
    /// The width of the ranks that walks read; `None` if walks read values. Blends always read ranks of one
    /// byte.
    pub ranks: Option<Choice>,
    /// How nodes lie in memory.
    pub layout: LayoutKind,
    /// Whether walks take as many steps as the tree has levels, without leaf tests.
    pub unroll_walks: bool,
    /// The engine for a few rows.
    pub few_rows: FewRows,
    /// Whether the trees of a row block are divided among the threads, instead of the row blocks.
    pub parallel_trees: bool,
}

/// How a row block goes through trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Evaluate {
    /// Every split of a tree is evaluated for all rows at once.
    Blend,
    /// The rows walk one tree after the other.
    Walk,
    /// The rows walk one tree after the other, and this many rows advance together.
    WalkRows(u32),
    /// Each row walks all trees, and its walks of this many trees advance together.
    WalkTrees(u32),
    /// The rows walk one tree after the other, in tiles of this many nodes.
    Tiles(u32),
}

impl Default for CpuPoint {
    /// Returns the point of walks of row blocks of 64 rows, with sparse nodes.
    fn default() -> Self {
        Self {
            rows: 64,
            evaluate: Evaluate::Walk,
            ranks: None,
            layout: LayoutKind::Sparse,
            unroll_walks: false,
            few_rows: FewRows::Auto,
            parallel_trees: false,
        }
    }
}

impl CpuPoint {
    /// Returns the schedule.
    pub fn schedule(&self) -> Schedule {
        let rows = self.rows.max(1);
        let blocks = |schedule: Schedule| schedule.tile("batch", "b0", "b1", rows);
        let ranked = |schedule: Schedule| match (self.evaluate, self.ranks) {
            (Evaluate::Blend, _) => schedule.ranks(Some(Choice::U8)),
            (_, Some(choice)) => schedule.ranks(Some(choice)),
            (_, None) => schedule,
        };
        let tiled = blocks(ranked(Schedule::new()));
        let (ordered, walks) = match self.evaluate {
            Evaluate::Blend | Evaluate::Walk | Evaluate::Tiles(_) => {
                (tiled.reorder(["b0", "tree", "b1"]), "b1")
            }
            Evaluate::WalkRows(lanes) => {
                let tiled = tiled.tile("b1", "b2", "b3", lanes.max(1));
                (tiled.reorder(["b0", "tree", "b2", "b3"]).interleave("b3"), "b3")
            }
            Evaluate::WalkTrees(lanes) => {
                let tiled = tiled.tile("tree", "t0", "t1", lanes.max(1));
                (tiled.reorder(["b0", "b1", "t0", "t1"]).interleave("t1"), "t1")
            }
        };
        let trees = if let Evaluate::WalkTrees(_) = self.evaluate { "t0" } else { "tree" };
        let mapped = ordered.parallel(if self.parallel_trees { trees } else { "b0" }).cache("b0");
        let evaluated = match self.evaluate {
            Evaluate::Blend => mapped.evaluate(walks, Evaluation::Blend),
            Evaluate::Tiles(nodes) => mapped.tile_nodes(nodes, Tiler::Uniform),
            _ if self.unroll_walks => mapped.unroll_walk(walks, None),
            _ => mapped,
        };
        evaluated.layout(self.layout).few_rows(self.few_rows)
    }
}

/// Returns the points of the CPU's space for `threads` threads, at most [`MOST_CPU_POINTS`].
pub fn cpu_space(threads: usize) -> Vec<CpuPoint> {
    let point = CpuPoint::default();
    let mut points = Vec::new();
    for rows in [64, 128, 256, 512, 1024] {
        points.push(CpuPoint { rows, evaluate: Evaluate::Blend, ..point });
    }
    for unroll_walks in [false, true] {
        for layout in LayoutKind::ALL {
            let point = CpuPoint { unroll_walks, layout, ..point };
            for ranks in [None, Some(Choice::U8), Some(Choice::U16)] {
                for rows in [64, 256, 1024] {
                    points.push(CpuPoint { ranks, rows, ..point });
                }
                for evaluate in [Evaluate::WalkRows(8), Evaluate::WalkTrees(4), Evaluate::WalkTrees(8)] {
                    points.push(CpuPoint { ranks, evaluate, ..point });
                }
            }
        }
    }
    for layout in [LayoutKind::Sparse, LayoutKind::Array] {
        for nodes in [2, 4, 8] {
            for rows in [64, 256] {
                points.push(CpuPoint { evaluate: Evaluate::Tiles(nodes), layout, rows, ..point });
            }
        }
    }
    for few_rows in FewRows::ALL {
        for layout in [LayoutKind::Sparse, LayoutKind::Array] {
            for unroll_walks in [false, true] {
                points.push(CpuPoint { few_rows, layout, unroll_walks, ..point });
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    points.retain(|point| seen.insert(*point));
    if threads > 1 {
        let trees: Vec<_> = points.iter().map(|point| CpuPoint { parallel_trees: true, ..*point }).collect();
        points.extend(trees);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Device;

    #[test]
    fn every_point_is_a_schedule_of_its_own() {
        for (threads, hundreds) in [(1, 1), (2, 2)] {
            let space = cpu_space(threads);
            assert!((100 * hundreds..=MOST_CPU_POINTS).contains(&space.len()), "{} points", space.len());
            let schedules: std::collections::HashSet<_> = space.iter().map(CpuPoint::schedule).collect();
            assert_eq!(schedules.len(), space.len());
            for schedule in schedules {
                schedule.verify(Device::Cpu).unwrap_or_else(|e| panic!("{e}\n{schedule}"));
                assert_eq!(Schedule::parse(&schedule.to_string()).expect("its text"), schedule);
            }
        }
    }
}
