//! Keys: floats as integers in the same order. Kernels compare keys, and the format of a node's words depends
//! on them.

/// The key of a missing value. It is above every other key.
pub const MISSING: u32 = u32::MAX;

/// Returns the key of an `f32`. For numbers `a` and `b`, `key(a) < key(b)` if and only if `a < b`. -0 and +0
/// have the same key, and NaN has the key of a missing value.
pub fn key(x: f32) -> u32 {
    let bits = if x == 0.0 { 0 } else { x.to_bits() };
    if x.is_nan() { MISSING } else { bits ^ if bits >> 31 == 1 { u32::MAX } else { 1 << 31 } }
}
