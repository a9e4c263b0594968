//! Factorization of a sparse matrix by alternating least squares with conjugate gradients (ALS-CG), as in the paper's
//! evaluation (rank 20, weighted L2 with lambda 1e-3, tolerance 1e-12, at most 20 outer iterations, and as many inner ones
//! as the rank), under each policy in turn. The inner loop is expression (1) of the paper.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example als -- 20000 10000 0.001
//! ```

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Builder, Dag},
    select::{Costs, PlanCache, Policy},
};

mod shared;

const HELP: &str = "Factorizes a generated sparse matrix under each policy of fusion, and times it.

usage: als [ROWS] [COLUMNS] [FILLED] [RANK] [fused]    4000, 3000, 0.01 and 20 if they are left out;
                                                       'fused' leaves out the policies that make X dense
example: cargo run --release -p fangorn-fusion --example als -- 20000 10000 0.001 20 fused";
/// The weight of the squares of factors.
pub const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
/// The maximum number of outer iterations: half of them move U, half V.
const OUTER: usize = 20;

/// The graphs of the script, for a factor U of `rows` rows beside a factor V of `columns` rows. `count` says how many
/// elements each row of X holds.
struct Graphs {
    /// The gradient of U.
    gradient: Dag,
    /// The product of the Hessian with a direction D.
    curvature: Dag,
    /// A step of conjugate gradients.
    step: Dag,
    /// The loss, and U + S.
    loss: Dag,
}

fn graphs((rows, columns): (usize, usize), filled: f64, rank: usize) -> Result<Graphs, FusionError> {
    // What the Hessian makes of a factor: (X != 0 * F t(V)) V + lambda F * count.
    let applied = |name: &str, less: bool| {
        let builder = Builder::new();
        let (x, v) = (builder.csr("X", rows, columns, filled), builder.dense("V", columns, rank));
        let (f, count) = (builder.dense(name, rows, rank), builder.dense("count", rows, 1));
        let weighted = (x.not_equal(0.0) * f.matmul(v.transpose())).matmul(v) + f * LAMBDA * count;
        if less {
            builder.output("R", x.matmul(v) - weighted);
        } else {
            builder.output("HD", weighted);
        }
        builder.finish()
    };
    let (gradient, curvature) = (applied("U", true)?, applied("D", false)?);

    let step = shared::conjugate_step((rows, rank))?;

    let builder = Builder::new();
    let (x, v) = (builder.csr("X", rows, columns, filled), builder.dense("V", columns, rank));
    let u = builder.dense("U", rows, rank);
    let (count, others) = (builder.dense("count", rows, 1), builder.dense("others", columns, 1));
    let product = u.matmul(v.transpose());
    // The squares of X - U t(V) where X is held, taken apart so that zeros of X are skipped.
    let squares =
        (x.not_equal(0.0) * product).sum_of_squares() - (x * product).sum() * 2.0 + x.sum_of_squares();
    let weights = (u.square() * count).sum() + (v.square() * others).sum();
    builder.output("loss", squares + weights * LAMBDA);
    let loss = builder.finish()?;
    Ok(Graphs { gradient, curvature, step, loss })
}

fn transposed(x: &Matrix) -> Matrix {
    let (rows, columns) = x.shape();
    let values = x.to_dense();
    let turned: Vec<f64> = (0..columns)
        .flat_map(|column| (0..rows).map(move |row| (row, column)))
        .map(|(r, c)| values[r * columns + c])
        .collect();
    Matrix::csr((columns, rows), &turned).expect("all elements")
}

fn counts(x: &Matrix) -> Matrix {
    let (rows, columns) = x.shape();
    let values = x.to_dense();
    let count = |row: &[f64]| row.iter().filter(|x| **x != 0.0).count() as f64;
    Matrix::dense((rows, 1), values.chunks_exact(columns).map(count).collect()).expect("all rows")
}

/// The sides that take turns: X with U, and t(X) with V.
pub struct Sides {
    matrices: [Matrix; 2],
    counts: [Matrix; 2],
}

impl Sides {
    /// Makes both sides of a matrix in CSR.
    pub fn new(x: &Matrix) -> Self {
        let turned = transposed(x);
        Self { counts: [counts(x), counts(&turned)], matrices: [x.clone(), turned] }
    }
}

/// Factorizes, and returns both factors, and the loss after each iteration.
pub fn train(
    cache: &mut PlanCache,
    policy: Policy,
    sides: &Sides,
    start: [Matrix; 2],
) -> Result<([Matrix; 2], Vec<f64>), FusionError> {
    let (costs, rank) = (Costs::default(), start[0].shape().1);
    let filled = sides.matrices[0].filled();
    let all =
        [graphs(sides.matrices[0].shape(), filled, rank)?, graphs(sides.matrices[1].shape(), filled, rank)?];
    let mut run = |dag: &Dag, state: &Bindings| cache.plan(dag, policy, &costs).run(dag, state);
    let (mut factors, mut losses) = (start, Vec::new());
    for turn in 0..OUTER {
        let (side, graphs) = (turn % 2, &all[turn % 2]);
        let shape = factors[side].shape();
        let mut state = Bindings::from([
            ("X".to_owned(), sides.matrices[side].clone()),
            ("count".to_owned(), sides.counts[side].clone()),
            ("others".to_owned(), sides.counts[1 - side].clone()),
            ("U".to_owned(), factors[side].clone()),
            ("V".to_owned(), factors[1 - side].clone()),
        ]);
        // Conjugate gradients for H U = X V, from the factor that is there.
        state.extend(run(&graphs.gradient, &state)?);
        let zeros = Matrix::dense(shape, vec![0.0; shape.0 * shape.1]).expect("all elements");
        state.extend([("S".to_owned(), zeros), ("D".to_owned(), state["R"].clone())]);
        for _ in 0..rank {
            state.extend(run(&graphs.curvature, &state)?);
            state.extend(run(&graphs.step, &state)?);
            if state["rr"].scalar() < 1e-20 {
                break;
            }
        }
        let sum = state["U"].to_dense().iter().zip(state["S"].to_dense()).map(|(u, s)| u + s).collect();
        factors[side] = Matrix::dense(shape, sum).expect("all elements");
        state.insert("U".to_owned(), factors[side].clone());
        let loss = run(&graphs.loss, &state)?["loss"].scalar();
        let before = losses.last().copied().unwrap_or(f64::INFINITY);
        losses.push(loss);
        if turn % 2 == 1 && before - loss <= TOLERANCE * loss {
            break;
        }
    }
    Ok((factors, losses))
}

/// Makes a sparse matrix of about a rank, and factors to start from.
pub fn data(rows: usize, columns: usize, filled: f64, rank: usize) -> (Matrix, [Matrix; 2]) {
    let mut signed = shared::draws(5);
    let mut draw = || signed() + 0.5;
    let truth: [Vec<f64>; 2] = [rows, columns].map(|length| (0..length * 3).map(|_| draw()).collect());
    let mut x = vec![0.0; rows * columns];
    for (at, x) in x.iter_mut().enumerate() {
        if draw() < filled {
            let (u, v) = (&truth[0][at / columns * 3..][..3], &truth[1][at % columns * 3..][..3]);
            *x = 1.0 + u.iter().zip(v).map(|(u, v)| u * v).sum::<f64>() + 0.1 * draw();
        }
    }
    let start = [rows, columns].map(|length| {
        let values = (0..length * rank).map(|_| draw() - 0.3).collect();
        Matrix::dense((length, rank), values).expect("all elements")
    });
    (Matrix::csr((rows, columns), &x).expect("all elements"), start)
}

fn main() -> Result<(), FusionError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: f64| arguments.get(at).map_or(Some(or), |text| text.parse::<f64>().ok());
    let whole = |at: usize, or: usize| number(at, or as f64).filter(|x| *x >= 2.0).map(|x| x as usize);
    let (Some(rows), Some(columns), Some(filled), Some(rank)) =
        (whole(0, 4000), whole(1, 3000), number(2, 0.01), whole(3, 20))
    else {
        println!("{HELP}");
        return Ok(());
    };
    let fused = arguments.iter().any(|argument| argument == "fused");
    let policies: Vec<Policy> =
        Policy::ALL.iter().copied().filter(|p| !fused || *p == Policy::CostBased).collect();
    let (x, start) = data(rows, columns, filled, rank);
    let sides = Sides::new(&x);
    shared::report(
        &policies,
        |cache, policy| train(cache, policy, &sides, start.clone()),
        |(_, losses)| format!("loss {:.9e} after {}", losses[losses.len() - 1], losses.len()),
    )
}
