//! Runs of the stages, one after the other.

// burn-ndarray is deprecated upstream in favour of burn-flex. It is served as long as burn has it.
#![cfg_attr(all(feature = "ndarray", not(feature = "flex")), allow(deprecated))]

use std::{collections::HashMap, sync::Arc};

use burn::{
    backend::ir::{OperationIr, TensorId, TensorIr},
    tensor::{DType, Device, Tensor, TensorData},
};
use fangorn_fusion::{Bindings, Matrix, SingleMatrix};

use super::{
    Argument, FusedFunction,
    argument::{singles, tensor_of},
    stages::{Stage, Work, name, name_of},
};
use crate::error::{Error, Result};

/// Matrices, by the recorded tensors that they stand for.
type Values = HashMap<TensorId, Matrix>;

pub(super) fn run<const N: usize, const M: usize>(
    function: &FusedFunction<N, M>,
    arguments: [Argument; N],
) -> Result<[Tensor<2>; M]> {
    let first = arguments.iter().find_map(|argument| match argument {
        Argument::Tensor(tensor) => Some((tensor.dtype(), tensor.device())),
        Argument::Matrix(_) => None,
    });
    let (dtype, device) = first.unwrap_or_else(|| (DType::F32, Device::default()));
    let mut values: Values = function.constants.iter().cloned().collect();
    for (at, argument) in arguments.into_iter().enumerate() {
        let matrix = argument.into_matrix(at, &function.inputs[at])?;
        values.insert(function.arguments[at], matrix);
    }
    for stage in &function.stages {
        let found = match &stage.work {
            Work::Fused { dag, plan } => {
                let read = stage
                    .reads
                    .iter()
                    .filter_map(|tensor| Some((name_of(tensor.id), values.get(&tensor.id)?.clone())));
                let mut found = plan.run(dag, &Bindings::from_iter(read))?;
                let written = stage.writes.iter();
                let held = |tensor: &TensorIr| {
                    let matrix = found.remove(&name_of(tensor.id))?;
                    let is_rounded = stage.rounded.contains(&tensor.id);
                    let held = if is_rounded { rounded(&matrix, tensor.dtype)? } else { matrix };
                    Some((tensor.id, held))
                };
                written.filter_map(held).collect()
            }
            Work::Burn(operations) => by_burn(operations, stage, &values)?,
        };
        values.extend(found);
    }
    let lost = || Error::Fused("a result is no matrix; return tensors of two dimensions".to_owned());
    let mut results = Vec::with_capacity(M);
    for (at, id) in function.results.iter().enumerate() {
        // The last result of a matrix takes its memory.
        let again = function.results[at + 1..].contains(id);
        let matrix = if again { values.get(id).cloned() } else { values.remove(id) };
        results.push(tensor_of(matrix.ok_or_else(lost)?, dtype, &device));
    }
    results.try_into().map_err(|_| lost())
}

/// The backend that runs operations which are not fused. Their operands are in the host's memory.
#[cfg(feature = "flex")]
type Host = burn::backend::Flex;
#[cfg(all(feature = "ndarray", not(feature = "flex")))]
type Host = burn::backend::NdArray;

#[cfg(any(feature = "flex", feature = "ndarray"))]
fn by_burn(operations: &[OperationIr], stage: &Stage, values: &Values) -> Result<Vec<(TensorId, Matrix)>> {
    let mut interpreter = burn_router::TensorInterpreter::<Host>::new(Default::default());
    for tensor in &stage.reads {
        let lost = || Error::Fused(format!("{}: its operands can't be read", names(operations)));
        let matrix = values.get(&tensor.id).ok_or_else(lost)?;
        interpreter.register_tensor_data_id(tensor.id, data_of(matrix, tensor));
    }
    operations.iter().for_each(|operation| interpreter.register_op(operation.clone()));
    let mut found = Vec::with_capacity(stage.writes.len());
    for tensor in &stage.writes {
        let read = TensorIr { status: burn::backend::ir::TensorStatus::ReadOnly, ..tensor.clone() };
        let data = burn::backend::read_sync(interpreter.read_tensor_async(read));
        let data = data.map_err(|error| Error::Fused(format!("{}: {error}", names(operations))))?;
        let lost = || Error::Fused(format!("{}: a result can't be read", names(operations)));
        let matrix = super::argument::matrix_of(&data).ok_or_else(lost)?;
        found.push((tensor.id, matrix));
    }
    Ok(found)
}

#[cfg(not(any(feature = "flex", feature = "ndarray")))]
fn by_burn(operations: &[OperationIr], _: &Stage, _: &Values) -> Result<Vec<(TensorId, Matrix)>> {
    let names = names(operations);
    Err(Error::Fused(format!(
        "{names} are not fused; enable the feature `flex`, which runs them on the host"
    )))
}

/// Returns a matrix as later stages read it: dense, and of the precision in which burn reads it, so that all compare the
/// same elements.
fn rounded(matrix: &Matrix, dtype: DType) -> Option<Matrix> {
    if dtype == DType::F64 {
        return Matrix::dense(matrix.shape(), matrix.to_dense());
    }
    SingleMatrix::new(matrix.shape(), Arc::new(singles(matrix))).map(Matrix::Single)
}

fn names(operations: &[OperationIr]) -> String {
    operations.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Returns a matrix as the elements of a tensor of the recorded shape and type.
#[cfg(any(feature = "flex", feature = "ndarray"))]
fn data_of(matrix: &Matrix, tensor: &TensorIr) -> TensorData {
    let shape = tensor.shape.clone();
    if tensor.dtype.is_bool() {
        let truths = matrix.to_dense().iter().map(|x| *x != 0.0).collect::<Vec<bool>>();
        return TensorData::new(truths, shape).convert_dtype(tensor.dtype);
    }
    if tensor.dtype == DType::F64 {
        return TensorData::new(matrix.to_dense(), shape);
    }
    if tensor.dtype.is_float() {
        return TensorData::new(singles(matrix), shape).convert_dtype(tensor.dtype);
    }
    let integers = matrix.to_dense().into_iter().map(|x| x as i64).collect::<Vec<i64>>();
    TensorData::new(integers, shape).convert_dtype(tensor.dtype)
}
