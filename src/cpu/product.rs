//! Matrix products: by the crate `matrixmultiply`, or by plain loops if it would take longer to pack the operands than
//! to multiply them.
//!
//! The result of a row does not depend on how many rows come with it. A product of fewer than [`FEW_COLUMNS`] columns
//! is summed in doubles. Any other product sums runs of [`RUN`] products in their order, and then the runs. It
//! multiplies and adds with one rounding if the machine has an instruction for that. The crate's kernels do the same.

use super::widest::{Loops, has_fma, widest};
use crate::cost::{COPIED_ROWS, PRODUCTS};

/// Rows up to which plain loops multiply.
const UNPACKED_ROWS: usize = PRODUCTS.unpacked_rows();
/// Columns below which a product is made of dot products.
const FEW_COLUMNS: usize = 8;
/// Products that are summed before they are added to the result: the crate's own number, so that one call of it is one
/// run.
const RUN: usize = 256;
/// A tile's width is a multiple of this number of columns.
const TILE_UNIT: usize = 8;
/// Number of partial sums of a dot product that are computed at the same time.
const LANES: usize = 16;

/// A type of matrices' elements.
pub(crate) trait Number: Copy + Default + Into<f64> {
    /// Maximum number of columns in registers at a time: 12 of AVX2's 16 registers. A multiplication waits for the one
    /// before it in its column: with 64 columns of floats there is other work meanwhile, with 8 there is none.
    const TILE: usize;

    /// Returns a double, rounded.
    fn rounded(value: f64) -> Self;

    /// Returns `self * by + to`, rounded once.
    fn times_plus(self, by: Self, to: Self) -> Self;

    /// Returns the sum.
    fn plus(self, other: Self) -> Self;

    /// Calls the crate's kernel: `out = beta * out + a * b`. The lengths are `m`, `k` and `n`.
    ///
    /// # Safety
    /// The pointers are valid for matrices of `m x k`, `k x n` and `m x n` elements with these strides. Nothing else
    /// reads or writes `out`.
    unsafe fn kernel(
        lengths: [usize; 3],
        a: Matrix<*const Self>,
        b: Matrix<*const Self>,
        out: Matrix<*mut Self>,
        beta: Self,
    );
}

/// A matrix behind a pointer. The elements of a row are adjacent.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<P> {
    /// Points to the first element.
    first: P,
    /// The distance from the beginning of a row to that of the next.
    row_stride: usize,
}

macro_rules! number {
    ($number:ty, $kernel:path) => {
        impl Number for $number {
            const TILE: usize = 12 * 32 / size_of::<$number>();

            fn rounded(value: f64) -> Self {
                value as $number
            }

            #[inline(always)]
            fn times_plus(self, by: Self, to: Self) -> Self {
                self.mul_add(by, to)
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }

            unsafe fn kernel(
                [m, k, n]: [usize; 3],
                a: Matrix<*const Self>,
                b: Matrix<*const Self>,
                out: Matrix<*mut Self>,
                beta: Self,
            ) {
                let [row_of_a, row_of_b, row_of_out] =
                    [a.row_stride, b.row_stride, out.row_stride].map(|stride| stride as isize);
                let (a, b, out) = (a.first, b.first, out.first);
                // SAFETY: the caller's promise is the one that the crate asks for.
                unsafe { $kernel(m, k, n, 1.0, a, row_of_a, 1, b, row_of_b, 1, beta, out, row_of_out, 1) }
            }
        }
    };
}

number!(f32, matrixmultiply::sgemm);
number!(f64, matrixmultiply::dgemm);

/// Computes the product of two row-major matrices, `m x k` and `k x n`, into the `m x n` elements of `out`.
///
/// # Panics
/// A matrix has another number of elements.
pub(crate) fn product<T: Number>(a: &[T], b: &[T], out: &mut [T], [m, k, n]: [usize; 3]) {
    assert!(a.len() == m * k && b.len() == k * n && out.len() == m * n, "matrices of other lengths");
    if k == 0 || n == 0 {
        out.fill(T::default());
    } else if n < FEW_COLUMNS && m > UNPACKED_ROWS {
        let padded = k.next_multiple_of(LANES);
        let mut columns = vec![0.0; padded * n];
        for (column, into) in columns.chunks_exact_mut(padded).enumerate() {
            let values = b[column..].iter().step_by(n);
            into.iter_mut().zip(values).for_each(|(into, value)| *into = (*value).into());
        }
        widest(ManyDotProducts { a, columns: &columns, out, lengths: [k, n] });
    } else if n == 1 {
        widest(DotProducts { a, columns: b, out, lengths: [k, 1] });
    } else if n < FEW_COLUMNS {
        let columns: Vec<T> = (0..n).flat_map(|column| b[column..].iter().step_by(n).copied()).collect();
        widest(DotProducts { a, columns: &columns, out, lengths: [k, n] });
    } else if m <= UNPACKED_ROWS && has_fma() {
        widest(FewRows { a, b, out, lengths: [k, n] });
    } else {
        in_runs(a, b, out, [m, k, n]);
    }
}

/// A product whose elements are dot products of a row of `a` and a row of `columns`, in doubles. The lengths are the
/// columns of `a` and of the result.
struct DotProducts<'m, T> {
    a: &'m [T],
    columns: &'m [T],
    out: &'m mut [T],
    lengths: [usize; 2],
}

impl<T: Number> Loops for DotProducts<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let [k, n] = self.lengths;
        for (row, out) in self.a.chunks_exact(k).zip(self.out.chunks_exact_mut(n)) {
            for (column, out) in self.columns.chunks_exact(k).zip(out) {
                let mut sums = [0.0; LANES];
                let (of_row, last_of_row) = row.as_chunks::<LANES>();
                let (of_column, last_of_column) = column.as_chunks::<LANES>();
                for (x, weight) in of_row.iter().zip(of_column) {
                    for lane in 0..LANES {
                        sums[lane] += x[lane].into() * weight[lane].into();
                    }
                }
                for ((sum, x), weight) in sums.iter_mut().zip(last_of_row).zip(last_of_column) {
                    *sum += (*x).into() * (*weight).into();
                }
                *out = T::rounded(sum_of(sums));
            }
        }
    }
}

/// Returns the sum of a dot product's partial sums, half by half.
#[inline(always)]
fn sum_of(mut sums: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        (0..half).for_each(|lane| sums[lane] += sums[lane + half]);
        half /= 2;
    }
    sums[0]
}

/// The same sums for many rows: `columns` are doubles already, each followed by zeros up to a multiple of [`LANES`].
/// `fangorn bench` on LinearRegression of `benches/classical` says what that gains.
struct ManyDotProducts<'m, T> {
    a: &'m [T],
    columns: &'m [f64],
    out: &'m mut [T],
    lengths: [usize; 2],
}

impl<T: Number> Loops for ManyDotProducts<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let [k, n] = self.lengths;
        let padded = k.next_multiple_of(LANES);
        for (row, out) in self.a.chunks_exact(k).zip(self.out.chunks_exact_mut(n)) {
            let (of_row, rest) = row.as_chunks::<LANES>();
            let mut last = [T::default(); LANES];
            last[..rest.len()].copy_from_slice(rest);
            for (column, out) in self.columns.chunks_exact(padded).zip(out) {
                let mut sums = [0.0; LANES];
                let (of_column, _) = column.as_chunks::<LANES>();
                for (x, weight) in of_row.iter().zip(of_column) {
                    for lane in 0..LANES {
                        sums[lane] += x[lane].into() * weight[lane];
                    }
                }
                if let Some(weight) = of_column.get(of_row.len()) {
                    for lane in 0..LANES {
                        sums[lane] += last[lane].into() * weight[lane];
                    }
                }
                *out = T::rounded(sum_of(sums));
            }
        }
    }
}

/// A product of a few rows, one after the other, by tiles of columns. The lengths are the columns of `a` and of the
/// result.
struct FewRows<'m, T> {
    a: &'m [T],
    b: &'m [T],
    out: &'m mut [T],
    lengths: [usize; 2],
}

impl<T: Number> Loops for FewRows<'_, T> {
    type Result = ();

    #[inline(always)]
    fn run(self) {
        let [k, n] = self.lengths;
        // There are at least `TILE_UNIT` columns.
        let most = T::TILE.min(n / TILE_UNIT * TILE_UNIT);
        for (row, out) in self.a.chunks_exact(k).zip(self.out.chunks_exact_mut(n)) {
            let mut done = 0;
            while done < n {
                // If the last tile would end past the last column, it begins earlier and computes some columns again.
                let width = (n - done).next_multiple_of(TILE_UNIT).min(most);
                let first = done.min(n - width);
                match width / TILE_UNIT {
                    1 => tile::<T, 8>(row, self.b, out, first),
                    2 => tile::<T, 16>(row, self.b, out, first),
                    3 => tile::<T, 24>(row, self.b, out, first),
                    4 => tile::<T, 32>(row, self.b, out, first),
                    5 => tile::<T, 40>(row, self.b, out, first),
                    6 => tile::<T, 48>(row, self.b, out, first),
                    7 => tile::<T, 56>(row, self.b, out, first),
                    8 => tile::<T, 64>(row, self.b, out, first),
                    9 => tile::<T, 72>(row, self.b, out, first),
                    10 => tile::<T, 80>(row, self.b, out, first),
                    11 => tile::<T, 88>(row, self.b, out, first),
                    _ => tile::<T, 96>(row, self.b, out, first),
                }
                done = first + width;
            }
        }
    }
}

/// Computes `WIDTH` columns of a row of the result, from the column `first` on.
#[inline(always)]
fn tile<T: Number, const WIDTH: usize>(row: &[T], b: &[T], out: &mut [T], first: usize) {
    let n = out.len();
    let out = &mut out[first..][..WIDTH];
    for (at, run) in row.chunks(RUN).enumerate() {
        let mut sums = [T::default(); WIDTH];
        for (x, weights) in run.iter().zip(b[at * RUN * n..].chunks_exact(n)) {
            let weights = &weights[first..][..WIDTH];
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum = x.times_plus(*weight, *sum));
        }
        if at == 0 {
            out.copy_from_slice(&sums);
        } else {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = out.plus(sum));
        }
    }
}

/// Computes a product with the crate's kernel, run by run.
fn in_runs<T: Number>(a: &[T], b: &[T], out: &mut [T], [m, k, n]: [usize; 3]) {
    let mut copy = vec![T::default(); COPIED_ROWS.min(m) * RUN.min(k)];
    for first in (0..k).step_by(RUN) {
        let run = RUN.min(k - first);
        let beta = T::rounded(if first == 0 { 0.0 } else { 1.0 });
        for (rows, out) in a.chunks(COPIED_ROWS * k).zip(out.chunks_mut(COPIED_ROWS * n)) {
            if run == k {
                copy[..rows.len()].copy_from_slice(rows);
            } else {
                let copied = copy.chunks_exact_mut(run).zip(rows.chunks_exact(k));
                copied.for_each(|(copy, row)| copy.copy_from_slice(&row[first..][..run]));
            }
            let lengths = [rows.len() / k, run, n];
            let a = Matrix { first: copy.as_ptr(), row_stride: run };
            let b = Matrix { first: b[first * n..].as_ptr(), row_stride: n };
            let out = Matrix { first: out.as_mut_ptr(), row_stride: n };
            // SAFETY: `copy` has `run` elements for each of the rows, and `out` has `n`. The call reads the `run` rows
            // of `b` from `first` on, which lie inside it. Nothing else reads or writes `out`, which is borrowed
            // exclusively.
            unsafe { T::kernel(lengths, a, b, out, beta) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FEW_COLUMNS, Matrix, Number, RUN, UNPACKED_ROWS, in_runs, product};
    use crate::check::Random;

    /// Products of all shapes around the limits of each kernel, compared with sums in doubles. A row has the same bits
    /// alone and among others.
    fn all_shapes<T: Number + PartialEq + std::fmt::Debug>(unit: f64) {
        let mut random = Random(3);
        for k in [0, 1, 15, 16, 17, 90, RUN - 1, RUN, RUN + 1, 2 * RUN + 5] {
            for n in [
                0,
                1,
                2,
                FEW_COLUMNS - 1,
                FEW_COLUMNS,
                9,
                16,
                31,
                33,
                41,
                50,
                64,
                71,
                73,
                88,
                89,
                96,
                97,
                100,
                127,
                200,
            ] {
                let m = 2 * UNPACKED_ROWS + 3;
                let mut values = |count: usize| {
                    (0..count).map(|_| T::rounded(f64::from(random.fraction()) - 0.5)).collect::<Vec<_>>()
                };
                let (a, b) = (values(m * k), values(k * n));
                let mut out = vec![T::rounded(7.0); m * n];
                product(&a, &b, &mut out, [m, k, n]);
                for rows in [1, 2, UNPACKED_ROWS, UNPACKED_ROWS + 1] {
                    let mut some = vec![T::rounded(7.0); rows * n];
                    product(&a[..rows * k], &b, &mut some, [rows, k, n]);
                    assert_eq!(some, out[..rows * n], "{rows} of {m} rows, {k} x {n}");
                }
                for (at, found) in out.iter().enumerate() {
                    let products = (0..k).map(|i| (a[at / n * k + i].into(), b[i * n + at % n].into()));
                    let (sum, size) = products
                        .fold((0.0, 0.0), |(sum, size): (f64, f64), (a, b): (f64, f64)| {
                            (sum + a * b, size + (a * b).abs())
                        });
                    let bound = (k as f64 + 1.0) * unit * (size + 1e-30);
                    assert!((sum - (*found).into()).abs() <= bound, "{m} x {k} x {n}");
                }
            }
        }
    }

    #[test]
    fn products_of_floats() {
        all_shapes::<f32>(f64::from(f32::EPSILON));
    }

    #[test]
    fn products_of_doubles() {
        all_shapes::<f64>(f64::EPSILON);
    }

    /// One call of the crate for all columns sums runs of `RUN`, too.
    #[test]
    fn runs_are_those_of_the_crate() {
        let [m, k, n] = [20, 2 * RUN + 40, 24];
        let mut random = Random(5);
        let mut values = |count: usize| (0..count).map(|_| random.fraction() - 0.5).collect::<Vec<f32>>();
        let (a, b) = (values(m * k), values(k * n));
        let (mut ours, mut whole) = (vec![0.0; m * n], vec![0.0; m * n]);
        in_runs(&a, &b, &mut ours, [m, k, n]);
        let of_a = Matrix { first: a.as_ptr(), row_stride: k };
        let of_b = Matrix { first: b.as_ptr(), row_stride: n };
        let of_whole = Matrix { first: whole.as_mut_ptr(), row_stride: n };
        // SAFETY: the vectors have the elements of the three matrices.
        unsafe { f32::kernel([m, k, n], of_a, of_b, of_whole, 0.0) };
        assert_eq!(ours, whole);
    }
}
