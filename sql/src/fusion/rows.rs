//! Rows of record batches as row blocks.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{Float64Type, Int64Type},
};
use datafusion::common::{Result, exec_err};
use fangorn_fusion::Matrix;

/// The size of a block that is handed on, in bytes: what a core's cache holds beside intermediates. A batch has about 8192
/// rows; setting an operator up takes as long as computing a few hundred.
const BLOCK_BYTES: usize = 1 << 20;

/// Collects rows into dense blocks.
#[derive(Debug)]
pub(super) struct Rows {
    /// The names of the columns, for errors.
    columns: Vec<String>,
    /// Whether the first array has the numbers of the rows.
    numbered: bool,
    /// The number of the first row.
    first: Option<usize>,
    /// Row-major elements.
    values: Vec<f64>,
}

impl Rows {
    /// Returns an empty block of these columns. If `numbered` is set, batches have the numbers of their rows before them.
    pub fn new(columns: Vec<String>, numbered: bool) -> Self {
        Self { columns, numbered, first: None, values: Vec::new() }
    }

    /// Returns the memory of the rows, in bytes.
    pub fn bytes(&self) -> usize {
        8 * self.values.capacity()
    }

    /// Adds a batch: the numbers of the rows as `Int64`, if they have numbers, and the columns as `Float64`. Full blocks,
    /// and those after which numbers do not go on, go to `take` with the number of their first row.
    ///
    /// # Errors
    /// An element is null, a number is negative, or `take` returns an error.
    pub fn add(
        &mut self,
        arrays: &[ArrayRef],
        mut take: impl FnMut(Option<usize>, Matrix) -> Result<()>,
    ) -> Result<()> {
        let (numbers, columns) = arrays.split_at(usize::from(self.numbered));
        if columns.len() != self.columns.len() {
            return exec_err!("{} columns instead of {}", columns.len(), self.columns.len());
        }
        for (array, name) in columns.iter().zip(&self.columns) {
            if array.null_count() > 0 {
                return exec_err!(
                    "column {name} has a null, which is no element of a matrix; fill it with coalesce, or leave such rows out"
                );
            }
        }
        let Some(first) = columns.first() else { return Ok(()) };
        let columns: Vec<&[f64]> =
            columns.iter().map(|array| &array.as_primitive::<Float64Type>().values()[..]).collect();
        let numbers = match numbers {
            [] => None,
            [numbers, ..] if numbers.null_count() > 0 => return exec_err!("a row's number is null"),
            [numbers, ..] => Some(&numbers.as_primitive::<Int64Type>().values()[..]),
        };
        let (width, rows) = (columns.len(), first.len());
        let most = (BLOCK_BYTES / (8 * width)).max(1);
        let mut at = 0;
        while at < rows {
            let held = self.values.len() / width;
            let next = match numbers {
                Some(numbers) => match usize::try_from(numbers[at]) {
                    Ok(number) => Some(number),
                    Err(_) => {
                        return exec_err!(
                            "row number {} is negative; rows have numbers from 0 on",
                            numbers[at]
                        );
                    }
                },
                None => None,
            };
            if held > 0 && next != self.first.map(|first| first + held) || held >= most {
                self.finish(&mut take)?;
                continue;
            }
            if held == 0 {
                self.first = next;
            }
            // As many rows as fit, whose numbers follow one another.
            let mut count = (rows - at).min(most - held);
            if let Some(numbers) = numbers {
                let follows = |pair: &[i64]| pair[0].checked_add(1) == Some(pair[1]);
                count = 1 + numbers[at..at + count].windows(2).take_while(|pair| follows(pair)).count();
            }
            self.values.resize((held + count) * width, 0.0);
            let into = &mut self.values[held * width..];
            for (column, values) in columns.iter().enumerate() {
                let values = &values[at..at + count];
                into[column..].iter_mut().step_by(width).zip(values).for_each(|(into, value)| *into = *value);
            }
            at += count;
        }
        Ok(())
    }

    /// Hands the rows of the last block on.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn finish(&mut self, mut take: impl FnMut(Option<usize>, Matrix) -> Result<()>) -> Result<()> {
        if self.values.is_empty() {
            return Ok(());
        }
        let values = std::mem::take(&mut self.values);
        let shape = (values.len() / self.columns.len(), self.columns.len());
        match Matrix::dense(shape, values) {
            Some(block) => take(self.first.take(), block),
            None => exec_err!("rows of {} columns have other elements", shape.1),
        }
    }
}
