//! Interactions against a background of rows.
//!
//! With one background row, let `a` features of a leaf's path be satisfied by the row only, and `b` by the background row
//! only (see `interventional`). The Shapley interaction index of two features of the former is
//! `value (a - 2)! b! / (a + b - 1)!`, that of two of the latter `value a! (b - 2)! / (a + b - 1)!`, and that of one of
//! each `-value (a - 1)! (b - 1)! / (a + b - 1)!`: of the sets without the two features, the leaf tells exactly one from
//! the others (Grabisch, Roubens: *An axiomatic approach to the concept of interaction among players in cooperative
//! games*, 1999, for the index). An element of the matrix is half of it, and the diagonal has the rest of a feature's
//! contribution, as for path-dependent interactions.

use super::{
    interventional::{Interventional, NOTHING, Shares, check_columns, output_of, values},
    shares::{full, orders},
};
use crate::{
    cpu::{Row, Rows},
    error::{Error, Result},
    parallel,
};

/// The bytes that the sums of a row block of more than one row may take.
const BLOCK_BYTES: usize = 16 << 20;

/// The maximum number of rows of a row block.
const MOST_ROWS: usize = 512;

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
    /// different patterns of rows and background rows, times the pairs of the features of its path.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    /// [`Error::Contributions`]: a path has more than 64 features.
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
        self.check_paths()?;
        let Some(width) = width.filter(|_| !out.is_empty()) else { return Ok(()) };
        let of_row = size_of::<f64>() * self.columns.len().pow(2) * self.forest.outputs as usize;
        let count = (BLOCK_BYTES / of_row.max(1)).clamp(1, MOST_ROWS);
        parallel::each_chunk(out, count * width, &|b, out| {
            let rows = rows.slice(b * count, count);
            self.interact(&values(&self.forest, &self.columns, &rows), rows.len(), out);
        });
        Ok(())
    }

    /// Checks that there are interactions, and memory for those of `rows` rows.
    #[cfg(feature = "burn")]
    pub(crate) fn check_interactions(&self, rows: usize) -> Result<()> {
        self.check_paths()?;
        super::reserve(rows, self.interactions_width(), "interactions").map(drop)
    }

    fn check_paths(&self) -> Result<()> {
        match (0..self.forest.trees.len()).any(|t| self.long_tree(t).is_some()) {
            true => Err(Error::Contributions(
                "interactions against a background take paths of at most 64 features; explain the model by \
                 contributions, or by interactions without a background"
                    .into(),
            )),
            false => Ok(()),
        }
    }

    /// Writes the interactions of `rows` rows, whose values of the explainer's columns are `values`, column after column.
    fn interact(&self, values: &[f64], rows: usize, out: &mut [f32]) {
        let (outputs, columns) = (self.forest.outputs as usize, self.columns.len());
        let of_output = columns * columns;
        let of_row = outputs * of_output;
        // For each row and output, the contributions on the diagonal, and the indices of pairs above it.
        let mut sums = vec![0f64; rows * of_row];
        let mut shares = Shares::default();
        for t in 0..self.forest.trees.len() {
            self.each_leaf(t, values, rows, &mut |leaf| {
                shares.fill(&leaf, add_pair_shares);
                let (features, count) = (&leaf.features, leaf.features.len());
                for (slot, sums) in shares.of_rows.iter().zip(sums.chunks_exact_mut(of_row.max(1))) {
                    if *slot == NOTHING {
                        continue;
                    }
                    let shares = &shares.found[*slot as usize * count * count..][..count * count];
                    for (k, value) in self.forest.leaf(leaf.slot).iter().enumerate() {
                        let sums = &mut sums[output_of(&self.forest, t, k) * of_output..][..of_output];
                        for (i, shares) in shares.chunks_exact(count).enumerate() {
                            for (j, share) in shares.iter().enumerate().skip(i) {
                                let (a, b) = (features[i] as usize, features[j] as usize);
                                sums[a.min(b) * columns + a.max(b)] += value.0 * share;
                            }
                        }
                    }
                }
            });
        }
        let width = self.forest.features.len() + 1;
        for (r, out) in out.chunks_exact_mut(outputs * width * width).enumerate() {
            for (o, out) in out.chunks_exact_mut(width * width).enumerate() {
                self.write_matrix(&mut sums[r * of_row + o * of_output..][..of_output], self.bias[o], out);
            }
        }
    }

    /// Writes the matrix of a row and an output from its sums.
    fn write_matrix(&self, sums: &mut [f64], bias: f64, out: &mut [f32]) {
        let (columns, width) = (self.columns.len(), self.forest.features.len() + 1);
        out.fill(0.0);
        for i in 0..columns {
            for j in i + 1..columns {
                // Each of the two elements has half of the index.
                let half = sums[i * columns + j] / 2.0;
                sums[i * (columns + 1)] -= half;
                sums[j * (columns + 1)] -= half;
                let (a, b) = (self.columns[i] as usize, self.columns[j] as usize);
                out[a * width + b] = half as f32;
                out[b * width + a] = half as f32;
            }
        }
        for (i, column) in self.columns.iter().enumerate() {
            out[*column as usize * (width + 1)] = sums[i * (columns + 1)] as f32;
        }
        out[width * width - 1] = bias as f32;
    }
}

/// Adds the shares of a leaf's value for a row's pattern: a matrix of the path's features, with contributions on the
/// diagonal and the indices of pairs above it. Returns its index.
fn add_pair_shares(pattern: u64, features: usize, background: &[(u64, f64)], found: &mut Vec<f64>) -> u32 {
    let full = full(features);
    let first = found.len();
    found.resize(first + features * features, 0.0);
    let mut gives = false;
    for (of_background, share) in background.iter().filter(|(other, _)| pattern | other == full) {
        let (only_row, only_background) = (full & !of_background, full & !pattern);
        let (a, b) = (only_row.count_ones() as usize, only_background.count_ones() as usize);
        if a + b == 0 {
            continue;
        }
        gives = true;
        let orders = share * orders(a, b);
        let (of_row, of_other, of_both) = (a as f64, b as f64, (a + b) as f64);
        let matrix = &mut found[first..];
        let either = only_row | only_background;
        for i in members(either) {
            let i_of_row = only_row >> i & 1 == 1;
            matrix[i * features + i] += if i_of_row { orders / of_row } else { -orders / of_other };
            for j in members(either).filter(|j| *j > i) {
                let j_of_row = only_row >> j & 1 == 1;
                matrix[i * features + j] += match (i_of_row, j_of_row) {
                    (true, true) => orders * of_both / (of_row * (of_row - 1.0)),
                    (false, false) => orders * of_both / (of_other * (of_other - 1.0)),
                    _ => -orders * of_both / (of_row * of_other),
                };
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
