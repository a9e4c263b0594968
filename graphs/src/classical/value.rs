//! Values of a graph: floats, integers or truth values of up to four dimensions on a device, and other tensors on the
//! host.

use std::sync::Arc;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use fangorn::graph::{self, Dtype, Elements, TensorType};

use crate::error::{Error, Result};

/// The maximum number of dimensions of a value.
pub(super) const MOST_DIMENSIONS: usize = 4;

/// A value of a graph. [`From`] makes it of a burn tensor of one to four dimensions, or of a tensor on the host, such as
/// a list of texts. [`Value::float`], [`Value::int`], [`Value::bool`] and [`Value::on_host`] return the tensor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// Floats, padded in front to four dimensions with lengths of 1, and the number of dimensions without the
    /// padding.
    Float(Tensor<4>, usize),
    /// Integers, padded in the same way.
    Int(Tensor<4, Int>, usize),
    /// Truth values, padded in the same way.
    Bool(Tensor<4, Bool>, usize),
    /// A tensor on the host: texts, a shape, a weight that is no float, or a tensor of more than four dimensions.
    Host(Arc<graph::Tensor>),
}

impl From<graph::Tensor> for Value {
    fn from(tensor: graph::Tensor) -> Self {
        Self::Host(tensor.into())
    }
}

/// Returns a shape with dimensions of length 1 before it.
pub(super) fn padded(shape: &[usize]) -> [usize; 4] {
    let mut lengths = [1; 4];
    lengths[4 - shape.len()..].copy_from_slice(shape);
    lengths
}

macro_rules! from_tensors {
    ($($dimensions:literal)*) => {$(
        impl From<Tensor<$dimensions>> for Value {
            fn from(tensor: Tensor<$dimensions>) -> Self {
                let shape = padded(&tensor.dims());
                Self::Float(tensor.reshape(shape), $dimensions)
            }
        }
        impl From<Tensor<$dimensions, Int>> for Value {
            fn from(tensor: Tensor<$dimensions, Int>) -> Self {
                let shape = padded(&tensor.dims());
                Self::Int(tensor.reshape(shape), $dimensions)
            }
        }
        impl From<Tensor<$dimensions, Bool>> for Value {
            fn from(tensor: Tensor<$dimensions, Bool>) -> Self {
                let shape = padded(&tensor.dims());
                Self::Bool(tensor.reshape(shape), $dimensions)
            }
        }
    )*};
}
from_tensors!(1 2 3 4);

impl Value {
    pub(super) fn float_of(tensor: Tensor<4>, dimensions: usize) -> Self {
        Self::Float(tensor, dimensions)
    }

    /// Returns the shape, without the padding.
    pub fn shape(&self) -> Vec<usize> {
        let own = |lengths: [usize; 4], dimensions: usize| lengths[4 - dimensions..].to_vec();
        match self {
            Self::Float(tensor, dimensions) => own(tensor.dims(), *dimensions),
            Self::Int(tensor, dimensions) => own(tensor.dims(), *dimensions),
            Self::Bool(tensor, dimensions) => own(tensor.dims(), *dimensions),
            Self::Host(tensor) => tensor.shape().to_vec(),
        }
    }

    /// Returns the name of the elements' kind.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Float(..) => "floats",
            Self::Int(..) => "integers",
            Self::Bool(..) => "truth values",
            Self::Host(_) => "elements on the host",
        }
    }

    /// Tells whether the value is of the kind that stands for a type on a device.
    pub(super) fn is(&self, dtype: Dtype) -> bool {
        match self {
            Self::Float(..) => matches!(dtype, Dtype::F32 | Dtype::F64),
            Self::Int(..) => matches!(dtype, Dtype::I32 | Dtype::I64),
            Self::Bool(..) => dtype == Dtype::Bool,
            Self::Host(tensor) => tensor.dtype() == dtype,
        }
    }

    /// Returns the floats, as a tensor of as many dimensions as the value has.
    ///
    /// # Errors
    /// The value is of another kind, or has another number of dimensions.
    pub fn float<const D: usize>(&self) -> Result<Tensor<D>> {
        match self {
            Self::Float(tensor, dimensions) if *dimensions == D => {
                Ok(tensor.clone().reshape::<D, _>(lengths(self)))
            }
            other => Err(other.is_not("floats", D)),
        }
    }

    /// Returns the integers, as a tensor of as many dimensions as the value has.
    ///
    /// # Errors
    /// The value is of another kind, or has another number of dimensions.
    pub fn int<const D: usize>(&self) -> Result<Tensor<D, Int>> {
        match self {
            Self::Int(tensor, dimensions) if *dimensions == D => {
                Ok(tensor.clone().reshape::<D, _>(lengths(self)))
            }
            other => Err(other.is_not("integers", D)),
        }
    }

    /// Returns the truth values, as a tensor of as many dimensions as the value has.
    ///
    /// # Errors
    /// The value is of another kind, or has another number of dimensions.
    pub fn bool<const D: usize>(&self) -> Result<Tensor<D, Bool>> {
        match self {
            Self::Bool(tensor, dimensions) if *dimensions == D => {
                Ok(tensor.clone().reshape::<D, _>(lengths(self)))
            }
            other => Err(other.is_not("truth values", D)),
        }
    }

    fn is_not(&self, wanted: &str, dimensions: usize) -> Error {
        Error::Graph(format!(
            "{} of shape {:?} are no {wanted} of {dimensions} dimensions",
            self.kind(),
            self.shape()
        ))
    }

    /// Returns the tensor if it is on the host, and `None` if it is on a device.
    pub fn on_host(&self) -> Option<&graph::Tensor> {
        match self {
            Self::Host(tensor) => Some(tensor),
            _ => None,
        }
    }

    /// Returns the value as a tensor on the host, with elements of this type. Waits for the device.
    pub(super) fn read(&self, dtype: Dtype) -> Result<Arc<graph::Tensor>> {
        let data = match self {
            Self::Host(tensor) => return Ok(Arc::clone(tensor)),
            Self::Float(tensor, _) => tensor.clone().try_into_data(),
            Self::Int(tensor, _) => tensor.clone().try_into_data(),
            Self::Bool(tensor, _) => tensor.clone().try_into_data(),
        };
        let data = data.map_err(|error| Error::Graph(format!("the device does not answer: {error}")))?;
        let elements = match self {
            // An i64 above 2^53 is no double.
            Self::Int(..) if dtype == Dtype::I64 => Some(Elements::I64(data.iter::<i64>().collect())),
            Self::Bool(..) => Elements::of_doubles(
                dtype,
                data.iter::<bool>().map(|truth| f64::from(u8::from(truth))).collect(),
            ),
            _ => Elements::of_doubles(dtype, data.iter::<f64>().collect()),
        };
        elements
            .and_then(|elements| graph::Tensor::new(self.shape(), elements))
            .map(Arc::new)
            .ok_or_else(|| Error::Graph(format!("{} are no {dtype}", self.kind())))
    }

    pub(super) fn host(&self) -> Option<Arc<graph::Tensor>> {
        match self {
            Self::Host(tensor) => Some(Arc::clone(tensor)),
            _ => None,
        }
    }

    pub(super) fn device(&self) -> Option<Device> {
        match self {
            Self::Float(tensor, _) => Some(tensor.device()),
            Self::Int(tensor, _) => Some(tensor.device()),
            Self::Bool(tensor, _) => Some(tensor.device()),
            Self::Host(_) => None,
        }
    }

    /// Returns the value on a device.
    pub(super) fn on(&self, device: &Device) -> Result<Self> {
        let Self::Host(tensor) = self else { return Ok(self.clone()) };
        let dimensions = tensor.shape().len();
        if dimensions > MOST_DIMENSIONS {
            return Err(Error::Graph("a tensor of more than four dimensions is not on a device".into()));
        }
        let shape = padded(tensor.shape());
        Ok(match tensor.elements() {
            Elements::Bool(values) => {
                Self::Bool(Tensor::from_data(TensorData::new(values.clone(), shape), device), dimensions)
            }
            Elements::I32(values) => {
                Self::Int(Tensor::from_data(TensorData::new(values.clone(), shape), device), dimensions)
            }
            Elements::I64(values) => {
                Self::Int(Tensor::from_data(TensorData::new(values.clone(), shape), device), dimensions)
            }
            Elements::F32(values) => {
                Self::Float(Tensor::from_data(TensorData::new(values.clone(), shape), device), dimensions)
            }
            Elements::F64(values) => {
                let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                Self::Float(Tensor::from_data(TensorData::new(values, shape), device), dimensions)
            }
            Elements::Text(_) => return Err(Error::Graph("texts are not on a device".into())),
        })
    }

    /// Tells whether a device holds tensors of this type.
    pub(super) fn fits_device(found: &TensorType) -> bool {
        found.dtype != Dtype::Text
            && found.dimensions().is_some_and(|dimensions| dimensions <= MOST_DIMENSIONS)
    }

    /// Returns a value on the device if a device holds such a tensor, and otherwise as it is.
    pub(super) fn on_if_fits(self, device: &Device) -> Result<Self> {
        match &self {
            Self::Host(tensor) if Self::fits_device(&TensorType::of(tensor)) => self.on(device),
            _ => Ok(self),
        }
    }

    /// Returns numbers and truth values as floats.
    pub(super) fn as_floats(&self) -> Result<Self> {
        Ok(match self {
            Self::Int(tensor, dimensions) => Self::Float(tensor.clone().float(), *dimensions),
            Self::Bool(tensor, dimensions) => Self::Float(tensor.clone().float(), *dimensions),
            other => other.clone(),
        })
    }
}

/// Returns the lengths of a value of `D` dimensions.
fn lengths<const D: usize>(value: &Value) -> [usize; D] {
    let shape = value.shape();
    std::array::from_fn(|at| shape.get(at).copied().unwrap_or(1))
}
