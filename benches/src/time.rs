//! Samples of how long something takes.

use std::time::Instant;

use cpu_time::{ProcessTime, ThreadTime};
use serde::Serialize;

use crate::error::Result;

/// Samples that are kept of one measurement.
const MOST: usize = 4000;
/// Samples that are taken whatever they last.
#[cfg(feature = "device")]
const LEAST: usize = 3;
/// Groups of calls that are timed whatever they last.
const LEAST_GROUPS: usize = 2;
/// Seconds that a group of calls takes at least, so that neither the clocks' resolution nor their cost shows.
const GROUP: f64 = 500e-6;

/// What groups of calls take, in microseconds a call.
#[derive(Debug, Default, Serialize)]
pub struct Groups {
    /// The calling thread's time on the processor.
    pub thread: Vec<f64>,
    /// The whole process's.
    pub process: Vec<f64>,
    /// On the wall.
    pub wall: Vec<f64>,
}

impl Groups {
    /// Adds what others took.
    pub fn extend(&mut self, more: Self) {
        self.thread.extend(more.thread);
        self.process.extend(more.process);
        self.wall.extend(more.wall);
    }
}

/// Times groups of calls for about this many seconds, after some calls that only warm up.
///
/// # Errors
/// What `call` fails with.
pub fn groups(seconds: f64, mut call: impl FnMut() -> Result<()>) -> Result<Groups> {
    let begin = Instant::now();
    let (mut fastest, mut warm) = (f64::INFINITY, 0);
    while warm < 2 || begin.elapsed().as_secs_f64() < 0.1 * seconds {
        let start = Instant::now();
        call()?;
        fastest = fastest.min(start.elapsed().as_secs_f64());
        warm += 1;
    }
    let calls = (GROUP / fastest.max(1e-9)).ceil().clamp(1.0, 1e6) as usize;
    let mut groups = Groups::default();
    let each = |seconds: f64| seconds * 1e6 / calls as f64;
    while groups.wall.len() < MOST
        && (groups.wall.len() < LEAST_GROUPS || begin.elapsed().as_secs_f64() < seconds)
    {
        let (wall, process, thread) = (Instant::now(), ProcessTime::now(), ThreadTime::now());
        for _ in 0..calls {
            call()?;
        }
        groups.thread.push(each(thread.elapsed().as_secs_f64()));
        groups.process.push(each(process.elapsed().as_secs_f64()));
        groups.wall.push(each(wall.elapsed().as_secs_f64()));
    }
    Ok(groups)
}

/// Takes samples for about this many seconds. `sample` gives the microseconds it took, or none where there is no clock.
///
/// # Errors
/// What `sample` fails with.
#[cfg(feature = "device")]
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
#[cfg(feature = "device")]
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
