//! Reads matrices: `.npy` of any number type, CSV with or without a header, and with the feature `tables` Parquet and
//! Arrow.
//!
//! | file | subject |
//! |---|---|
//! | `parts` | rows that are read part by part |
//! | `npy` | numpy's files |
//! | `csv` | comma-separated text, record after record |
//! | `chunks` | cuts comma-separated text between records |
//! | `foreign` | recognises a file that is named `.csv` and has another format |
//! | `header` | tells whether the first record of a CSV is a header, and which of its fields are the model's columns |
//! | `libsvm` | libsvm's text of sparse rows |
//! | `table` | Parquet and Arrow |
//! | `mixed` | tables with columns of texts and columns of numbers |
//! | `labels`, `label_table` | class labels that are texts |

mod chunks;
mod csv;
mod foreign;
mod header;
#[cfg(feature = "tables")]
mod label_table;
mod labels;
mod libsvm;
mod mixed;
mod npy;
mod parts;
#[cfg(feature = "tables")]
mod table;

use std::{borrow::Cow, io::ErrorKind, path::Path};

use clap::Args;
use fangorn::{
    Forest,
    forest::Feature,
    table::{ColumnNames, Number, first_names},
};

#[cfg(feature = "tables")]
use crate::table_format::TableFormat;
use crate::{
    error::{Error, Result},
    standard_input::is_standard_input,
    table_format,
};

pub use csv::CsvRows;
pub use labels::read_labels;
pub use libsvm::LibsvmRows;
pub use mixed::{ColumnRequest, MixedRows, read_mixed, texts_of};
pub use npy::NpyRows;
pub use npy::holds_singles;
pub use parts::{OnError, PartedRows, RowBatch};
#[cfg(feature = "tables")]
pub use table::TableRows;

/// The order of a matrix's values in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row after row.
    Rows,
    /// Column after column.
    #[cfg_attr(not(feature = "tables"), allow(dead_code, reason = "only parts of tables are stored so"))]
    Columns,
}

/// A matrix. Only parts of tables are stored column after column.
#[derive(Clone, Debug)]
pub struct Matrix<T> {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// `rows x columns` values.
    pub values: Vec<T>,
    /// Their order.
    pub order: Order,
}

impl<T> Matrix<T> {
    /// Returns a matrix of values that are stored row after row.
    pub fn of_rows(rows: usize, columns: usize, values: Vec<T>) -> Self {
        Self { rows, columns, values, order: Order::Rows }
    }

    /// Returns the distances between rows and between columns, in values.
    pub fn strides(&self) -> [usize; 2] {
        match self.order {
            Order::Rows => [self.columns, 1],
            Order::Columns => [1, self.rows],
        }
    }

    /// Returns row `r` of a matrix that is stored row after row.
    pub fn row(&self, r: usize) -> &[T] {
        debug_assert_eq!(self.order, Order::Rows);
        &self.values[r * self.columns..][..self.columns]
    }
}

#[cfg(feature = "tables")]
impl<T: Number> Matrix<T> {
    /// Returns columns of `rows` rows as a matrix that is stored column after column.
    pub fn of_columns(rows: usize, columns: &[fangorn::table::Column<'_>]) -> Self {
        let mut values = vec![T::cast(0.0); rows * columns.len()];
        for (column, into) in columns.iter().zip(values.chunks_exact_mut(rows.max(1))) {
            column.read(0, into);
        }
        Self { rows, columns: columns.len(), values, order: Order::Columns }
    }
}

impl<T: Copy> Matrix<T> {
    /// Returns `count` rows from `first` on, stored row after row.
    pub fn slice(&self, first: usize, count: usize) -> Self {
        let [row, column] = self.strides();
        let of_row = |r: usize| (0..self.columns).map(move |c| self.values[r * row + c * column]);
        let values = match self.order {
            Order::Rows => self.values[first * row..][..count * row].to_vec(),
            Order::Columns => (first..first + count).flat_map(of_row).collect(),
        };
        Self::of_rows(count, self.columns, values)
    }

    /// Returns the matrix, stored row after row.
    pub fn by_rows(&self) -> Cow<'_, Self> {
        match self.order {
            Order::Rows => Cow::Borrowed(self),
            Order::Columns => Cow::Owned(self.slice(0, self.rows)),
        }
    }
}

/// A number type in which backends take rows.
pub trait Element: Number + fangorn::cpu::Row {
    /// Returns the rows as `f32`.
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "burn's backends alone need it"))]
    fn narrowed(rows: &Matrix<Self>) -> Cow<'_, Matrix<f32>>;
}

impl Element for f32 {
    fn narrowed(rows: &Matrix<Self>) -> Cow<'_, Matrix<f32>> {
        rows.by_rows()
    }
}

impl Element for f64 {
    fn narrowed(rows: &Matrix<Self>) -> Cow<'_, Matrix<f32>> {
        let values = rows.by_rows().values.iter().map(|v| *v as f32).collect();
        Cow::Owned(Matrix::of_rows(rows.rows, rows.columns, values))
    }
}

/// How the columns of a table are matched to the model's.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct TableChoice {
    /// Take a table's columns in their order, and ignore their names
    #[arg(long)]
    by_position: bool,
    /// The index of the first column in a libsvm file: 0, as XGBoost reads it, or 1
    #[arg(long, value_name = "0|1", default_value = "0", value_parser = parse_index)]
    index_from: usize,
}

fn parse_index(text: &str) -> Result<usize, String> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        _ => Err("give 0 or 1".into()),
    }
}

impl TableChoice {
    /// Returns the flags as arguments for another command.
    pub fn arguments(self) -> Vec<std::ffi::OsString> {
        let mut arguments = vec!["--index-from".into(), self.index_from.to_string().into()];
        arguments.extend(self.by_position.then(|| "--by-position".into()));
        arguments
    }
}

/// The contents of a file.
#[derive(Clone, Copy, Debug)]
enum FileContents<'a> {
    /// Rows for the forest.
    Rows(&'a Forest, TableChoice),
    /// Expected values or margins, one record for each row of a prediction.
    Expected,
}

/// The matrix that a reader has to return.
#[derive(Clone, Copy, Debug)]
struct MatrixRequest<'a> {
    path: &'a Path,
    contents: FileContents<'a>,
    columns: usize,
    /// Says where the number of columns comes from, and what to do if a file has another number.
    rule: [&'a str; 2],
}

impl<'a> MatrixRequest<'a> {
    fn fail<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::file(self.path, what))
    }

    fn check_columns(&self, start: &str, found: usize) -> Result<()> {
        match found == self.columns {
            true => Ok(()),
            false => self.fail(self.column_mismatch(start, found)),
        }
    }

    fn column_mismatch(&self, start: &str, found: usize) -> String {
        let [source, remedy] = self.rule;
        format!("{start} {found} column{}, {source} {}; {remedy}", plural(found), self.columns)
    }

    /// Tells whether columns are taken in their order.
    fn is_by_position(&self) -> bool {
        matches!(self.contents, FileContents::Rows(_, table) if table.by_position)
    }

    /// Returns the model's columns, or none if the file does not contain rows.
    fn features(&self) -> &'a [Feature] {
        match self.contents {
            FileContents::Rows(forest, _) => &forest.features,
            FileContents::Expected => &[],
        }
    }

    /// Returns the error for a matrix of `values` values that does not fit into memory.
    fn no_room<T>(&self, values: usize) -> Error {
        let bytes = values.saturating_mul(size_of::<T>());
        let remedy = "give fewer rows at a time";
        Error::file(
            self.path,
            format!("{values} values need {bytes} bytes, more than there is memory for; {remedy}"),
        )
    }
}

/// Tells by a file's name whether its columns have names.
pub fn has_named_columns(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    extension != "npy" && !is_libsvm(&extension)
}

/// Tells whether a file name's extension is one of libsvm's.
fn is_libsvm(extension: &str) -> bool {
    matches!(extension, "libsvm" | "svm" | "svmlight")
}

/// Returns the request for a model's rows.
fn request<'a>(path: &'a Path, forest: &'a Forest, table: TableChoice) -> MatrixRequest<'a> {
    MatrixRequest {
        path,
        contents: FileContents::Rows(forest, table),
        columns: forest.features.len(),
        rule: ["the model was trained on", "give all its columns in order"],
    }
}

/// Checks that at most one of two options names standard input, which can be read only once.
///
/// # Errors
/// Both paths are `-`.
pub fn check_standard_input(options: [&str; 2], paths: [Option<&Path>; 2]) -> Result<()> {
    let [one, other] = options;
    match paths.iter().all(|path| path.is_some_and(is_standard_input)) {
        true => {
            Err(Error::Request(format!("{one} and {other} are both standard input; name a file for one")))
        }
        false => Ok(()),
    }
}

/// Reads rows for a model. The path `-` stands for standard input: CSV, or a stream of Arrow.
///
/// # Errors
/// The file can't be read, is no matrix of numbers, or has other columns than the model.
pub fn read_rows<T: Number>(path: &Path, forest: &Forest, table: TableChoice) -> Result<Matrix<T>> {
    read(&request(path, forest, table))
}

/// Rows for a model that are read part by part.
#[derive(Debug)]
pub enum RowsInParts<'f> {
    /// A file with a schema.
    #[cfg(feature = "tables")]
    Table(TableRows<'f>),
    /// Comma-separated text.
    Csv(CsvRows<'f>),
    /// Numpy's file.
    Npy(NpyRows<'f>),
    /// Sparse rows.
    Libsvm(LibsvmRows<'f>),
}

impl<'f> RowsInParts<'f> {
    /// Opens rows, with columns to keep beside the predictions. Returns `None` if they have to be read whole.
    ///
    /// # Errors
    /// The file can't be read, or has other columns than the model and those to keep.
    pub fn open(
        path: &'f Path,
        forest: &'f Forest,
        table: TableChoice,
        keep: &[String],
        on_error: OnError,
    ) -> Result<Option<Self>> {
        table_format::require(path)?;
        #[cfg(feature = "tables")]
        if let Some(format) = TableFormat::of_rows(path) {
            return TableRows::open(path, format, forest, table, keep).map(|rows| Some(Self::Table(rows)));
        }
        let wanted = request(path, forest, table);
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        if is_standard_input(path) || extension == "csv" {
            return Ok(CsvRows::open(wanted, keep, on_error)?.map(Self::Csv));
        }
        if is_libsvm(&extension) {
            return LibsvmRows::open(wanted, on_error).map(|rows| Some(Self::Libsvm(rows)));
        }
        // Rows with texts, or a file with another extension, are refused by `read`, which reads a file whole.
        let numbers = !wanted.features().iter().any(|feature| feature.coding.is_needed());
        match extension == "npy" && numbers {
            true => Ok(NpyRows::open(wanted)?.map(Self::Npy)),
            false => Ok(None),
        }
    }

    /// Tells whether every value is exact as `f32`.
    pub fn holds_singles(&self, path: &Path) -> bool {
        match self {
            #[cfg(feature = "tables")]
            Self::Table(rows) => rows.reader.holds_singles(),
            Self::Csv(_) | Self::Libsvm(_) => false,
            Self::Npy(_) => holds_singles(path),
        }
    }
}

/// Returns a forest of no trees, whose columns have no names.
///
/// # Errors
/// There are more columns than there is memory for.
pub fn nameless(columns: usize) -> Result<Forest> {
    Forest::builder(columns, 1).build().map_err(|e| Error::Defect(e.to_string()))
}

/// Reads the expected predictions, `rows x columns`.
///
/// # Errors
/// The file can't be read, is no matrix of numbers, or has another shape.
pub fn read_expected(path: &Path, rows: usize, columns: usize) -> Result<Matrix<f64>> {
    let rule = ["the output has", "give the values that --output names"];
    let wanted = MatrixRequest { path, contents: FileContents::Expected, columns, rule };
    read_for_each_row(&wanted, rows, "were")
}

/// Reads the margins at which the rows' sums start, `rows x outputs`.
///
/// # Errors
/// The file can't be read, is no matrix of numbers, or has another shape.
pub fn read_margins(path: &Path, rows: usize, outputs: usize) -> Result<Matrix<f64>> {
    let rule = ["the model's margins have", "give a number for each output"];
    let wanted = MatrixRequest { path, contents: FileContents::Expected, columns: outputs, rule };
    read_for_each_row(&wanted, rows, "are")
}

/// Reads a matrix that must have `rows` rows. `verb` says whether these rows are predicted already.
fn read_for_each_row(wanted: &MatrixRequest<'_>, rows: usize, verb: &str) -> Result<Matrix<f64>> {
    let found = match is_csv(wanted.path) {
        true => csv::read_for_each_row(*wanted, rows)?,
        false => read(wanted)?,
    };
    match found.rows == rows {
        true => Ok(found),
        false => wanted.fail(row_mismatch(found.rows, rows, verb)),
    }
}

/// Returns the message about a file of `found` rows for a prediction of `rows` rows.
fn row_mismatch(found: usize, rows: usize, verb: &str) -> String {
    let verb = if rows == 1 { verb.replace("were", "was").replace("are", "is") } else { verb.to_owned() };
    format!("the file has {found} row{}, {rows} {verb} predicted; give one for each", plural(found))
}

/// Returns the error of a table that lacks a column to keep.
fn no_kept_column(path: &Path, name: &str, names: &[impl AsRef<str>]) -> Error {
    let columns = first_names(names);
    Error::file(path, format!("--keep: the table has no column `{name}`; its columns are {columns}"))
}

/// Returns the error of a table that has a column to keep more than once.
fn doubled_kept_column(path: &Path, name: &str) -> Error {
    let what =
        format!("--keep: the table has the column `{name}` more than once; rename one of them in the table");
    Error::file(path, what)
}

/// Returns the ending of a noun after a number.
fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Tells whether a path stands for comma-separated text.
fn is_csv(path: &Path) -> bool {
    is_standard_input(path) || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"))
}

/// Returns whether the model's columns have names that a header has to hold.
pub fn has_names(forest: &Forest) -> bool {
    ColumnNames::of(forest).are_chosen()
}

fn read<T: Number>(wanted: &MatrixRequest<'_>) -> Result<Matrix<T>> {
    let path = wanted.path;
    let refused = |path: &Path, e: std::io::Error, remedy: &str| match e.kind() {
        ErrorKind::OutOfMemory => {
            Error::file(path, "the file does not fit into memory; give fewer rows at a time")
        }
        _ => Error::file(path, format!("{e}; {remedy}")),
    };
    table_format::require(path)?;
    #[cfg(feature = "tables")]
    if let Some(format) = TableFormat::of_rows(path) {
        return table::read(wanted, format);
    }
    if is_standard_input(path) {
        return csv::read(*wanted);
    }
    let bytes = || {
        let remedy = "give a readable .npy or .csv file, or - for standard input";
        std::fs::read(path).map_err(|e| refused(path, e, remedy))
    };
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    let texts = wanted.features().iter().position(|feature| feature.coding.is_needed());
    match extension.as_str() {
        "npy" => match texts {
            None => npy::read(wanted, &bytes()?),
            Some(column) => {
                let remedy = "give the rows as CSV, with categories as the table had them";
                wanted.fail(format!("the model's column {column} has categories that are no codes; {remedy}"))
            }
        },
        "csv" => csv::read(*wanted),
        other if is_libsvm(other) => libsvm::read(*wanted),
        _ => wanted.fail(
            "the name ends in none of .npy, .csv, .parquet, .arrow and .libsvm, so its format is unknown; rename it",
        ),
    }
}
