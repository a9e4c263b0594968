//! Reading matrices: `.npy` of any number type, and CSV with or without a header.

use std::{io::Read, path::Path};

use npyz::{NpyFile, NpyHeader, Order};

use crate::error::{Error, Result, caught};

/// A matrix, row after row.
#[derive(Clone, Debug)]
pub struct Matrix<T> {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// `rows x columns` values.
    pub values: Vec<T>,
}

impl<T> Matrix<T> {
    /// Row `r`.
    pub fn row(&self, r: usize) -> &[T] {
        &self.values[r * self.columns..][..self.columns]
    }
}

/// A type that backends take rows in.
pub trait Cell: Number + fangorn::cpu::Row {
    /// The rows as `f32`.
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "burn's backends alone need it"))]
    fn narrowed(rows: &Matrix<Self>) -> std::borrow::Cow<'_, Matrix<f32>>;
}

impl Cell for f32 {
    fn narrowed(rows: &Matrix<Self>) -> std::borrow::Cow<'_, Matrix<f32>> {
        std::borrow::Cow::Borrowed(rows)
    }
}

impl Cell for f64 {
    fn narrowed(rows: &Matrix<Self>) -> std::borrow::Cow<'_, Matrix<f32>> {
        let values = rows.values.iter().map(|v| *v as f32).collect();
        std::borrow::Cow::Owned(Matrix { rows: rows.rows, columns: rows.columns, values })
    }
}

/// A type that values are read as.
pub trait Number: Copy + std::str::FromStr {
    /// What stands for a missing value.
    const MISSING: Self;
    /// Casts as numpy does.
    fn cast(value: f64) -> Self;
}

impl Number for f32 {
    const MISSING: Self = Self::NAN;
    fn cast(value: f64) -> Self {
        value as Self
    }
}

impl Number for f64 {
    const MISSING: Self = Self::NAN;
    fn cast(value: f64) -> Self {
        value
    }
}

/// What a one-dimensional array is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flat {
    Row,
    Column,
}

/// The matrix a reader is after.
struct Wanted<'a> {
    path: &'a Path,
    columns: usize,
    flat: Flat,
    /// Where the number of columns comes from, and what to do about another one.
    rule: [&'a str; 2],
}

impl Wanted<'_> {
    fn fail<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(Error::file(self.path, what))
    }

    fn check_columns(&self, place: &str, found: usize) -> Result<()> {
        let [source, remedy] = self.rule;
        match found == self.columns {
            true => Ok(()),
            false => self.fail(format!("{place} {found} columns, {source} {}; {remedy}", self.columns)),
        }
    }
}

/// Reads rows for a model of `features` columns; `-` is CSV from standard input.
///
/// # Errors
/// A file that can't be read, is no matrix of numbers, or has another number of columns.
pub fn read_rows<T: Number>(path: &Path, features: usize) -> Result<Matrix<T>> {
    let rule = ["the model was trained on", "hand over all its columns in order"];
    read(&Wanted { path, columns: features, flat: Flat::Row, rule })
}

/// Reads what is expected of `rows` rows of `columns` values.
///
/// # Errors
/// As [`read_rows`], or another number of rows.
pub fn read_expected(path: &Path, rows: usize, columns: usize) -> Result<Matrix<f64>> {
    let rule = ["the output has", "expect what --output names"];
    let wanted = Wanted { path, columns, flat: Flat::Column, rule };
    let found: Matrix<f64> = read(&wanted)?;
    if found.rows != rows {
        return wanted.fail(format!("{} rows, {rows} were predicted; expect one for each", found.rows));
    }
    Ok(found)
}

/// Reads the margins that the sums of `rows` rows start at, one for each of `outputs`.
///
/// # Errors
/// As [`read_expected`].
pub fn read_margins(path: &Path, rows: usize, outputs: usize) -> Result<Matrix<f64>> {
    let rule = ["the model's margins have", "give a number for each output"];
    let wanted = Wanted { path, columns: outputs, flat: Flat::Column, rule };
    let found: Matrix<f64> = read(&wanted)?;
    if found.rows != rows {
        let what = format!("{} rows, {rows} are predicted; give one for each", found.rows);
        return wanted.fail(what);
    }
    Ok(found)
}

/// Whether a file's values are all of an `f32`'s precision, as far as its header says: the first bytes of a `.npy`.
pub fn holds_singles(path: &Path) -> bool {
    let mut header = Vec::new();
    let read = || std::fs::File::open(path)?.take(1 << 10).read_to_end(&mut header).map(|_| header);
    // What can't be read is reported by whoever reads it for its values.
    let header = read().unwrap_or_default();
    let small = ["f4'", "f2'", "i1'", "u1'", "i2'", "u2'", "b1'"];
    let text = String::from_utf8_lossy(&header);
    header.starts_with(b"\x93NUMPY") && small.iter().any(|descr| text.contains(descr))
}

fn read<T: Number>(wanted: &Wanted<'_>) -> Result<Matrix<T>> {
    let path = wanted.path;
    let io = |e: std::io::Error| {
        Error::file(path, format!("{e}; give a readable .npy or .csv file, or - for standard input"))
    };
    if path.as_os_str() == "-" {
        let path = Path::new("standard input");
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map_err(|e| Error::file(path, e.to_string()))?;
        return csv(&Wanted { path, ..*wanted }, &bytes);
    }
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
    match extension.as_str() {
        "npy" => npy(wanted, &std::fs::read(path).map_err(io)?),
        "csv" => csv(wanted, &std::fs::read(path).map_err(io)?),
        _ => wanted.fail("the name ends neither in .npy nor in .csv, so its format is unknown; rename it"),
    }
}

/// Brackets that a header of a matrix can hold; more would be nested for the parser to run out of stack on.
const MOST_BRACKETS: usize = 32;

fn npy<T: Number>(wanted: &Wanted<'_>, bytes: &[u8]) -> Result<Matrix<T>> {
    const REMEDY: &str = "save it again with numpy.save";
    let text = &bytes[..bytes.len().min(1 << 16)];
    let text = text.split(|b| *b == b'\n').next().unwrap_or(text);
    if text.iter().filter(|b| b"([{".contains(b)).count() > MOST_BRACKETS {
        return wanted.fail(format!("its npy header is no plain array's; {REMEDY}"));
    }
    let mut rest = bytes;
    // A shape whose product overflows panics in there.
    let header = match caught(|| NpyHeader::from_reader(&mut rest)) {
        Ok(Ok(header)) => header,
        Ok(Err(e)) => return wanted.fail(format!("no npy file: {e}; {REMEDY}")),
        Err(_) => return wanted.fail(format!("its npy header gives an impossible shape; {REMEDY}")),
    };
    let shape: Vec<usize> =
        header.shape().iter().map(|n| usize::try_from(*n).unwrap_or(usize::MAX)).collect();
    let [rows, columns] = match (&shape[..], wanted.flat) {
        (&[0], _) => [0, wanted.columns],
        (&[n], Flat::Column) if wanted.columns == 1 => [n, 1],
        (&[n], _) if n == wanted.columns => [1, n],
        (&[0, 0], _) => [0, wanted.columns],
        (&[n], _) => {
            let remedy = format!("reshape it to rows x {}", wanted.columns);
            return wanted.fail(format!("an array of one dimension and {n} values is no matrix; {remedy}"));
        }
        (&[rows, columns], _) => [rows, columns],
        _ => return wanted.fail(format!("an array of {} dimensions, rows have 2; reshape it", shape.len())),
    };
    wanted.check_columns("rows have", columns)?;
    let dtype = header.dtype();
    let needed = rows.checked_mul(columns).and_then(|n| n.checked_mul(dtype.num_bytes()?));
    if needed.is_none_or(|needed| needed > rest.len()) {
        let what = format!(
            "{rows} x {columns} values are announced, the file ends after {} bytes of them",
            rest.len()
        );
        return wanted.fail(format!("{what}; {REMEDY}"));
    }
    let order = header.order();
    let Some(values) = cells::<T>(NpyFile::with_header(header, rest)) else {
        let remedy = "convert it with .astype(numpy.float32)";
        return wanted.fail(format!("values of type {} are not read; {remedy}", dtype.descr()));
    };
    let values = values.map_err(|e| Error::file(wanted.path, format!("{e}; {REMEDY}")))?;
    let values = match order {
        Order::C => values,
        Order::Fortran => (0..rows)
            .flat_map(|r| (0..columns).map(move |c| [r, c]))
            .map(|[r, c]| values[c * rows + r])
            .collect(),
    };
    Ok(Matrix { rows, columns, values })
}

/// The file's values in its order, or `None` where its type is no number's.
fn cells<T: Number>(file: NpyFile<&[u8]>) -> Option<std::io::Result<Vec<T>>> {
    macro_rules! first_type_that_fits {
        ($($type:ty => $to:expr),*) => {{
            let file = file;
            $(let file = match file.try_data::<$type>() {
                Ok(data) => return Some(data.map(|v| v.map(|v| T::cast($to(v)))).collect()),
                Err(file) => file,
            };)*
            drop(file);
            None
        }};
    }
    first_type_that_fits!(
        f32 => f64::from, f64 => f64::from, i8 => f64::from, u8 => f64::from, i16 => f64::from, u16 => f64::from,
        i32 => f64::from, u32 => f64::from, i64 => |v| v as f64, u64 => |v| v as f64, bool => |v| f64::from(u8::from(v))
    )
}

/// A field's value: `None` where it is neither a number nor a word for a missing one.
fn field<T: Number>(field: &[u8]) -> Option<T> {
    let text = std::str::from_utf8(field).ok()?.trim();
    match text {
        "" | "?" => Some(T::MISSING),
        _ if text.eq_ignore_ascii_case("nan") || text.eq_ignore_ascii_case("na") => Some(T::MISSING),
        _ => text.parse().ok(),
    }
}

fn csv<T: Number>(wanted: &Wanted<'_>, bytes: &[u8]) -> Result<Matrix<T>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bytes);
    let mut record = csv::ByteRecord::new();
    let mut values = Vec::new();
    let [mut rows, mut read] = [0, 0];
    while reader.read_byte_record(&mut record).map_err(|e| Error::file(wanted.path, e.to_string()))? {
        let line =
            |record: &csv::ByteRecord| line_of(bytes, record.position().map_or(0, csv::Position::byte));
        read += 1;
        if record.len() != wanted.columns {
            wanted.check_columns(&format!("line {} has", line(&record)), record.len())?;
        }
        let before = values.len();
        for (column, text) in record.iter().enumerate() {
            match field(text) {
                Some(value) => values.push(value),
                // A first line with a word in it is a header.
                None if read == 1 => break,
                None => {
                    let text: String = String::from_utf8_lossy(text).chars().take(40).collect();
                    return wanted.fail(format!(
                        "line {}, column {}: `{text}` is no number; write a number, or nothing where the value is missing",
                        line(&record),
                        column + 1
                    ));
                }
            }
        }
        if values.len() - before == wanted.columns {
            rows += 1;
        } else {
            values.truncate(before);
        }
    }
    Ok(Matrix { rows, columns: wanted.columns, values })
}

/// The number of the line on which a record begins. The reader's own count stands at the empty lines before it.
fn line_of(bytes: &[u8], at: u64) -> usize {
    let at = usize::try_from(at).unwrap_or(bytes.len()).min(bytes.len());
    let empty = bytes[at..].iter().take_while(|b| matches!(b, b'\n' | b'\r')).count();
    1 + bytes[..at + empty].iter().filter(|b| **b == b'\n').count()
}
