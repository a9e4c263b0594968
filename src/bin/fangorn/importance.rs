//! `fangorn importance`: which features a model uses, and how much.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write as _},
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum, value_parser};
use fangorn::{
    Forest, Predictor,
    contributions::{Explainer, RowExplainer},
    insight::{MeanContributions, Metric, PermutationOptions, SplitImportances, permutation},
};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde_json::{Value, json};

use crate::{
    Outcome,
    answer::{MissingChoice, RoundsChoice},
    atomic_file::AtomicFile,
    error::{Error, Result, one_line},
    library_error,
    limits::LimitsChoice,
    output::{self, Table, Values},
    row_explainer::background_of,
    row_source::{RowSource, SampleChoice, view},
    rows::{self, Element, TableChoice},
    schedule::compiled,
    standard_input::{is_standard_input, rows_path},
    text::{aligned, csv_path, feature_name, number},
};

/// A kind of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Number of splits on the feature (XGBoost's weight, LightGBM's split)
    Weight,
    /// Mean gain of its splits (XGBoost's gain)
    Gain,
    /// Total gain of its splits (XGBoost's total_gain, LightGBM's gain)
    TotalGain,
    /// Mean cover of its splits (XGBoost's cover)
    Cover,
    /// Total cover of its splits (XGBoost's total_cover)
    TotalCover,
    /// Mean magnitude of its contributions to the rows, summed over the outputs
    Contribution,
    /// How much the metric rises if its column is shuffled
    Permutation,
}

impl Kind {
    /// Returns the name of the importance's column.
    fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Gain => "gain",
            Self::TotalGain => "total_gain",
            Self::Cover => "cover",
            Self::TotalCover => "total_cover",
            Self::Contribution => "contribution",
            Self::Permutation => "permutation",
        }
    }
}

/// A measure of how wrong predictions are, for permutations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MetricChoice {
    /// The mean of minus the logarithm of the label's probability
    Logloss,
    /// The share of wrong classes
    Error,
    /// The mean square of the difference from the label
    SquaredError,
    /// The mean magnitude of the difference from the label
    AbsoluteError,
}

/// The labels and the other options of permutation importances.
#[derive(Clone, Debug, Args)]
pub struct LabelArgs {
    /// The column of the --rows file that holds the labels, for permutation importances
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
    /// The metric of permutation importances. Without it, the usual one of the objective: logloss if values are
    /// probabilities, error for other classifiers, squared-error for all other models
    #[arg(long, value_enum)]
    pub metric: Option<MetricChoice>,
    /// How often each column is shuffled, for permutation importances
    #[arg(long, value_name = "N", default_value = "5", value_parser = value_parser!(u16).range(1..=1000))]
    pub repeats: u16,
}

impl LabelArgs {
    /// Returns the metric: the chosen one, or the usual one of the model's objective.
    pub fn metric(&self, forest: &Forest) -> Metric {
        match self.metric {
            None => Metric::of(forest),
            Some(MetricChoice::Logloss) => Metric::LogLoss,
            Some(MetricChoice::Error) => Metric::Error,
            Some(MetricChoice::SquaredError) => Metric::SquaredError,
            Some(MetricChoice::AbsoluteError) => Metric::AbsoluteError,
        }
    }
}

/// List the features that a model uses, with their importances
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn importance model.ubj
  fangorn importance model.ubj --rows rows.csv --kind contribution -o importance.csv
  fangorn importance model.ubj --rows rows.csv --label churned --kind permutation,gain")]
pub struct Importance {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// Rows for the kinds contribution and permutation: a .npy, .csv, .parquet, .arrow or .libsvm file, or - for CSV from
    /// standard input
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: Option<PathBuf>,
    /// The importances to compute; the first one sorts the features. Without it, those of permutation, contribution,
    /// total-gain, total-cover and weight that the model's file and the other options allow
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',')]
    kind: Vec<Kind>,
    /// For the kind contribution: a file of some hundred typical rows, in any format of --rows. A feature that is not
    /// known takes its values from these rows. Without it, contributions use the covers in the model's file
    #[arg(long, value_name = "FILE", requires = "rows")]
    background: Option<PathBuf>,
    #[command(flatten)]
    rounds: RoundsChoice,
    #[command(flatten)]
    missing: MissingChoice,
    #[command(flatten)]
    labels: LabelArgs,
    #[command(flatten)]
    sample: SampleChoice,
    /// Print JSON, with every feature
    #[arg(long)]
    json: bool,
    /// Write a table of every feature to this .csv file, instead of printing one
    #[arg(short, value_name = "FILE.csv", value_parser = csv_path)]
    o: Option<PathBuf>,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Returns the remedy for a model whose file has no gains.
fn no_gains(forest: &Forest) -> String {
    let library = &*forest.producer.library;
    match library {
        "xgboost" | "lightgbm" => {
            "the file has no gains: a .fangorn file keeps none, and others may lack them; give the model file of \
             XGBoost or LightGBM, or use --kind weight, cover or contribution"
                .into()
        }
        _ => format!(
            "files of {library} hold no gains; use --kind weight or contribution, or permutation with --rows and --label"
        ),
    }
}

/// Returns the remedy for a model whose file has no covers.
fn no_covers() -> &'static str {
    "the file has no covers (how much training data reached each node); give the model file of XGBoost, LightGBM or \
     CatBoost itself, or use --kind weight, or permutation with --rows and --label"
}

/// An importance of each feature.
struct Column {
    kind: Kind,
    values: Vec<f64>,
    /// The standard deviation over the repeats of permutations.
    deviation: Option<Vec<f64>>,
    /// What the numbers depend on: rows, metric, seed.
    note: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The options, the model or the rows are wrong, or the output can't be written.
pub fn run(args: &Importance) -> Result<Outcome> {
    if let Some(path) = &args.o {
        AtomicFile::check(path)?;
    }
    let forest = args.rounds.load(&args.model, &args.limits, true)?.forest;
    let splits = SplitImportances::new(&forest);
    let kinds = kinds(args, &forest, &splits)?;
    let readings = kinds.iter().filter(|kind| matches!(kind, Kind::Contribution | Kind::Permutation)).count();
    if readings > 1 && args.rows.as_deref().is_some_and(is_standard_input) {
        let what =
            "--rows -: standard input can be read only once; choose contribution or permutation with --kind";
        return Err(Error::Request(what.into()));
    }
    rows::check_standard_input(
        ["--rows", "--background"],
        [args.rows.as_deref(), args.background.as_deref()],
    )?;
    let mut columns = Vec::new();
    for kind in kinds {
        columns.push(column(args, &forest, &splits, kind)?);
    }
    let mut order: Vec<usize> = (0..forest.features.len()).collect();
    if let Some(first) = columns.first() {
        // Sorting is stable, so features with equal importances stay in the model's order.
        order.sort_by(|a, b| first.values[*b].total_cmp(&first.values[*a]));
    }
    if let Some(path) = &args.o {
        let text = csv(&forest, &columns, &order);
        AtomicFile::write(path, |out| out.write_all(text.as_bytes()))?;
    }
    let text = match args.json {
        true => json(args, &forest, &columns, &order)?,
        false if args.o.is_some() => String::new(),
        false => table(args, &forest, &columns, &order),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Returns the kinds that the options name. If they name none, returns those that the model and the options allow.
fn kinds(args: &Importance, forest: &Forest, splits: &SplitImportances) -> Result<Vec<Kind>> {
    let refused = |kind: Kind, why: String| {
        let name = kind.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        Err(Error::file(&args.model, format!("--kind {name}: {why}")))
    };
    let (has_rows, has_label) = (args.rows.is_some(), args.labels.label.is_some());
    if has_label && !has_rows {
        return Err(Error::Request("--label names a column of the rows; give --rows, too".into()));
    }
    if args.kind.is_empty() {
        let all = [
            (Kind::Permutation, has_label),
            (Kind::Contribution, has_rows && (args.background.is_some() || Explainer::new(forest).is_ok())),
            (Kind::TotalGain, splits.total_gain.is_some()),
            (Kind::TotalCover, splits.total_cover.is_some()),
            (Kind::Weight, true),
        ];
        return Ok(all.into_iter().filter(|(_, there)| *there).map(|(kind, _)| kind).collect());
    }
    if args.background.is_some() && !args.kind.contains(&Kind::Contribution) {
        return Err(Error::Request("--background is for --kind contribution; leave it out".into()));
    }
    for kind in &args.kind {
        match kind {
            Kind::Gain | Kind::TotalGain if splits.total_gain.is_none() => {
                return refused(*kind, no_gains(forest));
            }
            Kind::Cover | Kind::TotalCover if splits.total_cover.is_none() => {
                return refused(*kind, no_covers().into());
            }
            Kind::Contribution if !has_rows => {
                return refused(*kind, "it is a mean over rows; give --rows".into());
            }
            Kind::Permutation if !has_label => {
                return refused(*kind, "it compares predictions with labels; give --rows and --label".into());
            }
            _ => (),
        }
    }
    Ok(args.kind.clone())
}

fn column(args: &Importance, forest: &Forest, splits: &SplitImportances, kind: Kind) -> Result<Column> {
    let none = Vec::new;
    let split_column = |values: Vec<f64>| Column { kind, values, deviation: None, note: None };
    Ok(match kind {
        Kind::Weight => split_column(splits.weight.iter().map(|weight| *weight as f64).collect()),
        Kind::Gain => split_column(splits.gain().unwrap_or_else(none)),
        Kind::TotalGain => split_column(splits.total_gain.clone().unwrap_or_else(none)),
        Kind::Cover => split_column(splits.cover().unwrap_or_else(none)),
        Kind::TotalCover => split_column(splits.total_cover.clone().unwrap_or_else(none)),
        Kind::Contribution | Kind::Permutation => {
            let rows = args.rows.as_deref().unwrap_or(Path::new("-"));
            let label = args.labels.label.as_deref().filter(|_| kind == Kind::Permutation);
            let source = RowSource::open(rows, forest, args.table, label, args.missing)?;
            match (kind, source.reads_doubles()) {
                (Kind::Contribution, true) => contribution_column::<f64>(args, forest, &source)?,
                (Kind::Contribution, false) => contribution_column::<f32>(args, forest, &source)?,
                (_, true) => permutation_column::<f64>(args, forest, &source)?,
                (_, false) => permutation_column::<f32>(args, forest, &source)?,
            }
        }
    })
}

fn contribution_column<T: Element>(
    args: &Importance,
    forest: &Forest,
    source: &RowSource<'_>,
) -> Result<Column> {
    let explainer: RowExplainer = match &args.background {
        Some(background) => background_of(&args.model, forest, background, args.table, args.missing)?.into(),
        None => {
            let explainer = Explainer::new(forest);
            explainer.map_err(|error| Error::file(&args.model, error.to_string()))?.into()
        }
    };
    let mut means = MeanContributions::new(forest);
    let explain = |rows: &rows::Matrix<T>| {
        let values = explainer.contributions(&view(rows)?).map_err(library_error)?;
        Ok(Table { rows: rows.rows, columns: explainer.width(), values: Values::Floats(values) })
    };
    source.each(explainer.width(), explain, |table| match table.values {
        Values::Floats(values) => means.add(&values).map_err(library_error),
        _ => Ok(()),
    })?;
    let against = match &args.background {
        Some(path) => format!(", against {}", one_line(&path.display().to_string())),
        None => String::new(),
    };
    let note = Some(format!("contribution is the mean magnitude over {} rows{against}", means.rows()));
    Ok(Column { kind: Kind::Contribution, values: means.total(), deviation: None, note })
}

fn permutation_column<T: Element>(
    args: &Importance,
    forest: &Forest,
    source: &RowSource<'_>,
) -> Result<Column> {
    let sample = source.sample::<T>(args.sample, None)?;
    let options = PermutationOptions {
        metric: args.labels.metric(forest),
        repeats: args.labels.repeats.into(),
        seed: args.sample.seed,
    };
    let predictor = compiled(Predictor::builder(forest)).map_err(library_error)?;
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::with_draw_target(
            Some(forest.used_columns().len() as u64),
            ProgressDrawTarget::stderr(),
        ),
        false => ProgressBar::hidden(),
    };
    let importances =
        permutation(forest, &predictor, &view(&sample.rows)?, &sample.labels, options, |_| bar.inc(1))
            .map_err(library_error)?;
    bar.finish_and_clear();
    let note = format!(
        "permutation is how much larger {} is than {}, over {} of {} rows, {} repeats, seed {}",
        options.metric,
        number(importances.baseline),
        sample.rows.rows,
        sample.file_rows,
        options.repeats,
        options.seed
    );
    Ok(Column {
        kind: Kind::Permutation,
        values: importances.mean,
        deviation: Some(importances.deviation),
        note: Some(note),
    })
}

fn table(args: &Importance, forest: &Forest, columns: &[Column], order: &[usize]) -> String {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut head = vec!["feature".to_owned()];
    for column in columns {
        head.push(column.kind.name().into());
        head.extend(column.deviation.as_ref().map(|_| "±".to_owned()));
    }
    lines.push(head);
    let is_used = |f: &usize| columns.iter().any(|column| column.values[*f] != 0.0);
    for f in order.iter().copied().filter(is_used) {
        let mut line = vec![one_line(&feature_name(forest, f))];
        for column in columns {
            line.push(number(column.values[f]));
            line.extend(column.deviation.as_ref().map(|deviation| number(deviation[f])));
        }
        lines.push(line);
    }
    let mut text = aligned(&lines);
    let unused = forest.features.len() - order.iter().filter(|f| is_used(f)).count();
    if unused > 0 {
        let _ = writeln!(text, "and {unused} features whose importances are 0");
    }
    let notes: Vec<&String> = columns.iter().filter_map(|column| column.note.as_ref()).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        let _ = writeln!(text, "{note}");
    }
    if args.kind.is_empty() && forest.gains.is_none() {
        let _ = writeln!(text, "\nno gain: {}", no_gains(forest));
    }
    text
}

fn csv(forest: &Forest, columns: &[Column], order: &[usize]) -> String {
    let mut text = "feature".to_owned();
    for column in columns {
        let _ = write!(text, ",{}", column.kind.name());
        if column.deviation.is_some() {
            let _ = write!(text, ",{}_deviation", column.kind.name());
        }
    }
    text.push('\n');
    for f in order {
        text += &output::quoted(&feature_name(forest, *f));
        for column in columns {
            let _ = write!(text, ",{:?}", column.values[*f]);
            if let Some(deviation) = &column.deviation {
                let _ = write!(text, ",{:?}", deviation[*f]);
            }
        }
        text.push('\n');
    }
    text
}

fn json(args: &Importance, forest: &Forest, columns: &[Column], order: &[usize]) -> Result<String> {
    let feature = |f: &usize| {
        let mut entry = serde_json::Map::new();
        entry.insert("feature".into(), feature_name(forest, *f).into());
        entry.insert("column".into(), (*f).into());
        for column in columns {
            entry.insert(column.kind.name().into(), column.values[*f].into());
            if let Some(deviation) = &column.deviation {
                entry.insert(format!("{}_deviation", column.kind.name()), deviation[*f].into());
            }
        }
        Value::Object(entry)
    };
    let notes: Vec<&String> = columns.iter().filter_map(|column| column.note.as_ref()).collect();
    let report = json!({
        "model": args.model.display().to_string(),
        "notes": notes,
        "features": order.iter().map(feature).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n")
}
