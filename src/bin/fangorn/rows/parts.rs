//! Rows that are read part by part, so that they may be larger than memory.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use fangorn::table::Number;

use super::Matrix;
use crate::{
    error::{Error, Result},
    tables::{KeptColumn, KeptField},
};

/// Rows of a part of a file, and the kept columns beside them.
#[derive(Clone, Debug)]
pub struct RowBatch<T> {
    /// The rows.
    pub rows: Matrix<T>,
    /// The columns of texts that the model reads, each with an entry for each row.
    pub texts: Vec<KeptColumn>,
    /// The kept columns, each with an entry for each row.
    pub kept: Vec<KeptColumn>,
}

impl<T> RowBatch<T> {
    /// Returns rows of numbers, without kept columns.
    pub fn of_numbers(rows: Matrix<T>) -> Self {
        Self { rows, texts: Vec::new(), kept: Vec::new() }
    }
}

impl<T: Copy> RowBatch<T> {
    /// Returns `count` rows from row `first` on.
    pub fn slice(&self, first: usize, count: usize) -> Self {
        let of = |columns: &[KeptColumn]| columns.iter().map(|column| column.slice(first, count)).collect();
        Self { rows: self.rows.slice(first, count), texts: of(&self.texts), kept: of(&self.kept) }
    }
}

/// The batches of a part.
pub type RowBatches<'r, T> = Box<dyn Iterator<Item = Result<RowBatch<T>>> + Send + 'r>;

/// Rows whose parts several threads read at the same time.
pub trait PartedRows: Sync {
    /// A part of the rows.
    type Part: Send;

    /// Returns the path, for messages.
    fn path(&self) -> &Path;

    /// Returns the columns that are kept.
    fn kept_fields(&self) -> Vec<KeptField> {
        Vec::new()
    }

    /// Returns the number of rows, if the beginning or the end of the file gives it.
    fn rows(&self) -> Option<u64> {
        None
    }

    /// Tells whether a part is so long that one thread can decode it while another one predicts.
    fn has_long_parts(&self) -> bool {
        false
    }

    /// Returns the next part, in the order of the rows, or `None` after the last one.
    fn next_part(&self) -> Option<Result<Self::Part>>;

    /// Returns the part's name in messages.
    fn name_of(&self, part: &Self::Part) -> String;

    /// Returns the batches of a part.
    ///
    /// # Errors
    /// The file can't be read. A batch may also be an error, because it is damaged or because a value does not fit.
    fn batches<T: Number>(&self, part: Self::Part) -> Result<RowBatches<'_, T>>;

    /// Returns some of the first rows if there are columns of texts, and otherwise `None`. They stay to be read.
    ///
    /// # Errors
    /// The file can't be read.
    fn first_rows<T: Number>(&self) -> Result<Option<RowBatch<T>>> {
        Ok(None)
    }

    /// Ends the reading: a thread that waits for a part stops waiting.
    fn stop(&self) {}

    /// Returns the number of rows that were left out, and the message about the first of them, or `None` if there were
    /// none.
    fn left_out(&self) -> Option<(u64, String)> {
        None
    }
}

/// Reads all rows into one matrix of `columns` columns, and gives the columns of texts of each batch to `take_texts`.
/// `no_room` returns the error for a number of values that does not fit into memory.
///
/// # Errors
/// A part can't be read, there is no memory for the rows, or `take_texts` fails.
pub fn read_all<T: Number, R: PartedRows>(
    rows: &R,
    columns: usize,
    no_room: impl Fn(usize) -> Error,
    mut take_texts: impl FnMut(&[KeptColumn]) -> Result<()>,
) -> Result<Matrix<T>> {
    let mut matrix = Matrix::of_rows(0, columns, Vec::new());
    while let Some(part) = rows.next_part() {
        for batch in rows.batches::<T>(part?)? {
            let RowBatch { rows: batch, texts, .. } = batch?;
            take_texts(&texts)?;
            let batch = batch.by_rows();
            let all = matrix.values.len() + batch.values.len();
            matrix.values.try_reserve(batch.values.len()).map_err(|_| no_room(all))?;
            matrix.values.extend(&batch.values);
            matrix.rows += batch.rows;
        }
    }
    Ok(matrix)
}

/// What happens to rows that can't be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnError {
    /// End with an error
    #[default]
    Stop,
    /// Leave them out, and print how many at the end
    Skip,
}

/// The lines of a text that were left out because they can't be read.
#[derive(Debug)]
pub struct SkippedRows {
    on_error: OnError,
    count: AtomicU64,
    /// The first of them: its line, and the message about it.
    first: Mutex<Option<(usize, String)>>,
}

impl SkippedRows {
    /// Begins with no lines left out.
    pub fn new(on_error: OnError) -> Self {
        Self { on_error, count: AtomicU64::new(0), first: Mutex::new(None) }
    }

    /// Begins with no lines left out, by the same rule.
    pub fn uncounted(&self) -> Self {
        Self::new(self.on_error)
    }

    /// Counts a line that is left out.
    ///
    /// # Errors
    /// No line may be left out: the error says `what`.
    pub fn refuse(&self, path: &Path, line: usize, what: String) -> Result<()> {
        if self.on_error == OnError::Stop {
            return Err(Error::file(path, what));
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut first) = self.first.lock()
            && first.as_ref().is_none_or(|(earlier, _)| line < *earlier)
        {
            *first = Some((line, what));
        }
        Ok(())
    }

    /// Returns the number of lines that were left out, and the message about the first of them, or `None` if there were
    /// none.
    pub fn said(&self) -> Option<(u64, String)> {
        let first = self.first.lock().ok()?.clone();
        first.map(|(_, what)| (self.count.load(Ordering::Relaxed), what))
    }
}
