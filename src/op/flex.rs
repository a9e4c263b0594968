//! The operator on Flex: the CPU program on the tensor's own memory.

use std::sync::Arc;

use burn::{
    backend::{
        Flex, TensorMetadata,
        flex::FlexTensor,
        ops::FloatTensorOps,
        tensor::{FloatTensor, IntTensor},
    },
    tensor::{DType, FloatDType, TensorData},
};

use super::{ForestBackend, ForestOp};
use crate::cpu::Rows;

impl ForestBackend for Flex {
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let batch = x.shape()[0];
        let leaves = leaves.to_contiguous();
        let leaves: &[f32] =
            &leaves.storage::<f32>()[leaves.layout().start_offset()..][..leaves.shape().num_elements()];
        let mut out = vec![0.0f32; batch * op.outputs()];
        with_rows(x, |rows| {
            let predictor = op.predictor().expect("prepared by the caller");
            predictor.program().margins(rows, leaves, &mut out).expect("checked by the caller");
        });
        FlexTensor::from_data(TensorData::new(out, [batch, op.outputs()]))
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        let batch = x.shape()[0];
        let mut out = vec![0u32; batch * op.trees()];
        with_rows(x, |rows| {
            let predictor = op.predictor().expect("prepared by the caller");
            predictor.program().slots(rows, &mut out).expect("checked by the caller");
        });
        let out: Vec<i32> = out.into_iter().map(|s| s as i32).collect();
        FlexTensor::from_data(TensorData::new(out, [batch, op.trees()]))
    }
}

/// The tensor's values as rows: where they lie when they are f32 in positive strides, otherwise widened or copied.
fn with_rows(x: FlexTensor, f: impl FnOnce(&Rows<'_>)) {
    let x = if x.dtype() == DType::F32 { x } else { Flex::float_cast(x, FloatDType::F32) };
    let x = if x.layout().strides().iter().all(|s| *s >= 0) { x } else { x.to_contiguous() };
    let layout = x.layout();
    let shape = [layout.shape()[0], layout.shape()[1]];
    let strides = [layout.strides()[0].unsigned_abs(), layout.strides()[1].unsigned_abs()];
    let data = &x.storage::<f32>()[layout.start_offset()..];
    f(&Rows::strided(data, shape, strides).expect("a tensor's strides stay inside its storage"));
}
