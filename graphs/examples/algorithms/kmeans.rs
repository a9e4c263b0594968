//! KMeans: one run, tolerance 1e-12, at most 20 iterations.

use burn::tensor::Tensor;
use fangorn_graphs::Result;

use crate::{
    Reached,
    step::{Step, Way, indicators, like, one, value},
};

const TOLERANCE: f64 = 1e-12;
const ITERATIONS: usize = 20;

/// The squares of X, which no iteration changes.
fn squares([x]: [Tensor<2>; 1]) -> [Tensor<2>; 1] {
    [one(x.powi_scalar(2).sum())]
}

/// An iteration: the distances of rows X to centroids C, the rows' nearest ones, and the centroids of these.
fn iteration([x, c]: [Tensor<2>; 2]) -> [Tensor<2>; 2] {
    // Squared distances less the squares of X, which are the same for all centroids.
    let lengths = c.clone().powi_scalar(2).sum_dim(1).transpose();
    let distances = x.clone().matmul(c.transpose()) * -2.0 + lengths;
    let least = distances.clone().min_dim(1);
    let nearest = indicators(distances.lower_equal(least.clone()), &x);
    let shares = nearest.clone() / nearest.sum_dim(1);
    let sums = shares.clone().transpose().matmul(x);
    [sums / shares.sum_dim(0).transpose(), one(least.sum())]
}

/// Clusters rows. The first rows are the centroids to start from.
pub(crate) fn train(x: &Tensor<2>, centroids: usize, way: Way) -> Result<Reached> {
    let mut c = x.clone().narrow(0, 0, centroids);
    let squares = Step::new(way, [like(x)], squares)?;
    let iteration = Step::new(way, [like(x), like(&c)], iteration)?;
    let [squares] = squares.call([x])?;
    let squares = value(&squares);
    let mut reached = Reached { objective: f64::INFINITY, iterations: 0 };
    for _ in 0..ITERATIONS {
        let [next, least] = iteration.call([x, &c])?;
        c = next;
        let error = squares + value(&least);
        let gain = reached.objective - error;
        reached = Reached { objective: error, iterations: reached.iterations + 1 };
        if gain <= TOLERANCE * error {
            break;
        }
    }
    Ok(reached)
}
