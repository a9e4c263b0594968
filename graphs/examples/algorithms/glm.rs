//! A generalised linear model of two classes with the probit link (GLM), trained by Fisher's scoring.

use burn::tensor::Tensor;
use fangorn_graphs::Result;

use crate::{
    Reached,
    data::Classes,
    newton::{self, LAMBDA, Model},
    step::{Step, Way, dense, filled, indicators, like, one, value},
};

/// The normal distribution's tail beyond z is `exp(-z^2 / 2) / 2` times a polynomial in `1 / (1 + SLOPE z)`, within 1e-7
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; SystemML's script takes it, too).
const SLOPE: f64 = 0.231641888;
const POLYNOMIAL: [f64; 5] = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
/// The normal density at 0.
const DENSITY: f64 = 0.398_942_280_401_432_7;
/// The least probability, which keeps its logarithm finite.
const LEAST: f64 = 1e-30;

/// Classes Y are -1 and 1. The probability of a row's class is the normal distribution at `Y * (X B)`. Returns the
/// objective, its gradient, and the weights of rows.
fn objective([x, y, b]: [Tensor<2>; 3]) -> [Tensor<2>; 3] {
    let margin = y.clone() * x.clone().matmul(b.clone());
    let t = (margin.clone().abs() * SLOPE + 1.0).recip();
    let [rest @ .., last] = POLYNOMIAL;
    let polynomial = rest.into_iter().rev().fold(t.clone() * last, |sum, factor| (sum + factor) * t.clone());
    let bell = (margin.clone().powi_scalar(2) * -0.5).exp();
    let tail = polynomial * bell.clone() * 0.5;
    let right = indicators(margin.greater_elem(0.0), &y);
    let p = (right.clone() + tail * (right * -2.0 + 1.0)).clamp_min(LEAST);
    let ratio = bell.clone() * DENSITY / p.clone();
    let loss = one(b.clone().powi_scalar(2).sum()) * (LAMBDA / 2.0) - one(p.clone().log().sum());
    let gradient = b * LAMBDA - x.transpose().matmul(y * ratio.clone());
    [loss, gradient, ratio * bell * DENSITY / (-p + 1.0).clamp_min(LEAST)]
}

fn curvature([x, w, d]: [Tensor<2>; 3]) -> [Tensor<2>; 1] {
    [x.clone().transpose().matmul(w * x.matmul(d.clone())) + d * LAMBDA]
}

struct Regression<'a> {
    data: &'a Classes,
    objective: Step<3, 3>,
    curvature: Step<3, 1>,
    rows: Tensor<2>,
}

impl Model for Regression<'_> {
    fn objective(&mut self, weights: &Tensor<2>) -> Result<(f64, Tensor<2>)> {
        let [loss, gradient, rows] = self.objective.call([&self.data.x, &self.data.signs, weights])?;
        self.rows = rows;
        Ok((value(&loss), gradient))
    }

    fn curvature(&self, direction: &Tensor<2>) -> Result<Tensor<2>> {
        let [hd] = self.curvature.call([&self.data.x, &self.rows, direction])?;
        Ok(hd)
    }
}

/// Trains weights for rows of two classes.
pub(crate) fn train(data: &Classes, way: Way) -> Result<Reached> {
    let columns = data.x.dims()[1];
    let (x, y, b) = (like(&data.x), like(&data.signs), dense(columns, 1, &data.x));
    let mut model = Regression {
        data,
        objective: Step::new(way, [x, y, b], objective)?,
        curvature: Step::new(way, [x, y, b], curvature)?,
        rows: data.signs.clone(),
    };
    newton::train(&mut model, filled([columns, 1], 0.0, &data.x), way)
}
