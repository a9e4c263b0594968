//! Factorization of a sparse matrix by alternating least squares with conjugate gradients (ALS-CG): weighted L2 with lambda
//! 1e-3, tolerance 1e-12, at most 20 outer iterations, and as many inner ones as the rank. Its inner loop is expression
//! (1) of the paper.

use burn::tensor::Tensor;
use fangorn_graphs::{
    Result,
    fused::{Argument, Input},
};

use crate::{
    Reached,
    data::Ratings,
    newton::conjugate,
    step::{Step, Way, dense, filled, indicators, of_type, one, value},
};

const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
/// Half of the outer iterations move U, half V.
const OUTER: usize = 20;

/// What the Hessian makes of a factor: (X != 0 * F t(V)) V + lambda F * count.
fn curvature([x, v, f, count]: [Tensor<2>; 4]) -> [Tensor<2>; 1] {
    let held = indicators(x.clone().not_equal_elem(0.0), &x);
    [(held * f.clone().matmul(v.clone().transpose())).matmul(v) + f * LAMBDA * count]
}

/// The residual of a factor.
fn residual([x, v, f, count]: [Tensor<2>; 4]) -> [Tensor<2>; 1] {
    let [applied] = curvature([x.clone(), v.clone(), f, count]);
    [x.matmul(v) - applied]
}

/// The loss of both factors.
fn loss([x, u, v, count, others]: [Tensor<2>; 5]) -> [Tensor<2>; 1] {
    let product = u.clone().matmul(v.clone().transpose());
    let held = indicators(x.clone().not_equal_elem(0.0), &x);
    // The squares of X - U t(V) where X is held, taken apart so that zeros of X are skipped.
    let squares = one((held * product.clone()).powi_scalar(2).sum()) - one((x.clone() * product).sum()) * 2.0
        + one(x.powi_scalar(2).sum());
    let weights = one((u.powi_scalar(2) * count).sum()) + one((v.powi_scalar(2) * others).sum());
    [squares + weights * LAMBDA]
}

/// Factorizes. Sides of the matrix take turns: X with U, and t(X) with V.
pub(crate) fn train(ratings: &Ratings, rank: usize, way: Way) -> Result<Reached> {
    let arguments = |side: usize| -> Argument {
        match way {
            Way::Burn => ratings.dense[side].clone().into(),
            Way::Plan(_) => ratings.sparse[side].clone().into(),
        }
    };
    let beside = &ratings.dense[0];
    let mut factors = ratings.factors(rank);
    let steps = |side: usize| -> Result<_> {
        let [rows, columns] = ratings.dense[side].dims();
        let x = of_type(Input::csr(rows, columns, ratings.sparse[side].filled()), beside);
        let (f, v) = (dense(rows, rank, beside), dense(columns, rank, beside));
        let (count, others) = (dense(rows, 1, beside), dense(columns, 1, beside));
        Ok((
            Step::new(way, [x, v, f, count], residual)?,
            Step::new(way, [x, v, f, count], curvature)?,
            Step::new(way, [f; 4], conjugate)?,
            Step::new(way, [x, f, v, count, others], loss)?,
        ))
    };
    let steps = [steps(0)?, steps(1)?];
    let mut reached = Reached { objective: f64::INFINITY, iterations: 0 };
    for turn in 0..OUTER {
        let side = turn % 2;
        let (residual, curvature, conjugate, loss) = &steps[side];
        let (count, others) = (&ratings.counts[side], &ratings.counts[1 - side]);
        let v = factors[1 - side].clone();
        let with =
            |f: &Tensor<2>| [arguments(side), v.clone().into(), f.clone().into(), count.clone().into()];
        let [mut r] = residual.call_with(with(&factors[side]))?;
        let (mut s, mut d) = (filled(factors[side].dims(), 0.0, beside), r.clone());
        for _ in 0..rank {
            let [hd] = curvature.call_with(with(&d))?;
            let rr;
            [s, r, d, rr] = conjugate.call([&s, &d, &r, &hd])?;
            if value(&rr) < 1e-20 {
                break;
            }
        }
        factors[side] = factors[side].clone() + s;
        let both = [
            arguments(side),
            factors[side].clone().into(),
            v.into(),
            count.clone().into(),
            others.clone().into(),
        ];
        let [next] = loss.call_with(both)?;
        let gain = reached.objective - value(&next);
        reached = Reached { objective: value(&next), iterations: reached.iterations + 1 };
        if side == 1 && gain <= TOLERANCE * reached.objective {
            break;
        }
    }
    Ok(reached)
}
