//! Trained decision forests as functions of Python's package `datafusion`.
//!
//! ```python
//! from datafusion import SessionContext
//! import fangorn_datafusion
//!
//! context = SessionContext()
//! fangorn_datafusion.register(context, {"risk": "model.ubj"})
//! context.sql("""
//!     SELECT id, forest_predict('risk', named_struct('age', age, 'income', income)) AS risk FROM people
//! """).show()
//! ```
//!
//! A function has a method that puts its columns into the model's order before the optimizer renames them. The crate
//! `datafusion-ffi`, which passes functions from one library to another, never calls this method. So a query passes the
//! model's columns in a struct, whose fields have names, or by position. A plain list of named columns is refused.

use std::{path::PathBuf, sync::Arc};

use datafusion::logical_expr::ScalarUDF;
use datafusion_ffi::udf::FFI_ScalarUDF;
use fangorn_sql::{ForestFunction, ForestOutput, Models};
use pyo3::{
    exceptions::{PyImportError, PyValueError},
    prelude::*,
    types::{PyCapsule, PyDict},
};

/// The release of `datafusion` whose functions have the same layout in memory.
const MAJOR: &str = "55";

/// A function of SQL, as `datafusion.udf` takes it.
#[pyclass(frozen, module = "fangorn_datafusion")]
struct ForestUdf(Arc<ScalarUDF>);

#[pymethods]
impl ForestUdf {
    /// The function's name in queries.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    fn __datafusion_scalar_udf__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, FFI_ScalarUDF::from(self.0.clone()), c"datafusion_scalar_udf")
    }
}

/// Registers forest_predict, forest_margin, forest_class and each of them by position with a SessionContext.
///
/// models gives model files names: {"risk": "model.ubj"}. A query may also name a file by its path, unless only_named is
/// set.
///
/// Raises ValueError if a model can't be read, and ImportError if the package datafusion has another release.
#[pyfunction]
#[pyo3(signature = (context, models = None, *, only_named = false))]
fn register(
    context: &Bound<'_, PyAny>,
    models: Option<&Bound<'_, PyDict>>,
    only_named: bool,
) -> PyResult<()> {
    let datafusion = context.py().import("datafusion")?;
    let found: String = datafusion.getattr("__version__")?.extract()?;
    if found.split('.').next() != Some(MAJOR) {
        let what = format!(
            "datafusion {found} is installed, and functions of release {MAJOR} have another layout in memory; pip \
             install 'datafusion=={MAJOR}.*'"
        );
        return Err(PyImportError::new_err(what));
    }
    let known = Arc::new(if only_named { Models::only_named() } else { Models::default() });
    for (name, path) in models.into_iter().flatten() {
        let (name, path): (String, PathBuf) = (name.extract()?, path.extract()?);
        known.load(&name, &path).map_err(|e| PyValueError::new_err(e.to_string()))?;
    }
    for output in ForestOutput::ALL {
        for by_position in [false, true] {
            let function = ForestFunction::new(known.clone(), output, by_position).without_names();
            let function = Py::new(context.py(), ForestUdf(Arc::new(function.into())))?;
            let function = datafusion.call_method1("udf", (function,))?;
            context.call_method1("register_udf", (function,))?;
        }
    }
    Ok(())
}

#[pymodule]
fn fangorn_datafusion(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ForestUdf>()?;
    module.add_function(wrap_pyfunction!(register, module)?)
}
