//! Reads tables that have columns of texts beside columns of numbers.

use std::{io::Read as _, path::Path, sync::Arc};

use fangorn::table::CellReader;

use super::{TableChoice, header::bad_cell_message};
use crate::error::{Error, Result};

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Numbers; a missing one is NaN.
    Numbers(Vec<f64>),
    /// Texts as they are; a missing one is empty.
    Texts(Vec<Arc<str>>),
}

/// A column that is asked for.
#[derive(Clone, Debug)]
pub struct Wanted<'g> {
    /// Its name, where it has one.
    pub name: Option<&'g str>,
    /// Whether its cells stay texts.
    pub texts: bool,
}

/// Reads the columns of a table with a header. They are found by their names if each has one and the header has them
/// all, and by their places otherwise. The path `-` stands for CSV from standard input.
///
/// # Errors
/// The file can't be read, is no CSV file with a header and rows, or has other columns.
pub fn read_mixed(path: &Path, wanted: &[Wanted<'_>], table: TableChoice) -> Result<Vec<Cells>> {
    let fail = |what: String| Err(Error::file(path, what));
    let mut bytes = Vec::new();
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    let read = match &extension[..] {
        _ if path.as_os_str() == "-" => std::io::stdin().lock().read_to_end(&mut bytes),
        "csv" => std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
        _ => {
            let remedy = "hand over a .csv file with a header, or - for standard input";
            return fail(format!("the graph takes texts, which are read from CSV alone; {remedy}"));
        }
    };
    read.map_err(|e| Error::file(path, format!("{e}; give a readable .csv file, or - for standard input")))?;
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
    let place = |column: &Wanted<'_>| header.iter().position(|name| Some(&name[..]) == column.name);
    let by_name: Option<Vec<usize>> = match table.by_position {
        true => None,
        false => wanted.iter().map(place).collect(),
    };
    if by_name.is_none() && header.len() != wanted.len() {
        return fail(format!(
            "the header has {} columns, the graph takes {}; hand over all its columns in order",
            header.len(),
            wanted.len()
        ));
    }
    let places = by_name.unwrap_or_else(|| (0..wanted.len()).collect());
    let number = CellReader::default();
    let empty = |column: &Wanted<'_>| match column.texts {
        true => Cells::Texts(Vec::new()),
        false => Cells::Numbers(Vec::new()),
    };
    let mut columns: Vec<Cells> = wanted.iter().map(empty).collect();
    let mut rows = 0;
    while next(&mut record)? {
        rows += 1;
        let line = record.position().map_or(0, ::csv::Position::line);
        if record.len() != header.len() {
            let (found, wanted) = (record.len(), header.len());
            return fail(format!(
                "line {line} has {found} fields, the header {wanted}; write one for each column"
            ));
        }
        for (column, at) in columns.iter_mut().zip(&places) {
            let cell = &record[*at];
            match column {
                Cells::Texts(texts) => match std::str::from_utf8(cell) {
                    Ok(text) => texts.push(text.into()),
                    Err(_) => {
                        let what = "a text that is no UTF-8; save it so";
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
