//! A plan expanded into a cubecl kernel.
//!
//! The plan is a comptime argument: the functions here match on its statements while the kernel is being expanded, so
//! each plan becomes a kernel of its own (`expand`). Values are keys: a row's values become ordered integers when
//! they are loaded (`keys`), thresholds are stored as such, and no kernel compares floats.
//!
//! A run goes over rows in pieces (`launch`). A piece (`piece`) is the plan's kernel and the launches round it, the last of
//! which (`last`) makes values of sums. `grid` says how many cubes and rows a launch has.
//!
//! Where is a threshold compared? In `node::right`.

mod compile;
mod device;
mod double;
mod expand;

mod fixed;
mod gradient;
mod grid;
mod keys;
mod recorded;

mod epilogue_kernel;
mod epilogue_launch;
mod epilogue_steps;
mod launch;
mod memory;
mod node;
mod ordered;
mod piece;
mod rank;
mod reduce;
mod shared;
mod transform;
mod walk;

pub use compile::compile;
pub use device::{Buffer, Job, Model, Rows};
pub use epilogue_steps::EpilogueInputs;
pub use gradient::{BLOCK as ROWS_OF_GRADIENTS, LeafPlaces, leaf_gradients};
pub use grid::{cubes, most_rows};
pub use launch::pieces;
pub use memory::TREE_WORDS;
pub use node::{LEAF, MISSING_LEFT, NAMED_RIGHT, QUESTION};
pub use ordered::{EpilogueArgs, Leaves, Order, margins_in_order};
pub use piece::adders;
pub use rank::{COLUMN_WORDS, RankTables, rank_batch};
pub use recorded::RecordedInputs;
