//! Rows in the caller's memory.

use std::{ffi::c_void, slice};

use fangorn::cpu::Rows;

use crate::error::Refusal;

/// The values of a matrix are 32-bit floats.
pub const FANGORN_F32: i32 = 0;
/// The values of a matrix are 64-bit floats.
pub const FANGORN_F64: i32 = 1;

/// Rows in the caller's memory, which the library only reads. The value of row r and column c is
/// `values[r * row_stride + c * column_stride]`. NaN is a missing value. `fangorn_matrix_f32` and `fangorn_matrix_f64`
/// describe row-major matrices without gaps.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FangornMatrix {
    /// The first value. It may be null if there are no rows.
    pub values: *const c_void,
    /// The number of values in the memory at `values`. The library never reads past them.
    pub length: usize,
    /// `FANGORN_F32` or `FANGORN_F64`.
    pub value_type: i32,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns. It must be the model's, which `fangorn_columns` returns.
    pub columns: usize,
    /// The distance from one row to the next, in values.
    pub row_stride: usize,
    /// The distance from one column to the next, in values.
    pub column_stride: usize,
}

/// Rows of either type.
pub enum Values<'a> {
    Singles(Rows<'a, f32>),
    Doubles(Rows<'a, f64>),
}

impl FangornMatrix {
    /// Describes a row-major matrix without gaps.
    pub fn dense(values: *const c_void, value_type: i32, rows: usize, columns: usize) -> Self {
        let length = rows.saturating_mul(columns);
        Self { values, length, value_type, rows, columns, row_stride: columns, column_stride: 1 }
    }

    /// Returns the rows.
    ///
    /// # Safety
    /// `values` points to `length` values of the type, which nobody changes while the result lives.
    pub unsafe fn rows<'a>(&self) -> Result<Values<'a>, Refusal> {
        let shape = [self.rows, self.columns];
        let strides = [self.row_stride, self.column_stride];
        match self.value_type {
            FANGORN_F32 => {
                // SAFETY: as the caller says.
                let values = unsafe { slice_of("rows", self.values.cast::<f32>(), self.length)? };
                Ok(Values::Singles(Rows::strided(values, shape, strides)?))
            }
            FANGORN_F64 => {
                // SAFETY: as the caller says.
                let values = unsafe { slice_of("rows", self.values.cast::<f64>(), self.length)? };
                Ok(Values::Doubles(Rows::strided(values, shape, strides)?))
            }
            other => Err(Refusal::argument(format!(
                "rows: value_type is {other}; give FANGORN_F32 (0) or FANGORN_F64 (1)"
            ))),
        }
    }

    /// Returns the addresses that the matrix may read: the first, and the one after the last.
    fn addresses(&self) -> (usize, usize) {
        let size = if self.value_type == FANGORN_F64 { 8 } else { 4 };
        let first = self.values.addr();
        (first, first.saturating_add(self.length.saturating_mul(size)))
    }
}

/// Checks a pointer to `length` values.
fn checked<T>(name: &str, values: *const T, length: usize) -> Result<(), Refusal> {
    if values.is_null() {
        return Err(Refusal::argument(format!("{name}: a null pointer for {length} values")));
    }
    if !values.is_aligned() {
        let size = align_of::<T>();
        return Err(Refusal::argument(format!(
            "{name}: the address is no multiple of {size}; copy the values to aligned memory"
        )));
    }
    match length.checked_mul(size_of::<T>()).is_some_and(|bytes| isize::try_from(bytes).is_ok()) {
        true => Ok(()),
        false => Err(Refusal::argument(format!("{name}: {length} values are more than memory holds"))),
    }
}

/// Returns the values that a pointer points to.
///
/// # Safety
/// If `values` is not null, it points to `length` values, which nobody changes while the result lives.
pub unsafe fn slice_of<'a, T>(name: &str, values: *const T, length: usize) -> Result<&'a [T], Refusal> {
    if length == 0 {
        return Ok(&[]);
    }
    checked(name, values, length)?;
    // SAFETY: not null, aligned, and no longer than memory, as checked; the rest as the caller says.
    Ok(unsafe { slice::from_raw_parts(values, length) })
}

/// Returns room for `needed` values, all zero, at the start of a buffer for results.
///
/// # Safety
/// If `out` is not null, `length` values may be written there, which nobody reads or writes while the result lives.
pub unsafe fn room<'a, T>(
    matrix: &FangornMatrix,
    out: *mut T,
    length: usize,
    needed: Option<usize>,
) -> Result<&'a mut [T], Refusal> {
    let needed = needed.filter(|needed| *needed <= length).ok_or_else(|| {
        let needed = needed.map_or("more than memory holds".to_owned(), |needed| needed.to_string());
        Refusal::argument(format!(
            "out: it has room for {length} values, but {} rows need {needed}; fangorn_width returns the number for a \
             row",
            matrix.rows
        ))
    })?;
    if needed == 0 {
        return Ok(&mut []);
    }
    checked("out", out, needed)?;
    let ((first, end), start) = (matrix.addresses(), out.addr());
    if start < end && first < start.saturating_add(needed * size_of::<T>()) {
        return Err(Refusal::argument("out: it overlaps the rows; give memory of its own"));
    }
    // SAFETY: not null, aligned, no longer than memory, and apart from the rows, as checked; writable as the caller says.
    // All bits zero are a value of each type that results have.
    unsafe {
        out.write_bytes(0, needed);
        Ok(slice::from_raw_parts_mut(out, needed))
    }
}
