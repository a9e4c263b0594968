//! The options of a module.

use burn::{
    module::{Param, ParamId},
    tensor::{DType, Device, Tensor},
};
use fangorn::{
    Forest,
    check::SelfCheck,
    forest::{CompareType, Profile, Prologue},
    schedule::Schedule,
};

use super::{ForestModule, Output, Record, soft::SoftSplits, structure};
use crate::error::{Error, Result};

/// The options of a [`ForestModule`].
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::Device;
/// use fangorn::{Forest, schedule::Preset};
/// use fangorn_graphs::forest::{ForestModuleConfig, Output};
///
/// let mut forest = Forest::builder(2, 1);
/// forest.tree(0).leaf(0, &[0.5]);
/// let forest = forest.build().map_err(fangorn::Error::from)?;
/// let schedule = Preset::Default.schedule(&forest, false);
/// let module = ForestModuleConfig::new(forest)
///     .with_schedule(schedule)
///     .with_output(Output::Margins)
///     .init(&Device::flex())?;
/// assert_eq!(module.leaf_values.dims(), [1, 1]);
/// # }
/// # Ok::<(), fangorn_graphs::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ForestModuleConfig {
    forest: Forest,
    schedule: Option<Schedule>,
    profile: Option<Profile>,
    output: Output,
    temperature: Option<f64>,
    check: SelfCheck,
}

impl ForestModuleConfig {
    /// Returns the default options: the module gives values, runs the default schedule of each device, and
    /// passes on no gradient of the rows.
    pub fn new(forest: Forest) -> Self {
        Self {
            forest,
            schedule: None,
            profile: None,
            output: Output::Values,
            temperature: None,
            check: SelfCheck::Quick,
        }
    }

    /// Returns options for the forest that is stored in a record. Use this if you have only the record.
    /// `words` are the elements of the record's tensor `structure`. The leaf values are those with which
    /// the structure was made. Loading the record replaces them by its own.
    ///
    /// # Errors
    /// [`Error::Record`] if the words do not encode a structure.
    pub fn of_structure(words: &[i32]) -> Result<Self> {
        structure::forest(words).map(Self::new).map_err(Error::Record)
    }

    /// Makes the module take raw rows of f32, f16 or bf16: `steps`, which prepare rows before the forest, are
    /// [folded](Forest::with_prologue) into its thresholds and then cost nothing. The temperature of
    /// [soft splits](Self::with_soft_splits) is in the units of the raw columns.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::tensor::{Device, Tensor};
    /// use fangorn::{forest::{CompareType, Prologue, Side}, Forest};
    /// use fangorn_graphs::forest::ForestModuleConfig;
    ///
    /// let mut forest = Forest::builder(1, 1);
    /// let mut tree = forest.tree(0);
    /// tree.split(0, CompareType::F32.at_most(0.1), Side::Left, 1, 2);
    /// tree.leaf(1, &[-1.0]);
    /// tree.leaf(2, &[1.0]);
    /// let forest = forest.build().map_err(fangorn::Error::from)?;
    ///
    /// let device = Device::flex();
    /// let scaler = Prologue::standard_scaler(&[10.0], &[3.0], CompareType::F32);
    /// let scaled = ForestModuleConfig::new(forest.clone()).init(&device)?;
    /// let raw = ForestModuleConfig::new(forest).with_prologue(&scaler)?.init(&device)?;
    /// let x = Tensor::<2>::from_data([[9.0], [10.2], [10.4]], &device);
    /// let prepared = (x.clone() - 10.0) / 3.0;
    /// raw.forward(x)?.into_data().assert_eq(&scaled.forward(prepared)?.into_data(), true);
    /// # }
    /// # Ok::<(), fangorn_graphs::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Forest::with_prologue`].
    pub fn with_prologue(mut self, steps: &[Prologue]) -> Result<Self> {
        self.forest = self.forest.with_prologue(steps, CompareType::F32).map_err(fangorn::Error::from)?;
        Ok(self)
    }

    /// Sets one schedule for every device. A schedule says how the forest is walked, and is not saved in a
    /// record.
    #[must_use]
    pub fn with_schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// Sets how many rows reach each leaf, for [schedules](Self::with_schedule) that need it. The profile is
    /// not saved in a record. A module that loads a record of another structure drops it.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Sets how much the module checks itself on each device before it predicts there.
    /// `module.operator()?.warnings()` returns what went wrong.
    #[must_use]
    pub fn with_check(mut self, check: SelfCheck) -> Self {
        self.check = check;
        self
    }

    /// Sets what [`ForestModule::forward`] returns.
    #[must_use]
    pub fn with_output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// Gives the rows a gradient: that of the forest with soft splits, where `x < t` goes left with
    /// probability `sigmoid((t - x) / temperature)`. The temperature is in the units of the columns. The
    /// module's results stay the same. See [the gradient of the rows](super#the-gradient-of-the-rows).
    #[must_use]
    pub fn with_soft_splits(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Makes the module, with its parameters on `device`.
    ///
    /// # Errors
    /// The forest does not verify, the schedule's directives contradict each other, the profile is of another
    /// forest, or the forest can't have soft splits: [`Error::SoftSplits`] names the reason.
    pub fn init(self, device: &Device) -> Result<ForestModule> {
        let Self { forest, schedule, profile, output, temperature, check } = self;
        let op = structure::operator(forest, schedule.as_ref(), profile, check)?;
        let soft = temperature.map(|t| SoftSplits::new(t, op.forest())).transpose()?;
        let forest = op.forest();
        let [(_, leaves), (_, structure), (_, fingerprint)] = Record::new(forest).into_tensors();
        let integers =
            |data| Param::initialized(ParamId::new(), Tensor::from_data(data, (device, DType::I32)));
        Ok(ForestModule {
            leaf_values: Param::from_tensor(Tensor::from_data(leaves, (device, DType::F32))),
            structure: integers(structure),
            fingerprint: integers(fingerprint),
            operator: Ok(op),
            schedule: schedule.map(Into::into),
            output,
            soft,
            epilogue: None,
        })
    }
}
