//! From values to ranks on the CPU: 64 rows at a time, by column or by line of columns.
//!
//! What ranks are is said in [`crate::ranks`]; here is how rows become them. [`Ranker`] drives it; `lines` chooses for each line of
//! columns what costs least. What comes in here: ranks as data, and rows. What stays out: trees, schedules, plans.

pub(super) mod column_block;
mod column_blocks;
pub(super) mod count;
mod kernels;
mod ranked;
mod ranker;
pub(super) mod row_block;
pub(super) mod search;
mod tables;

pub(super) use ranked::{Ranked, ranked};
pub use ranker::{Rank, Ranker};
