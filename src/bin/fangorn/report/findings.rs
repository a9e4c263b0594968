//! What the page shows. All numbers are the library's.

use std::io::IsTerminal as _;

use fangorn::{
    Forest, Predictor,
    contributions::{Explainer, Interventional, RowExplainer},
    cpu::Rows,
    forest::ForestStats,
    insight::{
        Dependence, Grid, Histogram, MeanContributions, PermutationImportances, PermutationOptions,
        SplitImportances, dependence, permutation, thresholds,
    },
};
use indicatif::{ProgressBar, ProgressDrawTarget};

use super::Report;
use crate::{
    error::{Result, one_line},
    library_error,
    row_explainer::background_of,
    row_source::{RowSource, view},
    rows::{Element, Matrix},
    schedule::compiled,
};

/// The maximum number of features that have a dependence plot.
const DEPENDENCES: usize = 6;
/// The maximum number of features that have a histogram of thresholds.
const THRESHOLDS: usize = 4;
/// The maximum number of values of a feature in a dependence plot.
const POINTS: usize = 30;
/// The maximum number of rows that a dependence is the mean of.
const DEPENDENCE_ROWS: usize = 500;
/// The maximum number of rows of a background, if the file says nothing about the training data.
const BACKGROUND_ROWS: usize = 100;
/// Bins of histograms.
const BINS: usize = 24;

/// Everything that the page shows.
pub struct Findings {
    /// Number of rows that were drawn.
    pub rows: usize,
    /// Number of rows in the file.
    pub seen: u64,
    /// The values of the rows that were drawn, column after column.
    pub columns: Vec<Vec<f64>>,
    /// The values of the row that is explained.
    pub row: Vec<f64>,
    /// The predicted values of that row.
    pub row_values: Vec<f32>,
    pub splits: SplitImportances,
    /// Contributions, or why there are none.
    pub explained: Result<RowContributions, String>,
    /// The permutation importances with their options, or `None` without labels.
    pub permuted: Option<(PermutationOptions, PermutationImportances)>,
    /// The columns that some split reads, the most important one first.
    pub order: Vec<usize>,
    pub dependences: Vec<Dependence>,
    pub stats: ForestStats,
    pub leaf_values: Histogram,
    /// Histograms of thresholds, with their features.
    pub thresholds: Vec<(usize, Histogram)>,
}

/// Contributions of the rows that were drawn.
pub struct RowContributions {
    /// The end of a sentence of the page: the source of the expectation for a feature that is not known.
    pub expected: String,
    pub means: MeanContributions,
    /// The contributions to one output, `rows x (features + 1)`.
    pub of_rows: Vec<f32>,
    /// The contributions of the row that is explained to one output, the bias last.
    pub of_row: Vec<f32>,
}

impl Findings {
    /// Reads the rows, and computes what the page shows.
    pub fn of<T: Element>(args: &Report, forest: &Forest, source: &RowSource<'_>) -> Result<Self> {
        let sampled = source.sample::<T>(args.sample, Some(args.row))?;
        let row = sampled.chosen.unwrap_or_default();
        let row = Matrix::of_rows(1, sampled.rows.columns, row);
        let rows = &sampled.rows;
        let predictor = compiled(Predictor::builder(forest)).map_err(library_error)?;
        let splits = SplitImportances::new(forest);
        let explainer = explainer(args, forest, rows)?;
        let explained = explainer
            .and_then(|explainer| explained(args, forest, rows, &row, &explainer))
            .map_err(|error| error.to_string());
        let bar = progress(forest, args.labels.label.is_some());
        let permuted = match args.labels.label {
            None => None,
            Some(_) => {
                let options = PermutationOptions {
                    metric: args.labels.metric(forest),
                    repeats: args.labels.repeats.into(),
                    seed: args.sample.seed,
                };
                let labels = &sampled.labels;
                let found = permutation(forest, &predictor, &view(rows)?, labels, options, |_| bar.inc(1));
                Some((options, found.map_err(library_error)?))
            }
        };
        let order = order(forest, &splits, explained.as_ref().ok());
        let columns: Vec<Vec<f64>> = (0..rows.columns)
            .map(|c| rows.values.iter().skip(c).step_by(rows.columns).map(|v| (*v).into()).collect())
            .collect();
        let mut dependences = Vec::new();
        for feature in order.iter().take(DEPENDENCES) {
            let column = &columns[*feature];
            let of_categories = Grid::of_values(forest, *feature as u32, []).is_of_categories();
            let values = if of_categories { column.clone() } else { central(column) };
            let grid = Grid::of_column(forest, *feature as u32, values, POINTS);
            let some = rows.slice(0, rows.rows.min(DEPENDENCE_ROWS));
            let found = dependence(&predictor, &view(&some)?, *feature as u32, &grid);
            dependences.push(found.map_err(library_error)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let of_thresholds = |feature: usize| {
            let found = Histogram::new(thresholds(forest, feature as u32).into_iter(), BINS);
            (!found.counts.is_empty()).then_some((feature, found))
        };
        Ok(Self {
            rows: rows.rows,
            seen: sampled.file_rows,
            row: row.values.iter().map(|v| (*v).into()).collect(),
            row_values: predictor.values(&view(&row)?).map_err(library_error)?,
            thresholds: order.iter().copied().filter_map(of_thresholds).take(THRESHOLDS).collect(),
            columns,
            splits,
            explained,
            permuted,
            order,
            dependences,
            stats: forest.stats(),
            leaf_values: Histogram::new(forest.leaf_values.iter().map(|value| value.0), BINS),
        })
    }
}

fn progress(forest: &Forest, has_labels: bool) -> ProgressBar {
    let permutations = if has_labels { forest.used_columns().len() } else { 0 };
    match std::io::stderr().is_terminal() {
        true => ProgressBar::with_draw_target(
            Some((permutations + DEPENDENCES) as u64),
            ProgressDrawTarget::stderr(),
        ),
        false => ProgressBar::hidden(),
    }
}

/// The maximum number of contributions in memory at a time. A row of many outputs has many contributions.
const VALUES_AT_A_TIME: usize = 1 << 22;

/// Returns an explainer, and a text that names the source of its expectations: the background, else the covers, else
/// some of the rows.
fn explainer<T: Element>(
    args: &Report,
    forest: &Forest,
    rows: &Matrix<T>,
) -> Result<fangorn::Result<(String, RowExplainer)>> {
    if let Some(path) = &args.background {
        let expected = format!("the rows of {} as a background", one_line(&path.display().to_string()));
        let explainer = background_of(&args.model, forest, path, args.table, args.missing)?;
        return Ok(Ok((expected, explainer.into())));
    }
    if let Ok(explainer) = Explainer::new(forest) {
        let expected = "the training data that went each way (path-dependent)".into();
        return Ok(Ok((expected, explainer.into())));
    }
    let background = view(rows)?.slice(0, BACKGROUND_ROWS);
    let expected = format!(
        "{} of the rows as a background, because the model's file says nothing about the training data",
        background.len()
    );
    let explainer = Interventional::new(forest, &background);
    Ok(explainer.map(|explainer| (expected, explainer.into())))
}

/// Returns the contributions of rows, and of the row that is explained.
fn explained<T: Element>(
    args: &Report,
    forest: &Forest,
    rows: &Matrix<T>,
    row: &Matrix<T>,
    (expected, explainer): &(String, RowExplainer),
) -> fangorn::Result<RowContributions> {
    let columns = forest.features.len();
    let (all, one) = (Rows::new(&rows.values, columns)?, Rows::new(&row.values, columns)?);
    let (width, outputs) = (columns + 1, forest.outputs as usize);
    let of_output = |values: &[f32]| -> Vec<f32> {
        let of_rows = values.chunks_exact(width).skip(args.of_output as usize).step_by(outputs);
        of_rows.flatten().copied().collect()
    };
    let mut means = MeanContributions::new(forest);
    let mut of_rows = Vec::with_capacity(all.len() * width);
    let piece = (VALUES_AT_A_TIME / (width * outputs)).max(1);
    for first in (0..all.len()).step_by(piece) {
        let values = explainer.contributions(&all.slice(first, piece))?;
        means.add(&values)?;
        of_rows.extend(of_output(&values));
    }
    let of_row = of_output(&explainer.contributions(&one)?);
    Ok(RowContributions { expected: expected.clone(), means, of_rows, of_row })
}

/// Returns the columns that some split reads, the most important one first: by contributions to all outputs, else
/// by gain, else by the number of splits.
fn order(forest: &Forest, splits: &SplitImportances, explained: Option<&RowContributions>) -> Vec<usize> {
    let by = match (explained, &splits.total_gain) {
        (Some(explained), _) => explained.means.total(),
        (None, Some(gain)) => gain.clone(),
        (None, None) => splits.weight.iter().map(|weight| *weight as f64).collect(),
    };
    let mut order: Vec<usize> = forest.used_columns().into_iter().map(|column| column as usize).collect();
    order.sort_by(|a, b| by[*b].total_cmp(&by[*a]));
    order
}

/// Returns a column without the least and the largest hundredth of its values, so that a few far values do not squeeze
/// all others. Missing values stay.
fn central(column: &[f64]) -> Vec<f64> {
    let mut present: Vec<f64> = column.iter().copied().filter(|value| !value.is_nan()).collect();
    present.sort_by(f64::total_cmp);
    let cut = present.len() / 100;
    let missing = column.iter().copied().find(|value| value.is_nan());
    present[cut..present.len() - cut].iter().copied().chain(missing).collect()
}
