//! A file that is sent to the disk while it is written. A file has to be on the disk before it gets its name, and the end
//! of a run would otherwise wait for all of it.

use std::{
    fs::File,
    io::{self, Seek, SeekFrom, Write},
    sync::mpsc::{SyncSender, TrySendError, sync_channel},
    thread::JoinHandle,
};

/// The number of bytes after which the thread is told to send the file to the disk. On two cores, a run of two seconds
/// that writes 83 MB takes 7 % less time with the thread (`benches/tables/run.py time OUT --other FILE`).
const SYNC_BYTES: usize = 16 << 20;

/// A file that is sent to the disk while it is written.
#[derive(Debug)]
pub struct OutFile {
    file: File,
    /// The bytes since the thread was told last.
    written: usize,
    /// The thread, once [`SYNC_BYTES`] bytes are written, and the sender that tells it.
    syncing: Option<(SyncSender<()>, JoinHandle<io::Result<()>>)>,
    /// Whether the file is a temporary one, and no device or pipe.
    is_partial: bool,
}

impl OutFile {
    /// Begins a file. `is_partial` tells that it is a temporary file, and no device or pipe.
    pub fn new(file: File, is_partial: bool) -> Self {
        Self { file, written: 0, syncing: None, is_partial }
    }

    /// Tells the thread to send the file to the disk, unless it is doing so. Without a thread, the end does it.
    ///
    /// # Errors
    /// The thread has failed to do so.
    fn sync_meanwhile(&mut self) -> io::Result<()> {
        if self.syncing.is_none()
            && let Ok(file) = self.file.try_clone()
        {
            let (sender, told) = sync_channel(1);
            // The system reports a failure once, so the thread keeps it.
            let sync = move || told.into_iter().try_for_each(|()| file.sync_data());
            let thread = std::thread::Builder::new().spawn(sync);
            self.syncing = thread.ok().map(|thread| (sender, thread));
        }
        match &self.syncing {
            Some((sender, _)) if sender.try_send(()) == Err(TrySendError::Disconnected(())) => {
                self.end_thread()
            }
            // A full channel has told it already.
            _ => Ok(()),
        }
    }

    /// Waits for the thread to end, and returns its failure.
    fn end_thread(&mut self) -> io::Result<()> {
        let Some((sender, thread)) = self.syncing.take() else { return Ok(()) };
        drop(sender);
        let failed = || Err(io::Error::other("the thread that writes to the disk failed"));
        thread.join().unwrap_or_else(|_| failed())
    }

    /// Waits until all of the file is on the disk.
    ///
    /// # Errors
    /// The system reports a failure, now or earlier.
    pub fn sync(&mut self) -> io::Result<()> {
        self.end_thread()?;
        self.file.sync_all()
    }
}

impl Write for OutFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.written += count;
        if self.is_partial && self.written >= SYNC_BYTES {
            self.written = 0;
            self.sync_meanwhile()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for OutFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

    use super::{OutFile, SYNC_BYTES};

    #[test]
    fn what_is_written_is_there_after_the_thread_has_ended() {
        let path = std::env::temp_dir().join(format!("fangorn-out-file-{}", std::process::id()));
        let file = std::fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let mut file = OutFile::new(file.expect("a file"), true);
        std::fs::remove_file(&path).expect("it is there");
        let piece: Vec<u8> = (0..SYNC_BYTES / 2).map(|at| (at % 251) as u8).collect();
        (0..5).for_each(|_| file.write_all(&piece).expect("room"));
        assert!(file.syncing.is_some());
        file.seek(SeekFrom::Start(0)).expect("a file");
        file.write_all(b"begin").expect("room");
        file.sync().expect("on the disk");
        assert!(file.syncing.is_none());
        let mut found = Vec::new();
        file.seek(SeekFrom::Start(0)).expect("a file");
        file.file.read_to_end(&mut found).expect("it reads");
        assert_eq!((found.len(), &found[..5]), (5 * piece.len(), &b"begin"[..]));
        assert!(found[5..].iter().zip(piece.iter().cycle().skip(5)).all(|(a, b)| a == b));
    }

    /// A device takes no thread, and one that can't be sent to the disk is refused, then or at the end.
    #[test]
    fn devices_have_no_thread_and_failures_are_kept() {
        let device = |name| std::fs::OpenOptions::new().write(true).open(name);
        let Ok(null) = device("/dev/null") else { return };
        let piece = vec![1u8; SYNC_BYTES];
        let mut file = OutFile::new(null, false);
        (0..3).for_each(|_| file.write_all(&piece).expect("it takes all"));
        assert!(file.syncing.is_none());
        // The null device has no disk: the thread's failure comes with a later write, or with the end.
        let mut file = OutFile::new(device("/dev/null").expect("it was there"), true);
        let written = (0..3).try_for_each(|_| file.write_all(&piece));
        assert!(written.is_err() || file.sync().is_err());
    }
}
