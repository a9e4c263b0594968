//! Gauss-Legendre quadrature on the interval from 0 to 1.

/// A point of a quadrature, and its weight. The weights of all points add up to 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) at: f64,
    pub(super) weight: f64,
}

/// Returns the points of a quadrature that integrates polynomials below the degree `2 count` exactly (Press, Teukolsky,
/// Vetterling, Flannery: *Numerical Recipes*, section 4.6: roots of the Legendre polynomial by Newton's method).
pub(super) fn points(count: usize) -> Vec<Point> {
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
