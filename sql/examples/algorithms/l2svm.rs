//! A support vector machine with squared hinge loss (L2SVM), trained by conjugate gradients with a line search, over rows
//! that only operators in blocks read: `X w` is computed again where it is needed, so nothing with an element for each row
//! leaves the blocks.

use std::collections::HashMap;

use fangorn_fusion::{
    Bindings, FusionError, Matrix, RowBlocks,
    dag::{Builder, Dag},
    select::{Costs, PlanCache, Policy},
};

const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
const OUTER: usize = 20;
const INNER: usize = 20;

/// What training gave.
pub struct Trained {
    /// The weight of each column.
    pub weights: Vec<f64>,
    /// The value that training makes small.
    pub objective: f64,
    /// How many Newton steps its line searches took.
    pub steps: usize,
}

/// A Newton step of the line search along s from w: its gradient g and curvature h at a length. The last column of T is the
/// class, 1 or -1.
fn search(rows: usize, columns: usize) -> Result<Dag, FusionError> {
    let builder = Builder::new();
    let t = builder.dense("T", rows, columns + 1);
    let vector = |name: &str| builder.dense(name, columns, 1);
    let (w, s, length) = (vector("w"), vector("s"), builder.dense("length", 1, 1));
    let (x, y) = (t.columns(0, columns), t.columns(columns, columns + 1));
    let (xw, xs) = (x.matmul(w + length * s), x.matmul(s));
    let out = 1.0 - y * xw;
    let violated = out.greater(0.0);
    builder.output("g", ((w + length * s) * s).sum() * LAMBDA - (out * violated * y * xs).sum());
    builder.output("h", (s * s).sum() * LAMBDA + (xs * violated * xs).sum());
    builder.finish()
}

/// The objective at w, and the direction of steepest descent.
fn descent(rows: usize, columns: usize) -> Result<Dag, FusionError> {
    let builder = Builder::new();
    let (t, w) = (builder.dense("T", rows, columns + 1), builder.dense("w", columns, 1));
    let (x, y) = (t.columns(0, columns), t.columns(columns, columns + 1));
    let out = (1.0 - y * x.matmul(w)).max(0.0);
    builder.output("objective", out.sum_of_squares() * 0.5 + w.sum_of_squares() * (LAMBDA / 2.0));
    builder.output("descent", x.transpose().matmul(out * y) - w * LAMBDA);
    builder.finish()
}

fn vector(values: &[f64]) -> Matrix {
    Matrix::dense((values.len(), 1), values.to_vec()).expect("one column")
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Trains weights for rows whose last column is the class, 1 or -1.
///
/// # Errors
/// There are no rows or only one column, or rows can't be read.
pub fn train(rows: &dyn RowBlocks, costs: &Costs, policy: Policy) -> Result<Trained, FusionError> {
    let (count, columns) = (rows.shape().0, rows.shape().1.saturating_sub(1));
    let (search, descent) = (search(count, columns)?, descent(count, columns)?);
    let blocks = HashMap::from([("T".to_owned(), rows)]);
    let mut plans = PlanCache::default();
    let mut run = |dag: &Dag, bound: &[(&str, Matrix)]| {
        let bound = bound.iter().map(|(name, matrix)| ((*name).to_owned(), matrix.clone()));
        plans.plan(dag, policy, costs).run_blocks(dag, &Bindings::from_iter(bound), &blocks)
    };
    let mut w = vec![0.0; columns];
    let found = run(&descent, &[("w", vector(&w))])?;
    let (mut gradient, mut objective) = (found["descent"].to_dense(), found["objective"].scalar());
    let (mut s, mut steps) = (gradient.clone(), 0);
    for _ in 0..OUTER {
        let mut length = 0.0;
        for _ in 0..INNER {
            let bound = [("w", vector(&w)), ("s", vector(&s)), ("length", vector(&[length]))];
            let found = run(&search, &bound)?;
            let (g, h) = (found["g"].scalar(), found["h"].scalar());
            length -= g / h;
            steps += 1;
            if g * g / h < 1e-10 {
                break;
            }
        }
        w.iter_mut().zip(&s).for_each(|(w, s)| *w += length * s);
        let found = run(&descent, &[("w", vector(&w))])?;
        objective = found["objective"].scalar();
        let next = found["descent"].to_dense();
        if length * dot(&s, &gradient) < TOLERANCE * objective {
            break;
        }
        let share = dot(&next, &next) / dot(&gradient, &gradient);
        s = s.iter().zip(&next).map(|(s, next)| s * share + next).collect();
        gradient = next;
    }
    Ok(Trained { weights: w, objective, steps })
}
