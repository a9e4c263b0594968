//! The cubecl target: packed nodes as words on a device, and a plan's kernel launched over them.
//!
//! The kernels themselves are in `fangorn-kernels`; here a forest is encoded for them (its nodes, the tables that make rows
//! [ranks](crate::ranks), its leaves as a [contract of sums](crate::sum) wants them) and a device's numbers are read.
//! [`offline`] makes kernels for GPUs that are not here.

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
