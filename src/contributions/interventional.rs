//! Contributions against a background of rows: what features add if all other features have the values of a background
//! row.
//!
//! With one background row, a leaf counts for a set of features if the row has the path's side at all splits on
//! features of the set, and the background row at all other splits of the path. So of the path's features, those that
//! only the row satisfies have to be in the set, those that only the background row satisfies must not be, and if
//! neither satisfies a feature, the leaf never counts. With `a` of the former and `b` of the latter, each of the
//! former gets `value (a - 1)! b! / (a + b)!`, and each of the latter loses `value a! (b - 1)! / (a + b)!` (Lundberg
//! et al.: *From local explanations to global understanding with explainable AI for trees*, 2020, algorithm 3;
//! Laberge, Pequignot: *Understanding Interventional TreeSHAP*, 2022).
//!
//! A row satisfies some of a path's features, which is a pattern of bits. Rows with the same pattern at a leaf get the
//! same contributions from it, and background rows with the same pattern have the same effect. So a leaf is computed
//! once for each pair of patterns. For many rows, trees with short paths have tables that replace the background
//! ([`background_tables`](super::background_tables)). A tree with a path of more features than a pattern has bits is
//! computed by [`two_rows`](super::two_rows).

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use super::{
    background_tables::{Background, TabledTrees},
    run,
    shares::{add_to, full, orders},
    two_rows::{LongTrees, Walks, by_row, side},
};
use crate::{
    cpu::{Read, Row, Rows},
    error::{Error, Result},
    forest::{Aggregate, CompareType, Forest, Node, Side, Targets},
    parallel,
};

/// The maximum number of features of a path whose patterns are compared, because a pattern has a bit for each in one
/// word. A tree with a longer path is walked for each pair of a row and a background row.
pub(super) const MOST_FEATURES: usize = 64;

/// The greatest and the least number of rows of a row block, and the bytes of its values and sums.
const MOST_ROWS: usize = 2048;
const LEAST_ROWS: usize = 16;
const BLOCK_BYTES: usize = 16 << 20;

/// Calls with fewer rows do without pattern tables: for them the tables take longer to make than they save.
const ROWS_OF_TABLES: usize = 64;

/// A path with at most so many features has a table of patterns; a longer one has a map.
const MOST_FEATURES_OF_TABLE: usize = 12;

/// Explains a forest's margins against a background of rows: interventional SHAP values, as shap's `TreeExplainer`
/// computes them with `feature_perturbation="interventional"`. It is immutable and `Send + Sync`.
///
/// The contributions of a row are the mean over the background rows of the Shapley values of a game: the value of a
/// set of features is the margin of a row that takes these features from the row, and all others from the background
/// row. The bias is the mean margin of the background. They add up to the row's margin, before the forest's scale and
/// transform. The forest needs no covers.
///
/// In calls of 64 and more rows, a tree with at most eight splits on a path has
/// [pattern tables](super::Algorithm::PatternTables). They take at most 256 MB for all trees, and a row then takes the same
/// time whatever the number of background rows. The first such call makes them: a tree takes `splits x background rows`,
/// and at each leaf at most `3^depth` sets of features and, for each output, 256 patterns.
///
/// The cost of another tree is `nodes x (rows + background rows)`, and at each leaf the product of the numbers of different
/// patterns of rows and background rows. If a path has more than 64 features, its tree costs
/// `rows x background rows x nodes` at most: a walk for each pair, which enters both children of a split only if the two
/// rows take different sides. A few hundred background rows are usual.
///
/// ```
/// use fangorn::{Predictor, contributions::Interventional, cpu::Rows, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let columns = forest.features.len();
/// let (background, rows) = (vec![0.25f32; 3 * columns], vec![0.5f32; columns]);
/// let explainer = Interventional::new(&forest, &Rows::new(&background, columns)?)?;
/// // 1 row x 1 output x (features + 1)
/// let rows = Rows::new(&rows, columns)?;
/// let contributions = explainer.contributions(&rows)?;
/// let margin = Predictor::new(&forest)?.margins(&rows)?[0];
/// assert!((contributions.iter().sum::<f32>() - margin).abs() < 1e-5);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Interventional {
    pub(super) forest: Forest,
    /// The columns that some split reads, in ascending order.
    pub(super) columns: Vec<u32>,
    /// The background's values of these columns, column after column.
    background: Box<[f64]>,
    /// Number of background rows.
    count: usize,
    /// The mean margins of the background.
    pub(super) bias: Vec<f64>,
    /// The trees with pattern tables, if there are any. The first call with [`ROWS_OF_TABLES`] rows computes them.
    tabled: OnceLock<Option<Arc<TabledTrees>>>,
    /// The trees with paths of too many features for patterns, if there are any.
    long: Option<Box<LongTrees>>,
}

impl Interventional {
    /// Prepares a forest and the background rows.
    ///
    /// # Errors
    /// [`Error::Contributions`]: the margin is the least or largest leaf and no sum.
    /// [`Error::Rows`]: there are no background rows, or more than `u32::MAX`.
    /// [`Error::Columns`]: the background rows have another number of columns than the forest has features.
    /// [`Error::Forest`]: the forest breaks a rule.
    pub fn new<T: Row>(forest: &Forest, background: &Rows<'_, T>) -> Result<Self> {
        forest.verify()?;
        if forest.aggregate != Aggregate::Sum {
            return Err(Error::Contributions(format!(
                "the margin is the {} leaf and not a sum, so it has no contributions; explain a model that sums its trees",
                forest.aggregate.name()
            )));
        }
        check_columns(forest, background)?;
        if background.is_empty() || background.len() > u32::MAX as usize {
            let rows = background.len();
            return Err(Error::Rows(format!(
                "the background has {rows} rows; give some hundred typical rows"
            )));
        }
        let columns = forest.used_columns();
        let values = values(forest, &columns, background);
        Ok(Self::of_values(forest, columns, values, background.len()))
    }

    /// Prepares a forest and the background's values of some columns, column after column.
    fn of_values(forest: &Forest, columns: Vec<u32>, background: Vec<f64>, count: usize) -> Self {
        let mut explainer = Self {
            tabled: OnceLock::new(),
            long: LongTrees::find(forest, &columns, &background, count).map(Box::new),
            background: background.into(),
            count,
            bias: forest.base_score.iter().map(|base| base.0).collect(),
            columns,
            forest: forest.clone(),
        };
        let mut bias = std::mem::take(&mut explainer.bias);
        for t in 0..forest.trees.len() {
            let mut add = |slot: u32, reached: usize| {
                for (k, value) in forest.leaf(slot).iter().enumerate() {
                    bias[output_of(forest, t, k)] += value.0 * reached as f64 / count as f64;
                }
            };
            match explainer.long_tree(t) {
                Some(long) => long.each_slot_of_background(forest, t, |slot| add(slot, 1)),
                None => explainer.each_leaf(t, &[], 0, &mut |leaf| {
                    let full = full(leaf.features.len());
                    add(leaf.slot, leaf.background.iter().filter(|pattern| **pattern == full).count());
                }),
            }
        }
        explainer.bias = bias;
        explainer
    }

    /// Checks that there is memory for the contributions of `rows` rows.
    #[cfg(feature = "burn")]
    pub(crate) fn check_room(&self, rows: usize) -> Result<()> {
        super::reserve(rows, Some(self.width()), "contributions").map(drop)
    }

    /// Returns the numbers of margins and of columns of a row.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.forest.outputs as usize, self.forest.features.len()]
    }

    /// Returns the forest.
    #[cfg(feature = "kernels")]
    pub(crate) fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Returns the mean margins of the background.
    #[cfg(feature = "kernels")]
    pub(crate) fn bias(&self) -> &[f64] {
        &self.bias
    }

    /// Returns the number of background rows.
    #[cfg(feature = "kernels")]
    pub(crate) fn background_rows(&self) -> usize {
        self.count
    }

    /// Returns whether each background row goes left, for each split of a tree in the order of its program's splits.
    #[cfg(feature = "kernels")]
    pub(crate) fn sides_of_background(&self, tree: usize) -> impl Iterator<Item = Vec<bool>> {
        let nodes = &self.forest.trees[tree].nodes;
        let background = self.background();
        let splits = super::tables::splits_of(nodes, &[]);
        splits.into_iter().map(move |n| background.goes_left(&self.forest, nodes[n as usize]))
    }

    fn background(&self) -> Background<'_> {
        Background { columns: &self.columns, values: &self.background, count: self.count, bias: &self.bias }
    }

    /// Returns the trees with pattern tables, if there are any.
    pub(crate) fn tabled(&self) -> Option<Arc<TabledTrees>> {
        if let Some(tabled) = self.tabled.get() {
            return tabled.clone();
        }
        // Outside of the lock, because the threads that compute tables may take up another call that waits for it.
        let computed = TabledTrees::new(&self.forest, &self.background()).map(Arc::new);
        self.tabled.get_or_init(|| computed).clone()
    }

    /// Returns the long trees if tree `t` is one of them.
    pub(super) fn long_tree(&self, t: usize) -> Option<&LongTrees> {
        self.long.as_deref().filter(|long| long.has(t))
    }

    /// Returns a line that says how the contributions are computed: the algorithms, and how many trees each has. It makes
    /// the pattern tables if no call has made them. Fewer rows than those that the line names take the patterns at each
    /// leaf in place of tables.
    pub fn algorithm(&self) -> String {
        let trees = self.forest.trees.len();
        if trees == 0 {
            return "a forest without trees".to_owned();
        }
        let with_tables = self.tabled();
        let tabled = (0..trees).filter(|t| with_tables.as_ref().is_some_and(|trees| trees.has(*t))).count();
        let long = (0..trees).filter(|t| self.long_tree(*t).is_some()).count();
        let all = [
            (tabled, format!("pattern tables of the background from {ROWS_OF_TABLES} rows on")),
            (trees - tabled - long, "patterns of rows and of the background at each leaf".to_owned()),
            (long, "walks of each row with each background row".to_owned()),
        ];
        let all: Vec<String> = all
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, algorithm)| match count == trees {
                true => algorithm,
                false => format!("{algorithm} in {count} of {trees} trees"),
            })
            .collect();
        all.join("; ")
    }

    /// Returns the number of values of a row: `outputs x (features + 1)`.
    pub fn width(&self) -> usize {
        self.forest.outputs as usize * (self.forest.features.len() + 1)
    }

    /// Returns the contributions of rows, `rows x outputs x (features + 1)`, the bias last.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub fn contributions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = super::room(rows.len(), Some(self.width()), "contributions")?;
        self.contributions_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)`, the bias last. Row blocks
    /// run on the threads of the current rayon pool.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has the wrong length.
    pub fn contributions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        check_columns(&self.forest, rows)?;
        if rows.len().checked_mul(self.width()) != Some(out.len()) {
            let (room, rows, width) = (out.len(), rows.len(), self.width());
            return Err(Error::Rows(format!(
                "room for {room} values, {rows} rows of {width} contributions are asked for"
            )));
        }
        if out.is_empty() {
            return Ok(());
        }
        let tabled = if rows.len() >= ROWS_OF_TABLES { self.tabled() } else { None };
        let tabled = tabled.as_deref();
        if let Some(tabled) = tabled {
            match (T::doubles(rows), &tabled.doubles) {
                (Some(rows), Some(program)) => run::run::<f64, f64>(program, rows, out),
                _ => run::run::<T, f32>(&tabled.singles, rows, out),
            }
            if tabled.has_all() {
                return Ok(());
            }
        }
        let of_row = size_of::<f64>() * self.columns.len() * (1 + self.forest.outputs as usize);
        let mut count = (BLOCK_BYTES / of_row.max(1)).clamp(LEAST_ROWS, MOST_ROWS);
        if self.long.is_some() {
            // Walks take long, so that threads share even few rows. Blocks are still large enough that a traversal of
            // another tree costs no more for the background than for the rows.
            count = count.min(self.count.max(LEAST_ROWS));
        }
        parallel::each_chunk(out, count * self.width(), &|b, out| {
            let rows = rows.slice(b * count, count);
            self.run(&values(&self.forest, &self.columns, &rows), rows.len(), tabled, out);
        });
        Ok(())
    }

    /// Writes the contributions of `rows` rows, whose values of [`columns`](Self::columns) are `values`, column after
    /// column. Contributions of the trees in `tabled` are in `out`, and those of the others are added.
    fn run(&self, values: &[f64], rows: usize, tabled: Option<&TabledTrees>, out: &mut [f32]) {
        let (outputs, columns) = (self.forest.outputs as usize, self.columns.len());
        let of_row = outputs * columns;
        let mut sums = vec![0f64; rows * of_row];
        let mut shares = Shares::default();
        let mut walks =
            self.long.as_deref().map(|long| (Walks::new(&self.forest, long), by_row(values, rows)));
        let is_left = |t: &usize| tabled.is_none_or(|tabled| !tabled.has(*t));
        for t in (0..self.forest.trees.len()).filter(is_left) {
            if let (Some((walks, values)), Some(_)) = (&mut walks, self.long_tree(t)) {
                // The outputs of a tree follow one another.
                let first = output_of(&self.forest, t, 0) * columns;
                for (row, sums) in values.chunks_exact(columns).zip(sums.chunks_exact_mut(of_row)) {
                    walks.add(t, row, &mut sums[first..]);
                }
                continue;
            }
            self.each_leaf(t, values, rows, &mut |leaf| {
                shares.fill(&leaf, add_shares);
                let count = leaf.features.len();
                for (slot, sums) in shares.of_rows.iter().zip(sums.chunks_exact_mut(of_row.max(1))) {
                    if *slot == NOTHING {
                        continue;
                    }
                    let shares = &shares.found[*slot as usize * count..][..count];
                    for (k, value) in self.forest.leaf(leaf.slot).iter().enumerate() {
                        let sums = &mut sums[output_of(&self.forest, t, k) * columns..][..columns];
                        for (feature, share) in leaf.features.iter().zip(shares) {
                            sums[*feature as usize] += value.0 * share;
                        }
                    }
                }
            });
        }
        let width = self.forest.features.len() + 1;
        for (r, out) in out.chunks_exact_mut(outputs * width).enumerate() {
            if tabled.is_none() {
                out.fill(0.0);
                out.iter_mut()
                    .skip(width - 1)
                    .step_by(width)
                    .zip(&self.bias)
                    .for_each(|(out, bias)| *out = *bias as f32);
            }
            for (o, out) in out.chunks_exact_mut(width).enumerate() {
                for (column, sum) in self.columns.iter().zip(&sums[r * of_row + o * columns..]) {
                    out[*column as usize] += *sum as f32;
                }
            }
        }
    }

    /// Traverses a tree, and calls `take` at each leaf with the patterns of `count` rows, whose values are `values`,
    /// and of the background. The tree must not be a long one.
    pub(super) fn each_leaf(
        &self,
        tree: usize,
        values: &[f64],
        count: usize,
        take: &mut impl FnMut(LeafPatterns),
    ) {
        let nodes = &self.forest.trees[tree].nodes;
        let root = LeafPatterns {
            slot: 0,
            features: Vec::new(),
            rows: vec![0; count],
            background: vec![0; self.count],
        };
        let mut open = vec![(0u32, root)];
        while let Some((n, mut patterns)) = open.pop() {
            let Node::Split { feature, predicate, missing, left, right } = nodes[n as usize] else {
                patterns.slot = nodes[n as usize].slot().unwrap_or(0);
                take(patterns);
                continue;
            };
            // `columns` holds every column that a split reads.
            let column = self.columns.binary_search(&feature).unwrap_or(0);
            let known = patterns.features.iter().position(|f| *f as usize == column);
            let bit = known.unwrap_or(patterns.features.len());
            if known.is_none() {
                patterns.features.push(column as u32);
            }
            // If a feature is new on the path, its bit is set on the side that a row takes. If not, its bit is cleared
            // on the other side.
            let new = if known.is_none() { 1u64 << bit } else { 0 };
            let split = |patterns: &mut [u64], values: &[f64]| -> Vec<u64> {
                let divide = |(pattern, x): (&mut u64, &f64)| {
                    let with = *pattern | new;
                    let without = *pattern & !(1 << bit);
                    let goes_left = side(&self.forest.sets, predicate, missing, *x) == Side::Left;
                    *pattern = if goes_left { with } else { without };
                    if goes_left { without } else { with }
                };
                patterns.iter_mut().zip(values).map(divide).collect()
            };
            let of_right = LeafPatterns {
                slot: 0,
                rows: split(&mut patterns.rows, &values[column * count..][..count]),
                background: split(
                    &mut patterns.background,
                    &self.background[column * self.count..][..self.count],
                ),
                features: patterns.features.clone(),
            };
            // Leaves are on top of the stack and leave it at once, so that the stack of a long chain stays short.
            let mut children = [(right, of_right), (left, patterns)];
            children.sort_by_key(|(child, _)| nodes[*child as usize].slot().is_some());
            open.extend(children);
        }
    }
}

/// Which features of the path to a leaf each row and each background row satisfies, a bit for each feature.
pub(super) struct LeafPatterns {
    /// The leaf.
    pub(super) slot: u32,
    /// The path's features, as indices into [`Interventional::columns`].
    pub(super) features: Vec<u32>,
    rows: Vec<u64>,
    background: Vec<u64>,
}

/// Stands for no shares: the leaf adds nothing to the row's contributions.
pub(super) const NOTHING: u32 = u32::MAX;

/// Stands for a pattern whose shares have not been computed.
const UNKNOWN: u32 = u32::MAX - 1;

/// Adds the shares of a leaf's value for a row's pattern, given the number of the path's features, and the patterns of the
/// background with their shares of the background rows. Returns the index of the shares.
pub(super) type AddShares = fn(u64, usize, &[(u64, f64)], &mut Vec<f64>) -> u32;

/// For each pattern of rows, the shares of a leaf's value that the features of its path get.
#[derive(Default)]
pub(super) struct Shares {
    /// For each row, the index of its pattern's shares in `found`.
    pub(super) of_rows: Vec<u32>,
    /// The shares: for each pattern, as many numbers as the function adds that computes them.
    pub(super) found: Vec<f64>,
    /// The index of each pattern's shares, if there are few patterns.
    table: Vec<u32>,
    map: HashMap<u64, u32>,
}

impl Shares {
    pub(super) fn fill(&mut self, leaf: &LeafPatterns, add_shares: AddShares) {
        let features = leaf.features.len();
        let mut sorted = leaf.background.clone();
        sorted.sort_unstable();
        // Each pattern of the background, and its share of the background rows.
        let all = sorted.len() as f64;
        let background: Vec<(u64, f64)> =
            sorted.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as f64 / all)).collect();
        self.of_rows.clear();
        self.found.clear();
        self.map.clear();
        let has_table = features <= MOST_FEATURES_OF_TABLE;
        if has_table {
            self.table.clear();
            self.table.resize(1 << features, UNKNOWN);
        }
        for pattern in &leaf.rows {
            let index = match has_table {
                true => &mut self.table[*pattern as usize],
                false => self.map.entry(*pattern).or_insert(UNKNOWN),
            };
            if *index == UNKNOWN {
                *index = add_shares(*pattern, features, &background, &mut self.found);
            }
            self.of_rows.push(*index);
        }
    }
}

/// What a pattern of the background does to a leaf's value for a row.
pub(super) struct Effect {
    /// The features of the path that only the row satisfies.
    pub(super) only_row: u64,
    /// The features of the path that only the background row satisfies.
    pub(super) only_background: u64,
    /// The pattern's share of the background rows, times `a! b! / (a + b)!` for the numbers of features of both.
    pub(super) orders: f64,
}

/// Returns the effects of the patterns of a background for a row's pattern: of those with which the leaf counts, and not
/// for all sets of features.
pub(super) fn effects(
    pattern: u64,
    features: usize,
    background: &[(u64, f64)],
) -> impl Iterator<Item = Effect> {
    let full = full(features);
    let counts = move |(other, _): &&(u64, f64)| pattern | other == full && pattern & other != full;
    background.iter().filter(counts).map(move |(other, share)| {
        let (only_row, only_background) = (full & !other, full & !pattern);
        let orders = share * orders(only_row.count_ones() as usize, only_background.count_ones() as usize);
        Effect { only_row, only_background, orders }
    })
}

/// Adds the shares of a leaf's value that `features` features get for a row's pattern. Returns their index.
fn add_shares(pattern: u64, features: usize, background: &[(u64, f64)], found: &mut Vec<f64>) -> u32 {
    let first = found.len();
    found.resize(first + features, 0.0);
    let mut gives = false;
    for Effect { only_row, only_background, orders } in effects(pattern, features, background) {
        gives = true;
        // Divided by `a` it is `(a - 1)! b! / (a + b)!`, and divided by `b` it is `a! (b - 1)! / (a + b)!`.
        let (a, b) = (f64::from(only_row.count_ones()), f64::from(only_background.count_ones()));
        add_to(&mut found[first..], only_row, orders / a);
        add_to(&mut found[first..], only_background, -orders / b);
    }
    if !gives {
        found.truncate(first);
        return NOTHING;
    }
    (first / features) as u32
}

pub(super) fn output_of(forest: &Forest, tree: usize, value: usize) -> usize {
    match &forest.targets {
        Targets::One(outputs) => outputs[tree] as usize,
        Targets::All => value,
    }
}

pub(super) fn check_columns<T: Row>(forest: &Forest, rows: &Rows<'_, T>) -> Result<()> {
    let expected = forest.features.len();
    if rows.columns() == expected { Ok(()) } else { Err(Error::Columns { found: rows.columns(), expected }) }
}

/// Returns the rows' values of some columns, column after column, in the type in which the forest compares.
pub(super) fn values<T: Row>(forest: &Forest, columns: &[u32], rows: &Rows<'_, T>) -> Vec<f64> {
    match (T::doubles(rows), forest.compare == CompareType::F64) {
        (Some(rows), true) => values_as::<f64, f64>(columns, rows),
        _ => values_as::<T, f32>(columns, rows),
    }
}

fn values_as<T, C>(columns: &[u32], rows: &Rows<'_, T>) -> Vec<f64>
where
    T: Row + Read<C>,
    C: Copy + Default + Into<f64>,
{
    let mut column = vec![C::default(); rows.len()];
    let mut all = Vec::with_capacity(columns.len() * rows.len());
    for number in columns {
        rows.read_column(0, *number as usize, &mut column);
        all.extend(column.iter().map(|value| -> f64 { (*value).into() }));
    }
    all
}
