//! Writes predictions with the kept columns, batch after batch.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    sync::Arc,
};

use arrow_array::{
    ArrayRef, Float32Array, Int32Array, RecordBatch, StringArray,
    cast::AsArray,
    types::{Float32Type, Int32Type},
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::{
    arrow::ArrowWriter, basic::Compression, errors::ParquetError, file::properties::WriterProperties,
    schema::types::ColumnPath,
};

use crate::{
    output::{self, Table, Values},
    table_format::TableFormat,
};

/// The predictions of a batch, and the kept columns.
#[derive(Clone, Debug)]
pub struct ScoredBatch {
    /// The kept columns, in the order in which they were asked for.
    pub kept: Vec<ArrayRef>,
    /// The predictions.
    pub table: Table,
}

/// The names of the columns of a prediction.
#[derive(Clone, Debug)]
pub enum ColumnNames {
    /// A number of columns of one kind. A single column has the name of the output. Several have the name with their
    /// number, as in `value_0`. A CSV has these names in its header only if it also has kept columns.
    Numbered(&'static str, usize),
    /// A name for each column, which every CSV has in its header.
    Named(Vec<String>),
}

/// The columns of a prediction, and the kept columns.
#[derive(Clone, Debug)]
pub struct ScoredSchema {
    kept: Vec<FieldRef>,
    predicted: Vec<String>,
    /// An empty list of predictions, which gives their type.
    none: Values,
    schema: SchemaRef,
    /// Whether a CSV has a header.
    has_header: bool,
}

impl ScoredSchema {
    /// Returns the columns of predictions like `example`.
    ///
    /// # Errors
    /// A kept column has the name of a prediction.
    pub fn new(kept: Vec<FieldRef>, names: ColumnNames, example: &Table) -> Result<Self, String> {
        // Each batch may have a dictionary of its own, which an Arrow file can't hold.
        let plain = |field: FieldRef| match field.data_type() {
            DataType::Dictionary(_, values) => {
                Arc::new(field.as_ref().clone().with_data_type((**values).clone()))
            }
            _ => field,
        };
        let kept: Vec<FieldRef> = kept.into_iter().map(plain).collect();
        let has_header = !kept.is_empty() || matches!(names, ColumnNames::Named(_));
        let predicted: Vec<String> = match names {
            ColumnNames::Numbered(name, 1) => vec![name.to_owned()],
            ColumnNames::Numbered(name, columns) => (0..columns).map(|at| format!("{name}_{at}")).collect(),
            ColumnNames::Named(names) => names,
        };
        if let Some(both) = kept.iter().find(|field| predicted.contains(field.name())) {
            return Err(format!(
                "--keep: the column `{}` has the name of a prediction; rename it in the table",
                both.name()
            ));
        }
        let (dtype, none) = match example.values {
            Values::Floats(_) => (DataType::Float32, Values::Floats(Vec::new())),
            Values::Ints(_) => (DataType::Int32, Values::Ints(Vec::new())),
            Values::Words(_) => (DataType::Utf8, Values::Words(Vec::new())),
        };
        let fields = predicted.iter().map(|name| Arc::new(Field::new(name, dtype.clone(), false)));
        let schema = Arc::new(Schema::new(kept.iter().cloned().chain(fields).collect::<Vec<_>>()));
        Ok(Self { kept, predicted, none, schema, has_header })
    }

    /// Returns the columns.
    pub(super) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Turns a batch that [`Self::batch`] returned back into predictions and kept columns.
    ///
    /// # Errors
    /// The batch has other columns.
    pub(super) fn scored(&self, batch: &RecordBatch) -> io::Result<ScoredBatch> {
        if batch.schema().fields() != self.schema.fields() {
            return Err(io::Error::other("it has other columns"));
        }
        let (kept, predicted) = batch.columns().split_at(self.kept.len());
        let (rows, columns) = (batch.num_rows(), predicted.len());
        /// Returns the entries of all columns, row after row.
        fn by_rows<T>(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> T) -> Vec<T> {
            (0..rows)
                .flat_map(|row| (0..columns).map(move |column| (row, column)))
                .map(|(r, c)| entry(r, c))
                .collect()
        }
        let values = match &self.none {
            Values::Floats(_) => {
                let all: Vec<_> = predicted.iter().map(|array| array.as_primitive::<Float32Type>()).collect();
                Values::Floats(by_rows(rows, columns, |row, column| all[column].value(row)))
            }
            Values::Ints(_) => {
                let all: Vec<_> = predicted.iter().map(|array| array.as_primitive::<Int32Type>()).collect();
                Values::Ints(by_rows(rows, columns, |row, column| all[column].value(row)))
            }
            Values::Words(_) => {
                let all: Vec<_> = predicted.iter().map(|array| array.as_string::<i32>()).collect();
                Values::Words(by_rows(rows, columns, |row, column| all[column].value(row).to_owned()))
            }
        };
        Ok(ScoredBatch { kept: kept.to_vec(), table: Table { rows, columns, values } })
    }

    /// Returns a batch of predictions as a batch of Arrow columns.
    pub(super) fn batch(&self, scored: ScoredBatch) -> io::Result<RecordBatch> {
        let ScoredBatch { kept, table } = scored;
        let plain = |(array, field): (&ArrayRef, &FieldRef)| arrow_cast::cast(array, field.data_type());
        let kept: Result<Vec<_>, _> = kept.iter().zip(&self.kept).map(plain).collect();
        let columns = (0..table.columns).map(|at| column_of(&table, at));
        let all = kept.map_err(io::Error::other)?.into_iter().chain(columns).collect();
        RecordBatch::try_new(self.schema.clone(), all).map_err(io::Error::other)
    }

    fn header(&self) -> String {
        let names = self.kept.iter().map(|field| field.name()).chain(&self.predicted);
        names.map(|name| output::quoted(name).into_owned()).collect::<Vec<_>>().join(",") + "\n"
    }
}

/// Returns one column of a prediction.
fn column_of(table: &Table, at: usize) -> ArrayRef {
    let (from, every) = (at.min(table.rows * table.columns), table.columns.max(1));
    match &table.values {
        Values::Floats(values) => {
            Arc::new(Float32Array::from_iter_values(values[from..].iter().step_by(every).copied()))
        }
        Values::Ints(values) => {
            Arc::new(Int32Array::from_iter_values(values[from..].iter().step_by(every).copied()))
        }
        Values::Words(values) => {
            Arc::new(StringArray::from_iter_values(values[from..].iter().step_by(every)))
        }
    }
}

/// The number of bytes of a row group of predictions, before compression.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// The maximum number of rows of a row group, which is the usual one of other writers.
const MOST_GROUP_ROWS: usize = 1 << 20;

/// The file that predictions go to.
pub struct TableWriter<'o> {
    schema: ScoredSchema,
    rows: usize,
    out: Writer<'o>,
}

enum Writer<'o> {
    Parquet(Box<ArrowWriter<&'o mut BufWriter<File>>>),
    Arrow(Box<FileWriter<&'o mut BufWriter<File>>>),
    Csv(&'o mut dyn Write),
    /// The number of rows that the header gives. If it turns out wrong, the header is written again.
    Npy(&'o mut BufWriter<File>, usize),
}

impl<'o> TableWriter<'o> {
    /// Begins a file with a schema.
    ///
    /// # Errors
    /// The system reports a failure, or the format has no such type.
    pub fn new(schema: ScoredSchema, format: TableFormat, out: &'o mut BufWriter<File>) -> io::Result<Self> {
        let writer = match format {
            TableFormat::Parquet => {
                // The writer keeps a row group in memory until it is complete.
                let rows = (ROW_GROUP_BYTES / (size_of::<f32>() * schema.schema.fields().len()).max(1))
                    .clamp(1, MOST_GROUP_ROWS);
                let mut properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_max_row_group_row_count(Some(rows));
                // Predictions rarely repeat, so a dictionary would not pay off.
                for name in &schema.predicted {
                    properties =
                        properties.set_column_dictionary_enabled(ColumnPath::from(name.as_str()), false);
                }
                let writer = ArrowWriter::try_new(out, schema.schema.clone(), Some(properties.build()));
                Writer::Parquet(Box::new(writer.map_err(of_parquet)?))
            }
            TableFormat::Arrow => {
                Writer::Arrow(Box::new(FileWriter::try_new(out, &schema.schema).map_err(of_arrow)?))
            }
        };
        Ok(Self { schema, rows: 0, out: writer })
    }

    /// Begins a CSV file. It has a header if the schema asks for one.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn csv(schema: ScoredSchema, out: &'o mut dyn Write) -> io::Result<Self> {
        if schema.has_header {
            out.write_all(schema.header().as_bytes())?;
        }
        Ok(Self { schema, rows: 0, out: Writer::Csv(out) })
    }

    /// Begins a numpy file of `rows` rows, as far as the number is known. It has no kept columns.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn npy(schema: ScoredSchema, rows: usize, out: &'o mut BufWriter<File>) -> io::Result<Self> {
        out.write_all(&output::npy_header(&schema.none, [rows, schema.predicted.len()])?)?;
        Ok(Self { schema, rows: 0, out: Writer::Npy(out, rows) })
    }

    /// Writes the next batch.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn write(&mut self, scored: ScoredBatch) -> io::Result<()> {
        self.rows += scored.table.rows;
        match &mut self.out {
            Writer::Parquet(writer) => writer.write(&self.schema.batch(scored)?).map_err(of_parquet),
            Writer::Arrow(writer) => writer.write(&self.schema.batch(scored)?).map_err(of_arrow),
            // Flushing gives the reader of a pipe each batch at once.
            Writer::Csv(out) => csv(&scored, *out).and_then(|()| out.flush()),
            Writer::Npy(out, _) => output::npy_values(&scored.table.values, *out),
        }
    }

    /// Writes what comes after the last batch.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn finish(self) -> io::Result<()> {
        match self.out {
            Writer::Parquet(writer) => writer.close().map(drop).map_err(of_parquet),
            Writer::Arrow(mut writer) => writer.finish().map_err(of_arrow),
            Writer::Csv(out) => out.flush(),
            Writer::Npy(_, rows) if rows == self.rows => Ok(()),
            Writer::Npy(out, _) => {
                let header = output::npy_header(&self.schema.none, [self.rows, self.schema.predicted.len()])?;
                out.seek(SeekFrom::Start(0))?;
                out.write_all(&header)?;
                out.seek(SeekFrom::End(0)).map(drop)
            }
        }
    }
}

/// Returns the system's error in an error of Parquet, because its kind decides the remedy.
fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => match cause.downcast::<ArrowError>() {
                Ok(cause) => of_arrow(*cause),
                Err(cause) => io::Error::other(cause),
            },
        },
        error => io::Error::other(error),
    }
}

/// Returns the system's error in an error of Arrow.
fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, cause) => cause,
        ArrowError::ExternalError(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}

fn csv(scored: &ScoredBatch, out: &mut dyn Write) -> io::Result<()> {
    let options = FormatOptions::default();
    let formatters = scored.kept.iter().map(|array| ArrayFormatter::try_new(array.as_ref(), &options));
    let formatters = formatters.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    for row in 0..scored.table.rows {
        for formatter in &formatters {
            let text = formatter.value(row).try_to_string().map_err(io::Error::other)?;
            out.write_all(output::quoted(&text).as_bytes())?;
            out.write_all(b",")?;
        }
        output::csv_row(&scored.table, row, out)?;
    }
    Ok(())
}
