//! Reads class labels from files of Parquet and Arrow.

use arrow_array::{Array, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::MatrixRequest;
use crate::{
    error::{Error, Result},
    table_format::TableFormat,
    tables::TableFile,
};

/// Reads the labels of a file, row after row.
///
/// # Errors
/// The file can't be read, holds no texts, or has another number of columns.
pub(super) fn read(wanted: &MatrixRequest<'_>, format: TableFormat) -> Result<Vec<String>> {
    let file = TableFile::open(wanted.path, format)?;
    let width = file.schema().fields().len();
    wanted.check_columns("the table has", width)?;
    let all: Vec<usize> = (0..width).collect();
    let mut labels = Vec::new();
    while let Some(part) = file.next_part() {
        let part = part?;
        let name = file.name_of(&part);
        for batch in file.batches(part, &all)? {
            let batch = batch.map_err(|e| file.part_error(&name, &e))?;
            let mut columns = Vec::with_capacity(width);
            for (at, column) in batch.columns().iter().enumerate() {
                let texts = cast(column, &DataType::Utf8).map_err(|e| {
                    Error::file(wanted.path, format!("column {}: {e}; write the labels as texts", at + 1))
                })?;
                let is_truth = *column.data_type() == DataType::Boolean;
                columns.push((texts, is_truth));
            }
            for row in 0..batch.num_rows() {
                labels.extend(columns.iter().map(|(texts, is_truth)| {
                    let texts = texts.as_string::<i32>();
                    match texts.is_null(row) {
                        true => String::new(),
                        false => label_of(texts.value(row), *is_truth),
                    }
                }));
            }
        }
    }
    Ok(labels)
}

/// Returns a label as Python writes it.
fn label_of(text: &str, is_truth: bool) -> String {
    match text {
        "true" if is_truth => "True".into(),
        "false" if is_truth => "False".into(),
        other => other.to_owned(),
    }
}
