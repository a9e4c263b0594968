//! From values to ranks on the CPU: 64 rows at a time, one column or one column block at a time.
//!
//! [`crate::ranks`] defines what ranks are; the code here computes them for rows. [`Ranker`] drives it, `sources` holds
//! the data that it reads, and `column_blocks` chooses the cheapest method to rank each column block. This module takes
//! ranks as data, and rows. It knows nothing of trees, schedules and plans.

mod by_column;
pub(super) mod column_block;
mod column_blocks;
pub(super) mod compressed;
pub(super) mod count;
pub(super) mod elements;
mod kernels;
mod ranked;
mod ranker;
pub(super) mod row_block;
pub(super) mod search;
mod sources;
mod tables;

pub(crate) use by_column::ColumnReader;
pub(crate) use compressed::CompressedColumns;
pub(super) use ranked::{Ranked, ranked};
pub use ranker::{Rank, Ranker};
