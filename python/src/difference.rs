//! The differences of two models.

use fangorn::{Forest, forest::ForestDiff};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

/// The predictions of one model for some rows.
pub struct Predictions {
    pub rows: usize,
    pub leaf_ids: Vec<u32>,
    pub margins: Vec<f32>,
    pub values: Vec<f32>,
}

/// Returns the differences as Python's types, like the JSON of `fangorn diff`.
pub fn report<'py>(py: Python<'py>, forests: [&Forest; 2]) -> PyResult<Bound<'py, PyDict>> {
    let diff = py.detach(|| ForestDiff::new(forests[0], forests[1]));
    let report = PyDict::new(py);
    let model = PyList::empty(py);
    for field in &diff.model {
        let dict = PyDict::new(py);
        dict.set_item("field", field.field)?;
        dict.set_item("a", &field.a)?;
        dict.set_item("b", &field.b)?;
        model.append(dict)?;
    }
    report.set_item("model", model)?;
    report.set_item("trees", diff.trees)?;
    report.set_item("equal_trees", diff.equal_trees)?;
    report.set_item("leaf_trees", diff.leaf_trees)?;
    let differences = PyList::empty(py);
    for tree in &diff.differences {
        let dict = PyDict::new(py);
        dict.set_item("tree", tree.tree)?;
        dict.set_item("path", &tree.path)?;
        dict.set_item("a", &tree.a)?;
        dict.set_item("b", &tree.b)?;
        differences.append(dict)?;
    }
    report.set_item("differences", differences)?;
    report.set_item("rows", py.None())?;
    Ok(report)
}

/// Returns how two models' predictions of the same rows differ.
pub fn of_rows<'py>(py: Python<'py>, [a, b]: &[Predictions; 2]) -> PyResult<Bound<'py, PyDict>> {
    let (mut other_values, mut worst_row, mut worst) = (0, 0, 0.0f32);
    for row in 0..a.rows {
        let off = farthest(results(&a.values, a.rows, row), results(&b.values, b.rows, row));
        other_values += usize::from(off > 0.0);
        if off > worst {
            (worst, worst_row) = (off, row);
        }
    }
    let margins = (0..a.rows)
        .map(|row| farthest(results(&a.margins, a.rows, row), results(&b.margins, b.rows, row)))
        .fold(0.0, f32::max);
    let other_leaves = (a.leaf_ids.len() == b.leaf_ids.len()).then(|| {
        let differs = |row: &usize| results(&a.leaf_ids, a.rows, *row) != results(&b.leaf_ids, b.rows, *row);
        (0..a.rows).filter(differs).count()
    });
    let report = PyDict::new(py);
    report.set_item("rows", a.rows)?;
    report.set_item("other_leaves", other_leaves)?;
    report.set_item("other_values", other_values)?;
    report.set_item("largest_margin_difference", margins)?;
    report.set_item("largest_value_difference", worst)?;
    report.set_item("worst_row", worst_row)?;
    Ok(report)
}

/// Returns the results of one row.
fn results<T>(all: &[T], rows: usize, row: usize) -> &[T] {
    let width = all.len() / rows;
    &all[row * width..][..width]
}

/// Returns the largest difference between the results of two rows. It is infinite if one is no number, or if
/// their counts differ.
fn farthest(a: &[f32], b: &[f32]) -> f32 {
    if a.len() != b.len() {
        return f32::INFINITY;
    }
    let off = |(a, b): (&f32, &f32)| if a == b || (a.is_nan() && b.is_nan()) { 0.0 } else { (a - b).abs() };
    let each = a.iter().zip(b).map(off);
    each.fold(0.0, |worst, off| if off.is_nan() { f32::INFINITY } else { worst.max(off) })
}
