//! `fangorn tune`: finds a fast schedule for each batch size.

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::OpenOptions,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, value_parser};
use fangorn::{
    Forest,
    auto::{
        KeptBatch, MeasuredTargets, Progress, ScheduleStore, TimedSchedule, TimingRecord, Tuner, TuningResult,
    },
};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{
    Outcome,
    atomic_file::AtomicFile,
    backend::Backend,
    error::{Error, Result, one_line},
    library_error,
    limits::LimitsChoice,
    load_model, output, progress,
    rows::{self, TableChoice},
    schedule::line,
    standard_input::rows_path,
    sum::SumChoice,
    tune_device, tune_plot,
    values::{duration, toml_path},
};

/// Find a fast schedule for each batch size
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn tune model.ubj --rows rows.npy --batch 1,64,4096 --budget 10s -o plan.toml
  fangorn predict model.ubj --rows rows.npy --schedule plan.toml")]
pub struct Tune {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// Rows like those that will be predicted: a .npy, .csv, .parquet, .arrow or .libsvm file; read as f32. Without it,
    /// random rows are drawn from the model's thresholds
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: Option<PathBuf>,
    /// What to tune for: cpu, or a GPU's backend, by its name in `fangorn predict`. auto is the CPU and, if this build
    /// has a backend for a GPU of this machine, that GPU as well, each for half of the budget
    #[arg(long, default_value = "auto")]
    backend: String,
    /// Rows of one call; separate several batch sizes with commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,64,4096",
          value_parser = value_parser!(u32).range(1..=1 << 24))]
    batch: Vec<u32>,
    /// How long to tune, for all batch sizes together: a number with the unit ms, s or m
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    budget: Duration,
    /// After the search within the budget, time every other candidate, and print the best one
    #[arg(long)]
    exhaustive: bool,
    /// Number of worker threads on the CPU; with 1, everything runs on the calling thread
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// Write the schedules to a plan file, which `--schedule` takes; with auto those of the CPU
    #[arg(long, short, value_name = "FILE.toml", value_parser = toml_path)]
    output: Option<PathBuf>,
    /// Draw the times of all candidates into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Append each candidate's time to this file, one JSON object a line; for the CPU only. Costs are fitted to such files
    /// (see the book's chapter on tuning)
    #[arg(long, value_name = "FILE.jsonl")]
    records: Option<PathBuf>,
    /// Search anew, and replace the kept schedules of earlier searches
    #[arg(long)]
    fresh: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sum: SumChoice,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

#[derive(Serialize)]
struct Report {
    model: String,
    #[serde(flatten)]
    first: TargetReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    /// With `auto`, the GPU's results.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<TargetReport>,
    /// With a GPU's results, the fastest targets for rows in the host's memory, each with its least number of rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fastest_from: Vec<(usize, String)>,
}

#[derive(Serialize)]
struct TargetReport {
    backend: &'static str,
    target: String,
    threads: usize,
    results: Vec<BatchReport>,
}

#[derive(Serialize)]
struct BatchReport {
    batch: usize,
    auto: Timing,
    tuned: Timing,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<Timing>,
    #[serde(skip_serializing_if = "Option::is_none")]
    us_per_row_from_host: Option<f64>,
    points: usize,
    tried: usize,
    missed: usize,
    candidates: Vec<Timing>,
    misses: Vec<MissReport>,
}

#[derive(Serialize)]
struct Timing {
    schedule: String,
    us_per_row: f64,
}

#[derive(Serialize)]
struct MissReport {
    schedule: String,
    why: String,
}

/// Runs the command.
///
/// # Errors
/// The options, the model or the rows are wrong.
pub fn run(args: &Tune) -> Result<Outcome> {
    let (backend, card) = match args.backend.as_str() {
        "auto" => (Backend::Cpu, Backend::of_card()),
        name => (Backend::parse(name)?, None),
    };
    for path in [&args.output, &args.plot, &args.records].into_iter().flatten() {
        AtomicFile::check(path)?;
    }
    if backend.is_gpu() {
        let tuned = on_device(args, backend, args.budget)?;
        if let Some(path) = &args.output {
            let forest = load_model(&args.model, &args.limits)?;
            write_plan_file(path, &tuned, &forest)?;
        }
        return print(args, &[(backend, tuned)]);
    }
    if backend != Backend::Cpu {
        return Err(Error::Request(format!(
            "--backend {}: schedules are tuned for the CPU and for GPUs; give cpu, auto or a GPU's backend",
            backend.name()
        )));
    }
    let forest = load_model(&args.model, &args.limits)?;
    let rows =
        args.rows.as_ref().map(|path| rows::read_rows::<f32>(path, &forest, args.table)).transpose()?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(args.threads)).build();
    let pool = pool.map_err(|e| Error::Request(format!("--threads {}: {e}; ask for fewer", args.threads)))?;
    let bar = bar(args);
    let store = ScheduleStore::user();
    let tuner = Tuner::new(&forest)
        .store(store.as_ref())
        .fresh(args.fresh)
        .rows(rows.as_ref().map(|rows| &rows.values[..]))
        .batches(args.batch.iter().map(|rows| *rows as usize))
        .budget(if card.is_some() { args.budget / 2 } else { args.budget })
        .exhaustive(args.exhaustive)
        .threads(usize::from(args.threads))
        .sum(args.sum.sum);
    let tuned = pool.install(|| tuner.run(|progress| show(&bar, args, progress))).map_err(library_error)?;
    bar.finish_and_clear();
    if let Some(path) = &args.output {
        write_plan_file(path, &tuned, &forest)?;
    }
    if let Some(path) = &args.records {
        add_records(path, &tuned.records(&forest))?;
    }
    let mut targets = vec![(backend, tuned)];
    if let Some(card) = card {
        targets.push((card, on_device(args, card, args.budget / 2)?));
    }
    print(args, &targets)
}

fn write_plan_file(path: &Path, tuned: &TuningResult, forest: &Forest) -> Result<()> {
    let plan_file = tuned.plan_file(forest).to_string();
    AtomicFile::write(path, |out| out.write_all(plan_file.as_bytes()))
}

/// Adds records to the end of a file.
fn add_records(path: &Path, records: &[TimingRecord]) -> Result<()> {
    let mut text = String::new();
    for record in records {
        text += &serde_json::to_string(record).map_err(|e| Error::Defect(e.to_string()))?;
        text.push('\n');
    }
    let file = OpenOptions::new().create(true).append(true).open(path);
    // One write, so that lines of processes that add to the file at the same time don't mix.
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|e| Error::file(path, e.to_string()))
}

/// Prints the results of the targets, of which there is at least one.
fn print(args: &Tune, targets: &[(Backend, TuningResult)]) -> Result<Outcome> {
    if let (Some(path), Some((backend, tuned))) = (&args.plot, targets.first()) {
        let model = args.model.file_name().unwrap_or_default().to_string_lossy();
        let title = format!("{}, {}, {} thread(s)", one_line(&model), backend.name(), tuned.threads);
        let svg = tune_plot::svg(&title, &tuned.batches)?;
        AtomicFile::write(path, |out| out.write_all(svg.as_bytes()))?;
    }
    let measured = MeasuredTargets::of_results(targets.iter().map(|(_, tuned)| tuned));
    let mut reports = targets.iter().map(|(backend, tuned)| target_report(*backend, tuned));
    let report = Report {
        model: args.model.display().to_string(),
        first: reports.next().ok_or_else(|| Error::Defect("no target was tuned".into()))?,
        plan: args.output.as_ref().map(|path| path.display().to_string()),
        gpu: reports.next(),
        fastest_from: match targets.len() {
            1 => Vec::new(),
            _ => measured.from().into_iter().map(|(rows, name)| (rows, name.to_owned())).collect(),
        },
    };
    let text = match args.json {
        true => serde_json::to_string(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => table(&report),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Tunes for a device. A schedule may crash the device, so schedules run in a process of their own.
fn on_device(args: &Tune, backend: Backend, budget: Duration) -> Result<TuningResult> {
    backend.require()?;
    backend.require_sum(args.sum.sum)?;
    if let (Some(path), false) = (&args.records, args.backend == "auto") {
        return Err(Error::file(path, "costs are fitted for the CPU only; leave --records out"));
    }
    let forest = load_model(&args.model, &args.limits)?;
    let rows =
        args.rows.as_ref().map(|path| rows::read_rows::<f32>(path, &forest, args.table)).transpose()?;
    // The process gets the options of this program that name the model, the rows and the sums.
    let mut arguments: Vec<OsString> =
        vec![args.model.clone().into(), "--backend".into(), backend.name().into()];
    if let Some(rows) = &args.rows {
        arguments.extend(["--rows".into(), rows.clone().into()]);
    }
    arguments.extend(["--sum".into(), args.sum.sum.name().into()]);
    arguments.extend(args.table.arguments());
    arguments.extend(args.limits.arguments());
    let mut batches: Vec<usize> = args.batch.iter().map(|rows| *rows as usize).collect();
    batches.sort_unstable();
    batches.dedup();
    let bar = bar(args);
    let store = ScheduleStore::user();
    let request = tune_device::Request {
        arguments,
        forest: &forest,
        sum: args.sum.sum,
        rows_hash: KeptBatch::hash_of(rows.as_ref().map(|rows| &rows.values[..])),
        batches: &batches,
        budget,
        exhaustive: args.exhaustive,
        store: store.as_ref(),
        fresh: args.fresh,
    };
    let tuned = tune_device::run(&request, &|progress| show(&bar, args, progress))?;
    bar.finish_and_clear();
    Ok(tuned)
}

fn bar(args: &Tune) -> ProgressBar {
    match args.exhaustive {
        true => progress::bar(None, "{spinner} {msg}"),
        false => progress::bar(Some(args.budget.as_millis() as u64), "{bar:40} {percent:>3}% {msg}"),
    }
}

fn show(bar: &ProgressBar, args: &Tune, progress: Progress) {
    let Progress { rows, seen, points, best, elapsed } = progress;
    bar.set_message(format!(
        "batch {rows}: {seen} of {points} candidates, the best takes {:.0}% of auto's time",
        100.0 * best
    ));
    if !args.exhaustive {
        bar.set_position(elapsed.min(args.budget).as_millis() as u64);
    }
}

fn target_report(backend: Backend, tuned: &TuningResult) -> TargetReport {
    let timing =
        |timed: &TimedSchedule| Timing { schedule: line(&timed.schedule), us_per_row: timed.seconds * 1e6 };
    let results = tuned.batches.iter().map(|batch| BatchReport {
        batch: batch.rows,
        auto: timing(&batch.auto),
        tuned: timing(&batch.tuned),
        best: batch.best.as_ref().map(timing),
        us_per_row_from_host: batch.from_host.map(|seconds| seconds * 1e6),
        points: batch.points,
        tried: batch.screened.len(),
        missed: batch.missed.len(),
        candidates: batch.screened.iter().map(timing).collect(),
        misses: batch
            .missed
            .iter()
            .map(|miss| MissReport { schedule: line(&miss.schedule), why: miss.why.clone() })
            .collect(),
    });
    TargetReport {
        backend: backend.name(),
        target: tuned.target.clone(),
        threads: tuned.threads,
        results: results.collect(),
    }
}

fn table(report: &Report) -> String {
    let mut text = format!("model     {}\n", one_line(&report.model));
    target_table(&mut text, &report.first);
    if let Some(gpu) = &report.gpu {
        text.push('\n');
        target_table(&mut text, gpu);
    }
    if !report.fastest_from.is_empty() {
        text += "\nThe fastest for rows in the host's memory, which `predict --backend auto` takes:\n";
    }
    for (rows, target) in &report.fastest_from {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{rows:>8} rows and more: {}", one_line(target));
    }
    if let Some(plan) = &report.plan {
        let _ = writeln!(text, "\nplan file {}, which --schedule takes", one_line(plan));
    }
    text
}

/// Writes the results of a target.
fn target_table(text: &mut String, report: &TargetReport) {
    let columns = |has: bool, name: &str| if has { format!("  {name:>10}") } else { String::new() };
    let has_best = report.results.iter().any(|batch| batch.best.is_some());
    let has_host = report.results.iter().any(|batch| batch.us_per_row_from_host.is_some());
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "backend   {}, {} thread(s)\n\nµs a row\n{:>8}  {:>10}  {:>10}{}{}  {:>5}  {:>6}",
        report.backend,
        report.threads,
        "batch",
        "auto",
        "tuned",
        columns(has_best, "best"),
        columns(has_host, "from host"),
        "tried",
        "missed",
    );
    for batch in &report.results {
        let number = |us: f64| format!("  {us:>10.4}");
        let best = batch.best.as_ref().map_or(String::new(), |best| number(best.us_per_row));
        let from_host = batch.us_per_row_from_host.map_or(String::new(), number);
        let _ = writeln!(
            text,
            "{:>8}  {:>10.4}  {:>10.4}{best}{from_host}  {:>5}  {:>6}",
            batch.batch, batch.auto.us_per_row, batch.tuned.us_per_row, batch.tried, batch.missed
        );
    }
    for batch in &report.results {
        let _ = writeln!(text, "\nbatch {}\n  auto   {}", batch.batch, batch.auto.schedule);
        let _ = writeln!(text, "  tuned  {}", batch.tuned.schedule);
        if let Some(best) = &batch.best {
            let _ = writeln!(text, "  best   {}", best.schedule);
        }
    }
}
