//! Floats as integers in the same order: what kernels compare, and what a node's words depend on.

/// The key of a missing value: above every other.
pub const MISSING: u32 = u32::MAX;

/// The key of an `f32`: `key(a) < key(b)` exactly where `a < b`, -0 and +0 alike, NaN above everything.
pub fn key(x: f32) -> u32 {
    let bits = if x == 0.0 { 0 } else { x.to_bits() };
    if x.is_nan() { MISSING } else { bits ^ if bits >> 31 == 1 { u32::MAX } else { 1 << 31 } }
}
