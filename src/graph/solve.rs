//! Systems of linear equations.

use super::{
    tensor::{Elements, Tensor},
    view::TensorView,
};

/// The maximum number of unknowns of a system. The time grows with their third power.
const MOST_UNKNOWNS: usize = 1 << 12;

/// Solves `a x = b` for `x`, where `a` is a square matrix and `b` has a row for each unknown. It uses Gaussian
/// elimination with the greatest pivot of each column, in doubles.
pub(super) fn solve(a: TensorView<'_>, b: TensorView<'_>) -> Result<Tensor, String> {
    let (&[n, columns], [rows, ..]) = (a.shape(), b.shape()) else {
        return Err(format!("shapes {:?} and {:?} are no system of equations", a.shape(), b.shape()));
    };
    if n != columns || n != *rows || b.shape().len() > 2 || a.dtype() != b.dtype() {
        let (a, b) = ((a.dtype(), a.shape()), (b.dtype(), b.shape()));
        return Err(format!("{a:?} and {b:?} are no system of equations"));
    }
    if n > MOST_UNKNOWNS {
        return Err(format!("a system of {n} unknowns is too large; up to {MOST_UNKNOWNS} are solved"));
    }
    let width = b.shape().get(1).copied().unwrap_or(1);
    let doubles =
        |x: TensorView<'_>| x.elements().doubles().ok_or_else(|| format!("it does not take {}", x.dtype()));
    let (mut a, mut x) = (doubles(a)?, doubles(b)?);
    for column in 0..n {
        let size = |row: &usize| a[row * n + column].abs();
        let pivot = (column..n).max_by(|p, q| size(p).total_cmp(&size(q))).unwrap_or(column);
        if a[pivot * n + column] == 0.0 {
            return Err("its matrix is singular".into());
        }
        if pivot != column {
            (0..n).for_each(|at| a.swap(pivot * n + at, column * n + at));
            (0..width).for_each(|at| x.swap(pivot * width + at, column * width + at));
        }
        for row in column + 1..n {
            let factor = a[row * n + column] / a[column * n + column];
            if factor != 0.0 {
                (column..n).for_each(|at| a[row * n + at] -= factor * a[column * n + at]);
                (0..width).for_each(|at| x[row * width + at] -= factor * x[column * width + at]);
            }
        }
    }
    for row in (0..n).rev() {
        for at in 0..width {
            let known: f64 = (row + 1..n).map(|other| a[row * n + other] * x[other * width + at]).sum();
            x[row * width + at] = (x[row * width + at] - known) / a[row * n + row];
        }
    }
    let elements =
        Elements::of_doubles(b.dtype(), x).ok_or_else(|| format!("it does not take {}", b.dtype()))?;
    Tensor::new(b.shape(), elements).ok_or_else(|| "the shape is too large".into())
}
