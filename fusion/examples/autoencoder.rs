//! An autoencoder with two hidden layers, trained by gradient descent with momentum on batches of rows, as in the paper's
//! evaluation (batches of 512 rows, layers of 500 and 2), under each policy in turn.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example autoencoder -- 20000 100
//! ```

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Builder, Dag},
    select::{Costs, PlanCache, Policy},
};

mod shared;

const HELP: &str = "Trains an autoencoder on generated rows under each policy of fusion, and times an epoch.

usage: autoencoder [ROWS] [COLUMNS] [FIRST] [SECOND]    20 000 rows of 100 columns, layers of 500 and 2, if left out
example: cargo run --release -p fangorn-fusion --example autoencoder -- 10000 784 500 2";
/// How far a step goes along the gradient.
pub const STEP: f64 = 0.5;
/// How much of the last step is taken again.
pub const MOMENTUM: f64 = 0.9;
/// Rows of a batch.
pub const BATCH: usize = 512;

/// Numbers of columns: of rows, of the first, second and third layer, and of the result.
pub fn widths(columns: usize, first: usize, second: usize) -> [usize; 5] {
    [columns, first, second, first, columns]
}

/// The graph of one batch: forwards, backwards, and the next weights. Layer i has weights Wi, offsets bi, and the last
/// steps Ui and vi of both.
fn step(rows: usize, widths: [usize; 5]) -> Result<Dag, FusionError> {
    let builder = Builder::new();
    let x = builder.dense("X", rows, widths[0]);
    let layer = |at: usize, name: &str| builder.dense(&format!("{name}{at}"), widths[at], widths[at + 1]);
    let offset = |at: usize, name: &str| builder.dense(&format!("{name}{at}"), 1, widths[at + 1]);
    let weights: Vec<_> = (0..4).map(|at| layer(at, "W")).collect();
    let mut layers = vec![x];
    for (at, weights) in weights.iter().enumerate() {
        layers.push((layers[at].matmul(*weights) + offset(at, "b")).sigmoid());
    }
    let error = layers[4] - x;
    builder.output("objective", error.sum_of_squares() * (0.5 / rows as f64));
    let mut back = error;
    for at in (0..4).rev() {
        let delta = back * layers[at + 1] * (1.0 - layers[at + 1]);
        let size = STEP / rows as f64;
        let turned = layer(at, "U") * MOMENTUM - layers[at].transpose().matmul(delta) * size;
        let moved = offset(at, "v") * MOMENTUM - delta.column_sums() * size;
        builder.output(&format!("W{at}"), weights[at] + turned);
        builder.output(&format!("U{at}"), turned);
        builder.output(&format!("b{at}"), offset(at, "b") + moved);
        builder.output(&format!("v{at}"), moved);
        if at > 0 {
            back = delta.matmul(weights[at].transpose());
        }
    }
    builder.finish()
}

/// Returns weights and offsets before the first step.
pub fn start(widths: [usize; 5]) -> Bindings {
    let mut draw = shared::draws(5);
    let mut state = Bindings::new();
    for at in 0..4 {
        let (rows, columns) = (widths[at], widths[at + 1]);
        let scale = 2.0 * (6.0 / (rows + columns) as f64).sqrt();
        let weights = (0..rows * columns).map(|_| scale * draw()).collect();
        let dense = |shape, values| Matrix::dense(shape, values).expect("all weights");
        state.extend([
            (format!("W{at}"), dense((rows, columns), weights)),
            (format!("U{at}"), dense((rows, columns), vec![0.0; rows * columns])),
            (format!("b{at}"), dense((1, columns), vec![0.0; columns])),
            (format!("v{at}"), dense((1, columns), vec![0.0; columns])),
        ]);
    }
    state
}

/// Goes once through rows `x` in batches of `batch` rows; the rows of the last batch that is not full are left out. Returns
/// the objective of each batch, before its step.
///
/// # Errors
/// `state` holds no weights of these widths.
pub fn epoch(
    cache: &mut PlanCache,
    policy: Policy,
    x: &[f64],
    batch: usize,
    widths: [usize; 5],
    state: &mut Bindings,
) -> Result<Vec<f64>, FusionError> {
    let step = step(batch, widths)?;
    let costs = Costs::default();
    let mut objectives = Vec::new();
    for rows in x.chunks_exact(batch * widths[0]) {
        state.insert("X".to_owned(), Matrix::dense((batch, widths[0]), rows.to_vec()).expect("a batch"));
        state.extend(cache.plan(&step, policy, &costs).run(&step, state)?);
        objectives.push(state["objective"].scalar());
    }
    Ok(objectives)
}

/// Makes rows from 0 to 1 that two numbers a row decide.
pub fn data(rows: usize, columns: usize) -> Vec<f64> {
    let mut draw = shared::draws(3);
    let waves: Vec<[f64; 3]> = (0..columns).map(|_| [8.0 * draw(), 8.0 * draw(), 6.0 * draw()]).collect();
    let mut x = Vec::with_capacity(rows * columns);
    for _ in 0..rows {
        let point = [draw(), draw()];
        x.extend(waves.iter().map(|[a, b, c]| 0.5 + 0.5 * (a * point[0] + b * point[1] + c).sin()));
    }
    x
}

fn main() -> Result<(), FusionError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| arguments.get(at).map_or(Some(or), |text| text.parse().ok());
    let (Some(rows @ BATCH..), Some(columns @ 1..), Some(first @ 1..), Some(second @ 1..)) =
        (number(0, 20_000), number(1, 100), number(2, 500), number(3, 2))
    else {
        println!("{HELP}");
        return Ok(());
    };
    let (x, widths) = (data(rows, columns), widths(columns, first, second));
    let mut states = vec![start(widths); Policy::ALL.len()];
    shared::report(
        &Policy::ALL,
        |cache, policy| {
            let state = Policy::ALL.iter().zip(&mut states).find(|(of, _)| **of == policy);
            let (_, state) = state.expect("one of all");
            epoch(cache, policy, &x, BATCH, widths, state)
        },
        |objectives| format!("objective {:.9e}", objectives[objectives.len() - 1]),
    )
}
