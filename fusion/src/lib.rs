//! Chooses by cost how the operators of a graph of linear algebra are fused, and runs the graph. It follows Boehm et
//! al., "On Optimizing Operator Fusion Plans for Large-Scale Machine Learning in SystemML" (VLDB 2018).
//!
//! ```text
//! Builder ──▶ Dag ──explore──▶ MemoTable ──select──▶ Plan ──run──▶ results
//!                    (OFMC)                (MPSkipEnum)     tiles | elements
//! ```
//!
//! Operators compute in `f64`. Matrices hold `f64`, dense, in CSR or compressed, or `f32`, dense. The text of a graph that
//! names another format is refused.

pub mod dag;
mod error;
pub mod explore;
mod interpret;
mod matrix;
mod run;
pub mod select;

pub use error::FusionError;
pub use matrix::{Bindings, ColumnGroup, CompressedMatrix, DenseMatrix, Encoding, Matrix, SingleMatrix};
pub use run::{BlockOperator, BlockParts, MatrixBlocks, RowBlocks};

/// The book's example of fusion plans.
#[cfg(doctest)]
#[doc = include_str!("../../book/src/fusion.md")]
struct BookOnFusion;
