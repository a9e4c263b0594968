//! Reads rows from `.npy` files, and writes results into such files.

use std::{
    fs::File,
    io::{BufReader, BufWriter, Read, Seek},
    path::{Path, PathBuf},
};

use npyz::WriterBuilder;

use crate::error::{Error, Result};

/// An open file of `f32` rows.
#[derive(Debug)]
pub struct RowFile {
    path: PathBuf,
    file: BufReader<File>,
    /// Where the values begin, in bytes from the start of the file.
    begin: u64,
    rows: usize,
    columns: usize,
}

impl RowFile {
    /// Opens a file of rows of `columns` values.
    ///
    /// # Errors
    /// The file can't be read, is not a two-dimensional `.npy` of such rows, or has no rows.
    pub fn open(path: &Path, columns: usize) -> Result<Self> {
        let wrong = |cause: String| Error::File { path: path.to_path_buf(), cause };
        let mut file = BufReader::new(File::open(path).map_err(|e| wrong(e.to_string()))?);
        let header = npyz::NpyHeader::from_reader(&mut file).map_err(|e| wrong(e.to_string()))?;
        let is_f32 = matches!(header.dtype(), npyz::DType::Plain(t) if t.to_string() == "<f4");
        let [rows, found] = *header.shape() else {
            return Err(wrong(format!("{} dimensions; rows have two", header.shape().len())));
        };
        if !is_f32 || header.order() != npyz::Order::C {
            return Err(wrong("not little-endian float32, row after row; save it as such".into()));
        }
        if found != columns as u64 || rows == 0 {
            return Err(wrong(format!("{rows} rows of {found} columns; the model has {columns} features")));
        }
        let begin = file.stream_position().map_err(|e| wrong(e.to_string()))?;
        Ok(Self { path: path.to_path_buf(), file, begin, rows: rows as usize, columns })
    }

    /// Returns the number of rows in the file.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the first `batch` rows, and repeats the file's rows if the batch has more.
    ///
    /// # Errors
    /// The file ends early.
    pub fn first(&mut self, batch: usize) -> Result<Vec<f32>> {
        let wrong = |e: std::io::Error| Error::File { path: self.path.clone(), cause: e.to_string() };
        let own = batch.min(self.rows) * self.columns;
        let mut values = Vec::with_capacity(batch * self.columns);
        self.file.seek(std::io::SeekFrom::Start(self.begin)).map_err(wrong)?;
        let mut bytes = vec![0u8; 4 << 18];
        while values.len() < own {
            let length = bytes.len().min((own - values.len()) * 4);
            self.file.read_exact(&mut bytes[..length]).map_err(wrong)?;
            let words = bytes[..length].chunks_exact(4);
            values.extend(words.map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])));
        }
        while values.len() < batch * self.columns {
            let more = own.min(batch * self.columns - values.len());
            values.extend_from_within(..more);
        }
        Ok(values)
    }
}

/// Writes values as a two-dimensional `.npy` file of rows of `columns` values.
///
/// # Errors
/// The file can't be written.
pub fn write<T>(path: &Path, columns: usize, values: impl ExactSizeIterator<Item = T>) -> Result<()>
where
    T: npyz::Serialize + npyz::AutoSerialize,
{
    let write = || -> std::io::Result<()> {
        let file = BufWriter::new(File::create(path)?);
        let shape = [(values.len() / columns.max(1)) as u64, columns as u64];
        let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(file).begin_nd()?;
        writer.extend(values)?;
        writer.finish()
    };
    write().map_err(|e| Error::File { path: path.to_path_buf(), cause: e.to_string() })
}
