//! `fangorn diff`: shows where two models differ, in their trees and, given rows, in their predictions.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::{
    Forest,
    forest::{ForestDiff, reference},
};
use serde::Serialize;

use crate::{
    Outcome,
    error::{Error, Result, one_line},
    limits::LimitsChoice,
    load_model, output,
    rows::{self, Matrix, TableChoice},
    standard_input::rows_path,
};

/// Compare the trees of two models and, with --rows, their predictions
#[derive(Debug, Args)]
#[command(
    after_help = "The exit status is 1 if they differ.\n\nExample:\n  fangorn diff before.ubj after.txt --rows rows.npy"
)]
pub struct Diff {
    /// The first model file, in any format that fangorn reads
    a: PathBuf,
    /// The second model file
    b: PathBuf,
    /// Rows to predict with both models: a .npy, .csv, .parquet, .arrow or .libsvm file
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: Option<PathBuf>,
    /// Print JSON, with every difference
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// The maximum number of differences that the text lists. JSON lists all of them.
const MOST_LINES: usize = 20;

#[derive(Debug, Serialize)]
struct Report {
    a: String,
    b: String,
    #[serde(flatten)]
    forests: ForestDiff,
    rows: Option<RowReport>,
}

#[derive(Debug, Serialize)]
struct RowReport {
    rows: usize,
    /// The number of rows that reach another leaf in some tree. `None` if the models have different numbers
    /// of trees.
    other_leaves: Option<usize>,
    /// Number of rows whose values are not equal, without a tolerance.
    other_values: usize,
    largest_margin_difference: f64,
    largest_value_difference: f64,
    /// The row with the largest difference of values, counted from 0.
    worst_row: usize,
}

/// Runs the command.
///
/// # Errors
/// A model or the rows can't be read, or the models can't predict the same rows.
pub fn run(args: &Diff) -> Result<Outcome> {
    let [a, b] = [load_model(&args.a, &args.limits)?, load_model(&args.b, &args.limits)?];
    let mut report = Report {
        a: args.a.display().to_string(),
        b: args.b.display().to_string(),
        forests: ForestDiff::new(&a, &b),
        rows: None,
    };
    if let Some(path) = &args.rows {
        if a.features.len() != b.features.len() || a.outputs != b.outputs {
            let what = format!(
                "{} columns and {} outputs against {} and {}: the models can't predict the same rows; leave --rows out",
                a.features.len(),
                a.outputs,
                b.features.len(),
                b.outputs
            );
            return Err(Error::file(path, what));
        }
        // Match a table's columns to each model by that model's own names. A model without names takes the
        // other model's.
        let [first, second] = match [rows::has_names(&a), rows::has_names(&b)] {
            [false, true] => [&b, &b],
            [true, true] => [&a, &b],
            _ => [&a, &a],
        };
        let are_alike = first.features == second.features;
        if !are_alike && path == Path::new("-") {
            let what = "--rows -: the models' features have other names or categories, so the rows are read twice; give a \
                        file";
            return Err(Error::Request(what.into()));
        }
        let rows = rows::read_rows(path, first, args.table)?;
        let other = if are_alike { None } else { Some(rows::read_rows(path, second, args.table)?) };
        report.rows = Some(compare_rows([&a, &b], [&rows, other.as_ref().unwrap_or(&rows)]));
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => table(&report),
    };
    output::print(&text)?;
    Ok(if same(&report) { Outcome::Done } else { Outcome::Differs })
}

fn same(report: &Report) -> bool {
    let rows = report.rows.as_ref().is_none_or(|r| r.other_values == 0 && r.other_leaves.unwrap_or(0) == 0);
    report.forests.is_empty() && rows
}

fn compare_rows(forests: [&Forest; 2], rows: [&Matrix<f64>; 2]) -> RowReport {
    let comparable = forests[0].trees.len() == forests[1].trees.len();
    let mut report = RowReport {
        rows: rows[0].rows,
        other_leaves: comparable.then_some(0),
        other_values: 0,
        largest_margin_difference: 0.0,
        largest_value_difference: 0.0,
        worst_row: 0,
    };
    let off = |a: &[f64], b: &[f64]| {
        let each = a.iter().zip(b).map(|(a, b)| if a == b { 0.0 } else { (a - b).abs() });
        let longer = if a.len() == b.len() { 0.0 } else { f64::INFINITY };
        each.fold(longer, |worst: f64, d| if d.is_nan() { f64::INFINITY } else { worst.max(d) })
    };
    for r in 0..rows[0].rows {
        let of = [0, 1].map(|i| (forests[i], rows[i].row(r)));
        let [a, b] = of.map(|(f, row)| reference::leaf_ids(f, row));
        if let Some(others) = report.other_leaves.as_mut() {
            *others += usize::from(a != b);
        }
        let [a, b] = of.map(|(f, row)| reference::margins(f, row));
        report.largest_margin_difference = report.largest_margin_difference.max(off(&a, &b));
        let [a, b] = of.map(|(f, row)| reference::values(f, row));
        let difference = off(&a, &b);
        report.other_values += usize::from(difference > 0.0);
        if difference > report.largest_value_difference {
            report.largest_value_difference = difference;
            report.worst_row = r;
        }
    }
    report
}

fn table(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_table(&mut text, report);
    text
}

fn write_table(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "a  {}\nb  {}", one_line(&report.a), one_line(&report.b))?;
    let short = |text: &str| one_line(text).chars().take(100).collect::<String>();
    let forests = &report.forests;
    for field in &forests.model {
        writeln!(out, "\n{}\n  a  {}\n  b  {}", field.field, short(&field.a), short(&field.b))?;
    }
    let [a, b] = forests.trees;
    let compared = a.min(b);
    writeln!(out, "\ntrees  {a} and {b}")?;
    let other = compared - forests.equal_trees - forests.leaf_trees;
    writeln!(
        out,
        "  {} the same, {} with other leaf values only, {other} with other splits",
        forests.equal_trees, forests.leaf_trees
    )?;
    for d in forests.differences.iter().take(MOST_LINES) {
        let path = if d.path.is_empty() { "root" } else { &d.path };
        writeln!(
            out,
            "  tree {} at {}\n    a  {}\n    b  {}",
            d.tree,
            short(path),
            short(&d.a),
            short(&d.b)
        )?;
    }
    let hidden = forests.differences.len().saturating_sub(MOST_LINES);
    if hidden > 0 {
        writeln!(out, "  and {hidden} more; --json lists every one")?;
    }
    if let Some(rows) = &report.rows {
        writeln!(out, "\nrows  {}", rows.rows)?;
        if let Some(others) = rows.other_leaves {
            writeln!(out, "  {others} reach another leaf in some tree")?;
        }
        writeln!(
            out,
            "  {} have other values; the largest difference is {:?}, at row {}; of margins {:?}",
            rows.other_values, rows.largest_value_difference, rows.worst_row, rows.largest_margin_difference
        )?;
    }
    Ok(())
}
