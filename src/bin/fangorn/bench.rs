//! `fangorn bench`: measures the time for each row, by batch size.

use std::{
    fmt::Write,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, value_parser};
use cpu_time::{ProcessTime, ThreadTime};
use fangorn::{
    Forest,
    auto::RowPool,
    contributions::{Explainer, RowExplainer},
    cpu,
    graph::Passes,
    sum::Contract,
};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::{
    Outcome,
    answer::MissingChoice,
    backend::{Backend, CompiledForest, Explanation, Rerun, TimedOutput},
    bench_graph::GraphBench,
    error::{Error, Result, one_line, say},
    graph,
    limits::LimitsChoice,
    load_contents, output,
    predict::Output,
    predict_graph::{self, GraphInputs},
    profile::ProfileChoice,
    progress,
    row_explainer::{self, background_of},
    rows::{self, Matrix, TableChoice},
    schedule::Choice,
    standard_input::rows_path,
    sum::SumChoice,
    values::announcement,
};

/// Time predictions by batch size
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn bench model.ubj --rows rows.npy --batch 1,64,4096 --json
  fangorn bench model.ubj --rows rows.npy --batch 4096 --output contributions
  fangorn bench model.ubj --rows rows.npy --batch 4096 --output contributions --background usual.npy")]
pub struct Bench {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// The rows: a .npy, .csv, .parquet, .arrow or .libsvm file. Each call predicts the next batch of at least 16384
    /// rows; if the file has fewer, they are repeated, and for a forest with a small random change
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: PathBuf,
    /// Rows of one call; separate several batch sizes with commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,64,4096",
          value_parser = value_parser!(u32).range(1..=1 << 28))]
    batch: Vec<u32>,
    /// What runs the forest: cpu, reference (the reference interpreter), or a backend of burn that is built in: flex,
    /// ndarray, wgpu, vulkan, metal, cuda, rocm or cubecl-cpu
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// A preset's name, or a file with one directive a line. For the CPU also a plan file (.toml), or `tuned`: the
    /// schedules that `fangorn tune` keeps for the model
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    schedule: String,
    #[command(flatten)]
    profile: ProfileChoice,
    #[command(flatten)]
    sum: SumChoice,
    /// Number of worker threads; with 1, everything runs on the calling thread
    #[arg(long, value_name = "N", default_value = "1", value_parser = value_parser!(u16).range(1..=4096))]
    threads: u16,
    /// How long to time each batch size, in seconds: above 0, at most 3600
    #[arg(long, value_name = "S", default_value = "2.0")]
    seconds: f64,
    /// The output to time. Of a forest: margin (the default), contributions or interactions. Of a classical model (an
    /// ONNX file, or LightGBM's linear trees): any output that it has; the default is value
    #[arg(long, value_name = "OUTPUT", value_enum)]
    output: Option<Output>,
    /// The background that contributions or interactions are computed against: a file of rows
    #[arg(long, value_name = "FILE")]
    background: Option<PathBuf>,
    /// The passes over a classical model, instead of the default ones: names with commas between them, `all` or `none`
    #[arg(long, value_name = "PASS,…", value_parser = graph::passes)]
    passes: Option<Passes>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

#[derive(Debug, Serialize)]
struct Report {
    model: String,
    backend: &'static str,
    threads: u16,
    sum: &'static str,
    load_ms: f64,
    compile_ms: f64,
    results: Vec<Timing>,
}

#[derive(Debug, Serialize)]
struct Timing {
    batch: u32,
    cpu_us_per_row_min: f64,
    cpu_us_per_row_median: f64,
    wall_us_per_row_min: f64,
    wall_us_per_row_median: f64,
    schedule: String,
}

/// Runs the command.
///
/// # Errors
/// The options, the model or the rows are wrong.
pub fn run(args: &Bench) -> Result<Outcome> {
    let backend = Backend::parse(&args.backend)?;
    backend.require()?;
    backend.require_sum(args.sum.sum)?;
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        return Err(Error::Request(format!("--seconds {}: give a number above 0, up to 3600", args.seconds)));
    }
    let start = Instant::now();
    if args.background.is_some() && !matches!(args.output, Some(Output::Contributions | Output::Interactions))
    {
        let what = "--background is for --output contributions and interactions; leave it out";
        return Err(Error::Request(what.into()));
    }
    let of_forest =
        matches!(args.output, None | Some(Output::Margin | Output::Contributions | Output::Interactions));
    let graph = match !of_forest || args.passes.is_some() {
        true if predict_graph::may_be_a_graph(&args.model) => {
            Some(predict_graph::load_any(&args.model, &args.limits))
        }
        true => {
            let what = "this file is a forest, which has no --passes, and no --output to time but margin, \
                        contributions and interactions; leave them out";
            return Err(Error::Request(what.into()));
        }
        false => predict_graph::load(&args.model, &args.limits),
    };
    if let Some(graph) = graph {
        return run_graph(args, graph?, start.elapsed().as_secs_f64() * 1e3);
    }
    let contents = load_contents(&args.model, &args.limits)?;
    let forest = &contents.forest;
    let explained = matches!(args.output, Some(Output::Contributions | Output::Interactions));
    let explainer = match explained && !backend.is_of_burn() {
        true => Some(explainer(args, forest, backend)?),
        false => None,
    };
    let load_ms = start.elapsed().as_secs_f64() * 1e3;
    let choice = Choice::new(&args.schedule, forest, backend, backend.device(), args.sum.sum)?
        .by(args.profile.read(&args.model, &contents)?);
    let rows = rows::read_rows::<f32>(&args.rows, forest, args.table)?;
    if rows.rows == 0 {
        return Err(Error::file(&args.rows, "there is no row in it to repeat; give at least one"));
    }
    let pool = pool_of(args.threads)?;
    let (compile_ms, results) = pool.install(|| match &explainer {
        Some((explainer, compile_ms)) => {
            Ok((*compile_ms, time_contributions(args, forest, explainer, &rows)?))
        }
        None => time_all(args, backend, forest, &choice, &rows),
    })?;
    report(args, backend.name(), args.sum.sum.name(), [load_ms, compile_ms], results)
}

fn pool_of(threads: u16) -> Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads)).build();
    pool.map_err(|e| Error::Request(format!("--threads {threads}: {e}; ask for fewer")))
}

/// Prepares contributions or interactions, and returns the milliseconds that this took.
fn explainer(args: &Bench, forest: &Forest, backend: Backend) -> Result<(RowExplainer, f64)> {
    if backend != Backend::Cpu || args.schedule != "default" {
        let what = "contributions and interactions are timed on the CPU and on burn's backends, and without a schedule; \
                    give another --backend, and leave out --schedule";
        return Err(Error::Request(what.into()));
    }
    let start = Instant::now();
    let explainer = match &args.background {
        Some(file) => background_of(&args.model, forest, file, args.table, MissingChoice::default())?.into(),
        None => {
            let explainer = Explainer::new(forest);
            explainer.map_err(|error| Error::file(&args.model, error.to_string()))?.into()
        }
    };
    Ok((explainer, start.elapsed().as_secs_f64() * 1e3))
}

/// Returns the times of each batch size for contributions or interactions.
fn time_contributions(
    args: &Bench,
    forest: &Forest,
    explainer: &RowExplainer,
    rows: &Matrix<f32>,
) -> Result<Vec<Timing>> {
    let output = args.output.unwrap_or(Output::Contributions);
    each_batch(args, |batch, time| {
        let pool = RowPool::of_rows(forest, &rows.values, batch)?;
        let mut out = row_explainer::room(explainer, batch, output)?;
        let mut batches = (0..pool.batches()).cycle().map(|n| pool.batch(n));
        let timed = time(Box::new(|| {
            let rows = cpu::Rows::new(batches.next().unwrap_or_default(), pool.columns())?;
            match output {
                Output::Interactions => explainer.interactions_into(&rows, &mut out)?,
                _ => explainer.contributions_into(&rows, &mut out)?,
            }
            std::hint::black_box(&out);
            Ok(())
        }))?;
        Ok((timed, explainer.algorithm()))
    })
}

/// Times a graph of classical operators.
fn run_graph(args: &Bench, graph: fangorn::graph::Graph, load_ms: f64) -> Result<Outcome> {
    if args.backend != "cpu" || args.schedule != "default" {
        let what =
            "a classical model is timed on the CPU, without a schedule; leave out --backend and --schedule";
        return Err(Error::Request(what.into()));
    }
    let graph = graph.with_coded_texts().unwrap_or(graph);
    let inputs = GraphInputs::new(&args.model, &graph)?.read(&args.rows, args.table)?;
    let passes = args.passes.clone().unwrap_or_default();
    let output = args.output.unwrap_or(Output::Value);
    let bench = GraphBench::new(&args.model, graph, output, &passes, usize::from(args.threads))?;
    let results = pool_of(args.threads)?.install(|| {
        each_batch(args, |batch, time| {
            let timed = time(Box::new(bench.rerun(&args.rows, &inputs, batch)?))?;
            Ok((timed, "the default one of each forest".to_owned()))
        })
    })?;
    report(args, "cpu", "any", [load_ms, bench.compile_ms], results)
}

/// Prints the measurements.
fn report(
    args: &Bench,
    backend: &'static str,
    sum: &'static str,
    [load_ms, compile_ms]: [f64; 2],
    results: Vec<Timing>,
) -> Result<Outcome> {
    let model = args.model.display().to_string();
    let report = Report { model, backend, threads: args.threads, sum, load_ms, compile_ms, results };
    let text = match args.json {
        true => serde_json::to_string(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => table(&report),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Returns the milliseconds of compiling, and the times of each batch size.
fn time_all(
    args: &Bench,
    backend: Backend,
    forest: &Forest,
    choice: &Choice,
    rows: &Matrix<f32>,
) -> Result<(f64, Vec<Timing>)> {
    let explained = matches!(args.output, Some(Output::Contributions | Output::Interactions));
    if explained && (args.schedule != "default" || args.sum.sum != Contract::Any) {
        let what =
            "contributions have no schedule and keep no contract of sums; leave out --schedule and --sum";
        return Err(Error::Request(what.into()));
    }
    let start = Instant::now();
    let pairs = args.output == Some(Output::Interactions);
    let of = match &args.background {
        _ if !explained => TimedOutput::Margins,
        Some(file) => {
            let read = || background_of(&args.model, forest, file, args.table, MissingChoice::default());
            TimedOutput::Explained(Explanation::against(backend, pairs, read)?)
        }
        None => TimedOutput::Explained(Explanation::by_covers(pairs)),
    };
    let compiled = CompiledForest::open(backend, forest, choice, args.sum.sum)?;
    compiled.say_warnings();
    // Devices compile at the first call.
    match &of {
        TimedOutput::Margins => compiled.margins(&rows.slice(0, 1))?,
        TimedOutput::Explained(explanation) => compiled.explain(&rows.slice(0, 1), explanation)?,
    };
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    let results = each_batch(args, |batch, time| {
        if let Some(text) = announcement(batch as u32, rows.columns) {
            say(&text);
        }
        let pool = RowPool::of_rows(forest, &rows.values, batch)?;
        let schedule = if explained { "none".to_owned() } else { choice.line(batch) };
        Ok((time(compiled.rerun(&pool, &of)?)?, schedule))
    })?;
    Ok((compile_ms, results))
}

/// Processor time and wall time of each group of calls, in seconds.
type Seconds = [Vec<f64>; 2];

/// Times calls of each batch size. `run` makes the calls of one batch size, gives them to the function that times them,
/// and returns their times and their schedule.
fn each_batch(
    args: &Bench,
    mut run: impl FnMut(usize, &dyn Fn(Rerun<'_>) -> Result<Seconds>) -> Result<(Seconds, String)>,
) -> Result<Vec<Timing>> {
    let clock = if args.threads > 1 { Clock::Process } else { Clock::Thread };
    let bar = bar(args);
    let mut results = Vec::new();
    for batch in &args.batch {
        bar.set_message(format!("batch {batch}"));
        let (timed, schedule) = run(*batch as usize, &|rerun| time(rerun, clock, args.seconds, &bar))?;
        let [cpu, wall] = timed.map(|mut calls| {
            calls.sort_unstable_by(f64::total_cmp);
            [calls[0], calls[calls.len() / 2]].map(|seconds| seconds * 1e6 / f64::from(*batch))
        });
        results.push(Timing {
            batch: *batch,
            cpu_us_per_row_min: cpu[0],
            cpu_us_per_row_median: cpu[1],
            wall_us_per_row_min: wall[0],
            wall_us_per_row_median: wall[1],
            schedule,
        });
    }
    bar.finish_and_clear();
    Ok(results)
}

fn bar(args: &Bench) -> ProgressBar {
    let ticks = (args.seconds * 1e3 * args.batch.len() as f64) as u64;
    progress::bar(Some(ticks.max(1)), "{bar:40} {percent:>3}% {msg}")
}

/// The clock of the processor time: of the calling thread, or of the whole process.
#[derive(Clone, Copy, Debug)]
enum Clock {
    Thread,
    Process,
}

impl Clock {
    fn now(self) -> Duration {
        match self {
            Self::Thread => ThreadTime::now().as_duration(),
            Self::Process => ProcessTime::now().as_duration(),
        }
    }
}

/// The minimum number of seconds of a group of calls: in so long a time the clocks' resolution and cost do not matter.
const GROUP: f64 = 500e-6;
/// The least number of groups to time, however long they take.
const LEAST_GROUPS: usize = 5;

/// Returns the average seconds of a call for each group of calls: processor time and wall time.
fn time(mut rerun: Rerun<'_>, clock: Clock, seconds: f64, bar: &ProgressBar) -> Result<Seconds> {
    // Warm-up: a tenth of the time, and at least two calls. The fastest call decides how many calls make a
    // group.
    let start = Instant::now();
    let mut fastest = f64::INFINITY;
    let mut warm = 0;
    while warm < 2 || start.elapsed().as_secs_f64() < seconds * 0.1 {
        let call = Instant::now();
        rerun()?;
        fastest = fastest.min(call.elapsed().as_secs_f64());
        warm += 1;
    }
    let calls = (GROUP / fastest.max(1e-9)).ceil().clamp(1.0, 1e6) as usize;
    let mut times = [Vec::new(), Vec::new()];
    let start = Instant::now();
    let mut shown = 0;
    while times[0].len() < LEAST_GROUPS || start.elapsed().as_secs_f64() < seconds {
        let (cpu, wall) = (clock.now(), Instant::now());
        for _ in 0..calls {
            rerun()?;
        }
        let (wall, cpu) = (wall.elapsed(), clock.now().saturating_sub(cpu));
        times[0].push(cpu.as_secs_f64() / calls as f64);
        times[1].push(wall.as_secs_f64() / calls as f64);
        // Update the bar at most ten times a second, outside of the timed part.
        let passed = (start.elapsed().as_secs_f64().min(seconds) * 1e3) as u64;
        if passed >= shown + 100 {
            bar.inc(passed - shown);
            shown = passed;
        }
    }
    bar.inc(((seconds * 1e3) as u64).saturating_sub(shown));
    Ok(times)
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_table(&mut text, report);
    text
}

fn write_table(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "model     {}", one_line(&report.model))?;
    writeln!(out, "backend   {}, {} thread(s), sum {}", report.backend, report.threads, report.sum)?;
    if let Some(timing) = report.results.first() {
        writeln!(out, "schedule  {}", timing.schedule)?;
    }
    writeln!(out, "load      {:.3} ms, compile {:.3} ms", report.load_ms, report.compile_ms)?;
    writeln!(out, "\n            on the processor, µs a row     on the wall, µs a row")?;
    writeln!(
        out,
        "{:>8}    {:>10}    {:>10}    {:>10}    {:>10}",
        "batch", "min", "median", "min", "median"
    )?;
    for t in &report.results {
        let [a, b, c, d] =
            [t.cpu_us_per_row_min, t.cpu_us_per_row_median, t.wall_us_per_row_min, t.wall_us_per_row_median];
        writeln!(out, "{:>8}    {a:>10.4}    {b:>10.4}    {c:>10.4}    {d:>10.4}", t.batch)?;
    }
    Ok(())
}
