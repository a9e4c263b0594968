//! A schedule-guided compiler for trained decision forests.
//!
//! ```text
//! model file ──import──▶ Forest ──schedule──▶ LoopNest ──legalise──▶ LoopNest ──layout──▶ Plan ──target──▶ Executable
//!                         HIR      (what)      (how)       MIR      reductions            LIR    cube | cpu
//! ```

pub mod ahead;
mod arrays;
pub mod auto;
mod cache_folder;
pub mod check;
pub mod contributions;
pub mod cost;
pub mod cpu;
#[cfg(feature = "kernels")]
pub mod cube;
mod cursor;
mod error;
pub mod file;
pub mod forest;
pub mod graph;
pub mod import;
pub mod insight;
mod isa;
mod layout;
mod mir;
#[cfg(feature = "burn")]
pub mod op;
mod parallel;
pub mod plan;
mod predictor;
mod prefetch;
pub mod ranks;
pub mod schedule;
pub mod sparse;
pub mod sum;
pub mod table;

pub use error::{Error, Result};
pub use forest::model::Forest;
pub use predictor::{Predictor, PredictorBuilder};

/// The README's examples, which the documentation tests run.
#[cfg(all(doctest, feature = "flex"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The book's example of a prologue before a forest.
#[cfg(doctest)]
#[doc = include_str!("../book/src/model.md")]
struct BookOnModels;

/// The book's examples of classical models as graphs.
#[cfg(doctest)]
#[doc = include_str!("../book/src/classical.md")]
struct BookOnClassicalModels;

/// The book's example of tables.
#[cfg(all(doctest, feature = "arrow"))]
#[doc = include_str!("../book/src/tables.md")]
struct BookOnTables;

/// The book's example of contributions.
#[cfg(doctest)]
#[doc = include_str!("../book/src/contributions.md")]
struct BookOnContributions;

/// The book's examples of importances and dependences.
#[cfg(doctest)]
#[doc = include_str!("../book/src/insight.md")]
struct BookOnInsight;

/// The book's example of drift.
#[cfg(doctest)]
#[doc = include_str!("../book/src/drift.md")]
struct BookOnDrift;

/// The book's example of self-checks.
#[cfg(doctest)]
#[doc = include_str!("../book/src/checks.md")]
struct BookOnChecks;

/// The book's example of tuning.
#[cfg(doctest)]
#[doc = include_str!("../book/src/tuning.md")]
struct BookOnTuning;

/// The book's example of ranks.
#[cfg(doctest)]
#[doc = include_str!("../book/src/ranks.md")]
struct BookOnRanks;
