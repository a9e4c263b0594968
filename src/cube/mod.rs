//! The cubecl target: a forest as words on a device, and launches of a plan's kernel over them.
//!
//! The kernels are in `fangorn-kernels`. This module encodes a forest for them (its nodes, the tables that
//! turn rows into [ranks](crate::ranks), its leaf values in the form that the [contract of sums](crate::sum)
//! needs) and reads the capabilities of a device. [`Explainer`] does the same for
//! [contributions](crate::contributions), and [`LeafGradients`] for the gradient of the leaf values.
//! [`offline`] compiles kernels for GPUs that this machine does not have.

mod builder;
mod check;
mod contribution_words;
mod device;
mod executable;
mod explainer;
mod interventional;
mod leaf_gradients;
pub mod offline;
mod words;

pub use builder::ExecutableBuilder;
pub use device::device;
pub use executable::Executable;
pub use explainer::Explainer;
pub use fangorn_kernels::{Buffer, EpilogueInputs, Rows};
pub use leaf_gradients::LeafGradients;
