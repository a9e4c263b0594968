//! Estimates of what a batch takes, term by term, from numbers that describe the forest. Nothing is compiled
//! or run.

use super::{BLOCK, Machine};

/// What a forest asks of an engine, in numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ForestFacts {
    /// Number of trees.
    pub trees: usize,
    /// Number of splits.
    pub splits: usize,
    /// Steps of a row to its leaf, on average over the leaves.
    pub leaf_depth: f64,
    /// Levels of a tree, on average over the trees.
    pub tree_depth: f64,
    /// Columns of ranks of one byte: columns of thresholds, and columns that answer a question.
    pub rank_columns: (usize, usize),
    /// Whether there are trees, and every tree has few enough leaves to be blended.
    pub blends: bool,
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

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Blends => "blends",
            Self::UntestedWalks => "walks without leaf tests",
            Self::TestedWalks => "walks with leaf tests",
            Self::RowWalks => "walks row by row",
        }
    }
}

/// A part of an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// What takes the time.
    pub what: &'static str,
    /// How often, in a batch: the count that `each` is multiplied by.
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
    /// The parts, which add up.
    pub terms: Vec<Term>,
}

impl Estimate {
    /// Returns the seconds of the batch.
    pub fn seconds(&self) -> f64 {
        self.terms.iter().map(Term::seconds).sum()
    }
}

impl Machine {
    /// Estimates the time of a batch of `rows` rows; `None` if the forest can't be evaluated in this way.
    ///
    /// A row block is worked on as a whole, so a part of a block costs as much as a block. Walks of a whole
    /// block through one tree wait for their loads, so a step of a block takes [`Walk::block`](super::Walk)
    /// at least.
    ///
    /// ```
    /// use fangorn::cost::{ForestFacts, Machine, Work};
    ///
    /// let facts = ForestFacts {
    ///     trees: 100,
    ///     splits: 6300,
    ///     leaf_depth: 6.0,
    ///     tree_depth: 6.0,
    ///     rank_columns: (10, 0),
    ///     blends: true,
    /// };
    /// let seconds = |work, rows| Machine::here().estimate(&facts, work, rows).expect("a way").seconds();
    /// assert!(seconds(Work::Blends, 4096) < 64.0 * seconds(Work::Blends, 64) + 1e-9);
    /// assert!(seconds(Work::RowWalks, 1) < seconds(Work::UntestedWalks, 1));
    /// ```
    pub fn estimate(&self, facts: &ForestFacts, work: Work, rows: usize) -> Option<Estimate> {
        let blocks = rows.div_ceil(BLOCK) as f64;
        let (trees, splits) = (facts.trees as f64, facts.splits as f64);
        // A step of a block takes as long as its rows do, or as a load does.
        let step = |each: f64| {
            let full = (rows / BLOCK) as f64 * (BLOCK as f64 * each).max(self.walk.block);
            let part = match rows % BLOCK {
                0 => 0.0,
                rest => (rest as f64 * each).max(self.walk.block),
            };
            (full + part) / blocks.max(1.0)
        };
        let terms = match work {
            Work::Blends if !facts.blends => return None,
            Work::Blends => vec![
                Term {
                    what: "ranking columns of thresholds",
                    count: blocks * facts.rank_columns.0 as f64,
                    each: self.ranking.thresholds,
                },
                Term {
                    what: "ranking columns of questions",
                    count: blocks * facts.rank_columns.1 as f64,
                    each: self.ranking.question,
                },
                Term { what: "splits of row blocks", count: blocks * splits, each: self.blend.split },
                Term { what: "trees of row blocks", count: blocks * trees, each: self.blend.tree },
            ],
            Work::UntestedWalks => {
                let count = blocks * trees * facts.tree_depth;
                vec![Term { what: "steps of row blocks", count, each: step(self.walk.many) }]
            }
            Work::TestedWalks => {
                let count = blocks * trees * facts.leaf_depth;
                vec![Term {
                    what: "steps of row blocks with a leaf test",
                    count,
                    each: step(self.walk.tested),
                }]
            }
            Work::RowWalks => {
                let count = rows as f64 * trees * facts.leaf_depth;
                vec![Term { what: "steps of a row", count, each: self.walk.one }]
            }
        };
        Some(Estimate { terms })
    }
}
