//! The epilogue of a forest, run with it: scale and shift, sigmoid, softmax, tensors of a call, and the
//! result's type.

use burn::{
    backend::DispatchDevice,
    tensor::{DType, FloatDType, Tensor, TensorData, activation},
};
use fangorn_ir::{EpilogueOp, EpiloguePlan, Number};

use super::{ForestOp, innermost};
use crate::{
    error::{Error, Result},
    plan::Emit,
};

/// The maximum number of tensors that an epilogue may take.
pub const MOST_TENSORS: usize = 4;

/// A step of an [`Epilogue`] on a row's values `v`, one for each output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EpilogueStep {
    /// `v * scale + shift`.
    Affine {
        /// Factor of each value.
        scale: f32,
        /// Number that is added after that.
        shift: f32,
    },
    /// `v * scale[output] + shift[output]`.
    AffineEach {
        /// Factors, one for each output.
        scale: Vec<f32>,
        /// Numbers that are added after that, one for each output.
        shift: Vec<f32>,
    },
    /// `1 / (1 + e^-v)`.
    Sigmoid,
    /// `e^v / Σ e^v` over the row's outputs.
    Softmax,
    /// `v + tensor`, with the next of the call's tensors, `[rows, outputs]` of f32.
    Add,
    /// `v * tensor`, with the next of the call's tensors, `[rows, outputs]` of f32.
    Multiply,
    /// Rounds the result to f16 or bf16. The steps before it are computed in f32. It may only be the last
    /// step.
    Cast(FloatDType),
}

/// The epilogue of a forest: steps that are computed in f32 while the forest's sums are written.
///
/// On a cubecl device the steps are part of the forest's kernel, or of the launch after it if its sums need
/// one. On the CPU a row block goes through all steps while it is in the cache.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use std::sync::Arc;
/// use burn::tensor::{Device, Tensor};
/// use fangorn::{import, op::{self, Epilogue, ForestOp, EpilogueStep}};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let model = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let op = Arc::new(ForestOp::new(model)?);
/// let device = Device::flex();
/// // Calibrated, and added to the logit of another model.
/// let calibrated = EpilogueStep::Affine { scale: 0.9, shift: -0.1 };
/// let epilogue = Arc::new(Epilogue::of_margins([calibrated, EpilogueStep::Add, EpilogueStep::Sigmoid])?);
/// let x = Tensor::<2>::zeros([4, op.forest().features.len()], &device);
/// let logits = Tensor::<2>::ones([4, 1], &device);
/// let mixed = op::forest_with_epilogue(x, op.leaf_values(&device), vec![logits], &op, &epilogue)?;
/// assert_eq!(mixed.dims(), [4, 1]);
/// # }
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Debug)]
pub struct Epilogue {
    steps: Vec<EpilogueStep>,
    of_values: bool,
    plan: EpiloguePlan,
    numbers: Vec<f32>,
    /// For each step with numbers by output, the scales and then the shifts.
    each: Vec<Vec<f32>>,
    tensors: usize,
    #[cfg(feature = "cube")]
    each_on: super::once_list::OnceList<burn_cubecl::CubeDevice, Vec<cubecl::server::Handle>>,
}

impl Epilogue {
    /// Returns an epilogue of the margins.
    ///
    /// # Errors
    /// More than [`MOST_TENSORS`] steps take a tensor, scales and shifts have different lengths, a cast is
    /// not the last step, or a cast is to another type than f32, f16 and bf16.
    pub fn of_margins(steps: impl IntoIterator<Item = EpilogueStep>) -> Result<Self> {
        Self::new(steps.into_iter().collect(), false)
    }

    /// Returns an epilogue of the values, which are what the producer's predict returns.
    ///
    /// # Errors
    /// The errors of [`Epilogue::of_margins`].
    pub fn of_values(steps: impl IntoIterator<Item = EpilogueStep>) -> Result<Self> {
        Self::new(steps.into_iter().collect(), true)
    }

    fn new(steps: Vec<EpilogueStep>, of_values: bool) -> Result<Self> {
        let refused = |what: String| Err(Error::Epilogue(what));
        let takes = |step: &EpilogueStep| matches!(step, EpilogueStep::Add | EpilogueStep::Multiply);
        let tensors = steps.iter().filter(|s| takes(s)).count();
        if tensors > MOST_TENSORS {
            return refused(format!(
                "{tensors} steps take a tensor each, at most {MOST_TENSORS} can; add the tensors up first"
            ));
        }
        let mut made = Self {
            steps: Vec::new(),
            of_values,
            plan: EpiloguePlan::default(),
            numbers: Vec::new(),
            each: Vec::new(),
            tensors,
            #[cfg(feature = "cube")]
            each_on: super::once_list::OnceList::default(),
        };
        let mut next = 0..tensors as u32;
        for (i, step) in steps.iter().enumerate() {
            let buffer = if takes(step) { next.next().expect("they were counted") } else { 0 };
            let step = match step {
                EpilogueStep::Affine { scale, shift } => {
                    made.numbers.extend([*scale, *shift]);
                    EpilogueOp::Affine { at: made.numbers.len() as u32 - 2 }
                }
                EpilogueStep::AffineEach { scale, shift } => {
                    if scale.len() != shift.len() {
                        let (scales, shifts) = (scale.len(), shift.len());
                        return refused(format!(
                            "step {i} has {scales} scales and {shifts} shifts; give one of each for each output"
                        ));
                    }
                    made.each.push(scale.iter().chain(shift).copied().collect());
                    EpilogueOp::AffineEach { buffer: (tensors + made.each.len()) as u32 - 1 }
                }
                EpilogueStep::Sigmoid => EpilogueOp::Sigmoid,
                EpilogueStep::Softmax => EpilogueOp::Softmax,
                EpilogueStep::Add => EpilogueOp::Add { buffer },
                EpilogueStep::Multiply => EpilogueOp::Multiply { buffer },
                EpilogueStep::Cast(_) if i + 1 < steps.len() => {
                    return refused(format!(
                        "step {i} is a cast, which only the last one may be; move it there"
                    ));
                }
                EpilogueStep::Cast(dtype) => {
                    made.plan.number = match dtype {
                        FloatDType::F32 => Number::F32,
                        FloatDType::F16 => Number::F16,
                        FloatDType::BF16 => Number::BF16,
                        other => {
                            return refused(format!(
                                "step {i} casts to {other:?}; use f32, f16 or bf16, and cast the result"
                            ));
                        }
                    };
                    continue;
                }
            };
            made.plan.steps.push(step);
        }
        made.steps = steps;
        Ok(made)
    }

    /// Returns the steps, in order.
    pub fn steps(&self) -> &[EpilogueStep] {
        &self.steps
    }

    /// Returns whether the epilogue follows values. Otherwise it follows margins.
    pub fn follows_values(&self) -> bool {
        self.of_values
    }

    /// Returns the number of tensors that a call passes to the steps.
    pub fn tensors(&self) -> usize {
        self.tensors
    }

    /// Returns the type of the result.
    pub fn dtype(&self) -> DType {
        match self.plan.number {
            Number::F32 => DType::F32,
            Number::F16 => DType::F16,
            Number::BF16 => DType::BF16,
        }
    }

    /// Returns the number of values of a row of the result.
    pub fn width(&self, op: &ForestOp) -> usize {
        if self.of_values { op.width() } else { op.outputs() }
    }

    /// Checks that the epilogue can follow a forest.
    ///
    /// # Errors
    /// A step has scales and shifts for another number of outputs than the forest's.
    pub fn fits(&self, op: &ForestOp) -> Result<()> {
        let width = self.width(op);
        match self.each.iter().find(|each| each.len() != 2 * width) {
            None => Ok(()),
            Some(each) => Err(Error::Epilogue(format!(
                "a step has numbers for {} outputs, the forest has {width}",
                each.len() / 2
            ))),
        }
    }

    /// Applies the steps as tensor operations to margins or values, `[rows, outputs]`. `tensors` has a tensor
    /// for each step that [takes](Epilogue::tensors) one.
    pub fn by_operations(&self, of: Tensor<2>, tensors: &[Tensor<2>]) -> Tensor<2> {
        let device = of.device();
        let mut tensors = tensors.iter().cloned();
        let mut next = || tensors.next().expect("as many tensors as steps take");
        self.steps.iter().fold(of, |v, step| match step {
            EpilogueStep::Affine { scale, shift } => v.mul_scalar(*scale).add_scalar(*shift),
            EpilogueStep::AffineEach { scale, shift } => {
                let row = |n: &[f32]| {
                    Tensor::<2>::from_data(TensorData::new(n.to_vec(), [1, n.len()]), (&device, DType::F32))
                };
                v * row(scale) + row(shift)
            }
            EpilogueStep::Sigmoid => activation::sigmoid(v),
            EpilogueStep::Softmax => activation::softmax(v, 1),
            EpilogueStep::Add => v + next(),
            EpilogueStep::Multiply => v * next(),
            EpilogueStep::Cast(dtype) => v.cast(*dtype),
        })
    }

    pub(super) fn emit(&self, op: &ForestOp) -> Emit {
        if self.of_values { Emit::Values(op.forest().transform) } else { Emit::Margins }
    }

    #[cfg(feature = "cube")]
    pub(super) fn plan(&self) -> &EpiloguePlan {
        &self.plan
    }

    /// Returns the inputs of the steps on a device: the call's tensors, and the scales and shifts of each
    /// output, which are uploaded once.
    #[cfg(feature = "cube")]
    pub(super) fn inputs(
        &self,
        device: &burn_cubecl::CubeDevice,
        tensors: Vec<cubecl::server::Handle>,
    ) -> fangorn_kernels::EpilogueInputs {
        let upload = |numbers: &Vec<f32>| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_ne_bytes()).collect();
            device.client().create_from_slice(&bytes)
        };
        let make = || Ok::<_, std::convert::Infallible>(self.each.iter().map(upload).collect());
        let each = match self.each_on.get_or_try_init(device, make) {
            Ok(each) => each.clone(),
            Err(never) => match never {},
        };
        fangorn_kernels::EpilogueInputs { tensors, each, numbers: self.numbers.clone() }
    }

    /// Applies the steps in place to rows in the CPU's memory. `first` is the index of the first of these
    /// rows in the call.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(super) fn apply(&self, width: usize, first: usize, values: &mut [f32], tensors: &[&[f32]]) {
        let buffers: Vec<&[f32]> =
            tensors.iter().copied().chain(self.each.iter().map(|each| &each[..])).collect();
        self.plan.apply(width, first, values, &self.numbers, &buffers);
    }
}

impl Epilogue {
    /// Checks that the epilogue can follow a forest on these rows with these tensors.
    ///
    /// # Errors
    /// The errors of [`Epilogue::fits`]. Or the tensors have another number, shape, type or device than the
    /// steps take, or the device does not store the result's type.
    pub fn check(&self, x: &Tensor<2>, tensors: &[Tensor<2>], op: &ForestOp) -> Result<()> {
        self.fits(op)?;
        let refused = |what: String| Err(Error::Epilogue(what));
        if tensors.len() != self.tensors {
            let found = tensors.len();
            return refused(format!("{found} tensors are given, its steps take {}", self.tensors));
        }
        let (device, shape) = (x.device(), [x.dims()[0], self.width(op)]);
        for (i, tensor) in tensors.iter().enumerate() {
            let (dims, dtype) = (tensor.dims(), tensor.dtype());
            if dims != shape || dtype != DType::F32 {
                return refused(format!(
                    "tensor {i} is {dims:?} of {dtype:?}, the forest's rows want {shape:?} of F32; expand or cast it"
                ));
            }
            if tensor.device() != device {
                return refused(format!(
                    "tensor {i} is on {:?}, rows are on {device:?}; move it",
                    tensor.device()
                ));
            }
        }
        let recorded = matches!(innermost(device.as_dispatch()), DispatchDevice::Capture(_));
        let dtype = self.dtype();
        if dtype != DType::F32 && !recorded && !device.supports_dtype(dtype) {
            return Err(Error::Device(format!("{dtype:?} is no type of {device:?}; leave the cast out")));
        }
        Ok(())
    }
}
