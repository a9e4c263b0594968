//! Files that are written whole or not at all. The bytes go to a temporary file beside the destination, which is
//! renamed to the destination once it is complete.
//!
//! The writer locks its temporary file. The system unlocks it when the process ends, however it ends. So the next run
//! that writes into the folder finds and removes the files that a signal has left.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufWriter, ErrorKind, Write},
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, Result},
    tables,
};

/// A file that appears at its path only when it is complete. On any failure the old file stays as it was.
#[derive(Debug)]
pub struct AtomicFile {
    /// The temporary file that takes the bytes until they are complete. `None` if they go straight into a
    /// device or a pipe. It is the first field, because it has to be removed before it is unlocked.
    partial: Option<PartialFile>,
    out: BufWriter<File>,
}

/// A temporary file that is removed when this value is dropped.
#[derive(Debug)]
struct PartialFile {
    path: PathBuf,
    destination: PathBuf,
    /// Whether the file has its final name. Its old name may then be another program's.
    renamed: bool,
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        // After a failure, that failure is the one to report.
        if !self.renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// How the name of a temporary file begins and ends.
const PREFIX: &str = ".fangorn-";
const SUFFIX: &str = ".tmp";

/// How many temporary names that are already taken are tried before the file is refused.
const MOST_TRIES: u32 = 100;

impl AtomicFile {
    /// Begins a file: creates the temporary file.
    ///
    /// # Errors
    /// The folder does not exist or takes no file, or the destination is a folder or may not be written.
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

    /// Writes a whole file, which then appears at `path`.
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

    /// Completes the file, which then appears at `path`.
    ///
    /// # Errors
    /// The system reports a failure.
    pub fn complete(self, path: &Path) -> Result<()> {
        self.finish().map_err(|e| refusal(path, &e))
    }

    fn begin(path: &Path) -> io::Result<Self> {
        let destination = followed(path);
        let old = match fs::metadata(&destination) {
            Ok(old) if old.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(old) => {
                let file = OpenOptions::new().write(true).open(&destination)?;
                if !old.is_file() {
                    return Ok(Self { partial: None, out: BufWriter::new(file) });
                }
                Some(old)
            }
            Err(_) => None,
        };
        #[cfg(unix)]
        remove_abandoned(folder(&destination));
        let mut open = OpenOptions::new();
        open.write(true).create_new(true);
        for n in 0..MOST_TRIES {
            let name = format!("{PREFIX}{}-{n}{SUFFIX}", std::process::id());
            let path = folder(&destination).join(name);
            match open.open(&path) {
                // Another process took the file for an abandoned one before it was locked.
                Ok(file) if !is_locked(&file, &path) => {}
                Ok(file) => {
                    let partial = PartialFile { path, destination, renamed: false };
                    if let Some(old) = old {
                        file.set_permissions(old.permissions())?;
                    }
                    return Ok(Self { partial: Some(partial), out: BufWriter::new(file) });
                }
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Flushes the temporary file and renames it to the destination.
    fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        let Some(partial) = &mut self.partial else { return Ok(()) };
        self.out.get_ref().sync_all()?;
        fs::rename(&partial.path, &partial.destination)?;
        partial.renamed = true;
        Ok(())
    }
}

/// Returns the error of a file that can't be written. If this run has a journal of the file, the remedy names it.
pub fn refusal(path: &Path, e: &io::Error) -> Error {
    let remedy = match e.kind() {
        ErrorKind::NotFound => "make its folder first".to_owned(),
        ErrorKind::IsADirectory => "name a file in it".to_owned(),
        ErrorKind::FileTooLarge if tables::journal_of_this_run(path).is_none() => {
            "raise the limit of `ulimit -f`, or make room; an earlier file is unchanged".to_owned()
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            let remedy = match tables::journal_of_this_run(path) {
                None => "make room, or name a file on another disk".to_owned(),
                Some(journal) => format!(
                    "make room and repeat the command with --resume, which goes on from the predictions in {}, or \
                     remove that file",
                    journal.display()
                ),
            };
            remedy + "; an earlier file is unchanged"
        }
        _ => "name a file in a folder that you may write to".to_owned(),
    };
    Error::file(path, format!("can't be written: {e}; {remedy}"))
}

/// Locks a temporary file that was just made. Returns whether it is this process's own: nobody else has locked it, and
/// it is still there.
fn is_locked(file: &File, path: &Path) -> bool {
    match file.try_lock() {
        Ok(()) => leads_to(path, file),
        Err(TryLockError::WouldBlock) => false,
        // Some file systems have no locks. There nobody removes another's file.
        Err(TryLockError::Error(_)) => true,
    }
}

/// Returns whether a name leads to this open file.
#[cfg(unix)]
fn leads_to(path: &Path, file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;

    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

#[cfg(not(unix))]
fn leads_to(path: &Path, _: &File) -> bool {
    path.exists()
}

/// Removes the temporary files of a folder whose processes have ended. A file that can't be examined or removed stays.
///
/// A living process holds the lock of its file. Its number would not do: a process in another container or on another
/// machine may have any number. This function removes a file only under its lock, and only if the name still leads to
/// the locked file, so the name can't belong to a living process.
#[cfg(unix)]
fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = |name: &str| {
            let numbers =
                name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX)?.split_once('-'));
            numbers.is_some_and(|(process, n)| process.parse::<u32>().is_ok() && n.parse::<u32>().is_ok())
        };
        // Opening a pipe would wait for its writer.
        if !name.to_str().is_some_and(is_ours) || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() && leads_to(&path, &file) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Returns the file that `path` leads to. Follows links, and one link to a file that does not exist yet.
fn followed(path: &Path) -> PathBuf {
    let linked = || fs::read_link(path).map(|to| folder(path).join(to));
    fs::canonicalize(path).or_else(|_| linked()).unwrap_or_else(|_| path.to_path_buf())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
