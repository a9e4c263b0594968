//! Permutation importances: how much worse predictions get when a column is shuffled.

use super::Metric;
use crate::{
    Predictor,
    check::Random,
    cpu::{Row, Rows},
    error::{Error, Result},
    forest::Forest,
};

/// How columns are shuffled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermutationOptions {
    /// The loss of predictions.
    pub metric: Metric,
    /// How often each column is shuffled.
    pub repeats: usize,
    /// The seed of the random numbers. A column's permutations depend on the seed and the column alone.
    pub seed: u64,
}

/// How much larger the loss is if a feature's column is shuffled, as scikit-learn's `permutation_importance` computes
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct PermutationImportances {
    /// The loss of the rows as they are.
    pub baseline: f64,
    /// For each feature, the mean increase of the loss over the repeats. It is 0 for a feature that no split reads.
    pub mean: Vec<f64>,
    /// For each feature, the standard deviation of the increase over the repeats.
    pub deviation: Vec<f64>,
}

/// Computes permutation importances of rows with their labels: the number of a class, from 0, for a classifier, and the
/// target otherwise. `done` is called with the column after each feature that some split reads. The call takes the
/// memory of two copies of the rows.
///
/// ```
/// use fangorn::{Predictor, cpu::Rows, import, insight::{Metric, PermutationOptions, permutation}};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &Default::default())?;
/// let columns = forest.features.len();
/// let values: Vec<f32> = (0..20 * columns).map(|i| (i % 37) as f32).collect();
/// let labels: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
/// let options = PermutationOptions { metric: Metric::of(&forest), repeats: 3, seed: 0 };
/// let rows = Rows::new(&values, columns)?;
/// let found = permutation(&forest, &Predictor::new(&forest)?, &rows, &labels, options, |_| ())?;
/// assert_eq!(found.mean.len(), columns);
/// # Ok::<(), fangorn::Error>(())
/// ```
///
/// # Errors
/// [`Error::Insight`]: there are no rows or no repeats, the number of labels is not that of rows, or the metric does
/// not fit the model. The rows have another number of columns than the forest has features.
pub fn permutation<T: Row>(
    forest: &Forest,
    predictor: &Predictor,
    rows: &Rows<'_, T>,
    labels: &[f64],
    options: PermutationOptions,
    mut done: impl FnMut(usize),
) -> Result<PermutationImportances> {
    let (count, columns) = (rows.len(), rows.columns());
    if count == 0 || labels.len() != count || options.repeats == 0 {
        return Err(Error::Insight(format!(
            "{count} rows, {} labels, {} repeats; give at least one row and a label for each, and one repeat",
            labels.len(),
            options.repeats
        )));
    }
    let loss = |rows: &Rows<'_, T>| -> Result<f64> {
        Ok(options.metric.loss(forest, &predictor.values(rows)?, labels))
    };
    options.metric.check(forest, predictor.width())?;
    let baseline = loss(rows)?;
    let mut shuffled: Vec<T> = rows.to_vec();
    let mut found =
        PermutationImportances { baseline, mean: vec![0.0; columns], deviation: vec![0.0; columns] };
    for column in forest.used_columns() {
        let column = column as usize;
        // Each column has a seed of its own, so that its importance does not depend on which other columns there are.
        let mut random = Random(options.seed ^ (column as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93));
        let mut increases = Vec::with_capacity(options.repeats);
        for _ in 0..options.repeats {
            for last in (1..count).rev() {
                shuffled.swap(last * columns + column, random.below(last + 1) * columns + column);
            }
            increases.push(loss(&Rows::new(&shuffled, columns)?)? - baseline);
        }
        (0..count).for_each(|row| shuffled[row * columns + column] = rows.value(row, column));
        let mean = increases.iter().sum::<f64>() / options.repeats as f64;
        let variance = increases.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / options.repeats as f64;
        (found.mean[column], found.deviation[column]) = (mean, variance.sqrt());
        done(column);
    }
    Ok(found)
}
