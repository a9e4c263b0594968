//! Errors of the command line, one line each, and the handling of panics.

use std::{
    io::{self, Write},
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    path::Path,
    sync::Mutex,
};

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a command does not do what the user asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The library refuses the input.
    #[error(transparent)]
    Library(#[from] fangorn::Error),
    /// A file can't be read, written or understood.
    #[error("{file}: {what}")]
    File {
        /// The file's path as the user gave it.
        file: String,
        /// Where in the file the error is, what is wrong there, and what to do.
        what: String,
    },
    /// Options that don't exist, or that don't fit each other or the model.
    #[error("{0}")]
    Request(String),
    /// A backend that this build leaves out.
    #[error("the backend {name} is not built in; build with --features {name}")]
    NotBuiltIn {
        /// The backend's name, which is also its cargo feature's.
        name: &'static str,
    },
    /// A backend that is built in but does not work on this machine.
    #[cfg_attr(not(feature = "burn"), allow(dead_code, reason = "only burn's backends have devices"))]
    #[error("the backend {name} fails: {cause}; check the device and its driver, or use --backend cpu")]
    Device {
        /// The backend's name.
        name: &'static str,
        /// The backend's own message.
        cause: String,
    },
    /// Standard output can't be written.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// An unexpected panic.
    #[error("internal: {0}; this is a defect of fangorn, please report it with the command and its files")]
    Defect(String),
}

/// Texts in the messages of panics that say that a thread can't be started: the standard library's, and rayon's.
const NO_THREAD: [&str; 2] = ["failed to spawn thread", "ThreadPoolBuildError"];

impl Error {
    /// Returns an error about a file.
    pub fn file(path: &Path, what: impl Into<String>) -> Self {
        Self::File { file: path.display().to_string(), what: what.into() }
    }

    /// Returns this error, or the one that names a lack of threads. The standard library and rayon panic if a thread
    /// can't be started, which is no defect.
    pub fn or_lack_of_threads(self) -> Self {
        let is_lack =
            matches!(&self, Self::Defect(panic) if NO_THREAD.iter().any(|text| panic.contains(text)));
        if !is_lack {
            return self;
        }
        let what = "no thread can be started: the process has reached a limit of memory or of threads; give it more \
                    memory, or fewer threads with RAYON_NUM_THREADS=1";
        Self::Request(what.into())
    }

    /// Tells whether the reader of standard output has closed the pipe, which is not an error.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Prints one line on standard error. Ignores a failure to write it.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "fangorn: {}", one_line(text));
}

/// Notes to print once the command has succeeded.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps a note for [`print_notes`], once. A command that is refused prints one line with the reason and no notes.
pub fn note(text: String) {
    if let Ok(mut notes) = NOTES.lock()
        && !notes.contains(&text)
    {
        notes.push(text);
    }
}

/// Prints the notes that [`note`] has kept, and forgets them.
pub fn print_notes() {
    let notes = NOTES.lock().map(|mut notes| std::mem::take(&mut *notes)).unwrap_or_default();
    notes.iter().for_each(|note| say(note));
}

/// Returns `text` with each run of white space, control characters and text direction marks replaced by one
/// space.
pub fn one_line(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let apart = |c: char| c.is_control() || c.is_whitespace() || turns(c);
    text.split(apart).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The message of the first panic. Later panics on other threads mostly follow from it.
static FIRST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps panics from writing to standard error. [`catch_panic`] returns the message of the first one.
pub fn silence_panics() {
    set_hook(Box::new(|info| {
        if let Ok(mut first) = FIRST_PANIC.lock() {
            let text = info.payload_as_str().unwrap_or("a panic without a message");
            first.get_or_insert_with(|| text.to_owned());
        }
    }));
}

/// Runs a closure and returns the message of its own panic, if it panics, also while other threads run such closures.
#[cfg(feature = "tables")]
pub fn catch_own_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        if let Ok(mut first) = FIRST_PANIC.lock() {
            first.take_if(|first| Some(&*first) == text.as_ref());
        }
        one_line(&text.unwrap_or_else(|| "a panic without a message".to_owned()))
    })
}

/// Runs a closure and returns the message of its panic, if it panics. A missing driver panics, for example.
pub fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    let first = || FIRST_PANIC.lock().ok().and_then(|mut first| first.take());
    first();
    let unknown = || "a panic without a message".to_owned();
    catch_unwind(AssertUnwindSafe(run)).map_err(|_| one_line(&first().unwrap_or_else(unknown)))
}
