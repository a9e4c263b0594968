//! Reads tables with columns of texts and columns of numbers.

use std::{io::Read as _, path::Path, sync::Arc};

use fangorn::table::{CellReader, ColumnNames};

#[cfg(feature = "tables")]
use super::mixed_table;
use super::{TableChoice, foreign, header::bad_cell_message, plural};
use crate::{
    error::{Error, Result, note},
    table_format,
};

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Numbers; a missing one is NaN.
    Numbers(Vec<f64>),
    /// Texts as they are; a missing one is empty.
    Texts(Vec<Arc<str>>),
}

/// A column that the caller wants.
#[derive(Clone, Debug)]
pub struct ColumnRequest<'g> {
    /// Its name, if it has one.
    pub name: Option<&'g str>,
    /// Whether its cells stay texts.
    pub texts: bool,
}

/// Reads the columns of a table. Columns are found by name if each requested column has a name and the table has at
/// least one of these names, and otherwise by position. The path `-` stands for CSV from standard input.
///
/// # Errors
/// The file can't be read, is no table with names and rows, or has other columns.
pub fn read_mixed(path: &Path, wanted: &[ColumnRequest<'_>], table: TableChoice) -> Result<Vec<Cells>> {
    table_format::require(path)?;
    #[cfg(feature = "tables")]
    if let Some(format) = table_format::TableFormat::of(path) {
        return mixed_table::read(path, format, wanted, table);
    }
    read_csv(path, wanted, table)
}

/// Returns the index of each wanted column among those of a table.
pub(super) fn column_indices(
    path: &Path,
    names: &[&str],
    wanted: &[ColumnRequest<'_>],
    table: TableChoice,
) -> Result<Vec<usize>> {
    if !table.by_position && wanted.iter().all(|column| column.name.is_some()) {
        let mut features = super::nameless(wanted.len())?;
        for (feature, column) in features.features.iter_mut().zip(wanted) {
            feature.name = column.name.map(str::to_owned);
        }
        let wanted = ColumnNames::of(&features);
        // A single input has the name that the exporter gave it.
        let are_columns = wanted.names().len() > 1 && wanted.are_chosen();
        if are_columns || !wanted.names().is_empty() && wanted.any_of(names.iter().copied()) {
            let remedy = "write the model's names into the first line, or give --by-position if the columns are in the \
                          graph's order";
            let indices = wanted.indices(names.iter().copied());
            return indices.map_err(|mismatch| Error::file(path, format!("{mismatch}; {remedy}")));
        }
    }
    note(format!("{}: the first line is the header, and columns are taken in their order", path.display()));
    match names.len() == wanted.len() {
        true => Ok((0..wanted.len()).collect()),
        false => Err(Error::file(
            path,
            format!(
                "the table has {} column{}, the graph takes {}; give all its columns in order",
                names.len(),
                plural(names.len()),
                wanted.len()
            ),
        )),
    }
}

/// Returns an empty list of cells for each column.
pub(super) fn no_cells(wanted: &[ColumnRequest<'_>]) -> Vec<Cells> {
    let empty = |column: &ColumnRequest<'_>| match column.texts {
        true => Cells::Texts(Vec::new()),
        false => Cells::Numbers(Vec::new()),
    };
    wanted.iter().map(empty).collect()
}

/// Reads comma-separated text with a header.
fn read_csv(path: &Path, wanted: &[ColumnRequest<'_>], table: TableChoice) -> Result<Vec<Cells>> {
    let fail = |what: String| Err(Error::file(path, what));
    let mut bytes = Vec::new();
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    let read = match &extension[..] {
        _ if path.as_os_str() == "-" => std::io::stdin().lock().read_to_end(&mut bytes),
        "csv" => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
        _ => {
            let tables = table_format::NAMED_TABLES;
            let remedy = format!("give {tables}, or - for CSV from standard input");
            return fail(format!("the graph takes texts, which this file can't hold; {remedy}"));
        }
    };
    read.map_err(|e| Error::file(path, format!("{e}; give a readable .csv file, or - for standard input")))?;
    if let Some(what) = foreign::binary(&bytes) {
        return fail(what.into());
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut record = ::csv::ByteRecord::new();
    let mut next = |record: &mut ::csv::ByteRecord| {
        reader.read_byte_record(record).map_err(|e| Error::file(path, e.to_string()))
    };
    if !next(&mut record)? {
        return fail("it is empty; give a header and at least one row".into());
    }
    let header: Vec<String> =
        record.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let indices = column_indices(path, &names, wanted, table)?;
    let number = CellReader::default();
    let mut columns = no_cells(wanted);
    let mut rows = 0;
    while next(&mut record)? {
        rows += 1;
        let line = record.position().map_or(0, ::csv::Position::line);
        if record.len() != header.len() {
            let (found, wanted) = (record.len(), header.len());
            return fail(format!(
                "line {line} has {found} field{}, the header {wanted}; write one for each column",
                plural(found)
            ));
        }
        for (column, at) in columns.iter_mut().zip(&indices) {
            let cell = &record[*at];
            match column {
                Cells::Texts(texts) => match std::str::from_utf8(cell) {
                    Ok(text) => texts.push(text.into()),
                    Err(_) => {
                        let what = "the text is no UTF-8; save it as UTF-8";
                        return fail(format!("line {line}, column {}: {what}", at + 1));
                    }
                },
                Cells::Numbers(numbers) => match number.value(cell) {
                    Some(value) => numbers.push(value),
                    None => {
                        let text = String::from_utf8_lossy(cell);
                        return fail(bad_cell_message(usize::try_from(line).unwrap_or(0), *at, &text));
                    }
                },
            }
        }
    }
    if rows == 0 {
        return fail("there is no row in it: a header and nothing under it; give at least one row".into());
    }
    Ok(columns)
}
