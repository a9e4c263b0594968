//! Writes results: `.npy`, CSV, and text on standard output.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use npyz::WriterBuilder;

#[cfg(feature = "tables")]
use crate::table_format::TableFormat;
use crate::{
    atomic_file::AtomicFile,
    error::{Error, Result},
    table_format,
};

/// The numbers or texts of a prediction, row after row.
#[derive(Clone, Debug)]
pub enum Values {
    /// Margins, values, or what each tree adds.
    Floats(Vec<f32>),
    /// Leaf ids or classes.
    Ints(Vec<i32>),
    /// Classes that have names.
    Words(Vec<String>),
}

/// A prediction for all rows.
#[derive(Clone, Debug)]
pub struct Table {
    /// Number of rows.
    pub rows: usize,
    /// Entries of one row.
    pub columns: usize,
    /// `rows x columns` entries.
    pub values: Values,
}

/// Where a prediction is written.
#[derive(Clone, Debug)]
pub enum Sink {
    /// CSV on standard output.
    Stdout,
    /// A CSV file.
    Csv(PathBuf),
    /// A numpy file.
    Npy(PathBuf),
    /// A file of Parquet or Arrow.
    #[cfg(feature = "tables")]
    Table(PathBuf, TableFormat),
}

impl Sink {
    /// Returns the sink for `-o`, by the file's extension.
    ///
    /// # Errors
    /// The extension is none of `.npy`, `.csv`, `.parquet` and `.arrow`, or this build does not write the format.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let is_stdout = |path: &&Path| *path == Path::new("-") || *path == Path::new("/dev/stdout");
        let Some(path) = path.filter(|path| !is_stdout(path)) else { return Ok(Self::Stdout) };
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        table_format::require(path)?;
        #[cfg(feature = "tables")]
        if let Some(format) = TableFormat::of(path) {
            return Ok(Self::Table(path.to_path_buf(), format));
        }
        match extension.as_str() {
            "npy" => Ok(Self::Npy(path.to_path_buf())),
            "csv" => Ok(Self::Csv(path.to_path_buf())),
            _ => {
                let endings = table_format::OUTPUTS;
                Err(Error::file(path, format!("its name has to end in {endings}; rename the output")))
            }
        }
    }

    /// Checks, before any work is done, that the sink can be written. `text` says whether the prediction
    /// holds texts.
    ///
    /// # Errors
    /// The file can't be written, or the prediction holds texts and the file format holds numbers only.
    pub fn check(&self, text: bool) -> Result<()> {
        match self {
            Self::Npy(path) if text => Err(Error::file(path, TEXT_IN_NPY)),
            Self::Npy(path) | Self::Csv(path) => AtomicFile::check(path),
            #[cfg(feature = "tables")]
            Self::Table(path, _) => AtomicFile::check(path),
            Self::Stdout => Ok(()),
        }
    }
}

/// Why classes with names are not written as `.npy`.
pub const TEXT_IN_NPY: &str = "classes with names are not written as .npy; name the output .csv";

/// Prints text on standard output.
///
/// # Errors
/// The system reports a failure.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Output)
}

/// Writes one row of a prediction, with the end of its line.
///
/// # Errors
/// The system reports a failure.
pub fn csv_row(table: &Table, row: usize, out: &mut dyn Write) -> io::Result<()> {
    for c in 0..table.columns {
        if c > 0 {
            out.write_all(b",")?;
        }
        let at = row * table.columns + c;
        match &table.values {
            // Debug prints the shortest text that reads back to the same value, with an exponent if that is shorter.
            Values::Floats(values) => write!(out, "{:?}", values[at])?,
            Values::Ints(values) => write!(out, "{}", values[at])?,
            Values::Words(values) => out.write_all(quoted(&values[at]).as_bytes())?,
        }
    }
    out.write_all(b"\n")
}

/// Returns the header of a numpy file of values of this type. Headers have the same length for all shapes of two
/// dimensions.
///
/// # Errors
/// The values are texts.
pub fn npy_header(values: &Values, shape: [usize; 2]) -> io::Result<Vec<u8>> {
    match values {
        Values::Floats(_) => npy_header_of::<f32>(shape),
        Values::Ints(_) => npy_header_of::<i32>(shape),
        Values::Words(_) => Err(io::Error::other(TEXT_IN_NPY)),
    }
}

fn npy_header_of<T: npyz::AutoSerialize>(shape: [usize; 2]) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    let shape = shape.map(|length| length as u64);
    // The writer writes the header when it begins.
    drop(npyz::WriteOptions::<T>::new().default_dtype().shape(&shape).writer(&mut header).begin_nd()?);
    Ok(header)
}

/// Writes the values of a numpy file, which come after its header.
///
/// # Errors
/// The system reports a failure, or the values are texts.
pub fn npy_values(values: &Values, out: &mut dyn Write) -> io::Result<()> {
    match values {
        Values::Floats(values) => values.iter().try_for_each(|v| out.write_all(&v.to_ne_bytes())),
        Values::Ints(values) => values.iter().try_for_each(|v| out.write_all(&v.to_ne_bytes())),
        Values::Words(_) => Err(io::Error::other(TEXT_IN_NPY)),
    }
}

/// Returns a CSV field, with quotation marks if RFC 4180, section 2, asks for them.
pub fn quoted(field: &str) -> std::borrow::Cow<'_, str> {
    match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}
