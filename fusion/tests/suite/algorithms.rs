//! The algorithms of the examples against plain loops.

use fangorn_fusion::select::{PlanCache, Policy};

#[path = "../../examples/als.rs"]
#[expect(dead_code, reason = "the example's own main")]
mod als;

#[path = "../../examples/kmeans.rs"]
#[expect(dead_code, reason = "the example's own main")]
mod kmeans;

#[path = "../../examples/mlogreg.rs"]
#[expect(dead_code, reason = "the example's own main")]
mod mlogreg;

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

/// Returns the gradient and the objective of a multinomial logistic regression.
fn gradient(x: &[f64], y: &[f64], b: &[f64], columns: usize, others: usize) -> (Vec<f64>, f64) {
    let mut found: Vec<f64> = b.iter().map(|b| b * mlogreg::LAMBDA).collect();
    let mut objective = b.iter().map(|b| b * b).sum::<f64>() * mlogreg::LAMBDA / 2.0;
    for (x, y) in x.chunks_exact(columns).zip(y.chunks_exact(others)) {
        let score =
            |class: usize| x.iter().zip(b.chunks_exact(others)).map(|(x, b)| x * b[class]).sum::<f64>();
        let scores: Vec<f64> = (0..others).map(score).collect();
        let whole = 1.0 + scores.iter().map(|score| score.exp()).sum::<f64>();
        objective += whole.ln() - scores.iter().zip(y).map(|(score, y)| score * y).sum::<f64>();
        for (x, found) in x.iter().zip(found.chunks_exact_mut(others)) {
            for class in 0..others {
                found[class] += x * (scores[class].exp() / whole - y[class]);
            }
        }
    }
    (found, objective)
}

/// The objective is strictly convex: where its gradient is 0 is the only optimum.
#[test]
fn mlogreg_finds_the_optimum() {
    for (rows, columns, classes) in [(2001, 10, 2), (1500, 7, 5)] {
        let (x, y) = mlogreg::data(rows, columns, classes);
        for policy in Policy::ALL {
            let found = mlogreg::train(&mut PlanCache::default(), policy, &x, &y).unwrap();
            let b = found.weights.to_dense();
            let (left, objective) = gradient(&x.to_dense(), &y.to_dense(), &b, columns, classes - 1);
            assert!((found.objective - objective).abs() < 1e-9 * objective, "{policy:?}");
            let greatest = left.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            assert!(greatest < 1e-3 && found.products > 5, "{policy:?}: a gradient of {greatest}");
        }
    }
}

#[test]
fn als_lessens_the_loss_of_plain_loops() {
    let (rows, columns, rank) = (120, 70, 4);
    let (x, start) = als::data(rows, columns, 0.2, rank);
    let sides = als::Sides::new(&x);
    let held = x.to_dense();
    for policy in Policy::ALL {
        let ([u, v], losses) = als::train(&mut PlanCache::default(), policy, &sides, start.clone()).unwrap();
        let (u, v) = (u.to_dense(), v.to_dense());
        let square = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>();
        let mut loss = 0.0;
        for (at, x) in held.iter().enumerate().filter(|(_, x)| **x != 0.0) {
            let (u, v) = (&u[at / columns * rank..][..rank], &v[at % columns * rank..][..rank]);
            let product: f64 = u.iter().zip(v).map(|(u, v)| u * v).sum();
            // Each element that is held weighs its row and its column once.
            loss += (x - product).powi(2) + als::LAMBDA * (square(u) + square(v));
        }
        let last = losses[losses.len() - 1];
        assert!((loss - last).abs() < 1e-8 * held.len() as f64, "{policy:?}: {last} instead of {loss}");
        assert!(losses.is_sorted_by(|a, b| *b <= a * (1.0 + 1e-9)), "{policy:?}: {losses:?}");
        assert!(last < 0.05 * losses[0], "{policy:?}: {losses:?}");
    }
}
