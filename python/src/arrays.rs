//! Arrays of numpy: views of their memory, and new arrays for results.

use half::{bf16, f16};
use numpy::{
    Element, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray, PyUntypedArrayMethods,
};
use pyo3::{IntoPyObjectExt, exceptions::PyBufferError, prelude::*};

use fangorn::table::ColumnValues;

/// An array of one of the types that are read in place. It is borrowed for reading, so no other extension in Rust can
/// write to it meanwhile. Python code on another thread can; a prediction then reads the old value or the new one.
pub enum Held<'py> {
    F64(PyReadonlyArrayDyn<'py, f64>),
    F32(PyReadonlyArrayDyn<'py, f32>),
    F16(PyReadonlyArrayDyn<'py, f16>),
    I32(PyReadonlyArrayDyn<'py, i32>),
    I16(PyReadonlyArrayDyn<'py, i16>),
    I8(PyReadonlyArrayDyn<'py, i8>),
    U32(PyReadonlyArrayDyn<'py, u32>),
    U16(PyReadonlyArrayDyn<'py, u16>),
    U8(PyReadonlyArrayDyn<'py, u8>),
}

macro_rules! each_type {
    ($array:expr, $run:ident($($argument:expr)?)) => {
        match $array {
            Held::F64(array) => $run(array $(, $argument)?),
            Held::F32(array) => $run(array $(, $argument)?),
            Held::F16(array) => $run(array $(, $argument)?),
            Held::I32(array) => $run(array $(, $argument)?),
            Held::I16(array) => $run(array $(, $argument)?),
            Held::I8(array) => $run(array $(, $argument)?),
            Held::U32(array) => $run(array $(, $argument)?),
            Held::U16(array) => $run(array $(, $argument)?),
            Held::U8(array) => $run(array $(, $argument)?),
        }
    };
}

impl<'py> Held<'py> {
    /// Borrows an array, if it is a `numpy.ndarray` of a type that is read in place. The most frequent types are tried
    /// first.
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        // A subclass may give values another meaning: a masked array says which of them count.
        if !object.is_exact_instance_of::<PyUntypedArray>() {
            return Ok(None);
        }
        macro_rules! try_each {
            ($($variant:ident $t:ty),+) => {
                $(if let Ok(array) = object.cast::<PyArrayDyn<$t>>() {
                    let borrowed = array.try_readonly();
                    return Ok(Some(Self::$variant(borrowed.map_err(|e| PyBufferError::new_err(e.to_string()))?)));
                })+
            };
        }
        try_each!(F32 f32, F64 f64, I32 i32, U8 u8, I16 i16, I8 i8, U16 u16, U32 u32, F16 f16);
        Ok(None)
    }

    /// Returns the number of the array's dimensions.
    pub fn dimensions(&self) -> usize {
        fn dimensions<T: Element>(array: &PyReadonlyArrayDyn<'_, T>) -> usize {
            array.ndim()
        }
        each_type!(self, dimensions())
    }

    /// Returns a view of the values of an array of one or two dimensions. An array of one dimension is a column.
    /// Returns `None` if the memory has a layout that a view can't describe.
    pub fn view(&self) -> Option<View<'_>> {
        each_type!(self, view())
    }
}

/// Values in an array's memory. Value `(r, c)` is at `r * strides[0] + c * strides[1]`. If rows or columns are
/// `reversed`, `r` or `c` counts from the last one.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub values: ColumnValues<'a>,
    pub shape: [usize; 2],
    pub strides: [usize; 2],
    /// Whether the array's last row comes first in memory, and whether its last column does.
    pub reversed: [bool; 2],
}

impl View<'_> {
    /// Returns the same bits as bfloat16 numbers, if the values have 16 bits.
    pub fn bfloat(self) -> Option<Self> {
        match self.values {
            ColumnValues::U16(words) => {
                // SAFETY: `bf16` is a transparent wrapper of `u16`, and each word is one.
                let values =
                    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<bf16>(), words.len()) };
                Some(Self { values: ColumnValues::Bf16(values), ..self })
            }
            _ => None,
        }
    }
}

fn view<'a, T: Element>(array: &'a PyReadonlyArrayDyn<'_, T>) -> Option<View<'a>>
where
    &'a [T]: Into<ColumnValues<'a>>,
{
    let (shape, bytes) = match (array.shape(), array.strides()) {
        ([rows, columns], [row, column]) => ([*rows, *columns], [*row, *column]),
        ([rows], [row]) => ([*rows, 1], [*row, 0]),
        _ => return None,
    };
    if shape.contains(&0) {
        let empty: &[T] = &[];
        return Some(View { values: empty.into(), shape, strides: [shape[1], 1], reversed: [false; 2] });
    }
    let size = size_of::<T>() as isize;
    let data: *const T = array.data();
    if !data.is_aligned() || bytes.iter().any(|stride| stride % size != 0) {
        return None;
    }
    // The stride of a dimension of length 1 has no meaning in numpy.
    let stride = |of: usize| if shape[of] == 1 { 0 } else { bytes[of] / size };
    let strides = [stride(0), stride(1)];
    let reach = |of: usize| strides[of].unsigned_abs().checked_mul(shape[of] - 1);
    let length = reach(0)?.checked_add(reach(1)?)?.checked_add(1)?;
    let back = |of: usize| if strides[of] < 0 { reach(of) } else { Some(0) };
    let first = data.wrapping_sub(back(0)? + back(1)?);
    // SAFETY: numpy's shape and strides say that the values from the lowest to the highest address are in the memory that
    // the array's base owns, and the array is held for 'a. The address is aligned, and every bit pattern is a value of
    // these types. The borrow keeps other code in Rust from writing to it.
    let values = unsafe { std::slice::from_raw_parts(first, length) };
    let reversed = strides.map(|stride| stride < 0);
    Some(View { values: values.into(), shape, strides: strides.map(isize::unsigned_abs), reversed })
}

/// Makes an array that takes over the memory of the results.
pub fn array<'py, T: Element>(
    py: Python<'py>,
    values: Vec<T>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let array = PyArray1::from_vec(py, values);
    match shape {
        [_] => array.into_bound_py_any(py),
        shape => array.reshape(shape.to_vec())?.into_bound_py_any(py),
    }
}
