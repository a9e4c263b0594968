//! Exponential and logarithm of doubles. They have no branches and no tables, so that the compiler vectorizes loops over
//! them, and no fused multiplication and addition, so that they give the same bits on all machines. Results are at most 1
//! unit in the last place off.

/// Adding this number to a small one rounds it to an integer, whose bits are then the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;
/// The logarithm of 2 as a sum of two numbers. The first one has zeros at its end, so that its products with exponents are
/// exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// Returns the exponential of `x`: a power of 2, times the series of the rest.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    // Beyond these bounds the result is infinite or 0.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let whole = (x * std::f64::consts::LOG2_E + ROUND) - ROUND;
    let rest = (x - whole * LN_2[0]) - whole * LN_2[1];
    // The series from the 2nd to the 13th power: the rest is at most 0.35.
    const FACTORS: [f64; 11] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
    ];
    let mut sum = 1.0 / 6_227_020_800.0;
    for factor in FACTORS {
        sum = sum * rest + factor;
    }
    let sum = 1.0 + (rest + rest * rest * sum);
    // Two powers of 2, since their product may be beyond the range of doubles where the result is not.
    let half = whole * 0.5 + ROUND;
    let other = whole - (half - ROUND) + ROUND;
    let power = |shifted: f64| f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    sum * power(half) * power(other)
}

/// Returns the natural logarithm of `x`: that of a power of 2, and the series of that of a number near 1.
#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    // The smallest numbers have no bits of an exponent.
    let is_small = x < f64::MIN_POSITIVE;
    let scaled = if is_small { x * 18_014_398_509_481_984.0 } else { x };
    // The bits of a number just below the square root of one half. What is left of x is at least this, and less than twice it.
    const LEAST: u64 = 0x3fe6_a09e_0000_0000;
    const ONE: u64 = 1023 << 52;
    let bits = scaled.to_bits().wrapping_add(ONE - LEAST);
    // The exponent becomes a double by way of its bits, which vectors have instructions for.
    const INTEGERS: f64 = 4_503_599_627_370_496.0;
    let exponent = f64::from_bits(bits >> 52 | INTEGERS.to_bits()) - (INTEGERS + 1023.0);
    let exponent = if is_small { exponent - 54.0 } else { exponent };
    let near = f64::from_bits((bits & ((1 << 52) - 1)) + LEAST) - 1.0;
    // With s = f / (2 + f), log(1 + f) = 2 s + 2/3 s^3 + 2/5 s^5 + ..., where s is at most 0.172.
    let s = near / (2.0 + near);
    let square = s * s;
    const FACTORS: [f64; 9] = [
        2.0 / 19.0,
        2.0 / 17.0,
        2.0 / 15.0,
        2.0 / 13.0,
        2.0 / 11.0,
        2.0 / 9.0,
        2.0 / 7.0,
        2.0 / 5.0,
        2.0 / 3.0,
    ];
    let mut sum = 2.0 / 21.0;
    for factor in FACTORS {
        sum = sum * square + factor;
    }
    // 2 s is f - s f, which keeps more digits of f.
    let half = 0.5 * near * near;
    let small = exponent * LN_2[1] + s * (half + square * sum);
    let found = exponent * LN_2[0] - ((half - small) - near);
    let found = if x == f64::INFINITY { x } else { found };
    let found = if x == 0.0 { f64::NEG_INFINITY } else { found };
    if x < 0.0 || x.is_nan() { f64::NAN } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many doubles lie between two of them.
    fn units(a: f64, b: f64) -> u64 {
        let order = |x: f64| {
            let bits = x.to_bits() as i64;
            if bits < 0 { i64::MIN - bits } else { bits }
        };
        if a.is_nan() && b.is_nan() { 0 } else { order(a).abs_diff(order(b)) }
    }

    fn draws() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(5_u64), |seed| {
            Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        })
        .map(|seed| seed ^ seed >> 29)
    }

    #[test]
    fn exponentials_are_those_of_the_standard_library() {
        let ends =
            [0.0, -0.0, 1.0, 709.782712893384, 709.7827128933841, 710.0, 1e300, -708.4, -745.13, -745.14];
        let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, -5e-324, -1e300, -746.0];
        let spread =
            draws().take(2_000_000).map(|draw| ((draw >> 11) as f64 / (1_u64 << 53) as f64 - 0.5) * 1500.0);
        let small = draws().take(200_000).map(|draw| f64::from_bits(draw >> 2));
        for x in ends.into_iter().chain(special).chain(spread).chain(small) {
            assert!(units(exp(x), x.exp()) <= 1, "{x:e}: {:e}, {:e}", exp(x), x.exp());
        }
    }

    #[test]
    fn logarithms_are_those_of_the_standard_library() {
        let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, -0.0, -1.0, 5e-324, -5e-324, 1.0];
        let ends =
            [f64::MIN_POSITIVE, f64::MAX, std::f64::consts::FRAC_1_SQRT_2, std::f64::consts::SQRT_2, 2.0];
        let all = draws().take(2_000_000).map(f64::from_bits);
        let near = draws().take(2_000_000).map(|draw| 0.5 + (draw >> 11) as f64 / (1_u64 << 52) as f64);
        for x in special.into_iter().chain(ends).chain(all).chain(near) {
            assert!(units(log(x), x.ln()) <= 1, "{x:e}: {:e}, {:e}", log(x), x.ln());
        }
    }
}
