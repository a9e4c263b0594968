//! Missing elements from the nearest rows of other rows.

use super::{
    tensor::{Dtype, Elements, Tensor},
    view::TensorView,
};

/// Replaces missing elements of rows as [`Operator::ImputeNeighbors`](super::Operator::ImputeNeighbors) says.
/// Distances and means are in doubles. Of rows at the same distance, the first are the nearest.
pub(super) fn impute_neighbors(
    neighbors: usize,
    by_distance: bool,
    x: TensorView<'_>,
    donors: TensorView<'_>,
) -> Result<Tensor, String> {
    let ([_, columns], [count, width]) = (x.shape(), donors.shape()) else {
        return Err("it takes rows".into());
    };
    let floats = matches!(x.dtype(), Dtype::F32 | Dtype::F64) && x.dtype() == donors.dtype();
    let (Some(mut values), Some(known), true) = (x.elements().doubles(), donors.elements().doubles(), floats)
    else {
        return Err(format!("it does not take {} and {}", x.dtype(), donors.dtype()));
    };
    if columns != width {
        return Err(format!("rows of {columns} columns are not for rows of {width}"));
    }
    let means: Vec<f64> = (0..*width).map(|column| mean(known.iter().skip(column).step_by(*width))).collect();
    let mut distances = vec![0.0; *count];
    let mut nearest: Vec<usize> = Vec::with_capacity(*count);
    for row in values.chunks_exact_mut((*columns).max(1)) {
        if !row.iter().any(|value| value.is_nan()) {
            continue;
        }
        for (distance, donor) in distances.iter_mut().zip(known.chunks_exact((*width).max(1))) {
            *distance = distance_of(row, donor);
        }
        let given = row.to_vec();
        for (column, value) in row.iter_mut().enumerate().filter(|(column, _)| given[*column].is_nan()) {
            let of = |donor: usize| known[donor * width + column];
            nearest.clear();
            nearest.extend((0..*count).filter(|donor| !distances[*donor].is_nan() && !of(*donor).is_nan()));
            if nearest.is_empty() {
                *value = means[column];
                continue;
            }
            let before = |a: &usize, b: &usize| distances[*a].total_cmp(&distances[*b]).then(a.cmp(b));
            if (1..nearest.len()).contains(&neighbors) {
                nearest.select_nth_unstable_by(neighbors - 1, before);
                nearest.truncate(neighbors);
            }
            *value = match by_distance {
                // A row at no distance is what it is compared with, so only such rows count.
                true if nearest.iter().any(|donor| distances[*donor] == 0.0) => {
                    mean(nearest.iter().filter(|donor| distances[**donor] == 0.0).map(|donor| of(*donor)))
                }
                true => {
                    let weight = |donor: &usize| 1.0 / distances[*donor];
                    let sum: f64 = nearest.iter().map(|donor| weight(donor) * of(*donor)).sum();
                    sum / nearest.iter().map(weight).sum::<f64>()
                }
                false => mean(nearest.iter().map(|donor| of(*donor))),
            };
        }
    }
    let elements = Elements::of_doubles(x.dtype(), values).ok_or("its values don't fit")?;
    Tensor::new(x.shape(), elements).ok_or_else(|| "the shape is too large".into())
}

/// Returns the mean of the values that are there, or NaN if there is none.
fn mean<V: std::borrow::Borrow<f64>>(values: impl Iterator<Item = V>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        let value = *value.borrow();
        if !value.is_nan() {
            sum += value;
            count += 1.0;
        }
    }
    sum / count
}

/// Returns the distance of two rows, or NaN if they have no column in common.
fn distance_of(a: &[f64], b: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for (a, b) in a.iter().zip(b) {
        let difference = a - b;
        if !difference.is_nan() {
            sum += difference * difference;
            count += 1;
        }
    }
    match count {
        0 => f64::NAN,
        _ => (sum * (a.len() as f64 / count as f64)).sqrt(),
    }
}
