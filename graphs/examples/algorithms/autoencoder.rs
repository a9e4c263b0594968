//! An autoencoder with two hidden layers, of 500 and 2, trained by gradient descent with momentum on batches of 512 rows.
//! The gradients are written out, as in the paper's script.

use burn::tensor::{Tensor, activation};
use fangorn_graphs::Result;

use crate::{
    Reached,
    data::draws,
    step::{Step, Way, dense, filled, one, value},
};

/// How far a step goes along the gradient.
const STEP: f64 = 0.5;
/// How much of the last step is taken again.
const MOMENTUM: f64 = 0.9;
/// Rows of a batch.
pub(crate) const BATCH: usize = 512;
const LAYERS: [usize; 3] = [500, 2, 500];

/// One batch: forwards, backwards, and the next weights. Of each of the four layers, the arguments after the rows and the
/// results after the objective are the weights, the offsets, and the last steps of both.
fn step([x, state @ ..]: [Tensor<2>; 17]) -> [Tensor<2>; 17] {
    let rows = x.dims()[0] as f64;
    let mut layers = vec![x.clone()];
    for layer in state.chunks_exact(4) {
        let inner = layers[layers.len() - 1].clone().matmul(layer[0].clone()) + layer[1].clone();
        layers.push(activation::sigmoid(inner));
    }
    let mut back = layers[4].clone() - x;
    let objective = one(back.clone().powi_scalar(2).sum()) * (0.5 / rows);
    let mut next = Vec::new();
    for (at, layer) in state.chunks_exact(4).enumerate().rev() {
        let out = layers[at + 1].clone();
        let delta = back.clone() * out.clone() * (-out + 1.0);
        let gradient = layers[at].clone().transpose().matmul(delta.clone());
        let turned = layer[2].clone() * MOMENTUM - gradient * (STEP / rows);
        let moved = layer[3].clone() * MOMENTUM - delta.clone().sum_dim(0) * (STEP / rows);
        next.push([layer[0].clone() + turned.clone(), layer[1].clone() + moved.clone(), turned, moved]);
        if at > 0 {
            back = delta.matmul(layer[0].clone().transpose());
        }
    }
    next.reverse();
    let mut results = [objective].into_iter().chain(next.into_iter().flatten());
    std::array::from_fn(|_| results.next().expect("four of each layer"))
}

/// Goes once through the rows. The objective is that of the last batch.
pub(crate) fn train(x: &Tensor<2>, way: Way) -> Result<Reached> {
    let [rows, columns] = x.dims();
    let widths = [columns, LAYERS[0], LAYERS[1], LAYERS[2], columns];
    let (mut inputs, mut state) = ([dense(BATCH, columns, x); 17], Vec::new());
    let mut draw = draws(5);
    for at in 0..4 {
        let (from, to) = (widths[at], widths[at + 1]);
        let scale = 2.0 * (6.0 / (from + to) as f64).sqrt();
        let weights = (0..from * to).map(|_| scale * draw()).collect();
        inputs[4 * at + 1..4 * at + 5].copy_from_slice(&[
            dense(from, to, x),
            dense(1, to, x),
            dense(from, to, x),
            dense(1, to, x),
        ]);
        let zeros = |rows: usize| filled([rows, to], 0.0, x);
        let on = (&x.device(), x.dtype());
        state.extend([crate::data::matrix(weights, [from, to], on), zeros(1), zeros(from), zeros(1)]);
    }
    let step = Step::new(way, inputs, step)?;
    let mut reached = Reached { objective: f64::NAN, iterations: 0 };
    for batch in 0..rows / BATCH {
        let rows = x.clone().narrow(0, batch * BATCH, BATCH);
        let mut arguments = [&rows; 17];
        arguments[1..].iter_mut().zip(&state).for_each(|(argument, tensor)| *argument = tensor);
        let [objective, next @ ..] = step.call(arguments)?;
        state = next.into();
        reached = Reached { objective: value(&objective), iterations: batch + 1 };
    }
    Ok(reached)
}
