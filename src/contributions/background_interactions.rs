//! Interactions against a background of rows.
//!
//! With one background row, let `a` features of a leaf's path be satisfied by the row only, and `b` by the background
//! row only (see `interventional`). The Shapley interaction index of two features of the former is
//! `value (a - 2)! b! / (a + b - 1)!`, that of two of the latter `value a! (b - 2)! / (a + b - 1)!`, and that of one of
//! each `-value (a - 1)! (b - 1)! / (a + b - 1)!`: only for one set of the other features does the leaf's value depend
//! on both features (Grabisch, Roubens: *An axiomatic approach to the concept of interaction among players in
//! cooperative games*, 1999, for the index). An element of the matrix is half of it, and the diagonal has the rest of a
//! feature's contribution, as for path-dependent interactions.

use std::collections::HashMap;

use super::{
    interventional::{
        Effect, Interventional, MOST_FEATURES, NOTHING, Shares, check_columns, effects, output_of, values,
    },
    two_rows::{Reached, TakesLeaves, Walks, by_row},
};
use crate::{
    cpu::{Row, Rows},
    error::{Error, Result},
    forest::{Node, Targets},
    parallel,
};

/// The bytes that the sums of a row block of more than one row may take.
const BLOCK_BYTES: usize = 16 << 20;

/// The greatest number of rows of a row block, and the least one if a call has so many rows for each thread.
const MOST_ROWS: usize = 512;
const LEAST_ROWS: usize = 16;

impl Interventional {
    /// Returns the number of interactions of a row, `outputs x (features + 1) x (features + 1)`, or `None` if it
    /// overflows `usize`.
    pub fn interactions_width(&self) -> Option<usize> {
        self.width().checked_mul(self.forest.features.len() + 1)
    }

    /// Returns the interactions of rows against the background, `rows x outputs x (features + 1) x (features + 1)`.
    ///
    /// Their elements mean what those of [`Explainer::interactions`](super::Explainer::interactions) mean, but a feature
    /// that is not known has the value of a background row. A row of the matrix adds up to the feature's
    /// [contribution](Self::contributions).
    ///
    /// The cost of a tree is `nodes x (rows + background rows)`, and at each leaf the product of the numbers of
    /// different patterns of rows and background rows, times the pairs of the features of its path. If a path has more than
    /// 64 features, a walk for each pair of a row and a background row takes, at each leaf, the pairs of the features at
    /// which the two rows part. A thread takes 16 MB for sums or, if they take more, the sums of one row: up to 64 bytes
    /// for each pair of features on one path.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub fn interactions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = super::room(rows.len(), self.interactions_width(), "interactions")?;
        self.interactions_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes the interactions of rows against the background into `out`, `rows x outputs x (features + 1) x
    /// (features + 1)`; see [`interactions`](Self::interactions). Row blocks run on the threads of the current rayon
    /// pool.
    ///
    /// # Errors
    /// As for [`interactions`](Self::interactions), or `out` has the wrong length.
    pub fn interactions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        check_columns(&self.forest, rows)?;
        let width = self.interactions_width();
        if width.and_then(|width| rows.len().checked_mul(width)) != Some(out.len()) {
            let (room, rows, width) = (out.len(), rows.len(), width.unwrap_or(usize::MAX));
            return Err(Error::Rows(format!(
                "room for {room} values, {rows} rows of {width} interactions are asked for"
            )));
        }
        let Some(width) = width.filter(|_| !out.is_empty()) else { return Ok(()) };
        let most = (BLOCK_BYTES / (size_of::<f64>() * self.most_pairs()).max(1)).clamp(1, MOST_ROWS);
        let of_thread = rows.len().div_ceil(rayon::current_num_threads());
        let count = most.min(of_thread.max(LEAST_ROWS));
        parallel::each_chunk(out, count * width, &|b, out| {
            let rows = rows.slice(b * count, count);
            self.interact(&values(&self.forest, &self.columns, &rows), rows.len(), out);
        });
        Ok(())
    }

    /// Checks that there is memory for the interactions of `rows` rows.
    #[cfg(feature = "burn")]
    pub(crate) fn check_interactions(&self, rows: usize) -> Result<()> {
        super::reserve(rows, self.interactions_width(), "interactions").map(drop)
    }

    /// Returns a bound of the number of sums of a row.
    fn most_pairs(&self) -> usize {
        // A pair is a split's feature with that of a split above it, or with itself.
        let of_tree = |t: usize| {
            let most = if self.long_tree(t).is_some() { usize::MAX } else { MOST_FEATURES };
            let nodes = &self.forest.trees[t].nodes;
            let (mut open, mut pairs) = (vec![(0u32, 1)], 0usize);
            while let Some((n, level)) = open.pop() {
                if let Node::Split { left, right, .. } = nodes[n as usize] {
                    pairs = pairs.saturating_add(level);
                    let below = (level + 1).min(most);
                    open.extend([(left, below), (right, below)]);
                }
            }
            pairs
        };
        let values = match self.forest.targets {
            Targets::One(_) => 1,
            Targets::All => self.forest.outputs as usize,
        };
        let of_trees = (0..self.forest.trees.len()).map(of_tree).fold(0, usize::saturating_add);
        let columns = self.columns.len();
        let of_columns =
            (columns.saturating_mul(columns + 1) / 2).saturating_mul(self.forest.outputs as usize);
        of_trees.saturating_mul(values).min(of_columns)
    }

    /// Writes the interactions of `rows` rows, whose values of the explainer's columns are `values`, column after column.
    fn interact(&self, values: &[f64], rows: usize, out: &mut [f32]) {
        let mut sums = PairSums { rows, indices: HashMap::new(), sums: Vec::new() };
        let mut shares = Shares::default();
        let mut walks = None;
        for t in 0..self.forest.trees.len() {
            if let Some(long) = self.long_tree(t) {
                let (walks, values) =
                    walks.get_or_insert_with(|| (Walks::new(&self.forest, long), by_row(values, rows)));
                for (r, row) in values.chunks_exact(self.columns.len()).enumerate() {
                    walks.walk(
                        t,
                        row,
                        &mut Pairs { explainer: self, tree: t, row: r, parted: Vec::new(), sums: &mut sums },
                    );
                }
                continue;
            }
            self.each_leaf(t, values, rows, &mut |leaf| {
                shares.fill(&leaf, add_pair_shares);
                if shares.found.is_empty() {
                    return;
                }
                let (features, count) = (&leaf.features, leaf.features.len());
                for (k, value) in self.forest.leaf(leaf.slot).iter().enumerate() {
                    let output = output_of(&self.forest, t, k) as u32;
                    for (i, j) in (0..count).flat_map(|i| (i..count).map(move |j| (i, j))) {
                        let sums =
                            sums.of([output, features[i].min(features[j]), features[i].max(features[j])]);
                        for (slot, sum) in
                            shares.of_rows.iter().zip(sums).filter(|(slot, _)| **slot != NOTHING)
                        {
                            *sum += value.0 * shares.found[*slot as usize * count * count + i * count + j];
                        }
                    }
                }
            });
        }
        self.write_matrices(&sums, out);
    }

    /// Writes the matrices of a row block from its sums.
    fn write_matrices(&self, sums: &PairSums, out: &mut [f32]) {
        let (outputs, width) = (self.forest.outputs as usize, self.forest.features.len() + 1);
        let column = |feature: u32| self.columns[feature as usize] as usize;
        // Always in the same order, so that differences are rounded alike.
        let mut pairs: Vec<_> = sums.indices.iter().map(|(pair, index)| (*pair, *index)).collect();
        pairs.sort_unstable();
        let mut own = vec![0f64; outputs * self.columns.len()];
        for (r, out) in out.chunks_exact_mut(outputs * width * width).enumerate() {
            out.fill(0.0);
            own.fill(0.0);
            for ([output, a, b], index) in &pairs {
                let sum = sums.sums[index * sums.rows + r];
                let own = &mut own[*output as usize * self.columns.len()..][..self.columns.len()];
                if a == b {
                    own[*a as usize] += sum;
                    continue;
                }
                // Each of the two elements has half of the index.
                own[*a as usize] -= sum / 2.0;
                own[*b as usize] -= sum / 2.0;
                let out = &mut out[*output as usize * width * width..][..width * width];
                out[column(*a) * width + column(*b)] = (sum / 2.0) as f32;
                out[column(*b) * width + column(*a)] = (sum / 2.0) as f32;
            }
            for (o, out) in out.chunks_exact_mut(width * width).enumerate() {
                for (column, own) in self.columns.iter().zip(&own[o * self.columns.len()..]) {
                    out[*column as usize * (width + 1)] = *own as f32;
                }
                out[width * width - 1] = self.bias[o] as f32;
            }
        }
    }
}

/// The sums of a row block. An output, a feature and the same or a later one have a number for each row: the feature's
/// contributions, or the indices of the pair.
struct PairSums {
    rows: usize,
    indices: HashMap<[u32; 3], usize>,
    sums: Vec<f64>,
}

impl PairSums {
    /// Returns the sums of an output and two features.
    fn of(&mut self, key: [u32; 3]) -> &mut [f64] {
        let next = self.indices.len();
        let index = *self.indices.entry(key).or_insert(next);
        if index == next {
            self.sums.resize(self.sums.len() + self.rows, 0.0);
        }
        &mut self.sums[index * self.rows..][..self.rows]
    }
}

/// Adds up the sums of a row that walks through a long tree.
struct Pairs<'a> {
    explainer: &'a Interventional,
    tree: usize,
    /// The row's index in its row block.
    row: usize,
    /// The columns of the features that one row alone satisfies, and whether it is the row or the background row.
    parted: Vec<(u32, bool)>,
    sums: &'a mut PairSums,
}

impl TakesLeaves for Pairs<'_> {
    fn enter(&mut self, column: u32, is_of_row: bool) {
        self.parted.push((column, is_of_row));
    }

    fn leave(&mut self, _: u32, _: bool) {
        self.parted.pop();
    }

    fn leaf(&mut self, slot: u32, at: Reached) {
        let forest = &self.explainer.forest;
        let shares = PairShares::new(at.of_row, at.of_background, at.orders);
        for (k, value) in forest.leaf(slot).iter().enumerate() {
            let output = output_of(forest, self.tree, k) as u32;
            for (at, (i, i_of_row)) in self.parted.iter().enumerate() {
                self.sums.of([output, *i, *i])[self.row] += value.0 * shares.own(*i_of_row);
                for (j, j_of_row) in &self.parted[at + 1..] {
                    let sums = self.sums.of([output, *i.min(j), *i.max(j)]);
                    sums[self.row] += value.0 * shares.of_pair(*i_of_row, *j_of_row);
                }
            }
        }
    }
}

/// The shares of a leaf's value that features get of which the row alone satisfies some, and the background row alone the
/// others.
struct PairShares {
    of_row: f64,
    of_background: f64,
    /// `a! b! / (a + b)!` for their numbers, times the share of the background rows.
    orders: f64,
}

impl PairShares {
    fn new(of_row: u32, of_background: u32, orders: f64) -> Self {
        Self { of_row: of_row.into(), of_background: of_background.into(), orders }
    }

    /// Returns the contribution of a feature.
    fn own(&self, is_of_row: bool) -> f64 {
        if is_of_row { self.orders / self.of_row } else { -self.orders / self.of_background }
    }

    /// Returns the index of a pair of features.
    fn of_pair(&self, i_of_row: bool, j_of_row: bool) -> f64 {
        let of_both = self.orders * (self.of_row + self.of_background);
        match (i_of_row, j_of_row) {
            (true, true) => of_both / (self.of_row * (self.of_row - 1.0)),
            (false, false) => of_both / (self.of_background * (self.of_background - 1.0)),
            _ => -of_both / (self.of_row * self.of_background),
        }
    }
}

/// Adds the shares of a leaf's value for a row's pattern: a matrix of the path's features, with contributions on the
/// diagonal and the indices of pairs above it. Returns its index.
fn add_pair_shares(pattern: u64, features: usize, background: &[(u64, f64)], found: &mut Vec<f64>) -> u32 {
    let first = found.len();
    found.resize(first + features * features, 0.0);
    let mut gives = false;
    for Effect { only_row, only_background, orders } in effects(pattern, features, background) {
        gives = true;
        let shares = PairShares::new(only_row.count_ones(), only_background.count_ones(), orders);
        let matrix = &mut found[first..];
        let either = only_row | only_background;
        let is_of_row = |i: usize| only_row >> i & 1 == 1;
        for i in members(either) {
            matrix[i * features + i] += shares.own(is_of_row(i));
            for j in members(either).filter(|j| *j > i) {
                matrix[i * features + j] += shares.of_pair(is_of_row(i), is_of_row(j));
            }
        }
    }
    if !gives {
        found.truncate(first);
        return NOTHING;
    }
    (first / (features * features)) as u32
}

/// Returns the members of a set of bits, in ascending order.
fn members(set: u64) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(set), |set| Some(set & set.wrapping_sub(1)))
        .take_while(|set| *set != 0)
        .map(|set| set.trailing_zeros() as usize)
}
