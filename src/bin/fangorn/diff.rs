//! `fangorn diff`: shows where two models differ, in their trees and, given rows, in their predictions.

use std::{fmt::Write, path::PathBuf};

use clap::Args;
use fangorn::{
    Forest,
    forest::{CategorySet, Node, Predicate, Side, Targets, reference},
};
use serde::Serialize;

use crate::{
    Outcome,
    error::{Error, Result, one_line},
    limits::LimitsChoice,
    load_model, output,
    rows::{self, Matrix, TableChoice},
};

/// Compare two models.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status 1 where they differ.\n\nExample:\n  fangorn diff before.ubj after.txt --rows rows.npy"
)]
pub struct Diff {
    /// The first model file, in any format that fangorn reads
    a: PathBuf,
    /// The second model file
    b: PathBuf,
    /// Rows to predict with both, .npy or .csv
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Print JSON, with every difference
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// The most differences that the text output lists. JSON lists all of them.
const MOST_LINES: usize = 20;

#[derive(Debug, Serialize)]
struct Report {
    a: String,
    b: String,
    /// Properties of the whole model that differ.
    model: Vec<Field>,
    trees: [usize; 2],
    /// Number of trees that are equal, leaf values included.
    equal_trees: usize,
    /// Number of trees with equal splits whose leaf values differ.
    leaf_trees: usize,
    /// The first difference of each tree that differs.
    differences: Vec<Difference>,
    rows: Option<RowReport>,
}

#[derive(Debug, Serialize)]
struct Field {
    field: &'static str,
    a: String,
    b: String,
}

#[derive(Debug, Serialize)]
struct Difference {
    tree: usize,
    /// The side taken at each split from the root on, `L` or `R`.
    path: String,
    a: String,
    b: String,
}

#[derive(Debug, Serialize)]
struct RowReport {
    rows: usize,
    /// Number of rows that reach another leaf in some tree; `None` where the models have different numbers of
    /// trees.
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
        model: fields(&a, &b),
        trees: [a.trees.len(), b.trees.len()],
        equal_trees: 0,
        leaf_trees: 0,
        differences: Vec::new(),
        rows: None,
    };
    for t in 0..a.trees.len().min(b.trees.len()) {
        match first_difference([&a, &b], t) {
            None => report.equal_trees += 1,
            Some((difference, leaf)) => {
                report.leaf_trees += usize::from(leaf);
                report.differences.push(difference);
            }
        }
    }
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
        let rows = rows::read_rows(path, first, args.table)?;
        let other = match first.features == second.features {
            true => None,
            false => Some(rows::read_rows(path, second, args.table)?),
        };
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
    report.model.is_empty() && report.trees[0] == report.trees[1] && report.differences.is_empty() && rows
}

fn fields(a: &Forest, b: &Forest) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut field = |field: &'static str, of: &dyn Fn(&Forest) -> String| {
        let (a, b) = (of(a), of(b));
        if a != b {
            fields.push(Field { field, a: one_line(&a), b: one_line(&b) });
        }
    };
    field("producer", &|f| f.producer.library.clone());
    field("version", &|f| f.producer.version.clone());
    field("objective", &|f| f.producer.objective.clone());
    field("columns", &|f| f.features.len().to_string());
    field("column names", &|f| {
        let name = |f: &fangorn::forest::Feature| f.name.clone().unwrap_or_default();
        if f.features.iter().all(|f| f.name.is_none()) {
            "none".into()
        } else {
            f.features.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    });
    field("outputs", &|f| f.outputs.to_string());
    field("base score", &|f| format!("{:?}", f.base_score));
    field("compared in", &|f| f.compare.name().into());
    field("aggregate", &|f| f.aggregate.name().into());
    field("scale", &|f| format!("{:?}", f.scale));
    field("transform", &|f| f.transform.name().into());
    field("classes", &|f| {
        let words = if f.classes.words { " as texts" } else { "" };
        format!("{} {:?}{words}", f.classes.rule, f.classes.labels)
    });
    field("targets", &|f| match &f.targets {
        Targets::All => "a value for each output in every leaf".into(),
        Targets::One(targets) => format!("{targets:?}"),
    });
    fields
}

/// Returns the first difference between two trees in depth-first order, and whether the trees differ in leaf
/// values only.
fn first_difference(forests: [&Forest; 2], t: usize) -> Option<(Difference, bool)> {
    // For each visited pair of nodes, the index of its parent's entry and the side taken there. Storing a
    // path for each node would fill memory on a tree that is one long chain.
    let mut visits = vec![(0usize, ' ')];
    let mut open = vec![([0u32, 0u32], 0usize)];
    let mut leaf = None;
    while let Some((at, visit)) = open.pop() {
        let nodes = [0, 1].map(|i| forests[i].trees[t].nodes[at[i] as usize]);
        let report = |visits: &[(usize, char)]| {
            let mut path = String::new();
            let mut visit = visit;
            while visit != 0 {
                path.push(visits[visit].1);
                visit = visits[visit].0;
            }
            let text = |i: usize| node_text(forests[i], nodes[i]);
            Difference { tree: t, path: path.chars().rev().collect(), a: text(0), b: text(1) }
        };
        match nodes {
            [Node::Leaf { slot: a }, Node::Leaf { slot: b }] => {
                if leaf.is_none() && forests[0].leaf(a) != forests[1].leaf(b) {
                    leaf = Some(report(&visits));
                }
            }
            [Node::Split { left: la, right: ra, .. }, Node::Split { left: lb, right: rb, .. }]
                if same_split(forests, nodes) =>
            {
                for (children, side) in [([ra, rb], 'R'), ([la, lb], 'L')] {
                    visits.push((visit, side));
                    open.push((children, visits.len() - 1));
                }
            }
            _ => return Some((report(&visits), false)),
        }
    }
    leaf.map(|difference| (difference, true))
}

/// Returns whether two splits ask the same question. Compares category sets by their members.
fn same_split(forests: [&Forest; 2], nodes: [Node; 2]) -> bool {
    let [
        Node::Split { feature: fa, predicate: pa, missing: ma, .. },
        Node::Split { feature: fb, predicate: pb, missing: mb, .. },
    ] = nodes
    else {
        return false;
    };
    let asks = match (pa, pb) {
        (Predicate::InSet { set: a, inside: ia }, Predicate::InSet { set: b, inside: ib }) => {
            let [a, b] = [&forests[0].sets[a as usize], &forests[1].sets[b as usize]];
            let members = |set: &CategorySet| set.members().collect::<Vec<_>>();
            ia == ib && a.rule == b.rule && (a.words == b.words || members(a) == members(b))
        }
        (a, b) => a == b,
    };
    fa == fb && ma == mb && asks
}

fn node_text(forest: &Forest, node: Node) -> String {
    let Node::Split { feature, predicate, missing, .. } = node else {
        return format!("leaf {:?}", node.slot().map_or(&[][..], |slot| forest.leaf(slot)));
    };
    let asks = match predicate {
        // Numbers of category sets can't be compared across models, so print the members.
        Predicate::InSet { set, inside } => {
            let members: Vec<u32> = forest.sets[set as usize].members().take(9).collect();
            let more = if members.len() == 9 { ", …" } else { "" };
            let members = members.iter().take(8).map(u32::to_string).collect::<Vec<_>>().join(", ");
            let not = if inside == Side::Left { "" } else { "not " };
            format!("{not}in {{{members}{more}}}")
        }
        other => other.to_string(),
    };
    format!("x[{feature}] {asks}, missing {}", format!("{missing:?}").to_lowercase())
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
    let short = |text: &str| text.chars().take(100).collect::<String>();
    for field in &report.model {
        writeln!(out, "\n{}\n  a  {}\n  b  {}", field.field, short(&field.a), short(&field.b))?;
    }
    let [a, b] = report.trees;
    let compared = a.min(b);
    writeln!(out, "\ntrees  {a} and {b}")?;
    let other = compared - report.equal_trees - report.leaf_trees;
    writeln!(
        out,
        "  {} the same, {} with other leaf values only, {other} with other splits",
        report.equal_trees, report.leaf_trees
    )?;
    for d in report.differences.iter().take(MOST_LINES) {
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
    let hidden = report.differences.len().saturating_sub(MOST_LINES);
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
