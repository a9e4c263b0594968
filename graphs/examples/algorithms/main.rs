//! The six algorithms of the paper on fusion plans (Boehm et al., VLDB 2018, section 5.4), written in burn's calls. Each
//! trains as burn runs it, and by a fusion plan of each policy, in turns.
//!
//! ```console
//! cargo run --release -p fangorn-graphs --example algorithms -- l2svm 1000000 10
//! ```

mod als;
mod autoencoder;
mod data;
mod glm;
mod kmeans;
mod l2svm;
mod mlogreg;
mod newton;
mod step;

use std::time::Instant;

use burn::tensor::{DType, Device};
use fangorn_graphs::{Result, fangorn_fusion::select::Policy};

use step::Way;

const HELP: &str = "Trains on generated rows, as burn runs it and by fusion plans, and prints times.

usage: algorithms ALGORITHM [ROWS] [COLUMNS] [--f32] [--only WAY,…] [--turns N] [--explain]

algorithms: l2svm, mlogreg, glm, kmeans, als, autoencoder
ways:       burn, cost-based, fuse-all, fuse-no-redundancy, no-fusion

example: cargo run --release -p fangorn-graphs --example algorithms -- kmeans 1000000 10 --only burn,cost-based";

/// What training reached: the objective, and how many iterations it took.
struct Reached {
    objective: f64,
    iterations: usize,
}

/// Training in one of the ways.
type Training<'a> = Box<dyn Fn(Way) -> Result<Reached> + 'a>;

struct Options {
    algorithm: String,
    numbers: Vec<usize>,
    dtype: DType,
    ways: Vec<Way>,
    turns: usize,
}

fn options() -> Option<Options> {
    let all = [Way::Burn].into_iter().chain(Policy::ALL.map(Way::Plan)).collect();
    let mut found =
        Options { algorithm: String::new(), numbers: Vec::new(), dtype: DType::F64, ways: all, turns: 3 };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--explain" => step::EXPLAIN.store(true, std::sync::atomic::Ordering::Relaxed),
            "--f32" => found.dtype = DType::F32,
            "--turns" => found.turns = arguments.next()?.parse().ok().filter(|turns| *turns > 0)?,
            "--only" => {
                let names = arguments.next()?;
                let of = |name: &str| found.ways.iter().copied().find(|way| way.name() == name);
                found.ways = names.split(',').map(of).collect::<Option<_>>()?;
            }
            text => match text.parse() {
                Ok(number @ 1..) if !found.algorithm.is_empty() => found.numbers.push(number),
                _ if found.algorithm.is_empty() => found.algorithm = argument,
                _ => return None,
            },
        }
    }
    Some(found)
}

fn main() -> Result<()> {
    let Some(options) = options() else {
        println!("{HELP}");
        return Ok(());
    };
    let size = |at: usize, or: usize| options.numbers.get(at).copied().unwrap_or(or);
    let (rows, columns) = (size(0, 1_000_000), size(1, 10));
    let on = (&Device::flex(), options.dtype);
    let training: Training = match options.algorithm.as_str() {
        "l2svm" => {
            let data = data::classes(rows, columns, 2, on);
            Box::new(move |way| l2svm::train(&data, way))
        }
        "mlogreg" => {
            let data = data::classes(rows, columns, 3, on);
            Box::new(move |way| mlogreg::train(&data, way))
        }
        "glm" => {
            let data = data::classes(rows, columns, 2, on);
            Box::new(move |way| glm::train(&data, way))
        }
        "kmeans" => {
            let x = data::clusters(rows, columns, 5, on);
            Box::new(move |way| kmeans::train(&x, 5, way))
        }
        "als" => {
            let sides = data::ratings(size(0, 2000), size(1, 1500), on);
            Box::new(move |way| als::train(&sides, 20, way))
        }
        "autoencoder" => {
            let x = data::waves(size(0, 20_000).max(autoencoder::BATCH), size(1, 100), on);
            Box::new(move |way| autoencoder::train(&x, way))
        }
        _ => {
            println!("{HELP}");
            return Ok(());
        }
    };

    let mut times = vec![Vec::new(); options.ways.len()];
    let mut reached = Vec::new();
    // The first turn warms up.
    for turn in 0..=options.turns {
        reached.clear();
        for (way, times) in options.ways.iter().zip(&mut times) {
            let start = Instant::now();
            reached.push(training(*way)?);
            if turn > 0 {
                times.push(start.elapsed().as_secs_f64());
            }
        }
    }
    for ((way, times), reached) in options.ways.iter().zip(&mut times).zip(&reached) {
        times.sort_by(f64::total_cmp);
        println!(
            "{:20} {:8.3} s, objective {:.9e} after {}",
            way.name(),
            times[times.len() / 2],
            reached.objective,
            reached.iterations
        );
    }
    Ok(())
}
