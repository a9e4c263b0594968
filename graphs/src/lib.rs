//! Classical-ML operators and graphs around Fangorn's forests.
//!
//! A forest is seldom alone: features are scaled and encoded before it, its margins are stacked, calibrated or mixed
//! with another model's after it. This crate is the place for what stands around a forest:
//!
//! - classical-ML operators (scalers, encoders, linear models) on burn's tensors;
//! - extended computational graphs that hold such operators and forests side by side;
//! - fusion plans that say which of them run as one kernel;
//! - mixed pipelines of classical and deep-learning models round a forest.
//!
//! None of this is there yet. For now the crate re-exports [`fangorn`], so that what will be built here and its users
//! name one version of it.

/// The forest compiler that these graphs are built round.
pub use fangorn;
