//! Why a prediction: contributions and interactions by a predictor's explainer.

use super::Predictor;
use crate::{
    contributions::RowExplainer,
    cpu::{Row, Rows},
    error::{Error, Result},
    parallel,
};

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
        self.explained(|explainer| explainer.contributions(rows))
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)`, the bias last.
    ///
    /// # Errors
    /// [`Error::Contributions`]: the predictor was built without an explainer. The rows have another number of columns
    /// than the forest has features, or `out` has the wrong length.
    pub fn contributions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.explained(|explainer| explainer.contributions_into(rows, out))
    }

    /// Returns the interactions of rows, `rows x outputs x (features + 1) x (features + 1)`
    /// ([`RowExplainer::interactions`]).
    ///
    /// # Errors
    /// [`Error::Contributions`]: the predictor was built without an explainer, or the paths of the forest's trees have too
    /// many features. The rows have another number of columns than the forest has features, or there is no memory for
    /// the results.
    pub fn interactions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        self.explained(|explainer| explainer.interactions(rows))
    }

    /// Writes the interactions of rows into `out`, `rows x outputs x (features + 1) x (features + 1)`.
    ///
    /// # Errors
    /// As for [`interactions`](Self::interactions), or `out` has the wrong length.
    pub fn interactions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.explained(|explainer| explainer.interactions_into(rows, out))
    }

    /// Calls `explain` with the explainer, on the predictor's pool if it has one.
    fn explained<R: Send>(&self, explain: impl FnOnce(&RowExplainer) -> Result<R> + Send) -> Result<R> {
        let Some(explainer) = &self.explainer else {
            return Err(Error::Contributions(
                "the predictor was built without an explainer; give PredictorBuilder::explainer a \
                 contributions::Explainer of the forest, or an Interventional"
                    .into(),
            ));
        };
        let Some(pool) = &self.pool else { return explain(explainer) };
        let (mut explain, mut result) = (Some(explain), None);
        parallel::inside_of(pool, &mut || {
            result = explain.take().map(|explain| explain(explainer)).transpose()?;
            Ok(())
        })?;
        result.ok_or_else(|| Error::Internal("a pool that did not run its work".into()))
    }
}
