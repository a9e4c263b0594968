//! The builder of a [`ForestOp`].

use std::sync::OnceLock;

use super::ForestOp;
use crate::{
    check::SelfCheck,
    error::Result,
    forest::{Aggregate, Forest, Profile},
    schedule::{BatchSchedules, Schedule},
    sum::{Contract, FixedPoint},
};

/// Options of a [`ForestOp`], from [`ForestOp::builder`]. Each option has a default. The last call of a
/// method counts.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use std::sync::Arc;
///
/// use burn::tensor::{Device, Tensor};
/// use fangorn::{Predictor, cpu::Rows, forest::Profile, import, op::ForestOp, schedule::Schedule};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let columns = forest.features.len();
/// let rows = vec![0.5f32; 20 * columns];
/// let mut profile = Profile::new(&forest);
/// profile.count(&forest, &Predictor::new(&forest)?.leaf_slots(&Rows::new(&rows, columns)?)?)?;
///
/// let schedule = Schedule::parse("sort(likely_leaf)\npeelWalk(tree, 90%)")?;
/// let op = Arc::new(ForestOp::builder(forest).schedule(schedule).profile(profile).build()?);
/// assert_eq!(op.values(Tensor::zeros([4, columns], &Device::flex()))?.dims(), [4, 1]);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "call `build` to make the operator"]
pub struct ForestOpBuilder {
    forest: Forest,
    schedules: Option<BatchSchedules>,
    sum: Contract,
    profile: Option<Profile>,
    check: SelfCheck,
}

impl ForestOpBuilder {
    pub(super) fn new(forest: Forest) -> Self {
        Self { forest, schedules: None, sum: Contract::Any, profile: None, check: SelfCheck::Quick }
    }

    /// Sets one schedule for every device and every batch size. By default each device has its own default
    /// [schedules](ForestOp::schedules).
    pub fn schedule(self, schedule: impl Into<Option<Schedule>>) -> Self {
        self.schedules(schedule.into().map(BatchSchedules::from))
    }

    /// Sets the schedules for every device, by batch size, as [`PlanFile::schedules`](crate::auto::PlanFile::schedules)
    /// returns them. On a cubecl device a batch runs by the schedule of the [nearest](BatchSchedules::nearest) size.
    pub fn schedules(mut self, schedules: impl Into<Option<BatchSchedules>>) -> Self {
        self.schedules = schedules.into();
        self
    }

    /// Sets the contract that sums keep. [`Contract::Tree`] and [`Contract::Exact`] add the forest's own leaf
    /// values, even if a call passes other ones. The default is [`Contract::Any`].
    pub fn sum(mut self, sum: Contract) -> Self {
        self.sum = sum;
        self
    }

    /// Sets the profile, which says how many rows reach each leaf, for schedules that need it.
    /// `fangorn profile` counts the rows, and [`Profile::of_visits`] reads the counts of a `.fangorn` file.
    pub fn profile(mut self, profile: impl Into<Option<Profile>>) -> Self {
        self.profile = profile.into();
        self
    }

    /// Sets how much the operator checks on each device before it serves there. The default is
    /// [`SelfCheck::Quick`]. If a check fails, plain walks run instead and [`ForestOp::warnings`] says so.
    pub fn check(mut self, check: SelfCheck) -> Self {
        self.check = check;
        self
    }

    /// Makes the operator, which compiles for a device when a call first uses the operator there.
    ///
    /// # Errors
    /// The forest does not verify, the schedule's directives contradict each other, [`FixedPoint`] can't hold
    /// a sum, or the profile is of another forest. A schedule that a device can't carry out is an error of
    /// the first call there.
    pub fn build(self) -> Result<ForestOp> {
        let Self { forest, schedules, sum, profile, check } = self;
        forest.verify()?;
        for (_, schedule) in schedules.iter().flat_map(BatchSchedules::buckets) {
            schedule.nest()?;
        }
        if sum == Contract::Exact && forest.aggregate == Aggregate::Sum {
            FixedPoint::of_verified(&forest)?;
        }
        profile.as_ref().map(|profile| profile.check(&forest)).transpose()?;
        let leaves = forest.leaf_values.iter().map(|v| v.0 as f32).collect();
        Ok(ForestOp {
            forest,
            schedules,
            sum,
            check,
            profile,
            #[cfg(feature = "cube")]
            warnings: std::sync::Mutex::default(),
            leaves,
            leaves_on: super::once_list::OnceList::default(),
            cpu: OnceLock::new(),
            explainer: OnceLock::new(),
            #[cfg(any(feature = "flex", feature = "ndarray"))]
            known: super::known::KnownLeaves::default(),
            #[cfg(feature = "cube")]
            schedules_on: super::once_list::OnceList::default(),
            #[cfg(feature = "cube")]
            cube: super::once_list::OnceList::default(),
            #[cfg(feature = "cube")]
            explainers_on: super::once_list::OnceList::default(),
            #[cfg(feature = "cube")]
            interactions_on: super::once_list::OnceList::default(),
            #[cfg(feature = "cube")]
            leaf_gradients_on: super::once_list::OnceList::default(),
            #[cfg(feature = "cube")]
            number: OnceLock::new(),
        })
    }
}
