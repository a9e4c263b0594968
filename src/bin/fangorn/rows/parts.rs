//! Rows that are read part by part, so that they may be more than memory holds.

use std::path::Path;

use arrow_array::ArrayRef;
use arrow_schema::FieldRef;
use fangorn::table::Number;

use super::Matrix;
use crate::error::Result;

/// Rows of a part of a file, and the columns that are kept beside their predictions.
#[derive(Clone, Debug)]
pub struct RowBatch<T> {
    /// The rows.
    pub rows: Matrix<T>,
    /// The kept columns, each with an entry for each row.
    pub kept: Vec<ArrayRef>,
}

/// The batches of a part.
pub type RowBatches<'r, T> = Box<dyn Iterator<Item = Result<RowBatch<T>>> + Send + 'r>;

/// Rows whose parts several threads read side by side.
pub trait PartedRows: Sync {
    /// A part of the rows.
    type Part: Send;

    /// Returns the path, for messages.
    fn path(&self) -> &Path;

    /// Returns the columns that are kept.
    fn kept_fields(&self) -> Vec<FieldRef>;

    /// Returns the number of rows, where the file says so at its beginning or its end.
    fn rows(&self) -> Option<u64>;

    /// Returns whether a part is long enough for a thread that decodes while another one predicts.
    fn has_long_parts(&self) -> bool;

    /// Returns the next part, in the order of the rows; `None` after the last one.
    fn next_part(&self) -> Option<Result<Self::Part>>;

    /// Returns how messages name a part.
    fn name_of(&self, part: &Self::Part) -> String;

    /// Returns the batches of a part.
    ///
    /// # Errors
    /// The file can't be read. A batch may be an error because it is damaged, or because a value does not fit.
    fn batches<T: Number>(&self, part: Self::Part) -> Result<RowBatches<'_, T>>;

    /// Returns how many rows were left out, and the message about the first of them; `None` if there were none.
    fn left_out(&self) -> Option<(u64, String)> {
        None
    }
}

/// Reads all rows into one matrix of so many columns. `no_room` is the error for so many values.
///
/// # Errors
/// A part can't be read, or there is no memory for the rows.
pub fn read_all<T: Number, R: PartedRows>(
    rows: &R,
    columns: usize,
    no_room: impl Fn(usize) -> crate::error::Error,
) -> Result<Matrix<T>> {
    let mut matrix = Matrix { rows: 0, columns, values: Vec::new() };
    while let Some(part) = rows.next_part() {
        for batch in rows.batches::<T>(part?)? {
            let batch = batch?.rows;
            let all = matrix.values.len() + batch.values.len();
            matrix.values.try_reserve(batch.values.len()).map_err(|_| no_room(all))?;
            matrix.values.extend(batch.values);
            matrix.rows += batch.rows;
        }
    }
    Ok(matrix)
}
