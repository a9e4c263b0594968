//! Writes results: `.npy`, CSV, and text on standard output.

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use npyz::WriterBuilder;

use crate::{
    atomic_file::AtomicFile,
    error::{Error, Result},
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

/// The place to write a prediction to.
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
    /// Returns the sink for `-o`, by the file's extension.
    ///
    /// # Errors
    /// The extension is neither `.npy` nor `.csv`.
    pub fn new(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path.filter(|p| p.as_os_str() != "-") else { return Ok(Self::Stdout) };
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        match extension.as_str() {
            "npy" => Ok(Self::Npy(path.to_path_buf())),
            "csv" => Ok(Self::Csv(path.to_path_buf())),
            _ => Err(Error::file(path, "the name ends neither in .npy nor in .csv; name the output so")),
        }
    }

    /// Checks, before any work is done, that the sink can be written. `text` says whether the prediction
    /// holds texts.
    ///
    /// # Errors
    /// The place can't be written, or the prediction holds texts and the file format holds numbers only.
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
/// The system reports a failure.
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
/// The system reports a failure.
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
                // Debug prints the shortest text that reads back to the same value, with an exponent where
                // that is shorter.
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

/// Returns a CSV field, quoted where RFC 4180, section 2, asks for quotes.
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
