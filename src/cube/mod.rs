//! The cubecl target: a forest as words on a device, and launches of a plan's kernel over them.
//!
//! The kernels are in `fangorn-kernels`. This module encodes a forest for them (its nodes, the tables that
//! turn rows into [ranks](crate::ranks), its leaf values as a [contract of sums](crate::sum) wants them) and
//! reads what a device can do. [`offline`] compiles kernels for GPUs that are not here.

mod builder;
mod check;
mod device;
mod executable;
pub mod offline;
mod words;

pub use builder::ExecutableBuilder;
pub use device::device;
pub use executable::Executable;
pub use fangorn_kernels::{Buffer, EpilogueInputs, Rows};
