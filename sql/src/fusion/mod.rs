//! Fusion plans over tables: an operator of a plan that takes a matrix in row blocks runs as an aggregate function of SQL,
//! on DataFusion's threads or on the executors of a cluster.
//!
//! [`QueryBlocks`] is the result of a query as a matrix. [`fangorn_fusion::select::Plan::run_blocks`] takes it in place of
//! a matrix in memory. What an operator needs besides its rows travels in the query's plan, up to [`MOST_IN_PLAN`] bytes;
//! parts of its results come back. An operator whose inputs have room in the `memory` of
//! [`Costs`](fangorn_fusion::select::Costs) runs in this process: the rows are fetched once, and kept.
//!
//! It follows section 5.5 of Boehm et al., "On Optimizing Operator Fusion Plans for Large-Scale Machine Learning in
//! SystemML" (VLDB 2018).
//!
//! ```
//! use std::collections::HashMap;
//!
//! use datafusion::prelude::SessionContext;
//! use fangorn_fusion::{
//!     Bindings, Matrix, RowBlocks,
//!     dag::Builder,
//!     select::{Costs, Plan, Policy},
//! };
//! use fangorn_sql::fusion::QueryBlocks;
//!
//! let runtime = tokio::runtime::Runtime::new()?;
//! let people = runtime.block_on(async {
//!     let query = "SELECT * FROM (VALUES (1, 20.5), (2, 40.0), (0, 31.5)) AS people(children, age)";
//!     QueryBlocks::new(SessionContext::new().sql(query).await?, &["children", "age"]).await
//! })?;
//! let builder = Builder::new();
//! let (x, v) = (builder.dense("people", people.shape().0, 2), builder.dense("v", 2, 1));
//! builder.output("gradient", x.transpose().matmul(x.matmul(v)));
//! let dag = builder.finish()?;
//! let plan = Plan::new(&dag, Policy::CostBased, &Costs::default());
//! let v = Bindings::from([("v".to_owned(), Matrix::dense((2, 1), vec![10.0, 1.0]).expect("two elements"))]);
//! let found = plan.run_blocks(&dag, &v, &HashMap::from([("people".to_owned(), &people as &dyn RowBlocks)]))?;
//! assert_eq!(found["gradient"].to_dense(), [150.5, 4017.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aggregate;
mod query;
mod rows;

pub use aggregate::{FusedAggregate, MOST_IN_PLAN, SentAggregate};
pub use query::QueryBlocks;
