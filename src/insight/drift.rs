//! Drift: how far the distributions of two tables are apart, over the bins of each feature and the leaves of each tree.

use super::bins::{BinCounts, BinnedFeature, FeatureBins};
use crate::{
    Predictor,
    cpu::{Row, Rows},
    error::{Error, Result},
    forest::{Forest, Node},
};

/// The maximum number of leaf slots that are held at a time, over all trees, unless a single row has more.
const SLOTS_AT_A_TIME: usize = 1 << 20;

/// Counts the rows of a table by the bins of each feature and the leaves of each tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftCounter {
    rows: u64,
    bins: BinCounts,
    /// How many rows reach each leaf, by leaf slot.
    leaves: Vec<u64>,
    /// Number of trees, each of which gives a row a leaf slot.
    trees: usize,
}

impl DriftCounter {
    /// Returns a counter that has counted no rows.
    pub fn new(forest: &Forest, bins: &FeatureBins) -> Self {
        Self {
            rows: 0,
            bins: bins.no_counts(),
            leaves: vec![0; forest.leaf_count()],
            trees: forest.trees.len(),
        }
    }

    /// Counts rows.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features.
    pub fn count<T: Row>(
        &mut self,
        bins: &FeatureBins,
        predictor: &Predictor,
        rows: &Rows<'_, T>,
    ) -> Result<()> {
        bins.count(rows, &mut self.bins)?;
        let piece = (SLOTS_AT_A_TIME / self.trees.max(1)).max(1);
        for first in (0..rows.len()).step_by(piece) {
            for slot in predictor.leaf_slots(&rows.slice(first, piece))? {
                self.leaves[slot as usize] += 1;
            }
        }
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Adds what another counter of the same forest has counted.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.bins.merge(&other.bins);
        self.leaves.iter_mut().zip(&other.leaves).for_each(|(all, some)| *all += some);
    }

    /// Returns how many rows were counted.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// The values of a bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bin {
    /// An interval of numbers.
    Numbers {
        /// The least number of the bin. `None` if the bin has no lower end.
        from: Option<f64>,
        /// The least number above the bin. `None` if the bin has no upper end.
        below: Option<f64>,
    },
    /// A category.
    Category(u32),
    /// Categories that are rare in the base or unknown to the model, and values that are no categories.
    OtherCategories,
    /// Missing values.
    Missing,
}

/// A feature's drift.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureDrift {
    /// Column of the feature.
    pub feature: u32,
    /// The population stability index; see [`psi`].
    pub psi: f64,
    /// The expected index if both tables are random rows of one population: `(bins - 1) x (1 / base rows + 1 / rows)`.
    pub by_chance: f64,
    /// The bins, with the numbers of rows of the base and of the other table.
    pub bins: Vec<(Bin, [u64; 2])>,
}

/// A tree's drift.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeDrift {
    /// Index of the tree, in the producer's order.
    pub tree: u32,
    /// The population stability index of its leaves; see [`psi`].
    pub psi: f64,
    /// The expected index if both tables are random rows of one population.
    pub by_chance: f64,
    /// The numbers of rows of the base and of the other table in groups of leaves, from left to right.
    pub bins: Vec<[u64; 2]>,
}

/// How far two tables are apart, as a model sees them.
///
/// ```
/// use fangorn::{Predictor, cpu::Rows, import, insight::{Drift, DriftCounter, FeatureBins}};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &Default::default())?;
/// let (columns, predictor) = (forest.features.len(), Predictor::new(&forest)?);
/// let bins = FeatureBins::new(&forest)?;
/// let values: Vec<f32> = (0..50 * columns).map(|i| (i * i % 89) as f32).collect();
/// let rows = Rows::new(&values, columns)?;
/// let mut base = DriftCounter::new(&forest, &bins);
/// base.count(&bins, &predictor, &rows)?;
/// let drift = Drift::new(&forest, &bins, [&base, &base], 20)?;
/// assert!(drift.features.iter().all(|feature| feature.psi == 0.0));
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Drift {
    /// The numbers of rows of the base and of the other table.
    pub rows: [u64; 2],
    /// The features that some split reads, those with the largest index first.
    pub features: Vec<FeatureDrift>,
    /// The trees, those with the largest index first.
    pub trees: Vec<TreeDrift>,
}

impl Drift {
    /// Compares two tables, the base first.
    ///
    /// Neighbouring bins of a feature are joined until each has at least one in `most_bins` of the base's rows, so that
    /// there are about `most_bins` bins. Categories with fewer rows are joined, too. If a table has missing values,
    /// they are a bin of their own. The leaves of a tree, from left to right, are joined in the same way.
    ///
    /// # Errors
    /// [`Error::Insight`]: a table has no rows.
    pub fn new(
        forest: &Forest,
        bins: &FeatureBins,
        tables: [&DriftCounter; 2],
        most_bins: usize,
    ) -> Result<Self> {
        let rows = tables.map(|table| table.rows);
        if rows.contains(&0) {
            let [base, rows] = rows;
            return Err(Error::Insight(format!(
                "the base has {base} rows, the other table {rows}; give at least one row in each"
            )));
        }
        let mut features: Vec<FeatureDrift> = (0..bins.features().len())
            .map(|at| {
                let counts = tables.map(|table| table.bins.of_feature(bins, at, table.rows));
                let missing = tables.map(|table| table.bins.missing[at]);
                of_feature(&bins.features()[at], &counts, missing, most_bins)
            })
            .collect();
        let mut trees: Vec<TreeDrift> = (0..forest.trees.len() as u32)
            .map(|tree| {
                let leaves: Vec<[u64; 2]> = leaves_in_order(forest, tree)
                    .map(|slot| tables.map(|table| table.leaves[slot as usize]))
                    .collect();
                let bins: Vec<[u64; 2]> =
                    joined(&leaves, most_bins).into_iter().map(|range| sum(&leaves[range])).collect();
                TreeDrift { tree, psi: psi(&bins), by_chance: by_chance(&bins), bins }
            })
            .collect();
        // Sorting is stable, so equal indices stay in the order of columns and trees.
        features.sort_by(|a, b| b.psi.total_cmp(&a.psi));
        trees.sort_by(|a, b| b.psi.total_cmp(&a.psi));
        Ok(Self { rows, features, trees })
    }
}

/// Returns the population stability index of the counts of two tables in the same bins: `Σ (q - p) x ln(q / p)`, with
/// the share `p` of the base and the share `q` of the other table in a bin.
///
/// Half a row is added to each bin of both tables, so that an empty bin has a logarithm. Two equal tables have exactly
/// 0.
///
/// ```
/// use fangorn::insight::psi;
///
/// assert_eq!(psi(&[[5, 5], [0, 0], [3, 3]]), 0.0);
/// assert!((psi(&[[500_000, 800_000], [500_000, 200_000]]) - 0.415888).abs() < 1e-5);
/// ```
pub fn psi(bins: &[[u64; 2]]) -> f64 {
    let total = [0, 1].map(|side| bins.iter().map(|counts| counts[side] as f64 + 0.5).sum::<f64>());
    let term = |counts: &[u64; 2]| {
        let [p, q] = [0, 1].map(|side| (counts[side] as f64 + 0.5) / total[side]);
        (q - p) * (q / p).ln()
    };
    bins.iter().map(term).sum()
}

fn by_chance(bins: &[[u64; 2]]) -> f64 {
    let rows = sum(bins).map(|rows| 1.0 / rows.max(1) as f64);
    // A bin without a row is the same in both tables, whatever the rows are.
    let filled = bins.iter().filter(|counts| **counts != [0, 0]).count();
    filled.saturating_sub(1) as f64 * (rows[0] + rows[1])
}

fn sum(bins: &[[u64; 2]]) -> [u64; 2] {
    bins.iter().fold([0, 0], |all, counts| [all[0] + counts[0], all[1] + counts[1]])
}

/// Returns the leaf slots of a tree from left to right.
fn leaves_in_order(forest: &Forest, tree: u32) -> impl Iterator<Item = u32> {
    let nodes = &forest.trees[tree as usize].nodes;
    let mut open = vec![0u32];
    std::iter::from_fn(move || {
        loop {
            match nodes[open.pop()? as usize] {
                Node::Leaf { slot } => return Some(slot),
                Node::Split { left, right, .. } => open.extend([right, left]),
            }
        }
    })
}

/// Joins neighbouring bins until each has at least one in `most` of the base's rows. If less than half of that is left
/// at the end, it joins the last bin.
fn joined(bins: &[[u64; 2]], most: usize) -> Vec<std::ops::Range<usize>> {
    let wanted = sum(bins)[0].div_ceil(most.max(1) as u64).max(1);
    let (mut ranges, mut first, mut rows) = (Vec::new(), 0, 0);
    for (at, [base, _]) in bins.iter().enumerate() {
        // A bin that is large enough by itself stays apart from a neighbour that nearly is.
        if *base >= wanted && rows >= wanted.div_ceil(2) {
            ranges.push(first..at);
            (first, rows) = (at, 0);
        }
        rows += base;
        if rows >= wanted {
            ranges.push(first..at + 1);
            (first, rows) = (at + 1, 0);
        }
    }
    match ranges.last_mut() {
        Some(last) if rows < wanted.div_ceil(2) => last.end = bins.len(),
        _ if first < bins.len() => ranges.push(first..bins.len()),
        _ => (),
    }
    ranges
}

fn of_feature(
    binned: &BinnedFeature,
    counts: &[Vec<u64>; 2],
    missing: [u64; 2],
    most_bins: usize,
) -> FeatureDrift {
    let both: Vec<[u64; 2]> = counts[0].iter().zip(&counts[1]).map(|(a, b)| [*a, *b]).collect();
    let mut bins = match binned.of_categories {
        true => of_categories(&both, most_bins),
        false => {
            let number = |at: Option<usize>| at.and_then(|at| binned.edges.get(at)).copied();
            let bin = |range: std::ops::Range<usize>| {
                let bin = Bin::Numbers {
                    from: number(range.start.checked_sub(1)),
                    below: number(Some(range.end - 1)),
                };
                (bin, sum(&both[range]))
            };
            joined(&both, most_bins).into_iter().map(bin).collect()
        }
    };
    if missing != [0, 0] {
        bins.push((Bin::Missing, missing));
    }
    let counts: Vec<[u64; 2]> = bins.iter().map(|(_, counts)| *counts).collect();
    FeatureDrift { feature: binned.feature, psi: psi(&counts), by_chance: by_chance(&counts), bins }
}

/// Returns a bin for each category that has one in `most` of the base's rows, and one for all others.
fn of_categories(both: &[[u64; 2]], most: usize) -> Vec<(Bin, [u64; 2])> {
    let wanted = sum(both)[0].div_ceil(most.max(1) as u64).max(1);
    let last = both.len().saturating_sub(1);
    let (mut bins, mut others) = (Vec::new(), [0, 0]);
    for (at, counts) in both.iter().enumerate() {
        match counts[0] >= wanted && (1..last).contains(&at) {
            true => bins.push((Bin::Category(at as u32 - 1), *counts)),
            false => others = sum(&[others, *counts]),
        }
    }
    if others != [0, 0] {
        bins.push((Bin::OtherCategories, others));
    }
    bins
}
