//! `fangorn-benches synthetic`: times each way to evaluate a forest on random models, and writes records that
//! the costs of estimates are fitted from.

use std::{
    error::Error,
    fs::File,
    hint::black_box,
    io::{BufWriter, IsTerminal, Write},
    path::Path,
};

use cpu_time::ThreadTime;
use fangorn::{
    Forest, Predictor,
    auto::{Explanation, RandomModel, RowPool, TimingRecord},
    check::SelfCheck,
    cpu::Rows,
    schedule::Schedule,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Numbers of trees, numbers of columns, depths of the deepest leaves, and numbers of sets of categories that a column
/// asks for. There is a model for each combination.
type Grid = (&'static [usize], &'static [u32], &'static [u32], &'static [u32]);

/// The models of SilvanForge's section 10, some with copies of rows larger than a second cache, some with large trees,
/// and some with categories.
const MODELS: [Grid; 4] = [
    (&[100, 200, 400, 700, 1000], &[8, 32, 128, 512, 1024], &[6, 7, 8], &[0]),
    (&[100, 400], &[2048, 4096], &[6, 8], &[0]),
    (&[100], &[8, 128], &[10, 12], &[0]),
    (&[100, 400], &[8, 32, 128, 512], &[6], &[4, 64]),
];
/// The models of `--quick`.
const QUICK: [Grid; 2] = [(&[100], &[8, 128], &[6], &[0]), (&[100], &[32], &[6], &[64])];
/// Rows of a batch.
const BATCHES: [usize; 7] = [1, 16, 32, 64, 256, 1024, 4096];
/// Rounds in which each way has a turn.
const ROUNDS: usize = 5;
/// Seconds of a turn.
const TURN: f64 = 4e-3;

/// A way to evaluate a forest that is timed.
struct TimedWay {
    schedule: Schedule,
    predictor: Predictor,
    /// Seconds of a call, one number for each round.
    times: Vec<f64>,
}

/// Writes records of all models, or of a few, to a file, one JSON object a line.
pub fn records(path: &Path, quick: bool) -> Result<()> {
    let mut models = Vec::new();
    for &(trees, columns, depths, sets) in if quick { &QUICK[..] } else { &MODELS } {
        for trees in trees {
            for columns in columns {
                for deepest in depths {
                    let model = |sets: &u32| RandomModel {
                        trees: *trees,
                        columns: *columns,
                        outputs: 1,
                        deepest: *deepest,
                        sets: *sets,
                    };
                    models.extend(sets.iter().map(model));
                }
            }
        }
    }
    let mut out = BufWriter::new(File::create(path)?);
    let all = models.len();
    for (done, model) in models.into_iter().enumerate() {
        let forest = model.forest()?;
        for rows in BATCHES {
            for record in of_batch(&forest, rows)? {
                writeln!(out, "{}", serde_json::to_string(&record)?)?;
            }
        }
        if std::io::stderr().is_terminal() {
            eprint!("\r{} of {all} models", done + 1);
        }
    }
    out.flush()?;
    eprintln!("\r{all} models, in {}", path.display());
    Ok(())
}

/// Times each way of the cost model that serves a batch of this size, in turns.
fn of_batch(forest: &Forest, rows: usize) -> Result<Vec<TimingRecord>> {
    let pool = RowPool::drawn(forest, rows)?;
    let mut out = vec![0.0; rows];
    let mut ways = Vec::new();
    for way in Explanation::new(forest, rows).of_batch {
        let builder = Predictor::builder(forest).schedule(way.schedule.clone()).threads(1);
        let predictor = builder.check(SelfCheck::Off).build()?;
        ways.push(TimedWay { schedule: way.schedule, predictor, times: Vec::new() });
    }
    let mut next = 0;
    for _ in 0..ROUNDS {
        for way in &mut ways {
            let (mut calls, begin) = (0, ThreadTime::now());
            let seconds = loop {
                let batch = Rows::new(pool.batch(next), pool.columns())?;
                way.predictor.margins_into(black_box(&batch), black_box(&mut out))?;
                (calls, next) = (calls + 1, (next + 1) % pool.batches());
                let seconds = begin.elapsed().as_secs_f64();
                if seconds > TURN {
                    break seconds;
                }
            };
            way.times.push(seconds / f64::from(calls));
        }
    }
    let mut records = Vec::new();
    for mut way in ways {
        way.times.sort_unstable_by(f64::total_cmp);
        let median = way.times[way.times.len() / 2];
        let record = TimingRecord::new(forest, &way.schedule, &way.predictor, (rows, median))?;
        // Several schedules may leave a few rows to the same engine.
        if record.way.is_some() && records.iter().all(|other: &TimingRecord| other.way != record.way) {
            records.push(record);
        }
    }
    Ok(records)
}
