//! The forest as a burn operator.
//!
//! [`ForestOp`] is a forest that is compiled for every device on which it is used. On Flex and NdArray it
//! runs the native CPU program, on a cubecl device the plan's kernel. Both run directly on the tensor's
//! memory. [`forest`] is the operator itself, with the leaf values as a tensor argument.
//!
//! ```
//! # #[cfg(feature = "flex")] {
//! use std::sync::Arc;
//! use burn::tensor::{Device, Tensor};
//! use fangorn::{import, op::ForestOp};
//!
//! let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
//! let model = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
//! let op = Arc::new(ForestOp::new(model)?);
//! let x = Tensor::<2>::zeros([4, op.forest().features.len()], &Device::flex());
//! let values = op.values(x)?;
//! assert_eq!(values.dims(), [4, 1]);
//! # }
//! # Ok::<(), fangorn::Error>(())
//! ```

mod autodiff;
mod backend;
mod background;
mod builder;
mod capture;
#[cfg(feature = "cube")]
mod cube;
mod epilogue;
#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "cube")]
mod fuser;
mod gradient;
#[cfg(any(feature = "flex", feature = "ndarray"))]
mod known;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "cube")]
mod numbers;
mod once_list;
mod with_epilogue;

use std::sync::{Arc, OnceLock};

use burn::{
    backend::{Dispatch, DispatchDevice},
    tensor::{DType, Device, GradientCheckpointingStrategy, Int, Tensor, TensorData, activation},
};

pub use backend::ForestBackend;
pub use background::Background;
pub use builder::ForestOpBuilder;
pub use epilogue::{Epilogue, EpilogueStep, MOST_TENSORS};
pub use gradient::GRADIENT_ROWS;
pub use with_epilogue::{EpilogueTensors, forest_with_epilogue};

use crate::{
    Predictor,
    check::{SelfCheck, Warning},
    contributions::Explainer,
    error::{Error, Result},
    forest::{Aggregate, Forest, Profile, Targets, Transform},
    plan::Emit,
    schedule::{BatchSchedules, Preset},
    sum::Contract,
};

/// A forest that is compiled into a burn operator, once for each device on which it is used. Share it as an
/// [`Arc`].
///
/// Inputs are f32, f16 or bf16 in any strides, and are widened exactly. Outputs are f32.
pub struct ForestOp {
    forest: Forest,
    schedules: Option<BatchSchedules>,
    sum: Contract,
    check: SelfCheck,
    profile: Option<Profile>,
    /// Warnings about the kernels of devices.
    #[cfg(feature = "cube")]
    warnings: std::sync::Mutex<Vec<Warning>>,
    leaves: Vec<f32>,
    /// The leaf values as a tensor on each device that has used them. Two devices are equal if they are the
    /// same hardware, so the key's second component tells an autodiff device, and its checkpointing strategy,
    /// from a plain one.
    leaves_on: once_list::OnceList<(Device, Option<GradientCheckpointingStrategy>), Tensor<1>>,
    cpu: OnceLock<Predictor>,
    explainer: OnceLock<Explainer>,
    /// Tensors that are known to hold the forest's own leaf values.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    known: known::KnownLeaves,
    /// The schedules of each cubecl device that has been used.
    #[cfg(feature = "cube")]
    schedules_on: once_list::OnceList<burn_cubecl::CubeDevice, BatchSchedules>,
    #[cfg(feature = "cube")]
    cube: once_list::OnceList<cube::Key, crate::cube::Executable>,
    #[cfg(feature = "cube")]
    explainers_on: once_list::OnceList<burn_cubecl::CubeDevice, crate::cube::Explainer>,
    #[cfg(feature = "cube")]
    interactions_on: once_list::OnceList<burn_cubecl::CubeDevice, crate::cube::Explainer>,
    #[cfg(feature = "cube")]
    leaf_gradients_on: once_list::OnceList<burn_cubecl::CubeDevice, crate::cube::LeafGradients>,
    /// The number that stands for the forest in recorded operations.
    #[cfg(feature = "cube")]
    number: OnceLock<u64>,
}

impl std::fmt::Debug for ForestOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Forest { producer, features, .. } = &self.forest;
        let shape = format!("[rows, {}] -> [rows, {}]", features.len(), self.outputs());
        f.debug_struct("ForestOp")
            .field("producer", producer)
            .field("trees", &self.trees())
            .field("shape", &shape)
            .finish()
    }
}

impl ForestOp {
    /// Returns an operator with the default schedule of each device. [`ForestOp::builder`] takes options.
    ///
    /// # Errors
    /// The errors of [`ForestOpBuilder::build`].
    pub fn new(forest: Forest) -> Result<Self> {
        Self::builder(forest).build()
    }

    /// Returns a builder, which takes options before it makes the operator.
    pub fn builder(forest: Forest) -> ForestOpBuilder {
        ForestOpBuilder::new(forest)
    }

    /// Returns the profile, which says how many rows reach each leaf, if one was set.
    pub fn profile(&self) -> Option<&Profile> {
        self.profile.as_ref()
    }

    /// Returns how much the operator checks on each device before it serves there.
    pub fn check(&self) -> SelfCheck {
        self.check
    }

    /// Returns the operator's warnings from all devices on which it was used. There is one for each
    /// self-check that failed, after which slower code runs.
    pub fn warnings(&self) -> Vec<Warning> {
        let warnings = self.cpu.get().map_or_else(Vec::new, |predictor| predictor.warnings().to_vec());
        #[cfg(feature = "cube")]
        let warnings = {
            let of_devices = self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            [warnings, of_devices.clone()].concat()
        };
        warnings
    }

    /// Returns the contract that sums keep.
    pub fn sum(&self) -> Contract {
        self.sum
    }

    /// Returns the forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Returns the number of columns of a row.
    pub fn features(&self) -> usize {
        self.forest.features.len()
    }

    /// Returns the number of margins of a row.
    pub fn outputs(&self) -> usize {
        self.forest.outputs as usize
    }

    /// Returns the number of trees of the forest.
    pub fn trees(&self) -> usize {
        self.forest.trees.len()
    }

    /// Returns the schedules for a device, by batch size. A batch runs by the schedule of the
    /// [nearest](BatchSchedules::nearest) size. They are the same for all devices if some were set.
    pub fn schedules(&self, device: &crate::schedule::Device) -> BatchSchedules {
        match &self.schedules {
            Some(schedules) => schedules.clone(),
            None => Preset::Default.schedules_on(&self.forest, *device),
        }
    }

    /// Returns the leaf values by leaf slot as a tensor of `slots x leaf width` values, which [`forest`]
    /// takes. They are uploaded once for each device, autodiff or plain, and checkpointing strategy.
    pub fn leaf_values(&self, device: &Device) -> Tensor<1> {
        let make = || Tensor::from_data(TensorData::new(self.leaves.clone(), [self.leaves.len()]), device);
        if let DispatchDevice::Capture(_) = innermost(device.as_dispatch()) {
            // A recorded tensor ends with its scope, so it is not kept.
            return make();
        }
        let key = (device.clone(), device.gradient_checkpointing_strategy());
        match self.leaves_on.get_or_try_init(&key, || Ok::<_, std::convert::Infallible>(make())) {
            Ok(leaves) => leaves.clone(),
            Err(never) => match never {},
        }
    }

    /// Computes raw margins: `[rows, features]` to `[rows, outputs]`.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or a type other than f32, f16
    /// and bf16, or the tensor's device can't carry out the schedule.
    pub fn margins(self: &Arc<Self>, x: Tensor<2>) -> Result<Tensor<2>> {
        let leaves = self.leaf_values(&x.device());
        forest(x, leaves, self)
    }

    /// Computes the producer's own predictions: margins after the objective's transform, `[rows, outputs]`,
    /// or `[rows, 1]` if the objective picks a class.
    ///
    /// # Errors
    /// The errors of [`ForestOp::margins`].
    pub fn values(self: &Arc<Self>, x: Tensor<2>) -> Result<Tensor<2>> {
        let leaves = self.leaf_values(&x.device());
        values(x, leaves, self)
    }

    /// Computes values from margins by tensor operations: the objective's scale, then its transform.
    pub fn transformed(&self, margins: Tensor<2>) -> Tensor<2> {
        let margins = match self.forest.scale.0 {
            1.0 => margins,
            scale => margins.mul_scalar(scale),
        };
        transform(self.forest.transform, margins)
    }

    /// Returns the number of values of a row, after the objective's transform.
    pub fn width(&self) -> usize {
        self.forest.transform.width(self.outputs())
    }

    /// Computes margins that are the smallest or the largest leaf value, by tensor operations on the leaf
    /// slots, which have a gradient.
    fn extremes(self: &Arc<Self>, x: Tensor<2>, leaves: Tensor<1>) -> Result<Tensor<2>> {
        let (rows, trees, width) = (x.dims()[0], self.trees(), self.forest.leaf_width());
        let device = x.device();
        let slots = self.leaf_slots(x)?;
        let values = leaves.reshape([self.forest.leaf_count(), width]);
        let values = values.select(0, slots.reshape([rows * trees])).reshape([rows, trees, width]);
        let extreme = |values: Tensor<3>| match self.forest.aggregate {
            Aggregate::Max => values.max_dim(1).reshape([rows, width]),
            Aggregate::Sum | Aggregate::Min => values.min_dim(1).reshape([rows, width]),
        };
        let totals = match &self.forest.targets {
            Targets::All => extreme(values),
            Targets::One(targets) => {
                let of_output = |output: u32| {
                    let own = (0i32..).zip(targets).filter(|(_, t)| **t == output).map(|(tree, _)| tree);
                    match own.collect::<Vec<_>>() {
                        none if none.is_empty() => Tensor::zeros([rows, 1], &device),
                        own => extreme(values.clone().select(1, Tensor::from_ints(&own[..], &device))),
                    }
                };
                Tensor::cat((0..self.forest.outputs).map(of_output).collect(), 1)
            }
        };
        let base: Vec<f32> = self.forest.base_score.iter().map(|b| b.0 as f32).collect();
        Ok(totals + Tensor::from_data(TensorData::new(base, [1, self.outputs()]), &device))
    }

    /// Computes leaf slots: `[rows, features]` to `[rows, trees]`. Trees are in the producer's order, slots
    /// are dense over the whole forest.
    ///
    /// # Errors
    /// The errors of [`ForestOp::margins`].
    pub fn leaf_slots(self: &Arc<Self>, x: Tensor<2>) -> Result<Tensor<2, Int>> {
        self.check_rows(&x)?;
        if self.trees() == 0 || x.dims()[0] == 0 {
            return Ok(Tensor::zeros([x.dims()[0], self.trees()], &x.device()));
        }
        self.prepare(&x, Emit::Slots)?;
        let slots = <Dispatch as ForestBackend>::forest_slots(x.into_dispatch(), self.clone());
        Ok(Tensor::from_dispatch(slots))
    }

    /// Computes contributions, the path-dependent SHAP values: `[rows, features]` to `[rows, outputs, features + 1]`,
    /// f32, the bias last. They add up to the row's margins before the objective's scale and transform.
    ///
    /// They are computed from the forest's own leaf values, and have no gradient. On Flex and NdArray
    /// [`contributions::Explainer`](crate::contributions::Explainer) computes them, on a cubecl device
    /// `cube::Explainer`, in f32 sums. The first call on a device prepares the forest's steps.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use std::sync::Arc;
    /// use burn::tensor::{Device, Tensor};
    /// use fangorn::{import, op::ForestOp};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let model = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let op = Arc::new(ForestOp::new(model)?);
    /// let x = Tensor::<2>::zeros([4, op.features()], &Device::flex());
    /// let contributions = op.contributions(x)?;
    /// assert_eq!(contributions.dims(), [4, 1, op.features() + 1]);
    /// # }
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or a type other than f32, f16 and bf16.
    /// [`Error::Contributions`]: the forest has no covers or is no sum, or has paths or rows that are too long for the
    /// device.
    pub fn contributions(self: &Arc<Self>, x: Tensor<2>) -> Result<Tensor<3>> {
        self.check_rows(&x)?;
        match innermost(x.device().as_dispatch()) {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(device) => {
                let width = self.explainer_on(device)?.width();
                cube::check_room(device, x.dims()[0], width)?;
            }
            DispatchDevice::Capture(_) => self.explainer().map(drop)?,
            _ => self.explainer()?.check_room(x.dims()[0])?,
        }
        if x.dims()[0] == 0 {
            return Ok(Tensor::zeros([0, self.outputs(), self.features() + 1], &x.device()));
        }
        let contributions =
            <Dispatch as ForestBackend>::forest_contributions(x.into_dispatch(), self.clone());
        Ok(Tensor::from_dispatch(contributions))
    }

    /// Computes interactions, the SHAP interaction values: `[rows, features]` to
    /// `[rows, outputs, features + 1, features + 1]`, f32, the bias last. Each row of a matrix adds up to a feature's
    /// [contribution](Self::contributions); [`Explainer::interactions`] says what the elements mean.
    ///
    /// Like contributions, they have no gradient. The result of a row grows with the square of the number of features.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use std::sync::Arc;
    /// use burn::tensor::{Device, Tensor};
    /// use fangorn::{import, op::ForestOp};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let model = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let op = Arc::new(ForestOp::new(model)?);
    /// let x = Tensor::<2>::zeros([4, op.features()], &Device::flex());
    /// let of_features = op.interactions(x.clone())?.sum_dim(3).reshape([4, 1, op.features() + 1]);
    /// let off = of_features - op.contributions(x)?;
    /// assert!(off.abs().max().into_scalar::<f32>() < 1e-5);
    /// # }
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`contributions`](Self::contributions). [`Error::Contributions`]: the paths of the forest's trees
    /// have too many features, or a row has too many interactions for the device. [`Error::Rows`]: there is no memory
    /// for the results on the CPU.
    pub fn interactions(self: &Arc<Self>, x: Tensor<2>) -> Result<Tensor<4>> {
        self.check_rows(&x)?;
        let (rows, side) = (x.dims()[0], self.features() + 1);
        match innermost(x.device().as_dispatch()) {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(device) => {
                let width = self.interactions_on(device)?.width();
                cube::check_room(device, rows, width)?;
            }
            DispatchDevice::Capture(_) => self.explainer().map(drop)?,
            _ => self.explainer()?.prepare_interactions(rows)?,
        }
        if rows == 0 {
            return Ok(Tensor::zeros([0, self.outputs(), side, side], &x.device()));
        }
        let interactions = <Dispatch as ForestBackend>::forest_interactions(x.into_dispatch(), self.clone());
        Ok(Tensor::from_dispatch(interactions))
    }

    /// Returns the CPU's explainer. It is made at its first use.
    fn explainer(&self) -> Result<&Explainer> {
        if let Some(explainer) = self.explainer.get() {
            return Ok(explainer);
        }
        let explainer = Explainer::new(&self.forest)?;
        Ok(self.explainer.get_or_init(|| explainer))
    }

    fn check_rows(&self, x: &Tensor<2>) -> Result<()> {
        check_rows(x, self.features())
    }

    fn check_leaves(&self, x: &Tensor<2>, leaves: &Tensor<1>) -> Result<()> {
        self.check_rows(x)?;
        if leaves.dims()[0] != self.leaves.len() || leaves.dtype() != DType::F32 {
            let found = format!("{} leaf values of type {:?}", leaves.dims()[0], leaves.dtype());
            return Err(Error::Rows(format!("{found}, the forest has {} of f32", self.leaves.len())));
        }
        match (x.device(), leaves.device()) {
            (rows, leaves) if rows == leaves => Ok(()),
            (rows, leaves) => Err(Error::Device(format!(
                "rows are on {rows:?}, leaf values on {leaves:?}; move one of them"
            ))),
        }
    }

    /// Compiles for these rows' device, so that a schedule that the device can't carry out is an error here and not
    /// in the middle of a graph.
    fn prepare(&self, x: &Tensor<2>, emit: Emit) -> Result<()> {
        match innermost(x.device().as_dispatch()) {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(device) => self.executable(device, x.dims()[0], x.dtype(), emit).map(drop),
            DispatchDevice::Capture(_) => Ok(()),
            _ => {
                let _ = emit;
                self.predictor().map(drop)
            }
        }
    }

    /// Returns the code for a device as text: the CPU program, or the kernel for batches of
    /// [`BatchSchedules::USUAL_ROWS`] in the device's language.
    ///
    /// # Errors
    /// The device can't carry out the schedule, or its kernels have no text here.
    pub fn source(&self, device: &Device) -> Result<String> {
        match innermost(device.as_dispatch()) {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(device) => {
                self.executable(device, BatchSchedules::USUAL_ROWS, DType::F32, Emit::Margins)?.source()
            }
            _ => Ok(self.predictor()?.program().to_string()),
        }
    }

    /// Returns the predictor that runs the CPU program. It is made at its first use.
    pub(crate) fn predictor(&self) -> Result<&Predictor> {
        if let Some(predictor) = self.cpu.get() {
            return Ok(predictor);
        }
        let predictor = Predictor::builder(&self.forest)
            .schedules(self.schedules(&crate::schedule::Device::Cpu))
            .sum(self.sum)
            .profile(self.profile.as_ref())
            .check(self.check)
            .f32_rows()
            .build()?;
        Ok(self.cpu.get_or_init(|| predictor))
    }

    /// Returns the leaf values of a tensor, or the program's own leaf values if they are the same.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn cpu_leaves<'a, T: Clone + Send + Sync + 'static>(
        &'a self,
        tensor: &T,
        values: &'a [f32],
        view: impl Fn(&T) -> Option<&[f32]>,
    ) -> &'a [f32] {
        let own = self.predictor().expect("prepared by the caller").program().leaves();
        self.known.instead_of(tensor, values, own, view)
    }

    /// Computes margins of rows in the CPU's memory. The operator must be [prepared](ForestOp::prepare).
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn cpu_margins(&self, rows: &crate::cpu::Rows<'_>, leaves: &[f32]) -> TensorData {
        let mut out = vec![0.0f32; rows.len() * self.outputs()];
        let predictor = self.predictor().expect("prepared by the caller");
        predictor.margins_of(rows, leaves, &mut out).expect("checked by the caller");
        TensorData::new(out, [rows.len(), self.outputs()])
    }

    /// Computes values of rows in the CPU's memory. The operator must be [prepared](ForestOp::prepare).
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn cpu_values(&self, rows: &crate::cpu::Rows<'_>, leaves: &[f32]) -> TensorData {
        let width = self.width();
        let mut out = vec![0.0f32; rows.len() * width];
        let predictor = self.predictor().expect("prepared by the caller");
        predictor.values_of(rows, leaves, &mut out).expect("checked by the caller");
        TensorData::new(out, [rows.len(), width])
    }

    /// Computes contributions of rows in the CPU's memory. The operator must have an [`explainer`](Self::explainer).
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn cpu_contributions(&self, rows: &crate::cpu::Rows<'_>) -> TensorData {
        let explainer = self.explainer().expect("prepared by the caller");
        let out = explainer.contributions(rows).expect("checked by the caller");
        TensorData::new(out, [rows.len(), self.outputs(), self.features() + 1])
    }

    /// Computes interactions of rows in the CPU's memory. The operator must have an [`explainer`](Self::explainer) that is
    /// prepared for them.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn cpu_interactions(&self, rows: &crate::cpu::Rows<'_>) -> TensorData {
        let explainer = self.explainer().expect("prepared by the caller");
        let out = explainer.interactions(rows).expect("checked by the caller");
        let side = self.features() + 1;
        TensorData::new(out, [rows.len(), self.outputs(), side, side])
    }

    /// Computes leaf slots of rows in the CPU's memory. The operator must be [prepared](ForestOp::prepare).
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    fn cpu_slots(&self, rows: &crate::cpu::Rows<'_>) -> TensorData {
        let mut out = vec![0u32; rows.len() * self.trees()];
        let predictor = self.predictor().expect("prepared by the caller");
        predictor.program().slots(rows, &mut out).expect("checked by the caller");
        let out: Vec<i32> = out.into_iter().map(|s| s as i32).collect();
        TensorData::new(out, [rows.len(), self.trees()])
    }
}

/// Makes burn's fusion run elementwise operations after a forest in the forest's kernel, on cubecl devices,
/// if the kernel writes each value once. An [epilogue](Epilogue) does this explicitly. Call this function
/// before the first tensor operation on such a device. Calling it again does nothing.
///
/// ```
/// # #[cfg(feature = "burn")] {
/// fangorn::op::init()?;
/// # }
/// # Ok::<(), fangorn::Error>(())
/// ```
///
/// # Errors
/// Tensor operations have run on a cubecl device before.
pub fn init() -> Result<()> {
    #[cfg(feature = "cube")]
    fuser::register()?;
    Ok(())
}

/// Checks the number of columns of rows, and their type.
fn check_rows(x: &Tensor<2>, expected: usize) -> Result<()> {
    let [_, found] = x.dims();
    if found != expected {
        return Err(Error::Columns { found, expected });
    }
    match x.dtype() {
        DType::F32 | DType::F16 | DType::BF16 => Ok(()),
        other => {
            Err(Error::Device(format!("{other:?} rows are not read; cast them to f32, x.cast(DType::F32)")))
        }
    }
}

fn transform(transform: Transform, m: Tensor<2>) -> Tensor<2> {
    match transform {
        Transform::Identity => m,
        Transform::Sigmoid => activation::sigmoid(m),
        Transform::Exp => m.exp(),
        Transform::Softmax => activation::softmax(m, 1),
        Transform::SoftmaxZero => {
            let zero = m.clone().abs().lower_equal_elem(1e-7);
            let top = m.clone().max_dim(1);
            let powers = (m - top).exp().mask_fill(zero, 0.0);
            // A row of zeros stays a row of zeros.
            let sum = powers.clone().sum_dim(1);
            let empty = sum.clone().equal_elem(0.0);
            powers / sum.mask_fill(empty, 1.0)
        }
        Transform::Argmax => m.argmax(1).float(),
        Transform::Step => m.greater_elem(0.0).float(),
        Transform::Softplus => m.clone().clamp_min(0.0) + m.abs().neg().exp().log1p(),
        Transform::SignedSquare => m.clone() * m.abs(),
        Transform::PowerOfTwo => m.mul_scalar(-std::f64::consts::LN_2).exp(),
        Transform::Probit => {
            let x = m.mul_scalar(2.0).sub_scalar(1.0);
            let log = (x.clone().neg().add_scalar(1.0) * x.clone().add_scalar(1.0)).log();
            let a = log.clone().mul_scalar(0.5).add_scalar(2.0 / (std::f64::consts::PI * 0.147));
            let root = (a.clone() * a.clone() - log.div_scalar(0.147)).sqrt() - a;
            x.sign() * root.sqrt().mul_scalar(std::f64::consts::SQRT_2)
        }
        Transform::SigmoidPair => {
            Tensor::cat(vec![activation::sigmoid(m.clone().neg()), activation::sigmoid(m)], 1)
        }
        Transform::ComplementPair => Tensor::cat(vec![m.clone().neg().add_scalar(1.0), m], 1),
        Transform::OppositePair => Tensor::cat(vec![m.clone().neg(), m], 1),
        Transform::MeanAndVariance => {
            let deviation = m.clone().narrow(1, 1, 1).exp();
            Tensor::cat(vec![m.narrow(1, 0, 1), deviation.clone() * deviation], 1)
        }
        Transform::CumulativeSoftplus => {
            let outputs = m.dims()[1];
            let mut value = m.clone().narrow(1, 0, 1);
            let mut values = vec![value.clone()];
            for o in 1..outputs {
                let increment = self::transform(Transform::Softplus, m.clone().narrow(1, o, 1));
                value = value + increment.add_scalar(fangorn_ir::LEAST_INCREMENT);
                values.push(value.clone());
            }
            Tensor::cat(values, 1)
        }
    }
}

/// Returns whether a gradient may be needed. Rows that are data may be on a plain device while leaf values
/// are trained on an autodiff device.
fn tracked(x: &Tensor<2>, leaves: &Tensor<1>) -> bool {
    x.is_autodiff() || leaves.is_autodiff()
}

/// Returns the device under an autodiff device.
fn innermost(device: &DispatchDevice) -> &DispatchDevice {
    match device {
        DispatchDevice::Autodiff(inner) => innermost(inner),
        other => other,
    }
}

/// Computes the producer's own predictions with leaf values `leaves` by leaf slot: what [`forest`] returns
/// after the objective's transform, `[rows, values]` with [`ForestOp::width`] values for each row. The output
/// is f32.
///
/// Under autodiff the gradient goes through the transform to `leaves`.
///
/// # Errors
/// The errors of [`forest`].
pub fn values(x: Tensor<2>, leaves: Tensor<1>, op: &Arc<ForestOp>) -> Result<Tensor<2>> {
    if op.trees() == 0 || x.dims()[0] == 0 || tracked(&x, &leaves) {
        return Ok(op.transformed(forest(x, leaves, op)?));
    }
    op.check_leaves(&x, &leaves)?;
    op.prepare(&x, Emit::Values(op.forest.transform))?;
    let values =
        <Dispatch as ForestBackend>::forest_values(x.into_dispatch(), leaves.into_dispatch(), op.clone());
    Ok(Tensor::from_dispatch(values))
}

/// The operator: computes margins of `x`, `[rows, features]` to `[rows, outputs]`, with leaf values `leaves`
/// by leaf slot ([`ForestOp::leaf_values`] returns the trained ones). The output is f32.
///
/// Under autodiff the gradient with respect to `leaves` is exact: each row's gradient is added to the leaves
/// that the row reached. The gradient with respect to `x` is zero. It is zero wherever it is defined, because
/// a forest is constant between thresholds.
///
/// # Errors
/// The errors of [`ForestOp::margins`]. Or `leaves` has the wrong length or type, or is on another device
/// than `x`.
pub fn forest(x: Tensor<2>, leaves: Tensor<1>, op: &Arc<ForestOp>) -> Result<Tensor<2>> {
    op.check_leaves(&x, &leaves)?;
    if x.dims()[0] == 0 {
        return Ok(Tensor::zeros([0, op.outputs()], &x.device()));
    }
    if op.trees() == 0 {
        // Without trees no leaf is read, and every row's margin is the base score.
        let base: Vec<f32> = op.forest.base_score.iter().map(|b| b.0 as f32).collect();
        let base = Tensor::<2>::from_data(TensorData::new(base, [1, op.outputs()]), &x.device());
        return Ok(base.repeat_dim(0, x.dims()[0]));
    }
    if op.forest.aggregate != Aggregate::Sum && tracked(&x, &leaves) {
        return op.extremes(x, leaves);
    }
    op.prepare(&x, Emit::Margins)?;
    if leaves.is_autodiff() {
        // The gradient needs the leaf slots.
        op.prepare(&x, Emit::Slots)?;
    }
    let margins =
        <Dispatch as ForestBackend>::forest_margins(x.into_dispatch(), leaves.into_dispatch(), op.clone());
    Ok(Tensor::from_dispatch(margins))
}
