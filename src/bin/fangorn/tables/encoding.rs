//! Batches of predictions as bytes, for the journal.
//!
//! A batch is its numbers of rows, of predictions a row and of kept columns, the predictions row after row, and the
//! kept columns. A count and a length have 8 bytes, a predicted number has 4, the lowest byte first. A text is its
//! length and its bytes. A kept column is a byte that says what it is, and then its texts, or the length of a stream of
//! Arrow and the stream.

use std::io;

#[cfg(feature = "tables")]
use arrow_array::{ArrayRef, RecordBatch, cast::AsArray};
#[cfg(feature = "tables")]
use arrow_cast::cast;
#[cfg(feature = "tables")]
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
#[cfg(feature = "tables")]
use arrow_schema::DataType;

use super::{
    BATCH_ROWS,
    kept::{KeptColumn, KeptField, Texts},
    write::{ScoredBatch, ScoredSchema},
};
use crate::output::{Table, Values};

/// Stands before a kept column of texts.
const TEXTS: u8 = 0;
/// Stands before a kept column of Arrow.
#[cfg(feature = "tables")]
const ARROW: u8 = 1;

/// Adds a batch to the bytes.
///
/// # Errors
/// A kept column has a type that Arrow's streams can't hold.
pub fn encode(scored: &ScoredBatch, out: &mut Vec<u8>) -> io::Result<()> {
    let Table { rows, columns, values } = &scored.table;
    [*rows, *columns, scored.kept.len()].into_iter().for_each(|n| number(n, out));
    match values {
        Values::Floats(values) => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
        Values::Ints(values) => values.iter().for_each(|value| out.extend(value.to_le_bytes())),
        Values::Words(values) => values.iter().for_each(|value| text(value, out)),
    }
    for column in &scored.kept {
        match column {
            KeptColumn::Texts(texts) => {
                out.push(TEXTS);
                texts.iter().for_each(|of| text(of, out));
            }
            #[cfg(feature = "tables")]
            KeptColumn::Arrow(array) => {
                out.push(ARROW);
                let stream = stream_of(&plain(array)?)?;
                number(stream.len(), out);
                out.extend(stream);
            }
        }
    }
    Ok(())
}

fn number(n: usize, out: &mut Vec<u8>) {
    out.extend((n as u64).to_le_bytes());
}

fn text(text: &str, out: &mut Vec<u8>) {
    number(text.len(), out);
    out.extend(text.as_bytes());
}

/// Takes the first batch off the bytes.
///
/// # Errors
/// The bytes are no batch of the schema's columns.
pub fn decode(bytes: &mut &[u8], schema: &ScoredSchema) -> io::Result<ScoredBatch> {
    let [rows, columns, kept] = [take_number(bytes)?, take_number(bytes)?, take_number(bytes)?];
    if columns != schema.predicted().len() || kept != schema.kept().len() || rows > BATCH_ROWS {
        return Err(io::Error::other("it has other columns"));
    }
    let count = rows.checked_mul(columns).ok_or_else(cut_short)?;
    let values = match schema.none() {
        Values::Floats(_) => Values::Floats(take_words(bytes, count)?.map(f32::from_le_bytes).collect()),
        Values::Ints(_) => Values::Ints(take_words(bytes, count)?.map(i32::from_le_bytes).collect()),
        Values::Words(_) => {
            Values::Words((0..count).map(|_| take_text(bytes).map(str::to_owned)).collect::<io::Result<_>>()?)
        }
    };
    let kept = schema.kept().iter().map(|field| take_kept(bytes, rows, field)).collect::<io::Result<_>>()?;
    Ok(ScoredBatch { kept, table: Table { rows, columns, values } })
}

fn cut_short() -> io::Error {
    io::Error::other("it is cut short")
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> io::Result<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or_else(cut_short)?;
    *bytes = rest;
    Ok(taken)
}

fn take_number(bytes: &mut &[u8]) -> io::Result<usize> {
    let number = take(bytes, 8)?.iter().rev().fold(0, |n, byte| n << 8 | u64::from(*byte));
    usize::try_from(number).map_err(|_| cut_short())
}

fn take_text<'b>(bytes: &mut &'b [u8]) -> io::Result<&'b str> {
    let length = take_number(bytes)?;
    std::str::from_utf8(take(bytes, length)?).map_err(io::Error::other)
}

/// Takes `count` values of 4 bytes.
fn take_words<'b>(bytes: &mut &'b [u8], count: usize) -> io::Result<impl Iterator<Item = [u8; 4]> + use<'b>> {
    let taken = take(bytes, count.checked_mul(4).ok_or_else(cut_short)?)?;
    Ok(taken.as_chunks().0.iter().copied())
}

fn take_kept(bytes: &mut &[u8], rows: usize, field: &KeptField) -> io::Result<KeptColumn> {
    match take(bytes, 1)? {
        [TEXTS] if field.is_text() => {
            let texts = (0..rows).map(|_| take_text(bytes)).collect::<io::Result<Texts>>()?;
            Ok(KeptColumn::Texts(texts))
        }
        #[cfg(feature = "tables")]
        [ARROW] if !field.is_text() => {
            let length = take_number(bytes)?;
            let array = array_of(take(bytes, length)?, rows)?;
            match array.data_type() == field.arrow().data_type() {
                true => Ok(KeptColumn::Arrow(array)),
                false => Err(io::Error::other("it has a column of another type")),
            }
        }
        _ => Err(io::Error::other("it has a column of another kind")),
    }
}

/// Returns an array that holds its own values only. A dictionary belongs to a whole row group, and so do the buffers of a
/// view of texts, so each batch would repeat them.
#[cfg(feature = "tables")]
fn plain(array: &ArrayRef) -> io::Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values).map_err(io::Error::other),
        DataType::Utf8View => Ok(std::sync::Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(std::sync::Arc::new(array.as_binary_view().gc())),
        _ => Ok(array.clone()),
    }
}

/// Returns an array as a stream of one column.
#[cfg(feature = "tables")]
fn stream_of(array: &ArrayRef) -> io::Result<Vec<u8>> {
    let batch = RecordBatch::try_from_iter([("kept", array.clone())]).map_err(io::Error::other)?;
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).map_err(io::Error::other)?;
    stream.write(&batch).map_err(io::Error::other)?;
    stream.into_inner().map_err(io::Error::other)
}

/// Returns the column of a stream.
#[cfg(feature = "tables")]
fn array_of(stream: &[u8], rows: usize) -> io::Result<ArrayRef> {
    let mut batches = StreamReader::try_new(stream, None).map_err(io::Error::other)?;
    let batch = batches.next().ok_or_else(cut_short)?.map_err(io::Error::other)?;
    match batch.columns() {
        [array] if array.len() == rows => Ok(array.clone()),
        _ => Err(io::Error::other("it has other columns")),
    }
}
