//! The operator under burn-capture: it is recorded as a custom operation, not run.

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

use super::{Background, Epilogue, EpilogueTensors, ForestBackend, ForestOp};

impl ForestBackend for Capture {
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], op.outputs()]);
        record("forest_margins", x, [leaves], shape, DType::F32)
    }

    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], op.width()]);
        record("forest_values", x, [leaves], shape, DType::F32)
    }

    fn forest_epilogue(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        tensors: EpilogueTensors<Self>,
        op: Arc<ForestOp>,
        epilogue: Arc<Epilogue>,
    ) -> FloatTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], epilogue.width(&op)]);
        let others = std::iter::once(leaves).chain(tensors.into_vec());
        record("forest_epilogue", x, others, shape, epilogue.dtype())
    }

    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let shape = Shape::from(vec![op.forest().leaf_values.len()]);
        record("forest_leaf_gradients", x, [grad], shape, DType::F32)
    }

    fn forest_contributions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], op.outputs(), op.features() + 1]);
        record("forest_contributions", x, [], shape, DType::F32)
    }

    fn forest_interactions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        let side = op.features() + 1;
        let shape = Shape::from(vec![x.shape()[0], op.outputs(), side, side]);
        record("forest_interactions", x, [], shape, DType::F32)
    }

    fn forest_contributions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], background.outputs(), background.features() + 1]);
        record("forest_contributions_against", x, [], shape, DType::F32)
    }

    fn forest_interactions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        let side = background.features() + 1;
        let shape = Shape::from(vec![x.shape()[0], background.outputs(), side, side]);
        record("forest_interactions_against", x, [], shape, DType::F32)
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        let shape = Shape::from(vec![x.shape()[0], op.trees()]);
        record("forest_slots", x, [], shape, DType::I32)
    }
}

fn record(
    id: &'static str,
    x: FloatTensor<Capture>,
    others: impl IntoIterator<Item = FloatTensor<Capture>>,
    shape: Shape,
    dtype: DType,
) -> FloatTensor<Capture> {
    let client = x.client.clone();
    let out = TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let inputs: Vec<TensorIr> = std::iter::once(x).chain(others).map(|t| t.into_ir()).collect();
    let mut outputs = client.register(OperationIr::Custom(CustomOpIr::new(id, &inputs, &[out])));
    outputs.pop().expect("an operation with one output")
}
