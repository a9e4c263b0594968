//! Records of the time that schedules took, with the cost model's estimates. Costs are fitted to these records.

use std::collections::BTreeMap;

use serde::Serialize;

use super::tuner::{TimedSchedule, TuningResult};
use crate::{
    Predictor,
    cost::{ForestFacts, Machine, RowTile, Work},
    cpu::Engine,
    error::Result,
    forest::Forest,
    schedule::{Schedule, cpu_facts},
};

/// The measured time of a batch with one schedule, and the terms of its [estimate](crate::cost::Estimate).
///
/// An estimate is a sum of counts, each multiplied by a constant of [`Machine`]. So the constants of a machine
/// can be fitted to the times of many records: `benches/experiments/fit_estimates.py` does that.
///
/// ```
/// use fangorn::{Predictor, auto::{Explanation, TimingRecord}, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let schedule = Explanation::new(&forest, 64).schedule;
/// let predictor = Predictor::builder(&forest).schedule(schedule.clone()).threads(1).build()?;
/// let record = TimingRecord::new(&forest, &schedule, &predictor, (64, 5e-6))?;
/// assert_eq!((record.rows, record.facts.trees), (64, 100));
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimingRecord {
    /// The hash of the model, in hexadecimal digits.
    pub model: String,
    /// The instruction set.
    pub instructions: &'static str,
    /// Number of threads.
    pub threads: usize,
    /// Number of rows of the batch.
    pub rows: usize,
    /// Numbers that describe the forest.
    pub facts: ForestFacts,
    /// The schedule, one directive a line.
    pub schedule: String,
    /// The name of the way that the schedule evaluates such a batch; `None` if there is no estimate for it.
    pub way: Option<&'static str>,
    /// Names of constants, with the counts that the estimate multiplies them by. Empty if there is no estimate.
    pub terms: BTreeMap<&'static str, f64>,
    /// The estimate with the costs of this version, in seconds of the batch. `None` if there is none.
    pub estimate: Option<f64>,
    /// Measured seconds of the batch.
    pub seconds: f64,
}

impl TimingRecord {
    /// Makes a record of a batch of `rows` rows that took `seconds` with `predictor`, which was built with `schedule`.
    ///
    /// # Errors
    /// There is no memory for a batch.
    pub fn new(
        forest: &Forest,
        schedule: &Schedule,
        predictor: &Predictor,
        (rows, seconds): (usize, f64),
    ) -> Result<Self> {
        let threads = predictor.plan_for(rows).program.threads() as usize;
        let work = work_of(predictor, schedule, rows)?;
        let timed = TimedSchedule { schedule: schedule.clone(), work, seconds: seconds / rows as f64 };
        let about =
            About { model: forest.model_hash().to_string(), facts: cpu_facts(forest, &forest.stats()) };
        Ok(about.record(threads, rows, &timed))
    }
}

impl TuningResult {
    /// Returns a record of each candidate that was timed on the CPU, the default schedule first.
    pub fn records(&self, forest: &Forest) -> Vec<TimingRecord> {
        let about =
            About { model: forest.model_hash().to_string(), facts: cpu_facts(forest, &forest.stats()) };
        let of = |batch: &super::TunedBatch| {
            let all = [&batch.auto].into_iter().chain(&batch.screened);
            all.map(|timed| about.record(self.threads, batch.rows, timed)).collect::<Vec<_>>()
        };
        self.batches.iter().flat_map(of).collect()
    }
}

/// The fields that all records of a forest have in common.
struct About {
    model: String,
    facts: ForestFacts,
}

impl About {
    fn record(&self, threads: usize, rows: usize, timed: &TimedSchedule) -> TimingRecord {
        let estimate = timed.work.and_then(|work| Machine::here().estimate(&self.facts, work, rows));
        let mut terms = BTreeMap::new();
        for term in estimate.iter().flat_map(|estimate| &estimate.terms).filter(|term| term.count > 0.0) {
            *terms.entry(term.cost).or_default() += term.count;
        }
        TimingRecord {
            model: self.model.clone(),
            instructions: crate::isa::isa().name(),
            threads,
            rows,
            facts: self.facts,
            schedule: timed.schedule.to_string(),
            way: timed.work.map(Work::name),
            terms,
            estimate: estimate.map(|estimate| estimate.seconds()),
            seconds: timed.seconds * rows as f64,
        }
    }
}

/// Returns the way in which a predictor with one schedule evaluates a batch; `None` if the cost model has no estimate
/// of it.
pub(super) fn work_of(predictor: &Predictor, schedule: &Schedule, rows: usize) -> Result<Option<Work>> {
    // Larger batches run as a few thousand rows do.
    let engines = predictor.engines(rows.min(4096))?;
    let tile = RowTile::of(schedule.rows_of_tile().unwrap_or(1) as usize);
    Ok(match engines[..] {
        [(Engine::Blends, _)] => Some(Work::Blends),
        [(Engine::WalksByRow, _)] => Some(Work::RowWalks),
        [(Engine::Vectors | Engine::Walks, _)] if schedule.unrolls_walks() => Some(Work::UntestedWalks(tile)),
        [(Engine::Vectors | Engine::Walks, _)] => Some(Work::TestedWalks(tile)),
        _ => None,
    })
}
