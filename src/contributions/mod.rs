//! Contributions: how much each feature adds to a row's margins (SHAP values).
//!
//! | file | subject |
//! |---|---|
//! | `reference` | the definition: two exact interpreters in `f64` |
//! | `oblivious` | the order of questions in CatBoost's trees |
//! | `program` | a tree as a list of steps, made once for a model |
//! | `quadrature` | points at which the steps are computed |
//! | `lanes` | rows side by side in a register |
//! | `kernel` | runs a tree's steps for the rows of a register |
//! | `run` | blocks of rows, threads, sums over trees |
//!
//! What comes in here: what a forest means for single features of a row. What stays out: schedules, layouts and plans,
//! which are about leaves that a row reaches; contributions depend on all leaves.

mod kernel;
mod lanes;
mod oblivious;
mod program;
mod quadrature;
pub mod reference;
mod run;

use crate::{
    cpu::{Row, Rows},
    error::{Error, Result},
    forest::{Aggregate, CompareType, Forest},
};
use program::Program;

/// Explains a forest's margins: path-dependent SHAP values, as XGBoost's `pred_contribs` and LightGBM's `pred_contrib`
/// compute them. It is immutable and `Send + Sync`.
///
/// A row's contributions to a margin are one number for each feature, and a last one, the bias: the margin that is expected
/// where nothing of the row is known. They add up to the row's margin, before the forest's scale and transform. What is
/// expected at a split is the mean of its children, weighted by their [covers](crate::forest::Covers).
///
/// Every leaf's share is an integral of a polynomial of the features on its path, computed by a Gauss quadrature that is
/// exact for the depth of the tree (Yu, Bifet, Read, Xu: *Linear TreeSHAP*, NeurIPS 2022, for the polynomial). The cost of a
/// tree is `leaves x ceil(depth / 2)`; rows lie side by side in registers.
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
    /// The program for `f64` rows, where the forest compares in `f64`.
    doubles: Option<Program>,
    columns: usize,
    outputs: usize,
}

impl Explainer {
    /// Prepares path-dependent contributions of a forest. The work and the memory are linear in the forest's size.
    ///
    /// # Errors
    /// [`Error::Contributions`]: the forest has no covers, or its margin is the least or largest leaf and no sum.
    /// [`Error::Forest`]: the forest breaks a rule.
    pub fn new(forest: &Forest) -> Result<Self> {
        forest.verify()?;
        if forest.aggregate != Aggregate::Sum {
            return Err(Error::Contributions(format!(
                "the margin is the {} leaf and no sum, which has no contributions here; explain a model that sums its trees",
                forest.aggregate.name()
            )));
        }
        // A forest without splits needs no covers.
        if forest.covers.is_none() && forest.trees.iter().any(|tree| tree.nodes.len() > 1) {
            return Err(Error::Contributions(format!(
                "the model has no covers (how much training data reached each node), which path-dependent contributions \
                 need; ONNX files never hold covers, other files lose them where one is negative or missing: {}",
                "hand over the model file of XGBoost, LightGBM or CatBoost itself"
            )));
        }
        let forest = &*oblivious::explained(forest);
        let doubles = (forest.compare == CompareType::F64).then(|| Program::new(forest, CompareType::F64));
        Ok(Self {
            singles: Program::new(forest, CompareType::F32),
            doubles,
            columns: forest.features.len(),
            outputs: forest.outputs as usize,
        })
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
        let mut out = Vec::new();
        let length =
            rows.len().checked_mul(self.width()).filter(|length| out.try_reserve_exact(*length).is_ok());
        let Some(length) = length else {
            let (rows, width) = (rows.len(), self.width());
            return Err(Error::Rows(format!(
                "no memory for {rows} rows of {width} contributions; explain fewer at a time"
            )));
        };
        out.resize(length, 0.0);
        self.contributions_into(rows, &mut out)?;
        Ok(out)
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)`, the bias last. Large batches run on
    /// the threads of the current rayon pool. Each thread takes scratch of at most some MB.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or `out` has another length.
    pub fn contributions_into<T: Row>(&self, rows: &Rows<'_, T>, out: &mut [f32]) -> Result<()> {
        if rows.columns() != self.columns {
            return Err(Error::Columns { found: rows.columns(), expected: self.columns });
        }
        if rows.len().checked_mul(self.width()) != Some(out.len()) {
            let (room, rows, width) = (out.len(), rows.len(), self.width());
            return Err(Error::Rows(format!(
                "room for {room} values, {rows} rows of {width} contributions are asked for"
            )));
        }
        match (T::doubles(rows), &self.doubles) {
            (Some(rows), Some(program)) => run::run::<f64, f64>(program, rows, out),
            _ => run::run::<T, f32>(&self.singles, rows, out),
        }
        Ok(())
    }

    /// Returns a line that says how the contributions are computed: the algorithm, the points of its quadrature, and the
    /// instruction set.
    pub fn plan(&self) -> String {
        self.singles.describe()
    }
}

/// Returns the share of the left child in the cover of its parent. Two children without cover share evenly.
fn ratio(forest: &Forest, tree: usize, left: u32, right: u32) -> f64 {
    let cover = |n: u32| forest.covers.as_ref().map_or(0.0, |covers| covers.tree(tree)[n as usize].0);
    let (left, right) = (cover(left), cover(right));
    if left + right > 0.0 { left / (left + right) } else { 0.5 }
}
