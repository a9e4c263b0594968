//! Fits the constants of `Costs` to this machine.
//!
//! ```console
//! cargo run --release -p fangorn-fusion --example bandwidth
//! ```

use std::time::Instant;

use fangorn_fusion::{
    Bindings, FusionError, Matrix,
    dag::{Builder, Dag},
    select::{Costs, Plan, Policy},
};

const HELP: &str = "Measures how fast this machine reads, writes and computes, for plans of fused operators.

usage: bandwidth [MEGABYTES]    the size of the matrix, 512 if it is left out; it should exceed the caches
example: cargo run --release -p fangorn-fusion --example bandwidth -- 1024";

/// Returns the seconds of a run, the median of nine after two to warm up.
fn seconds(dag: &Dag, bindings: &Bindings) -> Result<f64, FusionError> {
    let plan = Plan::new(dag, Policy::FuseAll, &Costs::default());
    let mut times = Vec::new();
    for _ in 0..11 {
        let start = Instant::now();
        plan.run(dag, bindings)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.drain(..2);
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

fn ones(rows: usize) -> Bindings {
    Bindings::from([("X".to_owned(), Matrix::dense((rows, 64), vec![1.0; rows * 64]).expect("64 columns"))])
}

fn main() -> Result<(), FusionError> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "512".to_owned());
    let Ok(megabytes) = argument.parse::<usize>() else {
        println!("{HELP}");
        return Ok(());
    };
    let rows = (megabytes.clamp(1, 16_384) << 20) / (64 * 8);
    let bytes = (rows * 64 * 8) as f64;
    let input = ones(rows);

    let builder = Builder::new();
    builder.output("sum", builder.dense("X", rows, 64).sum());
    let reading = seconds(&builder.finish()?, &input)?;

    let builder = Builder::new();
    builder.output("doubled", builder.dense("X", rows, 64) * 2.0);
    let writing = seconds(&builder.finish()?, &input)? - reading;

    // Forty operations on each element of a matrix that stays in the caches.
    let (rows, steps) = (2048, 40);
    let builder = Builder::new();
    let mut value = builder.dense("X", rows, 64);
    for step in 0..steps / 2 {
        value = value * 0.5 + f64::from(step);
    }
    builder.output("sum", value.sum());
    let computing = seconds(&builder.finish()?, &ones(rows))?;
    let operations = (rows * 64) as f64 * f64::from(steps + 1);

    println!(
        "read {:.1e} bytes/s, write {:.1e} bytes/s, compute {:.1e} operations/s",
        bytes / reading,
        bytes / writing,
        operations / computing
    );
    println!("Put them into `Costs`, or, for every user, into its default in fusion/src/select/cost.rs.");
    Ok(())
}
