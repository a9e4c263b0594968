//! Reads comma-separated text, one chunk of complete records after the other.

use std::{
    borrow::Cow,
    fs::File,
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use fangorn::table::{CellReader, CellText, plain_decimal};
use smallvec::{SmallVec, smallvec};

use super::{
    FileContents, Matrix, MatrixRequest, Number, TableChoice,
    chunks::{self, Chunk, Chunks, newlines},
    doubled_kept_column, foreign,
    header::{self, Columns},
    mixed::{ColumnRequest, MixedIndices},
    no_kept_column,
    parts::{self, OnError, PartedRows, RowBatch, RowBatches, SkippedRows},
    plural,
};
use crate::{
    error::{Error, Result, note},
    standard_input::is_standard_input,
    tables::{KeptColumn, KeptField, Texts},
};

/// A CSV file with the model's columns in it, and columns that are kept beside the predictions.
#[derive(Debug)]
pub struct CsvRows<'a> {
    wanted: MatrixRequest<'a>,
    cells: Vec<CellReader<'a>>,
    columns: Columns,
    /// The kept columns: their names and field indices.
    kept: Vec<(KeptField, usize)>,
    /// The number of columns of texts that the model reads. They are the last of `kept`.
    texts: usize,
    /// The use of each field of a record.
    uses: Vec<FieldUse>,
    chunks: Mutex<Chunks>,
    /// Set when nobody needs more chunks.
    stop: Arc<AtomicBool>,
    /// The records after the header in the first chunk.
    first: Mutex<Option<Chunk>>,
    skipped: SkippedRows,
}

/// The use of a field of a record.
#[derive(Clone, Copy, Debug, Default)]
struct FieldUse {
    /// The column of the matrix that the field is read into.
    column: Option<usize>,
    /// Whether it is kept beside the predictions.
    kept: bool,
}

/// Reads a matrix.
///
/// # Errors
/// The header does not fit the model, a record has another length, a cell is not a value, or rows are
/// requested and the file has none.
pub fn read<T: Number>(wanted: MatrixRequest<'_>) -> Result<Matrix<T>> {
    let Some(rows) = CsvRows::open(wanted, &[], OnError::Stop)? else {
        return Ok(Matrix::of_rows(0, wanted.columns, Vec::new()));
    };
    parts::read_all(&rows, wanted.columns, |values| wanted.no_room::<T>(values), |_| Ok(()))
}

/// Reads one record for each of `rows` rows. If the file has one record more, and the first record holds the column
/// numbers that pandas writes above columns without names, the first record is a header.
///
/// # Errors
/// The header does not fit, a record has another length, or a cell is no number.
pub fn read_for_each_row(wanted: MatrixRequest<'_>, rows: usize) -> Result<Matrix<f64>> {
    let columns = wanted.columns;
    let Some(records) = CsvRows::open(wanted, &[], OnError::Stop)? else {
        return Ok(Matrix::of_rows(0, columns, Vec::new()));
    };
    let mut found: Matrix<f64> =
        parts::read_all(&records, columns, |values| wanted.no_room::<f64>(values), |_| Ok(()))?;
    let counts = (0..columns).all(|column| found.values.get(column) == Some(&(column as f64)));
    if found.rows == rows + 1 && !records.columns.header && counts {
        found.values.drain(..columns);
        found.rows = rows;
        note(format!(
            "{}: its first line is taken for a header of numbers, because it has one line more than there are rows",
            wanted.path.display()
        ));
    }
    Ok(found)
}

/// Returns the error of a file without a row. `none` says what the file contains instead.
fn no_row(wanted: &MatrixRequest<'_>, none: &str) -> Error {
    Error::file(wanted.path, format!("there is no row in it: {none}; give at least one row"))
}

/// The beginning of a text, up to its first record.
struct Beginning<'a> {
    wanted: MatrixRequest<'a>,
    stop: Arc<AtomicBool>,
    chunks: Chunks,
    /// The first chunk.
    chunk: Chunk,
    record: ::csv::ByteRecord,
    /// Number of bytes of the first chunk up to the end of the first record.
    after: usize,
    remedy: &'static str,
}

impl<'a> Beginning<'a> {
    /// Opens a file, or standard input if the path is `-`, and reads the first record. Returns `None` if the file is
    /// empty and need not contain rows.
    ///
    /// # Errors
    /// The file can't be read, or is empty.
    fn read(wanted: MatrixRequest<'a>) -> Result<Option<Self>> {
        let stdin = is_standard_input(wanted.path);
        let wanted = match stdin {
            true => MatrixRequest { path: Path::new("standard input"), ..wanted },
            false => wanted,
        };
        let remedy = match stdin {
            true => "pipe CSV to it",
            false => "give a file that can be read, or - for standard input",
        };
        let stop = Arc::new(AtomicBool::new(false));
        let mut chunks = match stdin {
            true => Chunks::of_stdin(stop.clone()),
            false => Chunks::of_file(
                File::open(wanted.path).map_err(|e| Error::file(wanted.path, format!("{e}; {remedy}")))?,
            ),
        };
        let first = chunks.next().map_err(|e| Error::file(wanted.path, format!("{e}; {remedy}")))?;
        let mut chunk = first.unwrap_or(Chunk { bytes: Vec::new(), line: 1, has_quotes: false });
        if let Some(what) = foreign::binary(&chunk.bytes) {
            return wanted.fail(what);
        }
        if chunk.bytes.starts_with(b"\xef\xbb\xbf") {
            chunk.bytes.drain(..3);
        }
        let mut record = ::csv::ByteRecord::new();
        let mut reader = reader_of(&chunk.bytes);
        let any =
            reader.read_byte_record(&mut record).map_err(|e| Error::file(wanted.path, e.to_string()))?;
        let after = usize::try_from(reader.position().byte()).unwrap_or(usize::MAX).min(chunk.bytes.len());
        drop(reader);
        match (any, wanted.contents) {
            (true, _) => Ok(Some(Self { wanted, stop, chunks, chunk, record, after, remedy })),
            (false, FileContents::Rows(..)) => Err(no_row(&wanted, "it is empty")),
            (false, FileContents::Expected) => Ok(None),
        }
    }

    /// Returns the rows after the header, if there is one. The last `texts` of the kept columns are columns of texts that
    /// the model reads.
    ///
    /// # Errors
    /// The file can't be read, or has no row.
    fn rows(
        self,
        columns: Columns,
        kept: Vec<(KeptField, usize)>,
        texts: usize,
        on_error: OnError,
    ) -> Result<CsvRows<'a>> {
        let Self { wanted, stop, mut chunks, mut chunk, after, remedy, .. } = self;
        if columns.header {
            chunk.line += newlines(&chunk.bytes[..after]);
            chunk.bytes.drain(..after);
        }
        // A space may be a text.
        let is_empty = |byte: &u8| matches!(byte, b'\n' | b'\r') || texts == 0 && byte.is_ascii_whitespace();
        while matches!(wanted.contents, FileContents::Rows(..)) && chunk.bytes.iter().all(is_empty) {
            let next = chunks.next().map_err(|e| Error::file(wanted.path, format!("{e}; {remedy}")))?;
            chunk = next.ok_or_else(|| no_row(&wanted, "a header and nothing under it"))?;
        }
        if let Some(text) = &columns.note {
            note(format!("{}: {text}", wanted.path.display()));
        }
        let mut uses = vec![FieldUse::default(); columns.width];
        for column in 0..wanted.columns {
            uses[columns.indices.as_ref().map_or(column, |indices| indices[column])].column = Some(column);
        }
        kept.iter().for_each(|(_, index)| uses[*index].kept = true);
        Ok(CsvRows {
            cells: cells_of(&wanted),
            wanted,
            columns,
            kept,
            texts,
            uses,
            chunks: Mutex::new(chunks),
            stop,
            first: Mutex::new(Some(chunk)),
            skipped: SkippedRows::new(on_error),
        })
    }
}

/// Returns the readers of the cells of a request's columns.
fn cells_of<'a>(wanted: &MatrixRequest<'a>) -> Vec<CellReader<'a>> {
    let mut cells: Vec<CellReader<'_>> = wanted.features().iter().map(CellReader::of).collect();
    cells.resize_with(wanted.columns, CellReader::default);
    cells
}

impl<'a> CsvRows<'a> {
    /// Opens a file, or standard input if the path is `-`, and finds the columns. Returns `None` if the file is empty
    /// and need not contain rows.
    ///
    /// # Errors
    /// The file can't be read, has no row, or lacks columns.
    pub(super) fn open(
        wanted: MatrixRequest<'a>,
        keep: &[String],
        on_error: OnError,
    ) -> Result<Option<Self>> {
        let Some(beginning) = Beginning::read(wanted)? else { return Ok(None) };
        let Beginning { wanted, record, chunk, .. } = &beginning;
        let cells = cells_of(wanted);
        let line = chunk.line_of(record);
        let indices = kept_indices(wanted, record, keep)?;
        let columns = columns_of(wanted, record, &cells, line, keep, &indices).map_err(|error| {
            foreign::text(&chunk.bytes).map_or(error, |what| Error::file(wanted.path, what))
        })?;
        if !columns.header && !keep.is_empty() {
            let what =
                "--keep: its first line is a row and no header, so its columns have no names; add a header";
            return wanted.fail(what);
        }
        let kept = keep.iter().cloned().map(KeptField::text).zip(indices).collect();
        beginning.rows(columns, kept, 0, on_error).map(Some)
    }

    /// Opens a file with a header, or standard input if the path is `-`, and finds columns of texts and of numbers.
    /// `wanted` is the request for the columns of numbers among the `requests`.
    ///
    /// # Errors
    /// The file can't be read, has no row, or lacks columns.
    pub(super) fn open_mixed(
        wanted: MatrixRequest<'a>,
        requests: &[ColumnRequest<'_>],
        table: TableChoice,
        keep: &[String],
        on_error: OnError,
    ) -> Result<Self> {
        let Some(beginning) = Beginning::read(wanted)? else { return Err(no_row(&wanted, "it is empty")) };
        let Beginning { wanted, record, .. } = &beginning;
        let header: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
        let names: Vec<&str> = header.iter().map(|name| name.trim()).collect();
        let keep_at = kept_indices(wanted, record, keep)?;
        let found = MixedIndices::find(wanted.path, &names, requests, table, &keep_at)?;
        let columns = Columns { header: true, width: record.len(), indices: Some(found.numbers), note: None };
        let mut kept: Vec<(KeptField, usize)> =
            keep.iter().cloned().map(KeptField::text).zip(keep_at).collect();
        let texts = found.texts.len();
        let of_texts = found.texts.into_iter();
        kept.extend(of_texts.map(|index| (KeptField::text(names[index].to_owned()), index)));
        beginning.rows(columns, kept, texts, on_error)
    }

    /// Returns the rows of a chunk, and the kept columns.
    fn batch<T: Number>(&self, chunk: &Chunk, skipped: &SkippedRows) -> Result<RowBatch<T>> {
        let mut rows = Matrix::of_rows(0, self.wanted.columns, Vec::new());
        let mut kept: Vec<Texts> = self.kept.iter().map(|_| Texts::default()).collect();
        if chunk.has_plain_lines() {
            let (mut rest, mut line) = (&chunk.bytes[..], chunk.line);
            while !rest.is_empty() {
                let length = match self.plain_row(rest, &mut rows.values, &mut kept) {
                    Some(length) => {
                        rows.rows += 1;
                        length
                    }
                    // The line is empty, or something in it is to be refused.
                    None => {
                        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
                        let line = Chunk { bytes: rest[..end].to_vec(), line, has_quotes: false };
                        self.records(&line, &mut rows, &mut kept, skipped)?;
                        end
                    }
                };
                rest = &rest[length..];
                line += 1;
            }
        } else {
            self.records(chunk, &mut rows, &mut kept, skipped)?;
        }
        let mut kept: Vec<KeptColumn> = kept.into_iter().map(KeptColumn::Texts).collect();
        let texts = kept.split_off(kept.len() - self.texts);
        Ok(RowBatch { rows, texts, kept })
    }

    /// Adds the records of a chunk, as the crate `csv` reads them.
    fn records<T: Number>(
        &self,
        chunk: &Chunk,
        rows: &mut Matrix<T>,
        kept: &mut [Texts],
        skipped: &SkippedRows,
    ) -> Result<()> {
        let mut reader = reader_of(&chunk.bytes);
        let mut record = ::csv::ByteRecord::new();
        let no_csv = |e: ::csv::Error| Error::file(self.wanted.path, e.to_string());
        while reader.read_byte_record(&mut record).map_err(no_csv)? {
            let before = rows.values.len();
            // A lack of memory is not the line's fault, so the line is not skipped.
            let no_room = |_| Error::Request(self.wanted.no_room::<T>(before + rows.columns).to_string());
            rows.values.try_reserve(rows.columns).map_err(no_room)?;
            match self.row(&record, || chunk.line_of(&record), &mut rows.values, kept) {
                Ok(()) => rows.rows += 1,
                Err(what) => {
                    rows.values.truncate(before);
                    skipped.refuse(self.wanted.path, chunk.line_of(&record), what)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the values and the kept texts of the first line of a text without quotation marks. Returns the line's
    /// length with its line break. If the line is empty or something in it is to be refused, adds nothing and returns
    /// `None`. Each cell is read while its end is searched for, which takes half the time of cutting records first
    /// (`benches/tables/run.py time --from csv`).
    fn plain_row<T: Number>(&self, text: &[u8], values: &mut Vec<T>, kept: &mut [Texts]) -> Option<usize> {
        let (before, columns) = (values.len(), self.wanted.columns);
        if matches!(text, [b'\n' | b'\r', ..]) || values.try_reserve(columns).is_err() {
            return None;
        }
        values.resize(before + columns, T::cast(f64::NAN));
        // The ranges of the kept fields.
        let mut texts: SmallVec<[Range<usize>; 4]> = smallvec![0..0; self.kept.len()];
        let length = self.cells_of_line(text, &mut values[before..], &mut texts);
        let texts: Option<SmallVec<[&str; 4]>> = match &texts[..] {
            [] => Some(SmallVec::new()),
            texts => texts.iter().map(|at| std::str::from_utf8(&text[at.clone()]).ok()).collect(),
        };
        let Some((length, texts)) = length.zip(texts) else {
            values.truncate(before);
            return None;
        };
        kept.iter_mut().zip(texts).for_each(|(kept, text)| kept.push(text));
        Some(length)
    }

    /// Reads the cells of the first line of a text into a row, and finds the kept ones. Returns the line's length with
    /// its line break, or `None` if it has another number of fields or a cell that is no value.
    fn cells_of_line<T: Number>(
        &self,
        text: &[u8],
        row: &mut [T],
        texts: &mut [Range<usize>],
    ) -> Option<usize> {
        let mut begin = 0;
        for (field, uses) in self.uses.iter().enumerate() {
            let is_last = field + 1 == self.uses.len();
            let plain = match uses.column {
                Some(column) if !self.cells[column].has_codes() => plain_decimal(&text[begin..]),
                _ => None,
            };
            let plain = plain.map(|(value, length)| (value, begin + length));
            let (value, end) =
                match plain.filter(|(_, end)| matches!(text.get(*end), None | Some(b',' | b'\n'))) {
                    Some((value, end)) => (Some(value), end),
                    None => {
                        let end = text[begin..].iter().position(|byte| matches!(byte, b',' | b'\n'));
                        let end = end.map_or(text.len(), |at| begin + at);
                        (None, end)
                    }
                };
            let at_the_end = text.get(end) != Some(&b',');
            let cell = &text[begin..end];
            let cell = if at_the_end { cell.strip_suffix(b"\r").unwrap_or(cell) } else { cell };
            if let Some(column) = uses.column {
                row[column] = T::cast(value.or_else(|| self.cells[column].value(cell))?);
            }
            if uses.kept {
                let kept = self.kept.iter().zip(&mut *texts).filter(|((_, index), _)| *index == field);
                kept.for_each(|(_, text)| *text = begin..begin + cell.len());
            }
            match (is_last, at_the_end) {
                (true, true) => return Some(text.len().min(end + 1)),
                (false, false) => begin = end + 1,
                _ => return None,
            }
        }
        None
    }

    /// Adds the values of a record, and then its kept texts.
    fn row<T: Number>(
        &self,
        record: &::csv::ByteRecord,
        line: impl Fn() -> usize,
        values: &mut Vec<T>,
        kept: &mut [Texts],
    ) -> Result<(), String> {
        if record.len() != self.columns.width {
            let (start, width) = (format!("line {} has", line()), self.columns.width);
            return Err(match self.columns.indices {
                Some(_) => {
                    let (found, s) = (record.len(), plural(record.len()));
                    format!("{start} {found} field{s}, the header {width}; write one for each column")
                }
                None => self.wanted.column_mismatch(&start, record.len()),
            });
        }
        for (column, cell) in self.cells.iter().enumerate() {
            let at = self.columns.indices.as_ref().map_or(column, |indices| indices[column]);
            let Some(value) = cell.value(&record[at]) else {
                let text = String::from_utf8_lossy(&record[at]);
                return Err(header::misfit_message(&self.wanted, line(), [column, at], &text));
            };
            values.push(T::cast(value));
        }
        let text = |(_, at): &(KeptField, usize)| {
            let text = std::str::from_utf8(&record[*at]);
            text.map_err(|_| {
                format!("line {}, column {}: the text is no UTF-8; save it as UTF-8", line(), at + 1)
            })
        };
        let texts: Vec<&str> = self.kept.iter().map(text).collect::<Result<_, _>>()?;
        kept.iter_mut().zip(texts).for_each(|(kept, text)| kept.push(text));
        Ok(())
    }
}

impl PartedRows for CsvRows<'_> {
    type Part = Chunk;

    fn path(&self) -> &Path {
        self.wanted.path
    }

    fn kept_fields(&self) -> Vec<KeptField> {
        let kept = &self.kept[..self.kept.len() - self.texts];
        kept.iter().map(|(field, _)| field.clone()).collect()
    }

    fn next_part(&self) -> Option<Result<Chunk>> {
        if let Some(chunk) = self.first.lock().ok().and_then(|mut first| first.take()) {
            return Some(Ok(chunk));
        }
        chunks::next(&self.chunks, self.wanted.path)
    }

    fn name_of(&self, part: &Chunk) -> String {
        part.name()
    }

    fn batches<T: Number>(&self, part: Chunk) -> Result<RowBatches<'_, T>> {
        Ok(Box::new(std::iter::once_with(move || self.batch(&part, &self.skipped))))
    }

    fn first_rows<T: Number>(&self) -> Result<Option<RowBatch<T>>> {
        if self.texts == 0 {
            return Ok(None);
        }
        let chunk = self.first.lock().ok().and_then(|first| first.clone());
        // The part with these rows counts those that are left out.
        let uncounted = self.skipped.uncounted();
        chunk.map(|chunk| self.batch(&chunk, &uncounted)).transpose()
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn left_out(&self) -> Option<(u64, String)> {
        self.skipped.said()
    }
}

fn reader_of(bytes: &[u8]) -> ::csv::Reader<&[u8]> {
    ::csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes)
}

/// Returns the field indices of the columns to keep, given the first record.
fn kept_indices(
    wanted: &MatrixRequest<'_>,
    record: &::csv::ByteRecord,
    keep: &[String],
) -> Result<Vec<usize>> {
    let names: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
    let index = |name: &String| {
        let mut found = (0..names.len()).filter(|at| names[*at].trim() == name);
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(index),
            (Some(_), Some(_)) => Err(doubled_kept_column(wanted.path, name)),
            (None, _) => Err(no_kept_column(wanted.path, name, &names)),
        }
    };
    keep.iter().map(index).collect()
}

/// Finds the model's columns. The kept columns are skipped if columns are matched by position, or if the model has no
/// names of columns.
fn columns_of(
    wanted: &MatrixRequest<'_>,
    record: &::csv::ByteRecord,
    cells: &[CellReader<'_>],
    line: usize,
    keep: &[String],
    kept: &[usize],
) -> Result<Columns> {
    let all = || first(wanted, record, cells, line, keep);
    let without_kept = || {
        let others: Vec<usize> = (0..record.len()).filter(|at| !kept.contains(at)).collect();
        let fields: ::csv::ByteRecord = others.iter().map(|at| &record[*at]).collect();
        let found = first(wanted, &fields, cells, line, keep)?;
        let indices = found.indices.unwrap_or_else(|| (0..wanted.columns).collect());
        let indices = indices.into_iter().map(|at| others[at]).collect();
        Ok(Columns { width: record.len(), indices: Some(indices), ..found })
    };
    match (wanted.is_by_position(), keep.is_empty()) {
        (_, true) => all(),
        (true, false) => without_kept(),
        (false, false) => all().or_else(|error| without_kept().map_err(|_: Error| error)),
    }
}

/// Decides whether the first record is a header or a row.
fn first(
    wanted: &MatrixRequest<'_>,
    record: &::csv::ByteRecord,
    cells: &[CellReader<'_>],
    line: usize,
    keep: &[String],
) -> Result<Columns> {
    let fields: Vec<Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
    let fits = |(text, column): (&[u8], &CellReader<'_>)| column.value(text).is_some();
    let known =
        |(text, column): (&[u8], &CellReader<'_>)| column.value(text).is_some_and(|value| !value.is_nan());
    // A word that no category column knows belongs to a row only if the record also has a cell that its
    // column knows.
    let is_row = record.iter().zip(cells).any(known);
    let odd = record.iter().zip(cells).position(|cell| !fits(cell) || !is_row && CellText::is_word(cell.0));
    header::columns(wanted, &fields, odd, line, keep)
}

impl Chunk {
    /// Tells whether each line of the chunk is a record: there is no quotation mark, and each carriage return stands
    /// before a line break.
    fn has_plain_lines(&self) -> bool {
        let bytes = &self.bytes;
        let returns = |at: usize| bytes[at] != b'\r' || bytes.get(at + 1) == Some(&b'\n');
        // The compiler vectorizes a loop that does not stop at the first one.
        let has_returns = |few: &[u8]| few.iter().fold(false, |any, byte| any | (*byte == b'\r'));
        !self.has_quotes && (!bytes.chunks(4096).any(has_returns) || (0..bytes.len()).all(returns))
    }

    /// Returns the number of the line on which a record begins. The reader's own offset is before any empty lines that
    /// precede the record.
    fn line_of(&self, record: &::csv::ByteRecord) -> usize {
        let at = record.position().map_or(0, ::csv::Position::byte);
        let at = usize::try_from(at).unwrap_or(usize::MAX).min(self.bytes.len());
        let empty = self.bytes[at..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
        self.line + newlines(&self.bytes[..at + empty])
    }
}
