//! Options of a model: threads, schedule, contract of sums, boosting rounds.

use std::ffi::c_char;

use fangorn::{
    Forest, Predictor,
    auto::PlanFile,
    import::LoadOptions,
    schedule::{Preset, Schedule},
    sum::Contract,
};

use crate::{
    error::{Refusal, text},
    pools,
};

/// How a model is read and compiled. `fangorn_options` returns the defaults; change the fields that you need.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FangornOptions {
    /// `sizeof(FangornOptions)`, which `fangorn_options` fills in. The library refuses another size, because it belongs
    /// to another version of the library.
    pub size: usize,
    /// The maximum number of threads that predict a batch, up to 4096. 0 stands for the number that the machine runs at
    /// the same time. With 1, a prediction runs on the calling thread, and contributions on a thread of the library.
    pub threads: usize,
    /// How the forest is walked: a preset's name, the text of a schedule, or the text of a plan file, as the command
    /// `fangorn tune` writes it. Null stands for the default. It changes how long a prediction takes, never its result.
    pub schedule: *const c_char,
    /// What is promised about a margin's last digits. `any` adds in the fastest order. `tree` adds as the model's own
    /// library does. `exact` gives the same bytes on every machine. Null stands for `any`.
    pub sum: *const c_char,
    /// The first boosting round to keep, counted from 0.
    pub first_round: u32,
    /// The end of the boosting rounds to keep: one more than the last of them. 0 keeps all rounds from the first on.
    pub end_round: u32,
}

impl Default for FangornOptions {
    fn default() -> Self {
        Self {
            size: size_of::<Self>(),
            threads: 0,
            schedule: std::ptr::null(),
            sum: std::ptr::null(),
            first_round: 0,
            end_round: 0,
        }
    }
}

/// Options after they are read and checked.
pub struct Options {
    pub load: LoadOptions,
    pub threads: usize,
    schedule: Option<String>,
    sum: Contract,
}

impl Options {
    /// Reads options. Null stands for the default options.
    ///
    /// # Safety
    /// `options` is null or points to options, whose texts are null or end with a zero.
    pub unsafe fn read(options: *const FangornOptions) -> Result<Self, Refusal> {
        let given = match options.is_null() {
            true => FangornOptions::default(),
            false => {
                if !options.is_aligned() {
                    return Err(Refusal::argument(
                        "options: a misaligned pointer; give a pointer to a FangornOptions",
                    ));
                }
                // SAFETY: not null and aligned. The size stands first in every version, so it may be read alone.
                let size = unsafe { (&raw const (*options).size).read() };
                if size != size_of::<FangornOptions>() {
                    let expected = size_of::<FangornOptions>();
                    return Err(Refusal::argument(format!(
                        "options: size is {size}, but this library's is {expected}; get the options from \
                         fangorn_options, and compile with this library's header"
                    )));
                }
                // SAFETY: the options have this version's size.
                unsafe { *options }
            }
        };
        // SAFETY: the caller upholds that texts are null or end with a zero.
        let (schedule, sum) = unsafe { (text("schedule", given.schedule)?, text("sum", given.sum)?) };
        let sum = match sum {
            None => Contract::Any,
            Some(name) => Contract::parse(name).ok_or_else(|| {
                let names = Contract::ALL.map(Contract::name).join(", ");
                Refusal::argument(format!("sum: `{name}` is no contract of sums; take one of {names}"))
            })?,
        };
        let threads = match given.threads {
            0 => pools::here(),
            threads => threads,
        };
        let rounds = (given.first_round, given.end_round);
        let load = LoadOptions {
            iteration_range: (rounds != (0, 0)).then_some(rounds.0..rounds.1),
            ..LoadOptions::default()
        };
        Ok(Self { load, threads, schedule: schedule.map(str::to_owned), sum })
    }

    /// Compiles a forest.
    pub fn predictor(&self, forest: &Forest) -> Result<Predictor, Refusal> {
        let mut builder = Predictor::builder(forest).sum(self.sum).threads(self.threads);
        if self.threads > 1 {
            builder = builder.pool(pools::pool(self.threads)?);
        }
        if let Some(text) = &self.schedule {
            builder = match Preset::parse(text) {
                Some(preset) => builder.schedule(preset.schedule(forest, false)),
                // A plan file is TOML, whose tables have square brackets.
                None if text.contains('[') => builder.schedules(
                    PlanFile::parse(text)
                        .and_then(|plan_file| plan_file.schedules(forest))
                        .map_err(fangorn::Error::from)?,
                ),
                None => builder.schedule(Schedule::parse(text).map_err(|error| {
                    let presets = Preset::ALL.map(Preset::name).join(", ");
                    Refusal::argument(format!("schedule: {error}; the presets are {presets}"))
                })?),
            };
        }
        Ok(builder.build()?)
    }
}
