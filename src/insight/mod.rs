//! Insight: what a model does over many rows. Importances, dependence on a feature, the forest's shape, and drift
//! between two tables.
//!
//! | file | subject |
//! |---|---|
//! | `importance` | importances from the splits, and from contributions |
//! | `metric` | metrics: how wrong predictions are |
//! | `permutation` | importances from shuffled columns |
//! | `dependence` | partial dependence and individual conditional expectation |
//! | `histogram` | numbers in bins of equal width: leaf values, thresholds |
//! | `bins` | the bins of a feature, whose bounds are the model's own thresholds |
//! | `drift` | two tables' distributions over these bins and over leaves, and how far they are apart |
//! | `sample` | a random sample of rows whose number is not known in advance |
//!
//! What comes in here: forests, predictors, contributions and rows. What stays out: files and pictures.

mod bins;
mod dependence;
mod drift;
mod histogram;
mod importance;
mod metric;
mod permutation;
mod sample;

pub use bins::FeatureBins;
pub use dependence::{Dependence, Grid, dependence};
pub use drift::{Bin, Drift, DriftCounter, FeatureDrift, TreeDrift, psi};
pub use histogram::{Histogram, thresholds};
pub use importance::{MeanContributions, SplitImportances};
pub use metric::Metric;
pub use permutation::{PermutationImportances, PermutationOptions, permutation};
pub use sample::Sample;
