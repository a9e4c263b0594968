//! `fangorn inspect`: what is in a model, for people and for scripts.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::{
    Forest,
    forest::{Node, Predicate},
};
use serde::Serialize;

use crate::{
    Outcome,
    error::{Error, Result, one_line},
    load_model, output,
};

/// Say what is in a model.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn inspect model.ubj --json")]
pub struct Inspect {
    /// The model file: XGBoost's .ubj or .json
    model: PathBuf,
    /// Print JSON, with every feature
    #[arg(long)]
    json: bool,
    /// List every feature, not only the 20 with most splits
    #[arg(long)]
    all: bool,
}

/// Features the table lists where not all are asked for.
const MOST_FEATURES: usize = 20;

#[derive(Debug, Serialize)]
struct Report {
    model: String,
    producer: String,
    version: String,
    objective: String,
    transform: &'static str,
    outputs: u32,
    /// Values of a leaf: more than 1 where leaves are vectors.
    leaf_width: usize,
    base_score: Vec<f64>,
    trees: usize,
    nodes: usize,
    leaves: usize,
    max_leaves: usize,
    min_leaf_depth: u32,
    /// How many trees have each depth.
    depths: Vec<usize>,
    category_sets: usize,
    features: Vec<Column>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Column {
    feature: usize,
    name: Option<String>,
    splits: usize,
    thresholds: usize,
    category_splits: usize,
    /// Distinct categories that its splits name.
    categories: usize,
    /// The categories' names by code, where the file has them.
    category_names: Vec<String>,
    missing_left: bool,
    missing_right: bool,
}

impl Column {
    fn all_splits(&self) -> usize {
        self.splits + self.category_splits
    }
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with what was handed in.
pub fn run(args: &Inspect) -> Result<Outcome> {
    let forest = load_model(&args.model)?;
    let report = report(&args.model, &forest);
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => table(&report, args.all),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn report(model: &Path, forest: &Forest) -> Report {
    let stats = forest.stats();
    let columns = forest.features.iter().enumerate();
    let mut features: Vec<Column> = columns
        .map(|(feature, f)| Column {
            feature,
            name: f.name.clone(),
            category_names: f.categories.clone(),
            ..Column::default()
        })
        .collect();
    for of in &stats.features {
        let column = &mut features[of.feature as usize];
        column.splits = of.splits;
        column.thresholds = of.thresholds;
        column.category_splits = of.category_splits;
        column.missing_left = of.missing_left;
        column.missing_right = of.missing_right;
    }
    for (column, categories) in features.iter_mut().zip(categories(forest)) {
        column.categories = categories;
    }
    Report {
        model: model.display().to_string(),
        producer: forest.producer.library.clone(),
        version: forest.producer.version.clone(),
        objective: forest.producer.objective.clone(),
        transform: forest.transform.name(),
        outputs: forest.outputs,
        leaf_width: forest.leaf_width(),
        base_score: forest.base_score.iter().map(|b| b.0).collect(),
        trees: stats.trees,
        nodes: stats.nodes,
        leaves: stats.leaves,
        max_leaves: stats.max_leaves,
        min_leaf_depth: stats.min_leaf_depth,
        depths: stats.depths,
        category_sets: forest.sets.len(),
        features,
    }
}

/// How many distinct categories the splits on each feature name.
fn categories(forest: &Forest) -> Vec<usize> {
    let mut named = vec![Vec::<u32>::new(); forest.features.len()];
    for node in forest.trees.iter().flat_map(|t| &t.nodes) {
        if let Node::Split { feature, predicate: Predicate::InSet { set, .. }, .. } = *node {
            let words = &forest.sets[set as usize].words;
            let all = &mut named[feature as usize];
            all.resize(all.len().max(words.len()), 0);
            all.iter_mut().zip(words).for_each(|(all, word)| *all |= word);
        }
    }
    named.iter().map(|words| words.iter().map(|w| w.count_ones() as usize).sum()).collect()
}

fn table(report: &Report, all: bool) -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = write_table(&mut text, report, all);
    text
}

fn write_table(out: &mut String, report: &Report, all: bool) -> std::fmt::Result {
    let list = |values: &[f64]| values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ");
    let read = report.features.iter().filter(|f| f.all_splits() > 0).count();
    writeln!(out, "model       {}", one_line(&report.model))?;
    writeln!(out, "producer    {} {}", one_line(&report.producer), one_line(&report.version))?;
    writeln!(out, "objective   {} (transform {})", one_line(&report.objective), report.transform)?;
    writeln!(out, "features    {}, of which splits read {read}", report.features.len())?;
    writeln!(out, "outputs     {}", report.outputs)?;
    writeln!(out, "base score  {}", list(&report.base_score))?;
    let vectors =
        if report.leaf_width > 1 { format!(" of {} values", report.leaf_width) } else { String::new() };
    writeln!(out, "trees       {}", report.trees)?;
    writeln!(out, "nodes       {}", report.nodes)?;
    writeln!(out, "leaves      {}{vectors}, at most {} a tree", report.leaves, report.max_leaves)?;
    writeln!(out, "\ndepth  trees")?;
    let most = report.depths.iter().copied().max().unwrap_or(0).max(1);
    for (depth, trees) in report.depths.iter().enumerate().filter(|(_, trees)| **trees > 0) {
        let bar = "#".repeat((trees * 40).div_ceil(most));
        writeln!(out, "{depth:>5}  {trees:>5}  {bar}")?;
    }
    let mut rows: Vec<&Column> = report.features.iter().filter(|f| all || f.all_splits() > 0).collect();
    rows.sort_by_key(|f| (std::cmp::Reverse(f.all_splits()), f.feature));
    let hidden = if all { 0 } else { rows.len().saturating_sub(MOST_FEATURES) };
    rows.truncate(rows.len() - hidden);
    if rows.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = rows.iter().map(|f| one_line(f.name.as_deref().unwrap_or("-"))).collect();
    let width = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "\ncolumn  {:<width$}  splits  thresholds  category splits  categories  missing goes",
        "name"
    )?;
    for (f, name) in rows.iter().zip(&names) {
        let missing = match (f.missing_left, f.missing_right) {
            (true, true) => "left, right",
            (true, false) => "left",
            (false, true) => "right",
            (false, false) => "-",
        };
        writeln!(
            out,
            "{:>6}  {name:<width$}  {:>6}  {:>10}  {:>15}  {:>10}  {missing}",
            f.feature, f.splits, f.thresholds, f.category_splits, f.categories
        )?;
    }
    if hidden > 0 {
        writeln!(out, "and {hidden} more with fewer splits; --all lists every feature")?;
    }
    Ok(())
}
