//! Reads libsvm's text: a line for each row, `label index:value index:value …`, which leaves absent values out.

use std::{fs::File, path::Path, sync::Mutex};

use fangorn::table::Number;

use super::{
    FileContents, Matrix, MatrixRequest,
    chunks::{self, Chunk, Chunks},
    parts::{self, OnError, PartedRows, RowBatch, RowBatches, SkippedRows},
};
use crate::error::{Error, Result};

/// The maximum number of values of a batch. Absent values take memory, too.
const MOST_VALUES: usize = 1 << 22;

/// The number of characters of a token that a message repeats.
const SHOWN: usize = 40;

/// The rows of a file of libsvm.
#[derive(Debug)]
pub struct LibsvmRows<'a> {
    wanted: MatrixRequest<'a>,
    /// The value that an absent one has for the model's producer.
    absent: f64,
    /// The index of the first column.
    first_index: usize,
    chunks: Mutex<Chunks>,
    skipped: SkippedRows,
}

/// Reads all rows.
///
/// # Errors
/// The file can't be read, or a line is not libsvm's text.
pub fn read<T: Number>(wanted: MatrixRequest<'_>) -> Result<Matrix<T>> {
    let rows = LibsvmRows::open(wanted, OnError::Stop)?;
    let matrix = parts::read_all(&rows, wanted.columns, |values| wanted.no_room::<T>(values), |_| Ok(()))?;
    match matrix.rows {
        0 => wanted.fail("there is no row in it; give at least one row"),
        _ => Ok(matrix),
    }
}

impl<'a> LibsvmRows<'a> {
    /// Opens a file.
    ///
    /// # Errors
    /// The file can't be read, or is to contain something other than rows.
    pub(super) fn open(wanted: MatrixRequest<'a>, on_error: OnError) -> Result<Self> {
        let FileContents::Rows(forest, table) = wanted.contents else {
            return wanted.fail("libsvm files hold rows; give expected values as .npy or .csv");
        };
        if let Some(column) = forest.features.iter().position(|feature| feature.coding.is_needed()) {
            let remedy = "give the rows as CSV, with categories as the table had them";
            return wanted
                .fail(format!("the model's column {column} has categories that are no codes; {remedy}"));
        }
        let file = File::open(wanted.path);
        let file = file.map_err(|e| Error::file(wanted.path, format!("{e}; give a readable file")))?;
        Ok(Self {
            wanted,
            absent: forest.absent_value(),
            first_index: table.index_from,
            chunks: Mutex::new(Chunks::of_lines(file)),
            skipped: SkippedRows::new(on_error),
        })
    }

    /// Returns the next rows of a chunk, up to about [`MOST_VALUES`] values, or `None` at the end of the chunk. `done`
    /// holds the numbers of bytes and of lines that were read before. The call adds those that it reads.
    fn batch<T: Number>(&self, chunk: &Chunk, done: &mut [usize; 2]) -> Option<Result<RowBatch<T>>> {
        let columns = self.wanted.columns;
        let mut rows = Matrix::of_rows(0, columns, Vec::new());
        let [begin, lines] = done;
        if *begin >= chunk.bytes.len() {
            return None;
        }
        while *begin < chunk.bytes.len() && rows.values.len() < MOST_VALUES {
            let rest = &chunk.bytes[*begin..];
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            let line = chunk.line + *lines;
            (*begin, *lines) = (*begin + end, *lines + 1);
            if let Err(error) = self.line(&rest[..end], line, &mut rows) {
                *begin = chunk.bytes.len();
                return Some(Err(error));
            }
        }
        Some(Ok(RowBatch::of_numbers(rows)))
    }

    /// Adds the row of a line, if there is one.
    fn line<T: Number>(&self, text: &[u8], line: usize, rows: &mut Matrix<T>) -> Result<()> {
        let text = text.split(|byte| *byte == b'#').next().unwrap_or_default();
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let (before, columns) = (rows.values.len(), self.wanted.columns);
        // A lack of memory is not the line's fault, so the line is not skipped.
        let no_room = |_| Error::Request(self.wanted.no_room::<T>(before + columns).to_string());
        rows.values.try_reserve(columns).map_err(no_room)?;
        rows.values.resize(before + columns, T::cast(self.absent));
        match self.row(text, &mut rows.values[before..]) {
            Ok(()) => {
                rows.rows += 1;
                Ok(())
            }
            Err(what) => {
                rows.values.truncate(before);
                self.skipped.refuse(self.wanted.path, line, format!("line {line}: {what}"))
            }
        }
    }

    /// Puts the values of a line into a row.
    fn row<T: Number>(&self, text: &[u8], row: &mut [T]) -> Result<(), String> {
        let text = std::str::from_utf8(text).map_err(|_| "the line is no UTF-8; save the file as UTF-8")?;
        let shown = |token: &str| token.chars().take(SHOWN).collect::<String>();
        let mut tokens = text.split_ascii_whitespace();
        // A row begins with its label. A query's number may come next.
        let label = tokens.next().unwrap_or_default();
        if label.split(',').any(|number| number.parse::<f64>().is_err()) {
            let remedy = "begin a line with a label, for example 0";
            return Err(format!("`{}` is no label; {remedy}", shown(label)));
        }
        let (mut last, mut ascends) = (None, true);
        for token in tokens.filter(|token| !token.starts_with("qid:")) {
            let wrong = || {
                let remedy = "write an index and a value, for example 3:0.5";
                format!("`{}` is no value of a column; {remedy}", shown(token))
            };
            let (index, value) = token.split_once(':').ok_or_else(wrong)?;
            let index: usize = index.parse().map_err(|_| wrong())?;
            let value: f64 = value.parse().map_err(|_| wrong())?;
            let element = index.checked_sub(self.first_index).and_then(|at| row.get_mut(at));
            let Some(element) = element else {
                let (first, last) = (self.first_index, self.first_index + row.len());
                let other = 1 - self.first_index.min(1);
                let remedy = format!("give --index-from {other} if the first column's index is {other}");
                return Err(format!(
                    "there is no column {index}: the model's columns have the indices {first} to {}; {remedy}",
                    last.saturating_sub(1)
                ));
            };
            *element = T::cast(value);
            ascends &= last.is_none_or(|last| last < index);
            last = Some(index);
        }
        if !ascends {
            let indices = text.split_ascii_whitespace().skip(1).filter_map(|token| token.split_once(':'));
            let mut indices: Vec<usize> = indices.filter_map(|(index, _)| index.parse().ok()).collect();
            indices.sort_unstable();
            if let Some(twice) = indices.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(format!("column {} has two values; write one", twice[0]));
            }
        }
        Ok(())
    }
}

impl PartedRows for LibsvmRows<'_> {
    type Part = Chunk;

    fn path(&self) -> &Path {
        self.wanted.path
    }

    fn next_part(&self) -> Option<Result<Chunk>> {
        chunks::next(&self.chunks, self.wanted.path)
    }

    fn name_of(&self, part: &Chunk) -> String {
        part.name()
    }

    fn batches<T: Number>(&self, part: Chunk) -> Result<RowBatches<'_, T>> {
        let mut done = [0, 0];
        Ok(Box::new(std::iter::from_fn(move || self.batch(&part, &mut done))))
    }

    fn left_out(&self) -> Option<(u64, String)> {
        self.skipped.said()
    }
}
