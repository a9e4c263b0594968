//! Python's exceptions.

use pyo3::{create_exception, exceptions::PyValueError, prelude::*};

create_exception!(
    fangorn,
    Error,
    PyValueError,
    "What is wrong with a model, with rows or with an option, where, and what to do about it: one line."
);

/// Turns an error of the crate into Python's `fangorn.Error`.
pub fn of_crate(error: impl Into<fangorn::Error>) -> PyErr {
    Error::new_err(error.into().to_string())
}

/// Makes a `fangorn.Error` of a message.
pub fn refused(what: impl Into<String>) -> PyErr {
    Error::new_err(what.into())
}
