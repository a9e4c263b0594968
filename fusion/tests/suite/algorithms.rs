//! The algorithms of the examples against plain loops.

use fangorn_fusion::select::{PlanCache, Policy};

#[path = "../../examples/als.rs"]
#[expect(dead_code, reason = "the example's own main")]
mod als;

#[path = "../../examples/autoencoder.rs"]
#[expect(dead_code, reason = "the example's own main")]
mod autoencoder;

#[path = "../../examples/glm.rs"]
#[expect(dead_code, reason = "the example's own main")]
mod glm;

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

/// The normal distribution up to z, by Simpson's rule from 0.
fn normal(z: f64) -> f64 {
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let intervals = 200;
    let width = z / f64::from(intervals);
    let inner =
        (1..intervals).map(|at| f64::from(2 + 2 * (at % 2)) * density(f64::from(at) * width)).sum::<f64>();
    0.5 + (density(0.0) + inner + density(z)) * width / 3.0
}

/// The objective is strictly convex: where its gradient is 0 is the only optimum.
#[test]
fn glm_finds_the_optimum_of_exact_probits() {
    for (rows, columns) in [(2001, 10), (1500, 3)] {
        let (x, y) = glm::data(rows, columns);
        for policy in Policy::ALL {
            let found = glm::train(&mut PlanCache::default(), policy, &x, &y).unwrap();
            let b = found.weights.to_dense();
            let mut left: Vec<f64> = b.iter().map(|b| b * glm::LAMBDA).collect();
            let mut objective = b.iter().map(|b| b * b).sum::<f64>() * glm::LAMBDA / 2.0;
            for (x, y) in x.to_dense().chunks_exact(columns).zip(y.to_dense()) {
                let margin = y * x.iter().zip(&b).map(|(x, b)| x * b).sum::<f64>();
                let p = normal(margin);
                objective -= p.ln();
                let density = (-0.5 * margin * margin).exp() / (2.0 * std::f64::consts::PI).sqrt();
                left.iter_mut().zip(x).for_each(|(left, x)| *left -= y * density / p * x);
            }
            assert!((found.objective - objective).abs() < 1e-6 * objective, "{policy:?}");
            let greatest = left.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            assert!(greatest < 1e-3 && found.products > 5, "{policy:?}: a gradient of {greatest}");
        }
    }
}

/// One batch of an autoencoder in plain loops: `layers` hold weights, offsets, and the last steps of both.
fn plain_step(x: &[f64], rows: usize, widths: &[usize; 5], layers: &mut [[Vec<f64>; 4]]) -> f64 {
    let mut held = vec![x.to_vec()];
    for (at, [weights, offsets, ..]) in layers.iter().enumerate() {
        let (from, to) = (widths[at], widths[at + 1]);
        let element = |row: usize, column: usize| {
            let input = &held[at][row * from..][..from];
            let sum: f64 = input.iter().zip(weights[column..].iter().step_by(to)).map(|(x, w)| x * w).sum();
            1.0 / (1.0 + (-sum - offsets[column]).exp())
        };
        let values = (0..rows * to).map(|index| element(index / to, index % to)).collect();
        held.push(values);
    }
    let mut back: Vec<f64> = held[4].iter().zip(x).map(|(a, b)| a - b).collect();
    let objective = back.iter().map(|e| e * e).sum::<f64>() / 2.0 / rows as f64;
    let size = autoencoder::STEP / rows as f64;
    for at in (0..4).rev() {
        let (from, to) = (widths[at], widths[at + 1]);
        let delta: Vec<f64> = back.iter().zip(&held[at + 1]).map(|(b, y)| b * y * (1.0 - y)).collect();
        let [weights, offsets, turned, moved] = &mut layers[at];
        back = (0..rows * from)
            .map(|index| (0..to).map(|c| delta[index / from * to + c] * weights[index % from * to + c]).sum())
            .collect();
        for index in 0..from * to {
            let gradient: f64 =
                (0..rows).map(|row| held[at][row * from + index / to] * delta[row * to + index % to]).sum();
            turned[index] = autoencoder::MOMENTUM * turned[index] - size * gradient;
            weights[index] += turned[index];
        }
        for column in 0..to {
            let gradient: f64 = delta[column..].iter().step_by(to).sum();
            moved[column] = autoencoder::MOMENTUM * moved[column] - size * gradient;
            offsets[column] += moved[column];
        }
    }
    objective
}

#[test]
fn autoencoder_takes_the_steps_of_plain_loops_and_learns() {
    let (columns, batch) = (9, 16);
    let widths = autoencoder::widths(columns, 7, 2);
    // Three batches, and two rows that no batch takes.
    let x = autoencoder::data(3 * batch + 2, columns);
    for policy in Policy::ALL {
        let mut state = autoencoder::start(widths);
        let state_of =
            |state: &fangorn_fusion::Bindings, name: &str, at| state[&format!("{name}{at}")].to_dense();
        let mut layers: Vec<[Vec<f64>; 4]> =
            (0..4).map(|at| ["W", "b", "U", "v"].map(|name| state_of(&state, name, at))).collect();
        let mut cache = PlanCache::default();
        let mut epoch =
            |state: &mut _| autoencoder::epoch(&mut cache, policy, &x, batch, widths, state).unwrap();
        let found = epoch(&mut state);
        let expected: Vec<f64> =
            x.chunks_exact(batch * columns).map(|x| plain_step(x, batch, &widths, &mut layers)).collect();
        assert_eq!(found.len(), 3, "{policy:?}");
        for (a, b) in expected.iter().zip(&found) {
            assert!((a - b).abs() < 1e-10, "{policy:?}: {b} instead of {a}");
        }
        for (at, layer) in layers.iter().enumerate() {
            for (values, name) in layer.iter().zip(["W", "b", "U", "v"]) {
                let found = state_of(&state, name, at);
                let off = values.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(values.len() == found.len() && off < 1e-10, "{policy:?}: {name}{at} is off by {off}");
            }
        }
        for _ in 0..60 {
            epoch(&mut state);
        }
        let last = epoch(&mut state);
        assert!(last[2] < 0.7 * found[0], "{policy:?}: {} after {}", last[2], found[0]);
    }
}
