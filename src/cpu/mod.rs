//! The native CPU target: it turns a plan into a flat program of calls of engines over rows and trees.
//!
//! [`Program`] holds the outer loops. The iterations of the plan's parallel loops run on rayon's threads. If
//! the two innermost loops are serial, one over rows and one over trees, one call of an engine replaces them.
//! The rows and trees of the call are a *block*. The program chooses the engine for each block by layout rule,
//! categories, strides, what is written and how many walks advance together. Inside a block nothing is
//! interpreted per row.
//!
//! This module takes lowered forests (plans and packed nodes) and rows. `nodes::Node::right` defines how a
//! value is compared with a threshold.

mod addend;
mod arch;
mod block;
mod cache_line;
mod cached;
mod emit;
mod encoded;
mod engine;
mod engines;
pub(crate) mod functions;
mod large_pages;
mod nodes;
mod plans;
mod product;
mod program;
mod ranking;
mod rows;
mod run;
mod select;
mod sink;
mod sums;
mod trace;
mod widest;
mod window;

use crate::isa;
pub use crate::isa::{GATHERS, ISA};
pub(crate) use cache_line::{aligned, room as aligned_room};
pub(crate) use cached::COLUMNS_AHEAD;
pub(crate) use engine::registers;
pub use engines::{Engine, Engines, Ranking};
pub use large_pages::prefer_large_pages;
pub use plans::NamedPlan;
pub(crate) use plans::{Plans, SchedulePrograms};
pub(crate) use product::product;
pub use program::{Program, worker};
pub(crate) use ranking::column_block::ROW_BLOCKS_TOGETHER;
pub(crate) use ranking::{ColumnReader, CompressedColumns};
pub use ranking::{Rank, Ranker};
pub use rows::{Read, Row, Rows};
pub(crate) use sums::SumMethod;
pub use trace::TraceEntry;
pub use widest::{Loops, widest};
pub(crate) use window::window_length;
