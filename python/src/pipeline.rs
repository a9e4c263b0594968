//! The class `Pipeline`: a graph of classical operators, with or without forests.

use std::sync::OnceLock;

use fangorn::{
    Forest,
    graph::{Dtype, Elements, Graph, GraphPredictor, Prediction, Tensor},
};
use pyo3::{IntoPyObjectExt, prelude::*};

use crate::{
    arrays,
    error::{crate_error, refusal},
    model::warn,
    pools, rows,
};

/// A pipeline of scikit-learn, an ONNX graph or a model of LightGBM with linear leaves, compiled for this machine's CPU.
///
/// `fangorn.load`, `fangorn.loads`, `fangorn.from_sklearn`, `fangorn.from_onnx` and `fangorn.from_lightgbm` make a
/// pipeline if the model is more than one forest of constant leaves. Of their options it takes `threads`, and
/// `iteration_range` for linear leaves. A pipeline never changes, so several threads may use it at the same time. It
/// can't be pickled.
///
/// The methods take `rows` of the types that `fangorn.Model` takes. A prediction copies them, converted to the types of
/// the pipeline's inputs.
#[pyclass(frozen, module = "fangorn")]
pub struct Pipeline {
    graph: Graph,
    /// A forest whose features are the columns of the rows.
    columns: Forest,
    threads: usize,
    library: &'static str,
    predictors: [OnceLock<GraphPredictor>; 4],
}

impl Pipeline {
    /// Makes a pipeline of a graph. Each of its inputs must have a fixed number of columns.
    pub fn new(graph: Graph, threads: usize) -> PyResult<Self> {
        let graph = graph.with_coded_texts().unwrap_or(graph);
        if let Some(input) = graph.inputs.iter().find(|input| input.dtype == Dtype::Text) {
            return Err(refusal(format!(
                "input `{}` of the pipeline takes free texts, which the Python package can't pass on; predict a table \
                 with the command `fangorn predict MODEL --rows FILE`, or encode texts before the pipeline",
                input.name
            )));
        }
        let columns = graph.rows().map_err(crate_error)?;
        let library = if columns.producer.library == "lightgbm" { "lightgbm" } else { "onnx" };
        Ok(Self { graph, columns, threads, library, predictors: Default::default() })
    }

    fn predictor(&self, kind: Prediction) -> PyResult<&GraphPredictor> {
        let predictor = &self.predictors[kind as usize];
        if let Some(compiled) = predictor.get() {
            return Ok(compiled);
        }
        let graph = self.graph.predicting(kind).map_err(|e| {
            let remedy = match kind {
                Prediction::Value => "call predict_class",
                Prediction::Class => "call predict",
                Prediction::Margin | Prediction::Leaf => "call predict or predict_class",
            };
            refusal(format!("{}; {remedy}", e.cause))
        })?;
        let compiled = GraphPredictor::new(graph, self.threads).map_err(crate_error)?;
        Ok(predictor.get_or_init(|| compiled))
    }

    fn run<'py>(
        slf: &Bound<'py, Self>,
        rows: &Bound<'py, PyAny>,
        kind: Prediction,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (pipeline, py) = (slf.get(), slf.py());
        let predictor = pools::run(py, pipeline.threads, || pipeline.predictor(kind))??;
        warn(py, predictor.warnings())?;
        let columns = pipeline.columns.features.len();
        let mut values = Vec::new();
        rows::each(slf.as_any(), rows, &pipeline.columns, |source, reversed| {
            source.check(columns).map_err(crate_error)?;
            let mut found = py.detach(|| source.to_rows()).map_err(crate_error)?;
            if reversed {
                found = rows::reversed(found, source.len());
            }
            values.extend(found);
            Ok(())
        })?;
        let inputs = py.detach(|| pipeline.graph.inputs_of_rows(&values)).map_err(crate_error)?;
        let found = pools::run(py, pipeline.threads, || predictor.predict(&inputs))?;
        let output =
            found.map_err(crate_error)?.pop().ok_or_else(|| refusal("the pipeline has no outputs"))?;
        result(py, output)
    }
}

/// Makes an array of an output. A single column becomes an array of one dimension.
fn result(py: Python<'_>, output: Tensor) -> PyResult<Bound<'_, PyAny>> {
    let shape = match output.shape() {
        [rows, 1] => vec![*rows],
        shape => shape.to_vec(),
    };
    match output.into_elements() {
        Elements::F32(values) => arrays::array(py, values, &shape),
        Elements::F64(values) => arrays::array(py, values, &shape),
        Elements::I32(values) => arrays::array(py, values, &shape),
        Elements::I64(values) => arrays::array(py, values, &shape),
        Elements::Bool(values) => arrays::array(py, values, &shape),
        Elements::Text(values) => {
            let texts: Vec<&str> = values.iter().map(|text| &**text).collect();
            let array = py.import("numpy")?.call_method1("array", (texts,))?;
            array.call_method1("reshape", (shape,))?.into_bound_py_any(py)
        }
    }
}

#[pymethods]
impl Pipeline {
    /// Predict rows: probabilities for a classifier, or its scores if it has no probabilities, and predictions of the
    /// target for a regressor.
    ///
    /// Parameters
    /// ----------
    /// rows : array, DataFrame, table, sparse matrix or tensor
    ///     n rows of `n_features` columns. `help(fangorn.Model)` says which types are read.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray
    ///     `(n,)` if a row has one value, otherwise `(n, values)`. The dtype is that of the pipeline's last step.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     The rows do not have the pipeline's columns, or a step refuses a value.
    /// TypeError
    ///     The rows are of a type that is not read. The message says how to convert them.
    ///
    /// Examples
    /// --------
    /// >>> import fangorn, numpy
    /// >>> pipeline = fangorn.load(zoo.parent / "zoo-classical/linear-multiclass/model.txt")
    /// >>> pipeline.predict(numpy.zeros((2, 5))).shape
    /// (2, 3)
    fn predict<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::run(slf, rows, Prediction::Value)
    }

    /// Predict the class of each row, by its label.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of integers or str
    ///     `(n,)`, or `(n, targets)` for a classifier of several targets.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     The pipeline is no classifier, or the rows are refused as by `predict`.
    /// TypeError
    ///     As for `predict`.
    fn predict_class<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::run(slf, rows, Prediction::Class)
    }

    /// Predict margins, the sums before the objective's transform. Only models of LightGBM with linear leaves have
    /// them.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of float64
    ///     `(n,)` if the model has one output, otherwise `(n, outputs)`.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     The pipeline is no model of LightGBM with linear leaves, or the rows are refused as by `predict`.
    /// TypeError
    ///     As for `predict`.
    fn margin<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::run(slf, rows, Prediction::Margin)
    }

    /// Return the leaf that each row reaches in each tree, as LightGBM's leaf id. Only models of LightGBM with linear
    /// leaves have them.
    ///
    /// Parameters
    /// ----------
    /// rows
    ///     As for `predict`.
    ///
    /// Returns
    /// -------
    /// numpy.ndarray of int64
    ///     `(n, trees)`, or `(n,)` if there is one tree.
    ///
    /// Raises
    /// ------
    /// fangorn.Error
    ///     The pipeline is no model of LightGBM with linear leaves, or the rows are refused as by `predict`.
    /// TypeError
    ///     As for `predict`.
    fn leaf<'py>(slf: &Bound<'py, Self>, rows: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        Self::run(slf, rows, Prediction::Leaf)
    }

    /// The number of columns of a row.
    #[getter]
    fn n_features(&self) -> usize {
        self.columns.features.len()
    }

    /// The names of the columns, a list of str, or None if the pipeline does not name all of them.
    #[getter]
    fn feature_names(&self) -> Option<Vec<String>> {
        let names: Option<Vec<String>> =
            self.columns.features.iter().map(|feature| feature.name.clone()).collect();
        names.filter(|names| !names.is_empty())
    }

    /// The number of operators in the pipeline's graph.
    #[getter]
    fn n_nodes(&self) -> usize {
        self.graph.nodes.len()
    }

    /// The maximum number of threads that predict a batch.
    #[getter]
    fn threads(&self) -> usize {
        self.threads
    }

    /// `lightgbm` for a model of LightGBM with linear leaves, otherwise `onnx`. It says how the categories of a
    /// DataFrame are read.
    #[getter]
    fn library(&self) -> &'static str {
        self.library
    }

    fn __repr__(&self) -> String {
        let operators = self.graph.nodes.len();
        format!("<fangorn.Pipeline: {operators} operators, {} features>", self.columns.features.len())
    }

    fn _column_indices(&self, names: Vec<String>) -> PyResult<Vec<usize>> {
        rows::column_indices(&self.columns, &names)
    }

    fn _has_codes(&self, column: usize) -> bool {
        self.columns.features.get(column).is_some_and(|feature| feature.codes().is_some())
    }

    fn _category_numbers(
        &self,
        column: usize,
        categories: Vec<Option<rows::Category>>,
    ) -> PyResult<Vec<f64>> {
        rows::category_numbers(&self.columns, column, &categories)
    }

    #[getter]
    fn _absent(&self) -> f64 {
        0.0
    }
}
