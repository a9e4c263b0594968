//! Errors of this program, and a way to catch panics of drivers.

use std::{
    panic::{AssertUnwindSafe, catch_unwind, set_hook},
    path::PathBuf,
    sync::Mutex,
};

/// A `Result` whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error. Its message is one line that names the cause and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request that can't be met.
    #[error("{0}")]
    Request(String),
    /// A backend that this build leaves out.
    #[error("the backend {0} is not in this build; build with --features {0}")]
    NotBuiltIn(&'static str),
    /// A device that does not answer or that fails.
    #[error("{backend}: {cause}")]
    #[cfg_attr(not(feature = "device"), allow(dead_code))]
    Device {
        /// The backend's name.
        backend: &'static str,
        /// What the device or its driver said.
        cause: String,
    },
    /// A file that can't be read or written, or that has other contents than it should.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// An error of the library fangorn.
    #[error("{0}")]
    Fangorn(#[from] fangorn::Error),
    /// A failure of standard input or output.
    #[error("standard input or output: {0}")]
    Stream(#[from] std::io::Error),
}

/// The message of the first panic. Later panics, on other threads, mostly follow from the first.
static FIRST_PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Keeps panics from writing to standard error. [`caught`] turns them into errors instead.
pub fn silence_panics() {
    set_hook(Box::new(|info| {
        if let Ok(mut first) = FIRST_PANIC.lock() {
            let text = info.payload_as_str().unwrap_or("a panic without a message");
            first.get_or_insert_with(|| text.to_owned());
        }
    }));
}

/// Runs code that talks to a driver, and turns its panic into an error. A missing driver panics, and so
/// does one that is out of memory.
#[cfg_attr(not(feature = "device"), allow(dead_code))]
pub fn caught<T>(backend: &'static str, run: impl FnOnce() -> Result<T>) -> Result<T> {
    let first = || FIRST_PANIC.lock().ok().and_then(|mut first| first.take());
    first();
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let text = first().unwrap_or_else(|| "a panic without a message".to_owned());
        let cause = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Err(Error::Device { backend, cause })
    })
}
