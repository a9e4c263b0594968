//! Tensors as matrices, and matrices as tensors.

// burn-ndarray is deprecated upstream in favour of burn-flex. It is served as long as burn has it.
#![cfg_attr(feature = "ndarray", allow(deprecated))]

use std::sync::Arc;

use burn::{
    backend::DispatchDevice,
    tensor::{DType, Device, FloatDType, Tensor, TensorData},
};
use fangorn_fusion::{Matrix, SingleMatrix};

use super::Input;
use crate::error::{Error, Result};

/// An argument of a call: a tensor, or a matrix in the host's memory, sparse or dense.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A tensor. On Flex and NdArray, `f32` and `f64` are read where they lie.
    Tensor(Box<Tensor<2>>),
    /// A matrix, which stays where it is. A clone shares the elements.
    Matrix(Matrix),
}

impl From<Tensor<2>> for Argument {
    fn from(tensor: Tensor<2>) -> Self {
        Self::Tensor(Box::new(tensor))
    }
}

impl From<Matrix> for Argument {
    fn from(matrix: Matrix) -> Self {
        Self::Matrix(matrix)
    }
}

impl Argument {
    /// Returns the argument as a matrix, if it is what was declared. `at` is its place among the arguments.
    pub(super) fn into_matrix(self, at: usize, declared: &Input) -> Result<Matrix> {
        let wrong = |problem: String| Error::Fused(format!("argument {at}: {problem}"));
        let [rows, columns] = declared.shape;
        let found = match &self {
            Self::Tensor(tensor) => tensor.dims().into(),
            Self::Matrix(matrix) => matrix.shape(),
        };
        if found != (rows, columns) {
            let (r, c) = found;
            return Err(wrong(format!(
                "it has {r} rows and {c} columns, {rows} and {columns} were declared; capture the function for this \
                 shape"
            )));
        }
        match (self, declared.filled) {
            (Self::Tensor(_), Some(_)) => Err(wrong(
                "a matrix in CSR was declared; pass Matrix::csr, or declare Input::dense".to_owned(),
            )),
            (Self::Matrix(matrix), filled) => match (&matrix, filled) {
                (Matrix::Csr(_), None) => Err(wrong(
                    "a dense matrix was declared; declare Input::csr, or pass Matrix::dense".to_owned(),
                )),
                (Matrix::Dense(_) | Matrix::Single(_), Some(_)) => Err(wrong(
                    "a matrix in CSR was declared; pass Matrix::csr, or declare Input::dense".to_owned(),
                )),
                (Matrix::Compressed(_), _) => Err(wrong(
                    "compressed matrices are not taken here; pass Matrix::to_dense of it".to_owned(),
                )),
                _ => Ok(matrix),
            },
            (Self::Tensor(tensor), None) => {
                if let DispatchDevice::Autodiff(_) = tensor.device().as_dispatch() {
                    return Err(wrong("it is on a device with gradients; pass tensor.inner()".to_owned()));
                }
                let tensor = match tensor.dtype() {
                    DType::F64 if declared.dtype == DType::F32 => {
                        return Err(wrong(
                            "it is of f64; declare Input::dense(…).f64(), or cast it to f32".to_owned(),
                        ));
                    }
                    DType::F32 | DType::F64 => *tensor,
                    DType::F16 | DType::BF16 => tensor.cast(FloatDType::F32),
                    other => return Err(wrong(format!("{other:?} is not read; cast it to f32"))),
                };
                of_tensor(tensor).ok_or_else(|| wrong("its elements can't be read".to_owned()))
            }
        }
    }
}

/// Returns a tensor of `f32` or `f64` as a matrix. It is read where it lies if it stands in the host's memory row by row.
fn of_tensor(tensor: Tensor<2>) -> Option<Matrix> {
    let [rows, columns] = tensor.dims();
    #[cfg(feature = "flex")]
    if let Ok(tensor) = tensor.clone().try_into_primitive::<burn::backend::Flex>() {
        return flex::in_place((rows, columns), tensor);
    }
    #[cfg(feature = "ndarray")]
    if let Ok(tensor) = tensor.clone().try_into_primitive::<burn::backend::NdArray>()
        && let Some(matrix) = ndarray::in_place((rows, columns), tensor)
    {
        return Some(matrix);
    }
    matrix_of(&tensor.try_into_data().ok()?)
}

#[cfg(feature = "flex")]
mod flex {
    use std::{marker::PhantomData, sync::Arc};

    use burn::{
        backend::{TensorMetadata, flex::FlexTensor},
        tensor::DType,
    };
    use fangorn_fusion::{DenseMatrix, Matrix, SingleMatrix};

    /// A contiguous tensor whose elements are of a type.
    struct Owner<E>(FlexTensor, PhantomData<E>);

    macro_rules! elements {
        ($element:ty) => {
            impl AsRef<[$element]> for Owner<$element> {
                fn as_ref(&self) -> &[$element] {
                    let Self(tensor, _) = self;
                    let start = tensor.layout().start_offset();
                    &tensor.storage::<$element>()[start..][..tensor.shape().num_elements()]
                }
            }
        };
    }
    elements!(f32);
    elements!(f64);

    /// Returns a tensor of `f32` or `f64` as a matrix, copied only if its strides are others.
    pub fn in_place(shape: (usize, usize), tensor: FlexTensor) -> Option<Matrix> {
        let tensor = tensor.to_contiguous();
        match tensor.dtype() {
            DType::F32 => {
                SingleMatrix::new(shape, Arc::new(Owner::<f32>(tensor, PhantomData))).map(Matrix::Single)
            }
            _ => {
                let dense = DenseMatrix::shared(shape, Arc::new(Owner::<f64>(tensor, PhantomData)))?;
                Some(Matrix::Dense(Arc::new(dense)))
            }
        }
    }
}

#[cfg(feature = "ndarray")]
mod ndarray {
    use std::{marker::PhantomData, sync::Arc};

    use burn::backend::ndarray::NdArrayTensor;
    use fangorn_fusion::{DenseMatrix, Matrix, SingleMatrix};

    /// A tensor whose elements are of a type and stand row by row.
    struct Owner<E>(NdArrayTensor, PhantomData<E>);

    macro_rules! elements {
        ($element:ty, $variant:ident) => {
            impl AsRef<[$element]> for Owner<$element> {
                fn as_ref(&self) -> &[$element] {
                    match &self.0 {
                        NdArrayTensor::$variant(storage) => storage.view().to_slice().unwrap_or(&[]),
                        _ => &[],
                    }
                }
            }
        };
    }
    elements!(f32, F32);
    elements!(f64, F64);

    /// Returns a tensor of `f32` or `f64` as a matrix, or `None` if its elements stand otherwise.
    pub fn in_place(shape: (usize, usize), tensor: NdArrayTensor) -> Option<Matrix> {
        match tensor {
            NdArrayTensor::F32(_) => {
                SingleMatrix::new(shape, Arc::new(Owner::<f32>(tensor, PhantomData))).map(Matrix::Single)
            }
            _ => {
                let dense = DenseMatrix::shared(shape, Arc::new(Owner::<f64>(tensor, PhantomData)))?;
                Some(Matrix::Dense(Arc::new(dense)))
            }
        }
    }
}

/// Returns the elements of a tensor as a matrix: of single precision if they are `f32`, of doubles otherwise. A tensor of
/// more than two dimensions, which only burn's own operations take, becomes one row.
pub(super) fn matrix_of(data: &TensorData) -> Option<Matrix> {
    let shape = match data.shape().as_slice() {
        [rows, columns] => (*rows, *columns),
        lengths => (1, lengths.iter().product()),
    };
    if let Ok(values) = data.as_slice::<f32>() {
        return SingleMatrix::new(shape, Arc::new(values.to_vec())).map(Matrix::Single);
    }
    Matrix::dense(shape, data.iter::<f64>().collect())
}

/// Returns a matrix as a tensor.
pub(super) fn tensor_of(matrix: Matrix, dtype: DType, device: &Device) -> Tensor<2> {
    let (rows, columns) = matrix.shape();
    let data = match dtype {
        DType::F64 => TensorData::new(matrix.into_dense(), [rows, columns]),
        _ => TensorData::new(singles(&matrix), [rows, columns]),
    };
    Tensor::from_data(data, (device, dtype))
}

/// Returns all elements, row-major, rounded to single precision.
pub(super) fn singles(matrix: &Matrix) -> Vec<f32> {
    match matrix {
        Matrix::Single(single) => single.values().to_vec(),
        Matrix::Dense(dense) => dense.values().iter().map(|x| *x as f32).collect(),
        _ => matrix.to_dense().into_iter().map(|x| x as f32).collect(),
    }
}
