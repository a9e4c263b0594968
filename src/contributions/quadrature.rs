//! Gauss-Legendre quadrature on the interval from 0 to 1.

use std::sync::OnceLock;

/// A point of a quadrature, and its weight. The weights of all points add up to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) at: f64,
    pub(super) weight: f64,
}

/// The greatest error of the integral of a leaf's path, if a quadrature is not exact. It is far below the rounding to
/// `f32`.
const ERROR: f64 = 1.0 / (1u64 << 30) as f64;

/// Returns how many points integrate the factors of a path with `features` features. Half as many points as features
/// are exact, and about `2.4 x sqrt(features)` points are within [`ERROR`].
///
/// A product of up to `d` factors is a mean of polynomials `t^a (1 - t)^b` with `a + b <= d`. With `t = cos^2(u / 2)`
/// the coefficient of `cos(k u)` in one is at most the chance that `2 d` coins have a surplus of `k` heads. Those above
/// `2 n`, which `n` points do not see, add up to at most `2 exp(-4 n^2 / d)` (Hoeffding: *Probability inequalities for
/// sums of bounded random variables*, 1963, theorem 2); a quadrature doubles that at most.
pub(super) fn needed(features: usize) -> usize {
    let exact = features.div_ceil(2).max(1);
    let degree = features.saturating_sub(1) as f64;
    let close = ((8.0 / ERROR).ln() * degree).sqrt() / 2.0;
    exact.min(close.ceil() as usize).max(1)
}

/// Returns the points of a quadrature that integrates polynomials below the degree `2 count` exactly (Press, Teukolsky,
/// Vetterling, Flannery: *Numerical Recipes*, section 4.6: roots of the Legendre polynomial by Newton's method).
pub(super) fn points(count: usize) -> Vec<Point> {
    // Nearly all trees need few points, and each tree asks for them.
    static FEW: [OnceLock<Vec<Point>>; 16] = [const { OnceLock::new() }; 16];
    match FEW.get(count) {
        Some(points) => points.get_or_init(|| roots(count)).clone(),
        None => roots(count),
    }
}

fn roots(count: usize) -> Vec<Point> {
    let n = count as f64;
    let point = |i: usize| {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n + 0.5)).cos();
        let mut slope = 1.0;
        // Newton's method doubles the right digits in a round.
        for _ in 0..8 {
            let (mut value, mut before) = (1.0, 0.0);
            for j in 0..count {
                let j = j as f64;
                (value, before) = (((2.0 * j + 1.0) * x * value - j * before) / (j + 1.0), value);
            }
            slope = n * (x * value - before) / (x * x - 1.0);
            x -= value / slope;
        }
        Point { at: (1.0 - x) / 2.0, weight: 1.0 / ((1.0 - x * x) * slope * slope) }
    };
    (0..count).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_integrate_paths_of_many_features() {
        assert_eq!([0, 1, 2, 8, 9].map(needed), [1, 1, 1, 4, 5]);
        assert!(needed(100_000) < 1000);
        for features in [10, 22, 23, 24, 40, 200, 3000, 100_000] {
            let points = points(needed(features));
            let degree = features - 1;
            // t^a (1 - t)^b has the integral a! b! / (a + b + 1)!.
            let mut exact = 1.0 / features as f64;
            for b in 0..degree.min(30) {
                let a = (degree - b) as i32;
                for turned in [false, true] {
                    let term = |t: f64| t.powi(a) * (1.0 - t).powi(b as i32);
                    let at = |p: &Point| term(if turned { 1.0 - p.at } else { p.at });
                    let sum: f64 = points.iter().map(|p| p.weight * at(p)).sum();
                    assert!(
                        (sum - exact).abs() < ERROR,
                        "{features} features, {b} absent: {sum} for {exact}"
                    );
                }
                exact *= (b + 1) as f64 / f64::from(a);
            }
        }
    }

    #[test]
    fn powers_below_twice_the_count_are_exact() {
        for count in 1..=40 {
            let points = points(count);
            for power in 0..2 * count {
                let sum: f64 = points.iter().map(|p| p.weight * p.at.powi(power as i32)).sum();
                let exact = 1.0 / (power + 1) as f64;
                assert!((sum - exact).abs() < 1e-14, "{count} points, power {power}: {sum} for {exact}");
            }
        }
    }
}
