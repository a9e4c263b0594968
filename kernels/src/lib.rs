//! Expands a plan into a cubecl kernel and launches it.
//!
//! The plan is a comptime argument: the functions here match on its statements while the kernel is being
//! expanded, so each plan becomes a kernel of its own (`expand`). Values become keys, ordered integers, when
//! they are loaded (`keys`). Thresholds are stored as keys, and no kernel compares floats. Thresholds are
//! compared in `node::right` alone.
//!
//! A run goes over rows in pieces (`launch`). The launches of a piece (`piece`) are the plan's kernel and
//! those before and after it. If the kernel does not compute the epilogue itself, the last of these launches
//! does (`epilogue_kernel`). `contributions` has kernels of its own, which no plan describes. `grid` says how many
//! cubes and rows a launch has.

mod compile;
pub mod contributions;
mod device;
mod double;
mod epilogue_kernel;
mod epilogue_launch;
mod epilogue_steps;
mod expand;
mod fixed;
mod gradient;
mod grid;
mod keys;
mod launch;
mod memory;
mod node;
mod ordered;
mod piece;
mod rank;
#[cfg_attr(not(feature = "recorded"), path = "unrecorded.rs")]
mod recorded;
mod reduce;
mod shared;
mod transform;
mod walk;

pub use compile::compile;
pub use contributions::ContributionProgram;
pub use device::{Buffer, Job, Model, Rows};
pub use epilogue_steps::EpilogueInputs;
pub use gradient::{GRADIENT_ROWS, GradientSources, leaf_gradients};
pub use grid::{cubes, most_rows};
pub use launch::pieces;
pub use memory::TREE_WORDS;
pub use node::{LEAF, MISSING_LEFT, NAMED_RIGHT, QUESTION};
pub use ordered::{EpilogueArgs, Leaves, Order, margins_in_order};
pub use piece::adders;
pub use rank::{COLUMN_WORDS, RankTables, rank_batch};
pub use recorded::RecordedInputs;
