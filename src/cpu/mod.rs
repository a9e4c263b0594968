//! The native target: a plan becomes a flat program of micro-kernel calls over rows and trees.
//!
//! [`Program`] holds the outer loops, whose iterations run on rayon's threads where the plan says parallel. Where two
//! serial loops, one over rows and one over trees, close the nest, a *block* takes their place: one call of a
//! micro-kernel (`walk`) chosen for each block, by layout rule, categories, strides, what is written and
//! how many walks advance together. Nothing is interpreted per row inside a block.
//!
//! Where is a threshold compared? In [`nodes::Node::right`].

mod addend;
mod arch;
mod block;
mod cache_line;
mod cached;
mod emit;
mod encoded;
mod engine;
mod engines;
mod nodes;
mod plans;
mod program;
mod ranking;
mod rows;
mod run;
mod select;
mod sink;
mod sums;
mod trace;
mod window;

use crate::isa;
pub use crate::isa::{GATHERS, ISA};
pub use engines::{Engine, Engines, Ranking};
pub use plans::NamedPlan;
pub(crate) use plans::Plans;
pub use program::{Program, worker};
pub use ranking::{Rank, Ranker};
pub use rows::{Read, Row, Rows};
pub(crate) use sums::Summing;
pub use trace::TraceEntry;
