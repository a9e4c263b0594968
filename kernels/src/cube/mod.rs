//! A plan expanded into a cubecl kernel.
//!
//! The plan is a comptime argument: the functions here match on its statements while the kernel is being expanded, so
//! each plan becomes a kernel of its own (`expand`). Values are keys: a row's values become ordered integers when
//! they are loaded (`keys`), thresholds are stored as such, and no kernel compares floats.
//!
//! Where is a threshold compared? In `node::right`.

mod compile;
mod double;
mod expand;
mod finish;
mod fixed;
mod fused;
mod gradient;
mod keys;
mod last;
mod launch;
mod memory;
mod node;
mod ordered;
mod rank;
mod reduce;
mod shared;
mod tail;
mod walk;

pub use compile::compile;
pub use fused::FusedInputs;
pub use gradient::BLOCK as ROWS_OF_GRADIENTS;
pub use launch::{
    LeafPlaces, Leaves, Model, RankTables, Rows, adders, cubes, launch, launch_fused, leaf_gradients,
    margins_in_order, most_rows, pieces, rank,
};
pub use memory::TREE_WORDS;
pub use node::{LEAF, MISSING_LEFT, NAMED_RIGHT, QUESTION};
pub use ordered::Order;
pub use rank::COLUMN_WORDS;
pub use tail::TailInputs;
