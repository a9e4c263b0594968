//! A generalised linear model of two classes with the probit link (GLM), trained by Fisher's scoring with conjugate
//! gradients, as in the paper's evaluation (lambda 1e-3, tolerance 1e-12, at most 20 outer and 10 inner iterations), under
//! each policy in turn. A step that does not lessen the objective is halved, where SystemML's script keeps a trust region.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example glm -- 1000000 10
//! ```

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::Builder,
    select::{PlanCache, Policy},
};

mod newton;
pub use newton::{Found, LAMBDA};

const HELP: &str =
    "Trains a generalised linear model (binomial, probit) on generated rows under each policy of fusion, and times it.

usage: glm [ROWS] [COLUMNS]    1 000 000 rows of 10 columns, if they are left out
example: cargo run --release -p fangorn-fusion --example glm -- 200000 100";

/// The normal distribution's tail beyond z is `exp(-z^2 / 2) / 2` times a polynomial in `1 / (1 + SLOPE z)`, within 1e-7
/// (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26; SystemML's script takes it, too).
const SLOPE: f64 = 0.231641888;
const POLYNOMIAL: [f64; 5] = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
/// The normal density at 0.
const DENSITY: f64 = 0.398_942_280_401_432_7;

/// Classes Y are -1 and 1. The probability of a row's class is the normal distribution at `Y * (X B)`.
fn objective(rows: usize, columns: usize) -> Result<newton::Objective, FusionError> {
    let builder = Builder::new();
    let (x, y) = (builder.dense("X", rows, columns), builder.dense("Y", rows, 1));
    let b = builder.dense("B", columns, 1);
    let margin = y * x.matmul(b);
    let t = 1.0 / (margin.abs() * SLOPE + 1.0);
    let [rest @ .., last] = POLYNOMIAL;
    let polynomial = rest.into_iter().rev().fold(t * last, |sum, factor| (sum + factor) * t);
    let bell = (margin.square() * -0.5).exp();
    let tail = polynomial * bell * 0.5;
    let right = margin.greater(0.0);
    // A margin below -38 has no tail in f64; the least probability keeps its logarithm finite.
    let p = (right + tail * (1.0 - right * 2.0)).max(1e-300);
    let ratio = bell * DENSITY / p;
    builder.output("objective", b.sum_of_squares() * (LAMBDA / 2.0) - p.log().sum());
    builder.output("G", b * LAMBDA - x.transpose().matmul(y * ratio));
    builder.output("W", ratio * bell * DENSITY / (1.0 - p).max(1e-300));
    let model = builder.finish()?;

    let builder = Builder::new();
    let (x, w) = (builder.dense("X", rows, columns), builder.dense("W", rows, 1));
    let d = builder.dense("D", columns, 1);
    let hd = x.transpose().matmul(w * x.matmul(d)) + d * LAMBDA;
    builder.output("HD", hd);
    Ok(newton::Objective { model, curvature: builder.finish()? })
}

/// Trains weights for rows X and their classes Y, -1 or 1.
///
/// # Errors
/// The matrices have another number of rows.
pub fn train(cache: &mut PlanCache, policy: Policy, x: &Matrix, y: &Matrix) -> Result<Found, FusionError> {
    let (rows, columns) = x.shape();
    let state = Bindings::from([("X".to_owned(), x.clone()), ("Y".to_owned(), y.clone())]);
    newton::train(cache, policy, &objective(rows, columns)?, state, (columns, 1))
}

/// Makes rows X of two classes that overlap, and their classes Y.
pub fn data(rows: usize, columns: usize) -> (Matrix, Matrix) {
    let mut draw = newton::shared::draws(23);
    let truth: Vec<f64> = (0..columns).map(|_| 4.0 * draw()).collect();
    let x: Vec<f64> = (0..rows * columns).map(|_| draw()).collect();
    let mut class = |row: &[f64]| {
        // The sum of twelve draws is nearly normal.
        let noise: f64 = (0..12).map(|_| draw()).sum();
        (row.iter().zip(&truth).map(|(x, truth)| x * truth).sum::<f64>() + noise).signum()
    };
    let y = x.chunks_exact(columns).map(&mut class).collect();
    (Matrix::dense((rows, columns), x).expect("all rows"), Matrix::dense((rows, 1), y).expect("a class each"))
}

fn main() -> Result<(), FusionError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| arguments.get(at).map_or(Some(or), |text| text.parse().ok());
    let (Some(rows @ 1..), Some(columns @ 1..)) = (number(0, 1_000_000), number(1, 10)) else {
        println!("{HELP}");
        return Ok(());
    };
    let (x, y) = data(rows, columns);
    newton::report(|cache, policy| train(cache, policy, &x, &y))
}
