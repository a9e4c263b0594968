//! Predicts batches and times the calls, as another program asks on standard input.

use std::{
    io::{BufRead, Write},
    num::NonZeroUsize,
    path::Path,
    time::{Duration, Instant},
};

use burn::tensor::Device;
use cpu_time::ProcessTime;
use fangorn_graphs::fangorn::graph::{Elements, GraphPredictor};

use super::{Pipeline, Result, Saved, Table, Work};

/// The least number of rows that calls go through in turn, so that no branch predictor learns a single row.
const AROUND: usize = 512;

/// What predicts: the pipeline as burn's modules, or as a graph that Fangorn rewrites and compiles.
enum Predictor<P> {
    Modules(P),
    Graph(Box<GraphPredictor>),
}

/// Reads requests from standard input, one a line. `open HEAD BATCH` chooses a head and the rows of a call,
/// `time SECONDS` then times calls for so long, and `quit` ends. The answer to the first two is a line of
/// JSON. A call goes from rows in memory to predictions in memory. `wall` is its wall-clock time and `cpu`
/// its processor time: the median and the least of all calls, in microseconds.
pub fn serve<P: Pipeline>(work: &Work, file: &Path, as_graph: bool) -> Result<()> {
    let device = Device::flex();
    let mut predictor = Predictor::Modules(Saved::open(file)?.load::<P>(&device)?);
    let (rows, _) = work.labelled("test")?;
    let (mut head, mut batches): (String, Vec<Table>) = (String::new(), Vec::new());
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["open", name, batch] if P::HEADS.contains(&name) => {
                let batch = batch.parse::<NonZeroUsize>()?.get();
                let all: Vec<usize> = (0..AROUND.max(batch)).map(|r| r % rows.rows()).collect();
                if as_graph {
                    let graph = Saved::open(file)?.load::<P>(&device)?.graph(name)?;
                    predictor = Predictor::Graph(Box::new(GraphPredictor::new(graph, 1)?));
                }
                (head, batches) =
                    (name.into(), all.chunks_exact(batch).map(|some| rows.select(some)).collect());
                writeln!(out, r#"{{"kind": "opened"}}"#)?;
            }
            ["time", seconds] if !batches.is_empty() => {
                let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
                let (mut wall, mut cpu) = (Vec::new(), Vec::new());
                for batch in batches.iter().cycle() {
                    let (begin, busy) = (Instant::now(), ProcessTime::try_now()?);
                    std::hint::black_box(match &predictor {
                        Predictor::Modules(pipeline) => work.predictions(pipeline, &head, batch, &device)?,
                        Predictor::Graph(graph) => by_graph(graph, batch)?,
                    });
                    cpu.push(busy.try_elapsed()?.as_secs_f64() * 1e6);
                    wall.push(begin.elapsed().as_secs_f64() * 1e6);
                    if Instant::now() >= end {
                        break;
                    }
                }
                let ([wall, least_wall], [cpu, least_cpu]) = (middle_and_least(wall), middle_and_least(cpu));
                writeln!(
                    out,
                    r#"{{"kind": "times", "wall": [{wall}, {least_wall}], "cpu": [{cpu}, {least_cpu}]}}"#
                )?;
            }
            ["quit"] => break,
            _ => return Err(format!("`{line}`: neither `open HEAD BATCH` nor `time SECONDS`").into()),
        }
        out.flush()?;
    }
    Ok(())
}

/// Returns the predictions of a graph.
pub fn by_graph(graph: &GraphPredictor, rows: &Table) -> Result<Vec<f32>> {
    match graph.predict(&[rows.tensor()])?.swap_remove(0).into_elements() {
        Elements::F32(values) => Ok(values),
        other => Err(format!("predictions are floats, not {}", other.dtype()).into()),
    }
}

fn middle_and_least(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [times[times.len() / 2], times[0]]
}
