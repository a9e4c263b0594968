//! Reads comma-separated text.

use std::borrow::Cow;

use fangorn::table::{CellReader, CellText};

use super::{MatrixRequest, RowSet, header};
use crate::error::{Error, Result};

/// Reads rows.
///
/// # Errors
/// The header does not fit the model, a record has another length, a cell holds no value of its column, or there is no
/// row.
pub fn read(wanted: &MatrixRequest<'_>, bytes: &[u8]) -> Result<RowSet> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return wanted.fail("the text is UTF-16; save it as UTF-8");
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let cells: Vec<CellReader<'_>> = wanted.features().iter().map(CellReader::of).collect();
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut record = ::csv::ByteRecord::new();
    let no_csv = |e: ::csv::Error| Error::file(wanted.name, e.to_string());
    if !reader.read_byte_record(&mut record).map_err(no_csv)? {
        return wanted.fail("there is no row in it: it is empty; give at least one row");
    }
    let mut lines = LineCounter::new(bytes);
    let columns = columns_of(wanted, &record, &cells, lines.line_of(&record))?;
    let mut found = RowSet {
        name: wanted.name.into(),
        rows: 0,
        values: Vec::new(),
        notes: columns.note.iter().cloned().collect(),
    };
    let mut any = !columns.header || reader.read_byte_record(&mut record).map_err(no_csv)?;
    if !any {
        return wanted.fail("there is no row in it: a header and nothing under it; give at least one row");
    }
    while any {
        wanted.check_values(found.values.len() + cells.len())?;
        let line = lines.line_of(&record);
        add_row(wanted, &columns, &cells, &record, line, &mut found.values)?;
        found.rows += 1;
        any = reader.read_byte_record(&mut record).map_err(no_csv)?;
    }
    Ok(found)
}

/// Decides whether the first record is a header or a row.
fn columns_of(
    wanted: &MatrixRequest<'_>,
    record: &::csv::ByteRecord,
    cells: &[CellReader<'_>],
    line: usize,
) -> Result<header::Columns> {
    let fields: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
    let fits = |(text, column): (&[u8], &CellReader<'_>)| column.value(text).is_some();
    let known =
        |(text, column): (&[u8], &CellReader<'_>)| column.value(text).is_some_and(|value| !value.is_nan());
    // A word that no category column knows belongs to a row only if the record also has a cell that its column knows.
    let is_row = record.iter().zip(cells).any(known);
    let odd = record.iter().zip(cells).position(|cell| !fits(cell) || !is_row && CellText::is_word(cell.0));
    header::columns(wanted, &fields, odd, line, &[])
}

/// Adds the values of a record that begins on a line.
fn add_row(
    wanted: &MatrixRequest<'_>,
    columns: &header::Columns,
    cells: &[CellReader<'_>],
    record: &::csv::ByteRecord,
    line: usize,
    values: &mut Vec<f64>,
) -> Result<()> {
    if record.len() != columns.width {
        let start = format!("line {line} has");
        return wanted.fail(match columns.indices {
            Some(_) => {
                let (found, width) = (record.len(), columns.width);
                format!("{start} {found} fields, the header {width}; write one for each column")
            }
            None => wanted.other_columns(&start, record.len()),
        });
    }
    for (column, cell) in cells.iter().enumerate() {
        let at = columns.indices.as_ref().map_or(column, |indices| indices[column]);
        let Some(value) = cell.value(&record[at]) else {
            let text = String::from_utf8_lossy(&record[at]);
            return wanted.fail(header::misfit_message(wanted, line, [column, at], &text));
        };
        values.push(value);
    }
    Ok(())
}

/// Counts the lines of a text up to records that come one after the other.
struct LineCounter<'t> {
    text: &'t [u8],
    /// The number of bytes that were counted.
    seen: usize,
    line: usize,
}

impl<'t> LineCounter<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self { text, seen: 0, line: 1 }
    }

    /// Returns the number of the line on which a record begins. The reader's own offset is before any empty lines that
    /// precede the record.
    fn line_of(&mut self, record: &::csv::ByteRecord) -> usize {
        let at = record.position().map_or(0, ::csv::Position::byte);
        let at = usize::try_from(at).unwrap_or(usize::MAX).clamp(self.seen, self.text.len());
        let empty = self.text[at..].iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let end = at + empty;
        self.line += self.text[self.seen..end].iter().filter(|byte| **byte == b'\n').count();
        self.seen = end;
        self.line
    }
}
