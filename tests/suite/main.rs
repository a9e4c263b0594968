//! What needs no device: one program, so that a change links once. `cargo test --test suite tables::` runs one file of it.

mod ahead;
mod background_interactions;
#[cfg(feature = "arrow")]
mod batches;
mod blends;
mod coded_texts;
mod columns;
mod contributions;
mod coverage;
mod cpu;
mod deep;
mod directives;
mod engines;
mod equivalence;
mod file;
mod filetests;
mod fixed_point;
mod graph_passes;
mod graphs;
mod graphs_of_networks;
mod graphs_of_texts;
mod guard;
mod insight;
mod kernels;
mod linear_leaves;
mod page_cases;
mod papers;
mod pipelines;
mod plans;
mod predictor_explainer;
mod prologue;
mod properties;
mod proto;
mod ranks;
mod raw;
mod replayed;
mod schedules;
mod sparse_rows;
mod sums;
mod tables;
mod template;
mod ties;
mod tiles;
mod tiling;
mod trace;
mod tuning;
mod uneven;
mod zoo;

#[path = "../generate/mod.rs"]
mod generate;
#[path = "../probes/mod.rs"]
mod probes;
#[path = "../runs/mod.rs"]
mod runs;
#[path = "../support/mod.rs"]
mod support;
