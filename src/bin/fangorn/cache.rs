//! `fangorn cache`: lists, clears and exports the schedules that `fangorn tune` keeps in the user's cache
//! folder. Costs are in the same folder, and `fangorn cache clear` removes them, too.

use std::{fmt::Write as _, io::Write as _, path::PathBuf};

use clap::{Args, Subcommand, value_parser};
use fangorn::{
    auto::{CACHE, KeptSchedules, PlanFile, PlanFileBucket, ScheduleKey, ScheduleStore},
    sum::Contract,
};
use serde::Serialize;

use crate::{
    Outcome,
    atomic_file::AtomicFile,
    backend::Backend,
    error::{Error, Result},
    library_error,
    limits::LimitsChoice,
    load_model, output,
    schedule::line,
    sum::contract,
    values::toml_path,
};

/// List, clear or export the schedules that `fangorn tune` keeps
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn cache list
  fangorn cache export model.ubj -o plan.toml")]
pub struct Cache {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the kept schedules, by model, target, threads and contract of sums
    #[command(after_help = "Example:\n  fangorn cache list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove all kept schedules, and the costs that `fangorn costs measure` has kept
    #[command(after_help = "Example:\n  fangorn cache clear")]
    Clear,
    /// Write the schedules that are kept for a model on this machine's CPU or GPU to a plan file, which `--schedule` takes
    #[command(after_help = "Example:\n  fangorn cache export model.ubj -o plan.toml")]
    Export(Box<Export>),
}

#[derive(Debug, Args)]
struct Export {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// The plan file to write
    #[arg(long, short, value_name = "FILE.toml", value_parser = toml_path)]
    output: PathBuf,
    /// What the schedules were tuned for: cpu, or a GPU's backend, by its name in `fangorn predict`
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// The number of worker threads that the schedules were tuned for; if none were, the nearest number is taken
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// The contract of sums that the schedules were tuned for; if none were, those of another contract are taken
    #[arg(long, value_name = "any|tree|exact", default_value = "any", value_parser = contract())]
    sum: Contract,
    #[command(flatten)]
    limits: LimitsChoice,
}

#[derive(Serialize)]
struct PlanFileReport {
    model: String,
    target: String,
    threads: usize,
    sum: &'static str,
    batches: Vec<BatchReport>,
}

#[derive(Serialize)]
struct BatchReport {
    batch: usize,
    schedule: String,
    us_per_row: f64,
    auto_us_per_row: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    us_per_row_from_host: Option<f64>,
    candidates: usize,
}

/// Runs the command.
///
/// # Errors
/// The environment names no cache folder, a file can't be read or written, or nothing is kept for a model.
pub fn run(args: &Cache) -> Result<Outcome> {
    let store = ScheduleStore::user().ok_or_else(|| {
        Error::Request(format!("the environment names no cache folder; set {CACHE} to a folder"))
    })?;
    match &args.command {
        Command::List { json } => {
            let kept: Vec<_> = store.list().map_err(library_error)?.iter().map(report).collect();
            let text = match json {
                true => serde_json::to_string(&kept).map_err(|e| Error::Defect(e.to_string()))? + "\n",
                false => table(&store, &kept),
            };
            output::print(&text)?;
        }
        Command::Clear => {
            let files = store.clear().map_err(library_error)?;
            output::print(&format!("removed {files} file(s) in {}\n", store.folder().display()))?;
        }
        Command::Export(export) => write(&store, export)?,
    }
    Ok(Outcome::Done)
}

fn write(store: &ScheduleStore, args: &Export) -> Result<()> {
    AtomicFile::check(&args.output)?;
    let forest = load_model(&args.model, &args.limits)?;
    let key = match Backend::parse(&args.backend)? {
        backend if backend.is_gpu() => backend.key(&forest, args.sum)?,
        _ => ScheduleKey::here(&forest, usize::from(args.threads), args.sum),
    };
    let kept = store.nearest(&key).map_err(library_error)?.ok_or_else(|| {
        let what = "no schedule is kept for this model on this machine; run `fangorn tune` on it first";
        Error::file(&args.model, what.to_owned())
    })?;
    let buckets = kept.batches.iter().map(|batch| PlanFileBucket {
        rows: batch.found.rows,
        schedule: batch.found.tuned.schedule.clone(),
        us_per_row: Some(batch.found.tuned.seconds * 1e6),
        auto_us_per_row: Some(batch.found.auto.seconds * 1e6),
    });
    let plan_file = PlanFile::new(&forest, &*kept.key.target, kept.key.threads, buckets.collect());
    AtomicFile::write(&args.output, |out| out.write_all(plan_file.to_string().as_bytes()))
}

fn report(kept: &KeptSchedules) -> PlanFileReport {
    let batches = kept.batches.iter().map(|batch| BatchReport {
        batch: batch.found.rows,
        schedule: line(&batch.found.tuned.schedule),
        us_per_row: batch.found.tuned.seconds * 1e6,
        auto_us_per_row: batch.found.auto.seconds * 1e6,
        us_per_row_from_host: batch.found.from_host.map(|seconds| seconds * 1e6),
        candidates: batch.found.screened.len(),
    });
    PlanFileReport {
        model: kept.key.model.to_string(),
        target: kept.key.target.clone(),
        threads: kept.key.threads,
        sum: kept.key.sum.name(),
        batches: batches.collect(),
    }
}

fn table(store: &ScheduleStore, kept: &[PlanFileReport]) -> String {
    let mut text = format!("{} plan file(s) in {}\n", kept.len(), store.folder().display());
    for plan_file in kept {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "\nmodel {}, {}, {} thread(s), sum {}\n{:>8}  {:>12}  {:>12}  {:>10}",
            plan_file.model,
            plan_file.target,
            plan_file.threads,
            plan_file.sum,
            "batch",
            "auto, µs/row",
            "tuned",
            "candidates"
        );
        for batch in &plan_file.batches {
            let _ = writeln!(
                text,
                "{:>8}  {:>12.4}  {:>12.4}  {:>10}",
                batch.batch, batch.auto_us_per_row, batch.us_per_row, batch.candidates
            );
        }
    }
    text
}
