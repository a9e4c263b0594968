//! The cubecl target: packed nodes as words on a device, and a plan's kernel launched over them.
//!
//! The kernels themselves are in `fangorn-kernels`; here a forest is encoded for them and a device's numbers are read.

mod device;
mod executable;
pub mod offline;
mod words;

pub use device::device;
pub use executable::Executable;
