//! Python's package `fangorn`: trained decision forests, compiled for this machine's CPU.
//!
//! | file | subject |
//! |---|---|
//! | `arrays` | arrays of numpy, read in place |
//! | `rows` | rows that Python code gives, source by source |
//! | `source` | rows, and what is computed from them |
//! | `options` | how a model is compiled: schedule, threads, contract of sums, boosting rounds |
//! | `pools` | the threads |
//! | `model`, `pipeline` | the classes `Model` and `Pipeline` |
//! | `tuning`, `difference` | what `Model.tune` and `Model.diff` do |
//! | `error` | the exception `fangorn.Error` |

mod arrays;
mod difference;
mod error;
mod model;
mod options;
mod pipeline;
mod pools;
mod rows;
mod source;
mod tuning;

use std::path::{Path, PathBuf};

use fangorn::{
    Forest,
    forest::ClassRule,
    graph::Graph,
    import::{self, ErrorKind, Format, LoadOptions},
};
use pyo3::{IntoPyObjectExt, prelude::*};

use crate::{
    error::{crate_error, refusal},
    model::Model,
    options::GivenOptions,
    pipeline::Pipeline,
};

/// The formats, by their names in Python.
const FORMATS: [(&str, Format); 8] = [
    ("fangorn", Format::Fangorn),
    ("xgboost-json", Format::XgboostJson),
    ("xgboost-ubj", Format::XgboostUbjson),
    ("lightgbm", Format::LightGbm),
    ("catboost", Format::CatBoost),
    ("onnx", Format::Onnx),
    ("treelite", Format::Treelite),
    ("scikit-learn", Format::ScikitLearn),
];

fn format_of(name: &str) -> PyResult<Format> {
    FORMATS.into_iter().find(|(known, _)| *known == name).map(|(_, format)| format).ok_or_else(|| {
        let names = FORMATS.map(|(name, _)| name).join(", ");
        refusal(format!("format: `{name}` is unknown; take one of {names}, or leave it out"))
    })
}

/// Reads a model from the bytes of its file. `fangorn.loads` says what the arguments are. `labels` are those of the classes,
/// and whether they are texts.
#[pyfunction]
fn _parse(
    py: Python<'_>,
    bytes: &[u8],
    format: Option<&str>,
    labels: Option<(Vec<String>, bool)>,
    options: GivenOptions,
) -> PyResult<Py<PyAny>> {
    let format = format.map(format_of).transpose()?;
    read(py, &options, ModelSource::Bytes { bytes, format, labels })
}

/// Reads a model file. `fangorn.load` says what the arguments are.
#[pyfunction]
fn _load(py: Python<'_>, path: PathBuf, options: GivenOptions) -> PyResult<Py<PyAny>> {
    read(py, &options, ModelSource::File(&path))
}

/// The source of a model: a file or bytes.
enum ModelSource<'g> {
    File(&'g Path),
    Bytes { bytes: &'g [u8], format: Option<Format>, labels: Option<(Vec<String>, bool)> },
}

impl ModelSource<'_> {
    fn forest(&self, options: &LoadOptions) -> Result<Forest, fangorn::Error> {
        match self {
            Self::File(path) => import::load(path, options),
            Self::Bytes { bytes, format: Some(format), .. } => Ok(import::parse_as(*format, bytes, options)?),
            Self::Bytes { bytes, format: None, .. } => Ok(import::parse(bytes, options)?),
        }
    }

    /// Reads a graph. Returns `None` if the format has no graphs.
    fn graph(&self, options: &LoadOptions) -> Option<Result<Graph, fangorn::Error>> {
        match self {
            Self::File(path) => {
                let format = std::fs::read(path).ok().and_then(|bytes| Format::of(&bytes).ok())?;
                format.has_graphs().then(|| import::load_graph(path, options))
            }
            Self::Bytes { bytes, format, .. } => {
                let format = format.or_else(|| Format::of(bytes).ok())?;
                format.has_graphs().then(|| import::parse_graph(bytes, options).map_err(Into::into))
            }
        }
    }
}

fn read(py: Python<'_>, options: &GivenOptions, given: ModelSource<'_>) -> PyResult<Py<PyAny>> {
    let (rounds, options) = (&options.iteration_range, options.options()?);
    let of =
        |iteration_range| LoadOptions { iteration_range, raw_categories: true, ..LoadOptions::default() };
    let best = || {
        let forest = pools::run(py, options.threads, || given.forest(&of(None)))?.map_err(crate_error)?;
        Ok(forest.producer.early_stop.map(|stop| stop.best))
    };
    let load_options = of(rounds.as_ref().map(|rounds| rounds.range(best)).transpose()?.flatten());
    let mut forest = match pools::run(py, options.threads, || given.forest(&load_options))? {
        Ok(forest) => forest,
        Err(error) => {
            // A model that can't be a single forest may be a graph.
            let unsupported =
                matches!(&error, fangorn::Error::Import(error) if error.kind() == ErrorKind::Unsupported);
            let pipeline = pools::run(py, options.threads, || {
                let graph = unsupported.then(|| given.graph(&load_options)).flatten();
                let graph = graph.unwrap_or(Err(error)).map_err(crate_error)?;
                options.check_for_pipeline()?;
                Pipeline::new(graph, options.threads)
            })?;
            return pipeline?.into_py_any(py);
        }
    };
    if let ModelSource::Bytes { labels: Some((labels, words)), .. } = given
        && forest.classes.rule != ClassRule::None
    {
        (forest.classes.labels, forest.classes.words) = (labels, words);
    }
    Model::new(py, forest, options)?.into_py_any(py)
}

#[pymodule]
fn _fangorn(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<error::Error>())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<Model>()?;
    module.add_class::<Pipeline>()?;
    module.add_function(wrap_pyfunction!(_load, module)?)?;
    module.add_function(wrap_pyfunction!(_parse, module)?)?;
    module.add_function(wrap_pyfunction!(pools::after_fork, module)?)
}
