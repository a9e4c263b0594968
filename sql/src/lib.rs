//! Trained decision forests as functions of SQL, on Apache DataFusion. [`fusion`] runs plans of linear algebra over the rows
//! of a query.
//!
//! | function | result for a row |
//! |---|---|
//! | `forest_predict('model', column, …)` | the producer's own prediction: a `Float32`, or a list of them if the model has several outputs |
//! | `forest_margin('model', column, …)` | the sum before the objective's transform, of the same type |
//! | `forest_class('model', column, …)` | the class of a classifier: a `Utf8`, or an `Int64` if all labels are whole numbers |
//!
//! The first argument is a text: the name of a model that was given to [`Models::add`], or the path of a model file in
//! any format that Fangorn reads. Columns are matched to the model's by their names, as in a CSV file. If the model's
//! columns have no names, the function takes as many columns as the model has, in their order or by the names that
//! libraries make up (`f0`, `f1`, …). In place of columns there may be one struct, whose fields are matched.
//! `forest_predict_by_position` and its like take columns in the model's order, whatever their names. A null is a
//! missing value. A query whose columns don't fit is refused when it is planned.
//!
//! ```
//! use datafusion::prelude::SessionContext;
//! use fangorn::{
//!     Forest,
//!     forest::{CompareType, Side},
//! };
//! use fangorn_sql::{Models, register};
//!
//! let mut forest = Forest::builder(1, 1);
//! let mut tree = forest.tree(0);
//! tree.split(0, CompareType::F32.less(30.0), Side::Left, 1, 2);
//! tree.leaf(1, &[0.25]);
//! tree.leaf(2, &[0.75]);
//! let models = Models::default();
//! models.add("risk", forest.build()?)?;
//! let context = SessionContext::new();
//! register(&context, models);
//! let rows = tokio::runtime::Runtime::new()?.block_on(async {
//!     let query = "SELECT age, forest_predict('risk', age) AS risk FROM (VALUES (20), (40)) AS people(age)";
//!     context.sql(query).await?.collect().await
//! })?;
//! let table = arrow::util::pretty::pretty_format_batches(&rows)?.to_string();
//! assert!(table.contains("| 20  | 0.25 |") && table.contains("| 40  | 0.75 |"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "cluster")]
pub mod cluster;
mod function;
pub mod fusion;
mod models;
mod sent;

pub use function::{ForestFunction, ForestOutput};
pub use models::{Model, ModelError, Models};
pub use sent::{ModelSource, SentFunction, SentModel};

use std::sync::Arc;

use datafusion::{logical_expr::ScalarUDF, prelude::SessionContext};

/// Returns all functions, which look for their models among `models`.
pub fn functions(models: &Arc<Models>) -> Vec<ScalarUDF> {
    let kinds = ForestOutput::ALL.into_iter().flat_map(|output| [(output, false), (output, true)]);
    kinds
        .map(|(output, by_position)| ForestFunction::new(models.clone(), output, by_position).into())
        .collect()
}

/// Registers all functions with a session. Returns the models, to which more may be added.
pub fn register(context: &SessionContext, models: Models) -> Arc<Models> {
    let models = Arc::new(models);
    functions(&models).into_iter().for_each(|function| context.register_udf(function));
    models
}
