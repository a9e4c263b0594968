//! A forest as a burn module.
//!
//! [`ForestModule`] is [`fangorn::op`]'s operator with parameters. It stands inside a network: any optimizer
//! of burn's trains its leaf values, and it is saved, loaded, moved and printed with the module that holds
//! it.
//!
//! # What is in a record
//!
//! | tensor | type | holds |
//! |---|---|---|
//! | `leaf_values` | f32 `[slots, leaf width]` | the leaf values as they are now |
//! | `structure` | i32 `[words]` | the forest as made: a [`.fangorn`](fangorn::file) file, 4 bytes a word |
//! | `fingerprint` | i32 `[2]` | a hash that tells this structure from others |
//!
//! A record holds no plan. If it brings another structure, the module compiles the new forest while it loads.
//! burn refuses a record of a forest of another size, and names the tensor and both shapes. If only some of
//! the tensors were loaded, so that the shape of the leaf values or the fingerprint does not fit the
//! structure, [`ForestModule::verify`] and every call that runs the module return an error.
//!
//! # What the sums promise
//!
//! Margins keep the contract [`Any`](fangorn::sum::Contract::Any) over the leaf values of the parameter. Each
//! margin is an f32 sum, in the order of the schedule, of its base score and the leaf values that the row
//! reached. It is off by no more than
//! `(trees + 1) x 2^-24 x (|base score| + Σ over trees of the largest |leaf|)`, with the leaf values as they
//! are now. As long as the leaf values are those of the forest, the module's margins are the bytes that
//! [`ForestOp::margins`] gives with the same schedule on the same device. The contracts `Tree` and `Exact`
//! are about a forest's own leaf values, so a module has neither. If nothing is trained, use an operator:
//! `ForestOpBuilder::sum` sets its contract. The leaf that a row reaches is always the producer's.
//!
//! # The gradient of the leaf values
//!
//! A margin is linear in the leaf values, so their gradient is exact: the gradient of each row is added to
//! the leaf values that the row reached, in an order that every backend keeps ([`fangorn::op::GRADIENT_ROWS`]). The
//! walks and the sums read the parameter in place, so nothing is copied from the device to the host between
//! the rows and the loss.
//!
//! # The gradient of the rows
//!
//! A forest is constant between thresholds. The gradient of the rows is zero wherever it is defined, so a
//! module passes none on. With [soft splits](ForestModuleConfig::with_soft_splits) a module passes on the
//! gradient of a smooth forest instead. There a split `x < t` sends the row left with probability
//! `sigmoid((t - x) / temperature)`, and a margin is the sum of all leaf values, each times the probability
//! of its path (as in "Distilling a Neural Network Into a Soft Decision Tree", Frosst and Hinton, 2017,
//! section 2, with thresholds for filters). The forward result stays that of the hard forest, so this is a
//! straight-through estimate ("Estimating or Propagating Gradients Through Stochastic Neurons", Bengio et
//! al., 2013, section 4). Missing values, splits that ask for equality and infinite thresholds stay hard and
//! pass no gradient on. Autodiff keeps `rows x columns x outputs` numbers for this gradient.

mod classes;
mod config;
mod epilogue;
mod record;
mod soft;
mod structure;
mod traits;

use std::sync::Arc;

use burn::{
    module::Param,
    tensor::{DType, Device, Int, Tensor},
};
use fangorn::{
    op::{self, Epilogue, ForestOp},
    schedule::Schedule,
};

pub use config::ForestModuleConfig;
pub use record::Record;

use crate::error::{Error, Result};
use soft::SoftSplits;

/// The result of [`ForestModule::forward`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Output {
    /// Values, which the producer's predict returns: margins after the objective's transform.
    #[default]
    Values,
    /// Margins: sums of the base score and of the leaf values that a row reaches.
    Margins,
}

/// A trained forest as a burn module. [`ForestModuleConfig`] makes one. [The module's page](self) says what
/// it promises.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::{Device, Tensor};
/// use fangorn::import;
/// use fangorn_graphs::forest::ForestModuleConfig;
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &Default::default())?;
/// let device = Device::flex();
/// let module = ForestModuleConfig::new(forest).init(&device)?;
/// let x = Tensor::<2>::zeros([4, module.features()], &device);
/// assert_eq!(module.forward(x.clone())?.dims(), [4, 1]);
/// assert_eq!(module.leaf_slots(x)?.dims(), [4, 100]);
/// # }
/// # Ok::<(), fangorn_graphs::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForestModule {
    /// Leaf values by leaf slot, `[slots, leaf width]`: the parameter that is trained.
    /// [`ForestModule::leaf_slots`] gives the slots of rows.
    pub leaf_values: Param<Tensor<2>>,
    structure: Param<Tensor<1, Int>>,
    fingerprint: Param<Tensor<1, Int>>,
    /// The operator that is compiled from `structure`, or the reason that there is none.
    operator: Result<Arc<ForestOp>, String>,
    schedule: Option<Arc<Schedule>>,
    output: Output,
    soft: Option<SoftSplits>,
    epilogue: Option<Arc<Epilogue>>,
}

impl ForestModule {
    /// Returns the values or margins of rows, as the module was [made](ForestModuleConfig::with_output). Rows
    /// are `[rows, features]` of f32, f16 or bf16, in any strides. The result is f32, `[rows, outputs]`, or
    /// for values as many columns as the objective's transform gives. The module's
    /// [epilogue](ForestModule::with_step), if it has one, is applied to the result.
    ///
    /// # Errors
    /// The rows have another width, type or device than the module's, the device can't carry out the
    /// schedule, a loaded record makes no forest ([`Error::Record`]), or a step of the epilogue takes a
    /// tensor, which only [`forward_with`](ForestModule::forward_with) takes.
    pub fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        match (self.output, &self.epilogue) {
            (_, Some(_)) => self.forward_with(x, Vec::new()),
            (Output::Margins, None) => self.margins(x),
            (Output::Values, None) => self.values(x),
        }
    }

    /// Returns the margins of rows: `[rows, features]` to `[rows, outputs]`.
    ///
    /// # Errors
    /// The errors of [`ForestModule::forward`].
    pub fn margins(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let op = self.operator()?;
        let leaves = self.leaf_value_tensor(op)?;
        let Some(soft) = self.soft.as_ref().filter(|_| x.is_autodiff()) else {
            return Ok(op::forest(x, leaves, op)?);
        };
        let hard = op::forest(x.clone(), leaves.clone(), op)?;
        Ok(hard + soft.zero_with_gradient(x, leaves))
    }

    /// Returns the values of rows, which the producer's predict returns: `[rows, features]` to
    /// `[rows, values]`.
    ///
    /// # Errors
    /// The errors of [`ForestModule::forward`].
    pub fn values(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let op = self.operator()?;
        if self.soft.is_some() && x.is_autodiff() {
            return Ok(op.transformed(self.margins(x)?));
        }
        Ok(op::values(x, self.leaf_value_tensor(op)?, op)?)
    }

    /// Returns the leaf slot that each row reaches in each tree: `[rows, features]` to `[rows, trees]`, with
    /// the trees in the producer's order. Slots number the leaves of all trees from 0, so an embedding of
    /// [`ForestModule::leaf_count`] vectors takes them as they are.
    ///
    /// # Errors
    /// The errors of [`ForestModule::forward`].
    pub fn leaf_slots(&self, x: Tensor<2>) -> Result<Tensor<2, Int>> {
        self.check_device(&x)?;
        Ok(self.operator()?.leaf_slots(x)?)
    }

    /// Returns the number of columns of a row.
    pub fn features(&self) -> usize {
        self.operator.as_ref().map_or(0, |op| op.forest().features.len())
    }

    /// Returns the number of leaves of all trees.
    pub fn leaf_count(&self) -> usize {
        self.operator.as_ref().map_or(0, |op| op.forest().leaf_count())
    }

    /// Returns the operator that runs. Its forest holds the leaf values with which the structure was made.
    ///
    /// # Errors
    /// [`Error::Record`] if a record was loaded that makes no forest.
    pub fn operator(&self) -> Result<&Arc<ForestOp>> {
        self.operator.as_ref().map_err(|what| Error::Record(what.clone()))
    }

    /// Checks that the loaded tensors make a forest with its leaf values. Without this call, the first call
    /// that runs the module reports it.
    ///
    /// # Errors
    /// [`Error::Record`] names what does not fit.
    pub fn verify(&self) -> Result<()> {
        self.leaf_value_tensor(self.operator()?).map(drop)
    }

    /// Returns the leaf values as the operator takes them, f32 `[slots * leaf width]`, whatever type a record
    /// or a quantizer has stored.
    fn leaf_value_tensor(&self, op: &ForestOp) -> Result<Tensor<1>> {
        let (slots, width) = (op.forest().leaf_count(), op.forest().leaf_width());
        let leaves = self.leaf_values.val();
        if leaves.dims() != [slots, width] {
            let found = leaves.dims();
            return Err(Error::Record(format!(
                "`leaf_values` are {found:?} values, the structure has [{slots}, {width}]; load both of one module"
            )));
        }
        let leaves = if let DType::QFloat(_) = leaves.dtype() { leaves.dequantize() } else { leaves };
        let leaves = if leaves.dtype() == DType::F32 { leaves } else { leaves.cast(DType::F32) };
        Ok(leaves.reshape([slots * width]))
    }

    /// Returns the device of the leaf values.
    pub(crate) fn device(&self) -> Device {
        self.leaf_values.lazy_device()
    }

    fn check_device(&self, x: &Tensor<2>) -> Result<()> {
        let (rows, own) = (x.device(), self.leaf_values.lazy_device());
        if rows == own {
            return Ok(());
        }
        let what = format!("rows are on {rows:?}, the forest on {own:?}; move one of them");
        Err(fangorn::Error::Device(what).into())
    }
}
