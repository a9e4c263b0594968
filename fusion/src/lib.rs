//! Fusion plans by cost, over graphs of linear algebra.
pub mod dag;
mod error;
mod interpret;
mod matrix;

pub use error::FusionError;
pub use matrix::{Bindings, DenseMatrix, Matrix};
