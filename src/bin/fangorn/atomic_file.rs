//! Files that are written whole or not at all: beside their place first, and moved there when all is written.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use crate::error::{Error, Result};

/// A file that takes its place only when it is whole: on any failure the old one is left as it was.
#[derive(Debug)]
pub struct AtomicFile {
    out: BufWriter<File>,
    /// Where what is written stands until it is whole; `None` where it goes straight into a device or a pipe.
    part: Option<PartialFile>,
}

/// A file that goes when it is dropped.
#[derive(Debug)]
struct PartialFile {
    path: PathBuf,
    target: PathBuf,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // It has moved to its place, or the failure that stopped it is the one to tell of.
        let _ = fs::remove_file(&self.path);
    }
}

/// Other processes' files of this name that are stepped over.
const MOST_TRIES: u32 = 100;

impl AtomicFile {
    /// Begins a file.
    ///
    /// # Errors
    /// A folder that is not there or takes no file, a target that is a folder or may not be written.
    pub fn create(path: &Path) -> Result<Self> {
        Self::begin(path).map_err(|e| refusal(path, &e))
    }

    /// Whether a file can be begun there, to say so before hours of work.
    ///
    /// # Errors
    /// As [`AtomicFile::create`].
    pub fn check(path: &Path) -> Result<()> {
        match fs::metadata(path) {
            // Opening a pipe waits for its reader, and closing it ends what that reads.
            Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
            _ => Self::create(path).map(drop),
        }
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// As [`AtomicFile::create`], and what the system says.
    pub fn write(path: &Path, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<()> {
        let mut file = Self::create(path)?;
        let written = write(&mut file.out);
        written.and_then(|()| file.finish()).map_err(|e| refusal(path, &e))
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

    /// Puts the file in its place.
    fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        let Some(part) = &self.part else { return Ok(()) };
        self.out.get_ref().sync_all()?;
        fs::rename(&part.path, &part.target)
    }
}

fn refusal(path: &Path, e: &io::Error) -> Error {
    let remedy = match e.kind() {
        ErrorKind::NotFound => "make its folder first",
        ErrorKind::IsADirectory => "name a file in it",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "make room or name another place; a file that was there is as it was"
        }
        _ => "name a file in a folder that you may write to",
    };
    Error::file(path, format!("can't be written: {e}; {remedy}"))
}

/// The file that a path leads to, through a link to a file that is not there yet, too.
fn followed(path: &Path) -> PathBuf {
    let linked = || fs::read_link(path).map(|to| folder(path).join(to));
    fs::canonicalize(path).or_else(|_| linked()).unwrap_or_else(|_| path.to_path_buf())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
