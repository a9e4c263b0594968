//! How features share a leaf's value, for a row and one background row.
//!
//! Sets of features are bits. Of `a` features that only the row satisfies, each gets `value (a - 1)! b! / (a + b)!`, and
//! each of the `b` that only the background row satisfies loses `value a! (b - 1)! / (a + b)!` (Lundberg et al.: *From
//! local explanations to global understanding with explainable AI for trees*, 2020, algorithm 3).

/// Returns `a! b! / (a + b)!`. Divided by `a` it is the weight of a feature that only the row satisfies, divided by `b`
/// that of one that only the background row satisfies.
pub(super) fn orders(a: usize, b: usize) -> f64 {
    (0..a).fold(1.0, |product, i| product * (i + 1) as f64 / (b + i + 1) as f64)
}

/// Adds a number to the shares of a set's features.
pub(super) fn add_to(shares: &mut [f64], mut set: u64, added: f64) {
    while set != 0 {
        shares[set.trailing_zeros() as usize] += added;
        set &= set - 1;
    }
}

/// Returns the set of all features.
pub(super) fn full(features: usize) -> u64 {
    if features >= 64 { u64::MAX } else { (1 << features) - 1 }
}
