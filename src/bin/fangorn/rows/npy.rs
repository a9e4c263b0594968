//! Reads numpy's `.npy`: matrices of all its real number types, f16 included, and of ml_dtypes' bfloat16.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    ops::Range,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use half::{bf16, f16};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};

use super::{
    Matrix, MatrixRequest, Number,
    parts::{PartedRows, RowBatch, RowBatches},
};
use crate::error::{Error, Result, catch_panic, note};

/// The maximum number of opening brackets in the header of a matrix: the header's own, and the shape's. npyz's parser
/// takes twice as long for each nested bracket.
const MOST_BRACKETS: usize = 2;

/// The number of bytes of a part of the rows.
const PART_BYTES: usize = 4 << 20;

/// The number of bytes at the beginning of a file in which its header has to end. Numpy's own limit is 10 000
/// characters.
const MOST_HEADER: u64 = 1 << 16;

/// The type that numpy writes for bfloat16 of ml_dtypes (JAX, TensorFlow). Numpy does not know the type, so it writes
/// two raw bytes.
const BF16: &str = "V2'";

const REMEDY: &str = "save it again with numpy.save";

/// Tells whether every value of a `.npy` file is exact as `f32`, as far as the file's first bytes say. Returns false if
/// the file can't be read.
pub fn holds_singles(path: &Path) -> bool {
    let mut header = Vec::new();
    let read = || File::open(path)?.take(1 << 10).read_to_end(&mut header).map(|_| header);
    // The reader of the values reports a file that can't be read.
    let header = read().unwrap_or_default();
    let small = ["f4'", "f2'", "i1'", "u1'", "i2'", "u2'", "b1'", BF16];
    let text = String::from_utf8_lossy(&header);
    header.starts_with(b"\x93NUMPY") && small.iter().any(|descr| text.contains(descr))
}

/// The rows of a file that stores them row after row.
#[derive(Debug)]
pub struct NpyRows<'a> {
    wanted: MatrixRequest<'a>,
    layout: Layout,
    next: AtomicUsize,
}

/// The contents of a file's header.
#[derive(Clone, Debug)]
struct Layout {
    /// The number of bytes before the values.
    begin: usize,
    shape: [usize; 2],
    order: Order,
    dtype: DType,
    /// The number of bytes of a value.
    bytes: usize,
}

/// Reads a matrix.
///
/// # Errors
/// The shape does not fit, the values are not real numbers, or the file is damaged or shorter than its header
/// says.
pub fn read<T: Number>(wanted: &MatrixRequest<'_>, bytes: &[u8]) -> Result<Matrix<T>> {
    let layout = layout(wanted, bytes, bytes.len())?;
    let [rows, columns] = layout.shape;
    let data = &bytes[layout.begin..][..rows * columns * layout.bytes];
    values(wanted, &layout, data, 0..rows)
}

/// Returns the matrix of the file's rows `rows`, given the bytes of its values.
fn values<T: Number>(
    wanted: &MatrixRequest<'_>,
    layout: &Layout,
    data: &[u8],
    rows: Range<usize>,
) -> Result<Matrix<T>> {
    let (first, rows) = (rows.start, rows.len());
    let columns = layout.shape[1];
    let mut elements: Elements<'_, T> =
        Elements { data, shape: [rows, columns], order: layout.order, big: false, values: Vec::new() };
    elements.values.try_reserve_exact(rows * columns).map_err(|_| wanted.no_room::<T>(rows * columns))?;
    let read = match &layout.dtype {
        DType::Plain(plain) => {
            elements.big = plain.endianness() == Endianness::Big;
            if let Some((at, value)) = elements.inexact(plain.type_char(), plain.size_field()) {
                let [row, column] = match layout.order {
                    Order::C => [at / columns, at % columns],
                    Order::Fortran => [at % rows, at / rows],
                };
                let remedy = "round it as the training data was rounded";
                let row = first + row;
                return wanted.fail(format!(
                    "row {row}, column {column}: {value} has more digits than a double holds; {remedy}"
                ));
            }
            elements.read(plain.type_char(), plain.size_field())
        }
        _ => false,
    };
    match read {
        true => Ok(Matrix::of_rows(rows, columns, elements.values)),
        false => {
            let remedy = "convert it with .astype(numpy.float32)";
            wanted.fail(format!("values of type {} are not read; {remedy}", layout.dtype.descr()))
        }
    }
}

/// Reads the header. `begin` is the file's beginning, and `length` its number of bytes.
fn layout(wanted: &MatrixRequest<'_>, begin: &[u8], length: usize) -> Result<Layout> {
    let text = header(wanted, begin)?;
    if let Some(why) = descr(&String::from_utf8_lossy(text)).and_then(no_number) {
        return wanted.fail(why);
    }
    // A closing bracket may be part of a string, so only opening brackets are counted.
    if text.iter().filter(|b| b"([{".contains(b)).count() > MOST_BRACKETS {
        return wanted.fail(format!("its npy header describes no plain array; {REMEDY}"));
    }
    let mut rest = begin;
    // npyz panics on a shape whose product overflows.
    let header = match catch_panic(|| NpyHeader::from_reader(&mut rest)) {
        Ok(Ok(header)) => header,
        Ok(Err(e)) => return wanted.fail(format!("it is no npy file: {e}; {REMEDY}")),
        Err(_) => return wanted.fail(format!("its npy header gives an impossible shape; {REMEDY}")),
    };
    let shape: Vec<usize> =
        header.shape().iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
    let [rows, columns] = match (&shape[..], wanted.contents) {
        (&[0], _) => [0, wanted.columns],
        (&[n], _) if wanted.columns == 1 => [n, 1],
        (&[n], _) if n == wanted.columns => [1, n],
        (&[0, 0], _) => [0, wanted.columns],
        (&[n], _) => {
            let remedy = format!("reshape it to rows x {}", wanted.columns);
            return wanted.fail(format!("an array of one dimension and {n} values is no matrix; {remedy}"));
        }
        (&[rows, columns], _) => [rows, columns],
        _ => {
            return wanted.fail(format!("the array has {} dimensions, rows have 2; reshape it", shape.len()));
        }
    };
    wanted.check_columns("rows have", columns)?;
    if descr(&String::from_utf8_lossy(text))
        .is_some_and(|descr| BF16.starts_with(descr.trim_start_matches(['<', '>', '|'])))
    {
        let path = wanted.path.display();
        note(format!(
            "{path}: its values are two bytes of a type that numpy does not know; they are read as bfloat16"
        ));
    }
    let dtype = header.dtype();
    let bytes = dtype.num_bytes();
    let begin = begin.len() - rest.len();
    let there = length.saturating_sub(begin);
    let needed = rows.checked_mul(columns).and_then(|n| n.checked_mul(bytes?));
    if needed.is_none_or(|needed| needed > there) {
        let what =
            format!("its header gives {rows} x {columns} values, the file holds {there} bytes of them");
        return wanted.fail(format!("{what}; {REMEDY}"));
    }
    Ok(Layout { begin, shape: [rows, columns], order: header.order(), dtype, bytes: bytes.unwrap_or(0) })
}

impl<'a> NpyRows<'a> {
    /// Opens a file. Returns `None` if its rows can't be read in parts: it is no regular file, or is stored column by
    /// column.
    ///
    /// # Errors
    /// The file can't be read, or is not a matrix that fits the request.
    pub(super) fn open(wanted: MatrixRequest<'a>) -> Result<Option<Self>> {
        let unreadable = |e: std::io::Error| {
            Error::file(
                wanted.path,
                format!("{e}; give a readable .npy or .csv file, or - for standard input"),
            )
        };
        let file = File::open(wanted.path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Ok(None);
        }
        let mut begin = Vec::new();
        file.take(MOST_HEADER).read_to_end(&mut begin).map_err(unreadable)?;
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        let layout = layout(&wanted, &begin, length)?;
        // Types that are not read are refused before any row is.
        values::<f32>(&wanted, &layout, &[], 0..0)?;
        // Without columns, a small file may announce any number of rows.
        let by_rows = layout.order == Order::C && layout.shape[1] > 0;
        Ok(by_rows.then_some(Self { wanted, layout, next: AtomicUsize::new(0) }))
    }

    /// Returns the values of some rows.
    fn part<T: Number>(&self, rows: Range<usize>) -> Result<Matrix<T>> {
        let unreadable = |e: std::io::Error| Error::file(self.wanted.path, format!("{e}; {REMEDY}"));
        let row = self.layout.shape[1] * self.layout.bytes;
        let mut file = File::open(self.wanted.path).map_err(unreadable)?;
        file.seek(SeekFrom::Start((self.layout.begin + rows.start * row) as u64)).map_err(unreadable)?;
        let mut data = vec![0; rows.len() * row];
        file.read_exact(&mut data).map_err(unreadable)?;
        values(&self.wanted, &self.layout, &data, rows)
    }
}

impl PartedRows for NpyRows<'_> {
    type Part = Range<usize>;

    fn path(&self) -> &Path {
        self.wanted.path
    }

    fn rows(&self) -> Option<u64> {
        Some(self.layout.shape[0] as u64)
    }

    fn next_part(&self) -> Option<Result<Range<usize>>> {
        let row = (self.layout.shape[1] * self.layout.bytes).max(1);
        let rows = (PART_BYTES / row).max(1);
        let first = self.next.fetch_add(rows, Ordering::Relaxed);
        (first < self.layout.shape[0]).then(|| Ok(first..self.layout.shape[0].min(first + rows)))
    }

    fn name_of(&self, part: &Range<usize>) -> String {
        format!("the rows from {} on", part.start)
    }

    fn batches<T: Number>(&self, part: Range<usize>) -> Result<RowBatches<'_, T>> {
        let batch = move || self.part(part).map(RowBatch::of_numbers);
        Ok(Box::new(std::iter::once_with(batch)))
    }
}

/// Returns the header's text. Fails if the file is shorter than the header's length.
fn header<'b>(wanted: &MatrixRequest<'_>, bytes: &'b [u8]) -> Result<&'b [u8]> {
    let wrong = |what: &str| Error::file(wanted.path, format!("{what}; {REMEDY}"));
    let Some(rest) = bytes.strip_prefix(b"\x93NUMPY") else {
        return Err(wrong("it is no npy file: it does not begin with numpy's bytes"));
    };
    let (length, text) = match rest {
        [1, _, a, b, text @ ..] => (u32::from(u16::from_le_bytes([*a, *b])), text),
        [2 | 3, _, a, b, c, d, text @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]), text),
        [1..=3, ..] | [] => return Err(wrong("the npy file ends in its header")),
        _ => return Err(wrong("it is no npy file of versions 1 to 3")),
    };
    text.get(..length as usize).ok_or_else(|| wrong("the npy file ends in its header"))
}

/// Returns the type of the values in the header's text, or `[` for a record type. Returns `None` if the text is not in
/// the usual form.
fn descr(header: &str) -> Option<&str> {
    let (_, rest) = header.split_once("'descr':")?;
    let rest = rest.trim_start();
    let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"' | '['))?;
    if quote == '[' {
        return Some("[");
    }
    rest[1..].split(quote).next()
}

/// Returns why values of a type are not real numbers and what to do, or `None` if they are.
fn no_number(descr: &str) -> Option<String> {
    let kind = descr.trim_start_matches(['<', '>', '|', '=']).chars().next()?;
    let (what, remedy) = match kind {
        'O' => ("Python objects", "convert it with .astype(numpy.float32), or save a table as CSV"),
        'M' | 'm' => ("dates or times", "convert them to the numbers that the model was trained on"),
        'S' | 'a' | 'U' => ("text", "convert numbers with .astype(numpy.float32), or save a table as CSV"),
        'c' => ("complex numbers", "take their .real or .imag"),
        'V' if descr.ends_with("V2") => return None,
        'V' => ("raw bytes", "convert it with .astype(numpy.float32)"),
        '[' => ("records with fields", "stack the fields as columns, for example with numpy.column_stack"),
        _ => return None,
    };
    let descr = if kind == '[' { String::new() } else { format!(" (type '{descr}')") };
    Some(format!("its values are {what}{descr}, which are not read; {remedy}"))
}

/// Reads the values of a file into a matrix.
struct Elements<'b, T> {
    data: &'b [u8],
    shape: [usize; 2],
    order: Order,
    /// Whether the most significant byte of a value comes first.
    big: bool,
    /// The values read so far, row after row.
    values: Vec<T>,
}

impl<T: Number> Elements<'_, T> {
    /// Returns the first integer that no double represents, and its index in the file's order.
    fn inexact(&self, kind: TypeChar, bytes: u64) -> Option<(usize, i128)> {
        let value = |bytes: [u8; 8]| match kind {
            TypeChar::Int => i128::from(i64::from_le_bytes(bytes)),
            _ => i128::from(u64::from_le_bytes(bytes)),
        };
        let (elements, _) = match (kind, bytes) {
            (TypeChar::Int | TypeChar::Uint, 8) => self.data.as_chunks::<8>(),
            _ => return None,
        };
        let values = elements.iter().map(|bytes| {
            let mut bytes = *bytes;
            if self.big {
                bytes.reverse();
            }
            value(bytes)
        });
        values.enumerate().find(|(_, value)| *value as f64 as i128 != *value)
    }

    /// Reads all values. Returns false if their type is not a number type that is read.
    fn read(&mut self, kind: TypeChar, bytes: u64) -> bool {
        match (kind, bytes) {
            (TypeChar::Float, 2) => self.take(|b| f16::from_le_bytes(b).to_f64()),
            (TypeChar::RawData, 2) => self.take(|b| bf16::from_le_bytes(b).to_f64()),
            (TypeChar::Float, 4) => self.take(|b| f64::from(f32::from_le_bytes(b))),
            (TypeChar::Float, 8) => self.take(f64::from_le_bytes),
            (TypeChar::Int, 1) => self.take(|b| f64::from(i8::from_le_bytes(b))),
            (TypeChar::Int, 2) => self.take(|b| f64::from(i16::from_le_bytes(b))),
            (TypeChar::Int, 4) => self.take(|b| f64::from(i32::from_le_bytes(b))),
            (TypeChar::Int, 8) => self.take(|b| i64::from_le_bytes(b) as f64),
            (TypeChar::Uint, 1) => self.take(|b| f64::from(u8::from_le_bytes(b))),
            (TypeChar::Uint, 2) => self.take(|b| f64::from(u16::from_le_bytes(b))),
            (TypeChar::Uint, 4) => self.take(|b| f64::from(u32::from_le_bytes(b))),
            (TypeChar::Uint, 8) => self.take(|b| u64::from_le_bytes(b) as f64),
            (TypeChar::Bool, 1) => self.take(|[b]: [u8; 1]| f64::from(u8::from(b != 0))),
            _ => return false,
        }
        true
    }

    /// Reads all values, of `N` bytes each, and passes them to `value` with the least significant byte first.
    fn take<const N: usize>(&mut self, value: impl Fn([u8; N]) -> f64) {
        let (elements, _) = self.data.as_chunks::<N>();
        let ([rows, columns], big) = (self.shape, self.big);
        let element = |at: usize| {
            let mut bytes = elements[at];
            if big {
                bytes.reverse();
            }
            T::cast(value(bytes))
        };
        match self.order {
            Order::C => self.values.extend((0..rows * columns).map(element)),
            Order::Fortran => {
                let indices = (0..rows).flat_map(|r| (0..columns).map(move |c| c * rows + r));
                self.values.extend(indices.map(element));
            }
        }
    }
}
