//! `fangorn profile`, which counts how many rows reach each leaf, and the option `--profile`, which reads the
//! counts.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::{
    Forest,
    file::Contents,
    forest::{CompareType, Profile, tiling::is_leaf_biased},
    schedule::Preset,
    sum::Contract,
};
use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;

use crate::{
    Outcome,
    atomic_file::AtomicFile,
    backend::{Backend, CompiledForest},
    error::{Error, Result, one_line},
    limits::LimitsChoice,
    load_model, output,
    rows::{self, Element, Matrix, TableChoice},
    schedule::Choice,
    standard_input::rows_path,
};

/// Count how many rows reach each leaf, for schedules that use the counts
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  fangorn profile model.ubj --rows train.npy -o model.profile.json
  fangorn bench model.ubj --rows rows.npy --schedule tiles.txt --profile model.profile.json")]
pub struct Count {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// Rows like those that will be predicted: a .npy, .csv, .parquet, .arrow or .libsvm file, or - for CSV from standard
    /// input
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: PathBuf,
    /// The file to write the profile to, as JSON
    #[arg(short, value_name = "FILE")]
    o: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Leaf probabilities for schedules that use them.
#[derive(Debug, Args)]
pub struct ProfileChoice {
    /// How many rows reach each leaf, for schedules that use the counts: a file that `fangorn profile` wrote. Without it,
    /// the profile in the .fangorn model, if it has one
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
}

impl ProfileChoice {
    /// Returns the profile that the option names, checked against the forest, or else the model file's own.
    ///
    /// # Errors
    /// The file can't be read, is no profile, or belongs to another forest.
    pub fn read(&self, model: &Path, contents: &Contents) -> Result<Option<Profile>> {
        match (&self.profile, &contents.profile) {
            (Some(path), _) => read(path, &contents.forest).map(Some),
            (None, Some(visits)) => Profile::of_visits(&contents.forest, visits.clone())
                .map(Some)
                .map_err(|e| Error::file(model, e.to_string())),
            (None, None) => Ok(None),
        }
    }
}

/// A summary of the counts, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Report {
    profile: String,
    /// The forest's fingerprint.
    forest: String,
    rows: u64,
    trees: usize,
    leaves: usize,
    /// Number of leaves that no row has reached.
    unvisited: usize,
    /// Number of trees in which at most 5% of the leaves hold at least 90% of the rows.
    leaf_biased: usize,
}

/// Runs the command.
///
/// # Errors
/// The model or the rows are wrong, or the profile can't be written.
pub fn run(args: &Count) -> Result<Outcome> {
    AtomicFile::check(&args.o)?;
    let forest = load_model(&args.model, &args.limits)?;
    if forest.trees.is_empty() {
        let what = "the model has no tree, so there is no leaf to count; give a model with trees";
        return Err(Error::file(&args.model, what));
    }
    let profile = match forest.compare == CompareType::F64 && !rows::holds_singles(&args.rows) {
        true => count(&forest, &rows::read_rows::<f64>(&args.rows, &forest, args.table)?)?,
        false => count(&forest, &rows::read_rows::<f32>(&args.rows, &forest, args.table)?)?,
    };
    if profile.rows() == 0 {
        return Err(Error::file(&args.rows, "there is no row in it to count; give at least one"));
    }
    let text = serde_json::to_string(&profile).map_err(|e| Error::Defect(e.to_string()))? + "\n";
    AtomicFile::write(&args.o, |out| out.write_all(text.as_bytes()))?;
    let visits = profile.visits();
    let report = Report {
        profile: args.o.display().to_string(),
        forest: forest.fingerprint(),
        rows: profile.rows(),
        trees: forest.trees.len(),
        leaves: visits.len(),
        unvisited: visits.iter().filter(|n| **n == 0).count(),
        leaf_biased: leaf_bias(&forest, &profile),
    };
    let text = match args.json {
        true => serde_json::to_string(&report).map_err(|e| Error::Defect(e.to_string()))?,
        false => format!(
            "{}: {} rows, {} of {} leaves visited, {} of {} trees leaf-biased",
            one_line(&report.profile),
            report.rows,
            report.leaves - report.unvisited,
            report.leaves,
            report.leaf_biased,
            report.trees
        ),
    };
    output::print(&(text + "\n"))?;
    Ok(Outcome::Done)
}

/// Returns the number of trees in which a few leaves hold nearly all rows.
pub fn leaf_bias(forest: &Forest, profile: &Profile) -> usize {
    forest.trees.iter().filter(|tree| is_leaf_biased(tree, profile.visits())).count()
}

/// The maximum number of leaf slots in memory at a time.
const SLOTS_AT_A_TIME: usize = 1 << 22;

fn count<T: Element>(forest: &Forest, rows: &Matrix<T>) -> Result<Profile> {
    let compiled = CompiledForest::open(
        Backend::Cpu,
        forest,
        &Choice::of(Preset::Default.schedule(forest, false)),
        Contract::Any,
    )?;
    let mut profile = Profile::new(forest);
    let bar = match std::io::stderr().is_terminal() {
        true => ProgressBar::with_draw_target(Some(rows.rows as u64), ProgressDrawTarget::stderr()),
        false => ProgressBar::hidden(),
    };
    let piece = (SLOTS_AT_A_TIME / forest.trees.len().max(1)).max(1);
    for first in (0..rows.rows).step_by(piece) {
        let count = piece.min(rows.rows - first);
        let slots = compiled.slots(&rows.slice(first, count))?;
        profile.count(forest, &slots).map_err(fangorn::Error::from)?;
        bar.inc(count as u64);
    }
    bar.finish_and_clear();
    Ok(profile)
}

/// Reads a profile and checks it against the forest.
///
/// # Errors
/// The file can't be read, is no profile, or belongs to another forest.
pub fn read(path: &Path, forest: &Forest) -> Result<Profile> {
    let remedy = "give a file that `fangorn profile` wrote";
    let text = std::fs::read(path).map_err(|e| Error::file(path, format!("{e}; {remedy}")))?;
    let profile: Profile =
        serde_json::from_slice(&text).map_err(|e| Error::file(path, format!("no profile: {e}; {remedy}")))?;
    profile.checked(forest).map_err(|e| Error::file(path, e.to_string()))
}
