//! A support vector machine with squared hinge loss (L2SVM), trained by conjugate gradients with a line search: lambda
//! 1e-3, tolerance 1e-12, at most 20 outer iterations.

use burn::tensor::Tensor;
use fangorn_graphs::Result;

use crate::{
    Reached,
    data::Classes,
    step::{Step, Way, dense, filled, indicators, like, one, value},
};

const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
const OUTER: usize = 20;
/// Newton steps of a line search. Sums of `f32` may not come closer than the rounding of the gradient.
const INNER: usize = 20;

/// From the direction s: X s, and two numbers of the line search that stay.
fn direction([x, w, s]: [Tensor<2>; 3]) -> [Tensor<2>; 3] {
    [x.matmul(s.clone()), one((w * s.clone()).sum()) * LAMBDA, one(s.powi_scalar(2).sum()) * LAMBDA]
}

/// A Newton step of the line search: the gradient and the curvature along the direction.
fn search([y, xw, xd, wd, dd, size]: [Tensor<2>; 6]) -> [Tensor<2>; 2] {
    let out = -(y.clone() * (xw + size.clone() * xd.clone())) + 1.0;
    let violated = indicators(out.clone().greater_elem(0.0), &out);
    let slope = one((out * violated.clone() * y * xd.clone()).sum());
    [wd + size * dd.clone() - slope, dd + one((xd.powi_scalar(2) * violated).sum())]
}

/// A step along the direction: weights, X w, the objective, the gain, and the next direction and gradient.
fn step([x, y, xw, xd, w, s, old, size]: [Tensor<2>; 8]) -> [Tensor<2>; 6] {
    let (w, xw) = (w + size.clone() * s.clone(), xw + size * xd);
    let out = (-(y.clone() * xw.clone()) + 1.0).clamp_min(0.0);
    let gradient = x.transpose().matmul(out.clone() * y) - w.clone() * LAMBDA;
    let loss = one(out.powi_scalar(2).sum()) * 0.5 + one(w.clone().powi_scalar(2).sum()) * (LAMBDA / 2.0);
    let gain = one((s.clone() * old.clone()).sum());
    let share = one(gradient.clone().powi_scalar(2).sum()) / one(old.powi_scalar(2).sum());
    [w, xw, loss, gain, s * share + gradient.clone(), gradient]
}

/// Trains weights for rows of two classes.
pub(crate) fn train(data: &Classes, way: Way) -> Result<Reached> {
    let (x, y) = (&data.x, &data.signs);
    let [rows, columns] = x.dims();
    let (weights, scores, number) = (dense(columns, 1, x), dense(rows, 1, x), dense(1, 1, x));
    let direction = Step::new(way, [like(x), weights, weights], direction)?;
    let search = Step::new(way, [scores, scores, scores, number, number, number], search)?;
    let step = Step::new(way, [like(x), scores, scores, scores, weights, weights, weights, number], step)?;

    let zeros = |rows: usize| filled([rows, 1], 0.0, x);
    let mut size = zeros(1);
    // The first gradient is that of a step of length 0.
    let begin = [x, y, &zeros(rows), &zeros(rows), &zeros(columns), &zeros(columns)];
    let [x_, y_, xw, xd, w, s] = begin;
    let [mut w, mut xw, _, _, _, mut gradient] =
        step.call([x_, y_, xw, xd, w, s, &filled([columns, 1], 1.0, x), &size])?;
    let mut s = gradient.clone();
    let mut reached = Reached { objective: f64::INFINITY, iterations: 0 };
    for _ in 0..OUTER {
        let [xd, wd, dd] = direction.call([x, &w, &s])?;
        let mut length = 0.0;
        for _ in 0..INNER {
            size = filled([1, 1], length, x);
            let [g, h] = search.call([y, &xw, &xd, &wd, &dd, &size])?;
            let (g, h) = (value(&g), value(&h));
            length -= g / h;
            reached.iterations += 1;
            if g * g / h < 1e-10 {
                break;
            }
        }
        size = filled([1, 1], length, x);
        let [next_w, next_xw, loss, gain, next_s, next] =
            step.call([x, y, &xw, &xd, &w, &s, &gradient, &size])?;
        (w, xw, s, gradient) = (next_w, next_xw, next_s, next);
        reached.objective = value(&loss);
        if length * value(&gain) < TOLERANCE * reached.objective {
            break;
        }
    }
    Ok(reached)
}
