//! `fangorn`: predict, inspect, compare, convert, lower and time trained decision forests.
//!
//! Exit status: 0 for success, 1 for a difference from what was expected or between two models, 2 for wrong
//! input. Then one line on standard error says what is wrong.

mod answer;
mod atomic_file;
mod auto_backend;
mod backend;
mod bench;
mod bench_graph;
mod cache;
mod compare;
mod compile;
mod convert;
mod costs;
mod diff;
mod drift;
mod drift_plot;
mod error;
mod explain;
mod explain_gpu;
mod explain_graph;
mod graph;
mod importance;
mod inspect;
mod limits;
mod lower;
mod measure;
mod output;
mod predict;
mod predict_graph;
mod profile;
mod progress;
mod report;
mod row_explainer;
mod row_source;
mod rows;
mod schedule;
mod score;
mod sql;
mod standard_input;
mod static_library;
mod sum;
mod svg;
mod table_format;
mod tables;
mod text;
mod tune;
mod tune_device;
mod tune_plot;
mod usage;
mod values;
mod verify;

use std::{io::ErrorKind, path::Path, process::ExitCode};

use clap::{Parser, Subcommand};
use fangorn::{
    Forest,
    file::Contents,
    import::{self, LoadOptions},
};

use error::{Error, Result};
use limits::LimitsChoice;

/// A compiler for trained decision forests.
#[derive(Debug, Parser)]
#[command(
    name = "fangorn",
    version,
    max_term_width = 100,
    after_help = "Example:\n  fangorn predict model.ubj --rows rows.csv"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Predict rows: values, margins, classes, leaf ids, what each tree adds, or contributions
    Predict(predict::Predict),
    /// Describe a model: objective, trees, leaves and features
    Inspect(inspect::Inspect),
    /// Compare the trees of two models and, with --rows, their predictions
    Diff(diff::Diff),
    /// Convert a model to a .fangorn file, which loads fastest
    Convert(convert::Convert),
    /// Compile a model to C99 source, which needs no library
    Compile(compile::Compile),
    /// Print a stage of the compiler: forest, schedule, loops, plan or kernel
    Lower(lower::Lower),
    /// Count how many rows reach each leaf, for schedules that use the counts
    Profile(profile::Count),
    /// List the features that a model uses, with their importances
    Importance(importance::Importance),
    /// Compare the distributions of two tables over a model's features and leaves
    Drift(drift::DriftArgs),
    /// Write an HTML page about a model and its predictions of some rows
    Report(report::Report),
    /// Time predictions by batch size
    Bench(bench::Bench),
    /// Find a fast schedule for each batch size
    Tune(tune::Tune),
    /// Time the schedules that standard input names, for tune
    #[command(hide = true)]
    Measure(measure::Measure),
    /// Print why the default schedule was chosen, and what would change the choice
    Explain(explain::Explain),
    Graph(graph::Graph),
    /// List, clear or export the schedules that `fangorn tune` keeps
    Cache(cache::Cache),
    /// Show, measure or forget the costs that choose the default schedule on this machine's CPU
    Costs(costs::Costs),
    Sql(sql::Sql),
    /// Check every engine that can serve a model on this machine
    Verify(verify::Verify),
}

/// The result of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// A prediction differs from what was expected, or two models differ.
    Differs,
    /// Another program did the work, and ended with this exit status.
    Of(u8),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => match usage::line::<Cli>(&e) {
            Some(line) => {
                error::say(&line);
                return ExitCode::from(2);
            }
            None => e.exit(),
        },
    };
    error::silence_panics();
    #[cfg(unix)]
    ignore_file_size_signal();
    let run = || match &cli.command {
        Command::Predict(args) => predict::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Diff(args) => diff::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Compile(args) => compile::run(args),
        Command::Lower(args) => lower::run(args),
        Command::Profile(args) => profile::run(args),
        Command::Importance(args) => importance::run(args),
        Command::Drift(args) => drift::run(args),
        Command::Report(args) => report::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Measure(args) => measure::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Cache(args) => cache::run(args),
        Command::Costs(args) => costs::run(args),
        Command::Sql(args) => sql::run(args),
        Command::Tune(args) => tune::run(args),
        Command::Verify(args) => verify::run(args),
    };
    let outcome = error::catch_panic(run).unwrap_or_else(|panic| Err(Error::Defect(panic)));
    if outcome.is_ok() {
        error::print_notes();
    }
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Differs) => ExitCode::from(1),
        Ok(Outcome::Of(status)) => ExitCode::from(status),
        Err(e) if e.is_closed_pipe() => ExitCode::SUCCESS,
        Err(e) => {
            error::say(&e.or_lack_of_threads().to_string());
            ExitCode::from(2)
        }
    }
}

/// Ignores the signal that ends a process whose file grows over the limit of `ulimit -f`. The write then fails with an
/// error, which names the file, and the temporary file is removed.
#[cfg(unix)]
fn ignore_file_size_signal() {
    unsafe extern "C" {
        fn signal(number: i32, handler: usize) -> usize;
    }
    /// `SIGXFSZ` of the systems below.
    const SIGXFSZ: i32 = 25;
    const SIG_IGN: usize = 1;
    let known = cfg!(any(
        target_os = "linux",
        target_os = "macos",
        target_os = "freebsd",
        target_os = "netbsd",
        target_os = "openbsd"
    ));
    let mips = cfg!(any(
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "mips32r6",
        target_arch = "mips64r6"
    ));
    if known && !mips {
        // SAFETY: this is C's `signal` with its types on these systems. `SIG_IGN` installs no function, so no code of
        // this program runs on a signal.
        unsafe { signal(SIGXFSZ, SIG_IGN) };
    }
}

/// Loads a model's forest for a command that serves forests only.
///
/// # Errors
/// The model is wrong, or it is a graph, whose refusal says what the command does and gives the remedy.
fn load_forest(path: &Path, limits: &LimitsChoice, does: &str, remedy: &str) -> Result<Forest> {
    load_model(path, limits).or_else(|error| match predict_graph::load(path, limits) {
        None => Err(error),
        Some(graph) => graph.and_then(|_| {
            let what = format!("{does} a forest, and this file is a graph of several operators");
            Err(Error::file(path, format!("{what}; {remedy}, and `fangorn graph` prints what it computes")))
        }),
    })
}

/// Loads a model's forest.
fn load_model(path: &Path, limits: &LimitsChoice) -> Result<Forest> {
    let options = LoadOptions { limits: limits.limits(), raw_categories: true, ..LoadOptions::default() };
    import::load(path, &options).map_err(library_error)
}

/// Loads a model's forest, and the schedules and the profile that its file holds.
fn load_contents(path: &Path, limits: &LimitsChoice) -> Result<Contents> {
    let options = LoadOptions { limits: limits.limits(), raw_categories: true, ..LoadOptions::default() };
    Contents::load(path, &options).map_err(library_error)
}

/// Turns an error of the library into one of the command line. Adds a remedy to an I/O error, and the flag
/// that raises the limit to an error that names a limit.
fn library_error(error: fangorn::Error) -> Error {
    match error {
        fangorn::Error::Io { path, source } => {
            let remedy = match source.kind() {
                ErrorKind::OutOfMemory => "the file does not fit into memory; give a smaller file",
                _ => "give a model file's path",
            };
            Error::file(&path, format!("{source}; {remedy}"))
        }
        fangorn::Error::Import(error) => match (error.file(), error.limit_name()) {
            (Some(file), Some(limit)) => {
                let flag = limits::flag(limit);
                let what =
                    format!("{}: {}; raise {flag} if you trust the file", error.location(), error.cause());
                Error::file(file, what)
            }
            _ => Error::Library(error.into()),
        },
        other => Error::Library(other),
    }
}
