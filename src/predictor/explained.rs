//! Why a prediction: contributions and interactions by a predictor's explainer.

use std::sync::Arc;

use super::Predictor;
use crate::{
    contributions::{Explainer, Interventional},
    cpu::{Row, Rows},
    error::{Error, Result},
    parallel,
};

/// What explains the rows of a [`Predictor`]: made from an [`Explainer`] or an [`Interventional`] with
/// `into()`.
#[derive(Clone, Debug)]
pub struct AnyExplainer(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Paths(Arc<Explainer>),
    Background(Arc<Interventional>),
}

impl From<Explainer> for AnyExplainer {
    fn from(explainer: Explainer) -> Self {
        Self(Kind::Paths(Arc::new(explainer)))
    }
}

impl From<Arc<Explainer>> for AnyExplainer {
    fn from(explainer: Arc<Explainer>) -> Self {
        Self(Kind::Paths(explainer))
    }
}

impl From<Interventional> for AnyExplainer {
    fn from(explainer: Interventional) -> Self {
        Self(Kind::Background(Arc::new(explainer)))
    }
}

impl From<Arc<Interventional>> for AnyExplainer {
    fn from(explainer: Arc<Interventional>) -> Self {
        Self(Kind::Background(explainer))
    }
}

impl AnyExplainer {
    /// Returns the numbers of margins and of columns of a row.
    pub(super) fn shape(&self) -> [usize; 2] {
        match &self.0 {
            Kind::Paths(explainer) => explainer.shape(),
            Kind::Background(explainer) => explainer.shape(),
        }
    }
}

/// Contributions, by the explainer that [`PredictorBuilder::explainer`](super::PredictorBuilder::explainer) sets. They run
/// on the threads of the predictor's [pool](super::PredictorBuilder::pool), or of the current rayon pool if none is set.
impl Predictor {
    /// Returns the contributions of rows, `rows x outputs x (features + 1)`, the bias last. They add up to each row's
    /// margin, before the forest's scale and transform.
    ///
    /// ```
    /// use fangorn::{Predictor, contributions::Explainer, cpu::Rows, import};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let predictor = Predictor::builder(&forest).explainer(Explainer::new(&forest)?).build()?;
    /// let rows = vec![0.5f32; forest.features.len()];
    /// let rows = Rows::new(&rows, forest.features.len())?;
    /// let sum: f32 = predictor.contributions(&rows)?.iter().sum();
    /// assert!((sum - predictor.margins(&rows)?[0]).abs() < 1e-5);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Contributions`]: the predictor was built without an explainer. The rows have another number of columns
    /// than the forest has features, or there is no memory for the results.
    pub fn contributions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        self.explained(|kind| match kind {
            Kind::Paths(explainer) => explainer.contributions(rows),
            Kind::Background(explainer) => explainer.contributions(rows),
        })
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)`, the bias last.
    ///
    /// # Errors
    /// [`Error::Contributions`]: the predictor was built without an explainer. The rows have another number of columns
    /// than the forest has features, or `out` has the wrong length.
    pub fn contributions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.explained(|kind| match kind {
            Kind::Paths(explainer) => explainer.contributions_into(rows, out),
            Kind::Background(explainer) => explainer.contributions_into(rows, out),
        })
    }

    /// Returns the interactions of rows, `rows x outputs x (features + 1) x (features + 1)`
    /// ([`Explainer::interactions`]).
    ///
    /// # Errors
    /// [`Error::Contributions`]: the predictor was built without an [`Explainer`], or the paths of the forest's trees
    /// have too many features. The rows have another number of columns than the forest has features, or there is no
    /// memory for the results.
    pub fn interactions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        self.explained(|kind| paths(kind)?.interactions(rows))
    }

    /// Writes the interactions of rows into `out`, `rows x outputs x (features + 1) x (features + 1)`.
    ///
    /// # Errors
    /// As for [`interactions`](Self::interactions), or `out` has the wrong length.
    pub fn interactions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.explained(|kind| paths(kind)?.interactions_into(rows, out))
    }

    /// Calls `explain` with the explainer, on the predictor's pool if it has one.
    fn explained<R: Send>(&self, explain: impl FnOnce(&Kind) -> Result<R> + Send) -> Result<R> {
        let Some(AnyExplainer(kind)) = &self.explainer else {
            return Err(Error::Contributions(
                "the predictor was built without an explainer; give PredictorBuilder::explainer a \
                 contributions::Explainer of the forest, or an Interventional"
                    .into(),
            ));
        };
        let Some(pool) = &self.pool else { return explain(kind) };
        let (mut explain, mut result) = (Some(explain), None);
        parallel::inside_of(pool, &mut || {
            result = explain.take().map(|explain| explain(kind)).transpose()?;
            Ok(())
        })?;
        result.ok_or_else(|| Error::Internal("a pool that did not run its work".into()))
    }
}

fn paths(kind: &Kind) -> Result<&Explainer> {
    match kind {
        Kind::Paths(explainer) => Ok(explainer),
        Kind::Background(_) => Err(Error::Contributions(
            "there are no interactions against a background; give PredictorBuilder::explainer a contributions::Explainer"
                .into(),
        )),
    }
}
