//! The operator under autodiff.
//!
//! Margins are linear in the leaf values, so their gradient is exact: leaf `s` of tree `t` collects the
//! gradient of output `target(t)` of every row that reached it. A forest is constant between thresholds, so
//! the gradient with respect to the rows is zero wherever it is defined, and `x` is no parent in the graph.

use std::sync::Arc;

use burn::backend::{
    Autodiff, AutodiffBackend,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, Ops, OpsKind, unary},
    },
    tensor::{FloatTensor, IntTensor},
};

use super::{Background, Epilogue, EpilogueTensors, ForestBackend, ForestOp};

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
        // `ForestOp::values` computes values from margins by tensor operations if a gradient may be asked
        // for.
        <Self as AutodiffBackend>::from_inner(B::forest_values(
            x.primitive().clone(),
            leaves.primitive().clone(),
            op,
        ))
    }

    fn forest_epilogue(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        tensors: EpilogueTensors<Self>,
        op: Arc<ForestOp>,
        epilogue: Arc<Epilogue>,
    ) -> FloatTensor<Self> {
        // `super::forest_with_epilogue` takes tensor operations if a gradient may be asked for.
        <Self as AutodiffBackend>::from_inner(B::forest_epilogue(
            x.primitive().clone(),
            leaves.primitive().clone(),
            tensors.map(|t| t.primitive().clone()),
            op,
            epilogue,
        ))
    }

    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        // The gradient of this gradient is not tracked: margins are linear in the leaf values, so it is zero.
        <Self as AutodiffBackend>::from_inner(B::forest_leaf_gradients(
            x.primitive().clone(),
            grad.primitive().clone(),
            op,
        ))
    }

    fn forest_contributions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        <Self as AutodiffBackend>::from_inner(B::forest_contributions(x.primitive().clone(), op))
    }

    fn forest_interactions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        <Self as AutodiffBackend>::from_inner(B::forest_interactions(x.primitive().clone(), op))
    }

    fn forest_contributions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        let rows = x.primitive().clone();
        <Self as AutodiffBackend>::from_inner(B::forest_contributions_against(rows, background))
    }

    fn forest_interactions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        let rows = x.primitive().clone();
        <Self as AutodiffBackend>::from_inner(B::forest_interactions_against(rows, background))
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
        unary::<B, _>(ops.parents, ops.node, grads, |grad| B::forest_leaf_gradients(x, grad, op));
    }
}
