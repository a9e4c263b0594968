//! A forest and its epilogue in one call.

use std::sync::Arc;

#[cfg(feature = "cube")]
use burn::backend::DispatchDevice;
#[cfg(any(feature = "flex", feature = "ndarray"))]
use burn::tensor::TensorData;
use burn::{
    backend::{Backend, Dispatch, ExtensionType, tensor::FloatTensor},
    tensor::{DType, Tensor},
};

use super::{Epilogue, ForestBackend, ForestOp, forest, innermost, values};
use crate::error::Result;

/// The tensors that a call passes to an epilogue, in the order of the steps that take them.
#[derive(Clone, Debug, ExtensionType)]
#[cfg_attr(feature = "cube", extension_type(fusion))]
pub enum EpilogueTensors<B: Backend> {
    /// No tensor.
    None,
    /// One tensor.
    One(FloatTensor<B>),
    /// Two tensors.
    Two(FloatTensor<B>, FloatTensor<B>),
    /// Three tensors.
    Three(FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
    /// Four tensors.
    Four(FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
}

impl<B: Backend> EpilogueTensors<B> {
    /// Returns the tensors in order.
    pub fn into_vec(self) -> Vec<FloatTensor<B>> {
        match self {
            Self::None => vec![],
            Self::One(a) => vec![a],
            Self::Two(a, b) => vec![a, b],
            Self::Three(a, b, c) => vec![a, b, c],
            Self::Four(a, b, c, d) => vec![a, b, c, d],
        }
    }

    pub(super) fn map<C: Backend>(
        self,
        mut f: impl FnMut(FloatTensor<B>) -> FloatTensor<C>,
    ) -> EpilogueTensors<C> {
        match self {
            Self::None => EpilogueTensors::None,
            Self::One(a) => EpilogueTensors::One(f(a)),
            Self::Two(a, b) => EpilogueTensors::Two(f(a), f(b)),
            Self::Three(a, b, c) => EpilogueTensors::Three(f(a), f(b), f(c)),
            Self::Four(a, b, c, d) => EpilogueTensors::Four(f(a), f(b), f(c), f(d)),
        }
    }
}

/// Computes a forest and its epilogue. `x` is `[rows, features]`, `leaves` holds leaf values by leaf slot as
/// for [`forest`], and `tensors` has a tensor for each step that takes one. The result is `[rows, outputs]`
/// of the epilogue's [type](Epilogue::dtype).
///
/// Under autodiff the steps are tensor operations after [`forest`] or [`values`], so that gradients reach the
/// leaf values and the tensors. The results are the same within the rounding of each step.
///
/// # Errors
/// The errors of [`forest`] and of [`Epilogue::check`].
pub fn forest_with_epilogue(
    x: Tensor<2>,
    leaves: Tensor<1>,
    tensors: Vec<Tensor<2>>,
    op: &Arc<ForestOp>,
    epilogue: &Arc<Epilogue>,
) -> Result<Tensor<2>> {
    op.check_leaves(&x, &leaves)?;
    epilogue.check(&x, &tensors, op)?;
    let tracked = super::tracked(&x, &leaves) || tensors.iter().any(|t| t.is_autodiff());
    if op.trees() == 0 || x.dims()[0] == 0 || tracked {
        let of = if epilogue.follows_values() { values(x, leaves, op)? } else { forest(x, leaves, op)? };
        return Ok(epilogue.by_operations(of, &tensors));
    }
    op.prepare_with_epilogue(&x, epilogue)?;
    let mut next = tensors.into_iter().map(Tensor::into_dispatch);
    let mut next = || next.next().expect("they were counted");
    let tensors: EpilogueTensors<Dispatch> = match epilogue.tensors() {
        0 => EpilogueTensors::None,
        1 => EpilogueTensors::One(next()),
        2 => EpilogueTensors::Two(next(), next()),
        3 => EpilogueTensors::Three(next(), next(), next()),
        _ => EpilogueTensors::Four(next(), next(), next(), next()),
    };
    let made = <Dispatch as ForestBackend>::forest_epilogue(
        x.into_dispatch(),
        leaves.into_dispatch(),
        tensors,
        op.clone(),
        epilogue.clone(),
    );
    Ok(Tensor::from_dispatch(made))
}

impl ForestOp {
    /// Like [`ForestOp::prepare`], but with an epilogue.
    fn prepare_with_epilogue(&self, x: &Tensor<2>, epilogue: &Epilogue) -> Result<()> {
        let emit = epilogue.emit(self);
        match innermost(x.device().as_dispatch()) {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(device) => {
                let (rows, dtype) = (x.dims()[0], x.dtype());
                self.executable_with_epilogue(device, rows, dtype, emit, epilogue.plan()).map(drop)
            }
            _ => self.prepare(x, emit),
        }
    }

    /// Computes a forest and its epilogue on rows in the CPU's memory. The operator must be
    /// [prepared](ForestOp::prepare).
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(super) fn cpu_with_epilogue(
        &self,
        rows: &crate::cpu::Rows<'_>,
        leaves: &[f32],
        tensors: &[&[f32]],
        epilogue: &Epilogue,
    ) -> TensorData {
        let width = epilogue.width(self);
        let mut out = vec![0.0f32; rows.len() * width];
        let predictor = self.predictor().expect("prepared by the caller");
        let apply = |first: usize, values: &mut [f32]| epilogue.apply(width, first, values, tensors);
        let done = predictor.with_epilogue_of(rows, leaves, epilogue.follows_values(), &apply, &mut out);
        done.expect("checked by the caller");
        let out = TensorData::new(out, [rows.len(), width]);
        if epilogue.dtype() == DType::F32 { out } else { out.convert_dtype(epilogue.dtype()) }
    }
}
