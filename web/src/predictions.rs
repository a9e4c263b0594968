//! What a model predicts for rows, and why.

use std::ops::Range;

use fangorn::{
    Forest, Predictor,
    cpu::Rows,
    forest::{CompareType, reference},
    sum::Contract,
};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    json::{Num, category_name, feature_name},
    limits,
    model::Model,
    rows::RowSet,
};

/// The maximum number of values of a row that the page lists.
const MOST_LISTED: usize = 50;
/// The maximum number of features of a waterfall.
const MOST_BARS: usize = 12;

/// The predictions of some rows.
#[derive(Debug, Serialize)]
pub struct Predictions {
    first: usize,
    /// The number of values of a row, and the number of its margins.
    widths: [usize; 2],
    rows: Vec<PredictedRow>,
    /// The predictor's warnings.
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PredictedRow {
    /// The row's predicted values, the first of them. `margins` has the first margins.
    values: Vec<Num>,
    margins: Vec<Num>,
    /// The labels of the classes: one, one for each output, or none.
    classes: Vec<String>,
    /// The values in the row's columns, the first of them.
    cells: Vec<Cell>,
}

/// The value in a column of a row.
#[derive(Debug, Serialize)]
struct Cell {
    value: Num,
    category: Option<String>,
}

/// One feature of a waterfall.
#[derive(Debug, Serialize)]
struct Bar {
    feature: String,
    cell: Cell,
    contribution: Num,
}

/// How the contributions of a row add up to a margin.
#[derive(Debug, Serialize)]
pub struct Explanation {
    output: usize,
    /// The expected margin if nothing of the row is known.
    bias: Num,
    /// The row's margin: the bias plus all contributions.
    margin: Num,
    /// The features with the largest contributions.
    #[serde(rename = "steps")]
    bars: Vec<Bar>,
    /// The number of other features that contribute. `rest` is the sum of their contributions.
    others: usize,
    rest: Num,
    /// The algorithm that computes the contributions.
    #[serde(rename = "plan")]
    algorithm: String,
}

fn cell(forest: &Forest, column: usize, value: f64) -> Cell {
    Cell { value: Num(value), category: category_name(forest, column, value) }
}

fn range_of<'r>(rows: &'r RowSet, columns: usize, range: &Range<usize>) -> Result<Rows<'r, f64>> {
    if range.end > rows.rows || range.start > range.end {
        return Err(Error::request(format!(
            "rows {} to {}: there are {}",
            range.start, range.end, rows.rows
        )));
    }
    let values = &rows.values[range.start * columns..range.end * columns];
    Ok(Rows::strided(values, [range.len(), columns], [columns, 1])?)
}

fn refuse_results(rows: usize, width: usize) -> Result<()> {
    match rows.saturating_mul(width) <= limits::RESULTS {
        true => Ok(()),
        false => Err(Error::request(format!(
            "{rows} rows of {width} results are more than the {} that the page takes; use the command `fangorn` for them",
            limits::RESULTS
        ))),
    }
}

/// The margins and leaf slots of some rows.
pub struct Reached {
    /// The margins, `rows x outputs`.
    pub margins: Vec<f32>,
    /// The leaf slots, `rows x trees`.
    pub slots: Vec<u32>,
}

/// Predicts some rows. A GPU may have found their margins and leaf slots; otherwise the processor does.
///
/// # Errors
/// There are no such rows, the results are too many, what the GPU has found is of other rows, or the forest's sums can't
/// keep the contract.
pub fn predict(
    model: &mut Model,
    rows: &RowSet,
    range: Range<usize>,
    sum: Contract,
    found: Option<Reached>,
) -> Result<Predictions> {
    let (forest, predictor) = model.predictor(sum)?;
    let columns = forest.features.len();
    let some = range_of(rows, columns, &range)?;
    let (outputs, width, trees) = (forest.outputs as usize, predictor.width(), forest.trees.len());
    refuse_results(range.len(), outputs.max(width).max(trees))?;
    let Reached { margins, slots } = match found {
        Some(found) => found,
        None => Reached { margins: predictor.margins(&some)?, slots: predictor.leaf_slots(&some)? },
    };
    if [margins.len(), slots.len()] != [range.len() * outputs, range.len() * trees] {
        return Err(Error::request("the GPU's results are of other rows; predict again"));
    }
    let values = predictor.values_of_margins(&margins)?;
    let listed = |numbers: &[f32]| numbers.iter().take(MOST_LISTED).map(|v| Num(f64::from(*v))).collect();
    let label = |class: u32| match forest.classes.labels.get(class as usize) {
        Some(label) => label.clone(),
        None => class.to_string(),
    };
    let row = |at: usize| {
        let classes = reference::classes_of_slots(forest, &slots[at * trees..][..trees]);
        let own = &rows.values[(range.start + at) * columns..][..columns];
        PredictedRow {
            values: listed(&values[at * width..][..width]),
            margins: listed(&margins[at * outputs..][..outputs]),
            classes: classes.into_iter().take(MOST_LISTED).map(label).collect(),
            cells: own
                .iter()
                .take(MOST_LISTED)
                .enumerate()
                .map(|(c, value)| cell(forest, c, *value))
                .collect(),
        }
    };
    Ok(Predictions {
        first: range.start,
        widths: [width, outputs],
        rows: (0..range.len()).map(row).collect(),
        warnings: warnings(predictor),
    })
}

/// Returns a predictor's warnings.
pub fn warnings(predictor: &Predictor) -> Vec<String> {
    predictor.warnings().iter().map(ToString::to_string).collect()
}

/// Returns the margins of all rows, `rows x outputs`.
///
/// # Errors
/// The results are too many, or the forest's sums can't keep the contract.
pub fn margins(model: &mut Model, rows: &RowSet, sum: Contract) -> Result<Vec<f32>> {
    let (forest, predictor) = model.predictor(sum)?;
    refuse_results(rows.rows, forest.outputs as usize)?;
    Ok(predictor.margins(&range_of(rows, forest.features.len(), &(0..rows.rows))?)?)
}

/// Returns the values of all rows, `rows x width`.
///
/// # Errors
/// Those of [`margins`].
pub fn values(model: &mut Model, rows: &RowSet, sum: Contract) -> Result<Vec<f32>> {
    let (forest, predictor) = model.predictor(sum)?;
    refuse_results(rows.rows, predictor.width().max(forest.outputs as usize))?;
    Ok(predictor.values(&range_of(rows, forest.features.len(), &(0..rows.rows))?)?)
}

/// Returns the numbers of rows, columns and outputs.
///
/// # Errors
/// The results of all rows are too many, or the forest's sums can't keep the contract.
pub fn all_rows(model: &mut Model, rows: &RowSet, sum: Contract) -> Result<[usize; 3]> {
    let (forest, predictor) = model.predictor(sum)?;
    let outputs = forest.outputs as usize;
    refuse_results(rows.rows, predictor.width().max(outputs))?;
    Ok([rows.rows, forest.features.len(), outputs])
}

/// Returns the values of rows with these margins, `rows x width`.
///
/// # Errors
/// The margins are no whole number of rows, the results are too many, or the forest's sums can't keep the contract.
pub fn values_of_margins(model: &mut Model, margins: &[f32], sum: Contract) -> Result<Vec<f32>> {
    let (forest, predictor) = model.predictor(sum)?;
    let outputs = forest.outputs as usize;
    refuse_results(margins.len() / outputs, predictor.width().max(outputs))?;
    Ok(predictor.values_of_margins(margins)?)
}

/// Returns some rows in `f32`, as a GPU takes them, `rows x columns`.
///
/// # Errors
/// There are no such rows, or the forest compares in `f64` and a value is none of `f32`'s.
pub fn single_rows(model: &Model, rows: &RowSet, range: &Range<usize>) -> Result<Vec<f32>> {
    let columns = model.forest.features.len();
    range_of(rows, columns, range)?;
    let values = &rows.values[range.start * columns..range.end * columns];
    // A forest that compares in f32 rounds rows itself.
    let is_exact = |value: &f64| f64::from(*value as f32) == *value || value.is_nan();
    if model.forest.compare == CompareType::F64
        && let Some(at) = values.iter().position(|value| !is_exact(value))
    {
        let (row, column) = (range.start + at / columns, at % columns);
        return Err(Error::request(format!(
            "row {row}, {}: the model compares {} as a float64, and a GPU takes float32, so it could find another leaf; \
             predict on the processor",
            feature_name(&model.forest, column),
            values[at],
        )));
    }
    Ok(values.iter().map(|value| *value as f32).collect())
}

/// Returns the contributions of the features to one margin of a row.
///
/// # Errors
/// There is no such row or output, the results are too many, or the margins can't be explained.
pub fn explain(model: &mut Model, rows: &RowSet, row: usize, output: usize) -> Result<Explanation> {
    let (forest, explainer) = model.explainer()?;
    let (columns, outputs) = (forest.features.len(), forest.outputs as usize);
    let one = range_of(rows, columns, &(row..row.saturating_add(1)))?;
    if output >= outputs {
        return Err(Error::request(format!("output {output}: the model has {outputs}")));
    }
    refuse_results(1, explainer.width())?;
    let all = explainer.contributions(&one)?;
    let (contributions, bias) = all[output * (columns + 1)..][..columns + 1].split_at(columns);
    let mut order: Vec<usize> = (0..columns).filter(|column| contributions[*column] != 0.0).collect();
    order.sort_by(|a, b| contributions[*b].abs().total_cmp(&contributions[*a].abs()).then(a.cmp(b)));
    let (shown, others) = order.split_at(order.len().min(MOST_BARS));
    let sum = |of: &[usize]| of.iter().map(|column| f64::from(contributions[*column])).sum::<f64>();
    let bar = |column: &usize| Bar {
        feature: feature_name(forest, *column),
        cell: cell(forest, *column, rows.values[row * columns + column]),
        contribution: Num(f64::from(contributions[*column])),
    };
    let bias = f64::from(bias[0]);
    Ok(Explanation {
        output,
        bias: Num(bias),
        margin: Num(bias + sum(&order)),
        bars: shown.iter().map(bar).collect(),
        others: others.len(),
        rest: Num(sum(others)),
        algorithm: explainer.algorithm(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fangorn::{file::Contents, forest::Side};

    fn model(compare: CompareType) -> Model {
        let mut forest = Forest::builder(2, 1).compare(compare);
        let mut tree = forest.tree(0);
        tree.split(1, compare.less(0.5), Side::Left, 1, 2);
        tree.leaf(1, &[1.0]);
        tree.leaf(2, &[2.0]);
        let forest = forest.build().expect("a forest");
        Model::read("m.fangorn", &Contents::new(forest).to_bytes()).expect("a model")
    }

    fn rows(values: &[f64]) -> RowSet {
        RowSet { name: "r".into(), rows: values.len() / 2, values: values.to_vec(), notes: Vec::new() }
    }

    /// A GPU takes float32. A model that compares in float64 takes no value that float32 would round.
    #[test]
    fn a_gpu_takes_rows_that_lose_nothing() {
        let exact = [0.5, f64::NAN, f64::INFINITY, -f64::INFINITY, 0.0, -0.25];
        let (single, double) = (model(CompareType::F32), model(CompareType::F64));
        for model in [&single, &double] {
            let found = single_rows(model, &rows(&exact), &(1..3)).expect("rows");
            assert_eq!(found, [f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.25]);
            assert!(single_rows(model, &rows(&exact), &(1..4)).is_err(), "there is no fourth row");
        }
        for value in [0.1, 1e300, 16_777_217.0] {
            let rows = rows(&[0.5, 0.5, 0.5, value]);
            assert_eq!(single_rows(&single, &rows, &(1..2)).expect("rows")[1], value as f32);
            let refused = single_rows(&double, &rows, &(0..2)).expect_err("float32 rounds it").to_string();
            assert!(refused.starts_with("row 1, ") && refused.contains("float32"), "{refused}");
        }
    }

    /// Values of margins that another device has found are those of the rows; margins of other rows are refused.
    #[test]
    fn margins_become_values() {
        let (mut model, rows) = (model(CompareType::F32), rows(&[0.0, 0.25, 0.0, 0.75, 0.0, 0.5]));
        let sum = Contract::Exact;
        assert_eq!(all_rows(&mut model, &rows, sum).expect("few results"), [3, 2, 1]);
        let found = margins(&mut model, &rows, sum).expect("margins");
        assert_eq!(found, [1.0, 2.0, 2.0]);
        let of_margins = values_of_margins(&mut model, &found, sum).expect("values");
        assert_eq!(of_margins, values(&mut model, &rows, sum).expect("values"));
        let reached = |margins: &[f32]| Some(Reached { margins: margins.to_vec(), slots: vec![0; 3] });
        assert!(predict(&mut model, &rows, 0..3, sum, reached(&found)).is_ok());
        assert!(predict(&mut model, &rows, 0..3, sum, reached(&found[..2])).is_err());
    }
}
