//! Reads Parquet and Arrow files as rows of a model.

use std::{
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use arrow_schema::{DataType, FieldRef, Schema};
use fangorn::{
    Forest,
    table::{BatchReader, ColumnMatch, Number, TableError, first_names},
};

use super::{
    FileContents, Matrix, MatrixRequest, TableChoice,
    mixed::{ColumnRequest, MixedIndices},
    no_kept_column,
    parts::{self, PartedRows, RowBatch, RowBatches},
};
use crate::{
    error::{Error, Result, note},
    table_format::TableFormat,
    tables::{KeptColumn, KeptField, TableFile},
};

/// A table file with the model's columns, and columns that are kept beside the predictions.
#[derive(Debug)]
pub struct TableRows<'f> {
    /// The file.
    pub file: TableFile,
    /// Reads the model's columns from a batch.
    pub reader: BatchReader<'f>,
    /// The indices of the file's columns that a batch holds, in ascending order.
    pub columns: Vec<usize>,
    /// The indices within a batch of the columns of texts that the model reads.
    texts: Vec<usize>,
    /// The indices of the kept columns within a batch.
    kept: Vec<usize>,
    next: AtomicUsize,
}

impl<'f> TableRows<'f> {
    /// Opens a file, and finds the model's columns and those to keep.
    ///
    /// # Errors
    /// The file can't be read, or lacks columns.
    pub fn open(
        path: &Path,
        format: TableFormat,
        forest: &'f Forest,
        table: TableChoice,
        keep: &[String],
    ) -> Result<Self> {
        let file = TableFile::open(path, format)?;
        let schema = file.schema().clone();
        let kept = kept_indices(path, &schema, keep)?;
        let reader =
            reader_of(forest, &schema, table, &kept).map_err(|e| Error::file(path, e.to_string()))?;
        let left: Vec<&String> = reader.left_out().iter().filter(|name| !keep.contains(name)).collect();
        if !left.is_empty() {
            let what = format!(
                "columns that the model does not have are left out, {}: {}",
                left.len(),
                first_names(&left)
            );
            note(format!("{}: {what}", path.display()));
        }
        Ok(Self::of(file, reader, &[], &kept))
    }

    /// Opens a file, and finds columns of texts and of numbers, and those to keep. `numbers` has the columns of numbers
    /// among the `requests`.
    ///
    /// # Errors
    /// The file can't be read, lacks columns, or has columns of other types.
    pub fn open_mixed(
        (path, format): (&Path, TableFormat),
        numbers: &'f Forest,
        requests: &[ColumnRequest<'_>],
        table: TableChoice,
        keep: &[String],
    ) -> Result<Self> {
        let file = TableFile::open(path, format)?;
        let schema = file.schema().clone();
        let fields = schema.fields();
        let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
        let kept = kept_indices(path, &schema, keep)?;
        let MixedIndices { numbers: at, texts } = MixedIndices::find(path, &names, requests, table, &kept)?;
        if let Some(field) = texts.iter().map(|index| &fields[*index]).find(|f| !is_text(f.data_type())) {
            let what = format!(
                "column `{}` holds values of type {}, the graph takes texts; cast the column to text",
                field.name(),
                field.data_type()
            );
            return Err(Error::file(path, what));
        }
        let of_numbers = Schema::new(at.iter().map(|index| fields[*index].clone()).collect::<Vec<_>>());
        let reader = BatchReader::new(numbers, &of_numbers, ColumnMatch::ByPosition);
        let reader = reader.map_err(|e| Error::file(path, e.to_string()))?.moved(|column| at[column]);
        Ok(Self::of(file, reader, &texts, &kept))
    }

    /// Returns the rows of a file, given the indices of the columns of texts and of those to keep.
    fn of(file: TableFile, reader: BatchReader<'f>, texts: &[usize], kept: &[usize]) -> Self {
        let mut columns = [&reader.roots()[..], texts, kept].concat();
        columns.sort_unstable();
        columns.dedup();
        let at = |root: usize| columns.partition_point(|column| *column < root);
        let [texts, kept] = [texts, kept].map(|of| of.iter().map(|root| at(*root)).collect());
        let reader = reader.moved(at);
        Self { file, reader, texts, kept, columns, next: AtomicUsize::new(0) }
    }

    /// Returns the error of a batch whose first row is row `first` of a part.
    fn wrong(&self, part: usize, first: usize, error: TableError) -> Error {
        let error = match error.row {
            Some(row) => error.in_row(first + row),
            None => error,
        };
        Error::file(self.file.path(), format!("{}: {error}", self.file.name_of(part)))
    }
}

impl PartedRows for TableRows<'_> {
    type Part = usize;

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn kept_fields(&self) -> Vec<KeptField> {
        let fields = self.file.schema().fields();
        self.kept.iter().map(|at| KeptField::of_arrow(&fields[self.columns[*at]])).collect()
    }

    fn rows(&self) -> Option<u64> {
        self.file.rows()
    }

    fn has_long_parts(&self) -> bool {
        true
    }

    fn next_part(&self) -> Option<Result<usize>> {
        let part = self.next.fetch_add(1, Ordering::Relaxed);
        (part < self.file.parts()).then_some(Ok(part))
    }

    fn name_of(&self, part: &usize) -> String {
        self.file.name_of(*part)
    }

    fn batches<T: Number>(&self, part: usize) -> Result<RowBatches<'_, T>> {
        let mut first = 0;
        let batches = self.file.batches(part, &self.columns)?;
        Ok(Box::new(batches.map(move |batch| {
            let batch = batch.map_err(|e| self.file.damaged(part, &e))?;
            let columns = self.reader.columns(&batch).map_err(|e| self.wrong(part, first, e))?;
            first += batch.num_rows();
            let rows = Matrix::of_columns(batch.num_rows(), &columns.columns());
            let [texts, kept] = [&self.texts, &self.kept]
                .map(|of| of.iter().map(|at| KeptColumn::Arrow(batch.column(*at).clone())).collect());
            Ok(RowBatch { rows, texts, kept })
        })))
    }

    fn first_rows<T: Number>(&self) -> Result<Option<RowBatch<T>>> {
        let parts = if self.texts.is_empty() { 0 } else { self.file.parts() };
        for part in 0..parts {
            for batch in self.batches(part)? {
                let batch = batch?;
                if batch.rows.rows > 0 {
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }
}

/// Returns the indices of the columns to keep.
fn kept_indices(path: &Path, schema: &Schema, keep: &[String]) -> Result<Vec<usize>> {
    let index = |name: &String| {
        schema.index_of(name).map_err(|_| {
            let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
            no_kept_column(path, name, &names)
        })
    };
    keep.iter().map(index).collect()
}

fn is_text(dtype: &DataType) -> bool {
    match dtype {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Finds the model's columns. The kept columns are skipped if columns are matched by position, or if the model has no
/// names of columns.
fn reader_of<'f>(
    forest: &'f Forest,
    schema: &Schema,
    table: TableChoice,
    kept: &[usize],
) -> Result<BatchReader<'f>, TableError> {
    let by = if table.by_position { ColumnMatch::ByPosition } else { ColumnMatch::ByName };
    let others: Vec<usize> = (0..schema.fields().len()).filter(|at| !kept.contains(at)).collect();
    let without_kept = || {
        let fields: Vec<FieldRef> = others.iter().map(|at| schema.fields()[*at].clone()).collect();
        BatchReader::new(forest, &Schema::new(fields), by).map(|reader| reader.moved(|at| others[at]))
    };
    match (by, kept.is_empty()) {
        (_, true) => BatchReader::new(forest, schema, by),
        (ColumnMatch::ByPosition, false) => without_kept(),
        (ColumnMatch::ByName, false) => {
            BatchReader::new(forest, schema, by).or_else(|error| without_kept().map_err(|_| error))
        }
    }
}

/// Reads all rows of a file.
///
/// # Errors
/// The file can't be read, has other columns than are requested, or there is no memory for the rows.
pub fn read<T: Number>(wanted: &MatrixRequest<'_>, format: TableFormat) -> Result<Matrix<T>> {
    let nameless;
    let (forest, table) = match wanted.contents {
        FileContents::Rows(forest, table) => (forest, table),
        FileContents::Expected => {
            nameless = super::nameless(wanted.columns)?;
            (&nameless, TableChoice::default())
        }
    };
    let rows = TableRows::open(wanted.path, format, forest, table, &[])?;
    parts::read_all(&rows, wanted.columns, |values| wanted.no_room::<T>(values), |_| Ok(()))
}
