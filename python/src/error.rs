//! Python's exceptions.

use pyo3::{create_exception, exceptions::PyValueError, prelude::*};

create_exception!(
    fangorn,
    Error,
    PyValueError,
    "A model, rows or an option can't be used. One line says what is wrong, where, and what to do."
);

/// Turns an error of the crate into Python's `fangorn.Error`.
pub fn crate_error(error: impl Into<fangorn::Error>) -> PyErr {
    Error::new_err(error.into().to_string())
}

/// Makes a `fangorn.Error` of a message.
pub fn refusal(what: impl Into<String>) -> PyErr {
    Error::new_err(what.into())
}
