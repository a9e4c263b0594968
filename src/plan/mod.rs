//! LIR: what a schedule on a layout comes to. The types are `fangorn-kernels`', which every target sees; lowering to
//! them is here.

mod budget;
mod cpu;
mod cube;
mod lower;
mod trees;

#[cfg(feature = "cube")]
pub(crate) use cube::group_columns;
pub use fangorn_kernels::plan::*;
pub use lower::{Lowered, Note, Request, check, check_with, lower, lower_with};
