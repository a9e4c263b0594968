//! Products over the column groups of a compressed matrix X (Elgohary et al., VLDB 2016, section 3). Both work on the
//! dictionaries beside a table for each group, with a row for each tuple:
//!
//! - X W multiplies each dictionary by W. A row of the result is the sum of the table rows that its codes name.
//! - t(X) W adds each row of W to the table rows that its codes name. The dictionaries are multiplied by the tables in
//!   the end.

use std::ops::Range;

use rayon::prelude::*;

use super::{
    kernels::{View, aggregate, dot},
    tiles::gemm,
};
use crate::{ColumnGroup, CompressedMatrix, Encoding, dag::Aggregation, select::GROUP_COLUMNS};

/// Tells whether tables pay for a product with so many columns, if each of some threads has its own. They do if they
/// take no more memory than the dense matrix.
pub(super) fn pays(matrix: &CompressedMatrix, width: usize, threads: usize) -> bool {
    let encoded = matrix.groups().iter().filter(|group| group.encoding() != Encoding::Uncompressed);
    let held: usize = encoded.map(|group| group.dictionary().len()).sum();
    let (rows, columns) = matrix.shape();
    held.saturating_mul(width).saturating_mul(threads) <= rows.saturating_mul(columns)
}

/// The number of rows that one pass goes through for all groups. Their sums stay in a first-level cache.
const ROWS: usize = 1024;

// `for_columns` has an arm for each number of columns.
const _: () = assert!(GROUP_COLUMNS == 4);

/// Calls a method for products with so many columns, so that the compiler unrolls loops over columns.
macro_rules! for_columns {
    ($width:expr, $this:ident.$method:ident($($argument:expr),*)) => {
        match $width {
            1 => $this.$method::<1>($($argument),*),
            2 => $this.$method::<2>($($argument),*),
            3 => $this.$method::<3>($($argument),*),
            _ => $this.$method::<4>($($argument),*),
        }
    };
}

/// The product X W.
pub(super) struct RightProduct<'a> {
    matrix: &'a CompressedMatrix,
    width: usize,
    /// For each group the product of its dictionary and W. If it is uncompressed, the rows of W for its columns.
    tables: Vec<Vec<f64>>,
}

impl<'a> RightProduct<'a> {
    /// Multiplies the dictionaries by W, which has so many columns, at most `GROUP_COLUMNS`, and is row-major.
    pub fn new(matrix: &'a CompressedMatrix, right: &[f64], width: usize) -> Self {
        let table = |group: &ColumnGroup| {
            let rows = group.columns().iter().flat_map(|column| &right[column * width..][..width]);
            let rows: Vec<f64> = rows.copied().collect();
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
        out.fill(0.0);
        for (first, out) in rows.step_by(ROWS).zip(out.chunks_mut(ROWS * self.width)) {
            for_columns!(self.width, self.add_rows(first, out));
        }
    }

    fn add_rows<const N: usize>(&self, first: usize, out: &mut [f64]) {
        let rows = first..first + out.len() / N;
        for (group, table) in self.matrix.groups().iter().zip(&self.tables) {
            if group.encoding() == Encoding::Uncompressed {
                let inner = group.columns().len();
                let left = &group.dictionary()[rows.start * inner..rows.end * inner];
                add_product(left, table, N, out);
                continue;
            }
            let (table, out) = (table.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
            group.for_codes(rows.clone(), |row, count, code| {
                let x = table[code];
                for out in &mut out[row..row + count] {
                    out.iter_mut().zip(x).for_each(|(out, x)| *out += x);
                }
            });
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
    let lengths = [left.len() / inner, inner, width];
    let left = View { data: left, row: inner, column: 1 };
    gemm(lengths, left, View { data: right, row: width, column: 1 }, 1.0, out);
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

    /// Adds the product of some rows of X and the same rows of W, which are row-major. Elements after these rows are
    /// left out.
    pub fn add(&mut self, rows: Range<usize>, right: &[f64]) {
        let right = &right[..rows.len() * self.width];
        for (first, right) in rows.step_by(ROWS).zip(right.chunks(ROWS * self.width)) {
            for_columns!(self.width, self.add_rows(first, right));
        }
    }

    fn add_rows<const N: usize>(&mut self, first: usize, right: &[f64]) {
        let right = right.as_chunks::<N>().0;
        let rows = first..first + right.len();
        let groups = self.matrix.groups().iter().zip(&mut self.tables).zip(&self.direct);
        for ((group, table), direct) in groups {
            let table = table.as_chunks_mut::<N>().0;
            group.for_codes(rows.clone(), |row, count, code| {
                let right = &right[row..row + count];
                if *direct {
                    right.iter().for_each(|right| add_outer(group.tuple(code), right, table));
                } else {
                    table[code].iter_mut().zip(sum_rows(right)).for_each(|(whole, x)| *whole += x);
                }
            });
        }
    }

    /// Adds the product to sums, columns of X x columns of W.
    pub fn finish(self, sums: &mut [f64]) {
        for_columns!(self.width, self.add_to(sums));
    }

    fn add_to<const N: usize>(self, sums: &mut [f64]) {
        let sums = sums.as_chunks_mut::<N>().0;
        for ((group, table), direct) in self.matrix.groups().iter().zip(self.tables).zip(self.direct) {
            let mut product = table.as_chunks::<N>().0.to_vec();
            if !direct {
                let by_tuple = std::mem::replace(&mut product, vec![[0.0; N]; group.columns().len()]);
                for (tuple, right) in by_tuple.iter().enumerate() {
                    add_outer(group.tuple(tuple), right, &mut product);
                }
            }
            for (column, product) in group.columns().iter().zip(product) {
                sums[*column].iter_mut().zip(product).for_each(|(sum, x)| *sum += x);
            }
        }
    }
}

/// Returns the sums of rows.
#[inline(always)]
fn sum_rows<const N: usize>(rows: &[[f64; N]]) -> [f64; N] {
    match rows {
        [row] => *row,
        // Several running sums, so that additions overlap.
        _ if N == 1 => [aggregate(Aggregation::Sum, 0.0, rows.as_flattened()); N],
        _ => rows.iter().fold([0.0; N], |mut sums, row| {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            sums
        }),
    }
}

/// Adds the product of a column and a row.
fn add_outer<const N: usize>(column: &[f64], row: &[f64; N], out: &mut [[f64; N]]) {
    for (scale, out) in column.iter().zip(out) {
        out.iter_mut().zip(row).for_each(|(out, x)| *out += scale * x);
    }
}
