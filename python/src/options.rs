//! Options of a model: schedule, threads, contract of sums, boosting rounds.

use std::{ops::Range, path::Path};

use fangorn::{
    Forest, Predictor,
    auto::{PlanFile, ScheduleKey, ScheduleStore},
    schedule::{BatchSchedules, Preset, Schedule},
    sum::Contract,
};
use pyo3::prelude::*;

use crate::{
    error::{crate_error, refusal},
    pools,
};

/// How a model is compiled.
#[derive(Clone, Debug)]
pub struct Options {
    /// A preset's name, `tuned`, the path of a schedule or a plan file, or the text of either; `None` for the default.
    pub schedule: Option<String>,
    /// The number of threads that predict.
    pub threads: usize,
    /// The contract of sums.
    pub sum: Contract,
}

/// Options as Python code gives them, in a dict.
#[derive(Clone, Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct GivenOptions {
    schedule: Option<String>,
    threads: Option<i64>,
    sum: String,
    /// The boosting rounds to keep.
    pub iteration_range: Option<Rounds>,
}

impl GivenOptions {
    /// Checks the options.
    pub fn options(&self) -> PyResult<Options> {
        let sum = Contract::parse(&self.sum).ok_or_else(|| {
            let names = Contract::ALL.map(Contract::name).join(", ");
            refusal(format!("sum: `{}` is no contract of sums; take one of {names}", self.sum))
        })?;
        let threads = match self.threads.map(usize::try_from) {
            None => pools::here(),
            Some(Ok(threads)) if threads > 0 => threads,
            _ => {
                let threads = self.threads.unwrap_or_default();
                let what =
                    format!("threads: {threads} is no number of threads; give 1 or more, or leave it out");
                return Err(refusal(what));
            }
        };
        Ok(Options { schedule: self.schedule.clone(), threads, sum })
    }
}

impl Options {
    /// Refuses what only a forest has.
    pub fn check_for_pipeline(&self) -> PyResult<()> {
        let option = match self {
            Self { schedule: Some(_), .. } => "schedule",
            Self { sum: Contract::Tree | Contract::Exact, .. } => "sum",
            _ => return Ok(()),
        };
        Err(refusal(format!(
            "{option}: the model is a pipeline and no single forest, so it has no {option}; leave it out"
        )))
    }

    /// Compiles a forest.
    pub fn predictor(&self, forest: &Forest) -> PyResult<Predictor> {
        let schedules = self.schedule.as_deref().map(|name| self.schedules(name, forest)).transpose()?;
        let builder = Predictor::builder(forest).schedules(schedules).threads(self.threads).sum(self.sum);
        builder.build().map_err(crate_error)
    }

    /// Returns the schedules that a name, a file or a text stands for.
    ///
    /// # Errors
    /// The text stands for no schedule, or for none of this forest.
    pub fn schedules(&self, name: &str, forest: &Forest) -> PyResult<BatchSchedules> {
        if let Some(preset) = Preset::parse(name) {
            return Ok(preset.schedule(forest, false).into());
        }
        if name == "tuned" {
            let key = ScheduleKey::here(forest, self.threads, self.sum);
            let kept =
                ScheduleStore::user().map(|store| store.nearest(&key)).transpose().map_err(crate_error)?;
            return kept.flatten().and_then(|kept| kept.schedules()).ok_or_else(|| {
                refusal(
                    "schedule: no tuned schedules of this model are saved on this machine; call Model.tune, or run \
                     `fangorn tune MODEL`, first",
                )
            });
        }
        // The text of a schedule has parentheses or several lines. The text of a plan file has `[[batch]]` tables.
        let path = Path::new(name);
        if name.contains("[[batch]]") {
            return PlanFile::parse(name)
                .and_then(|plan_file| plan_file.schedules(forest))
                .map_err(|e| refusal(e.to_string()));
        }
        if name.contains(['\n', '(']) && !path.exists() {
            return Schedule::parse(name).map(Into::into).map_err(crate_error);
        }
        let of_file = |what: String| refusal(format!("{name}: {what}"));
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                let presets = Preset::ALL.map(Preset::name).join(", ");
                refusal(format!(
                    "schedule: `{name}` is no file, no preset and no schedule; the presets are {presets}, and `tuned` \
                     stands for the schedules that `fangorn tune` saved"
                ))
            }
            _ => of_file(format!("{e}; give a preset's name, or a text file with one directive a line")),
        })?;
        match path.extension().is_some_and(|extension| extension == "toml") {
            true => PlanFile::parse(&text)
                .and_then(|plan_file| plan_file.schedules(forest))
                .map_err(|e| of_file(e.to_string())),
            false => Schedule::parse(&text).map(Into::into).map_err(|e| of_file(e.to_string())),
        }
    }
}

/// The boosting rounds that predict.
#[derive(Clone, Debug, PartialEq, Eq, FromPyObject)]
pub enum Rounds {
    /// From the first round to the one before the end, counted from 0. An end of 0 stands for the end of the model.
    Between((u32, u32)),
    /// `best`, or `all`.
    Named(String),
}

impl Rounds {
    /// Returns the range of rounds. `best` finds the best round, if there is one.
    pub fn range(&self, best: impl FnOnce() -> PyResult<Option<u32>>) -> PyResult<Option<Range<u32>>> {
        match self {
            Self::Between((first, end)) => Ok(Some(*first..*end)),
            Self::Named(name) if name == "all" => Ok(None),
            Self::Named(name) if name == "best" => match best()? {
                Some(best) => Ok(Some(0..best + 1)),
                None => Err(refusal(
                    "iteration_range: the model names no best round; train it with XGBoost's early stopping, or give \
                     two numbers",
                )),
            },
            Self::Named(name) => Err(refusal(format!(
                "iteration_range: `{name}` is unknown; give two numbers such as (0, 100), or `best`, or `all`"
            ))),
        }
    }
}
