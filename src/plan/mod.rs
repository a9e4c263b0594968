//! LIR: what a schedule on a layout comes to. The types are `fangorn-ir`'s, which every target sees; lowering to them is
//! here.

mod budget;
mod lower;
mod to_cpu;
mod to_cube;
mod trees;

pub use fangorn_ir::*;
pub use lower::{Lowered, Note, Request, check, check_with, lower, lower_with};
#[cfg(feature = "cube")]
pub(crate) use to_cube::group_columns;
