//! Loops over elements, one for each operator. The compiler vectorizes them.

use crate::{
    Matrix,
    dag::{Aggregation, Binary, Unary},
};

/// The elements of a tile or of an input that is broadcast to it, with the strides of rows and of columns.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub data: &'a [f64],
    /// Elements from one row to the next; 0 if one row stands for all.
    pub row: usize,
    /// Elements from one column to the next; 0 if one column stands for all.
    pub column: usize,
}

/// Applies a function to all elements.
pub(super) fn unary(unary: Unary, from: View, out: &mut [f64], width: usize) {
    // The match is outside the loops, so that the compiler vectorizes each of them.
    macro_rules! loops {
        ($($kind:ident),+) => {
            match unary {
                $(Unary::$kind => over_one(from, out, width, |x| Unary::$kind.apply(x))),+
            }
        };
    }
    loops!(Negate, Abs, Exp, Log, Sqrt, Square, Sign, Sigmoid);
}

fn over_one(from: View, out: &mut [f64], width: usize, apply: impl Fn(f64) -> f64) {
    if from.column == 1 && from.row == width || width == 1 && from.row == 1 {
        out.iter_mut().zip(from.data).for_each(|(out, x)| *out = apply(*x));
        return;
    }
    for (row, out) in out.chunks_exact_mut(width).enumerate() {
        let data = &from.data[row * from.row..];
        for (column, out) in out.iter_mut().enumerate() {
            *out = apply(data[column * from.column]);
        }
    }
}

/// Applies a function to the elements of two views.
pub(super) fn binary(binary: Binary, a: View, b: View, out: &mut [f64], width: usize) {
    macro_rules! loops {
        ($($kind:ident),+) => {
            match binary {
                $(Binary::$kind => over_two(a, b, out, width, |x, y| Binary::$kind.apply(x, y))),+
            }
        };
    }
    loops!(
        Add,
        Subtract,
        Multiply,
        Divide,
        Min,
        Max,
        Less,
        LessEqual,
        Greater,
        GreaterEqual,
        Equal,
        NotEqual
    );
}

/// Multiplies the elements of two views. A zero of a view that skips gives 0, even times NaN or infinity.
pub(super) fn multiply_skipping(a: View, b: View, skips: (bool, bool), out: &mut [f64], width: usize) {
    over_two(a, b, out, width, |x, y| if skips.0 && x == 0.0 || skips.1 && y == 0.0 { 0.0 } else { x * y });
}

fn over_two(mut a: View, mut b: View, out: &mut [f64], mut width: usize, apply: impl Fn(f64, f64) -> f64) {
    // A tile of one column, or one without gaps, is a single long row.
    if width == 1 {
        (a.column, b.column, width) = (a.row, b.row, out.len());
    } else {
        let flat = |view: &View| view.column == 1 && view.row == width || view.column == 0 && view.row == 0;
        if flat(&a) && flat(&b) {
            width = out.len();
        }
    }
    for (row, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
        let (x, y) = (&a.data[row * a.row..], &b.data[row * b.row..]);
        match (a.column, b.column) {
            (1, 1) => out.iter_mut().zip(x).zip(y).for_each(|((out, x), y)| *out = apply(*x, *y)),
            (1, 0) => out.iter_mut().zip(x).for_each(|(out, x)| *out = apply(*x, y[0])),
            (0, 1) => out.iter_mut().zip(y).for_each(|(out, y)| *out = apply(x[0], *y)),
            _ => {
                for (column, out) in out.iter_mut().enumerate() {
                    *out = apply(x[column * a.column], y[column * b.column]);
                }
            }
        }
    }
}

/// Returns the aggregate of `start` and of adjacent elements. It keeps eight running aggregates, so that additions
/// overlap.
pub(super) fn aggregate(aggregation: Aggregation, start: f64, data: &[f64]) -> f64 {
    macro_rules! loops {
        ($($kind:ident),+) => {
            match aggregation {
                $(Aggregation::$kind => {
                    let mut lanes = [Aggregation::$kind.start(); 8];
                    let chunks = data.chunks_exact(8);
                    let rest = chunks.remainder();
                    for chunk in chunks {
                        for (lane, x) in lanes.iter_mut().zip(chunk) {
                            *lane = Aggregation::$kind.add(*lane, *x);
                        }
                    }
                    let joined = lanes.iter().fold(start, |a, b| Aggregation::$kind.join(a, *b));
                    rest.iter().fold(joined, |a, x| Aggregation::$kind.add(a, *x))
                }),+
            }
        };
    }
    loops!(Sum, SumOfSquares, Min, Max)
}

/// Returns the sum of the products of two vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in left.zip(right) {
        for ((lane, x), y) in lanes.iter_mut().zip(x).zip(y) {
            *lane += x * y;
        }
    }
    lanes.iter().sum::<f64>() + rest
}

/// Adds a multiple of a vector. `scale` is an element of a matrix in CSR: nothing is added if it is 0, since CSR may
/// store zeros.
pub(super) fn add_scaled_skipping(out: &mut [f64], scale: f64, from: &[f64]) {
    if scale != 0.0 {
        add_scaled(out, scale, from);
    }
}

/// Adds a multiple of a vector.
pub(super) fn add_scaled(out: &mut [f64], scale: f64, from: &[f64]) {
    out.iter_mut().zip(from).for_each(|(out, x)| *out += scale * x);
}

/// Returns the transposed matrix, in the same format; that of a matrix of single
/// precision or of a compressed one is dense.
pub(super) fn transpose(matrix: &Matrix) -> Matrix {
    let (rows, columns) = matrix.shape();
    let made = match matrix {
        Matrix::Dense(dense) => {
            let mut out = vec![0.0; rows * columns];
            // Blocks, so that the cache lines of both matrices stay in the cache.
            for top in (0..rows).step_by(32) {
                for left in (0..columns).step_by(32) {
                    for row in top..rows.min(top + 32) {
                        for column in left..columns.min(left + 32) {
                            out[column * rows + row] = dense.values()[row * columns + column];
                        }
                    }
                }
            }
            Matrix::dense((columns, rows), out)
        }
        Matrix::Single(_) | Matrix::Compressed(_) => {
            return Matrix::dense((rows, columns), matrix.to_dense())
                .map_or_else(|| matrix.clone(), |dense| transpose(&dense));
        }
        Matrix::Csr(sparse) => {
            let mut offsets = vec![0; columns + 1];
            (0..rows).flat_map(|row| sparse.row(row)).for_each(|(column, _)| offsets[column + 1] += 1);
            (0..columns).for_each(|column| offsets[column + 1] += offsets[column]);
            let mut next = offsets.clone();
            let (mut at, mut values) = (vec![0u32; sparse.filled()], vec![0.0; sparse.filled()]);
            for row in 0..rows {
                for (column, value) in sparse.row(row) {
                    at[next[column]] = row as u32;
                    values[next[column]] = value;
                    next[column] += 1;
                }
            }
            let made = fangorn::sparse::SparseMatrix::new([columns, rows], offsets, at, values);
            made.map(|sparse| Matrix::Csr(sparse.into()))
        }
    };
    made.unwrap_or_else(|| matrix.clone())
}
