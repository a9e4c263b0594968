//! The extension of burn's backends.

// burn-ndarray is deprecated upstream in favour of burn-flex and served as long as burn has it.
#![cfg_attr(feature = "ndarray", allow(deprecated))]

use std::sync::Arc;

use burn::backend::{
    Backend, backend_extension,
    tensor::{FloatTensor, IntTensor},
};

use super::{Epilogue, EpilogueTensors, ForestOp};

/// A backend that runs forests. Callers want [`super::forest`] and [`ForestOp`], which check their input; these
/// methods are for input that has been checked.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Capture,
    Autodiff,
    Fusion: cfg(feature = "cube"),
)]
pub trait ForestBackend: Backend {
    /// Margins: `[rows, features]` and leaf values by slot to `[rows, outputs]`, f32.
    #[fusion(dtype = burn::tensor::DType::F32, shape = burn::tensor::Shape::from(vec![x[0], op.outputs()]))]
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        #[fusion(scalar = super::fuser::number(&op))] op: Arc<ForestOp>,
    ) -> FloatTensor<Self>;

    /// Values: margins after the objective's transform, f32; they have no gradient.
    #[fusion(dtype = burn::tensor::DType::F32, shape = burn::tensor::Shape::from(vec![x[0], op.width()]))]
    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        #[fusion(scalar = super::fuser::number(&op))] op: Arc<ForestOp>,
    ) -> FloatTensor<Self>;

    /// Margins or values, and what follows them, of the [epilogue's](Epilogue::dtype) type; they have no gradient.
    #[fusion(
        dtype = epilogue.dtype(),
        shape = burn::tensor::Shape::from(vec![x[0], epilogue.width(op)])
    )]
    fn forest_epilogue(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        #[extension_type] tensors: EpilogueTensors<Self>,
        op: Arc<ForestOp>,
        epilogue: Arc<Epilogue>,
    ) -> FloatTensor<Self>;

    /// The gradient of leaf values by slot, f32: `[rows, features]` and the gradient of the margins, `[rows, outputs]`, to
    /// as many values as the leaves have. Each value is the sum of its rows' gradients, in the [order](super::BLOCK) that
    /// every backend keeps.
    #[fusion(dtype = burn::tensor::DType::F32, shape = burn::tensor::Shape::from(vec![op.forest().leaf_values.len()]))]
    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self>;

    /// Leaf slots: `[rows, features]` to `[rows, trees]`, i32.
    #[fusion(dtype = burn::tensor::DType::I32, shape = burn::tensor::Shape::from(vec![x[0], op.trees()]))]
    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self>;
}
