//! Rows that Python code gives, source by source.

use std::sync::Arc;

use arrow_array::{
    RecordBatchReader,
    ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream},
};
use arrow_schema::{DataType, Field, Schema};
use fangorn::{
    Forest,
    sparse::SparseMatrix,
    table::{BatchReader, CategoryValue, CellReader, Column, ColumnMatch},
};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    sync::PyOnceLock,
    types::{PyCapsule, PyCapsuleMethods, PyTuple},
};

use crate::{
    arrays::Held,
    error::{crate_error, refusal},
    source::Source,
};

/// A loop over the results of more rows than this runs on several threads.
pub const ROWS_A_TASK: usize = 4096;

/// A function that takes one source of rows, and whether the source's last row comes first.
type Take<'t> = dyn FnMut(&Source<'_>, bool) -> PyResult<()> + 't;

/// Calls `take` with each source of some rows, in their order. `fangorn._rows` describes the sources. A table's
/// columns become those of the forest's features.
pub fn each<'py>(
    model: &Bound<'py, PyAny>,
    rows: &Bound<'py, PyAny>,
    forest: &Forest,
    mut take: impl FnMut(&Source<'_>, bool) -> PyResult<()>,
) -> PyResult<()> {
    static SOURCES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = rows.py();
    // An array that is read in place is a single source.
    if let Some(held) = Held::of(rows)?
        && held.dimensions() == 2
        && let Some(view) = held.view()
    {
        takes_numbers(forest)?;
        return take(&Source::of_view(view).map_err(crate_error)?, view.reversed[0]);
    }
    let sources =
        SOURCES.get_or_try_init(py, || py.import("fangorn._rows")?.getattr("sources").map(Bound::unbind))?;
    for tuple in sources.bind(py).call1((model, rows))?.try_iter()? {
        let tuple = tuple?.cast_into::<PyTuple>()?;
        let kind: String = tuple.get_item(0)?.extract()?;
        match &kind[..] {
            "matrix" | "bfloats" => {
                takes_numbers(forest)?;
                of_matrix(&tuple.get_item(1)?, kind == "bfloats", &mut take)?;
            }
            "columns" => of_columns(&tuple, &mut take)?,
            "sparse" => {
                takes_numbers(forest)?;
                take(&of_sparse(&tuple)?, false)?;
            }
            _ => of_stream(&tuple.get_item(1)?, forest, &mut take)?,
        }
    }
    Ok(())
}

/// Refuses rows of plain numbers if the forest has a column whose categories have no numbers.
pub fn takes_numbers(forest: &Forest) -> PyResult<()> {
    match forest.features.iter().position(|feature| feature.coding.is_needed()) {
        None => Ok(()),
        Some(column) => {
            let name = forest.features[column].name.clone().unwrap_or_else(|| column.to_string());
            Err(refusal(format!(
                "column `{name}` has categories with names, which an array of numbers can't hold; hand over a DataFrame \
                 or a Table, whose categories are matched by name"
            )))
        }
    }
}

fn not_read() -> PyErr {
    PyTypeError::new_err("rows: an array has a memory layout that is not supported; hand over a copy of it")
}

fn of_matrix(array: &Bound<'_, PyAny>, bfloats: bool, take: &mut Take<'_>) -> PyResult<()> {
    let held = Held::of(array)?.ok_or_else(not_read)?;
    let view = held.view().ok_or_else(not_read)?;
    let view = if bfloats { view.bfloat().ok_or_else(not_read)? } else { view };
    take(&Source::of_view(view).map_err(crate_error)?, view.reversed[0])
}

fn of_columns(tuple: &Bound<'_, PyTuple>, take: &mut Take<'_>) -> PyResult<()> {
    let arrays: Vec<Bound<'_, PyAny>> = tuple.get_item(1)?.extract()?;
    let held =
        arrays.iter().map(|array| Held::of(array)?.ok_or_else(not_read)).collect::<PyResult<Vec<_>>>()?;
    let columns = held.iter().map(column).collect::<PyResult<Vec<_>>>()?;
    take(&Source::Columns(columns), false)
}

fn column<'a>(held: &'a Held<'_>) -> PyResult<Column<'a>> {
    // A column of a reversed frame is a copy, which the Python side makes.
    let view = held.view().filter(|view| !view.reversed[0]).ok_or_else(not_read)?;
    Column::strided(view.values, view.shape[0], 0, view.strides[0]).map_err(crate_error)
}

fn of_sparse(tuple: &Bound<'_, PyTuple>) -> PyResult<Source<'static>> {
    let ints =
        |at: usize| -> PyResult<Vec<i64>> { Ok(tuple.get_item(at)?.cast::<PyArray1<i64>>()?.to_vec()?) };
    let ((rows, columns), absent): ((usize, usize), f64) =
        (tuple.get_item(1)?.extract()?, tuple.get_item(5)?.extract()?);
    let offsets = ints(2)?.into_iter().map(|offset| usize::try_from(offset).ok()).collect::<Option<Vec<_>>>();
    let indices = ints(3)?.into_iter().map(|index| u32::try_from(index).ok()).collect::<Option<Vec<_>>>();
    let values: Vec<f64> = tuple.get_item(4)?.cast::<PyArray1<f64>>()?.to_vec()?;
    let matrix = offsets
        .zip(indices)
        .and_then(|(offsets, indices)| SparseMatrix::new([rows, columns], offsets, indices, values));
    let matrix = matrix.ok_or_else(|| {
        refusal("rows: the sparse matrix is damaged: its indptr or its indices do not fit its shape; make it anew")
    })?;
    Ok(Source::Sparse(matrix, absent))
}

/// Takes the record batches of Arrow's C stream.
fn of_stream(object: &Bound<'_, PyAny>, forest: &Forest, take: &mut Take<'_>) -> PyResult<()> {
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(c"arrow_array_stream"))?;
    // SAFETY: a capsule of this name holds a pointer to a stream of Arrow's C interface, which is valid until the capsule
    // is freed. The call moves the stream out and leaves one that was released, as the interface asks.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.cast().as_ptr()) };
    let wrong = |e: arrow_schema::ArrowError| refusal(format!("rows: the table can't be read: {e}"));
    let stream = ArrowArrayStreamReader::try_new(stream).map_err(wrong)?;
    let table_error = |e: fangorn::table::TableError| refusal(e.to_string());
    let reader = BatchReader::new(forest, &stream.schema(), ColumnMatch::ByName).map_err(table_error)?;
    let mut first = 0;
    for batch in stream {
        let batch = batch.map_err(wrong)?;
        let columns = reader.columns(&batch).map_err(|e| match e.row {
            Some(row) => table_error(e.in_row(first + row)),
            None => table_error(e),
        })?;
        take(&Source::Columns(columns.columns()), false)?;
        first += batch.num_rows();
    }
    Ok(())
}

/// Returns the indices of a model's columns among a table's names.
pub fn column_indices(forest: &Forest, names: &[String]) -> PyResult<Vec<usize>> {
    // A column of nulls fits every column of a model.
    let fields: Vec<_> = names.iter().map(|name| Arc::new(Field::new(name, DataType::Null, true))).collect();
    let reader = BatchReader::new(forest, &Schema::new(fields), ColumnMatch::ByName);
    let reader = reader.map_err(|e| refusal(e.to_string()))?;
    reader.indices().ok_or_else(|| refusal("rows: the table has nested columns; hand over flat ones"))
}

/// A category of a frame. The first type that takes a value of Python is the value's.
#[derive(FromPyObject)]
pub enum Category {
    Truth(bool),
    Whole(i64),
    Float(f64),
    Text(String),
}

/// Returns the number of each category; NaN for None.
pub fn category_numbers(
    forest: &Forest,
    column: usize,
    categories: &[Option<Category>],
) -> PyResult<Vec<f64>> {
    let feature =
        forest.features.get(column).ok_or_else(|| refusal(format!("there is no column {column}")))?;
    let reader = CellReader::of(feature);
    let number = |category: &Option<Category>| {
        let value = match category {
            None => return Ok(f64::NAN),
            Some(Category::Truth(value)) => CategoryValue::Truth(*value),
            Some(Category::Whole(value)) => CategoryValue::Whole((*value).into()),
            Some(Category::Float(value)) => CategoryValue::Float(*value),
            Some(Category::Text(text)) => CategoryValue::Text(text),
        };
        let name = || feature.name.clone().unwrap_or_else(|| column.to_string());
        if let Some([what, remedy]) = reader.refusal(value.kind()) {
            return Err(refusal(format!("column `{}`: it holds {what}; {remedy}", name())));
        }
        reader.category(value).ok_or_else(|| {
            let name = name();
            let text: String = value.text().chars().take(40).collect();
            refusal(format!(
                "column `{name}`: `{text}` is no category of the model, and the model's library refuses such rows; use \
                 a category of the training data, or None"
            ))
        })
    };
    categories.iter().map(number).collect()
}

/// Returns the results in reversed order of rows.
pub fn reversed<R>(found: Vec<R>, rows: usize) -> Vec<R> {
    let width = found.len().checked_div(rows).unwrap_or(0);
    let mut found = found;
    found.reverse();
    if width > 1 {
        found.chunks_mut(width).for_each(<[R]>::reverse);
    }
    found
}
