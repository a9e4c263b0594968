//! Kernels by instruction set: what is generic stands in the modules that call them, and here is a thin file for each set, with the same
//! names in each of them.
//!
//! | file | kernels |
//! |---|---|
//! | `mod.rs` | walks of vectors of rows |
//! | `blend.rs` | every split of a tree for 64 rows |
//! | `copy.rs` | rows to columns |
//! | `rank.rs` | values of a column to ranks, by search |
//! | `layers.rs` | values of sixteen columns to ranks, by a compare a threshold |
//! | `tiles.rs` | walks of tiles of nodes |
//! | `registers.rs`, `abreast.rs` | a few rows, each where a set has an engine of its own |
//!
//! Which set there is, [`crate::isa`] says alone. A set without a file leaves that to portable code.

#[cfg(target_arch = "aarch64")]
pub(super) mod aarch64;
pub(super) mod portable;
#[cfg(target_arch = "x86_64")]
pub(super) mod x86;
