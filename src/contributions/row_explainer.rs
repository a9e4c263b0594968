//! One type for both ways to explain rows.

use std::sync::Arc;

use super::{Explainer, Interventional};
use crate::{
    cpu::{Row, Rows},
    error::Result,
};

/// What explains rows: an [`Explainer`], or an [`Interventional`] against a background. Either becomes one with `into()`.
///
/// ```
/// use fangorn::{contributions::{Explainer, RowExplainer}, cpu::Rows, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let explainer: RowExplainer = Explainer::new(&forest)?.into();
/// let rows = vec![0.5f32; forest.features.len()];
/// let contributions = explainer.contributions(&Rows::new(&rows, forest.features.len())?)?;
/// assert_eq!(contributions.len(), explainer.width());
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum RowExplainer {
    /// The covers of the nodes say what is expected of a feature that is not known.
    Paths(Arc<Explainer>),
    /// The rows of a background say what is expected of a feature that is not known.
    Background(Arc<Interventional>),
}

impl From<Explainer> for RowExplainer {
    fn from(explainer: Explainer) -> Self {
        Self::Paths(Arc::new(explainer))
    }
}

impl From<Interventional> for RowExplainer {
    fn from(explainer: Interventional) -> Self {
        Self::Background(Arc::new(explainer))
    }
}

impl RowExplainer {
    /// Returns the numbers of margins and of columns of a row.
    pub(crate) fn shape(&self) -> [usize; 2] {
        match self {
            Self::Paths(explainer) => explainer.shape(),
            Self::Background(explainer) => explainer.shape(),
        }
    }

    /// Returns the number of contributions of a row: `outputs x (features + 1)`.
    pub fn width(&self) -> usize {
        match self {
            Self::Paths(explainer) => explainer.width(),
            Self::Background(explainer) => explainer.width(),
        }
    }

    /// Returns the number of interactions of a row, `outputs x (features + 1) x (features + 1)`, or `None` if it
    /// overflows `usize`.
    pub fn interactions_width(&self) -> Option<usize> {
        let [_, columns] = self.shape();
        self.width().checked_mul(columns + 1)
    }

    /// Returns the contributions of rows, `rows x outputs x (features + 1)`, the bias last.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub fn contributions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        match self {
            Self::Paths(explainer) => explainer.contributions(rows),
            Self::Background(explainer) => explainer.contributions(rows),
        }
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)`, the bias last.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has the wrong length.
    pub fn contributions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        match self {
            Self::Paths(explainer) => explainer.contributions_into(rows, out),
            Self::Background(explainer) => explainer.contributions_into(rows, out),
        }
    }

    /// Returns the interactions of rows, `rows x outputs x (features + 1) x (features + 1)`
    /// ([`Explainer::interactions`], [`Interventional::interactions`]).
    ///
    /// # Errors
    /// Those of [`Explainer::interactions`] or [`Interventional::interactions`].
    pub fn interactions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        match self {
            Self::Paths(explainer) => explainer.interactions(rows),
            Self::Background(explainer) => explainer.interactions(rows),
        }
    }

    /// Writes the interactions of rows into `out`, `rows x outputs x (features + 1) x (features + 1)`.
    ///
    /// # Errors
    /// Those of [`Explainer::interactions_into`] or [`Interventional::interactions_into`].
    pub fn interactions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        match self {
            Self::Paths(explainer) => explainer.interactions_into(rows, out),
            Self::Background(explainer) => explainer.interactions_into(rows, out),
        }
    }

    /// Returns a line that says how contributions are computed.
    pub fn algorithm(&self) -> String {
        match self {
            Self::Paths(explainer) => explainer.algorithm(),
            Self::Background(explainer) => explainer.algorithm(),
        }
    }
}
