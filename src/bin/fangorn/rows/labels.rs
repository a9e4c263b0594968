//! Reads class labels that are texts.

use std::{collections::HashSet, io::Read as _, path::Path};

use arrow_array::{Array, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::DataType;

use super::{FileContents, MatrixRequest, foreign};
use crate::{
    error::{Error, Result, note},
    table_format::TableFormat,
    tables::TableFile,
};

/// Reads the expected labels of a prediction of `columns` columns, row after row. `found` are the predicted ones. If a
/// CSV has one line more than there are rows, the first is a header, unless it holds predicted labels.
///
/// # Errors
/// The file can't be read, holds no texts, or has another shape.
pub fn read_labels(path: &Path, found: &[String], columns: usize) -> Result<Vec<String>> {
    let rule = ["the output has", "give the labels of --output class"];
    let wanted = MatrixRequest { path, what: FileContents::Expected, columns, rule };
    let labels = match TableFormat::of(path) {
        Some(format) => of_table(&wanted, format)?,
        None if path.as_os_str() == "-" || super::is_csv(path) => of_csv(&wanted, found)?,
        None => {
            return wanted.fail(
                "the classes are texts, which are compared with those of a table; give a .csv, .parquet or .arrow file",
            );
        }
    };
    let [rows, expected] = [found.len(), labels.len()].map(|count| count / columns.max(1));
    match expected == rows {
        true => Ok(labels),
        false => wanted.fail(super::other_rows(expected, rows, "were")),
    }
}

/// Reads comma-separated labels.
fn of_csv(wanted: &MatrixRequest<'_>, found: &[String]) -> Result<Vec<String>> {
    let mut bytes = Vec::new();
    let read = match wanted.path.as_os_str() == "-" {
        true => std::io::stdin().lock().read_to_end(&mut bytes),
        false => std::fs::File::open(wanted.path).and_then(|mut file| file.read_to_end(&mut bytes)),
    };
    read.map_err(|e| Error::file(wanted.path, format!("{e}; give a readable .csv file")))?;
    if let Some(what) = foreign::binary(&bytes) {
        return wanted.fail(what);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut records = Vec::new();
    // Whether pandas wrote the rows' index before the labels, under an empty name.
    let mut has_index = false;
    for record in reader.byte_records() {
        let record =
            record.map_err(|e| Error::file(wanted.path, format!("{e}; give a readable .csv file")))?;
        let line = record.position().map_or(0, ::csv::Position::line);
        let mut fields = Vec::with_capacity(record.len());
        for field in &record {
            match std::str::from_utf8(field) {
                Ok(text) => fields.push(text.to_owned()),
                Err(_) => return wanted.fail(format!("line {line}: the text is no UTF-8; save it as UTF-8")),
            }
        }
        let is_first = records.is_empty();
        has_index |= is_first && fields.len() == wanted.columns + 1 && fields[0].trim().is_empty();
        if has_index {
            fields.remove(0);
        }
        wanted.check_columns(&format!("line {line} has"), fields.len())?;
        records.push(fields);
    }
    let known: HashSet<&String> = found.iter().collect();
    let rows = found.len() / wanted.columns.max(1);
    let header = match records.first() {
        Some(first) => {
            has_index || records.len() == rows + 1 && !first.iter().all(|field| known.contains(field))
        }
        None => false,
    };
    if has_index {
        let path = wanted.path.display();
        note(format!("{path}: other columns are left out, 1: one without a name"));
    }
    Ok(records.into_iter().skip(usize::from(header)).flatten().collect())
}

/// Reads the labels of a file of Parquet or Arrow.
fn of_table(wanted: &MatrixRequest<'_>, format: TableFormat) -> Result<Vec<String>> {
    let file = TableFile::open(wanted.path, format)?;
    let width = file.schema().fields().len();
    wanted.check_columns("the table has", width)?;
    let all: Vec<usize> = (0..width).collect();
    let mut labels = Vec::new();
    for part in 0..file.parts() {
        for batch in file.batches(part, &all)? {
            let batch = batch.map_err(|e| file.damaged(part, &e))?;
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
