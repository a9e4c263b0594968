//! The last stage: what leaves came to as margins, and margins as values.

// What a kernel works on is its arguments: buffers, what only the call knows, and what its cube keeps.
#![allow(clippy::too_many_arguments)]
// A comptime condition is not joined to one of the kernel.
#![allow(clippy::collapsible_if)]

use cubecl::prelude::*;

use super::{
    fixed,
    memory::{combine, margin},
    tail::{self, Beside},
};
use crate::plan::{Combine, Tail, Transform};

/// What a [`finish`] does, besides what only the call knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LastStage {
    /// How leaves become margins.
    pub combine: Combine,
    /// Whether sums began as those of no leaves, so that the base score is still to be added.
    pub add_base: bool,
    /// Margins a row.
    pub outputs: u32,
    /// What becomes of them.
    pub transform: Transform,
    /// And of the values.
    pub tail: Tail,
}

/// One unit a row: adds up the copies of its sums that `partial` still has, and writes its values. Where the result is of
/// another type than f32, `values` has room for f32 all the same.
#[cube(launch_unchecked)]
pub fn finish(
    model: &[u32],
    sums: &[u32],
    partial: &[u32],
    values: &mut [u32],
    beside: &mut Beside,
    base_at: u32,
    partial_at: u32,
    copies: u32,
    rows: u32,
    scale: f32,
    #[comptime] what: LastStage,
) {
    let row = ABSOLUTE_POS as u32;
    if row < rows {
        let outputs = comptime![what.outputs];
        let width = comptime![what.transform.width(what.outputs)];
        let at = row * width;
        let transform = comptime![what.transform];
        let mut best = 0u32;
        let mut top = 0.0f32;
        for o in 0..outputs {
            let m = scale
                * total(
                    model,
                    sums,
                    partial,
                    base_at,
                    partial_at,
                    copies,
                    rows,
                    row,
                    o,
                    comptime![what.clone()],
                );
            if comptime![transform == Transform::Argmax] {
                if o == 0u32 || m > top {
                    top = m;
                    best = o;
                }
            } else if comptime![transform.is_pair()] {
                values[(at + 2u32 * o) as usize] = u32::reinterpret(first_of_pair(m, transform));
                values[(at + 2u32 * o + 1u32) as usize] = u32::reinterpret(second_of_pair(m, transform));
            } else if comptime![transform == Transform::MeanAndVariance] {
                let deviation = m.exp();
                values[(at + o) as usize] = u32::reinterpret(select(o == 0u32, m, deviation * deviation));
            } else {
                values[(at + o) as usize] = u32::reinterpret(apply(m, transform));
            }
        }
        if comptime![transform == Transform::Argmax] {
            values[at as usize] = u32::reinterpret(f32::cast_from(best));
        }
        tail::row(values, beside, row, width, transform, comptime![&what.tail]);
    }
}

/// A row's margin: what the kernel has written, the copies that are left, and perhaps the base score.
#[cube]
fn total(
    model: &[u32],
    sums: &[u32],
    partial: &[u32],
    base_at: u32,
    partial_at: u32,
    copies: u32,
    rows: u32,
    row: u32,
    output: u32,
    #[comptime] what: LastStage,
) -> f32 {
    let fixed = comptime![what.combine == Combine::Fixed];
    let words = comptime![what.outputs * what.combine.words()];
    let first = row * words + output * comptime![what.combine.words()];
    let mut low = sums[first as usize];
    let mut high = if fixed { sums[(first + 1u32) as usize] } else { 0u32.runtime() };
    let mut copy = 0u32.runtime();
    while copy < copies {
        let at = partial_at + copy * rows * words + first;
        low = combine(low, partial[at as usize], what.combine);
        if fixed {
            high += partial[(at + 1u32) as usize];
        }
        copy += 1u32;
    }
    if comptime![what.add_base] {
        let base = model[(base_at + output) as usize];
        low = margin(base, low, model[(base_at + words) as usize], what.combine);
    }
    if fixed {
        // After the base scores and the sum of no leaves stand the bits of a low word, and each output's exponent.
        let low_bits = model[(base_at + words + 1u32) as usize];
        fixed::round(low, high, low_bits, model[(base_at + words + 2u32 + output) as usize])
    } else {
        f32::reinterpret(low)
    }
}

/// The transform of one margin on its own; those of a whole row leave it as it is.
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

#[cube]
fn first_of_pair(m: f32, #[comptime] transform: Transform) -> f32 {
    match transform {
        Transform::SigmoidPair => 1.0f32 / (1.0f32 + m.exp()),
        Transform::ComplementPair => 1.0f32 - m,
        _ => -m,
    }
}

#[cube]
fn second_of_pair(m: f32, #[comptime] transform: Transform) -> f32 {
    match transform {
        Transform::SigmoidPair => 1.0f32 / (1.0f32 + (-m).exp()),
        _ => m,
    }
}
