//! The expressions of figure 8 of the paper, timed under a policy. `benches/fusion/run.py` compares them with numpy and
//! PyTorch.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example micro -- 100000
//! ```

use std::time::Instant;

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Builder, Dag},
    select::{Costs, Plan, Policy},
};

const HELP: &str =
    "Times the expressions of figure 8 of the fusion paper, cost-based and operator by operator.

usage: micro [ROWS]    rows of 100 columns, 100 000 if it is left out
output: a line of JSON for each expression, in seconds; bytes are those of its inputs
example: cargo run --release -p fangorn-fusion --example micro -- 200000";
const COLUMNS: usize = 100;
/// The share of elements that sparse inputs hold.
const FILLED: f64 = 0.1;

fn draw(seed: &mut u64) -> f64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*seed >> 33) as f64 / (1u64 << 31) as f64
}

fn matrix(rows: usize, columns: usize, filled: f64, seed: u64) -> Matrix {
    let mut seed = seed;
    let mut value = || if filled == 1.0 || draw(&mut seed) < filled { 0.1 + draw(&mut seed) } else { 0.0 };
    let values: Vec<f64> = (0..rows * columns).map(|_| value()).collect();
    let made = if filled < 1.0 {
        Matrix::csr((rows, columns), &values)
    } else {
        Matrix::dense((rows, columns), values)
    };
    made.expect("as many elements as the shape has")
}

type Case = (&'static str, Dag, Vec<(&'static str, Matrix)>);

fn cases(rows: usize) -> Result<Vec<Case>, FusionError> {
    let mut found = Vec::new();
    for (dense, cell, aggregates, chain) in
        [(true, "cell-dense", "magg-dense", "row-dense"), (false, "cell-sparse", "magg-sparse", "row-sparse")]
    {
        let filled = if dense { 1.0 } else { FILLED };
        let data = |seed: u64| matrix(rows, COLUMNS, filled, seed);
        let bound = || vec![("X", data(1)), ("Y", data(2)), ("Z", data(3))];
        fn input<'b>(
            builder: &'b Builder,
            dense: bool,
            name: &str,
            rows: usize,
        ) -> fangorn_fusion::dag::Expression<'b> {
            if dense { builder.dense(name, rows, COLUMNS) } else { builder.csr(name, rows, COLUMNS, FILLED) }
        }
        let builder = Builder::new();
        let of = |name: &str| input(&builder, dense, name, rows);
        builder.output("sum", (of("X") * of("Y") * of("Z")).sum());
        found.push((cell, builder.finish()?, bound()));

        let builder = Builder::new();
        let of = |name: &str| input(&builder, dense, name, rows);
        builder.output("a", (of("X") * of("Y")).sum());
        builder.output("b", (of("X") * of("Z")).sum());
        found.push((aggregates, builder.finish()?, bound()));

        let builder = Builder::new();
        let x = input(&builder, dense, "X", rows);
        let v = builder.dense("v", COLUMNS, 1);
        builder.output("g", x.transpose().matmul(x.matmul(v)));
        found.push((chain, builder.finish()?, vec![("X", data(1)), ("v", matrix(COLUMNS, 1, 1.0, 4))]));
    }
    let builder = Builder::new();
    let (x, v) = (builder.dense("X", rows, COLUMNS), builder.dense("V", COLUMNS, 2));
    builder.output("g", x.transpose().matmul(x.matmul(v)));
    let bound = vec![("X", matrix(rows, COLUMNS, 1.0, 1)), ("V", matrix(COLUMNS, 2, 1.0, 4))];
    found.push(("row-two-columns", builder.finish()?, bound));

    // As many elements as the other inputs have.
    let side = ((rows * COLUMNS) as f64).sqrt() as usize;
    let builder = Builder::new();
    let (x, u) = (builder.csr("X", side, side, 0.01), builder.dense("U", side, COLUMNS));
    let v = builder.dense("V", side, COLUMNS);
    builder.output("loss", (x * (u.matmul(v.transpose()) + 1e-15).log()).sum());
    let bound = vec![
        ("X", matrix(side, side, 0.01, 1)),
        ("U", matrix(side, COLUMNS, 1.0, 2)),
        ("V", matrix(side, COLUMNS, 1.0, 3)),
    ];
    found.push(("outer-0.01", builder.finish()?, bound));
    Ok(found)
}

fn main() -> Result<(), FusionError> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "100000".to_owned());
    let Some(rows) = argument.parse::<usize>().ok().filter(|rows| (1..=10_000_000).contains(rows)) else {
        println!("{HELP}");
        return Ok(());
    };
    for (name, dag, inputs) in cases(rows)? {
        let bindings: Bindings = inputs.into_iter().map(|(name, matrix)| (name.to_owned(), matrix)).collect();
        let bytes: f64 = (0..dag.nodes().len())
            .filter(|node| dag.is_source(*node) && dag.literal(*node).is_none())
            .map(|node| dag.size(node).bytes())
            .sum();
        let policies = [Policy::CostBased, Policy::NoFusion];
        let plans = policies.map(|policy| Plan::new(&dag, policy, &Costs::default()));
        let mut times = [Vec::new(), Vec::new()];
        // In turns, so that whatever else runs slows both; two turns warm up.
        for turn in 0..11 {
            for (plan, times) in plans.iter().zip(&mut times) {
                let begin = Instant::now();
                plan.run(&dag, &bindings)?;
                if turn > 1 {
                    times.push(begin.elapsed().as_secs_f64());
                }
            }
        }
        let median = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!(
            "{{\"name\": \"{name}\", \"fused\": {:e}, \"unfused\": {:e}, \"bytes\": {bytes:e}}}",
            median[0], median[1]
        );
    }
    Ok(())
}
