//! The bins of a feature. Their bounds are the thresholds of the model's own splits, so the model does not tell values
//! of one bin apart. The index of a value's bin is the value's rank, so the kernels of [ranks](crate::ranks) find it.

use std::ops::Range;

use crate::{
    cpu::{Rank, Ranker, Row, Rows},
    error::Result,
    forest::{CategoryRule, CompareType, Forest, Node, Predicate, Real, Side, ZERO_ZONE},
    ranks::{Choice, ColumnKind, Ranks, Width},
};

/// The maximum number of categories of a feature that have bins of their own. All other categories share one more bin.
const MOST_CATEGORIES: u32 = 1 << 16;

/// The maximum number of ranks, and of rows, that are held at a time.
const RANKS_AT_A_TIME: usize = 1 << 22;
const ROWS_AT_A_TIME: usize = 4096;

/// The bins of all features that some split of a forest reads.
#[derive(Clone, Debug)]
pub struct FeatureBins {
    features: Vec<BinnedFeature>,
    ranker: Ranker,
    width: Width,
    /// For each column of ranked rows, where its counts begin.
    starts: Vec<usize>,
    /// Number of counts of all columns.
    counts: usize,
}

/// A feature, and the bounds of its bins.
#[derive(Clone, Debug)]
pub(super) struct BinnedFeature {
    pub(super) feature: u32,
    /// The bounds of the bins, ascending and distinct. Bin `i` holds the values below edge `i` that reach edge `i - 1`.
    pub(super) edges: Vec<f64>,
    /// Whether bin `i` is category `i - 1`. The first and the last bin then hold all values that are no category with a
    /// bin of its own.
    pub(super) of_categories: bool,
    /// The columns of ranked rows, each for a slice of the edges.
    columns: Range<usize>,
}

/// How many values lie in each bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BinCounts {
    /// Counts of ranks, column after column.
    ranks: Vec<u64>,
    /// For each binned feature, the number of missing values.
    pub(super) missing: Vec<u64>,
}

impl FeatureBins {
    /// Finds the bins of a forest's features.
    ///
    /// # Errors
    /// The forest breaks a rule, or has more thresholds than ranks can count.
    pub fn new(forest: &Forest) -> Result<Self> {
        forest.verify()?;
        let mut features = edges(forest);
        let ranks = Ranks::new(&forest_of_edges(forest, &features)?, Choice::Auto)?;
        let (mut starts, mut counts, mut column) = (Vec::new(), 0, 0);
        for binned in &mut features {
            let first = column;
            while let Some(found) = ranks.columns().get(column).filter(|c| c.feature == binned.feature) {
                let ColumnKind::Thresholds { count, .. } = found.asks else { break };
                starts.push(counts);
                counts += count as usize + 1;
                column += 1;
            }
            binned.columns = first..column;
        }
        Ok(Self { features, ranker: Ranker::new(&ranks), width: ranks.width(), starts, counts })
    }

    pub(super) fn features(&self) -> &[BinnedFeature] {
        &self.features
    }

    pub(super) fn no_counts(&self) -> BinCounts {
        BinCounts { ranks: vec![0; self.counts], missing: vec![0; self.features.len()] }
    }

    /// Counts the values of rows.
    pub(super) fn count<T: Row>(&self, rows: &Rows<'_, T>, counts: &mut BinCounts) -> Result<()> {
        for (binned, missing) in self.features.iter().zip(&mut counts.missing) {
            let is_missing = |row: &usize| -> bool {
                let value: f64 = rows.value(*row, binned.feature as usize).into();
                value.is_nan()
            };
            *missing += (0..rows.len()).filter(is_missing).count() as u64;
        }
        match self.width {
            Width::U8 => self.count_ranks::<T, u8>(rows, &mut counts.ranks),
            Width::U16 => self.count_ranks::<T, u16>(rows, &mut counts.ranks),
        }
    }

    fn count_ranks<T: Row, R: Rank>(&self, rows: &Rows<'_, T>, counts: &mut [u64]) -> Result<()> {
        if self.starts.is_empty() {
            return Ok(());
        }
        let columns = self.starts.len();
        let piece = (RANKS_AT_A_TIME / columns).clamp(1, ROWS_AT_A_TIME);
        let mut ranks = vec![R::default(); piece.min(rows.len()) * columns];
        for first in (0..rows.len()).step_by(piece) {
            let rows = rows.slice(first, piece);
            let ranks = &mut ranks[..rows.len() * columns];
            self.ranker.rank(&rows, ranks)?;
            for row in ranks.chunks_exact(columns) {
                for (rank, start) in row.iter().zip(&self.starts) {
                    let rank: u32 = (*rank).into();
                    counts[start + rank as usize] += 1;
                }
            }
        }
        Ok(())
    }
}

impl BinCounts {
    pub(super) fn merge(&mut self, other: &Self) {
        self.ranks.iter_mut().zip(&other.ranks).for_each(|(all, some)| *all += some);
        self.missing.iter_mut().zip(&other.missing).for_each(|(all, some)| *all += some);
    }

    /// Returns the counts of the bins of the binned feature `at`, without the missing values. `rows` is the number of
    /// rows.
    pub(super) fn of_feature(&self, bins: &FeatureBins, at: usize, rows: u64) -> Vec<u64> {
        let binned = &bins.features[at];
        if binned.columns.is_empty() {
            return vec![rows - self.missing[at]];
        }
        let mut counts: Vec<u64> = Vec::with_capacity(binned.edges.len() + 1);
        for column in binned.columns.clone() {
            let start = bins.starts[column];
            let end = bins.starts.get(column + 1).copied().unwrap_or(bins.counts);
            let of_slice = &self.ranks[start..end];
            match counts.last_mut() {
                // The last bin of the slice before holds the values that reach its last edge, and so also the values
                // that reach this slice's first edge.
                Some(last) => {
                    *last -= rows - of_slice[0];
                    counts.extend(&of_slice[1..]);
                }
                None => counts.extend(of_slice),
            }
        }
        // A missing value has rank 0 in every slice.
        if let Some(first) = counts.first_mut() {
            *first -= self.missing[at];
        }
        counts
    }
}

/// Returns each feature that some split reads, with the bounds of its bins, in column order.
fn edges(forest: &Forest) -> Vec<BinnedFeature> {
    let up = |x: f64| match forest.compare {
        CompareType::F32 => f64::from((x as f32).next_up()),
        CompareType::F64 => x.next_up(),
    };
    let zone = f64::from(ZERO_ZONE);
    let mut edges: Vec<Vec<f64>> = vec![Vec::new(); forest.features.len()];
    let mut categories: Vec<Option<(u32, CategoryRule)>> = vec![None; forest.features.len()];
    for node in forest.trees.iter().flat_map(|tree| &tree.nodes) {
        let Node::Split { feature, predicate, .. } = *node else { continue };
        let of = &mut edges[feature as usize];
        match predicate {
            Predicate::Less { threshold } => of.push(threshold.0),
            Predicate::LessZeroAside { threshold } => of.extend([threshold.0, -zone, up(zone)]),
            Predicate::Equal { value } => of.extend([value.0, up(value.0)]),
            Predicate::Always => (),
            Predicate::InSet { set, .. } => {
                let set = &forest.sets[set as usize];
                let (most, _) = *categories[feature as usize].get_or_insert((0, set.rule));
                let ends = set.members().max().map_or(0, |largest| largest + 1);
                categories[feature as usize] = Some((most.max(ends), set.rule));
            }
        }
    }
    for (f, of) in edges.iter_mut().enumerate() {
        let Some((ends, rule)) = categories[f] else { continue };
        let names = u32::try_from(forest.features[f].categories.len()).unwrap_or(u32::MAX);
        // Category `c` holds the values below `c + 1` that reach `c`.
        let ends = ends.max(names).min(MOST_CATEGORIES);
        let first = if rule == CategoryRule::Truncated { up(-1.0) } else { 0.0 };
        of.push(first);
        of.extend((1..=ends).map(f64::from));
    }
    let used = forest.used_columns().into_iter().map(|feature| {
        let mut edges = std::mem::take(&mut edges[feature as usize]);
        // No value is below -∞. Adding zero makes one edge of -0 and 0.
        edges.retain(|edge| *edge > f64::NEG_INFINITY);
        edges.iter_mut().for_each(|edge| *edge += 0.0);
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        // If a feature has numeric splits as well, its bins lie between numbers.
        let of_categories = categories[feature as usize].is_some_and(|(ends, _)| {
            let names = forest.features[feature as usize].categories.len();
            edges.len() == (ends as usize).max(names).min(MOST_CATEGORIES as usize) + 1
        });
        BinnedFeature { feature, edges, of_categories, columns: 0..0 }
    });
    used.collect()
}

/// Returns a forest with a split for each edge, in one balanced tree, so that a value's rank counts the edges that it
/// reaches. Missing values go left.
fn forest_of_edges(forest: &Forest, features: &[BinnedFeature]) -> Result<Forest> {
    let mut builder = Forest::builder(forest.features.len(), 1).compare(forest.compare);
    let splits: u32 = features.iter().map(|binned| binned.edges.len() as u32).sum();
    let mut tree = builder.tree(0);
    let mut at = 0;
    for binned in features {
        for edge in &binned.edges {
            let predicate = Predicate::Less { threshold: Real(*edge) };
            tree.split(binned.feature, predicate, Side::Left, 2 * at + 1, 2 * at + 2);
            at += 1;
        }
    }
    for leaf in 0..=splits {
        tree.leaf(splits + leaf, &[0.0]);
    }
    Ok(builder.build()?)
}
