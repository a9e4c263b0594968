//! `fangorn measure`: times schedules on a device, one after the other, for `fangorn tune`. A schedule may
//! crash the device or the process, so `tune` runs this command as a process of its own.
//!
//! The command first writes what it runs on, a [`Hello`]. Then it reads one JSON object a line from standard input, a
//! [`Job`], and answers each with one on standard output, an [`Answer`].

use std::{
    io::{BufRead, Write},
    path::PathBuf,
    time::Instant,
};

use clap::Args;
use fangorn::{
    Forest,
    auto::RowPool,
    schedule::{Device, Preset, Schedule, ranked_cubes},
};
use serde::{Deserialize, Serialize};

use crate::{
    Outcome,
    backend::{Backend, CompiledForest, TimedOutput},
    error::{Error, Result, catch_panic},
    limits::LimitsChoice,
    load_model,
    rows::{self, TableChoice},
    schedule::Choice,
    standard_input::rows_path,
    sum::SumChoice,
};

/// Time the schedules that standard input names, for `fangorn tune`
#[derive(Debug, Args)]
#[command(after_help = "Example:
  echo '{\"schedule\": null, \"seconds\": 0.1, \"from_host\": false}' | fangorn measure model.ubj --backend wgpu --batch 1024")]
pub struct Measure {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// The rows: a .npy, .csv, .parquet, .arrow or .libsvm file. Without it, random rows are drawn from the model's
    /// thresholds
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: Option<PathBuf>,
    /// The backend, by its name in `fangorn predict`
    #[arg(long)]
    backend: String,
    /// Rows of one call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    batch: u32,
    #[command(flatten)]
    sum: SumChoice,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// The first line of standard output.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Hello {
    /// The backend and its device, as kept schedules name them.
    pub target: String,
    /// Texts of schedules for the batch, the one with the least estimate first.
    pub ranked: Vec<String>,
}

/// A line of standard input: a schedule to time.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The schedule's text; `None` for the device's default schedule.
    pub schedule: Option<String>,
    /// The seconds to time it for.
    pub seconds: f64,
    /// Whether a call copies the rows from the host's memory and the margins back. If not, they stay on the device.
    #[serde(default)]
    pub from_host: bool,
}

/// A line of standard output.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The schedule's text.
    pub schedule: String,
    /// The median of the seconds of a call; `None` if the schedule could not be timed.
    pub call: Option<f64>,
    /// Why the schedule could not be timed.
    pub error: Option<String>,
}

/// The number of schedules of a device that a search begins with, in the order of their estimates. On an NVIDIA H200
/// the fastest of five took 1.00 to 1.01 times the fastest of 38 (`benches/experiments/fit_cubes.py`).
const RANKED: usize = 12;
/// The least number of calls that are timed.
const LEAST_CALLS: usize = 5;

/// Runs the command.
///
/// # Errors
/// The options, the model, the rows or a line of standard input are wrong, or the backend is not there.
pub fn run(args: &Measure) -> Result<Outcome> {
    let backend = Backend::parse(&args.backend)?;
    let device = backend.open_device()?;
    let forest = load_model(&args.model, &args.limits)?;
    let batch = args.batch as usize;
    let pool = match &args.rows {
        Some(path) => {
            let rows = rows::read_rows::<f32>(path, &forest, args.table)?;
            RowPool::of_rows(&forest, &rows.values, batch)?
        }
        None => RowPool::drawn(&forest, batch)?,
    };
    let ranked = match device {
        Device::Gpu(gpu) if gpu.shared_memory && !gpu.units_are_threads => {
            ranked_cubes(&forest, &gpu, batch).into_iter().take(RANKED)
        }
        _ => Vec::new().into_iter().take(RANKED),
    };
    say(&Hello {
        target: backend.key(&forest, args.sum.sum)?.target,
        ranked: ranked.map(|cube| cube.schedule.to_string()).collect(),
    })?;
    let default = Preset::Default.schedules_on(&forest, device).nearest(batch).clone();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| Error::Request(format!("standard input: {e}")))?;
        let job: Job = serde_json::from_str(&line)
            .map_err(|e| Error::Request(format!("standard input: {e}; give one JSON object a line")))?;
        let schedule = match &job.schedule {
            None => default.clone(),
            Some(text) => Schedule::parse(text).map_err(fangorn::Error::from)?,
        };
        let text = schedule.to_string();
        let timed = catch_panic(|| call(backend, &forest, schedule, &pool, args, &job));
        let (call, error) = match timed {
            Ok(Ok(seconds)) => (Some(seconds), None),
            Ok(Err(e)) => (None, Some(e.to_string())),
            Err(panic) => (None, Some(panic)),
        };
        say(&Answer { schedule: text, call, error })?;
    }
    Ok(Outcome::Done)
}

/// Writes a line of JSON to standard output.
fn say(what: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(what).map_err(|e| Error::Defect(e.to_string()))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Error::Output)
}

/// Returns the median of the seconds of a call.
fn call(
    backend: Backend,
    forest: &Forest,
    schedule: Schedule,
    pool: &RowPool,
    args: &Measure,
    job: &Job,
) -> Result<f64> {
    let compiled = CompiledForest::open(backend, forest, &Choice::of(schedule), args.sum.sum)?;
    let mut rerun = match job.from_host {
        true => compiled.rerun_from_host(pool),
        false => compiled.rerun(pool, &TimedOutput::Margins)?,
    };
    // The first call compiles the kernel and checks it. Later calls use it.
    rerun()?;
    if let Some(warning) = compiled.warnings().first() {
        return Err(Error::Request(warning.to_string()));
    }
    rerun()?;
    let mut calls = Vec::new();
    let begin = Instant::now();
    while calls.len() < LEAST_CALLS || begin.elapsed().as_secs_f64() < job.seconds {
        let start = Instant::now();
        rerun()?;
        calls.push(start.elapsed().as_secs_f64());
    }
    calls.sort_unstable_by(f64::total_cmp);
    Ok(calls[calls.len() / 2])
}
