//! Predictions and kept columns in files of Parquet and Arrow.

use std::{
    fs::File,
    io::{self, BufWriter},
    sync::Arc,
};

use arrow_array::{ArrayRef, Float32Array, Int32Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use parquet::{
    arrow::ArrowWriter, basic::Compression, errors::ParquetError, file::properties::WriterProperties,
    schema::types::ColumnPath,
};

use super::{
    kept::KeptField,
    write::{ScoredBatch, ScoredSchema},
};
use crate::{
    output::{Table, Values},
    table_format::TableFormat,
};

/// The number of bytes of a row group of predictions, before compression.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// The maximum number of rows of a row group, which is the usual one of other writers.
const MOST_GROUP_ROWS: usize = 1 << 20;

/// A file of Parquet or Arrow that predictions go to.
pub struct ArrowTable<'o> {
    schema: SchemaRef,
    out: Writer<'o>,
}

enum Writer<'o> {
    Parquet(Box<ArrowWriter<&'o mut BufWriter<File>>>),
    Arrow(Box<FileWriter<&'o mut BufWriter<File>>>),
}

impl<'o> ArrowTable<'o> {
    /// Begins a file.
    ///
    /// # Errors
    /// The system reports a failure, or the format has no such type.
    pub fn new(scored: &ScoredSchema, format: TableFormat, out: &'o mut BufWriter<File>) -> io::Result<Self> {
        let schema = schema_of(scored);
        let out = match format {
            TableFormat::Parquet => {
                // The writer keeps a row group in memory until it is complete.
                let rows = (ROW_GROUP_BYTES / (size_of::<f32>() * schema.fields().len()).max(1))
                    .clamp(1, MOST_GROUP_ROWS);
                let mut properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_max_row_group_row_count(Some(rows));
                // Predictions rarely repeat, so a dictionary would not pay off.
                for name in scored.predicted() {
                    properties =
                        properties.set_column_dictionary_enabled(ColumnPath::from(name.as_str()), false);
                }
                let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties.build()));
                Writer::Parquet(Box::new(writer.map_err(of_parquet)?))
            }
            TableFormat::Arrow => {
                Writer::Arrow(Box::new(FileWriter::try_new(out, &schema).map_err(of_arrow)?))
            }
        };
        Ok(Self { schema, out })
    }

    /// Writes the next batch.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn write(&mut self, scored: &ScoredBatch) -> io::Result<()> {
        let fields = self.schema.fields();
        let kept = scored.kept.iter().zip(fields).map(|(column, field)| column.to_arrow(field));
        let predicted = (0..scored.table.columns).map(|at| Ok(column_of(&scored.table, at)));
        let columns = kept.chain(predicted).collect::<io::Result<_>>()?;
        let batch = RecordBatch::try_new(self.schema.clone(), columns).map_err(io::Error::other)?;
        match &mut self.out {
            Writer::Parquet(writer) => writer.write(&batch).map_err(of_parquet),
            Writer::Arrow(writer) => writer.write(&batch).map_err(of_arrow),
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
        }
    }
}

fn schema_of(scored: &ScoredSchema) -> SchemaRef {
    let dtype = match scored.none() {
        Values::Floats(_) => DataType::Float32,
        Values::Ints(_) => DataType::Int32,
        Values::Words(_) => DataType::Utf8,
    };
    let predicted = scored.predicted().iter().map(|name| Arc::new(Field::new(name, dtype.clone(), false)));
    Arc::new(Schema::new(scored.kept().iter().map(KeptField::arrow).chain(predicted).collect::<Vec<_>>()))
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
