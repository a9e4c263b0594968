//! The algorithms of the examples against plain loops.

use fangorn_fusion::select::{PlanCache, Policy};

#[path = "../../examples/kmeans.rs"]
#[expect(dead_code, reason = "the example's own main")]
mod kmeans;

/// Lloyd's iterations; returns centroids and the squared distances to those before the last update.
fn lloyd(x: &[f64], mut c: Vec<f64>, columns: usize, iterations: usize) -> (Vec<f64>, f64) {
    let mut error = 0.0;
    for _ in 0..iterations {
        let mut sums = vec![0.0; c.len()];
        let mut counts = vec![0.0; c.len() / columns];
        error = 0.0;
        for row in x.chunks_exact(columns) {
            let distance = |c: &[f64]| row.iter().zip(c).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
            let all: Vec<f64> = c.chunks_exact(columns).map(distance).collect();
            let nearest = (0..all.len()).min_by(|a, b| all[*a].total_cmp(&all[*b])).unwrap();
            error += all[nearest];
            counts[nearest] += 1.0;
            sums[nearest * columns..][..columns].iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        for (c, count) in sums.chunks_exact_mut(columns).zip(&counts) {
            c.iter_mut().for_each(|c| *c /= count);
        }
        c = sums;
    }
    (c, error)
}

#[test]
fn kmeans_finds_the_centroids_of_plain_loops() {
    for (rows, columns, centroids) in [(3001, 10, 5), (2000, 3, 2), (517, 33, 7)] {
        let (x, start) = kmeans::data(rows, columns, centroids);
        for policy in Policy::ALL {
            let (c, error, count) =
                kmeans::train(&mut PlanCache::default(), policy, &x, start.clone()).unwrap();
            assert!(count > 1, "{policy:?}");
            let (expected, least) = lloyd(&x.to_dense(), start.to_dense(), columns, count);
            assert!((error - least).abs() < 1e-9 * least, "{policy:?}: {error} instead of {least}");
            for (a, b) in expected.iter().zip(c.to_dense()) {
                assert!((a - b).abs() < 1e-9, "{policy:?}: {b} instead of {a}");
            }
        }
    }
}
