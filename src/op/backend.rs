//! The extension of burn's backends by a forest's operations.

// burn-ndarray is deprecated upstream in favour of burn-flex. It is served as long as burn has it.
#![cfg_attr(feature = "ndarray", allow(deprecated))]

use std::sync::Arc;

use burn::backend::{
    Backend, backend_extension,
    tensor::{FloatTensor, IntTensor},
};

use super::{Background, Epilogue, EpilogueTensors, ForestOp};

/// A backend that runs forests. These methods take input that has been checked. Callers want
/// [`super::forest`] and [`ForestOp`], which check their input.
#[backend_extension(
    Cube: cfg(feature = "cube"),
    Flex: cfg(feature = "flex"),
    NdArray: cfg(feature = "ndarray"),
    Capture,
    Autodiff,
    Fusion: cfg(feature = "cube"),
)]
pub trait ForestBackend: Backend {
    /// Computes margins: `[rows, features]` and leaf values by leaf slot to `[rows, outputs]`, f32.
    #[fusion(dtype = burn::tensor::DType::F32, shape = burn::tensor::Shape::from(vec![x[0], op.outputs()]))]
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        #[fusion(scalar = super::numbers::number(&op))] op: Arc<ForestOp>,
    ) -> FloatTensor<Self>;

    /// Computes values, which are margins after the objective's transform, f32. They have no gradient.
    #[fusion(dtype = burn::tensor::DType::F32, shape = burn::tensor::Shape::from(vec![x[0], op.width()]))]
    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        #[fusion(scalar = super::numbers::number(&op))] op: Arc<ForestOp>,
    ) -> FloatTensor<Self>;

    /// Computes an epilogue on margins or values, of the [epilogue's](Epilogue::dtype) type. The result has
    /// no gradient.
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

    /// Computes the gradient of the leaf values by leaf slot, f32: `[rows, features]` and the gradient of the
    /// margins, `[rows, outputs]`, to as many numbers as there are leaf values. Each number is the sum of the
    /// gradients of the rows that reached the leaf, in the [order](super::GRADIENT_ROWS) that every backend keeps.
    #[fusion(dtype = burn::tensor::DType::F32, shape = burn::tensor::Shape::from(vec![op.forest().leaf_values.len()]))]
    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self>;

    /// Computes contributions: `[rows, features]` to `[rows, outputs, features + 1]`, f32. They have no gradient.
    #[fusion(
        dtype = burn::tensor::DType::F32,
        shape = burn::tensor::Shape::from(vec![x[0], op.outputs(), op.features() + 1])
    )]
    fn forest_contributions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self>;

    /// Computes interactions: `[rows, features]` to `[rows, outputs, features + 1, features + 1]`, f32. They have no
    /// gradient.
    #[fusion(
        dtype = burn::tensor::DType::F32,
        shape = burn::tensor::Shape::from(vec![x[0], op.outputs(), op.features() + 1, op.features() + 1])
    )]
    fn forest_interactions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self>;

    /// Computes contributions against a background: `[rows, features]` to `[rows, outputs, features + 1]`, f32. They have
    /// no gradient.
    #[fusion(
        dtype = burn::tensor::DType::F32,
        shape = burn::tensor::Shape::from(vec![x[0], background.outputs(), background.features() + 1])
    )]
    fn forest_contributions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self>;

    /// Computes interactions against a background: `[rows, features]` to `[rows, outputs, features + 1, features + 1]`,
    /// f32. They have no gradient.
    #[fusion(
        dtype = burn::tensor::DType::F32,
        shape = burn::tensor::Shape::from(vec![
            x[0],
            background.outputs(),
            background.features() + 1,
            background.features() + 1
        ])
    )]
    fn forest_interactions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self>;

    /// Computes leaf slots: `[rows, features]` to `[rows, trees]`, i32.
    #[fusion(dtype = burn::tensor::DType::I32, shape = burn::tensor::Shape::from(vec![x[0], op.trees()]))]
    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self>;
}
