//! Classical-ML operators and graphs around Fangorn's forests.
//!
//! A forest is seldom alone. Features are scaled and encoded before it, and its margins are stacked,
//! calibrated or mixed with another model's after it. This crate holds what stands around a forest:
//!
//! - [`forest`]: a forest as a burn module, with leaf values that are trained and saved like other
//!   parameters;
//! - [`classical`]: graphs of scalers, encoders, linear models and forests as a burn module;
//! - [`fused`]: functions of tensors that run by a fusion plan, which [`fangorn_fusion`] makes;
//! - mixed pipelines of classical and deep-learning models around a forest: the crate's examples.
//!
//! This crate re-exports [`fangorn`] and [`fangorn_fusion`], so that its users name one version of them.

/// The forest compiler that these graphs are built around.
pub use fangorn;
/// Fusion plans over graphs of linear algebra.
pub use fangorn_fusion;

pub mod classical;
mod error;
pub mod forest;
pub mod fused;

pub use error::{Error, Result};

/// The book's chapters on modules and functions of tensors, whose examples the documentation tests run.
#[cfg(all(doctest, feature = "flex"))]
mod book {
    #[doc = include_str!("../../book/src/module.md")]
    struct Module;
    #[doc = include_str!("../../book/src/training.md")]
    struct Training;
    #[doc = include_str!("../../book/src/fused.md")]
    struct Fused;
}
