//! Rows for a model: read from a dropped file, CSV or numpy's `.npy`, or made.

mod csv;
/// The command line's own choice of columns, so that a page and `fangorn predict` take the same columns of a CSV.
#[path = "../../../src/bin/fangorn/rows/header.rs"]
mod header;
mod npy;

use fangorn::{Forest, check::Probes, forest::Feature};

use crate::{
    error::{Error, Result},
    limits,
};

/// Rows for a model.
#[derive(Clone, Debug)]
pub struct RowSet {
    /// The name that the page shows.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// The values, row after row; NaN is a missing value.
    pub values: Vec<f64>,
    /// Notes for the user about how the file was read.
    pub notes: Vec<String>,
}

impl RowSet {
    /// Reads rows for a model. The ending of the file's name says in which format. With `by_position`, the columns of a
    /// CSV are taken in their order, whatever names its header gives them.
    ///
    /// # Errors
    /// The file is too large, is no matrix of numbers, or has other columns than the model.
    pub fn read(name: &str, bytes: &[u8], forest: &Forest, by_position: bool) -> Result<Self> {
        limits::check_size(name, bytes.len(), limits::ROWS_BYTES)?;
        let wanted = MatrixRequest {
            name,
            contents: FileContents::Rows(forest, TableChoice { by_position }),
            columns: forest.features.len(),
        };
        match name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
            Some("csv") => csv::read(&wanted, bytes),
            Some("npy") => npy::read(&wanted, bytes),
            _ => {
                let what = "the name ends in neither .csv nor .npy, so its format is unknown; rename it";
                wanted.fail(format!("{what}, or use the command `fangorn` for other tables"))
            }
        }
    }

    /// Returns the range of `count` rows from `first` on, or of as many as there are.
    pub fn range(&self, first: usize, count: usize) -> std::ops::Range<usize> {
        first..first.saturating_add(count).min(self.rows)
    }

    /// Makes rows for a model, with values at its thresholds and beside them.
    pub fn made(forest: &Forest, rows: usize) -> Self {
        let rows = rows.min(limits::VALUES / forest.features.len().max(1)).max(1);
        let made = Probes::<f64>::new(forest, rows, 1);
        Self { name: "made rows".into(), rows: made.rows, values: made.values, notes: Vec::new() }
    }
}

/// The contents of a file.
#[derive(Clone, Copy, Debug)]
enum FileContents<'a> {
    /// Rows for the forest.
    Rows(&'a Forest, TableChoice),
    /// Expected values, which the page never reads.
    #[allow(dead_code, reason = "the choice of columns is the command line's, which reads such files, too")]
    Expected,
}

/// How the columns of a table are matched to the model's.
#[derive(Clone, Copy, Debug)]
struct TableChoice {
    by_position: bool,
}

/// The matrix that a reader has to return.
#[derive(Clone, Copy, Debug)]
struct MatrixRequest<'a> {
    name: &'a str,
    contents: FileContents<'a>,
    columns: usize,
}

impl<'a> MatrixRequest<'a> {
    fn fail<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::file(self.name, what.into()))
    }

    fn check_columns(&self, start: &str, found: usize) -> Result<()> {
        match found == self.columns {
            true => Ok(()),
            false => self.fail(self.other_columns(start, found)),
        }
    }

    fn other_columns(&self, start: &str, found: usize) -> String {
        format!(
            "{start} {found} columns, the model was trained on {}; give all its columns in order",
            self.columns
        )
    }

    /// Returns the model's columns.
    fn features(&self) -> &'a [Feature] {
        match self.contents {
            FileContents::Rows(forest, _) => &forest.features,
            FileContents::Expected => &[],
        }
    }

    /// Refuses more values than a page takes.
    fn check_values(&self, values: usize) -> Result<()> {
        match values <= limits::VALUES {
            true => Ok(()),
            false => self.fail(format!(
                "it has more than {} values, which is what the page takes; give fewer rows, or use the command `fangorn`",
                limits::VALUES
            )),
        }
    }
}
