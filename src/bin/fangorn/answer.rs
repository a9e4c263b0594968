//! How a producer's users ask for its answer: which rounds of boosting predict, what is a missing value, and where sums start.

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
    rows::{self, Cell, Matrix},
};

/// What the producer's own predict takes beside the rows.
#[derive(Clone, Debug, Args)]
pub struct PredictionArgs {
    /// The rounds of boosting that predict. best: up to the best one of an early-stopped XGBoost model, as XGBoost's
    /// scikit-learn wrapper does. all: every one, as its Booster does, and as is done without this option. A..B: from
    /// round A, counted from 0, to the one before B; a B of 0 is the last round's end
    #[arg(long, value_name = "best|all|A..B", value_parser = iterations)]
    iterations: Option<Iterations>,
    /// A value that stands for a missing one, -999 say: cells that are the same f32 are missing, and NaN is besides
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    missing: Option<f64>,
    /// A margin for each row, or one for each of its outputs, .npy or .csv: XGBoost's base_margin, which takes the base
    /// score's place, or CatBoost's baseline, which is added. Sums are then the producer's, as with --sum tree
    #[arg(long, value_name = "FILE")]
    base_margin: Option<PathBuf>,
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
                "best, all, or two numbers with .. between them are expected, 0..100 say".into()
            })
        }
    }
}

/// Whether a file is a `.fangorn`, which knows no rounds.
fn is_own(model: &Path) -> bool {
    let mut begin = [0; file::MAGIC.len()];
    // A pipe has been read to its end.
    if !model.is_file() {
        return false;
    }
    let read = std::fs::File::open(model).and_then(|mut file| file.read_exact(&mut begin));
    read.is_ok() && matches!(Format::of(&begin), Ok(Format::Fangorn))
}

impl PredictionArgs {
    /// Loads the model with the rounds that are asked for. Where none are, and the file names a best round before the
    /// last, a line on standard error says so when the work is done.
    ///
    /// # Errors
    /// What the importer refuses, or `--iterations best` of a file that names no best round.
    pub fn load(&self, model: &Path, limits: &LimitsChoice) -> Result<Contents> {
        let load = |iteration_range| {
            let options = LoadOptions { iteration_range, limits: limits.limits(), raw_categories: true };
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
                 give the rounds, --iterations 0..100 say",
            )),
            (Some(Iterations::Best), Some(EarlyStop { best, rounds })) if best + 1 < rounds => {
                load(Some(0..best + 1))
            }
            (None, Some(EarlyStop { best, rounds })) if best + 1 < rounds => {
                let first = best + 1;
                let remedy = match is_own(model) {
                    true => format!(
                        "fangorn convert --iteration-range 0..{first} of XGBoost's file keeps the first"
                    ),
                    false => "--iterations best takes the first".into(),
                };
                note(format!(
                    "the best iteration is {best} (of {rounds}), and all {rounds} predict, as with Booster.predict; \
                     {remedy} {first}, as scikit-learn's wrapper does, --iterations all leaves this line out",
                ));
                Ok(contents)
            }
            _ => Ok(contents),
        }
    }

    /// Refuses a margin a row where the producer takes none, where nothing is made of `sums`, or where another contract than
    /// the producer's order is asked for.
    ///
    /// # Errors
    /// What `--base-margin` does not go with.
    pub fn check(&self, forest: &Forest, sums: bool, contract: Contract) -> Result<()> {
        let refused = |what: String| Err(Error::Request(format!("--base-margin {what}")));
        let library = &*forest.producer.library;
        if self.base_margin.is_none() {
            Ok(())
        } else if !matches!(library, "xgboost" | "catboost") {
            refused(format!(
                "is for models of XGBoost and CatBoost, and this one is of {library}, which takes no margins when it \
                 predicts; add them to --output margin"
            ))
        } else if !sums {
            let what = "changes neither leaves nor what trees add; use --output margin, value or class, or leave it out";
            refused(what.into())
        } else if contract == Contract::Exact {
            refused(
                "adds up in the producer's own order and type, and not exactly; leave out --sum exact".into(),
            )
        } else {
            Ok(())
        }
    }

    /// The margins that the rows' sums start at, where any are given.
    ///
    /// # Errors
    /// A file that can't be read, or is of another shape than `rows x outputs`.
    pub fn starts(&self, rows: usize, outputs: usize) -> Result<Option<Matrix<f32>>> {
        let Some(path) = &self.base_margin else { return Ok(None) };
        let Matrix { rows, columns, values } = rows::read_margins(path, rows, outputs)?;
        Ok(Some(Matrix { rows, columns, values: values.into_iter().map(|v| v as f32).collect() }))
    }

    /// Makes cells that are the value for missing ones NaN. Both are compared as f32, as XGBoost does. A column whose
    /// categories have become codes has no such value.
    pub fn mark_missing<T: Cell>(&self, forest: &Forest, rows: &mut Matrix<T>) {
        let Some(missing) = self.missing else { return };
        let coded: Vec<bool> = forest.features.iter().map(|feature| feature.codes().is_some()).collect();
        for row in rows.values.chunks_exact_mut(rows.columns.max(1)) {
            for (cell, _) in row.iter_mut().zip(&coded).filter(|(_, coded)| !**coded) {
                let value: f64 = (*cell).into();
                if value as f32 == missing as f32 {
                    *cell = T::cast(f64::NAN);
                }
            }
        }
    }
}
