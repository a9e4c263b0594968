//! Newton's method whose steps conjugate gradients find: tolerance 1e-12, at most 20 outer and 10 inner iterations. A step
//! that does not lessen the objective is halved, where SystemML's script keeps a trust region.

use burn::tensor::Tensor;
use fangorn_graphs::Result;

use crate::{
    Reached,
    step::{Step, Way, dense, filled, like, one, value},
};

/// The weight of the squares of weights.
pub(crate) const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
const OUTER: usize = 20;
const INNER: usize = 10;

/// A step of conjugate gradients for H S = G: from S, the direction D, the residual R and H D, the next S, R and D, and the
/// sum of the squares of the next R.
pub(crate) fn conjugate([s, d, r, hd]: [Tensor<2>; 4]) -> [Tensor<2>; 4] {
    let rr = one(r.clone().powi_scalar(2).sum());
    let size = rr.clone() / one((d.clone() * hd.clone()).sum());
    let left = r - hd * size.clone();
    let next = one(left.clone().powi_scalar(2).sum());
    [s + d.clone() * size, left.clone(), left + d * (next.clone() / rr), next]
}

fn moved([old, s, scale]: [Tensor<2>; 3]) -> [Tensor<2>; 1] {
    [old + s * scale]
}

/// What differs between models.
pub(crate) trait Model {
    /// Computes the objective of weights and its gradient, and keeps what `curvature` needs.
    fn objective(&mut self, weights: &Tensor<2>) -> Result<(f64, Tensor<2>)>;

    /// Computes the product of the Hessian with a direction.
    fn curvature(&self, direction: &Tensor<2>) -> Result<Tensor<2>>;
}

/// Finds the weights with the least objective, from weights of 0.
pub(crate) fn train(model: &mut impl Model, mut weights: Tensor<2>, way: Way) -> Result<Reached> {
    let shape = weights.dims();
    let matrix = like(&weights);
    let conjugate = Step::new(way, [matrix; 4], conjugate)?;
    let moved = Step::new(way, [matrix, matrix, dense(1, 1, &weights)], moved)?;
    let (mut least, mut gradient) = model.objective(&weights)?;
    let mut products = 0;
    for _ in 0..OUTER {
        let mut r = -gradient.clone();
        let first = value(&one(r.clone().powi_scalar(2).sum()));
        if first == 0.0 {
            break;
        }
        let (mut s, mut d) = (filled(shape, 0.0, &weights), r.clone());
        for _ in 0..INNER {
            let hd = model.curvature(&d)?;
            let rr;
            [s, r, d, rr] = conjugate.call([&s, &d, &r, &hd])?;
            products += 1;
            if value(&rr) <= TOLERANCE * TOLERANCE * first {
                break;
            }
        }
        let (old, before, mut scale) = (weights.clone(), least, 1.0);
        loop {
            [weights] = moved.call([&old, &s, &filled([1, 1], scale, &old)])?;
            (least, gradient) = model.objective(&weights)?;
            if least <= before {
                break;
            }
            if scale < 1e-6 {
                return Ok(Reached { objective: before, iterations: products });
            }
            scale /= 2.0;
        }
        if before - least <= TOLERANCE * least {
            break;
        }
    }
    Ok(Reached { objective: least, iterations: products })
}
