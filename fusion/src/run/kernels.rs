//! Loops over elements, one for each operator. The compiler vectorizes them.

#![allow(clippy::needless_range_loop, reason = "loops over lanes of a fixed number become vectors")]

use fangorn::cpu::{Loops, prefer_large_pages, widest};

use super::narrow::multiply;
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
                $(Unary::$kind => {
                    widest(OverOne { from, out, width, apply: |x| Unary::$kind.apply(x) })
                }),+
            }
        };
    }
    loops!(Negate, Abs, Exp, Log, Sqrt, Square, Sign, Sigmoid);
}

struct OverOne<'a, F> {
    from: View<'a>,
    out: &'a mut [f64],
    width: usize,
    apply: F,
}

impl<F: Fn(f64) -> f64> Loops for OverOne<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Self { from, out, width, apply } = self;
        if from.column == 1 && from.row == width || width == 1 && from.row == 1 {
            for (out, x) in out.iter_mut().zip(from.data) {
                *out = apply(*x);
            }
            return;
        }
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let data = &from.data[row * from.row..];
            for (column, out) in out.iter_mut().enumerate() {
                *out = apply(data[column * from.column]);
            }
        }
    }
}

/// Applies a function to the elements of two views.
pub(super) fn binary(binary: Binary, a: View, b: View, out: &mut [f64], width: usize) {
    macro_rules! loops {
        ($($kind:ident),+) => {
            match binary {
                $(Binary::$kind => {
                    over_two(a, b, out, width, |x, y| Binary::$kind.apply(x, y))
                }),+
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

/// Multiplies the elements of two views. A zero of a view that skips gives 0, even times NaN or infinity. `skips` says
/// whether `a` skips, and whether `b` does.
pub(super) fn multiply_skipping(a: View, b: View, skips: [bool; 2], out: &mut [f64], width: usize) {
    let [a_skips, b_skips] = skips;
    over_two(a, b, out, width, |x, y| if a_skips && x == 0.0 || b_skips && y == 0.0 { 0.0 } else { x * y });
}

/// Columns up to which rows and columns that are broadcast are repeated in memory first: loops over so few elements take
/// longer to start than to run.
const FEW_COLUMNS: usize = 16;

fn over_two(a: View, b: View, out: &mut [f64], mut width: usize, apply: impl Fn(f64, f64) -> f64) {
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let (mut a, mut b) = (a, b);
    // A tile of one column, or one without gaps, is a single long row.
    if width == 1 {
        (a.column, b.column, width) = (a.row, b.row, out.len());
    } else {
        if width <= FEW_COLUMNS {
            a = repeated(a, width, out.len(), &mut of_a);
            b = repeated(b, width, out.len(), &mut of_b);
        }
        let flat = |view: &View| view.column == 1 && view.row == width || view.column == 0 && view.row == 0;
        if flat(&a) && flat(&b) {
            width = out.len();
        }
    }
    widest(OverTwo { a, b, out, width, apply });
}

/// Returns a view of all elements of a tile, `count` of them, if one row or one column stands for all.
fn repeated<'v>(view: View<'v>, width: usize, count: usize, memory: &'v mut Vec<f64>) -> View<'v> {
    if view.row == width && view.column == 1 || view.row == 0 && view.column == 0 {
        return view;
    }
    memory.resize(count, 0.0);
    widest(Repeat { view, width, out: memory });
    View { data: memory, row: width, column: 1 }
}

struct Repeat<'a> {
    view: View<'a>,
    width: usize,
    out: &'a mut [f64],
}

impl Repeat<'_> {
    #[inline(always)]
    fn rows<const W: usize>(self) {
        let View { data, row, column } = self.view;
        for (at, out) in self.out.as_chunks_mut::<W>().0.iter_mut().enumerate() {
            let from = &data[at * row..];
            for (place, out) in out.iter_mut().enumerate() {
                *out = from[place * column];
            }
        }
    }
}

impl Loops for Repeat<'_> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        match self.width {
            2 => self.rows::<2>(),
            3 => self.rows::<3>(),
            4 => self.rows::<4>(),
            5 => self.rows::<5>(),
            6 => self.rows::<6>(),
            7 => self.rows::<7>(),
            8 => self.rows::<8>(),
            width => {
                let View { data, row, column } = self.view;
                for (at, out) in self.out.chunks_exact_mut(width).enumerate() {
                    for (place, out) in out.iter_mut().enumerate() {
                        *out = data[at * row + place * column];
                    }
                }
            }
        }
    }
}

struct OverTwo<'a, F> {
    a: View<'a>,
    b: View<'a>,
    out: &'a mut [f64],
    width: usize,
    apply: F,
}

impl<F: Fn(f64, f64) -> f64> Loops for OverTwo<'_, F> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let Self { a, b, out, width, apply } = self;
        for (row, out) in out.chunks_exact_mut(width.max(1)).enumerate() {
            let (x, y) = (&a.data[row * a.row..], &b.data[row * b.row..]);
            match (a.column, b.column) {
                (1, 1) => {
                    for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                        *out = apply(*x, *y);
                    }
                }
                (1, 0) => {
                    let y = y[0];
                    for (out, x) in out.iter_mut().zip(x) {
                        *out = apply(*x, y);
                    }
                }
                (0, 1) => {
                    let x = x[0];
                    for (out, y) in out.iter_mut().zip(y) {
                        *out = apply(x, *y);
                    }
                }
                _ => {
                    for (column, out) in out.iter_mut().enumerate() {
                        *out = apply(x[column * a.column], y[column * b.column]);
                    }
                }
            }
        }
    }
}

/// Runs loops with a function that returns the aggregation, so that the compiler vectorizes the loops of each.
macro_rules! for_each_aggregation {
    ($aggregation:expr, |$kind:ident| $loops:expr) => {
        match $aggregation {
            Aggregation::Sum => {
                let $kind = || Aggregation::Sum;
                widest($loops);
            }
            Aggregation::SumOfSquares => {
                let $kind = || Aggregation::SumOfSquares;
                widest($loops);
            }
            Aggregation::Min => {
                let $kind = || Aggregation::Min;
                widest($loops);
            }
            Aggregation::Max => {
                let $kind = || Aggregation::Max;
                widest($loops);
            }
        }
    };
}

/// Returns the aggregate of `start` and of adjacent elements.
pub(super) fn aggregate(aggregation: Aggregation, start: f64, data: &[f64]) -> f64 {
    let mut out = [start];
    for_each_aggregation!(aggregation, |kind| RowAggregates { kind, data, width: data.len(), out: &mut out });
    out[0]
}

/// Adds the elements of each row to an aggregate.
pub(super) fn aggregate_rows(aggregation: Aggregation, data: &[f64], width: usize, out: &mut [f64]) {
    for_each_aggregation!(aggregation, |kind| RowAggregates { kind, data, width, out });
}

/// Adds the elements of each column to an aggregate.
pub(super) fn aggregate_columns(aggregation: Aggregation, data: &[f64], out: &mut [f64]) {
    for_each_aggregation!(aggregation, |kind| ColumnAggregates { kind, data, out });
}

struct RowAggregates<'a, K> {
    kind: K,
    data: &'a [f64],
    width: usize,
    out: &'a mut [f64],
}

impl<K: Fn() -> Aggregation> RowAggregates<'_, K> {
    /// Rows of a few elements, one after the other.
    #[inline(always)]
    fn narrow<const W: usize>(self) {
        for (out, row) in self.out.iter_mut().zip(self.data.as_chunks::<W>().0) {
            for x in row {
                *out = (self.kind)().add(*out, *x);
            }
        }
    }

    /// Eight running aggregates, so that additions overlap.
    #[inline(always)]
    fn wide(self) {
        let kind = (self.kind)();
        for (out, row) in self.out.iter_mut().zip(self.data.chunks_exact(self.width.max(1))) {
            let mut lanes = [kind.start(); 8];
            let (chunks, rest) = row.as_chunks::<8>();
            for chunk in chunks {
                for lane in 0..8 {
                    lanes[lane] = kind.add(lanes[lane], chunk[lane]);
                }
            }
            for lane in lanes {
                *out = kind.join(*out, lane);
            }
            for x in rest {
                *out = kind.add(*out, *x);
            }
        }
    }
}

impl<K: Fn() -> Aggregation> Loops for RowAggregates<'_, K> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        match self.width {
            1 => self.narrow::<1>(),
            2 => self.narrow::<2>(),
            3 => self.narrow::<3>(),
            4 => self.narrow::<4>(),
            5 => self.narrow::<5>(),
            6 => self.narrow::<6>(),
            7 => self.narrow::<7>(),
            _ => self.wide(),
        }
    }
}

struct ColumnAggregates<'a, K> {
    kind: K,
    data: &'a [f64],
    out: &'a mut [f64],
}

impl<K: Fn() -> Aggregation> ColumnAggregates<'_, K> {
    /// Some columns from `first` on, whose aggregates stand in registers.
    #[inline(always)]
    fn block<const C: usize>(&mut self, first: usize) {
        let (kind, columns) = ((self.kind)(), self.out.len());
        let mut found = [0.0; C];
        found.copy_from_slice(&self.out[first..first + C]);
        for row in self.data.chunks_exact(columns) {
            let Some(row) = row[first..].first_chunk::<C>() else { return };
            for column in 0..C {
                found[column] = kind.add(found[column], row[column]);
            }
        }
        self.out[first..first + C].copy_from_slice(&found);
    }
}

impl<K: Fn() -> Aggregation> Loops for ColumnAggregates<'_, K> {
    type Result = ();

    #[inline(always)]
    fn run(mut self) {
        let (mut first, columns) = (0, self.out.len());
        while columns - first >= 16 {
            self.block::<16>(first);
            first += 16;
        }
        while columns - first >= 4 {
            self.block::<4>(first);
            first += 4;
        }
        while first < columns {
            self.block::<1>(first);
            first += 1;
        }
    }
}

/// Returns the sum of the products of two vectors.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut out = [0.0];
    multiply(a, b, 1, &mut out);
    out[0]
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
            prefer_large_pages(&mut out);
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
