//! The [`plan`] that a schedule and a layout make of a forest, and the cubecl kernels that expand it.
//!
//! The plan's types need no cubecl: the CPU target reads them too. With the feature `cube` come the kernels.

pub mod plan;

#[cfg(feature = "cube")]
pub mod cube;
