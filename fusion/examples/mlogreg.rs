//! Multinomial logistic regression (MLogreg), trained by Newton's method with conjugate gradients, as in the paper's
//! evaluation (lambda 1e-3, tolerance 1e-12, at most 20 outer and 10 inner iterations), under each policy in turn. The
//! inner loop is expression (2) of the paper. A step that does not lessen the objective is halved, where SystemML's script
//! keeps a trust region.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example mlogreg -- 1000000 10 5
//! ```

use std::time::Instant;

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Aggregation, Builder, Dag, Direction},
    select::{Costs, PlanCache, Policy},
};

const HELP: &str =
    "Trains a multinomial logistic regression on generated rows under each policy of fusion, and times it.

usage: mlogreg [ROWS] [COLUMNS] [CLASSES]    1 000 000 rows of 10 columns, 2 classes, if they are left out
example: cargo run --release -p fangorn-fusion --example mlogreg -- 200000 100 5";
/// The weight of the squares of weights.
pub const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
const OUTER: usize = 20;
const INNER: usize = 10;

/// The graphs of the blocks of the script between its branches. Weights B, directions and gradients have a column for
/// each class but the last.
struct Blocks {
    /// Probabilities P of the classes but the last, the objective and the gradient, from B.
    model: Dag,
    /// The product of the Hessian with a direction D.
    curvature: Dag,
    /// A step of conjugate gradients.
    step: Dag,
    /// B + scale S.
    update: Dag,
}

fn blocks(rows: usize, columns: usize, others: usize) -> Result<Blocks, FusionError> {
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
    builder.output("dHd", (d * hd).sum());
    let curvature = builder.finish()?;

    let builder = Builder::new();
    let matrix = |name: &str| builder.dense(name, columns, others);
    let scalar = |name: &str| builder.dense(name, 1, 1);
    let (s, d, r, hd) = (matrix("S"), matrix("D"), matrix("R"), matrix("HD"));
    let (rr, dhd) = (scalar("rr"), scalar("dHd"));
    let size = rr / dhd;
    let left = r - hd * size;
    let next = left.sum_of_squares();
    builder.output("S", s + d * size);
    builder.output("R", left);
    builder.output("D", left + d * (next / rr));
    builder.output("rr", next);
    let step = builder.finish()?;

    let builder = Builder::new();
    let matrix = |name: &str| builder.dense(name, columns, others);
    builder.output("B", matrix("old") + matrix("S") * builder.dense("scale", 1, 1));
    let update = builder.finish()?;
    Ok(Blocks { model, curvature, step, update })
}

fn scalar(value: f64) -> Matrix {
    Matrix::dense((1, 1), vec![value]).expect("one element")
}

/// What training found.
pub struct Found {
    /// The weights.
    pub weights: Matrix,
    /// The objective.
    pub objective: f64,
    /// How many products with the Hessian it took.
    pub products: usize,
}

/// Trains weights for rows X and the indicators Y of their classes but the last.
pub fn train(cache: &mut PlanCache, policy: Policy, x: &Matrix, y: &Matrix) -> Result<Found, FusionError> {
    let ((rows, columns), others) = (x.shape(), y.shape().1);
    let blocks = blocks(rows, columns, others)?;
    let costs = Costs::default();
    let mut run = |dag: &Dag, state: &Bindings| cache.plan(dag, policy, &costs).run(dag, state);
    let zeros = || Matrix::dense((columns, others), vec![0.0; columns * others]).expect("all weights");
    let mut state =
        Bindings::from([("X".to_owned(), x.clone()), ("Y".to_owned(), y.clone()), ("B".to_owned(), zeros())]);
    state.extend(run(&blocks.model, &state)?);
    let (mut objective, mut products) = (state["objective"].scalar(), 0);
    for _ in 0..OUTER {
        // Conjugate gradients for H S = -G.
        let negative = state["G"].to_dense().into_iter().map(|g| -g).collect::<Vec<_>>();
        let first: f64 = negative.iter().map(|g| g * g).sum();
        let residual = Matrix::dense((columns, others), negative).expect("all weights");
        state.extend([("S".to_owned(), zeros()), ("rr".to_owned(), scalar(first))]);
        state.extend([("R".to_owned(), residual.clone()), ("D".to_owned(), residual)]);
        for _ in 0..INNER {
            if state["rr"].scalar() <= TOLERANCE * TOLERANCE * first {
                break;
            }
            state.extend(run(&blocks.curvature, &state)?);
            state.extend(run(&blocks.step, &state)?);
            products += 1;
        }
        state.insert("old".to_owned(), state["B"].clone());
        let (mut scale, before) = (1.0, objective);
        loop {
            state.insert("scale".to_owned(), scalar(scale));
            state.extend(run(&blocks.update, &state)?);
            state.extend(run(&blocks.model, &state)?);
            objective = state["objective"].scalar();
            if objective <= before || scale < 1e-6 {
                break;
            }
            scale /= 2.0;
        }
        if before - objective <= TOLERANCE * objective {
            break;
        }
    }
    Ok(Found { weights: state["B"].clone(), objective, products })
}

/// Makes rows X of classes that overlap, and the indicators Y of the classes but the last.
pub fn data(rows: usize, columns: usize, classes: usize) -> (Matrix, Matrix) {
    let mut seed = 11u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as f64 / (1u64 << 31) as f64 - 0.5
    };
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
    let mut caches: Vec<PlanCache> = Policy::ALL.iter().map(|_| PlanCache::default()).collect();
    let mut times = vec![Vec::new(); Policy::ALL.len()];
    let mut found = Vec::new();
    // Policies in turn, so that whatever else runs slows all of them. The first turn warms up.
    for turn in 0..4 {
        found.clear();
        for ((policy, cache), times) in Policy::ALL.iter().zip(&mut caches).zip(&mut times) {
            let begin = Instant::now();
            found.push(train(cache, *policy, &x, &y)?);
            if turn > 0 {
                times.push(begin.elapsed().as_secs_f64());
            }
        }
    }
    for (((policy, cache), times), found) in Policy::ALL.iter().zip(&caches).zip(&mut times).zip(&found) {
        times.sort_by(f64::total_cmp);
        let report = cache.report();
        println!(
            "{policy:?}: {:.3} s ({} plans made in {:.2} ms, {} found in {:.2} ms), objective {:.9e}, {} products",
            times[times.len() / 2],
            report.misses,
            report.making.as_secs_f64() * 1e3,
            report.hits,
            report.finding.as_secs_f64() * 1e3,
            found.objective,
            found.products
        );
    }
    Ok(())
}
