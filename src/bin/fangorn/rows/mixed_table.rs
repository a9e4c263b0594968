//! Reads files of Parquet and Arrow with columns of texts and columns of numbers.

use std::{path::Path, sync::Arc};

use arrow_array::cast::AsArray;
use arrow_cast::cast;
use arrow_schema::{DataType, Schema};
use fangorn::table::{BatchReader, ColumnMatch};

use super::{
    TableChoice,
    mixed::{Cells, ColumnRequest, column_indices, no_cells},
};
use crate::{
    error::{Error, Result},
    table_format::TableFormat,
    tables::TableFile,
};

/// Reads the wanted columns of a file.
///
/// # Errors
/// The file can't be read, or has other columns.
pub fn read(
    path: &Path,
    format: TableFormat,
    wanted: &[ColumnRequest<'_>],
    table: TableChoice,
) -> Result<Vec<Cells>> {
    let fail = |what: String| Error::file(path, what);
    let file = TableFile::open(path, format)?;
    let fields = file.schema().fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    let indices = column_indices(path, &names, wanted, table)?;
    let mut columns = indices.clone();
    columns.sort_unstable();
    columns.dedup();
    // The index in a batch of a column of the file.
    let at = |index: usize| columns.partition_point(|column| *column < index);
    let of_numbers: Vec<usize> = (0..wanted.len()).filter(|column| !wanted[*column].texts).collect();
    let numbers = Schema::new(of_numbers.iter().map(|c| fields[indices[*c]].clone()).collect::<Vec<_>>());
    let features = super::nameless(of_numbers.len())?;
    let reader = BatchReader::new(&features, &numbers, ColumnMatch::ByPosition);
    let reader = reader.map_err(|e| fail(e.to_string()))?.moved(|j| at(indices[of_numbers[j]]));
    for (column, index) in wanted.iter().zip(&indices) {
        let field = &fields[*index];
        if column.texts && !is_text(field.data_type()) {
            let (name, dtype) = (field.name(), field.data_type());
            return Err(fail(format!(
                "column `{name}` holds values of type {dtype}, the graph takes texts; cast the column to text"
            )));
        }
    }
    let mut cells = no_cells(wanted);
    for part in 0..file.parts() {
        for batch in file.batches(part, &columns)? {
            let batch = batch.map_err(|e| file.damaged(part, &e))?;
            let found = reader.columns(&batch).map_err(|e| fail(format!("{}: {e}", file.name_of(part))))?;
            for (column, found) in of_numbers.iter().zip(found.columns()) {
                if let Cells::Numbers(numbers) = &mut cells[*column] {
                    let before = numbers.len();
                    numbers.resize(before + batch.num_rows(), f64::NAN);
                    found.read(0, &mut numbers[before..]);
                }
            }
            for (cells, index) in cells.iter_mut().zip(&indices) {
                if let Cells::Texts(texts) = cells {
                    let array = cast(batch.column(at(*index)), &DataType::Utf8);
                    let array = array.map_err(|e| file.damaged(part, &e))?;
                    let rows = array.as_string::<i32>().iter();
                    texts.extend(rows.map(|text| Arc::from(text.unwrap_or_default())));
                }
            }
        }
    }
    Ok(cells)
}

fn is_text(dtype: &DataType) -> bool {
    match dtype {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}
