//! The operator under autodiff.
//!
//! Margins are linear in the leaf values, so their gradient is exact: leaf `s` of tree `t` collects the gradient of
//! output `target(t)` of every row that reached it. A forest is constant between thresholds, so the gradient with
//! respect to the rows is zero wherever it is defined, and `x` is no parent in the graph.

use std::sync::Arc;

use burn::{
    backend::{
        Autodiff, AutodiffBackend, TensorMetadata,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, Ops, OpsKind, unary},
        },
        tensor::{FloatTensor, IntTensor},
    },
    tensor::{FloatDType, IndexingUpdateOp, Shape, TensorData},
};

use super::{ForestBackend, ForestOp};
use crate::forest::Targets;

impl<B: ForestBackend, C: CheckpointStrategy> ForestBackend for Autodiff<B, C> {
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let rows = x.primitive().clone();
        match Margins.prepare::<C>([leaves.node()]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let state = (rows.clone(), op.clone());
                prep.finish(state, B::forest_margins(rows, leaves.primitive().clone(), op))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::forest_margins(rows, leaves.primitive().clone(), op)),
        }
    }

    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        // `ForestOp::values` makes values of margins where a gradient may be asked for.
        <Self as AutodiffBackend>::from_inner(B::forest_values(
            x.primitive().clone(),
            leaves.primitive().clone(),
            op,
        ))
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        B::forest_slots(x.primitive().clone(), op)
    }
}

#[derive(Debug)]
struct Margins;

impl<B: ForestBackend> Backward<B, 1> for Margins {
    type State = (FloatTensor<B>, Arc<ForestOp>);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let (x, op) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| leaf_gradient::<B>(x, grad, &op));
    }
}

/// The gradient of the leaf values, by slot, from the gradient of the margins.
fn leaf_gradient<B: ForestBackend>(
    x: FloatTensor<B>,
    grad: FloatTensor<B>,
    op: &Arc<ForestOp>,
) -> FloatTensor<B> {
    let device = x.device();
    let (rows, trees, outputs) = (x.shape()[0], op.trees(), op.outputs());
    let slots = B::forest_slots(x, op.clone());
    let slots = B::int_reshape(slots, Shape::from(vec![rows * trees]));
    let width = op.forest().leaf_width();
    // One row of gradients for each row and tree: what the tree's leaf was added to.
    let per_visit = match &op.forest().targets {
        Targets::One(targets) => {
            let targets: Vec<i32> = targets.iter().map(|t| *t as i32).collect();
            let targets = B::int_from_data(TensorData::new(targets, [trees]), &device);
            B::float_select(grad, 1, targets)
        }
        Targets::All => {
            let grad = B::float_reshape(grad, Shape::from(vec![rows, 1, outputs]));
            B::float_repeat_dim(grad, 1, trees)
        }
    };
    let per_visit = B::float_reshape(per_visit, Shape::from(vec![rows * trees, width]));
    let count = op.forest().leaf_values.len();
    let zeros = B::float_zeros(Shape::from(vec![count / width, width]), &device, FloatDType::F32);
    let summed = B::float_select_assign(zeros, 0, slots, per_visit, IndexingUpdateOp::Add);
    B::float_reshape(summed, Shape::from(vec![count]))
}
