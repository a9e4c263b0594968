//! What a call returns: a status, and a message that is kept for each thread.

use std::{
    any::Any,
    cell::RefCell,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

use fangorn::Error;

/// The result of a call. For every status but `FANGORN_STATUS_OK`, `fangorn_last_error` returns a message.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FangornStatus {
    /// The call succeeded.
    Ok = 0,
    /// An argument is invalid: a null pointer, a buffer that is too short, an unknown option.
    InvalidArgument = 1,
    /// A file could not be read.
    Io = 2,
    /// The model can't be used: it is malformed, exceeds a limit, contains something that is not supported, or its sums
    /// can't keep the contract.
    Model = 3,
    /// The rows do not fit the model: for example, they do not have as many columns as the model.
    Rows = 4,
    /// The model does not support the request: for example, a regressor has no classes.
    Unsupported = 5,
    /// Fangorn or the machine has a defect. Please report it with the message and the model.
    Internal = 6,
}

/// A refusal: a status and its message.
#[derive(Debug)]
pub struct Refusal {
    status: FangornStatus,
    message: String,
}

impl Refusal {
    /// Refuses an argument.
    pub fn argument(message: impl Into<String>) -> Self {
        Self { status: FangornStatus::InvalidArgument, message: message.into() }
    }

    /// Refuses what the model can't do.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self { status: FangornStatus::Unsupported, message: message.into() }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Io { .. } => FangornStatus::Io,
            Error::Import(_) | Error::Forest(_) | Error::Prologue(_) | Error::Sum(_) => FangornStatus::Model,
            Error::Columns { .. } | Error::Rows(_) => FangornStatus::Rows,
            Error::Contributions(_) | Error::Insight(_) => FangornStatus::Unsupported,
            Error::Internal(_) | Error::SelfCheck { .. } => FangornStatus::Internal,
            _ => FangornStatus::InvalidArgument,
        };
        Self { status, message: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Returns a C string of a text. Zero bytes, which would end it in C, are replaced.
pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Returns the message of this thread's last refusal.
pub fn last() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

fn keep(refusal: Refusal) -> FangornStatus {
    let message = c_string(&refusal.message);
    LAST.with_borrow_mut(|last| *last = message);
    refusal.status
}

/// Runs the body of an exported function. A refusal becomes this thread's last message; nothing unwinds into C.
pub fn guarded(body: impl FnOnce() -> Result<(), Refusal>) -> FangornStatus {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => FangornStatus::Ok,
        Ok(Err(refusal)) => keep(refusal),
        Err(panic) => {
            let message = format!("internal: {}; please report it with the model", message_of(&*panic));
            // What a panic carries may panic when it is dropped.
            std::mem::forget(panic);
            keep(Refusal { status: FangornStatus::Internal, message })
        }
    }
}

/// Runs the body of an exported function that can't be refused. `otherwise` is returned if it panics.
pub fn guarded_or<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        std::mem::forget(panic);
        otherwise
    })
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "a panic without a message",
    }
}

/// Returns the text that C passed as a pointer, or `None` if the pointer is null.
///
/// # Safety
/// `text` is null, or points to bytes that end with a zero and that nobody changes while the result lives.
pub unsafe fn text<'a>(name: &str, text: *const c_char) -> Result<Option<&'a str>, Refusal> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and ended by a zero, as the caller says.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(Refusal::argument(format!("{name}: {error}; give UTF-8"))),
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("it was dropped");
        }
    }

    fn message() -> String {
        LAST.with_borrow(|last| last.to_str().expect("UTF-8").to_owned())
    }

    /// A panic ends in the function: it becomes a status and a message, whatever it carries.
    #[test]
    fn a_panic_becomes_an_internal_error() {
        let internal = |text: &str| format!("internal: {text}; please report it with the model");
        assert_eq!(guarded(|| panic!("no luck")), FangornStatus::Internal);
        assert_eq!(message(), internal("no luck"));
        let row = message().len();
        assert_eq!(guarded(|| panic!("no luck at row {row}")), FangornStatus::Internal);
        assert_eq!(message(), internal(&format!("no luck at row {row}")));
        assert_eq!(guarded(|| panic_any(Bomb)), FangornStatus::Internal);
        assert_eq!(message(), internal("a panic without a message"));
        assert_eq!(guarded_or(7, || panic!("no luck")), 7);
        assert_eq!(guarded_or(7, || panic_any(Bomb)), 7);
        assert_eq!(guarded(|| Ok(())), FangornStatus::Ok);
    }
}
