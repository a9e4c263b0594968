//! Decodes tensors of a file with their own types.

use std::sync::Arc;

use super::super::super::{ErrorKind, ImportError};
use super::super::{
    at,
    proto::{self, TensorProto},
};
use crate::graph::{Dtype, Elements, Tensor};

/// Returns a graph's type for an element type of ONNX.
pub(super) fn dtype(number: i32) -> Option<Dtype> {
    match number {
        1 => Some(Dtype::F32),
        6 => Some(Dtype::I32),
        // Smaller integers are widened. So are unsigned integers of up to 32 bits.
        2 | 3 | 4 | 5 | 7 | 12 => Some(Dtype::I64),
        8 => Some(Dtype::Text),
        9 => Some(Dtype::Bool),
        11 => Some(Dtype::F64),
        _ => None,
    }
}

/// Returns a graph's type for an element type of an input. Floats of 16 bits are widened, so results are rounded to
/// 32 bits and not to 16.
pub(super) fn widened(number: i32) -> Option<Dtype> {
    if number == 10 { Some(Dtype::F32) } else { dtype(number) }
}

/// Decodes a tensor.
pub(super) fn tensor(tensor: &TensorProto, location: &str) -> Result<Tensor, ImportError> {
    let raw = &tensor.raw_data;
    let elements = match tensor.data_type {
        7 if tensor.data_location == 0 && raw.is_empty() => Elements::I64(tensor.int64_data.clone()),
        7 if tensor.data_location == 0 => {
            let (numbers, rest) = raw.as_chunks::<8>();
            if !rest.is_empty() {
                let cause = format!("{} bytes are no whole number of numbers", raw.len());
                return Err(at(ErrorKind::Structure, location, cause));
            }
            Elements::I64(numbers.iter().map(|b| i64::from_le_bytes(*b)).collect())
        }
        8 => Elements::Text(tensor.string_data.iter().map(|text| words(text)).collect()),
        9 if tensor.data_location == 0 && raw.is_empty() => {
            Elements::Bool(tensor.int32_data.iter().map(|v| *v != 0).collect())
        }
        9 if tensor.data_location == 0 => Elements::Bool(raw.iter().map(|v| *v != 0).collect()),
        number => {
            let numbers = proto::numbers(tensor, location)?;
            let elements = widened(number).and_then(|dtype| Elements::of_doubles(dtype, numbers));
            elements.ok_or_else(|| {
                at(ErrorKind::Unsupported, location, "a tensor of this type is not supported")
            })?
        }
    };
    let shape = tensor.dims.iter().map(|length| usize::try_from(*length).ok()).collect::<Option<Vec<_>>>();
    shape.and_then(|shape| Tensor::new(shape, elements)).ok_or_else(|| {
        let shape = tensor.dims.get(..8).unwrap_or(&tensor.dims);
        at(ErrorKind::Structure, location, format!("another number of elements than the shape {shape:?} has"))
    })
}

/// Returns a text of the file.
pub(super) fn words(text: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(text).into()
}

/// Makes a list.
pub(super) fn list(elements: Elements) -> Tensor {
    Tensor::new([elements.len()], elements).expect("a list has as many elements as it has")
}
