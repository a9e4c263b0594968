//! `fangorn-benches load`: times a model up to its first prediction, and the share of its self-check.

use std::{hint::black_box, path::Path, time::Instant};

use cpu_time::ThreadTime;
use fangorn::{
    Predictor,
    check::{Probes, SelfCheck},
    file::Contents,
    import,
};

/// Seconds of work that each least time is taken from.
const SECONDS: f64 = 1.0;

/// Returns the least time of some work, in milliseconds.
fn least<T>(mut work: impl FnMut() -> Result<T, fangorn::Error>) -> Result<f64, fangorn::Error> {
    let begin = Instant::now();
    let mut least = f64::INFINITY;
    while least.is_infinite() || begin.elapsed().as_secs_f64() < SECONDS {
        let start = Instant::now();
        black_box(work()?);
        least = least.min(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(least)
}

/// Returns the median of the differences of two kinds of work done in turns, in milliseconds of the thread's
/// processor time. A machine whose speed changes from second to second changes it for both.
fn difference(mut work: impl FnMut(bool) -> Result<(), fangorn::Error>) -> Result<f64, fangorn::Error> {
    const LEAST: usize = 21;
    let mut time = |more| {
        let start = ThreadTime::now();
        work(more).map(|()| start.elapsed().as_secs_f64() * 1e3)
    };
    let begin = Instant::now();
    let mut differences = Vec::new();
    while differences.len() < LEAST || begin.elapsed().as_secs_f64() < 2.0 * SECONDS {
        let less = time(false)?;
        differences.push(time(true)? - less);
    }
    differences.sort_by(f64::total_cmp);
    Ok(differences[differences.len() / 2])
}

/// Prints one line for a model. It holds four times in milliseconds: the least times of parsing the model's
/// bytes from memory, of parsing the bytes of its `.fangorn` file, and of making a predictor with one thread
/// and predicting one row; and the self-check, which is the median of what the same takes longer with it. It
/// also holds the self-check as a percentage of parsing and first prediction, for both files.
pub fn load(model: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(model)?;
    let forest = import::parse(&bytes, &Default::default())?;
    let nodes: usize = forest.trees.iter().map(|t| t.nodes.len()).sum();
    let own = Contents::new(forest.clone()).to_bytes();
    let parse = |bytes: &[u8]| least(|| Ok(import::parse(black_box(bytes), &Default::default())?));
    let (theirs, ours) = (parse(&bytes)?, parse(&own)?);
    let columns = forest.features.len();
    let row = Probes::<f32>::new(&forest, 1, 7).values;
    let first = |check: SelfCheck| {
        Predictor::builder(black_box(&forest)).threads(1).check(check).build()?.predict(&row, columns)
    };
    let off = least(|| first(SelfCheck::Off))?;
    let check = difference(|checks| {
        black_box(first(if checks { SelfCheck::Quick } else { SelfCheck::Off })?);
        Ok(())
    })?;
    let name = model.parent().and_then(Path::file_name).unwrap_or(model.as_os_str()).to_string_lossy();
    println!(
        "{name:28} {:8.2} MB {nodes:9} nodes {theirs:9.2} ms, as .fangorn {ours:8.2} ms; first prediction {off:8.2} ms, \
         self-check {check:6.2} ms, {:5.1}%, as .fangorn {:5.1}%",
        bytes.len() as f64 / 1e6,
        100.0 * check / (theirs + off),
        100.0 * check / (ours + off),
    );
    Ok(())
}
