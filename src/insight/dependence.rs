//! Partial dependence, and individual conditional expectation (ICE): what a model predicts if one feature of the rows
//! is replaced by each of several values.

use std::collections::BTreeMap;

use crate::{
    Predictor,
    cpu::{Row, Rows},
    error::{Error, Result},
    forest::{Coding, Forest, Node, Predicate},
    table::Number,
};

/// The values that replace a feature, ascending. NaN, which is last, stands for a missing value.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    values: Vec<f64>,
    is_of_categories: bool,
}

impl Grid {
    /// Takes the values themselves. They are sorted, and repetitions are left out.
    pub fn of_values(forest: &Forest, feature: u32, values: impl IntoIterator<Item = f64>) -> Self {
        // Adding zero makes one number of -0 and 0.
        let mut values: Vec<f64> =
            values.into_iter().map(|v| if v.is_nan() { f64::NAN } else { v + 0.0 }).collect();
        values.sort_by(f64::total_cmp);
        values.dedup_by_key(|value| value.to_bits());
        Self { values, is_of_categories: is_of_categories(forest, feature) }
    }

    /// Chooses at most `most` values of a column: all of them if there are no more, and otherwise quantiles at equal
    /// distances from the least to the largest, or the most frequent categories. If a value of the column is missing,
    /// the grid also has a missing value, in addition to the `most`.
    ///
    /// ```
    /// use fangorn::{Forest, insight::Grid};
    ///
    /// let forest = Forest::builder(1, 1).build()?;
    /// let column = (0..=100).map(f64::from);
    /// assert_eq!(Grid::of_column(&forest, 0, column, 3).values(), [0.0, 50.0, 100.0]);
    /// let grid = Grid::of_column(&forest, 0, [2.0, f64::NAN, 1.0, 2.0], 3);
    /// assert_eq!(grid.values()[..2], [1.0, 2.0]);
    /// assert!(grid.values()[2].is_nan());
    /// # Ok::<(), fangorn::forest::VerifyError>(())
    /// ```
    pub fn of_column(
        forest: &Forest,
        feature: u32,
        column: impl IntoIterator<Item = f64>,
        most: usize,
    ) -> Self {
        let (mut present, missing): (Vec<f64>, Vec<f64>) = column.into_iter().partition(|v| !v.is_nan());
        let of_categories = is_of_categories(forest, feature);
        present.sort_by(f64::total_cmp);
        let chosen = match of_categories {
            true => most_frequent(&present, most),
            false => quantiles(&present, most),
        };
        Self::of_values(forest, feature, chosen.into_iter().chain(missing.first().copied()))
    }

    /// Returns the values.
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns whether the values are numbers of categories.
    pub fn is_of_categories(&self) -> bool {
        self.is_of_categories
    }
}

/// Returns whether a feature's values are numbers of categories.
fn is_of_categories(forest: &Forest, feature: u32) -> bool {
    let named = forest
        .features
        .get(feature as usize)
        .is_some_and(|feature| !feature.categories.is_empty() || feature.coding != Coding::Numbers);
    let in_set = |node: &Node| match *node {
        Node::Split { feature: of, predicate: Predicate::InSet { .. }, .. } => of == feature,
        _ => false,
    };
    named || forest.trees.iter().flat_map(|tree| &tree.nodes).any(in_set)
}

/// Returns all of the sorted values if at most `most` are different, and otherwise the values at `most` equidistant
/// indices.
fn quantiles(sorted: &[f64], most: usize) -> Vec<f64> {
    let mut distinct = sorted.to_vec();
    distinct.dedup();
    if distinct.len() <= most {
        return distinct;
    }
    let last = (sorted.len() - 1) as f64;
    let index = |at: usize| (at as f64 / (most.max(2) - 1) as f64 * last).round() as usize;
    (0..most).map(|at| sorted[index(at)]).collect()
}

/// Returns the most frequent of the sorted values, of equally frequent ones the least.
fn most_frequent(sorted: &[f64], most: usize) -> Vec<f64> {
    let mut counts: BTreeMap<u64, (usize, f64)> = BTreeMap::new();
    for value in sorted {
        counts.entry((value + 0.0).to_bits()).or_insert((0, *value)).0 += 1;
    }
    let mut counts: Vec<(usize, f64)> = counts.into_values().collect();
    counts.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
    counts.into_iter().take(most).map(|(_, value)| value).collect()
}

/// What a model predicts if a feature of each row is replaced by the values of a grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependence {
    /// Column of the feature.
    pub feature: u32,
    /// The values that replace the feature.
    pub grid: Grid,
    /// Number of margins of a row.
    pub outputs: usize,
    /// The partial dependence: the mean margins over the rows, `values x outputs`.
    pub partial: Vec<f64>,
    /// The margins of each row, `rows x values x outputs`.
    pub individual: Vec<f32>,
}

impl Dependence {
    /// Returns the partial dependence of an output, a number for each value of the grid.
    pub fn partial_of(&self, output: usize) -> Vec<f64> {
        self.partial.iter().skip(output).step_by(self.outputs.max(1)).copied().collect()
    }

    /// Returns the margins of one row and output, a number for each value of the grid.
    pub fn individual_of(&self, row: usize, output: usize) -> Vec<f32> {
        let width = self.grid.values.len() * self.outputs;
        let of_row = self.individual.iter().skip(row * width).take(width);
        of_row.skip(output).step_by(self.outputs.max(1)).copied().collect()
    }
}

/// Computes the partial dependence of margins on a feature, and the margins of each row. scikit-learn's
/// `partial_dependence` with `method="brute"` and `kind="both"` computes the same. The call predicts `rows x values`
/// rows, and keeps the margins of all of them.
///
/// ```
/// use fangorn::{Predictor, cpu::Rows, import, insight::{Grid, dependence}};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &Default::default())?;
/// let columns = forest.features.len();
/// let values = vec![0.5f32; 2 * columns];
/// let grid = Grid::of_values(&forest, 0, [20.0, 40.0, 60.0]);
/// let found = dependence(&Predictor::new(&forest)?, &Rows::new(&values, columns)?, 0, &grid)?;
/// assert_eq!((found.partial.len(), found.individual.len()), (3, 2 * 3));
/// # Ok::<(), fangorn::Error>(())
/// ```
///
/// # Errors
/// [`Error::Insight`]: there are no rows, or the rows have no such column. The call also fails if the rows have
/// another number of columns than the forest has features, or if there is no memory for the margins.
pub fn dependence<T: Row + Number>(
    predictor: &Predictor,
    rows: &Rows<'_, T>,
    feature: u32,
    grid: &Grid,
) -> Result<Dependence> {
    let (count, columns, points) = (rows.len(), rows.columns(), grid.values.len());
    if count == 0 || feature as usize >= columns {
        return Err(Error::Insight(format!(
            "the dependence on column {feature} of {count} rows of {columns} columns; give at least one row, and one \
             of its columns"
        )));
    }
    let mut replaced = rows.to_vec();
    let outputs = predictor.margins(&Rows::new(&replaced[..columns], columns)?)?.len();
    let mut individual = Vec::new();
    let length = count.checked_mul(points).and_then(|values| values.checked_mul(outputs));
    let Some(length) = length.filter(|length| individual.try_reserve_exact(*length).is_ok()) else {
        return Err(Error::Rows(format!(
            "no memory for {count} rows of {points} values and {outputs} margins; give fewer rows"
        )));
    };
    individual.resize(length, 0.0);
    let mut partial = vec![0.0; points * outputs];
    for (point, value) in grid.values.iter().enumerate() {
        let elements = replaced.iter_mut().skip(feature as usize).step_by(columns);
        elements.for_each(|element| *element = T::cast(*value));
        let margins = predictor.margins(&Rows::new(&replaced, columns)?)?;
        for (row, margins) in margins.chunks_exact(outputs).enumerate() {
            individual[(row * points + point) * outputs..][..outputs].copy_from_slice(margins);
            let sums = &mut partial[point * outputs..][..outputs];
            sums.iter_mut().zip(margins).for_each(|(sum, margin)| *sum += f64::from(*margin));
        }
    }
    partial.iter_mut().for_each(|sum| *sum /= count as f64);
    Ok(Dependence { feature, grid: grid.clone(), outputs, partial, individual })
}
