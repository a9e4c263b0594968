//! Reads class labels that are texts.

use std::{collections::HashSet, io::Read as _, path::Path};

#[cfg(feature = "tables")]
use super::label_table;
use super::{FileContents, MatrixRequest, foreign};
use crate::{
    error::{Error, Result, note},
    standard_input::is_standard_input,
    table_format,
};

/// Reads the expected labels of a prediction of `columns` columns, row after row. `found` are the predicted ones. If a
/// CSV has one line more than there are rows, the first is a header, unless it holds predicted labels.
///
/// # Errors
/// The file can't be read, holds no texts, or has another shape.
pub fn read_labels(path: &Path, found: &[String], columns: usize) -> Result<Vec<String>> {
    let rule = ["the output has", "give the labels of --output class"];
    let wanted = MatrixRequest { path, contents: FileContents::Expected, columns, rule };
    table_format::require(path)?;
    let labels = match table_format::TableFormat::of(path) {
        #[cfg(feature = "tables")]
        Some(format) => label_table::read(&wanted, format)?,
        _ if is_standard_input(path) || super::is_csv(path) => of_csv(&wanted, found)?,
        _ => {
            let remedy = format!("give a {} file", table_format::NAMED_TABLES);
            return wanted
                .fail(format!("the classes are texts, which are compared with those of a table; {remedy}"));
        }
    };
    let [rows, expected] = [found.len(), labels.len()].map(|count| count / columns.max(1));
    match expected == rows {
        true => Ok(labels),
        false => wanted.fail(super::row_mismatch(expected, rows, "were")),
    }
}

/// Reads comma-separated labels.
fn of_csv(wanted: &MatrixRequest<'_>, found: &[String]) -> Result<Vec<String>> {
    let mut bytes = Vec::new();
    let read = match is_standard_input(wanted.path) {
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
