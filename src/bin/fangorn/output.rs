//! Writing results: `.npy`, CSV, and text on standard output.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use npyz::WriterBuilder;

use crate::{
    atomic_file::AtomicFile,
    error::{Error, Result},
};

/// A prediction's values, row after row.
#[derive(Clone, Debug)]
pub enum Values {
    /// Margins, values and what trees add.
    Floats(Vec<f32>),
    /// Leaf numbers and classes.
    Ints(Vec<i32>),
    /// Classes that have names.
    Words(Vec<String>),
}

/// A prediction.
#[derive(Clone, Debug)]
pub struct Table {
    /// Number of rows.
    pub rows: usize,
    /// Values a row.
    pub columns: usize,
    /// The values.
    pub values: Values,
}

/// Where a prediction goes.
#[derive(Clone, Debug)]
pub enum Sink {
    /// CSV on standard output.
    Stdout,
    /// A CSV file.
    Csv(PathBuf),
    /// A numpy file.
    Npy(PathBuf),
}

impl Sink {
    /// The sink for `-o`, by the file's extension.
    ///
    /// # Errors
    /// An extension that is neither `.npy` nor `.csv`.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|p| p.as_os_str() != "-") else { return Ok(Self::Stdout) };
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        match extension.as_str() {
            "npy" => Ok(Self::Npy(path.to_path_buf())),
            "csv" => Ok(Self::Csv(path.to_path_buf())),
            _ => Err(Error::file(path, "the name ends neither in .npy nor in .csv; name the output so")),
        }
    }

    /// Whether what is to be written can be, as far as that is known before there is anything to write.
    ///
    /// # Errors
    /// A place that can't be written, and text for a file that holds numbers only.
    pub fn check(&self, text: bool) -> Result<()> {
        match self {
            Self::Npy(path) if text => Err(Error::file(path, TEXT_IN_NPY)),
            Self::Npy(path) | Self::Csv(path) => AtomicFile::check(path),
            Self::Stdout => Ok(()),
        }
    }
}

const TEXT_IN_NPY: &str = "classes with names are not written as .npy; name the output .csv";

/// Writes a prediction.
///
/// # Errors
/// What the system says.
pub fn write(table: &Table, sink: &Sink) -> Result<()> {
    match sink {
        Sink::Stdout => {
            let mut out = BufWriter::new(io::stdout().lock());
            csv(table, &mut out).and_then(|()| out.flush()).map_err(Error::Output)
        }
        Sink::Csv(path) => AtomicFile::write(path, |out| csv(table, out)),
        Sink::Npy(path) => AtomicFile::write(path, |out| npy(table, out)),
    }
}

/// Prints text on standard output.
///
/// # Errors
/// What the system says.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::Output)
}

fn csv(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    for r in 0..table.rows {
        for c in 0..table.columns {
            if c > 0 {
                out.write_all(b",")?;
            }
            let at = r * table.columns + c;
            match &table.values {
                // Debug is the shortest text that reads back to the same value, with an exponent where that helps.
                Values::Floats(values) => write!(out, "{:?}", values[at])?,
                Values::Ints(values) => write!(out, "{}", values[at])?,
                Values::Words(values) => out.write_all(quoted(&values[at]).as_bytes())?,
            }
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn npy(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let shape = [table.rows as u64, table.columns as u64];
    match &table.values {
        Values::Floats(values) => npy_of(values, &shape, out),
        Values::Ints(values) => npy_of(values, &shape, out),
        Values::Words(_) => Err(io::Error::other(TEXT_IN_NPY)),
    }
}

/// A field of CSV (RFC 4180, section 2).
fn quoted(field: &str) -> std::borrow::Cow<'_, str> {
    match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}

fn npy_of<T: npyz::AutoSerialize + Copy>(values: &[T], shape: &[u64], out: &mut dyn Write) -> io::Result<()> {
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(shape).writer(out).begin_nd()?;
    writer.extend(values.iter().copied())?;
    writer.finish()
}
