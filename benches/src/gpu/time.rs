//! Samples of how long something takes.

use std::time::Instant;

use serde::Serialize;

use super::error::Result;

/// Samples that are kept of one measurement.
const MOST: usize = 4000;
/// Samples that are taken whatever they last.
const LEAST: usize = 3;

/// Takes samples for about this many seconds. `sample` gives the microseconds it took, or none where there is no clock.
///
/// # Errors
/// What `sample` fails with.
pub fn samples(seconds: f64, mut sample: impl FnMut() -> Result<Option<f64>>) -> Result<Vec<f64>> {
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < MOST && (times.len() < LEAST || begin.elapsed().as_secs_f64() < seconds) {
        match sample()? {
            Some(time) => times.push(time),
            None => break,
        }
    }
    Ok(times)
}

/// Microseconds that `run` takes on the wall.
///
/// # Errors
/// What `run` fails with.
pub fn wall(run: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// The middle of some samples and the least of them, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// How many there are.
    pub samples: usize,
}

impl Summary {
    /// Of samples; none of no samples.
    pub fn of(times: &[f64]) -> Option<Self> {
        let mut times = times.to_vec();
        times.sort_unstable_by(f64::total_cmp);
        Some(Self { median: *times.get(times.len() / 2)?, min: times[0], samples: times.len() })
    }
}
