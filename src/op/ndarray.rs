//! The operator on NdArray: it runs the CPU program on the array's own memory. NdArray stores neither f16 nor
//! bf16.

// burn-ndarray is deprecated upstream in favour of burn-flex. It is served as long as burn has it.
#![allow(deprecated)]

use std::{borrow::Cow, sync::Arc};

use burn::{
    backend::{
        NdArray, TensorMetadata,
        ndarray::NdArrayTensor,
        ops::FloatTensorOps,
        tensor::{FloatTensor, IntTensor},
    },
    tensor::FloatDType,
};

use super::{Background, Epilogue, EpilogueTensors, ForestBackend, ForestOp};
use crate::cpu::Rows;

impl ForestBackend for NdArray {
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let found = values(&leaves);
        let leaves = op.cpu_leaves(&leaves, &found, in_place);
        NdArrayTensor::from_data(with_rows(x, |rows| op.cpu_margins(rows, leaves)))
    }

    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let found = values(&leaves);
        let leaves = op.cpu_leaves(&leaves, &found, in_place);
        NdArrayTensor::from_data(with_rows(x, |rows| op.cpu_values(rows, leaves)))
    }

    fn forest_epilogue(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        tensors: EpilogueTensors<Self>,
        op: Arc<ForestOp>,
        epilogue: Arc<Epilogue>,
    ) -> FloatTensor<Self> {
        let found = values(&leaves);
        let leaves = op.cpu_leaves(&leaves, &found, in_place);
        let tensors = tensors.into_vec();
        let tensors: Vec<Cow<'_, [f32]>> = tensors.iter().map(values).collect();
        let beside: Vec<&[f32]> = tensors.iter().map(|t| &t[..]).collect();
        NdArrayTensor::from_data(with_rows(x, |rows| op.cpu_with_epilogue(rows, leaves, &beside, &epilogue)))
    }

    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let grad = values(&grad);
        NdArrayTensor::from_data(with_rows(x, |rows| op.cpu_leaf_gradients(rows, &grad)))
    }

    fn forest_contributions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        NdArrayTensor::from_data(with_rows(x, |rows| op.cpu_contributions(rows)))
    }

    fn forest_interactions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        NdArrayTensor::from_data(with_rows(x, |rows| op.cpu_interactions(rows)))
    }

    fn forest_contributions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        NdArrayTensor::from_data(with_rows(x, |rows| background.on_cpu(rows)))
    }

    fn forest_interactions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        NdArrayTensor::from_data(with_rows(x, |rows| background.interactions_on_cpu(rows)))
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        NdArrayTensor::from_data(with_rows(x, |rows| op.cpu_slots(rows)))
    }
}

/// Returns the values in place, or `None` if they are not in row-major order.
fn in_place(tensor: &NdArrayTensor) -> Option<&[f32]> {
    match tensor {
        NdArrayTensor::F32(storage) => storage.view().to_slice(),
        _ => None,
    }
}

/// Returns the values in row-major order. They are borrowed if the array holds them in that order, and copied
/// otherwise.
fn values(tensor: &NdArrayTensor) -> Cow<'_, [f32]> {
    if let NdArrayTensor::F32(storage) = tensor {
        let view = storage.view();
        return match view.to_slice() {
            Some(values) => values.into(),
            None => view.iter().copied().collect(),
        };
    }
    match NdArray::float_cast(tensor.clone(), FloatDType::F32) {
        NdArrayTensor::F32(storage) => storage.view().iter().copied().collect(),
        _ => unreachable!("a tensor cast to f32 is f32"),
    }
}

/// Calls `f` with the array's values as rows. They are read in place if their strides allow it, and are
/// copied otherwise.
fn with_rows<R>(x: NdArrayTensor, f: impl FnOnce(&Rows<'_>) -> R) -> R {
    let shape = [x.shape()[0], x.shape()[1]];
    if let NdArrayTensor::F32(storage) = &x {
        let view = storage.view();
        let strides: Vec<usize> = view.strides().iter().filter_map(|s| usize::try_from(*s).ok()).collect();
        // The slice in memory order starts at the first value if no stride is negative.
        if let (Some(data), [row, column]) = (view.as_slice_memory_order(), &strides[..]) {
            return f(
                &Rows::strided(data, shape, [*row, *column]).expect("an array's strides stay inside it")
            );
        }
    }
    let data = values(&x);
    f(&Rows::strided(&data, shape, [shape[1], 1]).expect("row-major values"))
}
