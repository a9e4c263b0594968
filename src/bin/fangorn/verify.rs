//! `fangorn verify`: checks every engine on the machine where a model is going to serve.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use clap::Args;
use fangorn::{
    Forest, Predictor,
    check::{Check, Difference, Finding, RunResult, Runner, SelfCheck, Warning},
    cpu::{Engines, ISA, Ranking},
    forest::{CompareType, reference},
    schedule::{Directive, FewRows, Preset},
    sum::Contract,
};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::{
    Outcome,
    backend::{Backend, CompiledForest},
    compare,
    error::{Error, Result, one_line, say},
    limits::LimitsChoice,
    load_forest, output,
    output::{Table, Values},
    progress,
    rows::{self, Matrix, TableChoice},
    schedule::{Choice, compiled},
    standard_input::{is_standard_input, rows_path},
};

/// Check every engine that can serve a model on this machine
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn verify model.ubj
  fangorn verify model.ubj --rows rows.npy --expect predictions.npy --all")]
pub struct Verify {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// Rows to check besides the rows that fangorn makes for the model: a .npy, .csv, .parquet, .arrow or .libsvm file;
    /// read as f32
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: Option<PathBuf>,
    /// The producer's own predictions of the rows of --rows: a .npy, .csv, .parquet or .arrow file. The exit status is 1
    /// if a value differs by more than 1e-5 of max(1, |expected|)
    #[arg(long, value_name = "FILE", requires = "rows")]
    expect: Option<PathBuf>,
    /// Check only this backend, by its name in `fangorn predict`. Without it and without --all, cpu is checked
    #[arg(long, conflicts_with = "all")]
    backend: Option<String>,
    /// Check every backend that is built in, and the CPU's kernels for every instruction set of this machine
    #[arg(long)]
    all: bool,
    /// Print the table as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// One line of the table.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    backend: String,
    /// The instruction set of the CPU's kernels; empty for other backends.
    isa: String,
    schedule: String,
    engine: String,
    /// `right`, `wrong`, `refused`, or `absent` if no driver answers.
    result: String,
    /// The first difference, or the reason of a refusal.
    what: String,
}

/// One combination of schedule and engine to check on the CPU.
struct Trial {
    schedule: &'static str,
    engine: String,
    engines: Engines,
    preset: Preset,
    /// How a few rows are walked, if it differs from the preset.
    few_rows: Option<FewRows>,
}

/// Runs the command.
///
/// # Errors
/// The options, the model or a file are wrong, or nothing could be checked.
pub fn run(args: &Verify) -> Result<Outcome> {
    if args.rows.as_deref().is_some_and(is_standard_input) {
        let what = "--rows -: this command reads the rows more than once; write them to a file";
        return Err(Error::Request(what.into()));
    }
    let remedy = "`fangorn predict` with --rows and --expect compares its predictions with the producer's";
    let forest = load_forest(&args.model, &args.limits, "verify checks the engines of", remedy)?;
    let given =
        args.rows.as_deref().map(|path| rows::read_rows::<f32>(path, &forest, args.table)).transpose()?;
    // A missing file or another shape is refused before checks that take seconds.
    let expected = match (&args.expect, &given) {
        (Some(path), Some(given)) => {
            Some(rows::read_expected(path, given.rows, forest.transform.width(forest.outputs as usize))?)
        }
        _ => None,
    };
    let mut lines = Vec::new();
    for backend in backends(args)? {
        match backend {
            Backend::Cpu => lines.extend(on_cpu(&forest, given.as_ref())?),
            backend => lines.extend(on_burn(&forest, backend, given.as_ref())),
        }
    }
    if args.all {
        for isa in other_instruction_sets() {
            lines.extend(under(isa)?);
        }
    }
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&lines).map_err(|e| Error::Defect(e.to_string()))?;
            output::print(&(text + "\n"))?;
        }
        false => output::print(&table(&lines))?,
    }
    let count = |result: &str| lines.iter().filter(|line| line.result == result).count();
    let wrong = count("wrong");
    if wrong == 0 && count("right") == 0 {
        let what = "nothing could be checked; the table says why".to_owned();
        return Err(Error::Request(what));
    }
    if wrong > 0 {
        say(&format!(
            "{wrong} of {} engines are wrong on this machine; please report it with the model and the processor's name",
            lines.len()
        ));
        return Ok(Outcome::Differs);
    }
    match (&expected, &args.rows) {
        (Some(expected), Some(rows)) => compare_default(&forest, rows, expected, args),
        _ => Ok(Outcome::Done),
    }
}

fn backends(args: &Verify) -> Result<Vec<Backend>> {
    if let Some(name) = &args.backend {
        let backend = Backend::parse(name)?;
        backend.require()?;
        return match backend {
            Backend::Reference => Err(Error::Request(
                "--backend reference: other backends are checked against it; name another backend".into(),
            )),
            backend => Ok(vec![backend]),
        };
    }
    let built_in = Backend::ALL.into_iter().filter(|b| *b != Backend::Reference && b.require().is_ok());
    Ok(built_in.filter(|b| args.all || *b == Backend::Cpu).collect())
}

/// Compares the default engine's predictions with the producer's.
fn compare_default(forest: &Forest, path: &Path, expected: &Matrix<f64>, args: &Verify) -> Result<Outcome> {
    let doubles = forest.compare == CompareType::F64 && !rows::holds_singles(path);
    let predictor = compiled(Predictor::builder(forest))?;
    let (count, values) = match doubles {
        true => {
            let rows = rows::read_rows::<f64>(path, forest, args.table)?;
            (rows.rows, predictor.predict(&rows.values, rows.columns)?)
        }
        false => {
            let rows = rows::read_rows::<f32>(path, forest, args.table)?;
            (rows.rows, predictor.predict(&rows.values, rows.columns)?)
        }
    };
    if count != expected.rows {
        return Err(Error::file(path, "its rows changed while they were checked; run the command again"));
    }
    let table = Table { rows: count, columns: expected.columns, values: Values::Floats(values) };
    compare::verdict(&table, expected, !args.json)
}

/// Returns every engine of the CPU with the default schedule, and every other preset with the engines that it
/// chooses.
fn trials() -> Vec<Trial> {
    let default = |engine: &str, engines| Trial {
        schedule: "default",
        engine: engine.to_owned(),
        engines,
        preset: Preset::Default,
        few_rows: None,
    };
    let few = FewRows::ALL.map(|by| {
        let directive = Directive::FewRows { by };
        Trial { few_rows: Some(by), ..default(&directive.to_string(), Engines::default()) }
    });
    let ranking =
        Ranking::ALL.map(|ranking| default(ranking.name(), Engines { ranking, ..Engines::default() }));
    let presets = Preset::ALL.into_iter().filter(|preset| *preset != Preset::Default).map(|preset| Trial {
        schedule: preset.name(),
        engine: "as chosen".to_owned(),
        engines: Engines::default(),
        preset,
        few_rows: None,
    });
    let plain = default("plain walks", Engines::PLAIN);
    few.into_iter().chain(ranking).chain([plain]).chain(presets).collect()
}

fn on_cpu(forest: &Forest, given: Option<&Matrix<f32>>) -> Result<Vec<Line>> {
    let trials = trials();
    let bar = bar(trials.len(), "cpu");
    let mut lines = Vec::new();
    let mut isa = String::new();
    for trial in trials {
        bar.set_message(format!("{}, {}", trial.schedule, trial.engine));
        let schedule = trial.preset.schedule(forest, false);
        let schedule = match trial.few_rows {
            Some(by) => schedule.few_rows(by),
            None => schedule,
        };
        let builder = Predictor::builder(forest).schedule(schedule).engines(trial.engines);
        let made = builder.check(SelfCheck::Off).build();
        let (result, what) = match &made {
            Err(fangorn::Error::Environment { .. }) => return Err(made.map(drop).unwrap_err().into()),
            Err(e) => ("refused", e.to_string()),
            Ok(predictor) => {
                let name = predictor.program().vector_name();
                isa = if name.is_empty() { "portable" } else { name }.to_owned();
                let wanted = trial.few_rows.unwrap_or_default();
                if wanted != FewRows::Auto && !predictor.uses(wanted) {
                    // This engine can't run this model here, so there is nothing to check.
                    bar.inc(1);
                    continue;
                }
                let found = predictor
                    .run_check(forest, SelfCheck::Full, |_, _| bar.tick())
                    .or_else(|| given.and_then(|rows| of_rows(forest, predictor, rows)));
                outcome(found)
            }
        };
        lines.push(Line {
            backend: "cpu".into(),
            isa: isa.clone(),
            schedule: trial.schedule.into(),
            engine: trial.engine,
            result: result.into(),
            what: one_line(&what),
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(lines)
}

/// Returns the difference after which burn's operator runs plain walks. They are right, but the checked kernel is not.
fn fell_back(warning: Warning) -> Option<Difference> {
    match warning {
        Warning::FellBack { difference, .. } => Some(difference),
        _ => None,
    }
}

fn outcome(found: Option<Difference>) -> (&'static str, String) {
    match found {
        None => ("right", String::new()),
        Some(difference) => ("wrong", difference.to_string()),
    }
}

/// Compares the leaf slots that `runner` finds for the user's rows with the reference interpreter's. Returns
/// the first difference.
fn of_rows(forest: &Forest, runner: &impl Runner<f32>, rows: &Matrix<f32>) -> Option<Difference> {
    let trees = forest.trees.len();
    let refused = |what: String| {
        Some(Difference { batch: rows.rows, row: 0, values: Vec::new(), what: Finding::Refused(what) })
    };
    let slots = match runner.leaf_slots(&rows.values)? {
        Ok(slots) => slots,
        Err(e) => return refused(e.to_string()),
    };
    (0..rows.rows).find_map(|r| {
        let found = &slots[r * trees..][..trees];
        let expected = reference::leaf_slots(forest, rows.row(r));
        let tree = (0..trees).find(|t| found[*t] != expected[*t])?;
        let values = rows.row(r).iter().map(|v| f64::from(*v)).collect();
        let what = Finding::Leaf { tree, found: found[tree], expected: expected[tree] };
        Some(Difference { batch: rows.rows, row: r, values, what })
    })
}

/// Lets a self-check run a forest on one of burn's backends.
struct BackendRunner<'e, 'f> {
    compiled: &'e CompiledForest<'f>,
    columns: usize,
}

impl BackendRunner<'_, '_> {
    fn matrix(&self, rows: &[f32]) -> Matrix<f32> {
        Matrix::of_rows(rows.len() / self.columns.max(1), self.columns, rows.to_vec())
    }
}

impl Runner<f32> for BackendRunner<'_, '_> {
    fn leaf_slots(&self, rows: &[f32]) -> Option<RunResult<u32>> {
        Some(self.compiled.slots(&self.matrix(rows)).map_err(Into::into))
    }

    fn margins(&self, rows: &[f32]) -> Option<RunResult<f32>> {
        Some(self.compiled.margins(&self.matrix(rows)).map_err(Into::into))
    }

    fn flushes_denormals(&self) -> bool {
        true
    }
}

fn on_burn(forest: &Forest, backend: Backend, given: Option<&Matrix<f32>>) -> Vec<Line> {
    let line = |preset: Preset, engine: String, (result, what): (&str, String)| Line {
        backend: backend.name().into(),
        isa: String::new(),
        schedule: preset.name().into(),
        engine,
        result: result.into(),
        what: one_line(&what),
    };
    let choices = match choices(forest, backend) {
        Ok(choices) => choices,
        Err(e) => return vec![line(Preset::Default, "as chosen".into(), refusal(&e))],
    };
    let bar = bar(choices.len(), backend.name());
    let mut lines = Vec::new();
    for (preset, engine, choice) in choices {
        bar.set_message(format!("{}, {engine}", preset.name()));
        // A device's kernels are the same for all batches of a schedule, and a software device is slow, so one round of
        // generated rows is enough.
        let check = if backend.is_gpu() { SelfCheck::Quick } else { SelfCheck::Full };
        let checked = CompiledForest::open(backend, forest, &choice, Contract::Any).map(|compiled| {
            let opened = BackendRunner { compiled: &compiled, columns: forest.features.len() };
            Check::new(forest, check)
                .run(&opened, &mut |_, _| bar.tick())
                .or_else(|| given.and_then(|rows| of_rows(forest, &opened, rows)))
                .or_else(|| compiled.warnings().into_iter().find_map(fell_back))
        });
        lines.push(line(preset, engine, checked.map_or_else(|e| refusal(&e), outcome)));
        bar.inc(1);
        if lines.last().is_some_and(|line| line.result == "absent") {
            break;
        }
    }
    bar.finish_and_clear();
    lines
}

/// Returns every preset's schedules for a device of burn. On a GPU, a preset may have one for each range of batches.
///
/// # Errors
/// The device can't be opened.
fn choices(forest: &Forest, backend: Backend) -> Result<Vec<(Preset, String, Choice)>> {
    let device = backend.open_device()?;
    let mut choices = Vec::new();
    for preset in Preset::ALL {
        let choice = Choice::new(preset.name(), forest, backend, device, Contract::Any)?;
        let buckets: Vec<usize> = choice.schedules.buckets().map(|(rows, _)| rows).collect();
        match buckets.as_slice() {
            [_] => choices.push((preset, "as chosen".to_owned(), choice)),
            buckets => choices.extend(
                buckets
                    .iter()
                    .map(|&rows| (preset, format!("batches of {rows}"), choice.clone().for_batch(rows))),
            ),
        }
    }
    Ok(choices)
}

/// Returns the result of a line for what could not be checked, and why.
fn refusal(error: &Error) -> (&'static str, String) {
    match error {
        Error::Device { .. } => ("absent", error.to_string()),
        _ => ("refused", error.to_string()),
    }
}

/// Returns the instruction sets that have their own kernels, without the one that the environment asks for. A
/// machine that lacks one of them uses the next one.
fn other_instruction_sets() -> Vec<&'static str> {
    let all: &[&str] = match () {
        () if cfg!(target_arch = "x86_64") => &["avx2", "portable"],
        () if cfg!(target_arch = "aarch64") => &["portable"],
        () => &[],
    };
    let own = std::env::var(ISA).unwrap_or_default();
    all.iter().copied().filter(|isa| *isa != own).collect()
}

/// Checks the CPU's engines under another instruction set. A process has one instruction set, so this runs
/// the program once more.
fn under(isa: &str) -> Result<Vec<Line>> {
    let program = std::env::current_exe()
        .map_err(|e| Error::Request(format!("this program's path can't be found: {e}; leave --all out")))?;
    let mut command = Command::new(program);
    // Pass on this program's arguments, but check the CPU only and expect nothing.
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_string_lossy().as_ref() {
            "--all" | "--json" => {}
            "--expect" => drop(arguments.next()),
            text if text.starts_with("--expect=") => {}
            _ => drop(command.arg(&argument)),
        }
    }
    command.args(["--backend", "cpu", "--json"]).env(ISA, isa);
    let output = command.output().map_err(|e| Error::Request(format!("checking under {ISA}={isa}: {e}")))?;
    let said = one_line(&String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout).unwrap_or_else(|_| {
        let name = |text: &str| text.to_owned();
        vec![Line {
            backend: name("cpu"),
            isa: name(isa),
            schedule: name("default"),
            engine: name("as chosen"),
            result: name("refused"),
            what: said,
        }]
    }))
}

fn bar(length: usize, backend: &str) -> ProgressBar {
    progress::bar(Some(length as u64), "{prefix} {bar:30} {pos}/{len} {msg}").with_prefix(backend.to_owned())
}

/// Returns the lines as text, with aligned columns.
fn table(lines: &[Line]) -> String {
    let cells = |l: &Line| {
        [
            l.backend.clone(),
            l.isa.clone(),
            l.schedule.clone(),
            l.engine.clone(),
            l.result.clone(),
            l.what.clone(),
        ]
    };
    let head = ["backend", "isa", "schedule", "engine", "result", ""].map(str::to_owned);
    let all: Vec<[String; 6]> = [head].into_iter().chain(lines.iter().map(cells)).collect();
    let widths: [usize; 6] =
        std::array::from_fn(|c| all.iter().map(|line| line[c].chars().count()).max().unwrap_or(0));
    let text = |line: &[String; 6]| {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    all.iter().map(text).collect()
}
