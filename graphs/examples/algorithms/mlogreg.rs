//! Multinomial logistic regression (MLogreg), trained by Newton's method. Its inner loop is expression (2) of the paper.

use burn::tensor::Tensor;
use fangorn_graphs::Result;

use crate::{
    Reached,
    data::Classes,
    newton::{self, LAMBDA, Model},
    step::{Step, Way, dense, filled, like, one, value},
};

/// Weights B have a column for each class but the last. Returns the probabilities, the objective and its gradient.
fn objective([x, y, b]: [Tensor<2>; 3]) -> [Tensor<2>; 3] {
    let scores = x.clone().matmul(b.clone());
    // The greatest score, 0 of the last class included, keeps the exponentials finite.
    let greatest = scores.clone().max_dim(1).clamp_min(0.0);
    let powers = (scores.clone() - greatest.clone()).exp();
    let whole = powers.clone().sum_dim(1) + (-greatest.clone()).exp();
    let p = powers / whole.clone();
    let loss = one((greatest + whole.log()).sum()) - one((y.clone() * scores).sum());
    let loss = loss + one(b.clone().powi_scalar(2).sum()) * (LAMBDA / 2.0);
    [p.clone(), loss, x.transpose().matmul(p - y) + b * LAMBDA]
}

fn curvature([x, p, d]: [Tensor<2>; 3]) -> [Tensor<2>; 1] {
    let q = p.clone() * x.clone().matmul(d.clone());
    [x.transpose().matmul(q.clone() - p * q.sum_dim(1)) + d * LAMBDA]
}

struct Regression<'a> {
    data: &'a Classes,
    objective: Step<3, 3>,
    curvature: Step<3, 1>,
    probabilities: Tensor<2>,
}

impl Model for Regression<'_> {
    fn objective(&mut self, weights: &Tensor<2>) -> Result<(f64, Tensor<2>)> {
        let [p, loss, gradient] = self.objective.call([&self.data.x, &self.data.indicators, weights])?;
        self.probabilities = p;
        Ok((value(&loss), gradient))
    }

    fn curvature(&self, direction: &Tensor<2>) -> Result<Tensor<2>> {
        let [hd] = self.curvature.call([&self.data.x, &self.probabilities, direction])?;
        Ok(hd)
    }
}

/// Trains weights for rows of several classes.
pub(crate) fn train(data: &Classes, way: Way) -> Result<Reached> {
    let (columns, others) = (data.x.dims()[1], data.indicators.dims()[1]);
    let (x, y, b) = (like(&data.x), like(&data.indicators), dense(columns, others, &data.x));
    let mut model = Regression {
        data,
        objective: Step::new(way, [x, y, b], objective)?,
        curvature: Step::new(way, [x, y, b], curvature)?,
        probabilities: data.indicators.clone(),
    };
    newton::train(&mut model, filled([columns, others], 0.0, &data.x), way)
}
