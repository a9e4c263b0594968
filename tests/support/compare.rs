//! How results are compared with the reference's.

// Each test crate uses its part.
#![allow(dead_code)]

use fangorn::{Forest, forest::Transform};

/// A schedule's sum may differ from the reference's by the bound of an f32 sum in any order.
pub fn assert_margins<T: Copy + Into<f64>>(
    what: &str,
    forest: &Forest,
    found: &[T],
    expected: impl Fn(usize) -> Vec<f64>,
) {
    let outputs = forest.outputs as usize;
    let bound = forest.sum_bound();
    for (r, row) in found.chunks(outputs).enumerate() {
        for (o, (found, expected)) in row.iter().zip(expected(r)).enumerate() {
            let found = (*found).into();
            let off = (found - expected).abs();
            assert!(
                off <= bound[o],
                "{what}: row {r}, output {o}: {found} is {off:e} from {expected}, at most {:e}",
                bound[o]
            );
        }
    }
}

/// The bound of a margin carried through the transform: every transform but softmax's and the exponential's has a
/// slope of at most 1, those are relative, and the steps differ only where a margin is that near the step.
pub fn assert_values<T: Copy + Into<f64>>(
    what: &str,
    forest: &Forest,
    found: &[T],
    row_of: impl Fn(usize) -> Vec<f64>,
) {
    let width = forest.transform.width(forest.outputs as usize);
    let scale = forest.scale.0;
    // A scale is rounded to f32, and so is its product.
    let largest = forest.sum_bound().into_iter().fold(0.0, f64::max) * scale.abs();
    for (r, row) in found.chunks(width).enumerate() {
        let margins: Vec<f64> = row_of(r).into_iter().map(|m| m * scale).collect();
        let values = forest.transform.apply_f64(&margins);
        let rounded = if scale == 1.0 { 0.0 } else { margins.iter().fold(0.0, |m: f64, v| m.max(v.abs())) };
        let bound = largest + rounded * 2f64.powi(-22);
        for (o, (found, expected)) in row.iter().zip(values).enumerate() {
            let found: f64 = (*found).into();
            let off = (found - expected).abs();
            let allowed = match forest.transform {
                Transform::Identity => bound,
                // A device's exponential is off by a few units in the last place.
                Transform::Sigmoid | Transform::SigmoidPair => bound / 4.0 + 2.5e-7,
                Transform::Exp | Transform::Softmax => expected.abs() * (2.0 * bound + 2e-6) + 1e-37,
                Transform::Step if margins[o].abs() <= bound => 1.0,
                Transform::Argmax => {
                    let top = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    if margins[found as usize] >= top - 2.0 * bound { f64::INFINITY } else { 0.0 }
                }
                Transform::Step => 0.0,
                Transform::Softplus | Transform::OppositePair | Transform::ComplementPair => bound + 2.5e-7,
                Transform::PowerOfTwo | Transform::SoftmaxZero => {
                    expected.abs() * (2.0 * bound + 2e-6) + 1e-37
                }
                Transform::MeanAndVariance if o == 0 => bound,
                Transform::MeanAndVariance => expected.abs() * (3.0 * bound + 4e-6) + 1e-37,
                // Steps of a slope of at most 1 add up, and so do the roundings on the way.
                Transform::CumulativeSoftplus => {
                    let largest = margins.iter().fold(expected.abs(), |m: f64, v| m.max(v.abs()));
                    (o + 1) as f64 * (bound + 5e-7 + largest * 2.5e-7)
                }
                Transform::SignedSquare => 2.0 * expected.abs().sqrt() * bound + bound * bound + 1e-7,
                // Steep at its ends: a hundredth of the way in the slope is below 40.
                Transform::Probit => 40.0 * bound + 1e-5 * expected.abs(),
            };
            assert!(
                off <= allowed,
                "{what}: row {r}, value {o}: {found} is {off:e} from {expected}, at most {allowed:e}"
            );
        }
    }
}

/// Whether a schedule was refused because the driver would miscompile shared memory, as Mesa's does with SPIR-V.
pub fn lacks_shared_memory(error: &fangorn::Error) -> bool {
    error.to_string().contains("VK_KHR_workgroup_memory_explicit_layout")
}
