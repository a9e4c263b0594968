//! Importances of features: from the splits of the forest, and from contributions to many rows.

use crate::{
    error::{Error, Result},
    forest::{Forest, Node},
};

/// How a forest's splits use each feature. XGBoost's `get_score` and LightGBM's `feature_importance` return these
/// numbers.
///
/// | here | XGBoost | LightGBM |
/// |---|---|---|
/// | `weight` | `weight` | `split` |
/// | `total_gain` | `total_gain` | `gain` |
/// | [`gain`](Self::gain) | `gain` | |
/// | `total_cover` | `total_cover` | |
/// | [`cover`](Self::cover) | `cover` | |
///
/// ```
/// use fangorn::{import::{self, LoadOptions}, insight::SplitImportances};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &LoadOptions { gains: true, ..Default::default() })?;
/// let importances = SplitImportances::new(&forest);
/// assert_eq!(importances.weight.len(), forest.features.len());
/// assert!(importances.total_gain.is_some() && importances.total_cover.is_some());
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SplitImportances {
    /// Number of splits on each feature.
    pub weight: Vec<u64>,
    /// The total gain of the splits on each feature: how much they improved the objective in training. `None` if the
    /// forest was loaded without [gains](crate::forest::Gains), or its file has none.
    pub total_gain: Option<Vec<f64>>,
    /// The total cover of the splits on each feature: how much training data reached them. `None` if the forest has
    /// no [covers](crate::forest::Covers).
    pub total_cover: Option<Vec<f64>>,
}

impl SplitImportances {
    /// Counts the splits of a forest. In models of LightGBM, splits that gained nothing are left out, as LightGBM
    /// does.
    pub fn new(forest: &Forest) -> Self {
        let features = forest.features.len();
        let mut weight = vec![0; features];
        let mut total_gain = forest.gains.as_ref().map(|_| vec![0.0; features]);
        let mut total_cover = forest.covers.as_ref().map(|_| vec![0.0; features]);
        let only_gains = forest.producer.library == "lightgbm";
        for (t, tree) in forest.trees.iter().enumerate() {
            for (n, node) in tree.nodes.iter().enumerate() {
                let Node::Split { feature, .. } = *node else { continue };
                let feature = feature as usize;
                let gain = forest.gains.as_ref().map(|gains| gains.tree(t)[n].0);
                if only_gains && gain.is_some_and(|gain| gain <= 0.0) {
                    continue;
                }
                weight[feature] += 1;
                if let (Some(total), Some(gain)) = (&mut total_gain, gain) {
                    total[feature] += gain;
                }
                if let (Some(total), Some(covers)) = (&mut total_cover, &forest.covers) {
                    total[feature] += covers.tree(t)[n].0;
                }
            }
        }
        Self { weight, total_gain, total_cover }
    }

    /// Returns the mean gain of the splits on each feature, and 0 for a feature without splits. Returns `None` if
    /// there are no gains.
    pub fn gain(&self) -> Option<Vec<f64>> {
        self.total_gain.as_ref().map(|total| self.mean(total))
    }

    /// Returns the mean cover of the splits on each feature, and 0 for a feature without splits. Returns `None` if
    /// there are no covers.
    pub fn cover(&self) -> Option<Vec<f64>> {
        self.total_cover.as_ref().map(|total| self.mean(total))
    }

    fn mean(&self, total: &[f64]) -> Vec<f64> {
        total.iter().zip(&self.weight).map(|(total, weight)| total / (*weight).max(1) as f64).collect()
    }
}

/// The mean magnitude of each feature's contributions over many rows, which are added batch by batch.
///
/// ```
/// use fangorn::{contributions::Explainer, cpu::Rows, import, insight::MeanContributions};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &Default::default())?;
/// let columns = forest.features.len();
/// let rows = vec![0.5f32; 2 * columns];
/// let contributions = Explainer::new(&forest)?.contributions(&Rows::new(&rows, columns)?)?;
/// let mut means = MeanContributions::new(&forest);
/// means.add(&contributions)?;
/// assert_eq!((means.rows(), means.total().len()), (2, columns));
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MeanContributions {
    features: usize,
    outputs: usize,
    rows: u64,
    /// Sums of magnitudes, `outputs x features`.
    sums: Vec<f64>,
}

impl MeanContributions {
    /// Returns the means before any rows are added.
    pub fn new(forest: &Forest) -> Self {
        let (features, outputs) = (forest.features.len(), forest.outputs as usize);
        Self { features, outputs, rows: 0, sums: vec![0.0; features * outputs] }
    }

    /// Adds the contributions of rows, `rows x outputs x (features + 1)`, the bias last.
    ///
    /// # Errors
    /// `contributions` is not a whole number of rows.
    pub fn add(&mut self, contributions: &[f32]) -> Result<()> {
        let width = self.outputs * (self.features + 1);
        if width == 0 || !contributions.len().is_multiple_of(width) {
            let found = contributions.len();
            return Err(Error::Rows(format!("{found} contributions are no whole number of rows of {width}")));
        }
        for row in contributions.chunks_exact(width) {
            for (sums, of_output) in
                self.sums.chunks_exact_mut(self.features.max(1)).zip(row.chunks_exact(self.features + 1))
            {
                sums.iter_mut().zip(of_output).for_each(|(sum, value)| *sum += f64::from(value.abs()));
            }
        }
        self.rows += (contributions.len() / width) as u64;
        Ok(())
    }

    /// Returns the number of rows that were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the mean magnitude of each feature's contribution to one output.
    pub fn of_output(&self, output: usize) -> Vec<f64> {
        let sums = &self.sums[output * self.features..][..self.features];
        sums.iter().map(|sum| sum / self.rows.max(1) as f64).collect()
    }

    /// Returns the mean magnitude of each feature's contributions, added up over the outputs.
    pub fn total(&self) -> Vec<f64> {
        let mut total = vec![0.0; self.features];
        for output in 0..self.outputs {
            total.iter_mut().zip(self.of_output(output)).for_each(|(total, mean)| *total += mean);
        }
        total
    }
}
