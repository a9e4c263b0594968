//! The operator under burn-capture: recorded as a custom operation, not run.

use std::sync::Arc;

use burn::{
    backend::{
        Capture, TensorMetadata,
        ir::{CustomOpIr, OperationIr, TensorIr},
        tensor::{FloatTensor, IntTensor},
    },
    tensor::{DType, Shape},
};
use burn_router::RouterClient;

use super::{ForestBackend, ForestOp};

impl ForestBackend for Capture {
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], op.outputs()]);
        record("forest_margins", x, Some(leaves), shape, DType::F32)
    }

    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], op.values_width()]);
        record("forest_values", x, Some(leaves), shape, DType::F32)
    }

    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let shape = Shape::from(vec![op.forest().leaf_values.len()]);
        record("forest_leaf_gradients", x, Some(grad), shape, DType::F32)
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], op.trees()]);
        record("forest_slots", x, None, shape, DType::I32)
    }
}

fn record(
    id: &'static str,
    x: FloatTensor<Capture>,
    other: Option<FloatTensor<Capture>>,
    shape: Shape,
    dtype: DType,
) -> FloatTensor<Capture> {
    let client = x.client.clone();
    let out = TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let inputs: Vec<TensorIr> = [Some(x), other].into_iter().flatten().map(|t| t.into_ir()).collect();
    let mut outputs = client.register(OperationIr::Custom(CustomOpIr::new(id, &inputs, &[out])));
    outputs.pop().expect("an operation with one output")
}
