//! Compressed inputs beside dense ones (figure 9 of the paper): their sizes, and the times of a sum over distinct values
//! and of products over column groups.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example compressed -- 1000000
//! ```

use std::{collections::BTreeMap, time::Instant};

use fangorn_fusion::{
    Bindings, CompressedMatrix, DenseMatrix, FusionError, Matrix,
    dag::{Builder, Dag, Expression},
    select::{Costs, Plan, Policy},
};

const HELP: &str = "Times expressions over compressed matrices beside the same dense ones.

usage: compressed [ROWS] [TURNS]    1 000 000 rows of flights and a twentieth of them of pixels, 9 turns
output: sizes, then for each expression the median time in ms: dense and compressed, each fused by cost and operator
by operator; and how many times the dense one takes
example: cargo run --release -p fangorn-fusion --example compressed -- 200000 5";

fn draws(mut seed: u64) -> impl FnMut() -> f64 {
    move || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// Draws a table like that of flights in the United States (Airline78 of the paper): 29 columns of few distinct values,
/// several of which follow from others, sorted by date.
fn flights(rows: usize) -> DenseMatrix {
    let mut draw = draws(1);
    let mut below = |limit: usize| (draw() * limit as f64).floor().min(limit as f64 - 1.0);
    let mut values = Vec::with_capacity(rows * 29);
    for row in 0..rows {
        let day = row * 731 / rows;
        let (origin, target, plane, delay) = (below(300), below(300), below(5000), below(180));
        let (hour, minute, duration) = (below(19) + 5.0, below(60), below(300) + 30.0);
        let cancelled = f64::from(u8::from(below(50) == 0.0));
        let distance = (origin * 7.0 + target * 11.0) % 1400.0 + 60.0;
        values.extend([
            2007.0 + (day / 366) as f64,
            (day / 31 % 12) as f64,
            (day % 31) as f64,
            (day % 7) as f64,
        ]);
        values.extend([
            hour * 100.0 + minute,
            hour,
            minute,
            hour * 100.0,
            duration,
            (duration / 60.0).floor(),
        ]);
        values.extend([
            below(20),
            below(7000),
            plane,
            plane % 20.0,
            origin,
            target,
            origin % 50.0,
            target % 50.0,
        ]);
        values.extend([
            distance,
            (distance / 250.0).floor(),
            delay - 20.0,
            f64::from(u8::from(delay > 35.0)),
        ]);
        values.extend([below(100), below(30), cancelled, cancelled * below(4), cancelled * 9.0]);
        values.extend([f64::from(u8::from(below(400) == 0.0)), below(60)]);
    }
    DenseMatrix::new((rows, 29), values).expect("29 columns")
}

/// Draws images of 784 pixels (Mnist of the paper): a quarter of the elements is not 0, each of 255 values.
fn pixels(rows: usize) -> DenseMatrix {
    let mut draw = draws(2);
    let values = (0..rows * 784).map(|at| {
        // Pixels near the middle of an image are likelier to be filled.
        let (x, y) = ((at % 28) as f64 - 13.5, (at % 784 / 28) as f64 - 13.5);
        let filled = (1.0 - (x * x + y * y) / 180.0).max(0.0) * 0.75;
        if draw() < filled { (draw() * 255.0).floor() + 1.0 } else { 0.0 }
    });
    DenseMatrix::new((rows, 784), values.collect()).expect("784 columns")
}

fn show(name: &str, dense: &DenseMatrix, compressed: &CompressedMatrix, seconds: f64) {
    let (rows, columns) = dense.shape();
    let (before, after) = (8.0 * (rows * columns) as f64, compressed.bytes() as f64);
    let mut kinds: BTreeMap<String, (usize, usize, u64)> = BTreeMap::new();
    for group in compressed.groups() {
        let kind = kinds.entry(format!("{:?}", group.encoding())).or_default();
        *kind = (kind.0 + 1, kind.1 + group.columns().len(), kind.2 + group.bytes());
    }
    println!(
        "{name}: {rows} x {columns}, {:.1} MB dense, {:.1} MB compressed, ratio {:.1}; {seconds:.1} s to compress",
        before / 1e6,
        after / 1e6,
        before / after
    );
    for (kind, (groups, columns, bytes)) in kinds {
        println!("  {kind}: {groups} groups of {columns} columns, {:.2} MB", bytes as f64 / 1e6);
    }
}

type Make = for<'b> fn(&'b Builder, Expression<'b>, usize, usize) -> Expression<'b>;

/// The expressions over X, by name.
const EXPRESSIONS: [(&str, Make); 9] = [
    ("sum(X^2)", |_, x, _, _| x.square().sum()),
    ("colSums(exp(X / 1000))", |_, x, _, _| (x * 1e-3).exp().column_sums()),
    ("rowSums(X^2)", |_, x, _, _| x.square().row_sums()),
    ("X v", |builder, x, _, columns| x.matmul(builder.dense("v", columns, 1))),
    ("t(X) w", |builder, x, rows, _| x.transpose().matmul(builder.dense("w", rows, 1))),
    ("t(X) (w * (X v))", |builder, x, rows, columns| {
        let (w, v) = (builder.dense("w", rows, 1), builder.dense("v", columns, 1));
        x.transpose().matmul(w * x.matmul(v))
    }),
    ("t(X) (X V), 4 columns", |builder, x, _, columns| {
        x.transpose().matmul(x.matmul(builder.dense("V", columns, 4)))
    }),
    ("X W, 16 columns", |builder, x, _, columns| x.matmul(builder.dense("W", columns, 16))),
    ("sum(X * w)", |builder, x, rows, _| (x * builder.dense("w", rows, 1)).sum()),
];

fn main() -> Result<(), FusionError> {
    let mut arguments = std::env::args().skip(1);
    let mut whole = |default: usize, most: usize| match arguments.next() {
        None => Some(default),
        Some(text) => text.parse::<usize>().ok().filter(|number| (1..=most).contains(number)),
    };
    let (Some(rows), Some(turns)) = (whole(1_000_000, 20_000_000), whole(9, 1000)) else {
        println!("{HELP}");
        return Ok(());
    };
    for (name, dense) in [("flights", flights(rows)), ("pixels", pixels(rows.div_ceil(20)))] {
        let begin = Instant::now();
        let compressed = CompressedMatrix::new(&dense);
        show(name, &dense, &compressed, begin.elapsed().as_secs_f64());
        println!("  expression | dense ms | unfused | compressed ms | unfused | dense / compressed");
        let (rows, columns) = dense.shape();
        let bytes = compressed.bytes();
        let forms = [Matrix::Dense(dense.into()), Matrix::Compressed(compressed.into())];
        let mut draw = draws(3);
        let mut vector = |rows: usize, columns: usize| {
            let values = (0..rows * columns).map(|_| draw()).collect();
            Matrix::dense((rows, columns), values).expect("as many elements as the shape has")
        };
        let others = [
            ("v", vector(columns, 1)),
            ("w", vector(rows, 1)),
            ("V", vector(columns, 4)),
            ("W", vector(columns, 16)),
        ];
        for (expression, make) in EXPRESSIONS {
            let dag = |is_dense: bool| -> Result<Dag, FusionError> {
                let builder = Builder::new();
                let x = if is_dense {
                    builder.dense("X", rows, columns)
                } else {
                    builder.compressed("X", rows, columns, bytes)
                };
                builder.output("result", make(&builder, x, rows, columns));
                builder.finish()
            };
            let dags = [dag(true)?, dag(false)?];
            let mut runs = Vec::new();
            for (dag, x) in dags.iter().zip(&forms) {
                let mut bindings: Bindings =
                    others.iter().map(|(name, matrix)| ((*name).to_owned(), matrix.clone())).collect();
                bindings.insert("X".to_owned(), x.clone());
                for policy in [Policy::CostBased, Policy::NoFusion] {
                    runs.push((dag, bindings.clone(), Plan::new(dag, policy, &Costs::default()), Vec::new()));
                }
            }
            // In turns, so that whatever else runs slows all of them; one turn warms up.
            for turn in 0..=turns {
                for (dag, bindings, plan, times) in &mut runs {
                    let begin = Instant::now();
                    plan.run(dag, bindings)?;
                    if turn > 0 {
                        times.push(begin.elapsed().as_secs_f64() * 1e3);
                    }
                }
            }
            let medians: Vec<f64> = runs
                .into_iter()
                .map(|(.., mut times)| {
                    times.sort_by(f64::total_cmp);
                    times[times.len() / 2]
                })
                .collect();
            let shown: Vec<String> = medians.iter().map(|time| format!("{time:.3}")).collect();
            println!("  {expression} | {} | {:.2}", shown.join(" | "), medians[0] / medians[2]);
        }
    }
    Ok(())
}
