//! Files that are written whole or not at all. The bytes go to a temporary file beside the target, which is
//! renamed to the target once it is complete.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use crate::error::{Error, Result};

/// A file that appears at its path only when it is complete. On any failure the old file stays as it was.
#[derive(Debug)]
pub struct AtomicFile {
    out: BufWriter<File>,
    /// The temporary file that takes the bytes until they are complete. `None` if they go straight into a
    /// device or a pipe.
    part: Option<PartialFile>,
}

/// A temporary file that is removed when this value is dropped.
#[derive(Debug)]
struct PartialFile {
    path: PathBuf,
    target: PathBuf,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After a rename there is nothing to remove. After a failure, that failure is the one to report.
        let _ = fs::remove_file(&self.path);
    }
}

/// How many temporary names that are already taken are tried before the file is refused.
const MOST_TRIES: u32 = 100;

impl AtomicFile {
    /// Begins a file: creates the temporary file.
    ///
    /// # Errors
    /// The folder does not exist or takes no file, or the target is a folder or may not be written.
    pub fn create(path: &Path) -> Result<Self> {
        Self::begin(path).map_err(|e| refusal(path, &e))
    }

    /// Checks that a file can be begun at `path`, so that it is refused before hours of work.
    ///
    /// # Errors
    /// Fails where [`AtomicFile::create`] fails.
    pub fn check(path: &Path) -> Result<()> {
        match fs::metadata(path) {
            // Opening a pipe waits for its reader, and closing it ends the reader's input.
            Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
            _ => Self::create(path).map(drop),
        }
    }

    /// Writes a whole file and puts it in its place.
    ///
    /// # Errors
    /// [`AtomicFile::create`] fails, or the system reports a failure while writing.
    pub fn write(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
        let mut file = Self::create(path)?;
        write(&mut file.out).map_err(|e| refusal(path, &e))?;
        file.complete(path)
    }

    /// Returns the writer that takes the bytes.
    pub fn out(&mut self) -> &mut BufWriter<File> {
        &mut self.out
    }

    /// Puts the file in its place at `path`.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn complete(self, path: &Path) -> Result<()> {
        self.finish().map_err(|e| refusal(path, &e))
    }

    fn begin(path: &Path) -> io::Result<Self> {
        let target = followed(path);
        let old = match fs::metadata(&target) {
            Ok(old) if old.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(old) => {
                let file = OpenOptions::new().write(true).open(&target)?;
                if !old.is_file() {
                    return Ok(Self { out: BufWriter::new(file), part: None });
                }
                Some(old)
            }
            Err(_) => None,
        };
        let mut open = OpenOptions::new();
        open.write(true).create_new(true);
        for n in 0.. {
            let name = format!(".fangorn-{}-{n}.tmp", std::process::id());
            let path = folder(&target).join(name);
            match open.open(&path) {
                Ok(file) => {
                    let part = PartialFile { path, target };
                    if let Some(old) = old {
                        file.set_permissions(old.permissions())?;
                    }
                    return Ok(Self { out: BufWriter::new(file), part: Some(part) });
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists && n < MOST_TRIES => {}
                Err(e) => return Err(e),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Flushes the temporary file and renames it to the target.
    fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        let Some(part) = &self.part else { return Ok(()) };
        self.out.get_ref().sync_all()?;
        fs::rename(&part.path, &part.target)
    }
}

/// Returns the error of a file that can't be written.
pub fn refusal(path: &Path, e: &io::Error) -> Error {
    let remedy = match e.kind() {
        ErrorKind::NotFound => "make its folder first",
        ErrorKind::IsADirectory => "name a file in it",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "make room, or name a file on another disk; an earlier file is unchanged"
        }
        _ => "name a file in a folder that you may write to",
    };
    Error::file(path, format!("can't be written: {e}; {remedy}"))
}

/// Returns the file that `path` leads to. Follows links, and one link to a file that does not exist yet.
fn followed(path: &Path) -> PathBuf {
    let linked = || fs::read_link(path).map(|to| folder(path).join(to));
    fs::canonicalize(path).or_else(|_| linked()).unwrap_or_else(|_| path.to_path_buf())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
