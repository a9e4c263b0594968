//! Selection: chooses among the explored plans, by cost.
//!
//! It follows section 4 of Boehm et al. (VLDB 2018). It depends on graphs and memo tables; how operators run is for
//! another module.
//!
//! | file | subject |
//! |---|---|
//! | `operator` | the operator that an assignment makes at a node |
//! | `bound` | lower bounds of the cost of plans |
//! | `cost` | the estimated time of an operator, in seconds, and the constants of a machine |
//! | `partition` | partitions of plans and their interesting points |
//! | `enumerate` | MPSkipEnum |
//! | `passes` | operators that go through the same rows, as one |
//! | `plan` | the plan of a whole graph, and its explanation |
//! | `cache` | plans that are kept for graphs of the same structure |

mod bound;
mod cache;
mod cost;
mod enumerate;
mod operator;
mod partition;
mod passes;
mod plan;

pub use cache::{CacheReport, PlanCache};
pub use cost::{BlockCosts, Costs};
pub use enumerate::Search;
pub(crate) use operator::GROUP_COLUMNS;
pub use operator::PlannedOperator;
pub use partition::{Partition, Point, PointKind};
pub use plan::{PartitionReport, Plan, Policy};
