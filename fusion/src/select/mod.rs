//! Selection: which of the explored plans are carried out, by cost.
//!
//! It follows section 4 of Boehm et al. (VLDB 2018). What may come in: graphs and memo tables. How operators run stays
//! out.
//!
//! | file | subject |
//! |---|---|
//! | `operator` | the operator that an assignment makes at a node |
//! | `bound` | what plans cost at least |
//! | `cost` | what an operator takes, in seconds, and the constants of a machine |
//! | `partition` | partitions of plans and their interesting points |
//! | `enumerate` | MPSkipEnum |
//! | `plan` | the plan of a whole graph, and what it says of itself |
//! | `cache` | plans that are kept by structure |

mod bound;
mod cache;
mod cost;
mod enumerate;
mod operator;
mod partition;
mod plan;

pub use cache::{CacheReport, PlanCache};
pub use cost::Costs;
pub use enumerate::Search;
pub use operator::PlannedOperator;
pub use partition::{Partition, Point, PointKind};
pub use plan::{PartitionReport, Plan, Policy};
