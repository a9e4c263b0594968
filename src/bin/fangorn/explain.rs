//! `fangorn explain`: says why the default schedule was chosen. [`explain_graph`] explains a graph.

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;
use fangorn::{
    Forest, Predictor,
    auto::{Explanation, Way},
    contributions::{Algorithm, Explainer},
    cost::{CHOICE_ROWS, Machine, Term},
};
use serde::Serialize;

use crate::{
    Outcome,
    backend::Backend,
    error::{Error, Result, one_line},
    explain_gpu, explain_graph, library_error,
    limits::LimitsChoice,
    load_model, output, predict_graph,
    schedule::{compiled, line},
};

/// Print why the default schedule was chosen, and what would change the choice
///
/// For a graph (an ONNX file that is more than one tree ensemble), print how its forests, products and types were chosen.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn explain model.ubj --batch 64
  fangorn explain model.ubj --batch 64 --backend wgpu
  fangorn explain pipeline.onnx")]
pub struct Explain {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// Number of rows of the batch to explain
    #[arg(long, value_name = "N", default_value = "4096", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    batch: u32,
    /// What runs the forest: cpu, or a GPU's backend, by its name in `fangorn predict`
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: LimitsChoice,
}

#[derive(Serialize)]
struct Report {
    model: String,
    machine: &'static str,
    /// Whether the costs were measured on this machine. The others are shipped.
    measured_costs: bool,
    batch: usize,
    schedule: String,
    plan: String,
    engines: Vec<String>,
    chosen_among: Vec<WayReport>,
    estimates: Vec<WayReport>,
    fastest_from: Vec<(usize, &'static str)>,
    columns_of_thresholds: usize,
    other_choice_at_columns: Option<usize>,
    choice_by_machine: Vec<(&'static str, &'static str)>,
    /// How contributions are computed, or the reason that the model has none.
    contributions: String,
}

#[derive(Serialize)]
struct WayReport {
    way: &'static str,
    us_per_row: f64,
    schedule: String,
    terms: Vec<TermReport>,
}

/// A term of an estimate.
#[derive(Serialize)]
pub struct TermReport {
    what: &'static str,
    pub count: f64,
    us_each: f64,
    pub us_per_row: f64,
}

/// Returns a term of the estimate of a batch of `rows` rows.
pub fn term_report(term: &Term, rows: usize) -> TermReport {
    TermReport {
        what: term.what,
        count: term.count,
        us_each: term.each * 1e6,
        us_per_row: term.seconds() * 1e6 / rows as f64,
    }
}

/// Writes a term on a line, with its microseconds.
pub fn write_term(out: &mut String, term: &TermReport, us: f64) -> std::fmt::Result {
    writeln!(out, "{us:>10.4}             {:.0} {} at {:.1} ns", term.count, term.what, term.us_each * 1e3)
}

/// Runs the command.
///
/// # Errors
/// The options or the model are wrong.
pub fn run(args: &Explain) -> Result<Outcome> {
    let rows = args.batch as usize;
    let backend = Backend::parse(&args.backend)?;
    let forest = match load_model(&args.model, &args.limits) {
        Ok(forest) => forest,
        Err(error) => match predict_graph::load(&args.model, &args.limits) {
            Some(_) if backend != Backend::Cpu => {
                let what =
                    "--backend: the file is a graph, which is explained for the CPU; leave the option out";
                return Err(Error::file(&args.model, what));
            }
            Some(graph) => return explain_graph::run(&args.model, &graph?, rows, args.json),
            None => return Err(error),
        },
    };
    if backend != Backend::Cpu {
        return explain_gpu::run(&args.model, &forest, backend, rows, args.json);
    }
    let why = Explanation::new(&forest, rows);
    let predictor = compiled(Predictor::builder(&forest).threads(1)).map_err(library_error)?;
    // A few thousand rows show every engine that larger batches use.
    let engines = predictor.engines(rows.min(4096)).map_err(library_error)?;
    let way = |way: &Way, rows: usize| WayReport {
        way: way.work.name(),
        us_per_row: way.seconds * 1e6 / rows as f64,
        schedule: line(&way.schedule),
        terms: way.estimate.terms.iter().map(|term| term_report(term, rows)).collect(),
    };
    let report = Report {
        model: args.model.display().to_string(),
        machine: Machine::here().name,
        measured_costs: Machine::here().measured,
        batch: rows,
        schedule: line(&why.schedule),
        plan: predictor.plan_for(rows).to_string(),
        engines: engines.iter().map(|(engine, _)| engine.to_string()).collect(),
        chosen_among: why.options.iter().map(|option| way(option, CHOICE_ROWS)).collect(),
        estimates: why.of_batch.iter().map(|option| way(option, rows)).collect(),
        fastest_from: why.by_batch.iter().map(|(rows, work)| (*rows, work.name())).collect(),
        columns_of_thresholds: why.facts.rank_columns.thresholds,
        other_choice_at_columns: why.rank_columns,
        contributions: contributions(&forest).unwrap_or_else(no_contributions),
        choice_by_machine: why.by_machine.iter().map(|(name, work)| (*name, work.name())).collect(),
    };
    let text = match args.json {
        true => serde_json::to_string(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => table(&report),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Returns the algorithms for contributions that were chosen, and the estimates that chose them.
fn contributions(forest: &Forest) -> fangorn::Result<String> {
    let costs = &Machine::here().contributions;
    let us = |explainer: &Explainer| costs.seconds(&explainer.work()) * 1e6;
    let explainer = Explainer::new(forest)?;
    let quadrature = Explainer::with_algorithm(forest, Algorithm::Quadrature)?;
    let text = format!("{}; estimated {:.2} µs a row", explainer.algorithm(), us(&explainer));
    Ok(match explainer.work() == quadrature.work() {
        true => text,
        false => format!("{text}, by quadratures alone {:.2}", us(&quadrature)),
    })
}

/// Returns why the model has no contributions by covers, and what it has.
fn no_contributions(error: fangorn::Error) -> String {
    match error {
        fangorn::Error::Contributions(why) => {
            let here = "`fangorn predict --output contributions --background FILE`";
            format!("none by covers: {}", why.replace("contributions::Interventional", here))
        }
        other => other.to_string(),
    }
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_table(&mut text, report);
    text
}

fn write_table(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "model     {}", one_line(&report.model))?;
    let source = if report.measured_costs { ", measured on this machine" } else { "" };
    writeln!(out, "costs     {}{source}", report.machine)?;
    writeln!(out, "schedule  {}", report.schedule)?;
    writeln!(
        out,
        "runs      a batch of {}: plan of {}, {}",
        report.batch,
        report.plan,
        report.engines.join(" and ")
    )?;
    writeln!(
        out,
        "\nThe schedule is that of the way with the least estimate for {CHOICE_ROWS} rows, on one thread:\n"
    )?;
    ways(out, &report.chosen_among)?;
    writeln!(out, "\nEstimates for a batch of {}:\n", report.batch)?;
    ways(out, &report.estimates)?;
    if let Some(second) = report.chosen_among.get(1) {
        let times = second.us_per_row / report.chosen_among[0].us_per_row.max(1e-12);
        writeln!(out, "\nThe runner-up, {}, takes {times:.2} times as long by its estimate:", second.way)?;
        writeln!(out, "  {}", second.schedule)?;
    }
    writeln!(out, "\nWhat would change the fastest way:")?;
    let by_batch: Vec<_> =
        report.fastest_from.iter().map(|(rows, way)| format!("{way} from {rows}")).collect();
    writeln!(out, "  batch    {} rows", by_batch.join(", "))?;
    let columns = match report.other_choice_at_columns {
        Some(columns) => format!("the choice changes at {columns}"),
        None => "no other number changes the choice".to_owned(),
    };
    writeln!(out, "  columns  {} of thresholds; {columns}", report.columns_of_thresholds)?;
    for (machine, way) in &report.choice_by_machine {
        writeln!(out, "  machine  {machine}: {way}")?;
    }
    writeln!(out, "\nContributions: {}", report.contributions)
}

fn ways(out: &mut String, ways: &[WayReport]) -> std::fmt::Result {
    for way in ways {
        writeln!(out, "{:>10.4} µs a row  {}", way.us_per_row, way.way)?;
        for term in way.terms.iter().filter(|term| term.count > 0.0) {
            write_term(out, term, term.us_per_row)?;
        }
    }
    Ok(())
}
