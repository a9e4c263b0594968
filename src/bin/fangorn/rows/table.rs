//! Reads Parquet and Arrow files as rows of a model.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use fangorn::{
    Forest,
    table::{
        BatchReader, ColumnMatch, LeafColumn, Number, TableError, first_names, leaf_columns, nested_column,
    },
};

use super::{
    FileContents, Matrix, MatrixRequest, TableChoice, doubled_kept_column,
    mixed::{ColumnRequest, MixedIndices},
    no_kept_column,
    parts::{self, PartedRows, RowBatch, RowBatches},
};
use crate::{
    error::{Error, Result, note},
    table_format::TableFormat,
    tables::{KeptColumn, KeptField, TableFile, TablePart},
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
    /// The paths of the columns of texts that the model reads, within a batch.
    texts: Vec<Vec<usize>>,
    /// The kept columns. Their paths begin in a batch.
    kept: Vec<Kept>,
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
        let (path, schema) = (file.path(), file.schema().clone());
        let kept = kept_columns(path, &schema, keep)?;
        let reader =
            reader_of(forest, &schema, table, &roots(&kept)).map_err(|e| Error::file(path, e.to_string()))?;
        let left: Vec<&String> = reader.left_out().iter().filter(|name| !keep.contains(name)).collect();
        if !left.is_empty() {
            let what = format!(
                "columns that the model does not have are left out, {}: {}",
                left.len(),
                first_names(&left)
            );
            note(format!("{}: {what}", path.display()));
        }
        Ok(Self::of(file, reader, Vec::new(), kept))
    }

    /// Opens a file, and finds columns of texts and of numbers, and those to keep. `numbers` has the columns of numbers
    /// among the `requests`.
    ///
    /// # Errors
    /// The file can't be read, lacks columns, or has columns of other types.
    pub fn open_mixed(
        path: &Path,
        format: TableFormat,
        numbers: &'f Forest,
        requests: &[ColumnRequest<'_>],
        table: TableChoice,
        keep: &[String],
    ) -> Result<Self> {
        let file = TableFile::open(path, format)?;
        let (path, schema) = (file.path(), file.schema().clone());
        let leaves = leaf_columns(&schema);
        let names: Vec<&str> = leaves.iter().map(|leaf| leaf.name.as_str()).collect();
        let kept = kept_columns(path, &schema, keep)?;
        let is_kept = |leaf: &LeafColumn| kept.iter().any(|kept| leaf.path.starts_with(&kept.path));
        let of_kept: Vec<usize> = (0..leaves.len()).filter(|at| is_kept(&leaves[*at])).collect();
        let found = MixedIndices::find(path, &names, requests, table, &of_kept)?;
        let MixedIndices { numbers: at, texts } = found;
        if let Some(leaf) = texts.iter().map(|index| &leaves[*index]).find(|leaf| !is_text(&leaf.dtype)) {
            let what = format!(
                "column `{}` holds values of type {}, the graph takes texts; cast the column to text",
                leaf.name, leaf.dtype
            );
            return Err(Error::file(path, what));
        }
        let field = |index: &usize| Field::new(&leaves[*index].name, leaves[*index].dtype.clone(), true);
        let of_numbers = Schema::new(at.iter().map(field).collect::<Vec<_>>());
        let reader = BatchReader::new(numbers, &of_numbers, ColumnMatch::ByPosition);
        let reader = reader.map_err(|e| Error::file(path, e.to_string()))?;
        let reader = reader.located(|column| leaves[at[column]].path.clone());
        let texts = texts.iter().map(|index| leaves[*index].path.clone()).collect();
        Ok(Self::of(file, reader, texts, kept))
    }

    /// Returns the rows of a file, given the paths of the columns of texts, and the columns to keep.
    fn of(file: TableFile, reader: BatchReader<'f>, mut texts: Vec<Vec<usize>>, mut kept: Vec<Kept>) -> Self {
        let of_texts: Vec<usize> = texts.iter().map(|path| path[0]).collect();
        let mut columns = [reader.roots(), of_texts, roots(&kept)].concat();
        columns.sort_unstable();
        columns.dedup();
        let at = |root: usize| columns.partition_point(|column| *column < root);
        texts.iter_mut().for_each(|path| path[0] = at(path[0]));
        kept.iter_mut().for_each(|kept| kept.path[0] = at(kept.path[0]));
        let reader = reader.moved(at);
        Self { file, reader, texts, kept, columns }
    }

    /// Returns the model's columns of a batch, the texts and the kept columns.
    fn rows_of<T: Number>(&self, batch: &RecordBatch) -> Result<RowBatch<T>, TableError> {
        let columns = self.reader.columns(batch)?;
        let rows = Matrix::of_columns(batch.num_rows(), &columns.columns());
        let column = |path: &[usize], name: Option<&str>| {
            nested_column(batch, path).map(KeptColumn::Arrow).ok_or_else(|| TableError {
                column: name.map(str::to_owned),
                row: None,
                cause: "the batch has another schema than the table".into(),
                remedy: "write the file again".into(),
            })
        };
        let texts = self.texts.iter().map(|path| column(path, None)).collect::<Result<_, _>>()?;
        let kept = self.kept.iter().map(|kept| column(&kept.path, Some(kept.field.name())));
        let kept = kept.collect::<Result<_, _>>()?;
        Ok(RowBatch { rows, texts, kept })
    }

    /// Returns the error of a batch whose first row is row `first` of a part.
    fn wrong(&self, part: &str, first: usize, error: TableError) -> Error {
        let error = match error.row {
            Some(row) => error.in_row(first + row),
            None => error,
        };
        Error::file(self.file.path(), format!("{part}: {error}"))
    }
}

impl PartedRows for TableRows<'_> {
    type Part = TablePart;

    fn path(&self) -> &Path {
        self.file.path()
    }

    fn kept_fields(&self) -> Vec<KeptField> {
        self.kept.iter().map(|kept| kept.field.clone()).collect()
    }

    fn rows(&self) -> Option<u64> {
        self.file.rows()
    }

    fn has_long_parts(&self) -> bool {
        self.file.has_long_parts()
    }

    fn next_part(&self) -> Option<Result<TablePart>> {
        self.file.next_part()
    }

    fn name_of(&self, part: &TablePart) -> String {
        self.file.name_of(part)
    }

    fn batches<T: Number>(&self, part: TablePart) -> Result<RowBatches<'_, T>> {
        let name = self.file.name_of(&part);
        let mut first = part.first_row();
        let batches = self.file.batches(part, &self.columns)?;
        Ok(Box::new(batches.map(move |batch| {
            let batch = batch.map_err(|e| self.file.part_error(&name, &e))?;
            let rows = self.rows_of(&batch).map_err(|e| self.wrong(&name, first, e))?;
            first += batch.num_rows();
            Ok(rows)
        })))
    }

    fn stop(&self) {
        self.file.stop();
    }

    fn first_rows<T: Number>(&self) -> Result<Option<RowBatch<T>>> {
        if self.texts.is_empty() {
            return Ok(None);
        }
        let first = self.file.first_batch(&self.columns)?;
        first.map(|batch| self.rows_of(&batch).map_err(|e| self.wrong("the first rows", 0, e))).transpose()
    }
}

/// Returns the index of the table's column that has each kept column.
fn roots(kept: &[Kept]) -> Vec<usize> {
    kept.iter().map(|kept| kept.path[0]).collect()
}

/// A column to keep, which may be inside a struct.
#[derive(Clone, Debug)]
struct Kept {
    field: KeptField,
    /// The index of the column, followed by the index of each child in the struct before it.
    path: Vec<usize>,
}

/// Finds the columns to keep.
fn kept_columns(file: &Path, schema: &Schema, keep: &[String]) -> Result<Vec<Kept>> {
    let kept = |name: &String| {
        let mut found = Vec::new();
        find(schema.fields(), name, &mut Vec::new(), false, &mut found);
        match &found[..] {
            [(path, field)] => Ok(Kept { field: KeptField::of_arrow(name, field), path: path.clone() }),
            [] => {
                let names: Vec<&String> = schema.fields().iter().map(|field| field.name()).collect();
                Err(no_kept_column(file, name, &names))
            }
            _ => Err(doubled_kept_column(file, name)),
        }
    };
    keep.iter().map(kept).collect()
}

/// Adds the path of each field that `name` names. A field of a struct has the name `struct.field`. `nullable` says whether
/// a struct around the fields may be null, so that their values are.
fn find(
    fields: &Fields,
    name: &str,
    path: &mut Vec<usize>,
    nullable: bool,
    found: &mut Vec<(Vec<usize>, FieldRef)>,
) {
    for (at, field) in fields.iter().enumerate() {
        path.push(at);
        match (name.strip_prefix(field.name().as_str()), field.data_type()) {
            (Some(""), _) => {
                let nullable = nullable || field.is_nullable();
                found.push((path.clone(), field.as_ref().clone().with_nullable(nullable).into()));
            }
            (Some(rest), DataType::Struct(fields)) => {
                if let Some(rest) = rest.strip_prefix('.') {
                    find(fields, rest, path, nullable || field.is_nullable(), found);
                }
            }
            _ => {}
        }
        path.pop();
    }
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
