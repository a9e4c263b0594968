//! Exponentials and functions of them, for `f32` results. The compiler vectorizes loops over them.
//!
//! Each function takes a number in the range of `f32` and computes in doubles. Its result, rounded to `f32`, is at most
//! one unit in the last place off. NaN stays NaN.

/// Returns the exponential of `x`: a power of 2, times a polynomial of the rest.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    // Beyond these bounds the result as an `f32` is infinite or 0.
    let x = if x > 110.0 { 110.0 } else { x };
    let x = if x < -110.0 { -110.0 } else { x };
    // Adding this number rounds to an integer, whose bits are then the lowest bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let shifted = x * std::f64::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    // The logarithm of 2 as a sum of two numbers, of which the first has zeros at its end.
    let rest = x - whole * 6.931_471_803_691_238e-1;
    let rest = rest - whole * 1.908_214_929_270_587_7e-10;
    // The series up to the 11th power: the rest is at most 0.35.
    const FACTORS: [f64; 11] = [
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let mut sum = 1.0 / 39_916_800.0;
    for factor in FACTORS {
        sum = sum * rest + factor;
    }
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1023 << 52));
    sum * power
}

/// Returns `1 / (1 + exp(-x))`.
#[inline(always)]
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// Returns the hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f64) -> f64 {
    let square = x * x;
    // Near 0 the series is used, because the difference below has few correct digits there.
    let near = x * (1.0 + square * (-1.0 / 3.0 + square * (2.0 / 15.0 - square * (17.0 / 315.0))));
    let power = exp(-2.0 * x.abs());
    let far = ((1.0 - power) / (1.0 + power)).copysign(x);
    if x.abs() < 0.02 { near } else { far }
}

/// Returns the error function, by the rational functions of Cody (Rational Chebyshev approximations for the error
/// function, 1969). As a double, too, the result is at most 1e-14 off.
#[inline(always)]
pub(crate) fn erf(x: f64) -> f64 {
    let size = x.abs();
    let square = size * size;
    const NEAR: [[f64; 2]; 4] = [
        [3.161_123_743_870_565_6, 2.360_129_095_234_412_2e1],
        [1.138_641_541_510_501_6e2, 2.440_246_379_344_441_7e2],
        [3.774_852_376_853_02e2, 1.282_616_526_077_372_3e3],
        [3.209_377_589_138_469_5e3, 2.844_236_833_439_171e3],
    ];
    let (mut above, mut below) = (1.857_777_061_846_031_5e-1, 1.0);
    for [a, b] in NEAR {
        (above, below) = (above * square + a, below * square + b);
    }
    let near = size * above / below;
    const FAR: [[f64; 2]; 8] = [
        [5.641_884_969_886_701e-1, 1.574_492_611_070_983_5e1],
        [8.883_149_794_388_377, 1.176_939_508_913_125e2],
        [6.611_919_063_714_163e1, 5.371_811_018_620_099e2],
        [2.986_351_381_974_001e2, 1.621_389_574_566_690_3e3],
        [8.819_522_212_417_69e2, 3.290_799_235_733_459_7e3],
        [1.712_047_612_634_070_7e3, 4.362_619_090_143_247e3],
        [2.051_078_377_826_071_6e3, 3.439_367_674_143_721_6e3],
        [1.230_339_354_797_997_2e3, 1.230_339_354_803_749_5e3],
    ];
    let (mut above, mut below) = (2.153_115_354_744_038_3e-8, 1.0);
    for [a, b] in FAR {
        (above, below) = (above * size + a, below * size + b);
    }
    let far = 1.0 - exp(-square) * above / below;
    // Beyond this bound the result, rounded, is 1.
    let far = if size > 6.0 { 1.0 } else { far };
    (if size < 0.468_75 { near } else { far }).copysign(x)
}

/// Returns `x` times the probability that a standard normal variable is below `x` (Hendrycks and Gimpel, Gaussian Error
/// Linear Units, 2016).
#[inline(always)]
pub(crate) fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
}

#[cfg(test)]
mod tests {
    use super::{erf, exp, gelu, sigmoid, tanh};

    /// The error function by Abramowitz and Stegun's series 7.1.6.
    fn series(x: f64) -> f64 {
        let a = x.abs();
        if a > 6.0 {
            return x.signum();
        }
        let (mut term, mut sum, mut n) = (a, a, 1.0);
        while term > 1e-17 * sum {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        x.signum() * std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum
    }

    #[track_caller]
    fn is_near(name: &str, x: f64, found: f64, expected: f64) {
        let (found, expected) = (found as f32, expected as f32);
        let apart = (i64::from(found.to_bits()) - i64::from(expected.to_bits())).abs();
        assert!(apart <= 1, "{name}({x}) is {expected:e}, not {found:e}");
    }

    #[test]
    fn functions_are_those_of_the_library() {
        let all = (-115_000..=115_000).map(|at| f64::from(at) / 1000.0);
        let tiny = (0..300).map(|at| 2f64.powi(-at / 2) * if at % 2 == 0 { 1.0 } else { -1.0 });
        for x in all.chain(tiny) {
            let x = f64::from(x as f32);
            is_near("exp", x, exp(x), if x > 89.0 { f64::INFINITY } else { x.exp() });
            is_near("sigmoid", x, sigmoid(x), 1.0 / (1.0 + (-x).exp()));
            is_near("tanh", x, tanh(x), x.tanh());
            is_near("erf", x, erf(x), series(x));
            assert!((erf(x) - series(x)).abs() <= 1e-14, "erf({x})");
            if x > -4.0 {
                is_near("gelu", x, gelu(x), 0.5 * x * (1.0 + series(x / 2f64.sqrt())));
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        for f in [exp, sigmoid, tanh, erf, gelu] {
            assert!(f(f64::NAN).is_nan());
        }
        let largest = f64::from(f32::MAX);
        for end in [largest, f64::INFINITY] {
            assert_eq!([exp(end) as f32, exp(-end) as f32], [f32::INFINITY, 0.0]);
            assert_eq!([sigmoid(end) as f32, sigmoid(-end) as f32], [1.0, 0.0]);
            assert_eq!([tanh(end), tanh(-end)], [1.0, -1.0]);
            assert_eq!([erf(end), erf(-end)], [1.0, -1.0]);
            assert_eq!(gelu(end), end);
        }
        assert_eq!(gelu(-largest) as f32, 0.0);
        assert!(tanh(-0.0).is_sign_negative() && erf(-0.0).is_sign_negative());
    }
}
