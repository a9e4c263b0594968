//! Kernels by instruction set. Generic code stands in the modules that call the kernels. Each
//! instruction set has a thin file here for each kind of kernel, with the same file names in every set.
//!
//! | file | kernels |
//! |---|---|
//! | `mod.rs` | walks of vectors of rows |
//! | `top.rs` | the first levels of these walks, with a tree's nodes in registers |
//! | `blend.rs` | every split of a tree for 64 rows |
//! | `copy.rs` | rows to columns |
//! | `rank.rs` | values of a column to ranks, by search |
//! | `layers.rs` | values of a column block to ranks, by one compare for each layer of thresholds |
//! | `count.rs` | values of a column to ranks, by counts in groups of thresholds |
//! | `tiles.rs` | walks of tiles of nodes |
//! | `full.rs` | a row through full trees, four side by side |
//! | `registers.rs`, `abreast.rs` | a few rows, if a set has an engine of its own |
//!
//! [`crate::isa`] alone decides which instruction set runs. If a set lacks a file, portable code runs.

#[cfg(target_arch = "aarch64")]
pub(super) mod aarch64;
pub(super) mod portable;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;
