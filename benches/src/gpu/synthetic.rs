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
use fangorn::{Forest, check::SelfCheck, op::ForestOp, schedule::Schedule};
use serde_json::{Value, json};

use super::session::BACKENDS;
use crate::{
    devices,
    drawn::{self, Shape},
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
/// Rows of a cube, and units that share the trees of a row.
const SHAPES: [(u32, u32); 31] = [
    (1, 64),
    (1, 128),
    (1, 256),
    (1, 512),
    (1, 1024),
    (2, 64),
    (2, 128),
    (2, 256),
    (4, 32),
    (4, 64),
    (4, 128),
    (4, 256),
    (8, 16),
    (8, 32),
    (8, 64),
    (8, 128),
    (16, 8),
    (16, 16),
    (16, 32),
    (16, 64),
    (32, 4),
    (32, 8),
    (32, 16),
    (32, 32),
    (64, 1),
    (64, 4),
    (64, 8),
    (64, 16),
    (128, 1),
    (128, 4),
    (256, 1),
];
/// Shapes that are also timed without cached rows.
const UNCACHED: [(u32, u32); 7] = [(1, 256), (4, 64), (8, 64), (16, 32), (32, 16), (64, 4), (256, 1)];
/// Shapes that are also timed with interleaved nodes.
const INTERLEAVED: [(u32, u32); 5] = [(1, 256), (4, 64), (8, 64), (32, 16), (256, 1)];
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

/// The shape of a cube, and how its nodes and rows are stored.
struct Cube {
    rows: u32,
    row_units: u32,
    cached: bool,
    layout: &'static str,
}

impl Cube {
    fn all() -> Vec<Self> {
        let cube = |(rows, row_units): (u32, u32), cached, layout| Self { rows, row_units, cached, layout };
        let mut all: Vec<_> = SHAPES.iter().map(|shape| cube(*shape, true, "sparse")).collect();
        all.extend(UNCACHED.iter().map(|shape| cube(*shape, false, "sparse")));
        all.extend(INTERLEAVED.iter().map(|shape| cube(*shape, true, "reorg")));
        all
    }

    fn schedule(&self) -> Result<Schedule> {
        let Self { rows, row_units, cached, layout } = self;
        let mut text = format!("tile(batch, b0, b1, {rows})\n");
        if *row_units > 1 {
            text += &format!("tile(tree, t0, t1, {row_units})\nreorder(b0, b1, t1, t0)\n");
        }
        text += "gpuDimension(b0, grid.x)\ngpuDimension(b1, block.x)\n";
        if *row_units > 1 {
            text += "gpuDimension(t1, block.y)\nsharedReduce(t1)\n";
        }
        if *cached {
            text += "cache(b0)\n";
        }
        text += &format!("layout({layout})");
        Schedule::parse(&text).map_err(|e| Error::Request(e.to_string()))
    }
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
        let shape = Shape::Random { level: 0, deepest: *deepest, sets: 0 };
        let forest =
            drawn::forest_of(*trees, *columns, *outputs, shape).map_err(|e| Error::Request(e.to_string()))?;
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
    let mut cubes = Vec::new();
    for cube in Cube::all() {
        let builder = ForestOp::builder(forest.clone()).schedule(cube.schedule()?).check(SelfCheck::Off);
        cubes.push((cube, Arc::new(builder.build()?), None, None::<String>));
    }
    let stats = forest.stats();
    let mut records = Vec::new();
    let most = if args.quick { 4096 } else { MOST_BYTES / 4 / columns };
    for batch in BATCHES.into_iter().filter(|batch| *batch <= most) {
        let rows = drawn::values(batch, columns);
        let x = caught(backend, || {
            device.memory_cleanup();
            Ok(Tensor::<2>::from_data(TensorData::new(rows, [batch, columns]), device))
        })?;
        for (cube, op, first_ms, refused) in &mut cubes {
            if refused.is_some() {
                continue;
            }
            let call = || {
                let margins = op.margins(x.clone())?;
                sync(backend, device)?;
                drop(margins);
                Ok(())
            };
            let timed = caught(backend, || {
                let first = wall(call)?;
                first_ms.get_or_insert(first * 1e-3);
                samples(0.1 * args.seconds, || wall(call).map(Some))?;
                samples(0.9 * args.seconds, || wall(call).map(Some))
            });
            let mut record = json!({
                "backend": backend, "trees": stats.trees, "columns": columns, "outputs": forest.outputs,
                "nodes": stats.nodes, "leaf_depths": stats.leaf_depths, "depths": stats.depths, "batch": batch,
                "used": stats.features.len(),
                "rows": cube.rows, "row_units": cube.row_units, "cached": cube.cached, "layout": cube.layout,
            });
            match timed {
                Ok(times) => {
                    record["first_ms"] = json!(first_ms);
                    record["us"] = json!(Summary::of(&times).map(|summary| summary.median));
                }
                Err(e) => {
                    record["error"] = json!(e.to_string());
                    *refused = Some(e.to_string());
                    // A device that is lost with a shape ends the run.
                    sync(backend, device)?;
                }
            }
            records.push(record);
        }
    }
    Ok(records)
}

fn sync(backend: &'static str, device: &Device) -> Result<()> {
    caught(backend, || device.sync().map_err(|e| Error::Device { backend, cause: format!("{e:?}") }))
}
