//! The operator on Flex: it runs the CPU program on the tensor's own memory.

use std::sync::Arc;

use burn::{
    backend::{
        Flex, TensorMetadata,
        flex::FlexTensor,
        ops::FloatTensorOps,
        tensor::{FloatTensor, IntTensor},
    },
    tensor::{DType, FloatDType},
};

use super::{Background, Epilogue, EpilogueTensors, ForestBackend, ForestOp};
use crate::cpu::Rows;

impl ForestBackend for Flex {
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let leaves = leaves.to_contiguous();
        let leaves = op.cpu_leaves(&leaves, values(&leaves), |kept| Some(values(kept)));
        FlexTensor::from_data(with_rows(x, |rows| op.cpu_margins(rows, leaves)))
    }

    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let leaves = leaves.to_contiguous();
        let leaves = op.cpu_leaves(&leaves, values(&leaves), |kept| Some(values(kept)));
        FlexTensor::from_data(with_rows(x, |rows| op.cpu_values(rows, leaves)))
    }

    fn forest_epilogue(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        tensors: EpilogueTensors<Self>,
        op: Arc<ForestOp>,
        epilogue: Arc<Epilogue>,
    ) -> FloatTensor<Self> {
        let leaves = leaves.to_contiguous();
        let leaves = op.cpu_leaves(&leaves, values(&leaves), |kept| Some(values(kept)));
        let tensors: Vec<FlexTensor> = tensors.into_vec().iter().map(FlexTensor::to_contiguous).collect();
        let beside: Vec<&[f32]> = tensors.iter().map(values).collect();
        FlexTensor::from_data(with_rows(x, |rows| op.cpu_with_epilogue(rows, leaves, &beside, &epilogue)))
    }

    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let grad = grad.to_contiguous();
        FlexTensor::from_data(with_rows(x, |rows| op.cpu_leaf_gradients(rows, values(&grad))))
    }

    fn forest_contributions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        FlexTensor::from_data(with_rows(x, |rows| op.cpu_contributions(rows)))
    }

    fn forest_interactions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        FlexTensor::from_data(with_rows(x, |rows| op.cpu_interactions(rows)))
    }

    fn forest_contributions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        FlexTensor::from_data(with_rows(x, |rows| background.on_cpu(rows)))
    }

    fn forest_interactions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        FlexTensor::from_data(with_rows(x, |rows| background.interactions_on_cpu(rows)))
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        FlexTensor::from_data(with_rows(x, |rows| op.cpu_slots(rows)))
    }
}

/// Returns the values of a contiguous tensor of f32.
fn values(tensor: &FlexTensor) -> &[f32] {
    &tensor.storage::<f32>()[tensor.layout().start_offset()..][..tensor.shape().num_elements()]
}

/// Calls `f` with the tensor's values as rows. They are read in place if they are f32 without negative
/// strides, and are widened or copied otherwise.
fn with_rows<R>(x: FlexTensor, f: impl FnOnce(&Rows<'_>) -> R) -> R {
    let x = if x.dtype() == DType::F32 { x } else { Flex::float_cast(x, FloatDType::F32) };
    let x = if x.layout().strides().iter().all(|s| *s >= 0) { x } else { x.to_contiguous() };
    let layout = x.layout();
    let shape = [layout.shape()[0], layout.shape()[1]];
    let strides = [layout.strides()[0].unsigned_abs(), layout.strides()[1].unsigned_abs()];
    let data = &x.storage::<f32>()[layout.start_offset()..];
    f(&Rows::strided(data, shape, strides).expect("a tensor's strides stay inside its storage"))
}
