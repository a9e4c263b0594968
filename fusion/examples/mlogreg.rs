//! Multinomial logistic regression (MLogreg), trained by Newton's method with conjugate gradients, as in the paper's
//! evaluation (lambda 1e-3, tolerance 1e-12, at most 20 outer and 10 inner iterations), under each policy in turn. The
//! inner loop is expression (2) of the paper. A step that does not lessen the objective is halved, where SystemML's script
//! keeps a trust region.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example mlogreg -- 1000000 10 5
//! ```

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Aggregation, Builder, Direction},
    select::{PlanCache, Policy},
};

mod newton;
pub use newton::{Found, LAMBDA};

const HELP: &str =
    "Trains a multinomial logistic regression on generated rows under each policy of fusion, and times it.

usage: mlogreg [ROWS] [COLUMNS] [CLASSES]    1 000 000 rows of 10 columns, 2 classes, if they are left out
example: cargo run --release -p fangorn-fusion --example mlogreg -- 200000 100 5";

/// Weights B, directions and gradients have a column for each class but the last.
fn objective(rows: usize, columns: usize, others: usize) -> Result<newton::Objective, FusionError> {
    let builder = Builder::new();
    let (x, y) = (builder.dense("X", rows, columns), builder.dense("Y", rows, others));
    let b = builder.dense("B", columns, others);
    let scores = x.matmul(b);
    // The greatest score, 0 of the last class included, keeps the exponentials finite.
    let greatest = scores.aggregate(Aggregation::Max, Direction::Row).max(0.0);
    let powers = (scores - greatest).exp();
    let whole = powers.row_sums() + (-greatest).exp();
    let p = powers / whole;
    let loss = (greatest + whole.log()).sum() - (y * scores).sum();
    builder.output("P", p);
    builder.output("objective", loss + b.sum_of_squares() * (LAMBDA / 2.0));
    builder.output("G", x.transpose().matmul(p - y) + b * LAMBDA);
    let model = builder.finish()?;

    let builder = Builder::new();
    let (x, p) = (builder.dense("X", rows, columns), builder.dense("P", rows, others));
    let d = builder.dense("D", columns, others);
    let q = p * x.matmul(d);
    let hd = x.transpose().matmul(q - p * q.row_sums()) + d * LAMBDA;
    builder.output("HD", hd);
    let curvature = builder.finish()?;
    Ok(newton::Objective { model, curvature })
}

/// Trains weights for rows X and the indicators Y of their classes but the last.
///
/// # Errors
/// The matrices have another number of rows.
pub fn train(cache: &mut PlanCache, policy: Policy, x: &Matrix, y: &Matrix) -> Result<Found, FusionError> {
    let ((rows, columns), others) = (x.shape(), y.shape().1);
    let state = Bindings::from([("X".to_owned(), x.clone()), ("Y".to_owned(), y.clone())]);
    newton::train(cache, policy, &objective(rows, columns, others)?, state, (columns, others))
}

/// Makes rows X of classes that overlap, and the indicators Y of the classes but the last.
pub fn data(rows: usize, columns: usize, classes: usize) -> (Matrix, Matrix) {
    let mut draw = newton::shared::draws(11);
    let truth: Vec<f64> = (0..columns * classes).map(|_| 2.0 * draw()).collect();
    let x: Vec<f64> = (0..rows * columns).map(|_| draw()).collect();
    let mut y = vec![0.0; rows * (classes - 1)];
    for (row, x) in x.chunks_exact(columns).enumerate() {
        let mut score = |class: usize| {
            x.iter().enumerate().map(|(at, x)| x * truth[at * classes + class]).sum::<f64>() + draw()
        };
        let scores: Vec<f64> = (0..classes).map(&mut score).collect();
        let class = (0..classes).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0);
        if class + 1 < classes {
            y[row * (classes - 1) + class] = 1.0;
        }
    }
    (
        Matrix::dense((rows, columns), x).expect("all rows"),
        Matrix::dense((rows, classes - 1), y).expect("all rows"),
    )
}

fn main() -> Result<(), FusionError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| arguments.get(at).map_or(Some(or), |text| text.parse().ok());
    let (Some(rows @ 1..), Some(columns @ 1..), Some(classes @ 2..)) =
        (number(0, 1_000_000), number(1, 10), number(2, 2))
    else {
        println!("{HELP}");
        return Ok(());
    };
    let (x, y) = data(rows, columns, classes);
    newton::report(|cache, policy| train(cache, policy, &x, &y))
}
