//! The builder of an [`Executable`].

use cubecl::client::Client;

use super::{Executable, device};
use crate::{
    error::Result,
    forest::{Forest, Profile},
    plan::{Emit, Request, RowType, lower_with},
    schedule::{Preset, Schedule},
    sum::Contract,
};

/// Options of an [`Executable`], from [`Executable::builder`]. Each option has a default. If a method is called several
/// times, the last call counts.
#[derive(Clone)]
#[must_use = "call `build` to make the executable"]
pub struct ExecutableBuilder<'f> {
    client: Client,
    forest: &'f Forest,
    schedule: Option<Schedule>,
    emit: Emit,
    rows: RowType,
    sum: Contract,
    profile: Option<&'f Profile>,
}

impl std::fmt::Debug for ExecutableBuilder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExecutableBuilder")
            .field("device", &self.client.name())
            .field("schedule", &self.schedule)
            .field("emit", &self.emit)
            .field("rows", &self.rows)
            .field("sum", &self.sum)
            .finish_non_exhaustive()
    }
}

impl<'f> ExecutableBuilder<'f> {
    pub(super) fn new(client: &Client, forest: &'f Forest) -> Self {
        Self {
            client: client.clone(),
            forest,
            schedule: None,
            emit: Emit::Margins,
            rows: RowType::F32,
            sum: Contract::Any,
            profile: None,
        }
    }

    /// Sets the schedule by which the forest is walked. The default is [`Preset::Default`] for the device.
    pub fn schedule(mut self, schedule: impl Into<Option<Schedule>>) -> Self {
        self.schedule = schedule.into();
        self
    }

    /// Sets what a run writes for each row. The default is [`Emit::Margins`].
    pub fn emit(mut self, emit: Emit) -> Self {
        self.emit = emit;
        self
    }

    /// Sets the type of the values in rows. The default is [`RowType::F32`].
    pub fn rows(mut self, rows: RowType) -> Self {
        self.rows = rows;
        self
    }

    /// Sets the contract of sums. The default is [`Contract::Any`].
    pub fn sum(mut self, sum: Contract) -> Self {
        self.sum = sum;
        self
    }

    /// Sets the profile, the number of rows that reach each leaf. Some directives need it.
    pub fn profile(mut self, profile: impl Into<Option<&'f Profile>>) -> Self {
        self.profile = profile.into();
        self
    }

    /// Lowers the forest for the device and uploads it.
    ///
    /// # Errors
    /// The forest does not [verify](Forest::verify), the layout or the device can't hold it, the device can't carry out
    /// the schedule, [`FixedPoint`](crate::sum::FixedPoint) can't hold a sum, or the profile is of another forest.
    pub fn build(self) -> Result<Executable> {
        let Self { client, forest, schedule, emit, rows, sum, profile } = self;
        let device = device(&client);
        let schedule = schedule.unwrap_or_else(|| Preset::Default.schedule_on(forest, device));
        let in_order = Executable::adds_in_order(forest, sum, emit);
        let walks = if in_order { Emit::Slots } else { emit };
        let request = Request { device, emit: walks, rows, threads: 1, sum };
        let lowered = lower_with(forest, &schedule, request, profile)?;
        let executable = Executable::from_lowered(&client, forest, &lowered)?;
        if in_order { executable.in_order(forest, emit) } else { Ok(executable) }
    }
}
