//! Kernels by instruction set. Generic code stands in the modules that call the kernels. Each
//! instruction set has a thin file here for each kind of kernel, with the same file names in every set.
//!
//! | file | kernels |
//! |---|---|
//! | `mod.rs` | walks of vectors of rows |
//! | `top.rs` | the first levels of these walks, with a tree's nodes in registers |
//! | `blend.rs` | every split of a tree for 64 rows |
//! | `copy.rs` | rows to columns |
//! | `rank.rs` | values of a column to ranks |
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

use super::ranking::count::FAN;

/// Loops that count, again and again, how many thresholds of a group are at most a value.
///
/// Such a count is a few instructions, so it has to be inlined. But a compiler inlines a function with the
/// instructions of a set only into functions that have these instructions, too. So the loops are handed to the
/// set, which compiles them with its instructions. The set knows nothing else of them.
pub(super) trait CountingLoops {
    /// Runs the loops. `at_most` returns how many thresholds of a group are at most a value. An implementation
    /// is `#[inline(always)]`.
    fn run(self, at_most: impl Fn(&[f32; FAN], f32) -> u32);
}
