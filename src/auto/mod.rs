//! Finds a fast schedule. It times the candidates of a space on rows, in the order of a cost model, and keeps
//! the fastest in a plan file.
//!
//! This module uses a forest, rows, the costs of the machine, and [`Predictor`](crate::Predictor) to time
//! candidates with. A schedule never changes a result, so tuning never does.
//!
//! ```no_run
//! use std::time::Duration;
//! use fangorn::{Predictor, auto::Tuner, import};
//!
//! let forest = import::load("model.ubj".as_ref(), &Default::default())?;
//! let tuned = Tuner::new(&forest).batches([1, 64, 4096]).budget(Duration::from_secs(5)).run(|_| ())?;
//! let plan_file = tuned.plan_file(&forest);
//! std::fs::write("plan.toml", plan_file.to_string())?;
//! let predictor = Predictor::builder(&forest).schedules(plan_file.schedules(&forest)?).build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cost_measurement;
mod explain;
mod plan_file;
mod random_model;
mod record;
mod rows;
mod space;
mod store;
mod targets;
mod tuner;

pub use cost_measurement::{Choices, CostMeasurement};
pub use explain::{Explanation, Way};
pub use plan_file::{PlanFile, PlanFileBucket, PlanFileError};
pub use random_model::RandomModel;
pub use record::TimingRecord;
pub use rows::{LEAST_ROWS, RowPool};
pub use space::{CpuPoint, Evaluate, MOST_CPU_POINTS, cpu_space};
pub use store::{CACHE, KeptBatch, KeptSchedules, ScheduleKey, ScheduleStore};
pub use targets::MeasuredTargets;
pub use tuner::{Miss, Progress, TimedSchedule, TunedBatch, Tuner, TuningResult};
