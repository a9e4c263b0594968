//! What the command line refuses, on one line each, and what becomes of a panic.

use std::{
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    path::Path,
    sync::Mutex,
};

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command does not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the library refuses.
    #[error(transparent)]
    Library(#[from] fangorn::Error),
    /// A file that can't be read, written or made sense of.
    #[error("{file}: {what}")]
    File {
        /// The file as the user named it.
        file: String,
        /// The place in it, what is wrong there and what to do.
        what: String,
    },
    /// Options that don't exist or don't go with each other or with the model.
    #[error("{0}")]
    Request(String),
    /// A backend left out of this build.
    #[error("the backend {name} is not built in; build with --features {name}")]
    NotBuiltIn {
        /// Its name, which is its feature's too.
        name: &'static str,
    },
    /// A backend that is built in and does not work on this machine.
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "only burn's backends have devices"))]
    #[error("the backend {name} fails: {cause}; check the device and its driver, or use --backend cpu")]
    Device {
        /// Its name.
        name: &'static str,
        /// What it said.
        cause: String,
    },
    /// Standard output can't be written.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// A panic that nobody expected.
    #[error("internal: {0}; this is a defect of fangorn, please report it with the command and its files")]
    Defect(String),
}

impl Error {
    /// An error in a file.
    pub fn file(path: &Path, what: impl Into<String>) -> Self {
        Self::File { file: path.display().to_string(), what: what.into() }
    }

    /// Whether whoever read standard output has gone away, which is no error.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Says something on one line of standard error, if anybody listens there.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "fangorn: {}", one_line(text));
}

/// What is to be said when the command has done its work.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps a remark for [`say_notes`]: a command that is refused says why, on one line, and nothing besides.
pub fn note(text: String) {
    if let Ok(mut notes) = NOTES.lock() {
        notes.push(text);
    }
}

/// Says what was noted.
pub fn say_notes() {
    let notes = NOTES.lock().map(|mut notes| std::mem::take(&mut *notes)).unwrap_or_default();
    notes.iter().for_each(|note| say(note));
}

/// `text` with each run of white space, control characters and marks of direction made one space.
pub fn one_line(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let apart = |c: char| c.is_control() || c.is_whitespace() || turns(c);
    text.split(apart).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The first panic's message: later ones, on other threads, mostly follow from it.
static FIRST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps panics from writing to standard error; [`caught`] hands them on.
pub fn silence_panics() {
    set_hook(Box::new(|info| {
        if let Ok(mut first) = FIRST_PANIC.lock() {
            let text = info.payload_as_str().unwrap_or("a panic without a message");
            first.get_or_insert_with(|| text.to_owned());
        }
    }));
}

/// Runs what may panic: a driver that is not there does.
pub fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let first = || FIRST_PANIC.lock().ok().and_then(|mut first| first.take());
    first();
    let unknown = || "a panic without a message".to_owned();
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| one_line(&first().unwrap_or_else(unknown)))
}
