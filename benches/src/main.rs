//! Fangorn's backends side by side on one model and its rows.
//!
//! ```text
//! cargo run --release -p fangorn-benches -- MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches -- cache MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches -- ranking MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches -- engines MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches -- doubles MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches -- alignment MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches -- load MODEL…
//! cargo run --release -p fangorn-benches -- fit
//! cargo run --release -p fangorn-benches -- contributions [MODEL…]
//! cargo run --release -p fangorn-benches -- products
//! cargo run --release -p fangorn-benches -- matrices
//! cargo run --release -p fangorn-benches -- sparse-rows MODEL [ROWS]
//! cargo run --release -p fangorn-benches -- synthetic RECORDS.jsonl [--quick]
//! cargo run --release -p fangorn-benches --features vulkan -- gpu-synthetic --backend vulkan RECORDS.jsonl
//! cargo run --release -p fangorn-benches -- cpu --model MODEL --rows ROWS.npy
//! cargo run --release -p fangorn-benches --features matrices -- matrices MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches --features operator -- operator MODEL ROWS.npy [BATCH,BATCH,…]
//! cargo run --release -p fangorn-benches --features wgpu -- backend --model MODEL --rows ROWS.npy --backend wgpu
//! cargo run --release -p fangorn-benches --features wgpu -- gpu --model MODEL --rows ROWS.npy --backend wgpu
//! ```
//!
//! Without a subcommand, the program prints the least time of a row with each preset on the CPU target, in
//! microseconds, with one thread. Other libraries' figures come from `benches/peers`, and
//! `fangorn bench --json` has the same measurement for scripts.
//!
//! - `cache` times schedules of the CPU target with and without `cache`, in turns.
//!   It prints medians of thread CPU time, in microseconds a row.
//! - `ranking` prints the size of a model's ranks, and times ranking rows beside predicting them.
//! - `engines` times the default schedule with each engine of the CPU and without it.
//! - `doubles` times a few `f64` rows beside the same rows as `f32`.
//! - `alignment` times the default schedule with results that begin inside a cache line.
//! - `load` times reading models, each also as a `.fangorn` file, to compare with `benches/peers/load.py`.
//! - `fit` measures the costs that choices read (`fangorn::cost`) again on this machine.
//! - `contributions` times the two algorithms for contributions, and the choice between them, on models or, without
//!   one, on drawn forests.
//! - `products` times products with weights that are partly 0, dense and skipping the zeros.
//! - `sparse-rows` times sparse rows, column-major rows and a table's columns beside the same rows, row-major.
//! - `synthetic` times each way to evaluate a forest on random models and writes records, from which
//!   `benches/experiments/fit_estimates.py` fits the costs of estimates.
//! - `cpu` times every schedule on the CPU target (`cpu --help`). `benches/peers` compares it with other
//!   libraries.
//! - `gpu-synthetic` times cubes of many shapes on random models (`gpu-synthetic --help`), from which
//!   `benches/experiments/fit_cubes.py` fits the costs of estimates for devices.
//! - `gpu` times a device (`gpu --help`). `benches/gpu` compares it with other libraries.
//! - `backend` times the default schedule on one backend, transfers apart (`backend --help`).
//!   `benches/backends` compares all backends.
//! - `matrices` times forests as the products that a graph makes of them, beside their walks, and fits the costs of these
//!   products. With a model, it times walks of small trees and burn's matrix products in turns.
//! - `operator` times what burn's operator and module add to a call of the predictor.

mod alignment;
mod backends;
mod bounds;
mod cpu;
#[cfg(feature = "device")]
mod devices;
mod doubles;
mod drawn;
mod engines;
mod error;
mod explained;
mod fit;
mod forest_products;
#[cfg(feature = "gpu")]
mod gpu;
mod loading;
#[cfg(feature = "matrices")]
mod matrices;
mod memory;
mod npy;
#[cfg(feature = "operator")]
mod operator;
mod products;
mod ranking;
mod schedules;
mod sparse_rows;
mod synthetic;
mod time;

use std::{hint::black_box, path::Path, process::ExitCode, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    Predictor,
    cpu::Rows,
    import,
    schedule::{Preset, Schedule},
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, models @ ..] = &arguments[..]
        && first == "load"
    {
        return done(models.iter().try_for_each(|model| loading::load(Path::new(model))));
    }
    if arguments == ["fit"] {
        return done(fit::fit());
    }
    if let [first, models @ ..] = &arguments[..]
        && first == "contributions"
    {
        return done(explained::contributions(models));
    }
    if arguments == ["matrices"] {
        return done(forest_products::forest_products());
    }
    if arguments == ["products"] {
        return done(products::products());
    }
    if let [first, model, rest @ ..] = &arguments[..]
        && first == "sparse-rows"
        && let Some(rows) = sparse_rows::rows_of(rest)
    {
        return done(sparse_rows::sparse_rows(Path::new(model), rows));
    }
    if let [first, path, rest @ ..] = &arguments[..]
        && first == "synthetic"
        && (rest.is_empty() || rest == ["--quick"])
    {
        return done(synthetic::records(Path::new(path), !rest.is_empty()));
    }
    if let [first, rest @ ..] = &arguments[..]
        && first == "gpu"
    {
        return gpu(rest);
    }
    if let [first, rest @ ..] = &arguments[..]
        && first == "gpu-synthetic"
    {
        return gpu_synthetic(rest);
    }
    if let [first, rest @ ..] = &arguments[..]
        && first == "cpu"
    {
        return cpu::run(rest);
    }
    if let [first, rest @ ..] = &arguments[..]
        && first == "backend"
    {
        return backends::run(rest);
    }
    if let [first, model, rows, rest @ ..] = &arguments[..]
        && first == "cache"
    {
        let batches = rest.first().map_or("64,4096", String::as_str);
        return done(cache(Path::new(model), Path::new(rows), batches));
    }
    if let [first, model, rows, rest @ ..] = &arguments[..]
        && first == "ranking"
    {
        let batches = rest.first().map_or("1,64,4096", String::as_str);
        return done(ranking::ranking(Path::new(model), Path::new(rows), batches));
    }
    if let [first, model, rows, rest @ ..] = &arguments[..]
        && first == "engines"
    {
        let batches = rest.first().map_or("1,64,512,4096", String::as_str);
        return done(engines::engines(Path::new(model), Path::new(rows), batches));
    }
    if let [first, model, rows, rest @ ..] = &arguments[..]
        && first == "doubles"
    {
        let batches = rest.first().map_or("1,8", String::as_str);
        return done(doubles::doubles(Path::new(model), Path::new(rows), batches));
    }
    if let [first, model, rows, rest @ ..] = &arguments[..]
        && first == "alignment"
    {
        let batches = rest.first().map_or("64,96,256,4096", String::as_str);
        return done(alignment::alignment(Path::new(model), Path::new(rows), batches));
    }
    #[cfg(feature = "matrices")]
    if let [first, model, rows, rest @ ..] = &arguments[..]
        && first == "matrices"
    {
        let batches = rest.first().map_or("1,64,4096", String::as_str);
        return done(matrices::matrices(Path::new(model), Path::new(rows), batches));
    }
    #[cfg(feature = "operator")]
    if let [first, model, rows, rest @ ..] = &arguments[..]
        && first == "operator"
    {
        let batches = rest.first().map_or("1,64,4096", String::as_str);
        return done(operator::operator(Path::new(model), Path::new(rows), batches));
    }
    let [model, rows, rest @ ..] = &arguments[..] else {
        eprintln!(
            "usage: fangorn-benches [cache|ranking|engines|doubles|alignment] MODEL ROWS.npy [BATCH,BATCH,…] | load MODEL… | fit | contributions [MODEL…] | products | matrices | sparse-rows MODEL [ROWS] | synthetic RECORDS.jsonl [--quick] | backend --help | cpu --help | gpu --help | gpu-synthetic --help"
        );
        return ExitCode::from(2);
    };
    let batches = rest.first().map_or("1,64,4096", String::as_str);
    done(run(Path::new(model), Path::new(rows), batches))
}

#[cfg(feature = "gpu")]
fn gpu(arguments: &[String]) -> ExitCode {
    gpu::run(arguments)
}

#[cfg(feature = "gpu")]
fn gpu_synthetic(arguments: &[String]) -> ExitCode {
    gpu::synthetic::run(arguments)
}

#[cfg(not(feature = "gpu"))]
fn gpu_synthetic(arguments: &[String]) -> ExitCode {
    gpu(arguments)
}

#[cfg(not(feature = "gpu"))]
fn gpu(_: &[String]) -> ExitCode {
    eprintln!(
        "fangorn-benches: no device is in this build; build with --features cuda, vulkan, wgpu, metal or rocm"
    );
    ExitCode::from(2)
}

fn done(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fangorn-benches: {e}");
            ExitCode::from(2)
        }
    }
}

fn run(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let forest = import::load(model, &Default::default())?;
    println!("loaded in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let (data, columns) = read(rows)?;
    let batches: Vec<usize> = batches.split(',').map(str::parse).collect::<Result<_, _>>()?;
    for preset in Preset::ALL {
        let predictor =
            Predictor::builder(&forest).schedule(preset.schedule(&forest, false)).threads(1).build()?;
        let mut line = format!("{:20}", preset.name());
        for &batch in &batches {
            let repeated: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
            line += &format!("  {batch}: {:8.3}", measure(&predictor, &Rows::new(&repeated, columns)?)?);
        }
        println!("{line}");
    }
    Ok(())
}

/// Reads a file of rows. Returns the values, row after row, and the number of columns.
fn read(rows: &Path) -> Result<(Vec<f32>, usize), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(rows)?;
    let file = npyz::NpyFile::new(&bytes[..])?;
    let columns = usize::try_from(*file.shape().last().ok_or("rows without a shape")?)?;
    let data: Vec<f32> = file.into_vec()?;
    match columns == 0 || data.is_empty() {
        true => Err("no rows".into()),
        false => Ok((data, columns)),
    }
}

/// Pairs of a schedule and one of its loops, to which `cache` is added. Four schedules walk row blocks,
/// the last two walk one row at a time.
const CACHED: [(&str, &str); 6] = [
    ("tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nlayout(sparse)", "b0"),
    ("tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nunrollWalk(b1)\nlayout(sparse)", "b0"),
    ("tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nunrollWalk(b1)\nlayout(array)", "b0"),
    ("tile(batch, b0, b1, 512)\nreorder(b0, tree, b1)\nunrollWalk(b1)\nlayout(array)", "b0"),
    ("tile(tree, t0, t1, 8)\nreorder(batch, t0, t1)\ninterleave(t1)\nlayout(sparse)", "batch"),
    ("tile(tree, t0, t1, 8)\nreorder(batch, t0, t1)\ninterleave(t1)\nunrollWalk(t1)\nlayout(array)", "batch"),
];

/// Times each schedule with and without `cache`, in turns, so that a busy machine disturbs both alike.
fn cache(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn std::error::Error>> {
    let forest = import::load(model, &Default::default())?;
    let (data, columns) = read(rows)?;
    let batches: Vec<usize> = batches.split(',').map(str::parse).collect::<Result<_, _>>()?;
    for (text, var) in CACHED {
        let compile =
            |text: &str| Predictor::builder(&forest).schedule(Schedule::parse(text)?).threads(1).build();
        let pair = match (compile(text), compile(&format!("{text}\ncache({var})"))) {
            (Ok(plain), Ok(cached)) => [plain, cached],
            (Err(e), _) | (_, Err(e)) => {
                println!("{}: {e}", text.replace('\n', "; "));
                continue;
            }
        };
        println!("{}", text.replace('\n', "; "));
        let program = pair[1].program().to_string();
        for line in program.lines().take_while(|l| !l.contains("for r")).filter(|l| l.starts_with("  cache"))
        {
            println!("{line}");
        }
        for &batch in &batches {
            let repeated: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
            let [plain, cached] = medians(&pair, &Rows::new(&repeated, columns)?)?;
            println!("  {batch:6} rows: {plain:8.3} without, {cached:8.3} with cache({var})");
        }
    }
    Ok(())
}

/// Returns the median time a row of each predictor, in microseconds of thread CPU time.
fn medians(pair: &[Predictor; 2], rows: &Rows<'_>) -> Result<[f64; 2], fangorn::Error> {
    let mut times = [Vec::new(), Vec::new()];
    let calls = (4096 / rows.len().max(1)).max(1);
    let begin = Instant::now();
    let mut out = vec![0.0; rows.len() * pair[0].program().outputs()];
    while times[0].len() < 5 || begin.elapsed().as_secs_f64() < 2.0 {
        for (predictor, times) in pair.iter().zip(&mut times) {
            let start = ThreadTime::now();
            for _ in 0..calls {
                predictor.margins_into(black_box(rows), &mut out)?;
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / (calls * rows.len().max(1)) as f64);
        }
    }
    Ok(times.map(|mut times| {
        times.sort_unstable_by(f64::total_cmp);
        times[times.len() / 2]
    }))
}

/// Returns the least time a row, in microseconds of wall time, over about half a second of calls.
fn measure(predictor: &Predictor, rows: &Rows<'_>) -> Result<f64, fangorn::Error> {
    let mut out = vec![0.0; rows.len() * predictor.program().outputs()];
    let mut least = f64::INFINITY;
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < 0.5 {
        let calls = (2048 / rows.len().max(1)).max(1);
        let start = Instant::now();
        for _ in 0..calls {
            predictor.margins_into(black_box(rows), &mut out)?;
        }
        least = least.min(start.elapsed().as_secs_f64() * 1e6 / (calls * rows.len().max(1)) as f64);
    }
    Ok(least)
}
