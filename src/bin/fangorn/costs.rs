//! `fangorn costs`: the costs that choose the default schedule on this machine.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use fangorn::{
    auto::{CACHE, Choices, CostMeasurement},
    cost::{Machine, MeasuredWays},
};
use serde::Serialize;

use crate::{
    Outcome,
    error::{Error, Result, one_line},
    library_error, output, progress,
};

/// Show, measure or forget the costs that choose the default schedule on this machine's CPU
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn costs measure
  fangorn costs show --json")]
pub struct Costs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the costs of this machine, and whether they were measured on it
    #[command(after_help = "Example:\n  fangorn costs show --json")]
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure the costs on this machine, and keep them if they choose faster ways than those before
    ///
    /// Takes about half a minute. The machine should do nothing else. The costs are kept for one instruction set, in the
    /// user's cache folder or in the one that FANGORN_CACHE names.
    #[command(after_help = "Example:\n  fangorn costs measure")]
    Measure {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove the costs that were measured on this machine, and go back to the shipped ones
    #[command(after_help = "Example:\n  fangorn costs forget")]
    Forget,
}

#[derive(Serialize)]
struct Report {
    instructions: &'static str,
    processor: String,
    /// Whether the costs were measured on this machine. The others are shipped.
    measured: bool,
    /// The file that measured costs are kept in.
    file: Option<String>,
    /// Seconds, by the name of the cost.
    costs: Vec<(&'static str, f64)>,
}

#[derive(Serialize)]
struct MeasureReport {
    instructions: &'static str,
    processor: String,
    batches: usize,
    choices_before: ChoicesReport,
    choices_measured: ChoicesReport,
    /// The file of the costs, if they are kept.
    kept: Option<String>,
    /// Seconds before and measured, by the name of the cost.
    costs: Vec<(&'static str, f64, f64)>,
}

/// Times of the ways that are chosen, in times of the fastest ones.
#[derive(Serialize)]
struct ChoicesReport {
    mean: f64,
    most: f64,
}

/// Runs the command.
///
/// # Errors
/// The costs can't be measured, kept or removed.
pub fn run(args: &Costs) -> Result<Outcome> {
    let text = match &args.command {
        Command::Show { json } => show(*json)?,
        Command::Measure { json } => measure(*json)?,
        Command::Forget => match MeasuredWays::forget().map_err(of_file)? {
            true => "removed the costs that were measured on this machine\n".to_owned(),
            false => "no costs were measured on this machine\n".to_owned(),
        },
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Returns an error of the file of kept costs.
fn of_file(error: std::io::Error) -> Error {
    Error::file(&MeasuredWays::path().unwrap_or_default(), error.to_string())
}

fn json_of(report: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(report).map_err(|e| Error::Defect(e.to_string()))? + "\n")
}

fn show(json: bool) -> Result<String> {
    let machine = Machine::here();
    let report = Report {
        instructions: machine.name,
        processor: MeasuredWays::processor(),
        measured: machine.measured,
        file: MeasuredWays::path().map(|path| path.display().to_string()),
        costs: machine.ways.all().to_vec(),
    };
    if json {
        return json_of(&report);
    }
    let source = if report.measured { "measured on this machine" } else { "shipped" };
    let mut text = format!(
        "costs      {}, {source}\nprocessor  {}\n\n",
        report.instructions,
        one_line(&report.processor)
    );
    // Writing to a String does not fail.
    let _ = writeln!(text, "{:14}  {:>10}", "cost", "ns");
    for (name, cost) in report.costs {
        let _ = writeln!(text, "{name:14}  {:>10.3}", cost * 1e9);
    }
    if !report.measured {
        text += match MeasuredWays::path().is_some_and(|path| path.exists()) {
            true => {
                "\nCosts are kept for this machine, but for another version of Fangorn, or their file is damaged. \
                 `fangorn costs measure` measures them again.\n"
            }
            false => "\n`fangorn costs measure` measures them on this machine.\n",
        };
    }
    Ok(text)
}

fn measure(json: bool) -> Result<String> {
    // Without a folder, keeping the costs would fail half a minute later.
    let Some(path) = MeasuredWays::path() else {
        return Err(Error::Request(format!(
            "the environment names no cache folder; set {CACHE} to a folder"
        )));
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| Error::file(folder, e.to_string()))?;
    }
    let bar = progress::bar(None, "{bar:40} {pos} of {len} models");
    let measured = CostMeasurement::run(|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let measured = measured.map_err(library_error)?;
    let kept = match measured.pays() {
        true => Some(measured.ways.keep().map_err(of_file)?.display().to_string()),
        false => None,
    };
    let choices = |Choices { mean, most }| ChoicesReport { mean, most };
    let costs = Machine::here().ways.all().into_iter().zip(measured.ways.ways.all());
    let report = MeasureReport {
        instructions: Machine::here().name,
        processor: MeasuredWays::processor(),
        batches: measured.batches,
        choices_before: choices(measured.before),
        choices_measured: choices(measured.measured),
        kept,
        costs: costs.map(|((name, before), (_, now))| (name, before, now)).collect(),
    };
    if json { json_of(&report) } else { Ok(table(&report)) }
}

fn table(report: &MeasureReport) -> String {
    let mut text = format!(
        "costs      {}\nprocessor  {}\n\n{:14}  {:>10}  {:>10}\n",
        report.instructions,
        one_line(&report.processor),
        "cost",
        "before, ns",
        "measured"
    );
    // Writing to a String does not fail.
    for (name, before, measured) in &report.costs {
        let _ = writeln!(text, "{name:14}  {:>10.3}  {:>10.3}", before * 1e9, measured * 1e9);
    }
    let _ = writeln!(
        text,
        "\nOver {} batches of random models, the way that they choose takes so many times as long as the fastest one:",
        report.batches
    );
    for (what, choices) in [("before", &report.choices_before), ("measured", &report.choices_measured)] {
        let _ = writeln!(
            text,
            "  {what:9} {:.3} in the geometric mean, {:.2} at most",
            choices.mean, choices.most
        );
    }
    let _ = match &report.kept {
        Some(file) => writeln!(text, "\nThe measured costs are kept, in {}", one_line(file)),
        None => writeln!(text, "\nThe costs stay as before: the measured ones choose no faster ways."),
    };
    text
}
