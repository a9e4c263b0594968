//! A forest as a burn module.
//!
//! [`ForestModule`] is [`fangorn::op`]'s operator with parameters: it stands inside a network, its leaf values are trained by
//! any optimizer of burn's, and it is saved, loaded, moved and printed with the module that holds it.
//!
//! # What is in a record
//!
//! | tensor | type | holds |
//! |---|---|---|
//! | `leaves` | f32 `[slots, leaf width]` | the leaf values as they are now |
//! | `structure` | i32 `[words]` | the forest as it was made, a [`.fangorn`](fangorn::file) file of four bytes a word |
//! | `fingerprint` | i32 `[2]` | what tells that structure from others |
//!
//! The plan is no part of it: a record that brings another structure has the forest compiled anew while it is loaded. A
//! record of a forest of another size is refused by burn, which names the tensor and both shapes. One whose tensors were loaded
//! in part, so that leaves or fingerprint are of another forest than the structure, is refused by every call that would run
//! it, as [`ForestModule::verify`] does.
//!
//! # What the sums promise
//!
//! Margins keep the contract [`Any`](fangorn::sum::Contract::Any) over the leaf values of the parameter: each is an f32 sum of
//! its base score and the leaves that the row reached, in the order of the schedule, and off by no more than
//! `(trees + 1) x 2^-24 x (|base score| + Σ over trees of the largest |leaf|)`, with the leaves as they are now. As long as they are
//! those of the forest, the module's margins are the bytes that [`ForestOp::margins`] gives with
//! the same schedule on the same device. The contracts `Tree` and `Exact` are about a forest's own leaves, so a module has
//! neither: `ForestOp::with_sum` does, where nothing is trained. Which leaf a row reaches is the producer's, always.
//!
//! # The gradient of the leaf values
//!
//! A margin is linear in the leaves, so their gradient is exact: each row's gradient is added to the leaves that it reached, in
//! an order that every backend keeps ([`fangorn::op::BLOCK`]). The walks and the sums read the parameter where it lies, so
//! nothing goes from the device to the host between rows and loss.
//!
//! # The gradient of the rows
//!
//! A forest is constant between thresholds: the gradient of the rows is zero wherever it is defined, and a module passes none
//! on. With [soft splits](ForestModuleConfig::with_soft_splits) it passes on that of a smooth forest instead, in
//! which a split `x < t` sends the row left with probability `sigmoid((t - x) / temperature)`, and a margin is the sum of all
//! leaves, each times the probability of its path (as in "Distilling a Neural Network Into a Soft Decision Tree", Frosst and
//! Hinton, 2017, section 2, with thresholds for filters). What is given forward stays the hard forest's, so this
//! is a straight-through estimate ("Estimating or Propagating Gradients Through Stochastic Neurons", Bengio et al., 2013, section
//! 4). Missing values, splits that ask for equality and infinite thresholds stay hard and pass nothing on. It takes memory for the
//! steps of all paths of every row.

mod classes;
mod config;
mod epilogue;
mod parts;
mod record;
mod soft;
mod structure;

use std::sync::Arc;

use burn::{
    module::Param,
    tensor::{DType, Int, Tensor},
};
use fangorn::{
    op::{self, Epilogue, ForestOp},
    schedule::Schedule,
};

pub use config::ForestModuleConfig;
pub use record::Record;

use crate::error::{Error, Result};
use soft::SoftSplits;

/// What [`ForestModule::forward`] gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Output {
    /// What the producer's predict returns: margins after the objective's transform.
    #[default]
    Values,
    /// Margins: base score and leaves, added up.
    Margins,
}

/// A trained forest as a burn module. [`ForestModuleConfig`] makes one; [the module's page](self) says what it promises.
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
    /// Leaf values by slot, `[slots, leaf width]`: what is trained. [`ForestModule::leaf_slots`] gives the slots of rows.
    pub leaf_values: Param<Tensor<2>>,
    structure: Param<Tensor<1, Int>>,
    fingerprint: Param<Tensor<1, Int>>,
    /// Made of `structure`, or why it could not be.
    built: Result<Arc<ForestOp>, String>,
    schedule: Option<Arc<Schedule>>,
    output: Output,
    soft: Option<SoftSplits>,
    epilogue: Option<Arc<Epilogue>>,
}

impl ForestModule {
    /// Values or margins of rows, as the module was [made](ForestModuleConfig::with_output): `[rows, features]` of f32, f16
    /// or bf16 in any strides to f32, `[rows, outputs]` (for values with as many columns as the objective's transform has).
    /// Then the [steps that follow](ForestModule::with_step), if there are any.
    ///
    /// # Errors
    /// Rows of another width, type or device than the module's; a schedule that the device can't carry out;
    /// [`Error::Record`] where a record was loaded that makes no forest; and steps that take tensors, which
    /// [`forward_with`](ForestModule::forward_with) hands over.
    pub fn forward(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        match (self.output, &self.epilogue) {
            (_, Some(_)) => self.forward_with(x, Vec::new()),
            (Output::Margins, None) => self.margins(x),
            (Output::Values, None) => self.values(x),
        }
    }

    /// Margins of rows: `[rows, features]` to `[rows, outputs]`.
    ///
    /// # Errors
    /// As [`ForestModule::forward`].
    pub fn margins(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let op = self.operator()?;
        let leaves = self.leaf_value_tensor(op)?;
        let Some(soft) = self.soft.as_ref().filter(|_| x.is_autodiff()) else {
            return Ok(op::forest(x, leaves, op)?);
        };
        let hard = op::forest(x.clone(), leaves.clone(), op)?;
        let soft = soft.margins(x, leaves.detach(), op);
        // Zero but for its gradient.
        Ok(hard + (soft.clone() - soft.detach()))
    }

    /// What the producer's predict returns: `[rows, features]` to `[rows, values]`.
    ///
    /// # Errors
    /// As [`ForestModule::forward`].
    pub fn values(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        let op = self.operator()?;
        if self.soft.is_some() && x.is_autodiff() {
            return Ok(op.transformed(self.margins(x)?));
        }
        Ok(op::values(x, self.leaf_value_tensor(op)?, op)?)
    }

    /// The leaf that each row reaches in each tree: `[rows, features]` to slots, `[rows, trees]`, trees in the producer's order.
    /// Slots number the leaves of all trees through from 0, so that an embedding of [`ForestModule::leaf_count`] vectors takes them
    /// as they are.
    ///
    /// # Errors
    /// As [`ForestModule::forward`].
    pub fn leaf_slots(&self, x: Tensor<2>) -> Result<Tensor<2, Int>> {
        self.on_its_device(&x)?;
        Ok(self.operator()?.leaf_slots(x)?)
    }

    /// Columns of a row.
    pub fn features(&self) -> usize {
        self.built.as_ref().map_or(0, |op| op.forest().features.len())
    }

    /// Leaves of all trees.
    pub fn leaf_count(&self) -> usize {
        self.built.as_ref().map_or(0, |op| op.forest().leaf_count())
    }

    /// The operator that runs; its forest holds the leaf values as the producer trained them.
    ///
    /// # Errors
    /// [`Error::Record`] where a record was loaded that makes no forest.
    pub fn operator(&self) -> Result<&Arc<ForestOp>> {
        self.built.as_ref().map_err(|what| Error::Record(what.clone()))
    }

    /// Whether what was loaded makes a forest with its leaf values: said here at once, and otherwise by the first call.
    ///
    /// # Errors
    /// [`Error::Record`] names what does not fit.
    pub fn verify(&self) -> Result<()> {
        self.leaf_value_tensor(self.operator()?).map(drop)
    }

    /// The leaf values as the operator takes them, whatever a record or a quantizer has stored them as.
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

    fn on_its_device(&self, x: &Tensor<2>) -> Result<()> {
        let (rows, own) = (x.device(), self.leaf_values.lazy_device());
        if rows == own {
            return Ok(());
        }
        let what = format!("rows are on {rows:?}, the forest on {own:?}; move one of them");
        Err(fangorn::Error::Device(what).into())
    }
}
