//! Reads comma-separated text, record after record.

use std::borrow::Cow;

use fangorn::table::{CellReader, CellText};

use super::{
    FileContents, Matrix, MatrixRequest, Number,
    header::{self, Columns},
};
use crate::error::{Error, Result, note};

/// Reads a matrix.
///
/// # Errors
/// The header does not fit the model, a record has another length, a cell is not a value, or rows are
/// requested and the file has none.
pub fn read<T: Number>(wanted: &MatrixRequest<'_>, bytes: &[u8]) -> Result<Matrix<T>> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return wanted.fail("the text is UTF-16; save it as UTF-8");
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut cells: Vec<CellReader<'_>> = wanted.features().iter().map(CellReader::of).collect();
    cells.resize_with(wanted.columns, CellReader::default);
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut record = ::csv::ByteRecord::new();
    let mut next = |record: &mut ::csv::ByteRecord| {
        reader.read_byte_record(record).map_err(|e| Error::file(wanted.path, e.to_string()))
    };
    let line =
        |record: &::csv::ByteRecord| line_of(bytes, record.position().map_or(0, ::csv::Position::byte));
    let mut matrix = Matrix { rows: 0, columns: wanted.columns, values: Vec::new() };
    if !next(&mut record)? {
        return with_final_newline(wanted, matrix, "it is empty");
    }
    let columns = first(wanted, &record, &cells, line(&record))?;
    let mut more = !columns.header || next(&mut record)?;
    while more {
        if record.len() != columns.width {
            let place = format!("line {} has", line(&record));
            return wanted.fail(match columns.places {
                Some(_) => format!(
                    "{place} {} fields, the header {}; write one for each column",
                    record.len(),
                    columns.width
                ),
                None => wanted.other_columns(&place, record.len()),
            });
        }
        let held = matrix.values.len();
        matrix.values.try_reserve(wanted.columns).map_err(|_| wanted.no_room::<T>(held + wanted.columns))?;
        for (column, cell) in cells.iter().enumerate() {
            let at = columns.places.as_ref().map_or(column, |places| places[column]);
            let Some(value) = cell.value(&record[at]) else {
                return wanted.fail(header::bad_cell_message(
                    line(&record),
                    at,
                    &String::from_utf8_lossy(&record[at]),
                ));
            };
            matrix.values.push(T::cast(value));
        }
        matrix.rows += 1;
        more = next(&mut record)?;
    }
    let matrix = with_final_newline(wanted, matrix, "a header and nothing under it")?;
    if let Some(text) = &columns.note {
        note(format!("{}: {text}", wanted.path.display()));
    }
    Ok(matrix)
}

/// Returns the matrix, or an error if rows are requested and there are none. `none` says what the file holds
/// instead.
fn with_final_newline<T>(wanted: &MatrixRequest<'_>, matrix: Matrix<T>, none: &str) -> Result<Matrix<T>> {
    match wanted.what {
        FileContents::Rows(..) if matrix.rows == 0 => {
            wanted.fail(format!("there is no row in it: {none}; give at least one row"))
        }
        _ => Ok(matrix),
    }
}

/// Decides whether the first record is a header or a row.
fn first(
    wanted: &MatrixRequest<'_>,
    record: &::csv::ByteRecord,
    cells: &[CellReader<'_>],
    line: usize,
) -> Result<Columns> {
    let fields: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
    let fits = |(text, column): (&[u8], &CellReader<'_>)| column.value(text).is_some();
    let known =
        |(text, column): (&[u8], &CellReader<'_>)| column.value(text).is_some_and(|value| !value.is_nan());
    // A word that no category column knows belongs to a row only if the record also has a cell that its
    // column knows.
    let is_row = record.iter().zip(cells).any(known);
    let odd = record.iter().zip(cells).position(|cell| !fits(cell) || !is_row && CellText::is_word(cell.0));
    header::columns(wanted, &fields, odd, line)
}

/// Returns the number of the line on which a record begins, counted from 1. The reader's own position is
/// before any empty lines that precede the record.
fn line_of(bytes: &[u8], at: u64) -> usize {
    let at = usize::try_from(at).unwrap_or(bytes.len()).min(bytes.len());
    let empty = bytes[at..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
    1 + bytes[..at + empty].iter().filter(|b| **b == b'\n').count()
}
