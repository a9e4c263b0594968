//! `fangorn predict`: turns rows into margins, values, classes, leaves, tree values, contributions or interactions.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use fangorn::{
    Forest,
    auto::ScheduleKey,
    forest::{ClassRule, Classes, CompareType, reference},
    graph::Graph,
    sum::Contract,
};

use crate::{
    Outcome,
    answer::PredictionArgs,
    auto_backend::{self, AUTO},
    backend::{Backend, CompiledForest, Explanation},
    compare,
    error::{Error, Result},
    limits::LimitsChoice,
    output::{Sink, Table, Values},
    predict_graph::{self, GraphInputs, GraphScorer},
    profile::ProfileChoice,
    row_explainer::{self, ExplainedBy, MOST_NAMED_COLUMNS},
    rows::{self, Element, Matrix, OnError, PartedRows, RowBatch, RowsInParts, TableChoice},
    schedule::Choice,
    score::{self, TakesParts},
    standard_input::{is_standard_input, rows_path},
    sum::SumChoice,
    table_format::NAMED_TABLES,
    tables::{BATCH_ROWS, ColumnNames, Journal, KeptField, ScoredBatch, ScoredSchema},
    text::feature_name,
};

/// The kind of prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// The sum of each output, before the objective's transform
    Margin,
    /// What the producer's own predict returns
    Value,
    /// The class, as the producer labels it; for classifiers
    Class,
    /// The producer's id of the leaf that the row reaches in each tree
    Leaf,
    /// What each tree adds to the margins
    Tree,
    /// How much each feature adds to each margin (SHAP values), the bias last: path-dependent, or interventional with
    /// --background
    Contributions,
    /// How much each pair of features adds to each margin (SHAP interaction values, path-dependent, or interventional with
    /// --background): for each margin a square with a row and a column for each feature, and the last ones for the bias
    Interactions,
}

impl Output {
    /// Returns the name of the output's column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Margin => "margin",
            Self::Value => "value",
            Self::Class => "class",
            Self::Leaf => "leaf",
            Self::Tree => "tree",
            Self::Contributions => "contribution",
            Self::Interactions => "interaction",
        }
    }
}

/// Predict rows: values, margins, classes, leaf ids, what each tree adds, or contributions
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn predict model.ubj --rows rows.csv --output class -o classes.npy
  fangorn predict model.ubj --rows people.parquet --keep id,date -o scores.parquet
  fangorn predict model.ubj --rows rows.csv --output contributions -o why.csv
  fangorn predict model.ubj --rows rows.csv --output contributions --background usual.csv -o why.csv
  fangorn predict model.ubj --rows rows.csv --output interactions -o pairs.npy
  fangorn predict model.ubj --rows rows.csv --output interactions --background usual.csv -o pairs.npy")]
pub struct Predict {
    /// The model file, in any format that fangorn reads
    pub(crate) model: PathBuf,
    /// The rows to predict: a .npy, .csv, .parquet, .arrow or .libsvm file, or - for CSV or a stream of Arrow from
    /// standard input. They are predicted part by part, so they may be larger than memory, except with --expect and
    /// --base-margin. The backends reference and cpu read them as f64 if the model compares in f64, as LightGBM's do;
    /// in all other cases they are read as f32
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: PathBuf,
    /// What to predict
    #[arg(long, value_enum, default_value = "value")]
    pub(crate) output: Output,
    /// What runs the forest: cpu, reference (the reference interpreter), or a backend of burn that is built in: flex,
    /// ndarray, wgpu, vulkan, metal, cuda, rocm or cubecl-cpu. auto takes the CPU or a GPU, by the times that
    /// `fangorn tune --backend auto` has measured for the model
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// A preset's name, or a file with one directive a line. For the CPU also a plan file (.toml), or `tuned`: the
    /// schedules that `fangorn tune` keeps for the model
    #[arg(long, value_name = "NAME|FILE", default_value = "default")]
    pub(crate) schedule: String,
    #[command(flatten)]
    pub(crate) answer: PredictionArgs,
    #[command(flatten)]
    profile: ProfileChoice,
    #[command(flatten)]
    pub(crate) sum: SumChoice,
    /// The file to write: .npy, .csv, .parquet or .arrow. Without it, CSV goes to standard output
    #[arg(short, value_name = "FILE")]
    o: Option<PathBuf>,
    /// With --output contributions or interactions: a file of some hundred typical rows, in any format of --rows. A
    /// feature that is not known takes its values from these rows, so the results are interventional and need no covers.
    /// The file is read at once
    #[arg(long, value_name = "FILE")]
    pub(crate) background: Option<PathBuf>,
    /// Columns of the --rows file to write before the predictions; a CSV output then gets a header. A column of a struct
    /// is named `struct.column`; quotation marks enclose a name that has a comma. Not for .npy and .libsvm files, whose
    /// columns have no names
    #[arg(long, value_name = "COLUMN,…")]
    keep: Vec<ColumnList>,
    /// What to do if rows can't be read: a line of CSV or libsvm text, a row group of a Parquet file, a record batch of
    /// an Arrow file, or a part of a .npy file
    #[arg(long, value_enum, value_name = "stop|skip", default_value_t)]
    on_error: OnError,
    /// Continue a run of the same command that was cut short, with the predictions that it left in a file beside the
    /// output. The output gets the same bytes as from a run that was not cut short
    #[arg(long)]
    resume: bool,
    /// A file of expected values (.npy, .csv, .parquet or .arrow) to print beside the predictions. The exit status is 1
    /// if two differ by more than 1e-5 of max(1, |expected|), or if two integers or labels that are texts differ at all
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// A list of names of columns.
#[derive(Clone, Debug)]
struct ColumnList(Vec<String>);

impl std::str::FromStr for ColumnList {
    type Err = String;

    /// Parses a record of a CSV.
    fn from_str(text: &str) -> Result<Self, String> {
        // A name has each of its own quotation marks twice.
        if !text.matches('"').count().is_multiple_of(2) {
            return Err("a name begins with a quotation mark and does not end with one".into());
        }
        let records =
            csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes()).into_records();
        let records = records.collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
        match &records[..] {
            [record] => Ok(Self(record.iter().map(str::to_owned).collect())),
            _ => Err("give names with commas between them, on one line".into()),
        }
    }
}

/// Why an option that needs rows in parts is refused.
const AT_ONCE: &str = "with --expect or --base-margin all rows are read at once; leave the option out";

impl Predict {
    /// Returns the names of the columns to keep.
    fn kept_names(&self) -> Vec<String> {
        self.keep.iter().flat_map(|list| list.0.iter().cloned()).collect()
    }

    /// Tells whether all rows are read at once.
    ///
    /// # Errors
    /// An option is not possible: `--resume`, `--keep` or `--on-error skip` with rows that are read at once, `--resume`
    /// with standard input or output, or `--keep` with columns without names or with an output without columns.
    fn reads_whole(&self, sink: &Sink) -> Result<bool> {
        let whole = self.expect.is_some() || self.answer.has_margins();
        let nameless = !rows::has_named_columns(&self.rows);
        let refused = |option: &str, what: &str| Err(Error::Request(format!("--{option}: {what}")));
        if self.resume && whole {
            return refused("resume", AT_ONCE);
        }
        if self.resume && (matches!(sink, Sink::Stdout) || is_standard_input(&self.rows)) {
            return refused("resume", "only a run on files can resume; name files for --rows and -o");
        }
        if whole && self.on_error == OnError::Skip {
            return refused(
                "on-error",
                "with --expect or --base-margin no row may be skipped; leave the option out",
            );
        }
        match self.keep.is_empty() {
            true => Ok(whole),
            false if whole => refused("keep", AT_ONCE),
            false if nameless => refused(
                "keep",
                &format!("the rows' columns have no names; give {NAMED_TABLES}, or leave the option out"),
            ),
            false if matches!(sink, Sink::Npy(_)) => {
                refused("keep", &format!(".npy holds only predictions; name the output {NAMED_TABLES}"))
            }
            false => Ok(false),
        }
    }
}

impl Predict {
    /// Returns a line that names what the predictions of a run depend on. `model` says which model runs, and how.
    fn run_line(&self, model: &str) -> String {
        let rows = std::fs::metadata(&self.rows).ok();
        let modified = rows.as_ref().and_then(|rows| rows.modified().ok());
        let length = rows.map(|rows| rows.len());
        // Files of schedules, profiles and backgrounds count, and so do variables that choose instructions.
        let of_option = |file: &Option<PathBuf>| file.as_deref().map_or(0, hash_of);
        let files = [
            hash_of(Path::new(&self.schedule)),
            of_option(&self.profile.profile),
            of_option(&self.background),
        ];
        // A shell may pass them on in any order.
        let variables: std::collections::BTreeMap<_, _> =
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FANGORN_")).collect();
        let arguments: Vec<String> = std::env::args_os()
            .skip(1)
            .filter(|argument| argument != "--resume")
            .map(|argument| format!("{argument:?}"))
            .collect();
        format!(
            "fangorn {} {model} rows {length:?} {modified:?} files {files:?} {variables:?} {}",
            env!("CARGO_PKG_VERSION"),
            arguments.join(" ")
        )
    }
}

/// Runs the command.
///
/// # Errors
/// The options, the model or a file are wrong, or the output can't be written.
pub fn run(args: &Predict) -> Result<Outcome> {
    let asked = match &args.backend[..] {
        AUTO => Backend::Cpu,
        name => Backend::parse(name)?,
    };
    asked.require()?;
    asked.require_sum(args.sum.sum)?;
    if args.backend == AUTO && args.schedule != "default" {
        let what =
            "--schedule: with --backend auto the kept schedules run; name a backend, or leave --schedule out";
        return Err(Error::Request(what.into()));
    }
    if args.background.is_some() && !matches!(args.output, Output::Contributions | Output::Interactions) {
        let what = "--background is for --output contributions and interactions; leave it out";
        return Err(Error::Request(what.into()));
    }
    rows::check_standard_input(["--rows", "--background"], [Some(&args.rows), args.background.as_deref()])?;
    let sink = Sink::new(args.o.as_deref())?;
    let whole = args.reads_whole(&sink)?;
    let contents = match args.answer.rounds.load(&args.model, &args.limits, false) {
        Ok(contents) => contents,
        Err(error) => match predict_graph::load(&args.model, &args.limits) {
            Some(graph) => return run_graph(args, asked, graph?, &sink, whole),
            None => return Err(error),
        },
    };
    let forest = &contents.forest;
    // What is measured are margins.
    let measured = !matches!(args.output, Output::Contributions | Output::Interactions);
    let (backend, schedule) = match args.backend == AUTO && measured {
        true => auto_backend::fastest(forest, BATCH_ROWS, args.sum.sum)?,
        false => (asked, &args.schedule[..]),
    };
    let explainer = match args.output {
        Output::Contributions | Output::Interactions => Some(ExplainedBy::new(args, forest, backend, &sink)?),
        _ => None,
    };
    let explainer = explainer.as_ref();
    let choice = Choice::new(schedule, forest, backend, backend.device(), args.sum.sum)?
        .by(args.profile.read(&args.model, &contents)?);
    if args.output == Output::Class {
        classes(forest).map_err(|what| Error::file(&args.model, what))?;
    }
    sink.check(args.output == Output::Class && written_as_text(&forest.classes))?;
    let sums = matches!(args.output, Output::Margin | Output::Value | Output::Class);
    args.answer.check(forest, sums, args.sum.sum)?;
    let open = || CompiledForest::open(backend, forest, &choice, args.sum.sum);
    // If the producer compares in f64, rounding a value to f32 could change a comparison.
    let doubles = forest.compare == CompareType::F64 && backend.reads_doubles();
    if !whole
        && let Some(rows) =
            RowsInParts::open(&args.rows, forest, args.table, &args.kept_names(), args.on_error)?
    {
        let doubles = doubles && !rows.holds_singles(&args.rows);
        let compiled = open()?;
        let names = |columns| names(args.output, forest, columns);
        let work = Scoring {
            args,
            // The model, the instruction set, the threads, the contract of sums, and the backend that was chosen.
            run_line: args.run_line(&format!(
                "{:?} {}",
                ScheduleKey::here(forest, rayon::current_num_threads(), args.sum.sum),
                backend.name()
            )),
            names: &names,
            sink: &sink,
        };
        let done = match doubles {
            true => rows.score(&work, made_up_row(forest), &|batch: &mut RowBatch<f64>| {
                predict_part(args, forest, &compiled, explainer, &mut batch.rows)
            }),
            false => rows.score(&work, made_up_row(forest), &|batch: &mut RowBatch<f32>| {
                predict_part(args, forest, &compiled, explainer, &mut batch.rows)
            }),
        };
        done?;
        compiled.say_warnings();
        return Ok(Outcome::Done);
    }
    let table = match doubles && !rows::holds_singles(&args.rows) {
        true => read_and_predict::<f64>(args, forest, open, explainer)?,
        false => read_and_predict::<f32>(args, forest, open, explainer)?,
    };
    let names = names(args.output, forest, table.columns);
    finish(args, table, names, &sink)
}

/// Returns the names of the columns of an output of several columns. An interaction of two features has the names of
/// both. The interaction of a feature with itself has only the feature's name.
fn names(output: Output, forest: &Forest, columns: usize) -> ColumnNames {
    if !matches!(output, Output::Contributions | Output::Interactions)
        || output == Output::Interactions && columns > MOST_NAMED_COLUMNS
    {
        return ColumnNames::Numbered(output.name(), columns);
    }
    let mut singles: Vec<String> = (0..forest.features.len()).map(|f| feature_name(forest, f)).collect();
    let mut bias = "bias".to_owned();
    while singles.contains(&bias) {
        bias.push('_');
    }
    singles.push(bias);
    let name = |a: usize, b: usize| match a == b {
        true => singles[a].clone(),
        false => format!("{} × {}", singles[a], singles[b]),
    };
    let count = singles.len();
    let of_output: Vec<String> = match output {
        Output::Interactions => (0..count * count).map(|at| name(at / count, at % count)).collect(),
        _ => singles.clone(),
    };
    let several = forest.outputs > 1;
    let mut names = Vec::with_capacity(columns);
    for output in 0..forest.outputs {
        let all = of_output.iter();
        names.extend(all.map(|name| if several { format!("{name}_{output}") } else { name.clone() }));
    }
    ColumnNames::Named(names)
}

/// Writes a prediction, or compares it with what is expected.
fn finish(args: &Predict, table: Table, names: ColumnNames, sink: &Sink) -> Result<Outcome> {
    let Some(expected) = &args.expect else {
        score::write_whole(table, sink, names)?;
        return Ok(Outcome::Done);
    };
    let write = |table: &Table| match sink {
        Sink::Stdout => Ok(()),
        _ => score::write_whole(table.clone(), sink, names),
    };
    if let Values::Words(labels) = &table.values {
        let expected = rows::read_labels(expected, labels, table.columns)?;
        write(&table)?;
        return compare::report_labels(&table, labels, &expected);
    }
    let expected = rows::read_expected(expected, table.rows, table.columns)?;
    write(&table)?;
    compare::report(&table, &expected)
}

/// Returns a row of zeros.
fn made_up_row<T: Element>(forest: &Forest) -> RowBatch<T> {
    let columns = forest.features.len();
    RowBatch::of_numbers(Matrix::of_rows(1, columns, vec![T::cast(0.0); columns]))
}

/// Predicts the rows of a part.
fn predict_part<T: Element>(
    args: &Predict,
    forest: &Forest,
    compiled: &CompiledForest<'_>,
    explainer: Option<&ExplainedBy>,
    matrix: &mut Matrix<T>,
) -> Result<Table> {
    args.answer.missing.to_nan(forest, matrix);
    match explainer {
        Some(ExplainedBy::Cpu(explainer)) => row_explainer::table(explainer, matrix, args.output),
        Some(ExplainedBy::Backend(explanation)) => explain(forest, compiled, matrix, explanation),
        None => predict(forest, compiled, matrix, None, args.output),
    }
}

/// Predicts rows part by part.
struct Scoring<'a> {
    args: &'a Predict,
    /// The line that names what the predictions depend on.
    run_line: String,
    /// Returns the names of the columns of predictions, given their number.
    names: &'a dyn Fn(usize) -> ColumnNames,
    sink: &'a Sink,
}

impl Scoring<'_> {
    /// Predicts the parts of `rows` with `one`, and writes the results. One row is predicted first, because its prediction
    /// gives the type of all. A table with texts gives its own first row, because an encoder may refuse an empty text.
    fn run<T: Element, R: PartedRows>(
        &self,
        rows: &R,
        mut made_up_row: RowBatch<T>,
        one: score::Predict<'_, T>,
    ) -> Result<()> {
        let Self { args, sink, .. } = self;
        let first = match rows.first_rows::<T>() {
            // What can't be read is left out later.
            Err(Error::File { .. }) if args.on_error == OnError::Skip => None,
            first => first?.filter(|first| first.rows.rows > 0),
        };
        let example = match first {
            Some(first) => one(&mut first.slice(0, 1))?,
            // Nothing is refused in no rows.
            None if rows.rows() == Some(0) => {
                one(&mut made_up_row).or_else(|_| one(&mut made_up_row.slice(0, 0)))?
            }
            None => one(&mut made_up_row)?,
        };
        if matches!(sink, Sink::Stdout | Sink::Csv(_)) {
            let texts = rows.kept_fields().iter().try_for_each(KeptField::check_text);
            texts.map_err(|what| Error::file(rows.path(), what))?;
        }
        let schema = ScoredSchema::new(rows.kept_fields(), (self.names)(example.columns), &example)
            .map_err(Error::Request)?;
        let count = rows.rows().and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0);
        let destination = match sink {
            Sink::Stdout => None,
            Sink::Csv(path) | Sink::Npy(path) => Some(path),
            #[cfg(feature = "tables")]
            Sink::Table(path, _) => Some(path),
        };
        let (mut journal, earlier) = match destination.filter(|_| !is_standard_input(&args.rows)) {
            Some(destination) => {
                let (journal, earlier) = Journal::open(destination, self.run_line.clone(), args.resume)?;
                (Some(journal), earlier)
            }
            None => (None, None),
        };
        let mut failed_to_write = true;
        let written = score::write_to(sink, schema.clone(), count, |write| {
            let resumed = earlier.is_some();
            if let (Some(earlier), Some(destination)) = (earlier, destination) {
                for _ in 0..earlier.len() {
                    rows.next_part().transpose()?;
                }
                earlier.replay(destination, &schema, &mut *write)?;
            }
            let mut taker = Taker { write, journal: journal.as_mut(), resumed, failed: false };
            let written = score::score(rows, example.columns, args.on_error, one, &mut taker);
            failed_to_write = taker.failed || written.is_ok();
            let written = written?;
            match rows.left_out() {
                Some((_, what)) if written == 0 && !resumed => {
                    failed_to_write = false;
                    Err(Error::file(rows.path(), format!("none of its rows can be read: {what}")))
                }
                _ => Ok(()),
            }
        });
        if let Some(journal) = journal {
            // A run that a full disk ended can go on from the journal. An error of the rows would come again, so the
            // journal goes.
            journal.close(written.is_ok() || !failed_to_write);
        }
        written
    }
}

impl RowsInParts<'_> {
    /// Predicts the rows with `one`, and writes the results.
    fn score<T: Element>(
        &self,
        work: &Scoring<'_>,
        made_up_row: RowBatch<T>,
        one: score::Predict<'_, T>,
    ) -> Result<()> {
        match self {
            #[cfg(feature = "tables")]
            Self::Table(rows) => work.run(rows, made_up_row, one),
            Self::Csv(rows) => work.run(rows, made_up_row, one),
            Self::Npy(rows) => work.run(rows, made_up_row, one),
            Self::Libsvm(rows) => work.run(rows, made_up_row, one),
        }
    }
}

/// Writes results, and adds them to a journal.
struct Taker<'w> {
    write: &'w mut dyn FnMut(ScoredBatch) -> Result<()>,
    journal: Option<&'w mut Journal>,
    /// Whether an earlier run has predicted the first rows.
    resumed: bool,
    /// Whether a result could not be written.
    failed: bool,
}

impl TakesParts for Taker<'_> {
    fn take(&mut self, scored: ScoredBatch) -> Result<()> {
        if let Some(journal) = &mut self.journal {
            journal.add(&scored);
        }
        let written = (self.write)(scored);
        self.failed |= written.is_err();
        written
    }

    fn end_part(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.end_part();
        }
    }

    fn goes_on(&self) -> bool {
        self.resumed
    }
}

/// Predicts with a graph that is more than a forest. Options that apply only to a forest are refused.
fn run_graph(args: &Predict, backend: Backend, graph: Graph, sink: &Sink, whole: bool) -> Result<Outcome> {
    let of_forest = [
        (backend != Backend::Cpu, "--backend: the file is a graph, which runs on the CPU; leave it out"),
        (
            args.schedule != "default",
            "--schedule: the file is a graph, and schedules are for forests; leave the option out",
        ),
        (
            args.answer.is_given(),
            "the file is a graph, which takes no --iterations, --missing or --base-margin; leave them out",
        ),
        (
            args.sum.sum != Contract::Any,
            "--sum: the file is a graph, whose sums keep no contract; leave the option out",
        ),
    ];
    if let Some((_, what)) = of_forest.iter().find(|(given, _)| *given) {
        return Err(Error::file(&args.model, *what));
    }
    // Texts that operators only look up become numbers when the table is read.
    let graph = graph.with_coded_texts().unwrap_or(graph);
    let graph = predict_graph::with_one_output(&args.model, &graph, args.output)?;
    sink.check(false)?;
    let inputs = GraphInputs::new(&args.model, &graph)?;
    let scorer = GraphScorer::new(&args.model, &graph)?;
    let names = |columns| ColumnNames::Numbered(args.output.name(), columns);
    let why_whole = match scorer.goes_by_rows() {
        true => None,
        false => Some("the file is a graph in which rows depend on each other, so all are read at once"),
    };
    let numbers = inputs.numbers()?;
    let keep = args.kept_names();
    if !whole
        && why_whole.is_none()
        && let Some(rows) = inputs.open(&args.rows, &numbers, args.table, &keep, args.on_error)?
    {
        // The key contains the instruction set, because products of floats depend on it.
        let key = ScheduleKey::here(&inputs.columns()?, rayon::current_num_threads(), args.sum.sum);
        let run_line = args.run_line(&format!("graph {:016x} {key:?}", hash_of(&args.model)));
        let made_up_row = inputs.made_up_row(&numbers);
        let work = Scoring { args, run_line, names: &names, sink };
        let predict = |batch: &mut RowBatch<f64>| scorer.predict(&inputs.of_batch(batch, &args.rows)?);
        rows.score(&work, made_up_row, &predict)?;
        return Ok(Outcome::Done);
    }
    if !args.keep.is_empty() || args.on_error == OnError::Skip || args.resume {
        let why = why_whole.unwrap_or("all rows of this file are read at once");
        let what = format!("--keep, --on-error and --resume: {why}; leave them out");
        return Err(Error::file(&args.model, what));
    }
    let table = scorer.predict(&inputs.read(&args.rows, args.table)?)?;
    let names = names(table.columns);
    finish(args, table, names, sink)
}

/// Returns a hash of a file's bytes, or 0 if it can't be read.
fn hash_of(path: &Path) -> u64 {
    std::fs::read(path).map(|bytes| xxhash_rust::xxh3::xxh3_64(&bytes)).unwrap_or(0)
}

/// Reads the rows as `T` and predicts them.
fn read_and_predict<'f, T: Element>(
    args: &Predict,
    forest: &Forest,
    open: impl FnOnce() -> Result<CompiledForest<'f>>,
    explainer: Option<&ExplainedBy>,
) -> Result<Table> {
    let mut rows = rows::read_rows::<T>(&args.rows, forest, args.table)?;
    args.answer.missing.to_nan(forest, &mut rows);
    if let Some(ExplainedBy::Cpu(explainer)) = explainer {
        return row_explainer::table(explainer, &rows, args.output);
    }
    let starts = args.answer.starts(rows.rows, forest.outputs as usize)?;
    let compiled = open()?;
    let table = match (explainer, &starts) {
        (Some(ExplainedBy::Backend(explanation)), _) => explain(forest, &compiled, &rows, explanation),
        (_, Some(starts)) if args.output != Output::Class => {
            predict_from_margins(forest, &compiled, &rows, starts, args.output)
        }
        _ => predict(forest, &compiled, &rows, starts.as_ref(), args.output),
    };
    compiled.say_warnings();
    table
}

fn classes(forest: &Forest) -> Result<(), String> {
    match forest.classes.rule {
        ClassRule::None => Err(format!(
            "the model is no classifier: its objective {} has no classes; use --output value",
            forest.producer.objective
        )),
        _ => Ok(()),
    }
}

/// The maximum number of leaf slots in memory at a time.
const SLOTS_AT_A_TIME: usize = 1 << 24;

/// Returns the classes' numbers, `rows x outputs` or `rows x 1`. The leaf values are added up as the producer does, so
/// that no schedule and no device decides between two classes that are nearly equal.
fn class_numbers<T: Element>(
    forest: &Forest,
    compiled: &CompiledForest<'_>,
    rows: &Matrix<T>,
    starts: Option<&Matrix<f32>>,
) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    each_margins(forest, compiled, rows, starts, |margins| {
        numbers.extend(reference::classes_of_sums(forest, margins));
    })?;
    Ok(numbers)
}

/// Returns margins or values. Sums start at each row's own margins, and add up as the producer's do.
fn predict_from_margins<T: Element>(
    forest: &Forest,
    compiled: &CompiledForest<'_>,
    rows: &Matrix<T>,
    starts: &Matrix<f32>,
    output: Output,
) -> Result<Table> {
    let mut found = Vec::new();
    each_margins(forest, compiled, rows, Some(starts), |margins| match output {
        Output::Margin => found.extend(margins.iter().map(|m| *m as f32)),
        _ => found.extend(reference::values_of_sums(forest, margins).into_iter().map(|v| v as f32)),
    })?;
    let outputs = forest.outputs as usize;
    let columns = if output == Output::Margin { outputs } else { forest.transform.width(outputs) };
    Ok(Table { rows: rows.rows, columns, values: Values::Floats(found) })
}

/// Calls `take` with each row's margins, added up as the producer does.
fn each_margins<T: Element>(
    forest: &Forest,
    compiled: &CompiledForest<'_>,
    rows: &Matrix<T>,
    starts: Option<&Matrix<f32>>,
    mut take: impl FnMut(&[f64]),
) -> Result<()> {
    let trees = forest.trees.len();
    let piece = (SLOTS_AT_A_TIME / trees.max(1)).max(1);
    for first in (0..rows.rows).step_by(piece) {
        let count = piece.min(rows.rows - first);
        let slots = compiled.slots(&rows.slice(first, count))?;
        for r in 0..count {
            let start = starts.map(|starts| starts.row(first + r));
            take(&reference::producer_margins(forest, &slots[r * trees..][..trees], start));
        }
    }
    Ok(())
}

/// Tells whether classes are written as text: their labels are not integers, or one does not fit a column of i32.
fn written_as_text(classes: &Classes) -> bool {
    let large = |labels: Vec<i64>| labels.into_iter().any(|label| i32::try_from(label).is_err());
    !classes.labels.is_empty() && classes.integers().is_none_or(large)
}

/// Returns the producer's labels for class numbers: as integers if all labels are integers that fit i32, and otherwise
/// as texts.
fn labelled(classes: &Classes, numbers: Vec<u32>) -> Values {
    let label = |n: u32| classes.labels.get(n as usize).cloned().unwrap_or_else(|| n.to_string());
    let small =
        |labels: Vec<i64>| labels.into_iter().map(|l| i32::try_from(l).ok()).collect::<Option<Vec<i32>>>();
    match classes.integers().and_then(small) {
        Some(labels) => {
            let label = |n: u32| labels.get(n as usize).copied().unwrap_or(n as i32);
            Values::Ints(numbers.into_iter().map(label).collect())
        }
        None => Values::Words(numbers.into_iter().map(label).collect()),
    }
}

/// Returns contributions or interactions that the backend computes.
fn explain<T: Element>(
    forest: &Forest,
    compiled: &CompiledForest<'_>,
    rows: &Matrix<T>,
    explanation: &Explanation,
) -> Result<Table> {
    let values = Values::Floats(compiled.explain(rows, explanation)?);
    Ok(Table { rows: rows.rows, columns: explanation.width(forest), values })
}

fn predict<T: Element>(
    forest: &Forest,
    compiled: &CompiledForest<'_>,
    rows: &Matrix<T>,
    starts: Option<&Matrix<f32>>,
    output: Output,
) -> Result<Table> {
    let outputs = forest.outputs as usize;
    let trees = forest.trees.len();
    let width = forest.leaf_width();
    let (columns, values) = match output {
        Output::Margin => (outputs, Values::Floats(compiled.margins(rows)?)),
        Output::Value => (forest.transform.width(outputs), Values::Floats(compiled.values(rows)?)),
        Output::Class => {
            classes(forest).map_err(Error::Request)?;
            let numbers = class_numbers(forest, compiled, rows, starts)?;
            let columns = numbers.len().checked_div(rows.rows).unwrap_or(1).max(1);
            (columns, labelled(&forest.classes, numbers))
        }
        Output::Leaf => {
            let ids = forest.leaf_ids();
            let id = |slot: u32| ids[slot as usize] as i32;
            (trees, Values::Ints(compiled.slots(rows)?.into_iter().map(id).collect()))
        }
        Output::Tree => {
            let leaf = |slot: u32| forest.leaf(slot).iter().map(|v| v.0 as f32);
            (trees * width, Values::Floats(compiled.slots(rows)?.into_iter().flat_map(leaf).collect()))
        }
        Output::Contributions | Output::Interactions => {
            return Err(Error::Defect("contributions are asked for without an explainer".into()));
        }
    };
    Ok(Table { rows: rows.rows, columns, values })
}
