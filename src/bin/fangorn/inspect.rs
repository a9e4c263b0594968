//! `fangorn inspect`: describes a model, for people and for scripts.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::{
    Forest, Predictor,
    cpu::NamedPlan,
    forest::{CategoryRule, Node, Predicate, Profile},
    insight::Histogram,
    plan::{Request, check},
    schedule::{BatchSchedules, Device, Preset},
};
use serde::Serialize;

use crate::{
    Outcome,
    error::{Error, Result, one_line},
    limits::LimitsChoice,
    load_contents, output,
    profile::{ProfileChoice, leaf_bias},
    schedule::compiled,
};

/// Describe a model: objective, trees, leaves and features
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn inspect model.ubj --json\n  fangorn inspect model.ubj --plans")]
pub struct Inspect {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    #[command(flatten)]
    profile: ProfileChoice,
    /// Print JSON, with every feature
    #[arg(long)]
    json: bool,
    /// List every feature, not only the 20 with the most splits
    #[arg(long)]
    all: bool,
    /// Compile the model for this processor, and list the plans with their batch sizes and engines
    #[arg(long)]
    plans: bool,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// The maximum number of features that the table lists without `--all`.
const MOST_FEATURES: usize = 20;

#[derive(Debug, Serialize)]
struct Report {
    model: String,
    producer: String,
    version: String,
    objective: String,
    /// The best round of early stopping, counted from 0, if the file names it.
    best_iteration: Option<u32>,
    /// The number of boosting rounds, if the file names the best of them.
    rounds: Option<u32>,
    /// The factor of margins: a value is the transform of scale times margin.
    scale: f64,
    transform: &'static str,
    aggregate: &'static str,
    /// The type in which splits compare values with thresholds.
    compare: &'static str,
    /// How values become a class: none, largest, or over a threshold.
    class_rule: String,
    class_labels: Vec<String>,
    outputs: u32,
    /// The number of values of a leaf: more than 1 if leaves hold a vector.
    leaf_width: usize,
    base_score: Vec<f64>,
    trees: usize,
    nodes: usize,
    leaves: usize,
    max_leaves: usize,
    min_leaf_depth: u32,
    /// Number of trees of each depth.
    depths: Vec<usize>,
    /// Number of leaves at each depth.
    leaf_depths: Vec<usize>,
    /// Leaf values in bins of equal width, from the least to the largest.
    leaf_values: Histogram,
    category_sets: usize,
    /// How values are read as categories, if the forest has category sets.
    category_rules: Vec<&'static str>,
    /// Number of splits that send zeros to the side of missing values.
    zeros_missing: usize,
    features: Vec<Column>,
    /// Leaf statistics of the profile, if there is one.
    profile: Option<ProfileReport>,
    /// The plans of the default schedule on this processor, if the user asks for them.
    plans: Option<Vec<PlanOfBatches>>,
    /// Preset schedules that can't run this model, and why.
    refused: Vec<Refusal>,
}

#[derive(Debug, Serialize)]
struct ProfileReport {
    rows: u64,
    /// Number of leaves that no row has reached.
    unvisited: usize,
    /// Number of trees in which at most 5% of the leaves hold at least 90% of the rows.
    leaf_biased: usize,
}

#[derive(Debug, Serialize)]
struct PlanOfBatches {
    name: &'static str,
    /// The plan's name and the batch sizes that it serves, as text.
    #[serde(skip)]
    text: String,
    /// The number of rows of the smallest batch that the plan serves.
    first: usize,
    /// The number of rows of the largest batch that the plan serves, if there is a largest.
    last: Option<usize>,
    /// The engines of the plan's batches, those of the smallest batch first. The largest batch that is looked at is the
    /// plan's largest one, or one of 4096 rows if there is no largest.
    engines: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Refusal {
    what: String,
    why: String,
}

#[derive(Clone, Debug, Default, Serialize)]
struct Column {
    feature: usize,
    name: Option<String>,
    splits: usize,
    thresholds: usize,
    category_splits: usize,
    /// Number of distinct categories that the column's splits name.
    categories: usize,
    /// The categories' names by code, if the file has them.
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
/// The model or the profile can't be read, or the model can't be compiled for `--plans`.
pub fn run(args: &Inspect) -> Result<Outcome> {
    let contents = load_contents(&args.model, &args.limits)?;
    let profile = args.profile.read(&args.model, &contents)?;
    let mut report = report(&args.model, &contents.forest, profile.as_ref());
    if args.plans {
        report.plans = Some(plans(&contents.forest)?);
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => table(&report, args.all),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn report(model: &Path, forest: &Forest, profile: Option<&Profile>) -> Report {
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
        best_iteration: forest.producer.early_stop.map(|stop| stop.best),
        rounds: forest.producer.early_stop.map(|stop| stop.rounds),
        scale: forest.scale.0,
        transform: forest.transform.name(),
        aggregate: forest.aggregate.name(),
        compare: forest.compare.name(),
        class_rule: forest.classes.rule.to_string(),
        class_labels: forest.classes.labels.clone(),
        outputs: forest.outputs,
        leaf_width: forest.leaf_width(),
        base_score: forest.base_score.iter().map(|b| b.0).collect(),
        trees: stats.trees,
        nodes: stats.nodes,
        leaves: stats.leaves,
        max_leaves: stats.max_leaves,
        min_leaf_depth: stats.min_leaf_depth,
        depths: stats.depths,
        leaf_depths: stats.leaf_depths,
        leaf_values: Histogram::new(forest.leaf_values.iter().map(|value| value.0), BINS),
        category_sets: forest.sets.len(),
        category_rules: category_rules(forest),
        zeros_missing: zeros_missing(forest),
        features,
        profile: profile.map(|profile| ProfileReport {
            rows: profile.rows(),
            unvisited: profile.visits().iter().filter(|n| **n == 0).count(),
            leaf_biased: leaf_bias(forest, profile),
        }),
        plans: None,
        refused: refused(forest),
    }
}

/// Returns the plans of the default schedule on this processor.
fn plans(forest: &Forest) -> Result<Vec<PlanOfBatches>> {
    let predictor = compiled(Predictor::builder(forest))?;
    let of = |plan: NamedPlan<'_>| {
        let (first, text) = (*plan.rows.start(), plan.to_string());
        let last = Some(*plan.rows.end()).filter(|last| *last < usize::MAX);
        let largest = last.unwrap_or(BatchSchedules::USUAL_ROWS.max(first));
        // Inside a plan, the engine changes only at the numbers of rows that its lines `few rows` and `many rows` name.
        let own = &plan.program.plan().own;
        let changes = [own.few_rows_end, own.many_rows.map(|many| many.from)];
        let around =
            changes.into_iter().flatten().flat_map(|rows| [(rows as usize).saturating_sub(1), rows as usize]);
        let mut batches: Vec<usize> = [first, largest].into_iter().chain(around).collect();
        batches.sort_unstable();
        batches.dedup();
        let mut engines = Vec::new();
        for rows in batches.into_iter().filter(|rows| (first..=largest).contains(rows)) {
            for name in predictor.engines(rows)?.into_iter().map(|(engine, _)| engine.name()) {
                if !engines.contains(&name) {
                    engines.push(name);
                }
            }
        }
        Ok(PlanOfBatches { name: plan.name, text, first, last, engines })
    };
    predictor.plans().into_iter().map(of).collect()
}

/// The number of bins of the histogram of leaf values.
const BINS: usize = 12;

fn category_rules(forest: &Forest) -> Vec<&'static str> {
    let text = |rule| match rule {
        CategoryRule::NotNegative => "values below 0 are no category, others are truncated",
        CategoryRule::Truncated => "values are truncated toward zero, then below 0 is no category",
        CategoryRule::Whole => "only whole numbers from 0 on are categories",
    };
    let mut rules: Vec<&'static str> = forest.sets.iter().map(|set| text(set.rule)).collect();
    rules.sort_unstable();
    rules.dedup();
    rules
}

fn zeros_missing(forest: &Forest) -> usize {
    let zero_aside = |n: &&Node| matches!(n, Node::Split { predicate: Predicate::LessZeroAside { .. }, .. });
    forest.trees.iter().flat_map(|t| &t.nodes).filter(zero_aside).count()
}

/// Tries every preset on the CPU, and on a GPU with only what every GPU has. Returns the refusals.
fn refused(forest: &Forest) -> Vec<Refusal> {
    let mut refused = Vec::new();
    let mut attempt = |what: String, taken: fangorn::Result<()>| {
        if let Err(e) = taken {
            refused.push(Refusal { what, why: one_line(&e.to_string()) });
        }
    };
    for preset in Preset::ALL {
        for (name, device) in [("cpu", Device::Cpu), ("a GPU", Device::PORTABLE_GPU)] {
            let schedule = preset.schedule(forest, device != Device::Cpu);
            let request = Request { device, ..Request::cpu() };
            attempt(format!("schedule {} on {name}", preset.name()), check(forest, &schedule, request));
        }
    }
    refused
}

/// Returns, for each feature, the number of distinct categories that its splits name.
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

/// Writes a histogram without its empty bins.
fn bars(
    out: &mut String,
    of: &str,
    what: &str,
    bins: impl Iterator<Item = (String, usize)>,
) -> std::fmt::Result {
    let bins: Vec<(String, usize)> = bins.filter(|(_, n)| *n > 0).collect();
    let most = bins.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
    let width = bins.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(of.len());
    writeln!(out, "\n{of:>width$}  {what:>8}")?;
    for (name, n) in &bins {
        writeln!(out, "{name:>width$}  {n:>8}  {}", "#".repeat((n * 40).div_ceil(most)))?;
    }
    Ok(())
}

fn write_table(out: &mut String, report: &Report, all: bool) -> std::fmt::Result {
    let list = |values: &[f64]| values.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ");
    let read = report.features.iter().filter(|f| f.all_splits() > 0).count();
    writeln!(out, "model       {}", one_line(&report.model))?;
    writeln!(out, "producer    {} {}", one_line(&report.producer), one_line(&report.version))?;
    let scale = if report.scale == 1.0 { String::new() } else { format!(" of {:?} x margin", report.scale) };
    writeln!(out, "objective   {} (transform {}{scale})", one_line(&report.objective), report.transform)?;
    if report.class_rule != "none" {
        let labels = report.class_labels.iter().take(8).map(|l| one_line(l)).collect::<Vec<_>>().join(", ");
        let more = if report.class_labels.len() > 8 { ", …" } else { "" };
        let labels = if labels.is_empty() { "numbered from 0".into() } else { format!("{labels}{more}") };
        let rule = match report.class_rule.strip_prefix("over ") {
            Some(threshold) => format!("the second if the value is over {threshold}"),
            None => "that of the largest margin".into(),
        };
        writeln!(out, "classes     {labels}; {rule}")?;
    }
    writeln!(out, "compared    in {}", report.compare)?;
    if report.aggregate != "sum" {
        writeln!(out, "trees give  the {} of their leaves", report.aggregate)?;
    }
    for rule in &report.category_rules {
        writeln!(out, "categories  {rule}")?;
    }
    if report.zeros_missing > 0 {
        writeln!(
            out,
            "zeros       count as missing in {} splits whose zeros have a side of their own",
            report.zeros_missing
        )?;
    }
    writeln!(out, "features    {}, of which splits read {read}", report.features.len())?;
    writeln!(out, "outputs     {}", report.outputs)?;
    writeln!(out, "base score  {}", list(&report.base_score))?;
    let vectors =
        if report.leaf_width > 1 { format!(" of {} values", report.leaf_width) } else { String::new() };
    writeln!(out, "trees       {}", report.trees)?;
    if let (Some(best), Some(rounds)) = (report.best_iteration, report.rounds) {
        let first = best + 1;
        let predicts = match first < rounds {
            true => format!(
                "; predicts with all {rounds}, as Booster.predict does; \
                 --iterations best takes the first {first}, as scikit-learn's wrapper does"
            ),
            false => ", the last one".into(),
        };
        writeln!(out, "best iteration {best} (of {rounds}){predicts}")?;
    }
    writeln!(out, "nodes       {}", report.nodes)?;
    writeln!(out, "leaves      {}{vectors}, at most {} a tree", report.leaves, report.max_leaves)?;
    if let Some(ProfileReport { rows, unvisited, leaf_biased }) = &report.profile {
        writeln!(
            out,
            "profile     {rows} rows, {unvisited} leaves not visited, {leaf_biased} trees leaf-biased"
        )?;
    }
    for plan in report.plans.iter().flatten() {
        writeln!(out, "plan        {}: {}", plan.text, plan.engines.join(", "))?;
    }
    bars(out, "depth", "trees", report.depths.iter().enumerate().map(|(d, n)| (d.to_string(), *n)))?;
    bars(out, "depth", "leaves", report.leaf_depths.iter().enumerate().map(|(d, n)| (d.to_string(), *n)))?;
    let values = &report.leaf_values;
    let width = (values.largest - values.least) / values.counts.len().max(1) as f64;
    let begin = |bin: usize| format!("{:.4}", values.least + width * bin as f64);
    bars(out, "value from", "leaves", values.counts.iter().enumerate().map(|(bin, n)| (begin(bin), *n)))?;
    for refusal in &report.refused {
        writeln!(out, "\nrefused     {}: {}", refusal.what, refusal.why)?;
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
