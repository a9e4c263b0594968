//! The class `Model`.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use fangorn::{
    Forest, Predictor,
    auto::{Explanation, TuningResult},
    check::Warning,
    contributions::{Explainer, Interventional, RowExplainer},
    cpu::Rows,
    file::Contents,
    forest::{ClassRule, reference},
};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::{
    IntoPyObjectExt,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyDict, PyList},
};
use rayon::prelude::*;

use crate::{
    arrays::{self, Held},
    difference::{self, Predictions},
    error::{crate_error, refusal},
    options::Options,
    pools, rows,
    source::Source,
    tuning,
};

/// A trained decision forest, compiled for this machine's CPU.
///
/// `fangorn.load`, `fangorn.loads` and the functions `fangorn.from_xgboost`, `from_lightgbm`, `from_catboost`,
/// `from_sklearn`, `from_onnx` and `from_treelite` make a model. A model never changes, so several threads may use it
/// at the same time. Other threads of Python run while it predicts. It can be pickled. The pickle holds the options of
/// `load`, so if `schedule` was the path of a file, unpickling reads that file again.
///
/// Most methods take `rows`: n rows of `n_features` columns. They can be
///
/// - an array of numpy with two dimensions, of any type of real numbers and any strides,
/// - a DataFrame of pandas or polars, a Table or a RecordBatch of pyarrow,
/// - a sparse matrix of scipy,
/// - a tensor of torch on the CPU,
/// - a list of rows, each a list of numbers,
/// - any other object that supports DLPack (in the memory of the CPU), Arrow's C stream or numpy's `__array__`.
///
/// NaN in an array and a null in a table are missing values. An element that a sparse matrix does not store is missing
/// for models of XGBoost and treelite, and 0 for all others.
///
/// The columns of an array are taken in their order. If the model has `feature_names`, the columns of a DataFrame, a
/// Table or a RecordBatch are matched to the model's columns by name, and columns that the model does not have are
/// ignored. If the model has no names, the table must have exactly the model's columns, in the model's order.
#[pyclass(frozen, module = "fangorn")]
pub struct Model {
    forest: Arc<Forest>,
    predictor: Predictor,
    options: Options,
    /// Whether rows of plain numbers are taken: [`rows::takes_numbers`].
    takes_numbers: bool,
    explainer: OnceLock<RowExplainer>,
    labels: PyOnceLock<Py<PyAny>>,
    leaf_ids: OnceLock<Vec<u32>>,
    /// The result of a search, if this model came from one.
    tuned: Option<TuningResult>,
}

/// A model's pickle: a function, and its arguments, which are the bytes of a file and the options.
type Pickle<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, Bound<'py, PyDict>));

/// The maximum number of results of a call that are written to the stack.
const FEW: usize = 64;

/// Makes Python warnings of a predictor's warnings. Python shows each of them once.
pub fn warn<'w>(py: Python<'_>, warnings: impl IntoIterator<Item = &'w Warning>) -> PyResult<()> {
    for warning in warnings {
        py.import("warnings")?.call_method1("warn", (warning.to_string(),))?;
    }
    Ok(())
}

impl Model {
    /// Compiles a forest. If the self-check made slower code replace the fast one, a Python warning says so.
    pub fn new(py: Python<'_>, forest: Forest, options: Options) -> PyResult<Self> {
        let predictor = pools::run(py, options.threads, || options.predictor(&forest))??;
        warn(py, predictor.warnings())?;
        Ok(Self {
            takes_numbers: rows::takes_numbers(&forest).is_ok(),
            forest: Arc::new(forest),
            predictor,
            options,
            explainer: OnceLock::new(),
            labels: PyOnceLock::new(),
            leaf_ids: OnceLock::new(),
            tuned: None,
        })
    }

    /// The model's forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Runs `work` without the interpreter's lock. If `shared` is set, it runs on the threads of the model's pool.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        shared: bool,
        work: impl FnOnce() -> fangorn::Result<R> + Send,
    ) -> PyResult<R> {
        match shared {
            true => pools::run(py, self.options.threads, work)?,
            false => py.detach(work),
        }
        .map_err(crate_error)
    }

    /// Tells whether the crate may predict these rows on several threads.
    fn shares(&self, source: &Source<'_>) -> bool {
        let rows = source.len();
        match source {
            _ if self.options.threads == 1 => false,
            Source::Singles(..) | Source::Doubles(..) => {
                rows > rows::ROWS_A_TASK || self.predictor.uses_several_threads(rows)
            }
            // These are copied piece by piece.
            Source::Columns(_) | Source::Sparse(..) => rows > 1,
        }
    }

    /// Calls `work` with each source of the rows. Returns its results, and the number of rows.
    fn each_source<'py, R: Send>(
        &self,
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        shares: impl Fn(&Source<'_>) -> bool,
        work: impl Fn(&Source<'_>) -> fangorn::Result<Vec<R>> + Sync,
    ) -> PyResult<(usize, Vec<R>)> {
        let py = slf.py();
        let columns = self.forest.features.len();
        let mut all = SourceResults { rows: 0, found: Vec::new() };
        rows::each(slf.as_any(), rows, &self.forest, |source, reversed| {
            let count = source.len();
            source.check(columns).map_err(crate_error)?;
            let mut found = self.run(py, shares(source), || work(source))?;
            if reversed {
                found = rows::reversed(found, count);
            }
            all.add(count, found);
            Ok(())
        })?;
        Ok((all.rows, all.found))
    }

    /// Returns margins or values, if `rows` is an array of a few rows: the path with the least overhead.
    fn few<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        values: bool,
    ) -> Option<PyResult<Bound<'py, PyAny>>> {
        if !self.takes_numbers {
            return None;
        }
        let held = match Held::of(rows) {
            Ok(held) => held?,
            Err(error) => return Some(Err(error)),
        };
        let width = if values { self.predictor.width() } else { self.forest.outputs as usize };
        let view = held
            .view()
            .filter(|view| view.shape[0].saturating_mul(width) <= FEW && view.reversed == [false; 2])?;
        let several = self.predictor.uses_several_threads(view.shape[0]);
        let source = Source::of_view(view).ok().filter(|_| !several && held.dimensions() == 2)?;
        let mut room = [0.0; FEW];
        let out = &mut room[..view.shape[0] * width];
        let done = py.detach(|| match (&source, values) {
            (Source::Singles(rows, _), true) => Some(self.predictor.values_into(rows, out)),
            (Source::Doubles(rows, _), true) => Some(self.predictor.values_into(rows, out)),
            (Source::Singles(rows, _), false) => Some(self.predictor.margins_into(rows, out)),
            (Source::Doubles(rows, _), false) => Some(self.predictor.margins_into(rows, out)),
            _ => None,
        })?;
        if let Err(error) = done {
            return Some(Err(crate_error(error)));
        }
        let found = PyArray1::from_slice(py, out);
        Some(match width {
            1 => found.into_bound_py_any(py),
            width => found.reshape([view.shape[0], width]).and_then(|found| found.into_bound_py_any(py)),
        })
    }

    fn floats<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        base_margin: Option<&Bound<'py, PyAny>>,
        values: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (model, py) = (slf.get(), slf.py());
        let width = if values { model.predictor.width() } else { model.forest.outputs as usize };
        if let Some(margins) = base_margin {
            let (count, found) = model.starting_at(slf, rows, margins, values)?;
            return shaped(py, found, count, width);
        }
        if let Some(few) = model.few(py, rows, values) {
            return few;
        }
        let predictor = &model.predictor;
        let (count, found) = model.each_source(
            slf,
            rows,
            |source| model.shares(source),
            |source| if values { source.values(predictor) } else { source.margins(predictor) },
        )?;
        shaped(py, found, count, width)
    }

    fn slots<'py>(&self, slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<(usize, Vec<u32>)> {
        let predictor = &self.predictor;
        self.each_source(slf, rows, |source| self.shares(source), |source| source.slots(predictor))
    }

    /// Calls `of_row` with the leaf slots that each row reaches, and returns its results.
    fn of_slots<'py, R: Send>(
        &self,
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        of_row: impl Fn(usize, &[u32]) -> Vec<R> + Sync,
    ) -> PyResult<(usize, Vec<R>)> {
        let (count, slots) = self.slots(slf, rows)?;
        let trees = self.forest.trees.len();
        let shared = count > rows::ROWS_A_TASK && self.options.threads > 1;
        let found = self.run(slf.py(), shared, || {
            let row = |row: usize| of_row(row, &slots[row * trees..][..trees]);
            Ok(match shared {
                true => (0..count).into_par_iter().flat_map_iter(row).collect(),
                false => (0..count).flat_map(row).collect(),
            })
        })?;
        Ok((count, found))
    }

    /// Returns margins or values, with sums that start at the rows' own margins and add up in the producer's order and
    /// type.
    fn starting_at<'py>(
        &self,
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        margins: &Bound<'py, PyAny>,
        values: bool,
    ) -> PyResult<(usize, Vec<f32>)> {
        let (forest, outputs) = (&*self.forest, self.forest.outputs as usize);
        let library = &*forest.producer.library;
        if !matches!(library, "xgboost" | "catboost") {
            return Err(refusal(format!(
                "base_margin: a model of {library} takes none, only models of XGBoost and CatBoost do; add the numbers \
                 to the result of Model.margin"
            )));
        }
        let numpy = slf.py().import("numpy")?;
        let starts =
            numpy.call_method1("ascontiguousarray", (margins, "float32"))?.call_method1("ravel", ())?;
        let starts: Vec<f32> = starts.cast::<PyArray1<f32>>()?.to_vec()?;
        let (count, slots) = self.slots(slf, rows)?;
        if count.checked_mul(outputs) != Some(starts.len()) {
            return Err(refusal(format!(
                "base_margin has {} values, but {count} rows of {outputs} outputs need {}; give one for each output of \
                 each row",
                starts.len(),
                count.saturating_mul(outputs)
            )));
        }
        let trees = forest.trees.len();
        let of_row = |row: usize| {
            let (slots, start) = (&slots[row * trees..][..trees], &starts[row * outputs..][..outputs]);
            let margins = reference::producer_margins(forest, slots, Some(start));
            let found = if values { reference::values_of_sums(forest, &margins) } else { margins };
            found.into_iter().map(|value| value as f32)
        };
        Ok((count, slf.py().detach(|| (0..count).flat_map(of_row).collect())))
    }

    /// Predicts everything in which two models are compared.
    fn predictions<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Predictions> {
        let model = slf.get();
        let predictor = &model.predictor;
        let (count, slots) = model.slots(slf, rows)?;
        let ids = model.leaf_ids.get_or_init(|| model.forest.leaf_ids());
        let shares = |source: &Source<'_>| model.shares(source);
        let (_, margins) = model.each_source(slf, rows, shares, |source| source.margins(predictor))?;
        let (_, values) = model.each_source(slf, rows, shares, |source| source.values(predictor))?;
        let leaf_ids = slots.into_iter().map(|slot| ids[slot as usize]).collect();
        Ok(Predictions { rows: count, leaf_ids, margins, values })
    }

    fn explainer(&self, py: Python<'_>) -> PyResult<RowExplainer> {
        if let Some(explainer) = self.explainer.get() {
            return Ok(explainer.clone());
        }
        let made = self.run(py, true, || Explainer::new(&self.forest))?;
        Ok(self.explainer.get_or_init(|| made.into()).clone())
    }

    fn explainer_against(slf: &Bound<'_, Self>, background: &Bound<'_, PyAny>) -> PyResult<RowExplainer> {
        let model = slf.get();
        let (_, background) = model.each_source(slf, background, |_| false, |source| source.to_rows())?;
        let explainer = model.run(slf.py(), true, || {
            let background = Rows::new(&background, model.forest.features.len())?;
            Interventional::new(&model.forest, &background)
        })?;
        Ok(explainer.into())
    }

    fn explained<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        background: Option<&Bound<'py, PyAny>>,
        interactions: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let model = slf.get();
        let explainer = match background {
            Some(background) => Self::explainer_against(slf, background)?,
            None => model.explainer(slf.py())?,
        };
        let (count, found) =
            model.each_source(slf, rows, |_| true, |source| source.explained(&explainer, interactions))?;
        model.explanations(slf.py(), found, count, interactions)
    }

    /// Makes an array of contributions or interactions. It has no dimension for the outputs if there is only one.
    fn explanations<'py>(
        &self,
        py: Python<'py>,
        found: Vec<f32>,
        rows: usize,
        interactions: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (outputs, columns) = (self.forest.outputs as usize, self.forest.features.len() + 1);
        let shape = [rows, outputs, columns, columns];
        let shape = if interactions { &shape[..] } else { &shape[..3] };
        match outputs {
            1 => arrays::array(py, found, &[&shape[..1], &shape[2..]].concat()),
            _ => arrays::array(py, found, shape),
        }
    }

    fn contents(&self) -> Vec<u8> {
        Contents::new((*self.forest).clone()).to_bytes()
    }
}

/// Results of all sources of the rows.
struct SourceResults<R> {
    rows: usize,
    found: Vec<R>,
}

impl<R> SourceResults<R> {
    fn add(&mut self, rows: usize, found: Vec<R>) {
        self.rows += rows;
        match self.found.is_empty() {
            true => self.found = found,
            false => self.found.extend(found),
        }
    }
}

/// Makes an array of `width` results for each row. It has one dimension if there is one result for each row.
fn shaped<'py, T: numpy::Element>(
    py: Python<'py>,
    found: Vec<T>,
    rows: usize,
    width: usize,
) -> PyResult<Bound<'py, PyAny>> {
    match width {
        1 => arrays::array(py, found, &[rows]),
        width => arrays::array(py, found, &[rows, width]),
    }
}

#[pymethods]
impl Model {
    /// Predict rows: probabilities for a classifier, predictions of the target for a regressor.
    ///
    /// The results are those of XGBoost's and LightGBM's `Booster.predict`, and for models of CatBoost and scikit-learn
    /// those of `predict_proba` if the model is a classifier, otherwise of `predict`. An IsolationForest gives its
    /// anomaly score, the opposite of `score_samples`. To get labels, call `predict_class`.
    ///
    /// Parameters
    /// ----------
    /// rows : array, DataFrame, table, sparse matrix or tensor
    ///     n rows of `n_features` columns. `help(fangorn.Model)` says which types are read.
    /// base_margin : array of numbers, `(n,)` or `(n, n_outputs)`, optional
    ///     A start for the sums of each row. It replaces the base score of a model of XGBoost, as `base_margin` does
    ///     there. It is added to the margin of a model of CatBoost, as `baseline` is there. Other models refuse it.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of float32
    ///     `(n,)` if a row has one value, otherwise `(n, n_values)`.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     The rows do not have the model's columns, a value can't be read as a number or a category, or `base_margin`
    ///     does not fit the rows or the model.
    /// TypeError
    ///     The rows are of a type that is not read. The message says how to convert them.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> model = fangorn.load(zoo / "churn/model.ubj")
    /// >>> model.predict(numpy.zeros((2, 12), numpy.float32)).shape
    /// (2,)
    #[pyo3(signature = (rows, *, base_margin = None))]
    fn predict<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        base_margin: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::floats(slf, rows, base_margin, true)
    }

    /// Predict margins, the sums before the objective's transform: log odds, for example.
    ///
    /// They are what XGBoost returns with `output_margin=True`, LightGBM with `raw_score=True`, CatBoost as
    /// `RawFormulaVal`, and `decision_function` of scikit-learn's gradient boosting.
    ///
    /// Parameters
    /// ----------
    /// rows, base_margin
    ///     As for `predict`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of float32
    ///     `(n,)` if the model has one output, otherwise `(n, n_outputs)`.
    ///
    /// Raises
    /// ------
    /// fangorn.Error, TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> model = fangorn.load(zoo / "softprob/model.ubj")
    /// >>> model.margin(numpy.zeros((3, 8))).shape
    /// (3, 5)
    #[pyo3(signature = (rows, *, base_margin = None))]
    fn margin<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        base_margin: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::floats(slf, rows, base_margin, false)
    }

    /// Predict the class of each row, by its label.
    ///
    /// Ties are decided as the library that trained the model decides them.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of int64 or str
    ///     Elements of `classes`: `(n,)`, or `(n, n_outputs)` if the model decides for each output separately, as
    ///     models of several binary targets do.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     The model is no classifier, or the rows are refused as by `predict`.
    /// TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> model = fangorn.load(zoo / "sklearn-forest-names/model.npz")
    /// >>> model.predict_class(numpy.zeros((1, 5))).tolist()
    /// ['yes, perhaps']
    fn predict_class<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (model, py) = (slf.get(), slf.py());
        let forest = &*model.forest;
        if forest.classes.rule == ClassRule::None {
            return Err(refusal(format!(
                "the model has no classes: its objective {} is that of a regressor, a ranker or a detector; call \
                 predict",
                forest.producer.objective
            )));
        }
        let (count, numbers) =
            model.of_slots(slf, rows, |_, slots| reference::classes_of_slots(forest, slots))?;
        let a_row = numbers.len().checked_div(count).unwrap_or(1).max(1);
        let numbers: Vec<i64> = numbers.into_iter().map(i64::from).collect();
        let numbers = shaped(py, numbers, count, a_row)?;
        match forest.classes.labels.is_empty() {
            true => Ok(numbers),
            false => model.classes(py)?.call_method1("take", (numbers,)),
        }
    }

    /// Return the leaf that each row reaches in each tree, as a leaf id: the number that the model's own library gives
    /// the leaf, counted within its tree.
    ///
    /// It is what XGBoost and LightGBM return with `pred_leaf=True`, CatBoost from `calc_leaf_indexes` and scikit-learn
    /// from `apply`.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of int32
    ///     `(n, n_trees)`, the trees in the order of the model.
    ///
    /// Raises
    /// ------
    /// fangorn.Error, TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> model = fangorn.load(zoo / "churn/model.ubj")
    /// >>> model.leaf(numpy.zeros((2, 12))).shape
    /// (2, 100)
    fn leaf<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let model = slf.get();
        let (count, slots) = model.slots(slf, rows)?;
        let ids = model.leaf_ids.get_or_init(|| model.forest.leaf_ids());
        let found: Vec<i32> = slots.into_iter().map(|slot| ids[slot as usize] as i32).collect();
        arrays::array(slf.py(), found, &[count, model.forest.trees.len()])
    }

    /// Return the leaf that each row reaches in each tree, as a leaf slot: the leaf's row in `leaf_values`.
    ///
    /// Leaf slots number the leaves of the whole forest from 0. `leaf` returns numbers within each tree.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of int64
    ///     `(n, n_trees)`, the trees in the order of the model.
    ///
    /// Raises
    /// ------
    /// fangorn.Error, TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> model = fangorn.load(zoo / "churn/model.ubj")
    /// >>> model.leaf_slot(numpy.zeros((2, 12))).shape
    /// (2, 100)
    fn leaf_slot<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let model = slf.get();
        let (count, slots) = model.slots(slf, rows)?;
        let found: Vec<i64> = slots.into_iter().map(i64::from).collect();
        arrays::array(slf.py(), found, &[count, model.forest.trees.len()])
    }

    /// Return how much each feature adds to each margin of each row: SHAP values, and the bias as the last column.
    ///
    /// A row's contributions and the bias add up to its margin. XGBoost returns the same with `pred_contribs=True`,
    /// LightGBM with `pred_contrib=True`, and CatBoost as `ShapValues`.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    /// background : as `rows`, optional
    ///     A few hundred rows of typical data. The contributions are then interventional: a feature that is not known
    ///     takes its value from each background row in turn, and the results are averaged. Without a background they
    ///     are path-dependent: at a split on a feature that is not known, both children count, weighted by how much
    ///     training data reached each of them.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of float32
    ///     `(n, n_features + 1)` if the model has one output, otherwise `(n, n_outputs, n_features + 1)`.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     The margins are no sums of leaf values, or rows are refused as by `predict`. Without a background: the
    ///     model's file does not say how much training data reached each node; files of scikit-learn and ONNX never do.
    ///     With a background: it has no rows.
    /// TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> model = fangorn.load(zoo / "churn/model.ubj")
    /// >>> rows = numpy.zeros((4, 12), numpy.float32)
    /// >>> numpy.allclose(model.contributions(rows).sum(axis=1), model.margin(rows), atol=1e-5)
    /// True
    #[pyo3(signature = (rows, *, background = None))]
    fn contributions<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        background: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::explained(slf, rows, background, false)
    }

    /// Return how much each pair of features adds to each margin of each row: SHAP interaction values.
    ///
    /// Each row gets a symmetric matrix. Its diagonal holds what a feature adds by itself, and two elements off the
    /// diagonal share what two features add together. The elements of a feature's line add up to its contribution. The
    /// last line and column are for the bias. Without a background, XGBoost returns the same with
    /// `pred_interactions=True`.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    /// background : as `rows`, optional
    ///     As for `contributions`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of float32
    ///     `(n, n_features + 1, n_features + 1)` if the model has one output, otherwise
    ///     `(n, n_outputs, n_features + 1, n_features + 1)`.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     As for `contributions`, or the paths of the trees have too many features.
    /// TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> model = fangorn.load(zoo / "churn/model.ubj")
    /// >>> model.interactions(numpy.zeros((2, 12))).shape
    /// (2, 13, 13)
    #[pyo3(signature = (rows, *, background = None))]
    fn interactions<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        background: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Self::explained(slf, rows, background, true)
    }

    /// Return a text that says how a batch of rows runs, and why.
    ///
    /// The text names the schedule of batches of 4096 rows, and the plan and the engines that run this batch. It lists
    /// the estimated time of each way to evaluate the forest; such estimates choose the default schedule. It ends with
    /// how contributions are computed. To explain the predictions themselves, call `contributions`.
    ///
    /// Parameters
    /// ----------
    /// rows : int, default 4096
    ///     The number of rows of the batch. 0 counts as 1, and a number above 2**24 as 2**24.
    ///
    /// Returns
    /// -------
    /// str
    ///     Several lines.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn
    /// >>> print(fangorn.load(zoo / "churn/model.ubj").explain().splitlines()[0])
    /// model     xgboost binary:logistic, 100 trees, 12 features, 1 output
    #[pyo3(signature = (rows = 4096))]
    fn explain(&self, py: Python<'_>, rows: usize) -> PyResult<String> {
        use std::fmt::Write as _;
        let rows = rows.clamp(1, 1 << 24);
        let plain = Options { threads: 1, ..self.options.clone() };
        let engines = pools::run(py, plain.threads, || {
            let predictor = plain.predictor(&self.forest)?;
            predictor.engines(rows.min(4096)).map_err(crate_error)
        })??;
        let engines: Vec<String> = engines.iter().map(|(engine, _)| engine.to_string()).collect();
        let why = Explanation::new(&self.forest, rows);
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = writeln!(text, "model     {}", self.summary());
        let _ = writeln!(text, "schedule  {}", self.schedule()?.replace('\n', "; "));
        let plan = self.predictor.plan_for(rows);
        let _ = writeln!(text, "runs      a batch of {rows}: plan of {plan}, {}", engines.join(" and "));
        let _ = writeln!(text, "\nEstimates for a batch of {rows} on one thread:\n");
        for way in &why.of_batch {
            let _ = writeln!(text, "{:>10.4} µs a row  {}", way.seconds * 1e6 / rows as f64, way.work.name());
        }
        let from: Vec<_> =
            why.by_batch.iter().map(|(rows, work)| format!("{} from {rows}", work.name())).collect();
        let _ = writeln!(text, "\nfastest   {} rows", from.join(", "));
        let contributions = match self.explainer(py) {
            Ok(explainer) => explainer.algorithm(),
            Err(error) => error.value(py).to_string(),
        };
        let _ = write!(text, "\nContributions: {contributions}");
        Ok(text)
    }

    /// Search for a fast schedule for each size of batch, and return a model that uses the schedules that were found.
    ///
    /// A schedule says how the forest is walked. It changes how long a prediction takes, and never its result. The
    /// schedules are saved in the user's cache folder, or in the folder that the environment variable `FANGORN_CACHE`
    /// names. The next search for this model on this machine starts from them. To predict with them later, load the
    /// model with `schedule="tuned"`.
    ///
    /// Parameters
    /// ----------
    /// rows : as `predict` takes them, optional
    ///     Rows like those that will be predicted. Without them, rows are drawn from the model's thresholds.
    /// batches : sequence of int, default (1, 64, 4096)
    ///     The numbers of rows that will be predicted at a time, each from 1 to 2**24.
    /// budget : float, default 10.0
    ///     The time of the whole search, in seconds, up to a day. The sizes of batches share it equally.
    /// exhaustive : bool, default False
    ///     Whether to time every candidate after the search, whatever the budget, and to report the fastest one.
    /// fresh : bool, default False
    ///     Whether to ignore the schedules that an earlier search saved, and to replace them.
    /// progress : callable, optional
    ///     A function that is called with a line of text now and then, such as `print`. If it raises, the exception is
    ///     printed and the search goes on.
    ///
    /// Returns
    /// -------
    /// Model
    ///     The same forest with the schedules that were found. Its `tuning` holds the measurements. Its `plan` is the
    ///     text of a plan file, which `fangorn.load(path, schedule=plan)` and the command line take.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     `budget` or `batches` is out of its range, or rows are refused as by `predict`.
    /// TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn
    /// >>> model = fangorn.load(zoo / "churn/model.ubj", threads=1)
    /// >>> tuned = model.tune(batches=[64], budget=0.2)
    /// >>> [found["batch"] for found in tuned.tuning]
    /// [64]
    #[pyo3(signature = (rows = None, *, batches = vec![1, 64, 4096], budget = 10.0, exhaustive = false, fresh = false,
        progress = None))]
    fn tune<'py>(
        slf: &Bound<'py, Self>,
        rows: Option<&Bound<'py, PyAny>>,
        batches: Vec<usize>,
        budget: f64,
        exhaustive: bool,
        fresh: bool,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let (model, py) = (slf.get(), slf.py());
        let request = tuning::Request { batches, seconds: budget, exhaustive, fresh, progress };
        request.check()?;
        let rows = rows.map(|rows| {
            model.each_source(
                slf,
                rows,
                |_| false,
                |source| Ok(source.to_rows()?.into_iter().map(|value| value as f32).collect()),
            )
        });
        let rows = rows.transpose()?.map(|(_, values)| values);
        let tuned = tuning::tune(py, &model.forest, &model.options, rows.as_deref(), &request)?;
        let plan_file = tuned.plan_file(&model.forest).to_string();
        let options = Options { schedule: Some(plan_file), ..model.options.clone() };
        let mut made = Self::new(py, (*model.forest).clone(), options)?;
        made.tuned = Some(tuned);
        Ok(made)
    }

    /// The measurements of the search, or None if `tune` did not return this model: a list with a dict for each size of
    /// batch.
    ///
    /// - `batch`: the number of rows of a batch.
    /// - `auto`, `tuned`, and `best` after an exhaustive search: the default schedule, the schedule that the search
    ///   chose, and the fastest of all candidates. Each is a dict of `schedule`, a text, and `us_per_row`, microseconds
    ///   for a row.
    /// - `points`, `tried`, `missed`: the number of candidates, of those that the search timed, and of those that could
    ///   not be timed.
    #[getter]
    fn tuning<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyList>>> {
        self.tuned.as_ref().map(|tuned| tuning::report(py, tuned)).transpose()
    }

    /// The text of a plan file with the schedules of `tune`, or None if `tune` did not return this model.
    #[getter]
    fn plan(&self) -> Option<String> {
        Some(self.tuned.as_ref()?.plan_file(&self.forest).to_string())
    }

    /// Return where this model and another one differ: in their trees and, given rows, in their predictions.
    ///
    /// Parameters
    /// ----------
    /// other : Model
    ///     The model to compare with.
    /// rows : as `predict` takes them, optional
    ///     Rows that both models predict.
    ///
    /// Returns
    /// -------
    /// dict
    ///     In each difference, `a` stands for this model and `b` for the other one. The keys are:
    ///     - `model`: the properties of the whole model that differ, a list of dicts of `field`, `a` and `b`.
    ///     - `trees`: the two numbers of trees. Trees with the same index are compared.
    ///     - `equal_trees`: the number of trees that are equal.
    ///     - `leaf_trees`: the number of trees that differ in leaf values only.
    ///     - `differences`: the first difference of each tree, a list of dicts of `tree` (the index), `path` (the sides
    ///       from the root on, such as `LLR`), `a` and `b` (the two nodes there).
    ///     - `rows`: None without rows, otherwise a dict of `rows` (their number), `other_values` and `other_leaves`
    ///       (the number of rows whose values or leaves differ; `other_leaves` is None if the numbers of trees differ),
    ///       `largest_margin_difference`, `largest_value_difference` and `worst_row` (the row of the latter).
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     One of the models refuses the rows, as by `predict`.
    /// TypeError
    ///     As for `predict`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn
    /// >>> model = fangorn.load(zoo / "churn/model.ubj")
    /// >>> first = fangorn.load(zoo / "churn/model.ubj", iteration_range=(0, 60))
    /// >>> model.diff(first)["trees"]
    /// [100, 60]
    #[pyo3(signature = (other, rows = None))]
    fn diff<'py>(
        slf: &Bound<'py, Self>,
        other: &Bound<'py, Self>,
        rows: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let (a, b) = (slf.get(), other.get());
        let report = difference::report(py, [&a.forest, &b.forest])?;
        if let Some(rows) = rows {
            let both = [Self::predictions(slf, rows)?, Self::predictions(other, rows)?];
            report.set_item("rows", difference::of_rows(py, &both)?)?;
        }
        Ok(report)
    }

    /// Return the model as the bytes of a `.fangorn` file, which `fangorn.loads` and, from a file, `fangorn.load` read.
    ///
    /// The bytes hold the forest, but not the options `schedule`, `threads` and `sum`.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn
    /// >>> model = fangorn.load(zoo / "churn/model.ubj")
    /// >>> fangorn.loads(model.to_bytes()).n_trees
    /// 100
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.contents()))
    }

    /// The number of columns of a row.
    #[getter]
    fn n_features(&self) -> usize {
        self.forest.features.len()
    }

    /// The names of the columns, a list of str, or None if the model does not name all of them.
    #[getter]
    fn feature_names(&self) -> Option<Vec<String>> {
        let names: Option<Vec<String>> =
            self.forest.features.iter().map(|feature| feature.name.clone()).collect();
        names.filter(|names| !names.is_empty())
    }

    /// The number of margins of a row: 1, the number of classes, or the number of targets.
    #[getter]
    fn n_outputs(&self) -> u32 {
        self.forest.outputs
    }

    /// The number of values that `predict` returns for a row.
    #[getter]
    fn n_values(&self) -> usize {
        self.predictor.width()
    }

    /// The number of trees.
    #[getter]
    fn n_trees(&self) -> usize {
        self.forest.trees.len()
    }

    /// The library that trained the model: `xgboost`, `lightgbm`, `catboost`, `scikit-learn`, `treelite`, …
    #[getter]
    fn library(&self) -> &str {
        &self.forest.producer.library
    }

    /// The version of that library, as the model's file gives it.
    #[getter]
    fn library_version(&self) -> &str {
        &self.forest.producer.version
    }

    /// The objective that the model was trained with, as the library names it: `binary:logistic`, for example.
    #[getter]
    fn objective(&self) -> &str {
        &self.forest.producer.objective
    }

    /// `classification`, or `regression` if the model has no classes. Rankers and detectors without classes count as
    /// the latter.
    #[getter]
    fn task(&self) -> &'static str {
        match self.forest.classes.rule {
            ClassRule::None => "regression",
            _ => "classification",
        }
    }

    /// The best round of early stopping, counted from 0. It is None if the model's file does not name one, or if the
    /// model was loaded with an `iteration_range`.
    #[getter]
    fn best_iteration(&self) -> Option<u32> {
        self.forest.producer.early_stop.map(|stop| stop.best)
    }

    /// The labels of the classes, an array of int64 or of str, or None if the model has no classes.
    #[getter(classes)]
    fn classes_or_none<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match self.forest.classes.rule {
            ClassRule::None => Ok(None),
            _ => self.classes(py).map(Some),
        }
    }

    /// The schedule of batches of 4096 rows, one directive a line.
    #[getter]
    fn schedule(&self) -> PyResult<String> {
        const LARGE: usize = 4096;
        let given = self.options.schedule.as_deref().map(|name| self.options.schedules(name, &self.forest));
        Ok(match given.transpose()? {
            Some(schedules) => schedules.nearest(LARGE).to_string(),
            None => Explanation::new(&self.forest, LARGE).schedule.to_string(),
        })
    }

    /// The maximum number of threads that predict a batch. Small batches are predicted on the caller's thread.
    #[getter]
    fn threads(&self) -> usize {
        self.options.threads
    }

    /// The contract of sums, which says what is promised about a margin's last digits: `any`, `tree` or `exact`.
    #[getter]
    fn sum(&self) -> &'static str {
        self.options.sum.name()
    }

    /// The margin of each output before any tree is added, float64: `(n_outputs,)`.
    #[getter]
    fn base_score<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, self.forest.base_score.iter().map(|score| score.0))
    }

    /// The leaf values, float64: `(leaf slots, 1)`, or `(leaf slots, n_outputs)` if a leaf adds to every output.
    #[getter]
    fn leaf_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = self.forest.leaf_values.iter().map(|value| value.0).collect();
        arrays::array(py, values, &[self.forest.leaf_count(), self.forest.leaf_width()])
    }

    /// The output to which each tree adds, int64: `(n_trees,)`, or None if a leaf adds to every output.
    #[getter]
    fn tree_outputs<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        match &self.forest.targets {
            fangorn::forest::Targets::One(outputs) => {
                Some(PyArray1::from_iter(py, outputs.iter().map(|output| i64::from(*output))))
            }
            fangorn::forest::Targets::All => None,
        }
    }

    fn __repr__(&self) -> String {
        format!("<fangorn.Model: {}>", self.summary())
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickle<'py>> {
        let unpickle = py.import("fangorn._load")?.getattr("unpickle")?;
        let options = PyDict::new(py);
        options.set_item("schedule", &self.options.schedule)?;
        options.set_item("threads", self.options.threads)?;
        options.set_item("sum", self.options.sum.name())?;
        options.set_item("iteration_range", py.None())?;
        Ok((unpickle, (self.to_bytes(py), options)))
    }

    /// Return the seconds that `calls` predictions of an array of float32 take in Rust, one after the other.
    /// `benches/python/run.py` compares them with calls from Python.
    fn _seconds(&self, py: Python<'_>, rows: &Bound<'_, PyAny>, calls: usize) -> PyResult<f64> {
        let held = Held::of(rows)?.ok_or_else(|| refusal("rows: only an array of float32 can be timed"))?;
        let source = held.view().map(Source::of_view).transpose().map_err(crate_error)?;
        let Some(Source::Singles(rows, _)) = source else {
            return Err(refusal("rows: only an array of float32 can be timed"));
        };
        let mut out = vec![0.0; rows.len() * self.predictor.width()];
        self.run(py, self.predictor.uses_several_threads(rows.len()), || {
            let start = Instant::now();
            for _ in 0..calls {
                self.predictor.values_into(std::hint::black_box(&rows), &mut out)?;
                std::hint::black_box(&mut out);
            }
            Ok(start.elapsed().as_secs_f64())
        })
    }

    /// Return the indices of the model's columns among a table's names.
    fn _column_indices(&self, names: Vec<String>) -> PyResult<Vec<usize>> {
        rows::column_indices(&self.forest, &names)
    }

    /// Return whether the categories of a column are numbered by the model.
    fn _has_codes(&self, column: usize) -> bool {
        self.forest.features.get(column).is_some_and(|feature| feature.codes().is_some())
    }

    /// Return the number of each of some categories of a column: NaN for a missing one.
    fn _category_numbers(
        &self,
        column: usize,
        categories: Vec<Option<rows::Category>>,
    ) -> PyResult<Vec<f64>> {
        rows::category_numbers(&self.forest, column, &categories)
    }

    /// Whether margins are sums of leaf values.
    #[getter]
    fn _sums(&self) -> bool {
        self.forest.aggregate == fangorn::forest::Aggregate::Sum
    }

    /// The value of an element that a sparse row does not store.
    #[getter]
    fn _absent(&self) -> f64 {
        self.forest.absent_value()
    }
}

impl Model {
    /// Returns one line that describes the model.
    fn summary(&self) -> String {
        let forest = &*self.forest;
        let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        format!(
            "{} {}, {}, {}, {}",
            forest.producer.library,
            forest.producer.objective,
            many(forest.trees.len(), "tree"),
            many(forest.features.len(), "feature"),
            many(forest.outputs as usize, "output")
        )
    }

    /// Returns the labels of the classes as an array of numpy.
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let classes = &self.forest.classes;
        let labels = self.labels.get_or_try_init(py, || {
            let labels = match classes.integers() {
                Some(labels) if labels.is_empty() => {
                    let outputs = i64::from(self.forest.outputs);
                    let count = if classes.rule == ClassRule::Largest && outputs > 1 { outputs } else { 2 };
                    PyArray1::from_iter(py, 0..count).into_bound_py_any(py)
                }
                Some(labels) => PyArray1::from_vec(py, labels).into_bound_py_any(py),
                None => py.import("numpy")?.call_method1("array", (&classes.labels,)),
            };
            labels.map(Bound::unbind)
        })?;
        Ok(labels.bind(py).clone())
    }
}
