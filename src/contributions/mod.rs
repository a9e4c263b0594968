//! Contributions: how much each feature adds to a row's margins (SHAP values).
//!
//! | file | subject |
//! |---|---|
//! | `reference` | the definition: two exact interpreters in `f64` |
//! | `oblivious` | the order of splits in CatBoost's trees |
//! | `program` | a tree as a list of instructions, made once for a model |
//! | `quadrature` | points at which the instructions are computed |
//! | `lanes` | rows side by side in a register |
//! | `kernel` | runs a tree's instructions for the rows of a register |
//! | `tables` | makes the pattern tables of trees with few splits |
//! | `lookup` | adds up entries of pattern tables for the rows of a register |
//! | `run` | row blocks, threads, sums over trees |
//! | `pairs` | the features above each split, for interactions |
//! | `background_tables` | makes the pattern tables of contributions against a background |
//! | `shares` | how features share a leaf's value, for a row and a background row |
//! | `interventional` | contributions against a background of rows |
//! | `two_rows` | the same for trees whose paths have very many features |
//! | `background_interactions` | interactions against a background of rows |
//! | `row_explainer` | one type for contributions by covers and against a background |
//! | `interactions` | the counterparts of `kernel` and `run` for interactions |
//!
//! This module computes contributions from a forest and rows. It uses no schedules, layouts or plans, because these
//! serve only the leaves that a row reaches, and contributions depend on all leaves.

mod background_interactions;
mod background_tables;
mod interactions;
mod interventional;
mod kernel;
mod lanes;
mod lookup;
mod oblivious;
pub(crate) mod pairs;
pub(crate) mod program;
mod quadrature;
pub mod reference;
mod row_explainer;
mod run;
mod shares;
mod tables;
mod two_rows;

use std::sync::{Arc, OnceLock};

use crate::{
    cost::ContributionWork,
    cpu::{Row, Rows},
    error::{Error, Result},
    forest::{Aggregate, CompareType, Forest},
};
use pairs::Pairs;
use program::Program;

pub use interventional::Interventional;
pub use row_explainer::RowExplainer;
pub use tables::Algorithm;

/// Explains a forest's margins: path-dependent SHAP values, as XGBoost's `pred_contribs` and LightGBM's `pred_contrib`
/// compute them. It is immutable and `Send + Sync`.
///
/// A row's contributions to a margin are one number for each feature and, last, the bias: the expected margin if
/// nothing of the row is known. They add up to the row's margin, before the forest's scale and transform. The expected
/// value of a split is the mean of its children's, weighted by their [covers](crate::forest::Covers).
///
/// Every leaf's share is an integral of a polynomial of the features on its path, computed by a Gauss quadrature that
/// is exact for paths of up to 22 features and within 2^-30 for longer ones (Yu, Bifet, Read, Xu: *Linear TreeSHAP*,
/// NeurIPS 2022, for the polynomial). The cost of a tree is `leaves x ceil(depth / 2)`; rows lie side by side in
/// registers. Shallow trees and oblivious trees have *pattern tables* in place of the quadrature: the contributions of
/// all patterns of sides that a row may take at up to eight splits (Nadel, Wettenstein: *From Decision Trees to Boolean
/// Logic: A Fast and Unified SHAP Algorithm*, 2025).
///
/// ```
/// use fangorn::{Predictor, contributions::Explainer, cpu::Rows, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let columns = forest.features.len();
/// let rows = vec![0.5f32; 2 * columns];
/// let rows = Rows::new(&rows, columns)?;
/// // 2 rows x 1 output x (features + 1)
/// let contributions = Explainer::new(&forest)?.contributions(&rows)?;
/// assert_eq!(contributions.len(), 2 * (columns + 1));
/// let sum: f32 = contributions[..columns + 1].iter().sum();
/// let margin = Predictor::new(&forest)?.margins(&rows)?[0];
/// assert!((sum - margin).abs() < 1e-5);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Explainer {
    /// The program for rows that are compared in `f32`.
    singles: Program,
    /// The program for `f64` rows, if the forest compares in `f64`.
    doubles: Option<Program>,
    /// The data that interactions need besides a program. The first call for interactions computes them. Both programs
    /// have the same instructions, so they share these data.
    pairs: OnceLock<Arc<Pairs>>,
    columns: usize,
    outputs: usize,
}

impl Explainer {
    /// Prepares path-dependent contributions of a forest, and chooses the [algorithm](Algorithm) of each tree by its
    /// estimated time. Besides pattern tables, which take at most 256 MB, work and memory are linear in the forest's
    /// size.
    ///
    /// # Errors
    /// [`Error::Contributions`]: the forest has no covers, or its margin is the least or largest leaf and no sum.
    /// [`Error::Forest`]: the forest breaks a rule.
    pub fn new(forest: &Forest) -> Result<Self> {
        Self::with_algorithm(forest, Algorithm::Estimated)
    }

    /// Prepares path-dependent contributions of a forest by a given algorithm, for measurements and tests.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_algorithm(forest: &Forest, algorithm: Algorithm) -> Result<Self> {
        let forest = &*prepare(forest)?;
        let mut singles = Program::new(forest, CompareType::F32);
        let mut doubles =
            (forest.compare == CompareType::F64).then(|| Program::new(forest, CompareType::F64));
        if algorithm != Algorithm::Quadrature {
            tables::add(&mut singles, forest, algorithm);
            doubles.iter_mut().for_each(|doubles| tables::share(&singles, doubles));
        }
        Ok(Self {
            singles,
            doubles,
            pairs: OnceLock::new(),
            columns: forest.features.len(),
            outputs: forest.outputs as usize,
        })
    }

    /// Checks that a forest has path-dependent contributions, without preparing them.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn check(forest: &Forest) -> Result<()> {
        prepare(forest).map(drop)
    }

    /// Returns the numbers of margins and of columns of a row.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.outputs, self.columns]
    }

    /// Returns the number of values of a row: `outputs x (features + 1)`.
    pub fn width(&self) -> usize {
        self.outputs * (self.columns + 1)
    }

    /// Returns the contributions of rows, `rows x outputs x (features + 1)`, the bias last.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    pub fn contributions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = room(rows.len(), Some(self.width()), "contributions")?;
        self.contributions_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)`, the bias last. Large batches run
    /// on the threads of the current rayon pool. Each thread takes scratch of at most a few MB.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has the wrong length.
    pub fn contributions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.check_call(rows, out, Some(self.width()), "contributions")?;
        match (T::doubles(rows), &self.doubles) {
            (Some(rows), Some(program)) => run::run::<f64, f64>(program, rows, out),
            _ => run::run::<T, f32>(&self.singles, rows, out),
        }
        Ok(())
    }

    /// Returns the number of interactions of a row, `outputs x (features + 1) x (features + 1)`, or `None` if it
    /// overflows `usize`.
    pub fn interactions_width(&self) -> Option<usize> {
        self.width().checked_mul(self.columns + 1)
    }

    /// Returns the interactions of rows, `rows x outputs x (features + 1) x (features + 1)`, as XGBoost's
    /// `pred_interactions` computes them.
    ///
    /// A row's interactions are a symmetric matrix. The element of two features is half of the amount that they add
    /// together and neither adds alone (half of the Shapley interaction index; Lundberg, Erion, Lee: *Consistent
    /// Individualized Feature Attribution for Tree Ensembles*, 2018, section 4). The diagonal holds the rest of each
    /// feature's contribution, so that a row of the matrix adds up to a feature's contribution. The last element is the
    /// bias; the other elements of the last row and column are 0.
    ///
    /// The cost of a tree is `leaves x depth x ceil(depth / 2)`, whatever the number of columns, plus the time to write
    /// the results.
    ///
    /// ```
    /// use fangorn::{contributions::Explainer, cpu::Rows, import};
    ///
    /// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
    /// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
    /// let columns = forest.features.len();
    /// let rows = vec![0.5f32; columns];
    /// let rows = Rows::new(&rows, columns)?;
    /// let explainer = Explainer::new(&forest)?;
    /// let interactions = explainer.interactions(&rows)?;
    /// let contributions = explainer.contributions(&rows)?;
    /// let first: f32 = interactions[..columns + 1].iter().sum();
    /// assert!((first - contributions[0]).abs() < 1e-5);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or there is no memory for the results.
    /// [`Error::Contributions`]: the paths of the forest's trees have too many features.
    pub fn interactions<T: Row>(&self, rows: &Rows<'_, T>) -> Result<Vec<f32>> {
        let mut out = room(rows.len(), self.interactions_width(), "interactions")?;
        self.interactions_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes the interactions of rows into `out`, `rows x outputs x (features + 1) x (features + 1)`; see
    /// [`interactions`](Self::interactions). Large batches run on the threads of the current rayon pool. Each thread
    /// takes scratch of a few MB, or of twice the results of 16 rows if that is more.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has the wrong length.
    /// [`Error::Contributions`]: the paths of the forest's trees have too many features.
    pub fn interactions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        self.check_call(rows, out, self.interactions_width(), "interactions")?;
        let pairs = self.pairs()?;
        match (T::doubles(rows), &self.doubles) {
            (Some(rows), Some(program)) => interactions::run::<f64, f64>(program, &pairs, rows, out),
            _ => interactions::run::<T, f32>(&self.singles, &pairs, rows, out),
        }
        Ok(())
    }

    /// Returns the data that interactions need besides a program.
    fn pairs(&self) -> Result<Arc<Pairs>> {
        if let Some(pairs) = self.pairs.get() {
            return Ok(pairs.clone());
        }
        let computed = Arc::new(Pairs::new(&self.singles)?);
        Ok(self.pairs.get_or_init(|| computed).clone())
    }

    /// Checks that there is memory for the contributions of `rows` rows.
    #[cfg(feature = "burn")]
    pub(crate) fn check_room(&self, rows: usize) -> Result<()> {
        reserve(rows, Some(self.width()), "contributions").map(drop)
    }

    /// Prepares interactions, and checks that there is memory for those of `rows` rows.
    #[cfg(feature = "burn")]
    pub(crate) fn prepare_interactions(&self, rows: usize) -> Result<()> {
        self.pairs()?;
        reserve(rows, self.interactions_width(), "interactions").map(drop)
    }

    /// Checks the rows' number of columns, and that `out` has room for `width` values of each row.
    fn check_call<T: Row>(
        &self,
        rows: &Rows<'_, T>,
        out: &[f32],
        width: Option<usize>,
        what: &str,
    ) -> Result<()> {
        if rows.columns() != self.columns {
            return Err(Error::Columns { found: rows.columns(), expected: self.columns });
        }
        if width.and_then(|width| rows.len().checked_mul(width)) != Some(out.len()) {
            let (room, rows, width) = (out.len(), rows.len(), width.unwrap_or(usize::MAX));
            return Err(Error::Rows(format!(
                "room for {room} values, {rows} rows of {width} {what} are asked for"
            )));
        }
        Ok(())
    }

    /// Returns what a row takes, as the choice of algorithms counts it.
    pub fn work(&self) -> ContributionWork {
        tables::work(&self.singles)
    }

    /// Returns a line that says how the contributions are computed: the algorithms, the points of the quadrature, and
    /// the instruction set.
    pub fn algorithm(&self) -> String {
        self.singles.describe()
    }
}

/// Checks that a forest has path-dependent contributions, and returns it with the splits that define them.
///
/// # Errors
/// The errors of [`Explainer::new`].
pub(crate) fn prepare(forest: &Forest) -> Result<std::borrow::Cow<'_, Forest>> {
    forest.verify()?;
    if forest.aggregate != Aggregate::Sum {
        return Err(Error::Contributions(format!(
            "the margin is the {} leaf and not a sum, so it has no contributions; explain a model that sums its trees",
            forest.aggregate.name()
        )));
    }
    // A forest without splits needs no covers.
    if forest.covers.is_none() && forest.trees.iter().any(|tree| tree.nodes.len() > 1) {
        return Err(Error::Contributions(format!(
            "the model has no covers (how much training data reached each node), which path-dependent contributions \
             need; ONNX files never hold covers, other files lose them if one is negative or missing: {}",
            "give the model file of XGBoost, LightGBM or CatBoost itself, or explain the model against a background of \
             rows (contributions::Interventional)"
        )));
    }
    Ok(oblivious::prepare(forest))
}

/// Returns zeros for `width` values of each row.
fn room(rows: usize, width: Option<usize>, what: &str) -> Result<Vec<f32>> {
    let mut out = reserve(rows, width, what)?;
    // The product does not overflow, because there is memory for it.
    out.resize(rows * width.unwrap_or(0), 0.0);
    Ok(out)
}

/// Returns memory for `width` values of each row.
fn reserve(rows: usize, width: Option<usize>, what: &str) -> Result<Vec<f32>> {
    let mut out = Vec::new();
    let length = width.and_then(|width| rows.checked_mul(width));
    if length.is_none_or(|length| out.try_reserve_exact(length).is_err()) {
        let width = width.unwrap_or(usize::MAX);
        return Err(Error::Rows(format!(
            "no memory for {rows} rows of {width} {what}; explain fewer at a time"
        )));
    }
    Ok(out)
}

/// Returns the share of the left child in the cover of its parent. If neither child has cover, it is one half.
fn ratio(forest: &Forest, tree: usize, left: u32, right: u32) -> f64 {
    let cover = |n: u32| forest.covers.as_ref().map_or(0.0, |covers| covers.tree(tree)[n as usize].0);
    let (left, right) = (cover(left), cover(right));
    if left + right > 0.0 { left / (left + right) } else { 0.5 }
}
