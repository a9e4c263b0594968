//! Decodes the messages of a file, one at a time, and the numbers of tensors.

use prost::Message;
pub(super) use prost::bytes::Bytes;

use super::super::{ErrorKind, ImportError, Location};
use super::error::{CONVERT_AGAIN, at};

pub(super) use super::messages::{
    AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
};

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementType {
    Float,
    Double,
    Int32,
    Int64,
    Text,
    Other(i32),
}

impl ElementType {
    pub(super) fn of(number: i32) -> Self {
        match number {
            1 => Self::Float,
            6 => Self::Int32,
            7 => Self::Int64,
            8 => Self::Text,
            11 => Self::Double,
            other => Self::Other(other),
        }
    }

    /// Returns the type's name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Double => "double",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Text => "string",
            Self::Other(2 | 4 | 12 | 13) => "unsigned integers",
            Self::Other(3 | 5) => "short integers",
            Self::Other(9) => "bool",
            Self::Other(10) => "float16",
            Self::Other(16) => "bfloat16",
            Self::Other(_) => "a type other than float, double, int32, int64",
        }
    }
}

/// Decodes a message; `location` is its path in the file.
pub(super) fn decode<M: Message + Default>(bytes: Bytes, location: &str) -> Result<M, ImportError> {
    M::decode(bytes).map_err(|e| at(ErrorKind::Syntax, location, cause(&e)))
}

/// Decodes the whole file.
pub(super) fn decode_file(bytes: &[u8]) -> Result<ModelProto, ImportError> {
    ModelProto::decode(Bytes::copy_from_slice(bytes)).map_err(|e| {
        let location = Location::Byte(last_field(bytes));
        ImportError::new(ErrorKind::Syntax, location, cause(&e)).with_remedy(CONVERT_AGAIN)
    })
}

/// Returns a decoder error's text, with the path of messages in it and without the decoder's own prefix.
fn cause(error: &prost::DecodeError) -> String {
    let text = error.to_string();
    text.strip_prefix("failed to decode Protobuf message: ").unwrap_or(&text).to_owned()
}

/// Returns where the broken field begins: the first field that can't be skipped, the graph if it does not
/// decode, or else the last field.
fn last_field(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    loop {
        let begin = bytes.len() - rest.len();
        let Ok((number, wire)) = prost::encoding::decode_key(&mut rest) else { return begin };
        let context = prost::encoding::DecodeContext::default();
        let graph = number == 7 && ModelProto::decode(&bytes[begin..]).is_err();
        if graph || prost::encoding::skip_field(wire, number, &mut rest, context).is_err() || rest.is_empty()
        {
            return begin;
        }
    }
}

/// Returns a tensor's numbers as doubles.
pub(super) fn numbers(tensor: &TensorProto, location: &str) -> Result<Vec<f64>, ImportError> {
    if tensor.data_location != 0 {
        let cause = "a tensor whose numbers are in another file is not supported";
        return Err(at(ErrorKind::Unsupported, location, cause).with_remedy(
            "save the model into one file, with onnx.save_model(..., save_as_external_data=False)",
        ));
    }
    let raw = &tensor.raw_data;
    let numbers: Vec<f64> = match tensor.data_type {
        1 if raw.is_empty() => tensor.float_data.iter().map(|v| f64::from(*v)).collect(),
        1 => raw_numbers(raw, location, |b| f64::from(f32::from_le_bytes(b)))?,
        // Floats of 16 bits are in the lower halves of integers.
        10 if raw.is_empty() => tensor.int32_data.iter().map(|bits| half(*bits as u16)).collect(),
        10 => raw_numbers(raw, location, |b| half(u16::from_le_bytes(b)))?,
        11 if raw.is_empty() => tensor.double_data.clone(),
        11 => raw_numbers(raw, location, f64::from_le_bytes)?,
        // Integers beyond 2^53 lose digits here, but none that large is a valid column or class.
        7 if raw.is_empty() => tensor.int64_data.iter().map(|v| *v as f64).collect(),
        7 => raw_numbers(raw, location, |b| i64::from_le_bytes(b) as f64)?,
        2..=6 if raw.is_empty() => tensor.int32_data.iter().map(|v| f64::from(*v)).collect(),
        6 => raw_numbers(raw, location, |b| f64::from(i32::from_le_bytes(b)))?,
        2 => raw_numbers(raw, location, |b: [u8; 1]| f64::from(b[0]))?,
        3 => raw_numbers(raw, location, |b: [u8; 1]| f64::from(b[0] as i8))?,
        4 => raw_numbers(raw, location, |b| f64::from(u16::from_le_bytes(b)))?,
        5 => raw_numbers(raw, location, |b| f64::from(i16::from_le_bytes(b)))?,
        12 if !raw.is_empty() => raw_numbers(raw, location, |b| f64::from(u32::from_le_bytes(b)))?,
        other => {
            let cause = format!("a tensor of {} is not supported here", ElementType::of(other).name());
            return Err(at(ErrorKind::Schema, location, cause));
        }
    };
    let count = tensor.dims.iter().try_fold(1u64, |n, d| n.checked_mul(u64::try_from(*d).ok()?));
    if count != Some(numbers.len() as u64) {
        let shape = tensor.dims.get(..8).unwrap_or(&tensor.dims);
        let cause = format!("{} numbers in a tensor of shape {shape:?}", numbers.len());
        return Err(at(ErrorKind::Structure, location, cause));
    }
    Ok(numbers)
}

/// Returns a float of 16 bits as a double.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff) / 1024.0);
    let size = match exponent {
        0 => fraction * 2f64.powi(-14),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn raw_numbers<const N: usize>(
    raw: &[u8],
    location: &str,
    number: impl Fn([u8; N]) -> f64,
) -> Result<Vec<f64>, ImportError> {
    let (numbers, rest) = raw.as_chunks::<N>();
    if !rest.is_empty() {
        let cause = format!("{} bytes are no whole number of numbers", raw.len());
        return Err(at(ErrorKind::Structure, location, cause));
    }
    Ok(numbers.iter().map(|b| number(*b)).collect())
}
