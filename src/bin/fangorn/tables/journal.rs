//! The journal of a run that writes a long file: what it has predicted so far. If the run is cut short, a later run
//! goes on from there.
//!
//! The journal is a file beside the file that is written. It has a line that names what the predictions depend on, and
//! then an entry for each part of the rows: its length, its checksum, and its batches. A reader ignores an incomplete
//! entry and all bytes after it.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64;

use super::{
    encoding::{decode, encode},
    write::{ScoredBatch, ScoredSchema},
};
use crate::error::{Error, Result, note};

/// The number of bytes of entries that wait to be written. A run with fewer leaves no journal.
const WAITING: usize = 1 << 20;

/// The maximum number of bytes of an entry. A part with more is not in the journal, and neither is any part after it.
const MOST_ENTRY: usize = 256 << 20;

/// The version of the entries' format, and of how files are divided into parts. Journals of others are refused.
const FORMAT: u32 = 3;

/// The journal of a file that is being written.
pub struct Journal {
    destination: PathBuf,
    path: PathBuf,
    /// The line that names what the predictions depend on.
    run: String,
    /// The file, once it was created.
    file: Option<File>,
    /// Complete entries that wait to be written.
    waiting: Vec<u8>,
    /// The batches of the part that is being written.
    part: Vec<u8>,
    /// Whether the file has a complete entry, so that a later run can go on from it.
    has_entries: bool,
    /// Whether the journal takes no more parts: one was too large, or the file could not be written.
    ended: bool,
}

/// The parts that an earlier run has predicted.
pub struct EarlierParts {
    file: BufReader<File>,
    /// The lengths of their entries, in bytes.
    lengths: Vec<u64>,
}

/// Returns the path of a file's journal.
fn path_of(destination: &Path) -> PathBuf {
    let name = destination.file_name().unwrap_or_default().to_string_lossy();
    destination.with_file_name(format!(".{name}.fangorn-journal"))
}

/// Returns the path of the journal from which a later run can go on, if the run that writes `destination` has one. A
/// journal that is not locked is left from another run.
pub fn journal_of_this_run(destination: &Path) -> Option<PathBuf> {
    let path = path_of(destination);
    let file = File::open(&path).ok()?;
    matches!(file.try_lock(), Err(TryLockError::WouldBlock)).then_some(path)
}

impl Journal {
    /// Begins the journal of a file. If `resume` is set, the run goes on from the entries of an earlier run. Otherwise
    /// they are removed.
    ///
    /// # Errors
    /// The earlier run had another model, other rows or other options, another program is writing the file, or the
    /// system reports a failure.
    pub fn open(destination: &Path, run: String, resume: bool) -> Result<(Self, Option<EarlierParts>)> {
        let path = path_of(destination);
        let run = format!("journal {FORMAT} {}\n", run.replace('\n', " "));
        let mut journal = Self {
            destination: destination.to_path_buf(),
            path,
            run,
            file: None,
            waiting: Vec::new(),
            part: Vec::new(),
            has_entries: false,
            ended: false,
        };
        let earlier = journal.earlier(resume)?;
        Ok((journal, earlier))
    }

    fn refused(&self, e: &io::Error) -> Error {
        Error::file(&self.path, format!("{e}; remove the file, and begin without --resume"))
    }

    /// Finds the entries of an earlier run and continues after the last complete one, or removes the earlier journal.
    fn earlier(&mut self, resume: bool) -> Result<Option<EarlierParts>> {
        let file = match OpenOptions::new().read(true).write(true).open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.refused(&e)),
        };
        self.lock(&file)?;
        if !resume {
            return fs::remove_file(&self.path).map(|()| None).map_err(|e| self.refused(&e));
        }
        let mut reader = BufReader::new(&file);
        let mut run = vec![0; self.run.len()];
        if reader.read_exact(&mut run).is_err() || run != self.run.as_bytes() {
            return Err(Error::file(
                &self.destination,
                "--resume: the run that was cut short had another model, other rows, other options or another build \
                 of fangorn; repeat its command, or begin anew without --resume",
            ));
        }
        let mut lengths = Vec::new();
        while let Some(entry) = next_entry(&mut reader).map_err(|e| self.refused(&e))? {
            lengths.push(entry.len() as u64);
        }
        let end = self.run.len() as u64 + lengths.iter().map(|length| length + 16).sum::<u64>();
        let set = || -> io::Result<File> {
            file.set_len(end)?;
            let mut reader = File::open(&self.path)?;
            reader.seek(SeekFrom::Start(self.run.len() as u64))?;
            (&file).seek(SeekFrom::Start(end))?;
            Ok(reader)
        };
        let reader = set().map_err(|e| self.refused(&e))?;
        self.file = Some(file);
        self.has_entries = !lengths.is_empty();
        Ok(Some(EarlierParts { file: BufReader::new(reader), lengths }))
    }

    fn lock(&self, file: &File) -> Result<()> {
        match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                Err(Error::file(&self.destination, "another program is writing it; name another output"))
            }
            // Some file systems have no locks.
            Err(TryLockError::Error(_)) => Ok(()),
        }
    }

    /// Adds a batch to the part that is being written. If the journal can't be written, it ends, and the run goes on.
    pub fn add(&mut self, scored: &ScoredBatch) {
        if self.ended {
            return;
        }
        match encode(scored, &mut self.part) {
            Ok(()) if self.part.len() > MOST_ENTRY => {
                self.end("a part of it is larger than the journal takes");
            }
            Ok(()) => {}
            Err(e) => self.end(&e.to_string()),
        }
    }

    /// Ends the journal: no more is added. Without a complete entry it is of no use, and on a full disk it takes room.
    fn end(&mut self, why: &str) {
        self.ended = true;
        (self.waiting, self.part) = (Vec::new(), Vec::new());
        if self.has_entries {
            let goes_on = "a run that is cut short goes on from the parts before this one";
            return note(format!("{}: {goes_on}: {why}", self.path.display()));
        }
        // The lock goes last: another run could take the file in between.
        if let Some(file) = self.file.take() {
            let _ = fs::remove_file(&self.path);
            drop(file);
        }
        note(format!("{}: a run that is cut short can't be resumed: {why}", self.path.display()));
    }

    /// Ends the part that is being written.
    pub fn end_part(&mut self) {
        if self.ended {
            return;
        }
        if let Err(e) = self.try_end_part() {
            self.end(&e.to_string());
        }
    }

    fn try_end_part(&mut self) -> io::Result<()> {
        let part = std::mem::take(&mut self.part);
        self.waiting.extend((part.len() as u64).to_le_bytes());
        self.waiting.extend(xxh3_64(&part).to_le_bytes());
        if self.waiting.len() + part.len() < WAITING {
            self.waiting.extend(part);
            return Ok(());
        }
        if self.file.is_none() {
            let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)?;
            self.lock(&file).map_err(|e| io::Error::other(e.to_string()))?;
            let file = self.file.insert(file);
            // A file that was cut to nothing is written to the disk by ext4 when it is closed, even if it is removed.
            if file.metadata()?.len() > 0 {
                file.set_len(0)?;
            }
            file.write_all(self.run.as_bytes())?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(&self.waiting)?;
            file.write_all(&part)?;
            self.has_entries = true;
        }
        self.waiting.clear();
        Ok(())
    }

    /// Closes the journal, and removes its file if `remove` is set.
    pub fn close(self, remove: bool) {
        if remove && self.file.is_some() {
            // A file that can't be removed does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Reads an entry, or returns `None` if it is not complete.
fn next_entry(reader: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; 16];
    let mut entry = Vec::new();
    match reader.read_exact(&mut head) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let [length, sum] =
        [&head[..8], &head[8..]].map(|bytes| bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)));
    if length > MOST_ENTRY as u64 {
        return Ok(None);
    }
    reader.take(length).read_to_end(&mut entry)?;
    Ok((entry.len() as u64 == length && xxh3_64(&entry) == sum).then_some(entry))
}

impl EarlierParts {
    /// Returns the number of parts.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Calls `write` with the batches of all parts, in their order.
    ///
    /// # Errors
    /// The journal can't be read, or `write` fails.
    pub fn replay(
        mut self,
        path: &Path,
        schema: &ScoredSchema,
        mut write: impl FnMut(ScoredBatch) -> Result<()>,
    ) -> Result<()> {
        let refused = |e: &dyn std::fmt::Display| {
            Error::file(
                path,
                format!("--resume: its journal can't be read: {e}; begin anew without --resume"),
            )
        };
        for _ in &self.lengths {
            let entry = next_entry(&mut self.file).map_err(|e| refused(&e))?;
            let entry = entry.ok_or_else(|| refused(&"it has changed"))?;
            let mut rest = &entry[..];
            while !rest.is_empty() {
                write(decode(&mut rest, schema).map_err(|e| refused(&e))?)?;
            }
        }
        Ok(())
    }
}
