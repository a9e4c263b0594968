//! Reads the batches of Parquet and Arrow files.

use std::{
    fs::File,
    io::{BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
};

use super::BATCH_ROWS;
use crate::{
    error::{Error, Result},
    table_format::TableFormat,
};

/// A table file, whose parts can be read at the same time.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    schema: SchemaRef,
    contents: Contents,
}

#[derive(Debug)]
enum Contents {
    /// A part for each row group.
    Parquet(ArrowReaderMetadata),
    /// One part. A stream has no footer.
    Arrow { stream: bool },
}

impl TableFile {
    /// Opens a file and reads its schema.
    ///
    /// # Errors
    /// The file can't be read, or is damaged.
    pub fn open(path: &Path, format: TableFormat) -> Result<Self> {
        let wrong = |what: String| Error::file(path, format!("{what}; write the file again"));
        let mut file = open(path)?;
        let (schema, contents) = match format {
            TableFormat::Parquet => {
                let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::new());
                let metadata = metadata.map_err(|e| wrong(e.to_string()))?;
                (metadata.schema().clone(), Contents::Parquet(metadata))
            }
            TableFormat::Arrow => {
                let mut begin = [0; 6];
                let stream = file.read_exact(&mut begin).is_err() || begin != *b"ARROW1";
                file.rewind().map_err(|e| wrong(e.to_string()))?;
                let schema = match stream {
                    true => StreamReader::try_new(BufReader::new(file), None).map(|reader| reader.schema()),
                    false => FileReader::try_new(BufReader::new(file), None).map(|reader| reader.schema()),
                };
                (schema.map_err(|e| wrong(e.to_string()))?, Contents::Arrow { stream })
            }
        };
        Ok(Self { path: path.to_path_buf(), schema, contents })
    }

    /// Returns the path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the schema of the whole file.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows, if the file's metadata has it.
    pub fn rows(&self) -> Option<u64> {
        match &self.contents {
            Contents::Parquet(metadata) => u64::try_from(metadata.metadata().file_metadata().num_rows()).ok(),
            Contents::Arrow { .. } => None,
        }
    }

    /// Returns the number of parts.
    pub fn parts(&self) -> usize {
        match &self.contents {
            Contents::Parquet(metadata) => metadata.metadata().num_row_groups(),
            Contents::Arrow { .. } => 1,
        }
    }

    /// Returns the name of a part in messages. `part` counts from 0.
    pub fn name_of(&self, part: usize) -> String {
        match &self.contents {
            Contents::Parquet(_) => format!("row group {part}"),
            Contents::Arrow { .. } => "the table".into(),
        }
    }

    /// Returns the batches of a part. They have the columns `columns` of the schema, in ascending order, and at most
    /// [`BATCH_ROWS`] rows.
    ///
    /// # Errors
    /// The file can't be read, or is damaged. Batches may be errors for the same reasons.
    pub fn batches(&self, part: usize, columns: &[usize]) -> Result<Batches> {
        let file = open(&self.path)?;
        let wrong = |e: &dyn std::fmt::Display| self.damaged(part, e);
        match &self.contents {
            Contents::Parquet(metadata) => {
                let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
                let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
                let builder = builder.with_projection(mask).with_row_groups(vec![part]);
                let reader = builder.with_batch_size(BATCH_ROWS).build().map_err(|e| wrong(&e))?;
                Ok(Box::new(reader))
            }
            Contents::Arrow { stream: true } => {
                let reader = StreamReader::try_new(BufReader::new(file), Some(columns.to_vec()));
                Ok(Box::new(reader.map_err(|e| wrong(&e))?.flat_map(in_pieces)))
            }
            Contents::Arrow { stream: false } => {
                let reader = FileReader::try_new(BufReader::new(file), Some(columns.to_vec()));
                Ok(Box::new(reader.map_err(|e| wrong(&e))?.flat_map(in_pieces)))
            }
        }
    }

    /// Returns the error of a part that can't be decoded.
    pub fn damaged(&self, part: usize, cause: &dyn std::fmt::Display) -> Error {
        Error::file(&self.path, format!("{}: {cause}; write the file again", self.name_of(part)))
    }
}

/// The batches of a part.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Cuts a batch into pieces of at most [`BATCH_ROWS`] rows.
fn in_pieces(batch: Result<RecordBatch, ArrowError>) -> Vec<Result<RecordBatch, ArrowError>> {
    let batch = match batch {
        Ok(batch) => batch,
        Err(e) => return vec![Err(e)],
    };
    let rows = batch.num_rows();
    let piece = |first: usize| Ok(batch.slice(first, BATCH_ROWS.min(rows - first)));
    (0..rows).step_by(BATCH_ROWS).map(piece).collect()
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::file(path, format!("{e}; give a readable file")))
}
