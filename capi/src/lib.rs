//! A C library that predicts with trained decision forests: `include/fangorn.h`, and the book's chapter "In C".
//!
//! | file | subject |
//! |---|---|
//! | `lib` | the functions that C calls |
//! | `options` | how a model is read and compiled: threads, schedule, contract of sums, boosting rounds |
//! | `pools` | the thread pools that models share |
//! | `matrix` | rows and results in the caller's memory |
//! | `model` | a model, and what it predicts |
//! | `error` | statuses and messages; nothing unwinds into C |

mod error;
mod matrix;
mod model;
mod options;
mod pools;

use std::{
    ffi::{c_char, c_void},
    path::Path,
    ptr,
};

use fangorn::import;

pub use error::FangornStatus;
pub use matrix::{FANGORN_F32, FANGORN_F64, FangornMatrix};
pub use model::{
    FANGORN_CLASSES, FANGORN_CONTRIBUTIONS, FANGORN_LEAF_IDS, FANGORN_MARGINS, FANGORN_VALUES, FangornModel,
};
pub use options::FangornOptions;

use crate::{
    error::{Refusal, guarded, guarded_or, text},
    matrix::Values,
    model::Output,
    options::Options,
};

/// Returns the library's version. The text is static: do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn fangorn_version() -> *const c_char {
    static VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the message of the last call of this thread that was refused: one line that says what is wrong and what to
/// do. The text is empty if no call of this thread was refused. It is valid until another call of this thread is
/// refused, or the thread ends. Do not free it.
#[unsafe(no_mangle)]
pub extern "C" fn fangorn_last_error() -> *const c_char {
    guarded_or(c"".as_ptr(), error::last)
}

/// Returns the default options: all boosting rounds, the default schedule, the contract `any`, and as many threads as
/// the machine runs at the same time.
#[unsafe(no_mangle)]
pub extern "C" fn fangorn_options() -> FangornOptions {
    FangornOptions::default()
}

/// Describes a row-major matrix of 32-bit floats without gaps.
#[unsafe(no_mangle)]
pub extern "C" fn fangorn_matrix_f32(values: *const f32, rows: usize, columns: usize) -> FangornMatrix {
    FangornMatrix::dense(values.cast::<c_void>(), FANGORN_F32, rows, columns)
}

/// Describes a row-major matrix of 64-bit floats without gaps.
#[unsafe(no_mangle)]
pub extern "C" fn fangorn_matrix_f64(values: *const f64, rows: usize, columns: usize) -> FangornMatrix {
    FangornMatrix::dense(values.cast::<c_void>(), FANGORN_F64, rows, columns)
}

/// Makes a model and gives it to C.
///
/// # Safety
/// `model` is null, or one pointer may be written there.
unsafe fn hand_over(
    model: *mut *mut FangornModel,
    make: impl FnOnce() -> Result<FangornModel, Refusal>,
) -> FangornStatus {
    guarded(|| {
        if model.is_null() || !model.is_aligned() {
            return Err(Refusal::argument(
                "model: a null or misaligned pointer; give a pointer to a FangornModel *",
            ));
        }
        // SAFETY: not null and aligned; writable, as the caller says.
        unsafe { model.write(ptr::null_mut()) };
        let made = Box::new(make()?);
        // SAFETY: as above.
        unsafe { model.write(Box::into_raw(made)) };
        Ok(())
    })
}

/// Reads a model file of any format that Fangorn knows, and compiles it for this machine. `path` is UTF-8. `options`
/// may be null, which stands for the defaults. The call writes the model to `*model`, or null if it is refused. A file
/// that is no single forest, such as a pipeline, is refused. Free the model with `fangorn_free`.
///
/// # Safety
/// `path` and the options' texts end with a zero. `options` is null, or points to options whose `size` is right. A
/// pointer may be written to `model`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_load(
    path: *const c_char,
    options: *const FangornOptions,
    model: *mut *mut FangornModel,
) -> FangornStatus {
    let make = || {
        // SAFETY: as the caller says.
        let (path, options) = unsafe { (text("path", path)?, Options::read(options)?) };
        let path = path.ok_or_else(|| Refusal::argument("path: a null pointer; give a file's path"))?;
        FangornModel::new(&options, |options| import::load(Path::new(path), &options.load))
    };
    // SAFETY: as the caller says.
    unsafe { hand_over(model, make) }
}

/// Reads a model from the bytes of its file, `length` of them, and otherwise does what `fangorn_load` does. The bytes
/// may be freed when the call returns.
///
/// # Safety
/// `bytes` points to `length` bytes. `options` and `model` are as for `fangorn_load`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_load_bytes(
    bytes: *const u8,
    length: usize,
    options: *const FangornOptions,
    model: *mut *mut FangornModel,
) -> FangornStatus {
    let make = || {
        // SAFETY: as the caller says.
        let (bytes, options) =
            unsafe { (matrix::slice_of("bytes", bytes, length)?, Options::read(options)?) };
        FangornModel::new(&options, |options| Ok(import::parse(bytes, &options.load)?))
    };
    // SAFETY: as the caller says.
    unsafe { hand_over(model, make) }
}

/// Frees a model. It does nothing if `model` is null.
///
/// # Safety
/// `model` is null, or comes from `fangorn_load` or `fangorn_load_bytes`, was not freed, and no call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_free(model: *mut FangornModel) {
    if !model.is_null() {
        // SAFETY: it was boxed by `hand_over`, and nobody uses it, as the caller says.
        guarded_or((), || drop(unsafe { Box::from_raw(model) }));
    }
}

/// Returns what `ask` returns for the model, or `otherwise` if the model is null or `ask` panics.
///
/// # Safety
/// `model` is null or a model that was not freed.
unsafe fn of_model<R>(model: *const FangornModel, otherwise: R, ask: impl FnOnce(&FangornModel) -> R) -> R
where
    R: Copy,
{
    // SAFETY: as the caller says.
    match unsafe { model.as_ref() } {
        Some(model) => guarded_or(otherwise, || ask(model)),
        None => otherwise,
    }
}

/// Returns the number of columns of a row, or 0 if `model` is null.
///
/// # Safety
/// `model` is null or a model that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_columns(model: *const FangornModel) -> usize {
    // SAFETY: as the caller says.
    unsafe { of_model(model, 0, FangornModel::columns) }
}

/// Returns the number of trees, or 0 if `model` is null.
///
/// # Safety
/// `model` is null or a model that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_trees(model: *const FangornModel) -> usize {
    // SAFETY: as the caller says.
    unsafe { of_model(model, 0, FangornModel::trees) }
}

/// Returns the name of a column, counted from 0. Returns null if the model file gives it no name, if there is no such
/// column, or if `model` is null. The text lives as long as the model.
///
/// # Safety
/// `model` is null or a model that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_column_name(model: *const FangornModel, column: usize) -> *const c_char {
    // SAFETY: as the caller says.
    unsafe { of_model(model, ptr::null(), |model| model.name(column).unwrap_or(ptr::null())) }
}

/// Returns the number of class labels in the model file, or 0 if `model` is null.
///
/// # Safety
/// `model` is null or a model that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_labels(model: *const FangornModel) -> usize {
    // SAFETY: as the caller says.
    unsafe { of_model(model, 0, FangornModel::labels) }
}

/// Returns the label of the class with a number of `FANGORN_CLASSES`. Returns null if the model file has no label for
/// it, or if `model` is null. The text lives as long as the model.
///
/// # Safety
/// `model` is null or a model that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_label(model: *const FangornModel, class_number: usize) -> *const c_char {
    // SAFETY: as the caller says.
    unsafe { of_model(model, ptr::null(), |model| model.label(class_number).unwrap_or(ptr::null())) }
}

/// Returns the warnings of the compilation, one in each line: for example, that the fast code failed its self-check and
/// slower code runs. The text is empty if there are no warnings or if `model` is null. It lives as long as the model.
///
/// # Safety
/// `model` is null or a model that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_warnings(model: *const FangornModel) -> *const c_char {
    // SAFETY: as the caller says.
    unsafe { of_model(model, c"".as_ptr(), FangornModel::warnings) }
}

/// Writes the number of results of one row to `*width`. `output` is one of `FANGORN_VALUES`, `FANGORN_MARGINS`,
/// `FANGORN_CONTRIBUTIONS`, `FANGORN_CLASSES` and `FANGORN_LEAF_IDS`. The call is refused if the model has no such
/// results.
///
/// # Safety
/// `model` is null or a model that was not freed. A number may be written to `width`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_width(
    model: *const FangornModel,
    output: i32,
    width: *mut usize,
) -> FangornStatus {
    guarded(|| {
        // SAFETY: as the caller says.
        let model = unsafe { model_of(model)? };
        if width.is_null() || !width.is_aligned() {
            return Err(Refusal::argument("width: a null or misaligned pointer; give a pointer to a size_t"));
        }
        let found = model.width(Output::of(output)?)?;
        // SAFETY: not null and aligned; writable, as the caller says.
        unsafe { width.write(found) };
        Ok(())
    })
}

/// # Safety
/// `model` is null or a model that was not freed.
unsafe fn model_of<'a>(model: *const FangornModel) -> Result<&'a FangornModel, Refusal> {
    // SAFETY: as the caller says.
    unsafe { model.as_ref() }
        .ok_or_else(|| Refusal::argument("model: a null pointer; make a model with fangorn_load"))
}

/// # Safety
/// `rows` is null or points to a matrix.
unsafe fn matrix_of(rows: *const FangornMatrix) -> Result<FangornMatrix, Refusal> {
    match rows.is_null() || !rows.is_aligned() {
        true => {
            Err(Refusal::argument("rows: a null or misaligned pointer; give a pointer to a FangornMatrix"))
        }
        // SAFETY: not null and aligned; a matrix, as the caller says.
        false => Ok(unsafe { *rows }),
    }
}

/// Checks the arguments of a prediction, and calls `write` with room for the results of all rows.
///
/// # Safety
/// As for `fangorn_predict`. `length` values may be written to `out`.
unsafe fn predict<T>(
    model: *const FangornModel,
    output: i32,
    rows: *const FangornMatrix,
    out: *mut T,
    length: usize,
    write: impl FnOnce(&FangornModel, Output, &Values<'_>, &mut [T]) -> Result<(), Refusal>,
) -> FangornStatus {
    guarded(|| {
        // SAFETY: as the caller says.
        let (model, matrix) = unsafe { (model_of(model)?, matrix_of(rows)?) };
        let output = Output::of(output)?;
        // SAFETY: as the caller says.
        let rows = unsafe { matrix.rows()? };
        model.check(&rows)?;
        let needed = matrix.rows.checked_mul(model.width(output)?);
        // SAFETY: as the caller says.
        let out = unsafe { matrix::room(&matrix, out, length, needed)? };
        write(model, output, &rows, out)
    })
}

/// Predicts rows and writes floats to `out`, row after row. Each row gets as many as `fangorn_width` returns. `output`
/// is `FANGORN_VALUES`, `FANGORN_MARGINS` or `FANGORN_CONTRIBUTIONS`. `length` is the number of floats that `out` has
/// room for. Several threads may predict with the same model at the same time. If the call is refused, the contents of
/// `out` are unspecified.
///
/// # Safety
/// `model` is null or a model that was not freed. `rows` points to a matrix whose `length` values may be read, and
/// `length` floats may be written to `out`. No other thread writes the rows, or uses `out`, while the call runs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_predict(
    model: *const FangornModel,
    output: i32,
    rows: *const FangornMatrix,
    out: *mut f32,
    length: usize,
) -> FangornStatus {
    // SAFETY: as the caller says.
    unsafe { predict(model, output, rows, out, length, FangornModel::floats) }
}

/// Predicts rows and writes integers to `out`, row after row. Each row gets as many as `fangorn_width` returns.
/// `output` is `FANGORN_CLASSES` or `FANGORN_LEAF_IDS`. Otherwise it does what `fangorn_predict` does.
///
/// # Safety
/// See `fangorn_predict`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fangorn_predict_integers(
    model: *const FangornModel,
    output: i32,
    rows: *const FangornMatrix,
    out: *mut i32,
    length: usize,
) -> FangornStatus {
    // SAFETY: as the caller says.
    unsafe { predict(model, output, rows, out, length, FangornModel::integers) }
}
