//! Estimates of a batch's time, term by term, from numbers that describe the forest. Nothing is compiled or
//! run.

use serde::Serialize;

use super::{BLENDED_ROWS, COPY_BYTES, Machine, ROW_BLOCK};

/// The numbers of a forest from which its time is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ForestFacts {
    /// Number of trees.
    pub trees: usize,
    /// Number of splits.
    pub splits: usize,
    /// Number of splits that ask whether a category is in a set.
    pub set_splits: usize,
    /// Mean depth of the leaves, in steps from the root.
    pub leaf_depth: f64,
    /// Mean depth of the trees, in steps from the root to the deepest leaf.
    pub tree_depth: f64,
    /// Number of columns of a row.
    pub row_columns: usize,
    /// Number of columns that some split reads.
    pub columns: usize,
    /// Number of columns that splits on category sets read.
    pub category_columns: usize,
    /// The columns of a row of one-byte ranks.
    pub rank_columns: RankColumns,
    /// How many splits walks reach.
    pub reached: ReachedSplits,
    /// Whether there are trees, and every tree has few enough leaves to be blended.
    pub blends: bool,
}

/// The columns of a row of ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankColumns {
    /// Number of columns that count thresholds.
    pub thresholds: usize,
    /// Number of levels of the binary searches of their thresholds, all columns together.
    pub levels: usize,
    /// Number of columns that answer a question.
    pub questions: usize,
}

impl RankColumns {
    /// Returns the levels of a binary search of this many thresholds.
    ///
    /// ```
    /// use fangorn::cost::RankColumns;
    ///
    /// assert_eq!([0, 1, 2, 3, 4, 255].map(RankColumns::levels_of), [0, 1, 2, 2, 3, 8]);
    /// ```
    pub fn levels_of(thresholds: u32) -> usize {
        (u32::BITS - thresholds.leading_zeros()) as usize
    }
}

/// How many splits of a forest the walks of some rows reach together, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ReachedSplits {
    /// For 1, 2, 4, … and 1024 rows.
    by_power_of_two: [f64; RowTile::Largest.rows().ilog2() as usize + 1],
}

impl ReachedSplits {
    /// Adds up splits by the probability with which a row reaches each of them. Of the splits of one probability `p`,
    /// `n` rows together reach the fraction `1 - (1 - p)^n`.
    ///
    /// ```
    /// use fangorn::cost::ReachedSplits;
    ///
    /// // A root, two splits below it, and four below these.
    /// let reached = ReachedSplits::new([1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]);
    /// assert_eq!([reached.by(1), reached.by(2)], [3.0, 4.25]);
    /// assert!(reached.by(3) > 4.25 && reached.by(1024) > 6.99 && reached.by(10_000) <= 7.0);
    /// ```
    pub fn new(probabilities: impl IntoIterator<Item = f64>) -> Self {
        let mut reached = Self::default();
        for probability in probabilities {
            // What is no probability counts as the nearest one, and NaN as 0.
            let probability = if probability > 0.0 { probability.min(1.0) } else { 0.0 };
            let mut missed = 1.0 - probability;
            for reached in &mut reached.by_power_of_two {
                *reached += 1.0 - missed;
                missed *= missed;
            }
        }
        reached
    }

    /// Returns the number of splits that `rows` rows reach, at most those that 1024 rows reach.
    pub fn by(&self, rows: usize) -> f64 {
        let Some(power) = rows.checked_ilog2().map(|power| power as usize) else { return 0.0 };
        let at = |power: usize| self.by_power_of_two.get(power);
        match (at(power), at(power + 1)) {
            (Some(fewer), Some(more)) => {
                fewer + (more - fewer) * (rows - (1 << power)) as f64 / (1usize << power) as f64
            }
            _ => self.by_power_of_two[self.by_power_of_two.len() - 1],
        }
    }
}

/// Rows that are walked through one tree before the next tree has its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowTile {
    /// A [row block](ROW_BLOCK).
    Small,
    /// Four row blocks. Fewer nodes are loaded for each row, and a copy of the rows needs more room.
    Large,
    /// Sixteen row blocks.
    Largest,
}

impl RowTile {
    /// All tiles, the smallest first.
    pub const ALL: [Self; 3] = [Self::Small, Self::Large, Self::Largest];

    /// Returns the number of rows.
    pub const fn rows(self) -> usize {
        match self {
            Self::Small => ROW_BLOCK,
            Self::Large => 4 * ROW_BLOCK,
            Self::Largest => 16 * ROW_BLOCK,
        }
    }

    /// Returns the tile by which a tile of `rows` rows is estimated: the smallest one that holds them, or the largest one.
    pub fn of(rows: usize) -> Self {
        Self::ALL.into_iter().find(|tile| rows <= tile.rows()).unwrap_or(Self::Largest)
    }
}

/// A way to evaluate a forest whose time can be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Every split of a tree for a row block at once, on ranks.
    Blends,
    /// Walks in vectors, which take as many steps as the tree has levels.
    UntestedWalks(RowTile),
    /// Walks in vectors, which test for their leaf before each step.
    TestedWalks(RowTile),
    /// Walks of one row after the other, each through several trees at a time.
    RowWalks,
}

impl Work {
    /// The ways to evaluate many rows, which the default schedule is chosen among. Of equal estimates, it takes the
    /// first one.
    pub const OF_MANY_ROWS: [Self; 7] = [
        Self::UntestedWalks(RowTile::Small),
        Self::UntestedWalks(RowTile::Large),
        Self::UntestedWalks(RowTile::Largest),
        Self::TestedWalks(RowTile::Small),
        Self::TestedWalks(RowTile::Large),
        Self::TestedWalks(RowTile::Largest),
        Self::Blends,
    ];
    /// All ways.
    pub const ALL: [Self; 8] = {
        let [a, b, c, d, e, f, g] = Self::OF_MANY_ROWS;
        [a, b, c, d, e, f, g, Self::RowWalks]
    };

    /// Returns the name, such as `blends`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blends => "blends",
            Self::UntestedWalks(RowTile::Small) => "walks without leaf tests",
            Self::UntestedWalks(RowTile::Large) => "walks without leaf tests, 256 rows a tree",
            Self::UntestedWalks(RowTile::Largest) => "walks without leaf tests, 1024 rows a tree",
            Self::TestedWalks(RowTile::Small) => "walks with leaf tests",
            Self::TestedWalks(RowTile::Large) => "walks with leaf tests, 256 rows a tree",
            Self::TestedWalks(RowTile::Largest) => "walks with leaf tests, 1024 rows a tree",
            Self::RowWalks => "walks row by row",
        }
    }
}

/// A term of an [`Estimate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// What takes the time.
    pub what: &'static str,
    /// The field of [`Ways`](super::Ways) that `each` is taken from.
    pub cost: &'static str,
    /// How often `what` happens in a batch: the factor of `each`.
    pub count: f64,
    /// Seconds of each.
    pub each: f64,
}

impl Term {
    /// Returns the term's seconds.
    pub fn seconds(&self) -> f64 {
        self.count * self.each
    }
}

/// The estimated time of a batch on one thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The terms. Their seconds add up to the estimate.
    pub terms: Vec<Term>,
}

impl Estimate {
    /// Returns the seconds of the batch.
    pub fn seconds(&self) -> f64 {
        self.terms.iter().map(Term::seconds).sum()
    }
}

/// What rows go through that are walked in vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorWork {
    /// Steps of one row through all trees.
    pub(crate) steps: f64,
    /// How many splits walks reach.
    pub(crate) reached: ReachedSplits,
    /// Number of columns that some split reads.
    pub(crate) columns: usize,
    /// Rows that are walked through one tree before the next tree has its turn.
    pub(crate) tile: RowTile,
}

/// How often a batch that is walked in vectors meets each cost.
#[derive(Clone, Copy, Debug, Default)]
struct VectorCounts {
    /// Steps of rows in row blocks whose steps take longer than a load.
    working: f64,
    /// Steps of row blocks that wait for loads.
    waiting: f64,
    /// Steps of rows that read past the closest cache.
    far: f64,
    /// Columns of row blocks that are copied past the second cache.
    far_columns: f64,
    /// Splits that are brought near.
    nodes: f64,
    /// Columns that are copied for a row block.
    columns: f64,
}

impl VectorWork {
    /// Counts for a batch of `rows` rows on a machine where a step of a row takes `each` seconds. A step of a row block
    /// takes as long as the steps of its rows or as a load, whichever is longer.
    fn counts(&self, machine: &Machine, each: f64, rows: usize) -> VectorCounts {
        let mut counts = VectorCounts::default();
        // Whole parts, and the partial one.
        let parts = |of_part: usize| {
            [(rows / of_part, of_part), (usize::from(!rows.is_multiple_of(of_part)), rows % of_part)]
        };
        for (number, of_block) in parts(ROW_BLOCK) {
            match of_block as f64 * each < machine.ways.waiting_step {
                true => counts.waiting += number as f64 * self.steps,
                false => counts.working += (number * of_block) as f64 * self.steps,
            }
            counts.columns += (number * self.columns) as f64;
        }
        for (number, of_tile) in parts(self.tile.rows()) {
            let copy = self.columns.saturating_mul(of_tile.next_multiple_of(ROW_BLOCK) * size_of::<f32>());
            let past = |cache: f64| (1.0 - cache / copy as f64).max(0.0);
            let steps = (number * of_tile) as f64 * self.steps;
            counts.far += steps * past(machine.hardware.closest_cache as f64);
            counts.far_columns += (number * of_tile.div_ceil(ROW_BLOCK) * self.columns) as f64
                * past(machine.hardware.near_copy as f64);
            counts.nodes += number as f64 * self.reached.by(of_tile);
        }
        counts
    }
}

impl Machine {
    /// Returns the seconds of walking rows in vectors without leaf tests: the estimate of [`Work::UntestedWalks`],
    /// without its term for sets of categories.
    pub(crate) fn walked(&self, work: &VectorWork, rows: usize) -> f64 {
        let (ways, counts) = (&self.ways, work.counts(self, self.ways.step, rows));
        ways.step * counts.working
            + ways.waiting_step * counts.waiting
            + ways.far_step * counts.far
            + ways.node * counts.nodes
            + ways.column * counts.columns
            + ways.far_column * counts.far_columns
    }

    /// Returns the seconds of copying the rows of a batch that is walked in vectors.
    pub(crate) fn copied(&self, work: &VectorWork, rows: usize) -> f64 {
        let (ways, counts) = (&self.ways, work.counts(self, self.ways.step, rows));
        ways.column * counts.columns + ways.far_column * counts.far_columns
    }

    /// Returns the way with the least estimate for a batch of `rows` rows, the first of equals; `None` if the forest
    /// can't be evaluated in any of these ways.
    pub fn fastest(&self, facts: &ForestFacts, among: &[Work], rows: usize) -> Option<Work> {
        let seconds = |work: &Work| Some((self.estimate(facts, *work, rows)?.seconds(), *work));
        among.iter().filter_map(seconds).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, work)| work)
    }

    /// Estimates the time of a batch of `rows` rows; `None` if the forest can't be evaluated in this way, or if there is no
    /// room for a copy of a tile of more than a row block.
    ///
    /// Blends, ranking and copying work on whole row blocks, so a partial row block costs as much as a whole one.
    /// Walks of a row block through one tree wait for their loads, so a step of a row block takes at least
    /// [`Ways::waiting_step`](super::Ways).
    ///
    /// ```
    /// use fangorn::cost::{ForestFacts, Machine, RankColumns, ReachedSplits, RowTile, Work};
    ///
    /// // Full trees of depth 6.
    /// let probabilities = (0..6).flat_map(|depth| vec![0.5f64.powi(depth); 100 << depth]);
    /// let facts = ForestFacts {
    ///     trees: 100,
    ///     splits: 6300,
    ///     set_splits: 0,
    ///     leaf_depth: 6.0,
    ///     tree_depth: 6.0,
    ///     row_columns: 10,
    ///     columns: 10,
    ///     category_columns: 0,
    ///     rank_columns: RankColumns { thresholds: 10, levels: 80, questions: 0 },
    ///     reached: ReachedSplits::new(probabilities),
    ///     blends: true,
    /// };
    /// let seconds = |work, rows| Machine::here().estimate(&facts, work, rows).expect("a way").seconds();
    /// assert!(seconds(Work::Blends, 4096) < 64.0 * seconds(Work::Blends, 64) + 1e-9);
    /// assert!(seconds(Work::RowWalks, 1) < seconds(Work::UntestedWalks(RowTile::Small), 1));
    /// ```
    pub fn estimate(&self, facts: &ForestFacts, work: Work, rows: usize) -> Option<Estimate> {
        let ways = &self.ways;
        let blocks = rows.div_ceil(ROW_BLOCK) as f64;
        if let Work::UntestedWalks(tile @ (RowTile::Large | RowTile::Largest))
        | Work::TestedWalks(tile @ (RowTile::Large | RowTile::Largest)) = work
            && tile.rows().saturating_mul(facts.row_columns) > COPY_BYTES / size_of::<f32>()
        {
            return None;
        }
        let (trees, splits) = (facts.trees as f64, facts.splits as f64);
        let walks = |tile: RowTile, steps: f64, what, cost, each: f64| {
            let work = VectorWork { steps, reached: facts.reached, columns: facts.columns, tile };
            let counts = work.counts(self, each, rows);
            vec![
                Term { what, cost, count: counts.working, each },
                Term {
                    what: "steps of row blocks that wait for loads",
                    cost: "waiting_step",
                    count: counts.waiting,
                    each: ways.waiting_step,
                },
                Term {
                    what: "steps of a row that ask for a category",
                    cost: "set_step",
                    count: rows as f64 * steps * facts.set_splits as f64 / splits.max(1.0),
                    each: ways.set_step,
                },
                Term {
                    what: "steps of a row that read past the closest cache",
                    cost: "far_step",
                    count: counts.far,
                    each: ways.far_step,
                },
                Term { what: "loading nodes", cost: "node", count: counts.nodes, each: ways.node },
                Term { what: "copying columns", cost: "column", count: counts.columns, each: ways.column },
                Term {
                    what: "copying columns past the second cache",
                    cost: "far_column",
                    count: counts.far_columns,
                    each: ways.far_column,
                },
            ]
        };
        let terms = match work {
            Work::Blends if !facts.blends => return None,
            Work::Blends => vec![
                Term {
                    what: "ranking columns of thresholds",
                    cost: "thresholds",
                    count: blocks * facts.rank_columns.thresholds as f64,
                    each: ways.thresholds,
                },
                Term {
                    what: "levels of searches of thresholds",
                    cost: "level",
                    count: blocks * facts.rank_columns.levels as f64,
                    each: ways.level,
                },
                Term {
                    what: "reading columns of categories",
                    cost: "codes",
                    count: blocks * facts.category_columns as f64,
                    each: ways.codes,
                },
                Term {
                    what: "ranking columns of questions",
                    cost: "question",
                    count: blocks * facts.rank_columns.questions as f64,
                    each: ways.question,
                },
                Term {
                    what: "splits of row blocks",
                    cost: "split",
                    count: blocks * splits,
                    each: ways.split,
                },
                Term {
                    what: "loading splits",
                    cost: "load",
                    count: rows.div_ceil(BLENDED_ROWS) as f64 * splits,
                    each: ways.load,
                },
                Term { what: "trees of row blocks", cost: "tree", count: blocks * trees, each: ways.tree },
            ],
            Work::UntestedWalks(tile) => {
                walks(tile, trees * facts.tree_depth, "steps of a row in vectors", "step", ways.step)
            }
            Work::TestedWalks(tile) => {
                let what = "steps of a row in vectors with a leaf test";
                walks(tile, trees * facts.leaf_depth, what, "tested_step", ways.tested_step)
            }
            Work::RowWalks => {
                let count = rows as f64 * trees * facts.leaf_depth;
                vec![Term { what: "steps of a row", cost: "row_step", count, each: ways.row_step }]
            }
        };
        Some(Estimate { terms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns full trees of depth 12 with this many columns.
    fn facts(columns: usize) -> ForestFacts {
        let probabilities = (0..12).flat_map(|depth| vec![0.5f64.powi(depth); 100 << depth]);
        ForestFacts {
            trees: 100,
            splits: 409_500,
            set_splits: 0,
            leaf_depth: 12.0,
            tree_depth: 12.0,
            row_columns: columns,
            columns,
            category_columns: 0,
            rank_columns: RankColumns { thresholds: columns, levels: 3 * columns, questions: 0 },
            reached: ReachedSplits::new(probabilities),
            blends: false,
        }
    }

    /// Large forests of a few columns are walked 1024 rows at a time, wide ones of fewer nodes a row block at a time.
    #[test]
    fn large_tiles_are_for_large_forests_of_a_few_columns() {
        for machine in [Machine::shipped()[0], Machine::shipped()[1]] {
            let tile = |columns| machine.fastest(&facts(columns), &Work::OF_MANY_ROWS, 4096);
            assert_eq!(tile(10), Some(Work::UntestedWalks(RowTile::Largest)), "{}", machine.name);
            // Trees of depth 8 take less time to load than such copies.
            let probabilities = (0..8).flat_map(|depth| vec![0.5f64.powi(depth); 100 << depth]);
            let reached = ReachedSplits::new(probabilities);
            let wide =
                ForestFacts { splits: 25_500, leaf_depth: 8.0, tree_depth: 8.0, reached, ..facts(4000) };
            let tile = machine.fastest(&wide, &Work::OF_MANY_ROWS, 4096);
            assert_eq!(tile, Some(Work::UntestedWalks(RowTile::Small)), "{}", machine.name);
            // A few of many columns: a copy has room for all.
            let few = |row_columns| {
                let facts = ForestFacts { row_columns, ..facts(10) };
                machine.fastest(&facts, &Work::OF_MANY_ROWS, 4096)
            };
            assert_eq!(few(4096), Some(Work::UntestedWalks(RowTile::Largest)), "{}", machine.name);
            assert_eq!(few(4097), Some(Work::UntestedWalks(RowTile::Large)), "{}", machine.name);
            assert_eq!(few(16_385), Some(Work::UntestedWalks(RowTile::Small)), "{}", machine.name);
        }
    }

    /// The engine's estimate of its walks and that of the default schedule are one.
    #[test]
    fn walks_take_as_long_as_their_terms() {
        for machine in Machine::shipped() {
            for columns in [1, 128, 129, 2000] {
                let facts = facts(columns);
                for tile in RowTile::ALL {
                    let work = VectorWork { steps: 1200.0, reached: facts.reached, columns, tile };
                    for rows in [0, 1, 23, 24, 63, 64, 65, 255, 256, 257, 4096, 5000] {
                        let estimate = machine.estimate(&facts, Work::UntestedWalks(tile), rows);
                        let (estimate, walked) =
                            (estimate.expect("walks").seconds(), machine.walked(&work, rows));
                        let is_same = (walked - estimate).abs() <= 1e-9 * estimate;
                        assert!(is_same, "{}, {columns}, {tile:?}, {rows}", machine.name);
                        assert!(machine.copied(&work, rows) <= walked);
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_that_are_no_probabilities_reach_no_more_than_all() {
        let reached = ReachedSplits::new([3.0, f64::NAN, -1.0, f64::INFINITY, 0.5]);
        assert_eq!([1, 2, 1024].map(|rows| reached.by(rows)), [2.5, 2.75, 3.0]);
    }

    /// Rows that a smaller tile holds take as long in a larger one.
    #[test]
    fn a_partial_tile_takes_as_long_as_its_rows() {
        for machine in Machine::shipped() {
            for columns in [1, 128, 129, 2000] {
                let seconds = |tile, rows| {
                    let estimate = machine.estimate(&facts(columns), Work::UntestedWalks(tile), rows);
                    estimate.expect("walks").seconds()
                };
                for pair in RowTile::ALL.windows(2) {
                    for rows in [0, 1, 23, 24, 63, 64, 192, 256] {
                        let [smaller, larger] = [pair[0], pair[1]].map(|tile| seconds(tile, rows));
                        assert!(rows > pair[0].rows() || smaller == larger, "{pair:?}, {rows}");
                    }
                }
                for tile in [RowTile::Large, RowTile::Largest] {
                    for rows in [64, 128, 320] {
                        let [whole, part] = [tile.rows(), rows].map(|rows| seconds(tile, rows));
                        let both = seconds(tile, tile.rows() + rows);
                        assert!((both - whole - part).abs() <= 1e-9 * both, "{}, {rows}", machine.name);
                    }
                }
            }
        }
    }

    #[test]
    fn every_way_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = Work::ALL.iter().map(|work| work.name()).collect();
        assert_eq!(names.len(), Work::ALL.len());
    }
}
