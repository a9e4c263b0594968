//! Products over the column groups of a compressed matrix X (Elgohary et al., VLDB 2016, section 3). Both work on the
//! dictionaries beside a table for each group, with a row for each tuple:
//!
//! - X W multiplies each dictionary by W. A row of the result is the sum of the table rows that its codes name.
//! - t(X) W adds each row of W to the table rows that its codes name. The dictionaries are multiplied by the tables in
//!   the end.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    kernels::{add_scaled, dot},
    tiles::gemm,
};
use crate::{ColumnGroup, CompressedMatrix, Encoding};

/// Tells whether tables pay for a product with so many columns, if each of some threads has its own. They do if they
/// take no more memory than the dense matrix.
pub(super) fn pays(matrix: &CompressedMatrix, width: usize, threads: usize) -> bool {
    let encoded = matrix.groups().iter().filter(|group| group.encoding() != Encoding::Uncompressed);
    let held: usize = encoded.map(|group| group.dictionary().len()).sum();
    let (rows, columns) = matrix.shape();
    held.saturating_mul(width).saturating_mul(threads) <= rows.saturating_mul(columns)
}

/// The product X W.
pub(super) struct RightProduct<'a> {
    matrix: &'a CompressedMatrix,
    width: usize,
    /// For each group the product of its dictionary and W. If it is uncompressed, the rows of W for its columns.
    tables: Vec<Vec<f64>>,
}

impl<'a> RightProduct<'a> {
    /// Multiplies the dictionaries by W, which has so many columns and is row-major.
    pub fn new(matrix: &'a CompressedMatrix, right: &[f64], width: usize) -> Self {
        let table = |group: &ColumnGroup| {
            let rows: Vec<f64> = group
                .columns()
                .iter()
                .flat_map(|column| &right[column * width..][..width])
                .copied()
                .collect();
            if group.encoding() == Encoding::Uncompressed {
                return rows;
            }
            let mut table = vec![0.0; group.tuples() * width];
            add_product(group.dictionary(), &rows, width, &mut table);
            table
        };
        Self { matrix, width, tables: matrix.groups().par_iter().map(table).collect() }
    }

    /// Computes some rows of the product.
    pub fn rows(&self, rows: Range<usize>, out: &mut [f64]) {
        let width = self.width;
        out.fill(0.0);
        for (group, table) in self.matrix.groups().iter().zip(&self.tables) {
            if group.encoding() == Encoding::Uncompressed {
                let inner = group.columns().len();
                add_product(&group.dictionary()[rows.start * inner..rows.end * inner], table, width, out);
            } else if width == 1 {
                group.for_codes(rows.clone(), |row, code| out[row] += table[code]);
            } else {
                group.for_codes(rows.clone(), |row, code| {
                    let from = &table[code * width..][..width];
                    out[row * width..][..width].iter_mut().zip(from).for_each(|(out, x)| *out += x);
                });
            }
        }
    }
}

/// Adds the product of a matrix by one with so many columns, both row-major.
fn add_product(left: &[f64], right: &[f64], width: usize, out: &mut [f64]) {
    let inner = right.len() / width;
    if width == 1 {
        out.iter_mut().zip(left.chunks_exact(inner)).for_each(|(out, row)| *out += dot(row, right));
        return;
    }
    gemm((left.len() / inner, inner, width), (left, inner, 1), (right, width, 1), 1.0, out);
}

/// The part of a product t(X) W that a thread computes.
pub(super) struct LeftProduct<'a> {
    matrix: &'a CompressedMatrix,
    width: usize,
    /// For each group the sums of the rows of W by tuple. If it is direct, the product for its columns.
    tables: Vec<Vec<f64>>,
    /// The groups whose rows are multiplied one by one: those that are uncompressed, and those that hold infinity. A
    /// product with infinity depends on the sign of each row of W, which their sum loses.
    direct: Vec<bool>,
}

impl<'a> LeftProduct<'a> {
    /// Starts a product with so many columns, of no rows yet.
    pub fn new(matrix: &'a CompressedMatrix, width: usize) -> Self {
        let is_direct = |group: &ColumnGroup| {
            group.encoding() == Encoding::Uncompressed || group.dictionary().iter().any(|x| x.is_infinite())
        };
        let direct: Vec<bool> = matrix.groups().iter().map(is_direct).collect();
        let height =
            |group: &ColumnGroup, direct: bool| if direct { group.columns().len() } else { group.tuples() };
        let groups = matrix.groups().iter().zip(&direct);
        let tables = groups.map(|(group, direct)| vec![0.0; height(group, *direct) * width]).collect();
        Self { matrix, width, tables, direct }
    }

    /// Adds the product of some rows of X and the same rows of W, which are row-major.
    pub fn add(&mut self, rows: Range<usize>, right: &[f64]) {
        let width = self.width;
        let groups = self.matrix.groups().iter().zip(&mut self.tables).zip(&self.direct);
        for ((group, table), direct) in groups {
            if *direct {
                group.for_codes(rows.clone(), |row, code| {
                    add_outer(group.tuple(code), &right[row * width..][..width], table);
                });
            } else if width == 1 {
                group.for_codes(rows.clone(), |row, code| table[code] += right[row]);
            } else {
                group.for_codes(rows.clone(), |row, code| {
                    let from = &right[row * width..][..width];
                    table[code * width..][..width].iter_mut().zip(from).for_each(|(sum, x)| *sum += x);
                });
            }
        }
    }

    /// Adds the product to sums, columns of X x columns of W.
    pub fn finish(self, sums: &mut [f64]) {
        let width = self.width;
        for ((group, table), direct) in self.matrix.groups().iter().zip(self.tables).zip(self.direct) {
            let mut product = table;
            if !direct {
                let by_tuple = std::mem::replace(&mut product, vec![0.0; group.columns().len() * width]);
                for (tuple, right) in by_tuple.chunks_exact(width).enumerate() {
                    add_outer(group.tuple(tuple), right, &mut product);
                }
            }
            for (column, product) in group.columns().iter().zip(product.chunks_exact(width)) {
                sums[column * width..][..width].iter_mut().zip(product).for_each(|(sum, x)| *sum += x);
            }
        }
    }
}

/// Adds the product of a column and a row.
fn add_outer(column: &[f64], row: &[f64], out: &mut [f64]) {
    if let [scale] = row {
        add_scaled(out, *scale, column);
        return;
    }
    column.iter().zip(out.chunks_exact_mut(row.len())).for_each(|(scale, out)| add_scaled(out, *scale, row));
}
