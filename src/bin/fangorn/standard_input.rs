//! Standard input as rows: its path, what it holds, and a reader that nobody has to wait for.

#[cfg(feature = "tables")]
use std::io::BufRead;
use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, sync_channel},
    },
    time::Duration,
};

use clap::builder::{PathBufValueParser, TypedValueParser};

/// The number of bytes that are read from a pipe at a time.
pub const PIPE: usize = 1 << 16;

/// The time after which a waiting reader notices that nobody needs more.
const STOPS_WITHIN: Duration = Duration::from_millis(50);

/// Tells whether a path stands for standard input.
pub fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Parses the path of rows. The system's name of standard input becomes `-`.
pub fn rows_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| if path == Path::new("/dev/stdin") { "-".into() } else { path })
}

/// Tells whether standard input begins as a stream of Arrow does, and no text. Waits for its first bytes, and leaves them
/// to be read.
#[cfg(feature = "tables")]
pub fn is_arrow_stream() -> bool {
    loop {
        match io::stdin().lock().fill_buf() {
            // Each message begins with a marker of four such bytes. No text begins with two of them, and a pipe may have
            // no more than one yet.
            Ok(bytes) => return bytes.starts_with(&[0xff; 2]) || bytes == [0xff],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

/// The bytes of standard input.
pub struct StandardInput {
    texts: Receiver<io::Result<Vec<u8>>>,
    stop: Arc<AtomicBool>,
    /// Bytes that were received, and how many of them were read.
    rest: (Vec<u8>, usize),
}

impl StandardInput {
    /// Reads standard input until `stop` is set. A thread of its own waits for the input. Nobody waits for that thread to
    /// end.
    pub fn open(stop: Arc<AtomicBool>) -> Self {
        let (sender, texts) = sync_channel(1);
        std::thread::spawn(move || {
            let mut input = io::stdin();
            loop {
                let mut bytes = vec![0; PIPE];
                let text = read_once(&mut input, &mut bytes).map(|length| {
                    bytes.truncate(length);
                    bytes
                });
                let ends = text.as_ref().map_or(true, Vec::is_empty);
                if sender.send(text).is_err() || ends {
                    return;
                }
            }
        });
        Self { texts, stop, rest: (Vec::new(), 0) }
    }
}

impl Read for StandardInput {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.rest.1 == self.rest.0.len() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
            match self.texts.recv_timeout(STOPS_WITHIN) {
                Ok(text) => {
                    self.rest = (text?, 0);
                    if self.rest.0.is_empty() {
                        return Ok(0);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let rest = &self.rest.0[self.rest.1..];
        let count = to.len().min(rest.len());
        to[..count].copy_from_slice(&rest[..count]);
        self.rest.1 += count;
        Ok(count)
    }
}

/// Reads once, and again if a signal interrupted the call.
///
/// # Errors
/// The system reports a failure.
pub fn read_once(input: &mut dyn Read, to: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(to) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
