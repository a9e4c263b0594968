//! Reads the batches of Parquet and Arrow files, part by part.

use std::{
    fs::File,
    io::{Read, Seek},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use parquet::arrow::{
    ProjectionMask,
    arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder},
};

use super::{
    BATCH_ROWS,
    messages::{ArrowStream, check_blocks, file_reader},
};
use crate::{
    error::{Error, Result, catch_own_panic},
    standard_input::{StandardInput, is_standard_input},
    table_format::TableFormat,
};

/// The maximum number of parts of an Arrow file. A part of a file of more batches has several of them, because whoever
/// reads a part reads the file's dictionaries first.
const MOST_PARTS: usize = 64;

/// The name of standard input in messages.
const STANDARD_INPUT: &str = "standard input";

/// The remedy for a damaged file.
const WRITE_AGAIN: &str = "write the file again";

/// The remedy for a damaged stream on standard input.
const SEND_AGAIN: &str = "send the stream again";

/// The maximum number of rows of a part of a stream. A batch that is longer is cut.
const STREAM_PART_ROWS: usize = 16 * BATCH_ROWS;

/// A table file, whose parts can be read at the same time.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    schema: SchemaRef,
    contents: Contents,
    /// The number of calls of [`next_part`](Self::next_part).
    taken: AtomicUsize,
    /// Ends the reading of standard input.
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Contents {
    /// A part for each row group.
    Parquet(ArrowReaderMetadata),
    /// The number of batches, and how many of them a part has.
    ArrowFile { batches: usize, in_part: usize },
    /// Batches that can only be read one after the other.
    ArrowStream(Box<Mutex<Stream>>),
}

/// A part of a table.
#[derive(Debug)]
pub enum TablePart {
    /// A part that any thread reads from the file. Parts count from 0.
    Stored(usize),
    /// A part of a stream.
    Streamed {
        /// The number of the batch that has the rows, from 0.
        number: usize,
        /// The index within the batch of the first row.
        first: usize,
        /// The rows, with all columns.
        batch: RecordBatch,
    },
}

impl TablePart {
    /// Returns the index of the first row in what [`TableFile::name_of`] names.
    pub fn first_row(&self) -> usize {
        match self {
            Self::Stored(_) => 0,
            Self::Streamed { first, .. } => *first,
        }
    }
}

/// A stream, and the batch that is cut.
#[derive(Debug)]
struct Stream {
    /// `None` after the end, or after a failure.
    reader: Option<ArrowStream>,
    /// The number of batches that were read.
    batches: usize,
    /// What the next part begins with: the rows of the last batch that no part has, and the index of the first of them; or
    /// why the stream can't be read on.
    next: Option<Result<(RecordBatch, usize), String>>,
}

impl Stream {
    /// Returns what the next part begins with, or `None` at the end.
    fn peek(&mut self) -> Option<&Result<(RecordBatch, usize), String>> {
        while self.next.is_none() {
            let reader = self.reader.as_mut()?;
            self.next = match reader.next() {
                Ok(None) => {
                    self.reader = None;
                    return None;
                }
                Ok(Some(batch)) => {
                    self.batches += 1;
                    (batch.num_rows() > 0).then_some(Ok((batch, 0)))
                }
                Err(cause) => Some(Err(cause)),
            };
            if let Some(Err(cause)) = &mut self.next {
                self.reader = None;
                *cause = format!("record batch {}: {cause}", self.batches);
            }
        }
        self.next.as_ref()
    }

    /// Returns the next part, or why there is none.
    fn next_part(&mut self) -> Option<Result<TablePart, String>> {
        self.peek()?;
        let (rest, first) = match self.next.take()? {
            Ok(rest) => rest,
            Err(cause) => return Some(Err(cause)),
        };
        let rows = rest.num_rows().min(STREAM_PART_ROWS);
        let left = rest.num_rows() - rows;
        self.next = (left > 0).then(|| Ok((rest.slice(rows, left), first + rows)));
        Some(Ok(TablePart::Streamed { number: self.batches - 1, first, batch: rest.slice(0, rows) }))
    }
}

impl TableFile {
    /// Opens a file and reads its schema. The path `-` stands for a stream of Arrow on standard input.
    ///
    /// # Errors
    /// The file can't be read, or is damaged.
    pub fn open(path: &Path, format: TableFormat) -> Result<Self> {
        let is_stdin = is_standard_input(path);
        let path = if is_stdin { Path::new(STANDARD_INPUT) } else { path };
        let stop = Arc::new(AtomicBool::new(false));
        let again = if is_stdin { SEND_AGAIN } else { WRITE_AGAIN };
        let wrong = |e: &dyn std::fmt::Display| Error::file(path, format!("{e}; {again}"));
        let of_stream = |input: Box<dyn Read + Send>| {
            let (schema, reader) = ArrowStream::open(input).map_err(|e| wrong(&e))?;
            let stream = Stream { reader: Some(reader), batches: 0, next: None };
            Ok::<_, Error>((schema, Contents::ArrowStream(Box::new(Mutex::new(stream)))))
        };
        let (schema, contents) = match format {
            TableFormat::Parquet => {
                let file = open(path)?;
                // Damaged metadata make the reader panic.
                let metadata = catch_own_panic(|| parquet_metadata(&file)).map_err(|e| wrong(&e))?;
                let metadata = metadata.map_err(|e| wrong(&e))?;
                (metadata.schema().clone(), Contents::Parquet(metadata))
            }
            TableFormat::Arrow if is_stdin => of_stream(Box::new(StandardInput::open(stop.clone())))?,
            TableFormat::Arrow => {
                let mut file = open(path)?;
                let mut begin = [0; 6];
                let is_stream = file.read_exact(&mut begin).is_err() || begin != *b"ARROW1";
                file.rewind().map_err(|e| wrong(&e))?;
                match is_stream {
                    true => of_stream(Box::new(file))?,
                    false => {
                        check_blocks(&mut file).map_err(|e| wrong(&e))?;
                        let reader = file_reader(file, None).map_err(|e| wrong(&e))?;
                        let batches = reader.num_batches();
                        let in_part = batches.div_ceil(MOST_PARTS).max(1);
                        (reader.schema(), Contents::ArrowFile { batches, in_part })
                    }
                }
            }
        };
        Ok(Self { path: path.to_path_buf(), schema, contents, taken: AtomicUsize::new(0), stop })
    }

    /// Ends the reading of standard input: a thread that waits for a part stops waiting.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
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
            Contents::ArrowFile { .. } | Contents::ArrowStream(_) => None,
        }
    }

    /// Tells whether decoding a part takes so long that another thread should predict meanwhile.
    pub fn has_long_parts(&self) -> bool {
        !matches!(self.contents, Contents::ArrowStream(_))
    }

    /// Returns the number of parts, or `None` if the end of a stream has to tell it.
    fn parts(&self) -> Option<usize> {
        match &self.contents {
            Contents::Parquet(metadata) => Some(metadata.metadata().num_row_groups()),
            Contents::ArrowFile { batches, in_part } => Some(batches.div_ceil(*in_part)),
            Contents::ArrowStream(_) => None,
        }
    }

    /// Returns the next part, or `None` after the last one.
    ///
    /// # Errors
    /// The stream is damaged. There is no part after an error.
    pub fn next_part(&self) -> Option<Result<TablePart>> {
        let part = self.taken.fetch_add(1, Ordering::Relaxed);
        match &self.contents {
            Contents::ArrowStream(stream) => {
                let part = lock(stream).next_part()?;
                Some(part.map_err(|cause| self.damaged(&cause)))
            }
            _ => (part < self.parts().unwrap_or(0)).then_some(Ok(TablePart::Stored(part))),
        }
    }

    /// Returns the first batch that has rows, with the columns `columns` of the schema. Its rows stay to be read.
    ///
    /// # Errors
    /// The file can't be read, or is damaged.
    pub fn first_batch(&self, columns: &[usize]) -> Result<Option<RecordBatch>> {
        if let Contents::ArrowStream(stream) = &self.contents {
            return match lock(stream).peek() {
                None => Ok(None),
                Some(Err(cause)) => Err(self.damaged(cause)),
                Some(Ok((batch, _))) => {
                    let first = batch.slice(0, BATCH_ROWS.min(batch.num_rows()));
                    first.project(columns).map(Some).map_err(|e| self.damaged(&e))
                }
            };
        }
        for part in 0..self.parts().unwrap_or(0) {
            let part = TablePart::Stored(part);
            let name = self.name_of(&part);
            for batch in self.batches(part, columns)? {
                let batch = batch.map_err(|e| self.part_error(&name, &e))?;
                if batch.num_rows() > 0 {
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }

    /// Returns the name of a part in messages.
    pub fn name_of(&self, part: &TablePart) -> String {
        let of_batches = |first: usize, count: usize| match count {
            1 => format!("record batch {first}"),
            _ => format!("record batches {first} to {}", first + count - 1),
        };
        match (&self.contents, part) {
            (Contents::ArrowFile { batches, in_part }, TablePart::Stored(part)) => {
                let first = part * in_part;
                of_batches(first, (*in_part).min(batches.saturating_sub(first)))
            }
            (_, TablePart::Stored(part)) => format!("row group {part}"),
            (_, TablePart::Streamed { number, .. }) => of_batches(*number, 1),
        }
    }

    /// Returns the batches of a part. They have the columns `columns` of the schema, in ascending order, and at most
    /// [`BATCH_ROWS`] rows.
    ///
    /// # Errors
    /// The file can't be read, or is damaged. Batches may be errors for the same reasons.
    pub fn batches(&self, part: TablePart, columns: &[usize]) -> Result<Batches> {
        let name = self.name_of(&part);
        let wrong = |e: &dyn std::fmt::Display| self.part_error(&name, e);
        let part = match part {
            TablePart::Stored(part) => part,
            TablePart::Streamed { batch, .. } => {
                return Ok(Box::new(in_pieces(batch.project(columns)).into_iter()));
            }
        };
        let file = open(&self.path)?;
        match &self.contents {
            Contents::Parquet(metadata) => {
                let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata.clone());
                let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
                let builder = builder.with_projection(mask).with_row_groups(vec![part]);
                let reader = catch_own_panic(|| builder.with_batch_size(BATCH_ROWS).build());
                let reader = reader.map_err(|e| wrong(&e))?.map_err(|e| wrong(&e))?;
                Ok(Box::new(without_panics(reader)))
            }
            Contents::ArrowFile { in_part, .. } => {
                let mut reader = file_reader(file, Some(columns.to_vec())).map_err(|e| wrong(&e))?;
                reader.set_index(part * in_part).map_err(|e| wrong(&e))?;
                Ok(Box::new(without_panics(reader).take(*in_part).flat_map(in_pieces)))
            }
            Contents::ArrowStream(_) => Err(Error::Defect("a stream has no stored parts".into())),
        }
    }

    /// Returns the error of a part that can't be decoded.
    pub fn part_error(&self, part: &str, cause: &dyn std::fmt::Display) -> Error {
        self.damaged(&format!("{part}: {cause}"))
    }

    fn damaged(&self, cause: &dyn std::fmt::Display) -> Error {
        let cause = cause.to_string();
        // Parquet says so of compressions that this build leaves out.
        let remedy = match cause.contains("Disabled feature at compile time") {
            true => "write the file again, with another compression",
            false if self.path == Path::new(STANDARD_INPUT) => SEND_AGAIN,
            false => WRITE_AGAIN,
        };
        Error::file(&self.path, format!("{cause}; {remedy}"))
    }
}

/// The batches of a part.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// Returns the batches of a reader. Damaged metadata and pages can make it panic; that is an error, after which nothing
/// follows.
fn without_panics(
    mut reader: impl Iterator<Item = Result<RecordBatch, ArrowError>>,
) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
    let mut panicked = false;
    std::iter::from_fn(move || {
        if panicked {
            return None;
        }
        catch_own_panic(|| reader.next()).unwrap_or_else(|panic| {
            panicked = true;
            Some(Err(ArrowError::ExternalError(panic.into())))
        })
    })
}

/// Reads the metadata of a Parquet file.
fn parquet_metadata(file: &File) -> parquet::errors::Result<ArrowReaderMetadata> {
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new())?;
    let plain = plain_numbers(metadata.schema().fields());
    match plain == *metadata.schema().fields() {
        true => Ok(metadata),
        false => {
            let plain = Schema::new_with_metadata(plain, metadata.schema().metadata().clone());
            ArrowReaderMetadata::load(file, ArrowReaderOptions::new().with_schema(Arc::new(plain)))
        }
    }
}

/// Returns fields with the type of its values in place of each dictionary of no texts. A writer notes such a type, as
/// pandas does for categories that are numbers or truth values, but Parquet itself stores the values, and its reader
/// makes no dictionary of some of them.
fn plain_numbers(fields: &Fields) -> Fields {
    let plain = |field: &FieldRef| -> FieldRef {
        let dtype = match field.data_type() {
            DataType::Dictionary(_, values) if !is_bytes(values) => (**values).clone(),
            DataType::Struct(fields) => DataType::Struct(plain_numbers(fields)),
            _ => return field.clone(),
        };
        Arc::new(Field::clone(field).with_data_type(dtype))
    };
    fields.iter().map(plain).collect()
}

fn is_bytes(dtype: &DataType) -> bool {
    use DataType::{Binary, BinaryView, FixedSizeBinary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(dtype, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_))
}

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

/// Locks a stream. No thread panics while it has the lock.
fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::file(path, format!("{e}; give a readable file")))
}
