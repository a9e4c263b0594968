//! Estimates of a batch's time, term by term, from numbers that describe the forest. Nothing is compiled or
//! run.

use serde::Serialize;

use super::{BLENDED_ROWS, Machine, ROW_BLOCK};

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
    /// Number of columns that some split reads.
    pub columns: usize,
    /// Number of columns that splits on category sets read.
    pub category_columns: usize,
    /// The columns of a row of one-byte ranks.
    pub rank_columns: RankColumns,
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

/// A way to evaluate a forest whose time can be estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Every split of a tree for a row block at once, on ranks.
    Blends,
    /// Walks in vectors, which take as many steps as the tree has levels.
    UntestedWalks,
    /// Walks in vectors, which test for their leaf before each step.
    TestedWalks,
    /// Walks of one row after the other, each through several trees at a time.
    RowWalks,
}

impl Work {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Blends, Self::UntestedWalks, Self::TestedWalks, Self::RowWalks];

    /// Returns the name, such as `blends`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blends => "blends",
            Self::UntestedWalks => "walks without leaf tests",
            Self::TestedWalks => "walks with leaf tests",
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

/// What a row block goes through that is walked in vectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VectorWork {
    /// Steps of one row through all trees.
    pub(crate) steps: f64,
    /// Number of splits.
    pub(crate) splits: usize,
    /// Number of columns that some split reads.
    pub(crate) columns: usize,
}

impl Machine {
    /// Returns the share of a row block's copy of this many columns that the closest cache has no room for.
    pub(crate) fn far(&self, columns: usize) -> f64 {
        let bytes = columns.saturating_mul(ROW_BLOCK * size_of::<f32>());
        (1.0 - self.hardware.closest_cache as f64 / bytes as f64).max(0.0)
    }

    /// Returns the seconds of walking rows in vectors without leaf tests: the sum of the terms of the estimate of
    /// [`Work::UntestedWalks`], without those of sets of categories.
    pub(crate) fn walked(&self, work: &VectorWork, rows: usize) -> f64 {
        let (ways, steps) = (&self.ways, work.steps);
        let of_block = |rows: usize| {
            let rows = rows as f64;
            (ways.step * rows).max(ways.waiting_step) * steps
                + ways.far_step * self.far(work.columns) * steps * rows
                + ways.node * work.splits as f64
                + ways.column * work.columns as f64
        };
        let rest = Some(rows % ROW_BLOCK).filter(|rest| *rest > 0);
        (rows / ROW_BLOCK) as f64 * of_block(ROW_BLOCK) + rest.map_or(0.0, of_block)
    }

    /// Estimates the time of a batch of `rows` rows; `None` if the forest can't be evaluated in this way.
    ///
    /// Blends, ranking and copying work on whole row blocks, so a partial row block costs as much as a whole one.
    /// Walks of a row block through one tree wait for their loads, so a step of a row block takes at least
    /// [`Ways::waiting_step`](super::Ways).
    ///
    /// ```
    /// use fangorn::cost::{ForestFacts, Machine, RankColumns, Work};
    ///
    /// let facts = ForestFacts {
    ///     trees: 100,
    ///     splits: 6300,
    ///     set_splits: 0,
    ///     leaf_depth: 6.0,
    ///     tree_depth: 6.0,
    ///     columns: 10,
    ///     category_columns: 0,
    ///     rank_columns: RankColumns { thresholds: 10, levels: 80, questions: 0 },
    ///     blends: true,
    /// };
    /// let seconds = |work, rows| Machine::here().estimate(&facts, work, rows).expect("a way").seconds();
    /// assert!(seconds(Work::Blends, 4096) < 64.0 * seconds(Work::Blends, 64) + 1e-9);
    /// assert!(seconds(Work::RowWalks, 1) < seconds(Work::UntestedWalks, 1));
    /// ```
    pub fn estimate(&self, facts: &ForestFacts, work: Work, rows: usize) -> Option<Estimate> {
        let ways = &self.ways;
        let blocks = rows.div_ceil(ROW_BLOCK) as f64;
        let (trees, splits) = (facts.trees as f64, facts.splits as f64);
        let far = self.far(facts.columns);
        // A step of a row block takes as long as the steps of its rows or as a load, whichever is longer.
        let walks = |steps: f64, what, cost, each: f64| {
            let waits = |of_block: usize| of_block as f64 * each < ways.waiting_step;
            let (full, partial) = (rows / ROW_BLOCK, rows % ROW_BLOCK);
            let waiting =
                [(full, ROW_BLOCK), (usize::from(partial > 0), partial)].into_iter().filter(|b| waits(b.1));
            let waiting: usize = waiting.map(|(blocks, _)| blocks).sum();
            let working = if waits(ROW_BLOCK) { 0 } else { full * ROW_BLOCK }
                + if waits(partial) { 0 } else { partial };
            vec![
                Term { what, cost, count: working as f64 * steps, each },
                Term {
                    what: "steps of row blocks that wait for loads",
                    cost: "waiting_step",
                    count: waiting as f64 * steps,
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
                    count: rows as f64 * steps * far,
                    each: ways.far_step,
                },
                Term { what: "loading nodes", cost: "node", count: blocks * splits, each: ways.node },
                Term {
                    what: "copying columns",
                    cost: "column",
                    count: blocks * facts.columns as f64,
                    each: ways.column,
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
            Work::UntestedWalks => {
                walks(trees * facts.tree_depth, "steps of a row in vectors", "step", ways.step)
            }
            Work::TestedWalks => {
                let what = "steps of a row in vectors with a leaf test";
                walks(trees * facts.leaf_depth, what, "tested_step", ways.tested_step)
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

    /// The engine's estimate of its walks and that of the default schedule are one.
    #[test]
    fn walks_take_as_long_as_their_terms() {
        for machine in Machine::shipped() {
            for columns in [1, 128, 129, 2000] {
                let (trees, splits, tree_depth) = (100, 6300, 6.5);
                let rank_columns = RankColumns { thresholds: columns, levels: 3 * columns, questions: 0 };
                let facts = ForestFacts {
                    trees,
                    splits,
                    set_splits: 0,
                    leaf_depth: 6.0,
                    tree_depth,
                    columns,
                    category_columns: 0,
                    rank_columns,
                    blends: true,
                };
                let work = VectorWork { steps: trees as f64 * tree_depth, splits, columns };
                for rows in [0, 1, 23, 24, 63, 64, 65, 127, 128, 4096, 5000] {
                    let estimate =
                        machine.estimate(&facts, Work::UntestedWalks, rows).expect("walks").seconds();
                    let walked = machine.walked(&work, rows);
                    assert!(
                        (walked - estimate).abs() <= 1e-9 * estimate,
                        "{}, {columns}, {rows}",
                        machine.name
                    );
                }
            }
        }
    }
}
