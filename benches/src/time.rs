//! Takes samples of how long something takes.

use std::time::Instant;

use cpu_time::{ProcessTime, ThreadTime};
use serde::Serialize;

use crate::error::Result;

/// The maximum number of samples that one measurement keeps.
const MOST: usize = 4000;
/// The minimum number of samples that are taken, however long they last.
#[cfg(feature = "device")]
const LEAST: usize = 3;
/// The minimum number of groups of calls that are timed, however long they last.
const LEAST_GROUPS: usize = 2;
/// The minimum number of seconds of a group of calls, so that neither the clocks' resolution nor their cost
/// shows.
const GROUP: f64 = 500e-6;

/// Times of groups of calls, in microseconds a call.
#[derive(Debug, Default, Serialize)]
pub struct Groups {
    /// CPU time of the calling thread.
    pub thread: Vec<f64>,
    /// CPU time of the whole process.
    pub process: Vec<f64>,
    /// Wall time.
    pub wall: Vec<f64>,
}

impl Groups {
    /// Appends the times of another measurement.
    pub fn extend(&mut self, more: Self) {
        self.thread.extend(more.thread);
        self.process.extend(more.process);
        self.wall.extend(more.wall);
    }
}

/// Times groups of calls for about `seconds` seconds. The first calls only warm up.
///
/// # Errors
/// `call` fails.
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

/// Takes samples for about `seconds` seconds. `sample` returns the microseconds that it took, or `None` if
/// there is no clock, which ends the measurement.
///
/// # Errors
/// `sample` fails.
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

/// Returns the microseconds of wall time that `run` takes.
///
/// # Errors
/// `run` fails.
#[cfg(feature = "device")]
pub fn wall(run: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    run()?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// The median and the least of some samples, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The least sample.
    pub min: f64,
    /// The number of samples.
    pub samples: usize,
}

impl Summary {
    /// Summarizes samples, or returns `None` if there are none.
    pub fn of(times: &[f64]) -> Option<Self> {
        let mut times = times.to_vec();
        times.sort_unstable_by(f64::total_cmp);
        Some(Self { median: *times.get(times.len() / 2)?, min: times[0], samples: times.len() })
    }
}
