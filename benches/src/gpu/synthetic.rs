//! `fangorn-benches gpu-synthetic`: times cubes of many shapes on random models, and writes records that the costs of
//! estimates for devices are fitted from.

use std::{
    fs::File,
    io::{BufWriter, IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Instant,
};

use burn::tensor::{Device, Tensor, TensorData};
use clap::Parser;
use fangorn::{
    Forest,
    auto::RandomModel,
    check::SelfCheck,
    cost::CubeShape,
    op::ForestOp,
    schedule::{Gpu, LayoutKind, RankedCube, ranked_cubes},
};
use serde_json::{Value, json};

use super::session::BACKENDS;
use crate::{
    devices, drawn,
    error::{self, Error, Result, caught},
    time::{Summary, samples, wall},
};

/// Numbers of trees, columns and outputs, and depths of the deepest leaves.
const MODELS: [(usize, u32, u32, u32); 18] = [
    (100, 8, 1, 6),
    (100, 32, 1, 8),
    (100, 128, 1, 6),
    (100, 128, 1, 8),
    (100, 512, 1, 8),
    (100, 2000, 1, 7),
    (200, 16, 1, 7),
    (200, 64, 4, 8),
    (400, 8, 1, 8),
    (400, 32, 1, 6),
    (400, 128, 8, 6),
    (400, 512, 1, 7),
    (700, 64, 1, 8),
    (700, 1024, 1, 6),
    (1000, 8, 1, 6),
    (1000, 32, 26, 8),
    (1000, 128, 1, 8),
    (2000, 32, 1, 6),
];
/// Rows of a batch.
const BATCHES: [usize; 6] = [64, 512, 4096, 32_768, 131_072, 524_288];
/// The maximum number of bytes of a batch's rows.
const MOST_BYTES: usize = 512 << 20;

/// Time cubes of many shapes on random models.
#[derive(Debug, Parser)]
#[command(
    name = "fangorn-benches gpu-synthetic",
    no_binary_name = true,
    after_help = "Example:\n  fangorn-benches gpu-synthetic --backend cuda records.jsonl"
)]
struct Args {
    /// The file of records, one JSON object a line
    records: PathBuf,
    /// cuda, vulkan, wgpu, metal or rocm
    #[arg(long)]
    backend: String,
    /// Seconds to time each model, batch size and shape for
    #[arg(long, value_name = "S", default_value = "0.02")]
    seconds: f64,
    /// Seconds in all, after which no further model is begun
    #[arg(long, value_name = "S", default_value = "600")]
    most_seconds: f64,
    /// A tenth of the models and batches of at most 4096 rows, to try it out
    #[arg(long)]
    quick: bool,
}

/// Runs the command with the arguments after its name.
pub fn run(arguments: &[String]) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(e) => e.exit(),
    };
    error::silence_panics();
    match go(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fangorn-benches: {e}");
            ExitCode::from(2)
        }
    }
}

/// A shape that is timed at every batch size, until the device refuses it.
struct TimedShape {
    shape: CubeShape,
    op: Arc<ForestOp>,
    first_ms: Option<f64>,
    refused: bool,
}

fn go(args: &Args) -> Result<()> {
    let name = BACKENDS.into_iter().find(|b| *b == args.backend).ok_or_else(|| {
        Error::Request(format!("unknown backend {}; the backends are {}", args.backend, BACKENDS.join(", ")))
    })?;
    let begin = Instant::now();
    let device = caught(name, || devices::open(name).ok_or(Error::NotBuiltIn(name)))?;
    let said = |e: std::io::Error| Error::File { path: args.records.clone(), cause: e.to_string() };
    let mut out = BufWriter::new(File::create(&args.records).map_err(said)?);
    let step = if args.quick { 10 } else { 1 };
    let models: Vec<_> = MODELS.into_iter().step_by(step).collect();
    for (done, (trees, columns, outputs, deepest)) in models.iter().enumerate() {
        if begin.elapsed().as_secs_f64() > args.most_seconds {
            eprintln!("\nfangorn-benches: {} of {} models in {} s", done, models.len(), args.most_seconds);
            break;
        }
        let (columns, outputs, deepest) = (*columns, *outputs, *deepest);
        let model = RandomModel { trees: *trees, columns, outputs, deepest, sets: 0 };
        let forest = model.forest().map_err(|e| Error::Request(e.to_string()))?;
        let records = of_model(args, name, &device, &forest)?;
        for record in records {
            writeln!(out, "{record}").map_err(said)?;
        }
        out.flush().map_err(said)?;
        if std::io::stderr().is_terminal() {
            eprint!("\r{} of {} models", done + 1, models.len());
        }
    }
    eprintln!("\nrecords in {}", args.records.display());
    Ok(())
}

/// Times every shape on every batch size. Records of a shape that the device refuses say why.
fn of_model(args: &Args, backend: &'static str, device: &Device, forest: &Forest) -> Result<Vec<Value>> {
    let columns = forest.features.len();
    let gpu = match devices::description(device) {
        fangorn::schedule::Device::Gpu(gpu) => gpu,
        fangorn::schedule::Device::Cpu => return Err(Error::NotBuiltIn(backend)),
    };
    let mut shapes: Vec<TimedShape> = Vec::new();
    for cube in ranked_cubes(forest, &gpu, BATCHES[0]) {
        // The layout of cubes of one row depends on more than the shape.
        let schedule = cube.schedule.layout(LayoutKind::Sparse);
        let builder = ForestOp::builder(forest.clone()).schedule(schedule).check(SelfCheck::Off);
        shapes.push(TimedShape {
            shape: cube.shape,
            op: Arc::new(builder.build()?),
            first_ms: None,
            refused: false,
        });
    }
    let mut records = Vec::new();
    let most = if args.quick { 4096 } else { MOST_BYTES / 4 / columns };
    for batch in BATCHES.into_iter().filter(|batch| *batch <= most) {
        let rows = drawn::values(batch, columns);
        let x = caught(backend, || {
            device.memory_cleanup();
            Ok(Tensor::<2>::from_data(TensorData::new(rows, [batch, columns]), device))
        })?;
        let ranked = ranked_cubes(forest, &gpu, batch);
        for timed in shapes.iter_mut().filter(|timed| !timed.refused) {
            let call = || {
                let margins = timed.op.margins(x.clone())?;
                sync(backend, device)?;
                drop(margins);
                Ok(())
            };
            let times = caught(backend, || {
                let first = wall(call)?;
                samples(0.1 * args.seconds, || wall(call).map(Some))?;
                Ok((first * 1e-3, samples(0.9 * args.seconds, || wall(call).map(Some))?))
            });
            let Some(cube) = ranked.iter().find(|cube| cube.shape == timed.shape) else { continue };
            let mut record = record(backend, &gpu, forest, batch, cube);
            match times {
                Ok((first_ms, times)) => {
                    record["first_ms"] = json!(timed.first_ms.get_or_insert(first_ms));
                    record["seconds"] = json!(Summary::of(&times).map(|summary| summary.median * 1e-6));
                }
                Err(e) => {
                    record["error"] = json!(e.to_string());
                    timed.refused = true;
                    // A device that is lost with a shape ends the run.
                    sync(backend, device)?;
                }
            }
            records.push(record);
        }
    }
    Ok(records)
}

/// Returns a record without its time: the model, the shape, and the counts of the estimate.
fn record(backend: &str, gpu: &Gpu, forest: &Forest, batch: usize, cube: &RankedCube) -> Value {
    let CubeShape { rows, row_units, cached } = cube.shape;
    let terms = cube.estimate.terms.iter().map(|term| (term.cost.to_owned(), json!(term.count)));
    json!({
        "backend": backend,
        "multiprocessors": gpu.multiprocessors,
        "model": format!(
            "{} trees, {} columns, {} outputs", forest.trees.len(), forest.features.len(), forest.outputs
        ),
        "batch": batch,
        "rows": rows,
        "row_units": row_units,
        "cached": cached,
        "terms": terms.collect::<serde_json::Map<_, _>>(),
        "estimate": cube.estimate.seconds(),
    })
}

fn sync(backend: &'static str, device: &Device) -> Result<()> {
    caught(backend, || device.sync().map_err(|e| Error::Device { backend, cause: format!("{e:?}") }))
}
