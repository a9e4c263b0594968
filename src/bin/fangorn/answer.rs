//! Options that the producer's own predict function takes: which boosting rounds predict, which value counts
//! as missing, and the margins at which sums start.

use std::{
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::{
    Forest,
    file::{self, Contents},
    forest::EarlyStop,
    import::{Format, LoadOptions},
    sum::Contract,
};

use crate::{
    error::{Error, Result, note},
    library_error,
    limits::LimitsChoice,
    rows::{self, Element, Matrix},
};

/// Options of the producer's own predict function, besides the rows.
#[derive(Clone, Debug, Args)]
pub struct PredictionArgs {
    #[command(flatten)]
    pub rounds: RoundsChoice,
    #[command(flatten)]
    pub missing: MissingChoice,
    /// A file (.npy, .csv, .parquet or .arrow) with the margin at which each row's sum starts, or one for each output of
    /// the row. In XGBoost it is base_margin, which replaces the base score; in CatBoost it is baseline, which is added
    /// to the base score. Sums are then computed in the producer's order and type, as with --sum tree
    #[arg(long, value_name = "FILE")]
    base_margin: Option<PathBuf>,
}

/// The boosting rounds of a model that count.
#[derive(Clone, Debug, Args)]
pub struct RoundsChoice {
    /// The boosting rounds that predict. all, the default: every round, as in XGBoost's Booster. best: the rounds up to
    /// the best one of an early-stopped XGBoost model, as in XGBoost's scikit-learn wrapper. A..B: the rounds from A to
    /// B - 1, counted from 0; B = 0 stands for the end of the last round
    #[arg(long, value_name = "best|all|A..B", value_parser = iterations)]
    iterations: Option<Iterations>,
}

/// The value of rows that counts as missing, beside NaN.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct MissingChoice {
    /// A number that stands for a missing value, for example -999. Values that equal it as f32 count as missing, and so
    /// does NaN
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    missing: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Iterations {
    All,
    Best,
    Range(Range<u32>),
}

fn iterations(text: &str) -> Result<Iterations, String> {
    let range = |(first, end): (&str, &str)| Some(first.trim().parse().ok()?..end.trim().parse().ok()?);
    match text {
        "all" => Ok(Iterations::All),
        "best" => Ok(Iterations::Best),
        _ => {
            text.split_once("..").and_then(range).map(Iterations::Range).ok_or_else(|| {
                "give best, all, or two numbers with .. between them, for example 0..100".into()
            })
        }
    }
}

/// Returns whether a file is a `.fangorn` file, which keeps no boosting rounds to choose from.
fn is_fangorn_file(model: &Path) -> bool {
    let mut begin = [0; file::MAGIC.len()];
    // A pipe can be read only once, and loading the model has read it to its end.
    if !model.is_file() {
        return false;
    }
    let read = std::fs::File::open(model).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && matches!(Format::of(&begin), Ok(Format::Fangorn))
}

impl RoundsChoice {
    /// Loads the model with the requested boosting rounds, and with the gains of its splits if `gains` is true. If the
    /// user requests no rounds and the file names a best round before the last, a note on standard error says so once
    /// the command has succeeded.
    ///
    /// # Errors
    /// The importer refuses the file, or `--iterations best` is given and the file names no best round.
    pub fn load(&self, model: &Path, limits: &LimitsChoice, gains: bool) -> Result<Contents> {
        let load = |iteration_range| {
            let options =
                LoadOptions { iteration_range, limits: limits.limits(), raw_categories: true, gains };
            Contents::load(model, &options).map_err(library_error)
        };
        if let Some(Iterations::Range(range)) = &self.iterations {
            return load(Some(range.clone()));
        }
        let contents = load(None)?;
        match (&self.iterations, contents.forest.producer.early_stop) {
            (Some(Iterations::Best), None) => Err(Error::file(
                model,
                "--iterations best: the file names no best iteration; train with early_stopping_rounds of XGBoost, or \
                 give the rounds, for example --iterations 0..100",
            )),
            (Some(Iterations::Best), Some(EarlyStop { best, rounds })) if best + 1 < rounds => {
                load(Some(0..best + 1))
            }
            (None, Some(EarlyStop { best, rounds })) if best + 1 < rounds => {
                let first = best + 1;
                let remedy = match is_fangorn_file(model) {
                    true => format!(
                        "fangorn convert --iteration-range 0..{first} of XGBoost's file keeps the first"
                    ),
                    false => "--iterations best takes the first".into(),
                };
                note(format!(
                    "the best iteration is {best} (of {rounds}), and all {rounds} predict, as with Booster.predict; \
                     {remedy} {first}, as scikit-learn's wrapper does; --iterations all hides this note",
                ));
                Ok(contents)
            }
            _ => Ok(contents),
        }
    }
}

impl PredictionArgs {
    /// Tells whether an option is given.
    pub fn is_given(&self) -> bool {
        self.rounds.iterations.is_some() || self.missing.missing.is_some() || self.base_margin.is_some()
    }

    /// Tells whether sums start at margins of their own.
    pub fn has_margins(&self) -> bool {
        self.base_margin.is_some()
    }

    /// Checks that `--base-margin` fits the model and the other options. Refuses it for a producer that takes
    /// no margins, for an output that is not computed from sums (`sums` is false), and with the contract
    /// [`Contract::Exact`].
    ///
    /// # Errors
    /// `--base-margin` is given and does not fit.
    pub fn check(&self, forest: &Forest, sums: bool, contract: Contract) -> Result<()> {
        let refused = |what: String| Err(Error::Request(format!("--base-margin {what}")));
        let library = &*forest.producer.library;
        if self.base_margin.is_none() {
            Ok(())
        } else if !matches!(library, "xgboost" | "catboost") {
            refused(format!(
                "is for models of XGBoost and CatBoost, and this one is of {library}, which takes no margins when it \
                 predicts; add them to the result of --output margin"
            ))
        } else if !sums {
            let what = "changes only margins, values and classes; use one of these outputs, or leave it out";
            refused(what.into())
        } else if contract == Contract::Exact {
            refused("adds up in the producer's own order and type, not exactly; leave --sum exact out".into())
        } else {
            Ok(())
        }
    }

    /// Returns the margins at which the rows' sums start, `rows x outputs`, or `None` without
    /// `--base-margin`.
    ///
    /// # Errors
    /// The file can't be read, or its shape is not `rows x outputs`.
    pub fn starts(&self, rows: usize, outputs: usize) -> Result<Option<Matrix<f32>>> {
        let Some(path) = &self.base_margin else { return Ok(None) };
        let Matrix { rows, columns, values, .. } = rows::read_margins(path, rows, outputs)?;
        Ok(Some(Matrix::of_rows(rows, columns, values.into_iter().map(|v| v as f32).collect())))
    }
}

impl MissingChoice {
    /// Replaces every element that equals the value of `--missing` by NaN. Compares as f32, as XGBoost does.
    /// Skips columns whose categories have become codes, since the user's value is not a code.
    pub fn to_nan<T: Element>(self, forest: &Forest, rows: &mut Matrix<T>) {
        let Some(missing) = self.missing else { return };
        let [of_row, of_column] = rows.strides();
        for (column, _) in forest.features.iter().enumerate().filter(|(_, feature)| feature.codes().is_none())
        {
            let elements = rows.values.iter_mut().skip(column * of_column).step_by(of_row.max(1));
            for element in elements.take(rows.rows) {
                let value: f64 = (*element).into();
                if value as f32 == missing as f32 {
                    *element = T::cast(f64::NAN);
                }
            }
        }
    }
}
