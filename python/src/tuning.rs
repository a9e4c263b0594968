//! Looks for a fast schedule.

use std::time::Duration;

use fangorn::{
    Forest,
    auto::{Progress, ScheduleStore, TimedSchedule, Tuner, TuningResult},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

use crate::{
    error::{crate_error, refusal},
    options::Options,
    pools,
};

/// The longest search, in seconds: a day. A longer one is a mistake.
const LONGEST_SECONDS: f64 = 86_400.0;
/// The maximum number of rows of a call that is tuned for.
const MOST_ROWS: usize = 1 << 24;

/// The options of a search.
pub struct Request<'py> {
    pub batches: Vec<usize>,
    pub seconds: f64,
    pub exhaustive: bool,
    pub fresh: bool,
    /// Called with a line of text now and then.
    pub progress: Option<Bound<'py, PyAny>>,
}

impl Request<'_> {
    /// Refuses invalid options.
    pub fn check(&self) -> PyResult<()> {
        if !(self.seconds > 0.0 && self.seconds <= LONGEST_SECONDS) {
            let seconds = self.seconds;
            return Err(refusal(format!("budget: {seconds} seconds; give more than 0 and at most a day")));
        }
        match self.batches.iter().find(|rows| !(1..=MOST_ROWS).contains(*rows)) {
            Some(rows) => Err(refusal(format!("batches: {rows} rows a batch; give 1 to {MOST_ROWS}"))),
            None if self.batches.is_empty() => {
                Err(refusal("batches: the list is empty; give one size or more"))
            }
            None => Ok(()),
        }
    }
}

/// Searches on the threads of the options, with the caller's rows or with drawn ones.
pub fn tune(
    py: Python<'_>,
    forest: &Forest,
    options: &Options,
    rows: Option<&[f32]>,
    request: &Request<'_>,
) -> PyResult<TuningResult> {
    let store = ScheduleStore::user();
    let tuner = Tuner::new(forest)
        .store(store.as_ref())
        .fresh(request.fresh)
        .rows(rows)
        .batches(request.batches.iter().copied())
        .budget(Duration::from_secs_f64(request.seconds))
        .exhaustive(request.exhaustive)
        .threads(options.threads)
        .sum(options.sum);
    let progress = request.progress.as_ref().map(|progress| progress.clone().unbind());
    let show = |progress_now: Progress| {
        let Some(progress) = &progress else { return };
        let Progress { rows, seen, points, best, .. } = progress_now;
        let line = format!(
            "batch of {rows}: {seen} of {points} candidates, the best takes {:.0}% of the default schedule's time",
            100.0 * best
        );
        Python::attach(|py| {
            // A search can't be stopped half way, so an exception of `progress` is printed and not raised.
            if let Err(error) = progress.call1(py, (line,)) {
                error.write_unraisable(py, Some(progress.bind(py)));
            }
        });
    };
    pools::run(py, options.threads, || tuner.run(show))?.map_err(crate_error)
}

/// Returns the report of a search as Python's types, like the JSON of `fangorn tune`.
pub fn report<'py>(py: Python<'py>, tuned: &TuningResult) -> PyResult<Bound<'py, PyList>> {
    let timing = |timed: &TimedSchedule| -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("schedule", timed.schedule.to_string())?;
        dict.set_item("us_per_row", timed.seconds * 1e6)?;
        Ok(dict)
    };
    let batches = PyList::empty(py);
    for batch in &tuned.batches {
        let dict = PyDict::new(py);
        dict.set_item("batch", batch.rows)?;
        dict.set_item("auto", timing(&batch.auto)?)?;
        dict.set_item("tuned", timing(&batch.tuned)?)?;
        if let Some(best) = &batch.best {
            dict.set_item("best", timing(best)?)?;
        }
        dict.set_item("points", batch.points)?;
        dict.set_item("tried", batch.screened.len())?;
        dict.set_item("missed", batch.missed.len())?;
        batches.append(dict)?;
    }
    Ok(batches)
}
