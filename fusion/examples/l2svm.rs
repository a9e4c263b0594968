//! A support vector machine with squared hinge loss (L2SVM), trained by conjugate gradients with a line search, as in the
//! paper's evaluation (lambda 1e-3, tolerance 1e-12, at most 20 outer iterations), under each policy in turn.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example l2svm -- 1000000 10
//! ```

use std::{collections::HashMap, time::Instant};

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Builder, Dag},
    select::{Costs, Plan, Policy},
};

mod shared;

const HELP: &str = "Trains an L2SVM on generated rows under each policy of fusion, and times it.

usage: l2svm [ROWS] [COLUMNS] [explain]    1 000 000 rows of 10 columns if they are left out
example: cargo run --release -p fangorn-fusion --example l2svm -- 200000 100 explain";
const LAMBDA: f64 = 1e-3;
const TOLERANCE: f64 = 1e-12;
const OUTER: usize = 20;

/// The three graphs of the script between its branches.
struct Graphs {
    /// From `s`: Xd = X s, and the two numbers of the line search that stay.
    direction: Dag,
    /// A Newton step of the line search: its gradient g and curvature h.
    search: Dag,
    /// The step: weights, margins, objective and the next gradient.
    step: Dag,
}

fn graphs(rows: usize, columns: usize) -> Result<Graphs, FusionError> {
    let builder = Builder::new();
    let (x, w, s) =
        (builder.dense("X", rows, columns), builder.dense("w", columns, 1), builder.dense("s", columns, 1));
    builder.output("Xd", x.matmul(s));
    builder.output("wd", (w * s).sum() * LAMBDA);
    builder.output("dd", (s * s).sum() * LAMBDA);
    let direction = builder.finish()?;

    let builder = Builder::new();
    let column = |name: &str| builder.dense(name, rows, 1);
    let scalar = |name: &str| builder.dense(name, 1, 1);
    let (y, xw, xd) = (column("Y"), column("Xw"), column("Xd"));
    let (wd, dd, size) = (scalar("wd"), scalar("dd"), scalar("size"));
    let out = 1.0 - y * (xw + size * xd);
    let violated = out.greater(0.0);
    builder.output("g", wd + size * dd - (out * violated * y * xd).sum());
    builder.output("h", dd + (xd * violated * xd).sum());
    let search = builder.finish()?;

    let builder = Builder::new();
    let column = |name: &str| builder.dense(name, rows, 1);
    let (x, y, xw, xd) = (builder.dense("X", rows, columns), column("Y"), column("Xw"), column("Xd"));
    let (w, s) = (builder.dense("w", columns, 1), builder.dense("s", columns, 1));
    let (old, size) = (builder.dense("g_old", columns, 1), builder.dense("size", 1, 1));
    let (w, xw) = (w + size * s, xw + size * xd);
    let out = (1.0 - y * xw).max(0.0);
    let gradient = x.transpose().matmul(out * y) - w * LAMBDA;
    builder.output("w", w);
    builder.output("Xw", xw);
    builder.output("objective", out.sum_of_squares() * 0.5 + w.sum_of_squares() * (LAMBDA / 2.0));
    builder.output("gain", (s * old).sum());
    builder.output("s", s * (gradient.sum_of_squares() / old.sum_of_squares()) + gradient);
    builder.output("g_old", gradient);
    let step = builder.finish()?;
    Ok(Graphs { direction, search, step })
}

fn column(values: Vec<f64>) -> Matrix {
    Matrix::dense((values.len(), 1), values).expect("one column")
}

/// Trains, and returns the objective and how many Newton steps there were.
fn train(graphs: &Graphs, plans: &[Plan; 3], data: &Bindings) -> Result<(f64, usize), FusionError> {
    let (rows, columns) = data["X"].shape();
    let mut state = data.clone();
    let zeros = |length: usize| column(vec![0.0; length]);
    state.extend([("w".to_owned(), zeros(columns)), ("Xw".to_owned(), zeros(rows))]);
    // The first gradient is t(X) Y: that of the step with nothing done yet.
    state.extend([("s".to_owned(), zeros(columns)), ("g_old".to_owned(), column(vec![1.0; columns]))]);
    state.extend([("Xd".to_owned(), zeros(rows)), ("size".to_owned(), column(vec![0.0]))]);
    let first = plans[2].run(&graphs.step, &state)?;
    state.extend([("s".to_owned(), first["g_old"].clone()), ("g_old".to_owned(), first["g_old"].clone())]);
    let (mut objective, mut newton) = (f64::INFINITY, 0);
    for _ in 0..OUTER {
        state.extend(plans[0].run(&graphs.direction, &state)?);
        let mut size = 0.0;
        for _ in 0..100 {
            state.insert("size".to_owned(), column(vec![size]));
            let found: HashMap<String, Matrix> = plans[1].run(&graphs.search, &state)?;
            let (g, h) = (found["g"].scalar(), found["h"].scalar());
            size -= g / h;
            newton += 1;
            if g * g / h < 1e-10 {
                break;
            }
        }
        state.insert("size".to_owned(), column(vec![size]));
        state.extend(plans[2].run(&graphs.step, &state)?);
        objective = state["objective"].scalar();
        if size * state["gain"].scalar() < TOLERANCE * objective {
            break;
        }
    }
    Ok((objective, newton))
}

/// Makes rows of two classes that overlap.
fn data(rows: usize, columns: usize) -> Bindings {
    let mut draw = shared::draws(42);
    let x: Vec<f64> = (0..rows * columns).map(|_| draw()).collect();
    let margin =
        |row: &[f64]| row.iter().enumerate().map(|(at, x)| if at % 2 == 0 { *x } else { -x }).sum::<f64>();
    let y = x.chunks_exact(columns).map(|row| (margin(row) + draw()).signum()).collect();
    Bindings::from([
        ("X".to_owned(), Matrix::dense((rows, columns), x).expect("all rows")),
        ("Y".to_owned(), column(y)),
    ])
}

fn main() -> Result<(), FusionError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or: usize| arguments.get(at).map_or(Some(or), |text| text.parse().ok());
    let (Some(rows @ 1..), Some(columns @ 1..)) = (number(0, 1_000_000), number(1, 10)) else {
        println!("{HELP}");
        return Ok(());
    };
    let (graphs, data) = (graphs(rows, columns)?, data(rows, columns));
    for policy in Policy::ALL {
        let start = Instant::now();
        let plan = |dag: &Dag| Plan::new(dag, policy, &Costs::default());
        let plans = [plan(&graphs.direction), plan(&graphs.search), plan(&graphs.step)];
        let planning = start.elapsed().as_secs_f64();
        if arguments.iter().any(|argument| argument == "explain") {
            let dags = [&graphs.direction, &graphs.search, &graphs.step];
            plans.iter().zip(dags).for_each(|(plan, dag)| println!("{}", plan.explain(dag)));
        }
        train(&graphs, &plans, &data)?;
        let mut times = Vec::new();
        let mut found = (0.0, 0);
        for _ in 0..3 {
            let start = Instant::now();
            found = train(&graphs, &plans, &data)?;
            times.push(start.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        let (objective, newton) = found;
        println!(
            "{policy:?}: {:.3} s (plans in {:.1} ms), objective {objective:.9e} after {newton} Newton steps",
            times[1],
            planning * 1e3
        );
    }
    Ok(())
}
