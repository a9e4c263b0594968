//! Fusion plans by cost, over graphs of linear algebra.
pub mod dag;
mod error;
pub mod explore;
mod interpret;
mod matrix;
mod run;
pub mod select;

pub use error::FusionError;
pub use matrix::{Bindings, DenseMatrix, Matrix};
