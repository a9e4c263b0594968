//! Transforms of a single margin.

use cubecl::prelude::*;
use fangorn_ir::Transform;

/// Transforms one margin by itself. A transform that is not elementwise leaves the margin as it is.
#[cube]
pub fn apply(m: f32, #[comptime] transform: Transform) -> f32 {
    match transform {
        Transform::Sigmoid => 1.0f32 / (1.0f32 + (-m).exp()),
        Transform::Exp => m.exp(),
        Transform::Step => select(m > 0.0f32, 1.0f32, 0.0f32),
        Transform::Softplus => {
            let positive = select(m > 0.0f32, m, 0.0f32);
            positive + (-m.abs()).exp().log1p()
        }
        Transform::SignedSquare => m * m.abs(),
        Transform::PowerOfTwo => (m * comptime![-std::f32::consts::LN_2]).exp(),
        Transform::Probit => {
            let x = 2.0f32 * m - 1.0f32;
            let log = ((1.0f32 - x) * (1.0f32 + x)).ln();
            let a = comptime![2.0 / (std::f32::consts::PI * 0.147)] + 0.5f32 * log;
            let root = ((a * a - log / 0.147f32).sqrt() - a).sqrt() * comptime![std::f32::consts::SQRT_2];
            select(x < 0.0f32, -root, root)
        }
        Transform::Identity
        | Transform::Softmax
        | Transform::SoftmaxZero
        | Transform::Argmax
        | Transform::SigmoidPair
        | Transform::ComplementPair
        | Transform::OppositePair
        | Transform::MeanAndVariance
        | Transform::CumulativeSoftplus => m,
    }
}

/// Returns the first of the two values that a margin becomes.
#[cube]
pub fn first_of_pair(m: f32, #[comptime] transform: Transform) -> f32 {
    match transform {
        Transform::SigmoidPair => 1.0f32 / (1.0f32 + m.exp()),
        Transform::ComplementPair => 1.0f32 - m,
        _ => -m,
    }
}

/// Returns the second of the two values that a margin becomes.
#[cube]
pub fn second_of_pair(m: f32, #[comptime] transform: Transform) -> f32 {
    match transform {
        Transform::SigmoidPair => 1.0f32 / (1.0f32 + (-m).exp()),
        _ => m,
    }
}
