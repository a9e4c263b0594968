//! Runs and times a forest on a backend: the trait that every backend implements, and the native CPU target.

use std::hint::black_box;

use fangorn::{Forest, Predictor, cpu::Rows, schedule::Preset};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    schedules,
    time::groups,
};

/// Wall times of many calls, in microseconds. Transfers are timed apart.
#[derive(Debug, Default, Serialize)]
pub struct Times {
    /// Computing margins of rows that lie on the device, until the margins are there.
    pub resident: Vec<f64>,
    /// Copying rows from the host's memory to the device. Empty for the native target, which reads the host's
    /// memory.
    pub upload: Vec<f64>,
    /// Copying margins from the device to the host's memory. Empty for the native target.
    pub download: Vec<f64>,
}

/// A forest compiled for one backend, with a batch of rows.
pub trait Runner {
    /// Describes the device: its own name, or the threads of a CPU.
    fn device(&self) -> String;

    /// Returns the schedule that runs on the device, on one line.
    fn schedule(&self) -> String;

    /// Puts rows on the device in place of the earlier ones.
    ///
    /// # Errors
    /// The device has no room for the rows.
    fn load(&mut self, rows: Vec<f32>) -> Result<()>;

    /// Returns the margins of the loaded rows, `rows x outputs`.
    ///
    /// # Errors
    /// The device refuses the call, or fails.
    fn margins(&self) -> Result<Vec<f32>>;

    /// Returns the leaf slots of the first `rows` rows, `rows x trees`.
    ///
    /// # Errors
    /// The device refuses the call, or fails.
    fn slots(&self, rows: usize) -> Result<Vec<u32>>;

    /// Times the loaded batch for about `seconds` seconds.
    ///
    /// # Errors
    /// The device fails.
    fn time(&mut self, seconds: f64) -> Result<Times>;
}

/// The native CPU target: a [`Predictor`] with rows in the host's memory.
pub struct Native {
    predictor: Predictor,
    schedule: String,
    columns: usize,
    rows: Vec<f32>,
}

impl Native {
    /// Compiles the default schedule.
    ///
    /// # Errors
    /// The forest does not verify.
    pub fn new(forest: &Forest) -> Result<Self> {
        let schedule = Preset::Default.schedule(forest, false);
        let predictor = Predictor::builder(forest).schedule(schedule.clone()).build()?;
        let schedule = schedules::line(&schedule);
        Ok(Self { predictor, schedule, columns: forest.features.len(), rows: Vec::new() })
    }

    fn rows(&self) -> Result<Rows<'_>> {
        Ok(Rows::new(&self.rows, self.columns)?)
    }
}

impl Runner for Native {
    fn device(&self) -> String {
        let program = self.predictor.program();
        match program.vector_name() {
            "" => format!("{} thread(s)", program.threads()),
            vectors => format!("{} thread(s), {vectors}", program.threads()),
        }
    }

    fn schedule(&self) -> String {
        self.schedule.clone()
    }

    fn load(&mut self, rows: Vec<f32>) -> Result<()> {
        self.rows = rows;
        Ok(())
    }

    fn margins(&self) -> Result<Vec<f32>> {
        Ok(self.predictor.margins(&self.rows()?)?)
    }

    fn slots(&self, rows: usize) -> Result<Vec<u32>> {
        let first = Rows::new(&self.rows[..rows * self.columns], self.columns)?;
        Ok(self.predictor.leaf_slots(&first)?)
    }

    fn time(&mut self, seconds: f64) -> Result<Times> {
        let rows = self.rows()?;
        let mut out = vec![0.0; rows.len() * self.predictor.program().outputs()];
        let call = || {
            self.predictor.margins_into(black_box(&rows), &mut out)?;
            black_box(&mut out);
            Ok(())
        };
        Ok(Times { resident: groups(seconds, call)?.wall, ..Times::default() })
    }
}

/// The names that `--backend` accepts, the native target first.
pub const BACKENDS: [&str; 9] =
    ["cpu", "ndarray", "flex", "wgpu", "vulkan", "metal", "cubecl-cpu", "cuda", "rocm"];

/// Looks up a backend by its name. Whether this build has the backend shows when it is opened.
///
/// # Errors
/// No backend has the name.
pub fn named(name: &str) -> Result<&'static str> {
    let unknown =
        || Error::Request(format!("unknown backend {name}; the backends are {}", BACKENDS.join(", ")));
    BACKENDS.into_iter().find(|b| *b == name).ok_or_else(unknown)
}
