//! Exact sums: integers of a fixed unit.
//!
//! # Unit
//!
//! Every leaf value and base score of output `o` is rounded once, to the nearest whole number of units of
//! `2^-s(o)` (ties to even). These numbers are added as integers, in any order, and the total is rounded once
//! to `f32`. Integer additions do not round, so the bytes of a margin depend only on the model and the row.
//!
//! The exponent `s(o)` is the largest for which no sum overflows. Let
//! `T(o) = |base| + Σ over trees of the largest |leaf value of o|`, so that no partial sum is beyond `T`, and
//! let `T < 2^e`. A total has room for `30 + L` bits and a sign (see below), so `s = 29 + L - e`: one bit
//! stays free for the rounding errors of the leaf values. `s` is at most 126, because `2^-126` is the least
//! normal `f32`. So no total is a denormal number, which some devices flush to zero.
//!
//! # Two words
//!
//! A GPU without 64-bit integers adds two words of 32 bits, with no carry between them while it adds. A value
//! is `high x 2^L + low` with `0 <= low < 2^L`. If a sum has at most `n` values, `L = 32 - ceil(log2(n))` (at
//! most 31), so that the sum of the low words stays below `2^32`. `n` counts the base score and the trees of
//! the output that has the most trees. The sum of the high words stays within `2^30 + n` in magnitude, which
//! an `i32` holds for `n <= 2^30`.
//!
//! # Error
//!
//! With `n(o)` values (the base score, and a leaf value of each tree of the output) the total is off by at
//! most `q = n(o)/2 x 2^-s`: half a unit for each value. Rounding the total to `f32` adds half a unit in its
//! last place. That is at most `2^-24` of its magnitude, because the total is zero or normal. Together:
//! `q + 2^-24 x (T + q)`.
//!
//! A hundred trees leave `L = 25`. A unit is then about `2^-54 x T`, and nearly all of the error is the one
//! rounding to `f32`.

use super::SumError;
use crate::forest::{Aggregate, Forest, Targets};

/// Largest number of values of a sum.
const MOST_VALUES: usize = 1 << 30;
/// The largest scale exponent: `2^-126` is the least normal `f32`.
const MOST_EXPONENT: i32 = 126;
/// Magnitudes are multiplied by this while they are added up, so that no sum of them overflows.
const SMALL: f64 = 1.0 / (1u64 << 32) as f64;

/// A forest's leaf values and base scores as integers, which have the same sum in any order.
///
/// ```
/// use fangorn::{Forest, forest::{CompareType, Side}, sum::FixedPoint};
///
/// let mut forest = Forest::builder(1, 1).base_score([0.5]);
/// for value in [0.1, 0.2] {
///     let mut tree = forest.tree(0);
///     tree.split(0, CompareType::F32.at_most(0.0), Side::Left, 1, 2);
///     tree.leaf(1, &[value]);
///     tree.leaf(2, &[-value]);
/// }
/// let fixed = FixedPoint::new(&forest.build()?)?;
/// // Both trees' right leaves, slots 1 and 3.
/// let total = fixed.base()[0] + fixed.leaves()[1] + fixed.leaves()[3];
/// assert_eq!(fixed.round(total, 0), 0.2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FixedPoint {
    leaves: Vec<i64>,
    base: Vec<i64>,
    exponents: Vec<i32>,
    low_bits: u32,
    /// For each output, a magnitude that no partial sum exceeds.
    range: Vec<f64>,
    /// Number of values of a sum, by output.
    values: Vec<usize>,
}

impl FixedPoint {
    /// Chooses a unit for each output, and rounds leaf values and base scores to it. Takes time linear in the
    /// forest's size.
    ///
    /// # Errors
    /// The forest does not verify (the message names a leaf that is not finite), it takes the least or
    /// largest leaf, a base score is not finite, or an output has 2^30 trees or more.
    pub fn new(forest: &Forest) -> Result<Self, SumError> {
        forest.verify()?;
        Self::of_verified(forest)
    }

    /// Like [`Self::new`], for a forest that is known to verify.
    pub(crate) fn of_verified(forest: &Forest) -> Result<Self, SumError> {
        if forest.aggregate != Aggregate::Sum {
            return Err(SumError::Aggregate(forest.aggregate));
        }
        if let Some(output) = forest.base_score.iter().position(|b| !b.0.is_finite()) {
            return Err(SumError::Base { output, value: forest.base_score[output] });
        }
        let values = values(forest);
        if let Some(output) = values.iter().position(|n| *n > MOST_VALUES) {
            return Err(SumError::Trees { output, trees: values[output] - 1 });
        }
        let most = values.iter().copied().max().unwrap_or(1);
        // At most 31, because a GPU shifts a word by no more.
        let low_bits = (32 - most.next_power_of_two().ilog2()).min(31);
        let range = forest.magnitudes(SMALL);
        let exponents: Vec<i32> = range.iter().map(|t| scale_exponent(*t, low_bits)).collect();
        let width = forest.leaf_width();
        let mut leaves = vec![0; forest.leaf_values.len()];
        for (t, tree) in forest.trees.iter().enumerate() {
            for slot in tree.nodes.iter().filter_map(|n| n.slot()) {
                for (lane, value) in forest.leaf(slot).iter().enumerate() {
                    let output = match &forest.targets {
                        Targets::One(outputs) => outputs[t] as usize,
                        Targets::All => lane,
                    };
                    leaves[slot as usize * width + lane] = whole(value.0, exponents[output]);
                }
            }
        }
        let base = forest.base_score.iter().zip(&exponents).map(|(b, s)| whole(b.0, *s)).collect();
        // Adding up 2^30 numbers in `f64` has a smaller rounding error than this factor allows for.
        let range = range.iter().map(|t| t / SMALL * (1.0 + 2f64.powi(-22))).collect();
        Ok(Self { leaves, base, exponents, low_bits, range, values })
    }

    /// Returns the leaf values in units of their output, by slot: `slots x leaf width`.
    pub fn leaves(&self) -> &[i64] {
        &self.leaves
    }

    /// Returns the base scores in units, one for each output.
    pub fn base(&self) -> &[i64] {
        &self.base
    }

    /// Returns the exponent `s` of each output: its unit is `2^-s`. It is at most 126, and negative if
    /// magnitudes reach `2^(29 + low bits)`.
    pub fn exponents(&self) -> &[i32] {
        &self.exponents
    }

    /// Returns the number of bits in a value's low word, 2 to 31.
    pub fn low_bits(&self) -> u32 {
        self.low_bits
    }

    /// Splits a value into two words: low, and high (the bits of an `i32`). Low words and high words may be
    /// added up separately, with wrapping additions; [`join`] turns the two sums into a value.
    ///
    /// [`join`]: FixedPoint::join
    pub fn split(&self, value: i64) -> [u32; 2] {
        let low = value & ((1 << self.low_bits) - 1);
        [low as u32, (value >> self.low_bits) as u32]
    }

    /// Returns the value of two words. Each word may be a sum of as many words as a margin has values.
    pub fn join(&self, [low, high]: [u32; 2]) -> i64 {
        (i64::from(high as i32) << self.low_bits) + i64::from(low)
    }

    /// Turns a total in units into a margin. It rounds once to `f32`, to the nearest with ties to even, and
    /// gives infinity if the total is too large. An output that does not exist has the unit 1.
    pub fn round(&self, total: i64, output: usize) -> f32 {
        let s = self.exponents.get(output).copied().unwrap_or(0);
        // The first cast rounds. A power of two then changes only the exponent, and `f64` has room for it.
        scaled(f64::from(total as f32), -s) as f32
    }

    /// Returns how far a margin of this output may be from the real-valued sum of leaf values and base score.
    pub fn error(&self, output: usize, margin: f32) -> f64 {
        let half_ulp = f64::from(margin.abs()) * 2f64.powi(-24);
        self.quantum(output) + half_ulp
    }

    /// Returns, for each output, how far the largest margin that the model can give may be from the
    /// real-valued sum: `q + 2^-24 x (T + q)`.
    pub fn bound(&self) -> Vec<f64> {
        let bound = |(o, range): (usize, &f64)| {
            let q = self.quantum(o);
            q + 2f64.powi(-24) * (range + q)
        };
        self.range.iter().enumerate().map(bound).collect()
    }

    /// Returns the largest error that rounding the leaf values and the base score to units can cause.
    fn quantum(&self, output: usize) -> f64 {
        let values = self.values.get(output).map_or(0.0, |n| *n as f64);
        scaled(values / 2.0, -self.exponents.get(output).copied().unwrap_or(0))
    }
}

/// Returns the number of values of each output's sum: the base score, and a leaf value of each of the
/// output's trees.
fn values(forest: &Forest) -> Vec<usize> {
    match &forest.targets {
        Targets::All => vec![forest.trees.len() + 1; forest.outputs as usize],
        Targets::One(outputs) => {
            let mut values = vec![1; forest.outputs as usize];
            outputs.iter().for_each(|o| values[*o as usize] += 1);
            values
        }
    }
}

/// Returns the exponent `s` for sums whose magnitude, times [`SMALL`], is at most `range`.
fn scale_exponent(range: f64, low_bits: u32) -> i32 {
    // A range so small that it is denormal has the largest exponent anyway.
    let biased = (range.to_bits() >> 52) as i32;
    let e = biased - 1022 + 32;
    (29 + low_bits as i32 - e).min(MOST_EXPONENT)
}

/// Returns a value as the nearest integer number of units of `2^-s`, ties to even.
fn whole(value: f64, s: i32) -> i64 {
    scaled(value, s).round_ties_even() as i64
}

/// Returns `value x 2^n`. The result is exact unless a normal `f64` has no room for it.
fn scaled(value: f64, n: i32) -> f64 {
    // This takes two steps, because `2^n` alone may have no room. If the first step gives a denormal number,
    // the result of the second is far below one.
    let half = n / 2;
    value * power_of_two(half) * power_of_two(n - half)
}

/// Returns `2^n`, with `n` limited to the exponents of normal numbers.
fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((1023 + n.clamp(-1022, 1023)) as u64) << 52)
}
