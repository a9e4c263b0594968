//! Which target is the fastest for a batch: the CPU, or a device with the way to it and back.

use super::{
    store::KeptSchedules,
    tuner::{TunedBatch, TuningResult},
};

/// Measured times of a model on its targets, from the host's memory to the host's memory.
///
/// ```
/// use fangorn::{auto::{MeasuredTargets, ScheduleStore}, import};
///
/// let model = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn/model.ubj");
/// let forest = import::load(model.as_ref(), &Default::default())?;
/// # let folder = std::env::temp_dir().join("fangorn-doc-no-such-folder");
/// let store = ScheduleStore::at(&folder);
/// let targets = MeasuredTargets::new(store.of_model(forest.model_hash())?);
/// // Nothing is kept in this folder; `fangorn tune --backend auto` measures every target.
/// assert_eq!(targets.fastest(4096), None);
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredTargets {
    targets: Vec<Target>,
}

/// A target's times.
#[derive(Clone, Debug, PartialEq)]
struct Target {
    name: String,
    /// Rows of a batch and seconds of a call, in ascending order of rows. There is at least one.
    calls: Vec<(usize, f64)>,
}

impl Target {
    /// Returns the seconds of a call. Between two measured batches they grow evenly with the rows. A smaller batch
    /// than all takes as long as the smallest one, and a larger one takes longer in proportion.
    fn seconds(&self, rows: usize) -> f64 {
        let at = self.calls.partition_point(|(measured, _)| *measured < rows);
        match (at.checked_sub(1).map(|before| self.calls[before]), self.calls.get(at)) {
            (None, Some((_, seconds))) => *seconds,
            (Some((before, low)), Some((after, high))) => {
                low + (high - low) * (rows - before) as f64 / (after - before) as f64
            }
            (Some((last, seconds)), None) => seconds * rows as f64 / last as f64,
            (None, None) => f64::INFINITY,
        }
    }
}

/// Largest batch for which [`MeasuredTargets::from`] looks.
const LARGEST: usize = 1 << 24;

impl MeasuredTargets {
    /// Takes the times of what is kept for one model. Of two results for one target, the first counts.
    pub fn new(kept: impl IntoIterator<Item = KeptSchedules>) -> Self {
        let mut measured = Self::default();
        for kept in kept {
            measured.add(&kept.key.target, kept.batches.iter().map(|batch| &batch.found));
        }
        measured
    }

    /// Takes the times that tuning has found. Of two results for one target, the first counts.
    pub fn of_results<'a>(results: impl IntoIterator<Item = &'a TuningResult>) -> Self {
        let mut measured = Self::default();
        for result in results {
            measured.add(&result.target, &result.batches);
        }
        measured
    }

    fn add<'a>(&mut self, name: &str, batches: impl IntoIterator<Item = &'a TunedBatch>) {
        let call = |batch: &TunedBatch| {
            let row = batch.from_host.unwrap_or(batch.tuned.seconds);
            (batch.rows, row * batch.rows as f64)
        };
        let calls: Vec<_> = batches.into_iter().map(call).collect();
        if !calls.is_empty() && self.targets.iter().all(|other| other.name != name) {
            self.targets.push(Target { name: name.to_owned(), calls });
        }
    }

    /// Returns the target that takes the least time for a batch of `rows` rows, and its seconds; `None` if there is no
    /// target.
    pub fn fastest(&self, rows: usize) -> Option<(&str, f64)> {
        let seconds = self.targets.iter().map(|target| (&target.name[..], target.seconds(rows)));
        seconds.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns the seconds of a batch of `rows` rows on a target; `None` if there is no target of this name.
    pub fn seconds(&self, target: &str, rows: usize) -> Option<f64> {
        self.targets.iter().find(|known| known.name == target).map(|known| known.seconds(rows))
    }

    /// Returns the fastest targets by batch size: each with the number of rows from which on it is the fastest, in
    /// ascending order.
    pub fn from(&self) -> Vec<(usize, &str)> {
        let name = |rows| self.fastest(rows).map(|(name, _)| name);
        let mut found: Vec<(usize, &str)> = Vec::new();
        let mut rows = 1;
        while let Some(fastest) = name(rows).filter(|_| rows <= LARGEST) {
            if found.last().is_none_or(|(_, last)| *last != fastest) {
                // Between the two sizes the first one at which this target is the fastest.
                let (mut before, mut at) = (rows / 2, rows);
                while at - before > 1 {
                    let middle = before + (at - before) / 2;
                    match name(middle) == Some(fastest) {
                        true => at = middle,
                        false => before = middle,
                    }
                }
                found.push((at, fastest));
            }
            rows *= 2;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        auto::{KeptBatch, ScheduleKey, TimedSchedule, TunedBatch},
        forest::ModelHash,
        schedule::Schedule,
        sum::Contract,
    };

    /// A target with seconds of a row, by batch; with the way from and to the host if `device`.
    fn kept(target: &str, device: bool, rows: &[(usize, f64)]) -> KeptSchedules {
        let timed = |seconds| TimedSchedule { schedule: Schedule::new(), work: None, seconds };
        let batch = |(rows, seconds): &(usize, f64)| KeptBatch {
            rows_hash: 0,
            budget: Duration::ZERO,
            found: TunedBatch {
                rows: *rows,
                auto: timed(*seconds),
                // What a device takes without the way to it does not count.
                tuned: timed(if device { 1e-12 } else { *seconds }),
                best: None,
                from_host: device.then_some(*seconds),
                points: 1,
                screened: Vec::new(),
                missed: Vec::new(),
            },
        };
        let key = ScheduleKey { model: ModelHash(1), target: target.into(), threads: 1, sum: Contract::Any };
        KeptSchedules { key, batches: rows.iter().map(batch).collect() }
    }

    #[test]
    fn a_device_pays_from_the_batch_on_at_which_the_measured_times_cross() {
        // The CPU takes 1 us a row; the device 100 us a call, and 0.1 us a row.
        let device = |rows: usize| (rows, (100e-6 + rows as f64 * 0.1e-6) / rows as f64);
        let cpu = kept("avx2", false, &[(1, 1e-6), (4096, 1e-6)]);
        let gpu = kept("cuda card", true, &[device(1), device(4096)]);
        let targets = MeasuredTargets::new([cpu.clone(), gpu.clone()]);
        assert_eq!(targets.from(), [(1, "avx2"), (112, "cuda card")]);
        assert_eq!(targets.fastest(111).map(|(name, _)| name), Some("avx2"));
        let (name, seconds) = targets.fastest(1 << 20).expect("two targets");
        assert_eq!(name, "cuda card");
        assert!((seconds / (256.0 * (100e-6 + 409.6e-6)) - 1.0).abs() < 1e-9, "{seconds}");
        assert_eq!(MeasuredTargets::new([cpu]).from(), [(1, "avx2")]);
        assert_eq!(MeasuredTargets::new([]).from(), []);
        // A target counts once.
        let again = MeasuredTargets::new([gpu, kept("cuda card", true, &[(1, 9.0)])]);
        assert_eq!(again.fastest(1).map(|(_, seconds)| seconds < 1.0), Some(true));
    }
}
