//! What runs a forest, and how long a batch takes in it: the native CPU target, and burn's backends.

use std::hint::black_box;

use fangorn::{Forest, Predictor, cpu::Rows, schedule::Preset};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    schedules,
    time::groups,
};

/// Microseconds of many calls on the wall, the parts of a batch's way apart.
#[derive(Debug, Default, Serialize)]
pub struct Times {
    /// Margins of rows that lie on the device, until they are there.
    pub resident: Vec<f64>,
    /// Rows from the host's memory to the device; none where they are the same.
    pub upload: Vec<f64>,
    /// Margins from the device to the host's memory.
    pub download: Vec<f64>,
}

/// A forest on a backend.
pub trait Engine {
    /// What the device calls itself.
    fn device(&self) -> String;

    /// The schedule that runs there.
    fn schedule(&self) -> String;

    /// Puts rows on the device in place of those before.
    ///
    /// # Errors
    /// A device that has no room for them.
    fn load(&mut self, rows: Vec<f32>) -> Result<()>;

    /// Margins of the rows.
    ///
    /// # Errors
    /// What the device refuses, or fails at.
    fn margins(&self) -> Result<Vec<f32>>;

    /// The leaf slots of the first rows.
    ///
    /// # Errors
    /// What the device refuses, or fails at.
    fn slots(&self, rows: usize) -> Result<Vec<u32>>;

    /// Times the batch for about so many seconds.
    ///
    /// # Errors
    /// What the device fails at.
    fn time(&mut self, seconds: f64) -> Result<Times>;
}

/// The predictor by itself, in the host's memory.
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
    /// A forest that does not verify.
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

impl Engine for Native {
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

/// What `--backend` may be, the native target first.
pub const BACKENDS: [&str; 9] =
    ["cpu", "ndarray", "flex", "wgpu", "vulkan", "metal", "cubecl-cpu", "cuda", "rocm"];

/// The backend of a name; whether it is built in shows when it is opened.
///
/// # Errors
/// A name that no backend has.
pub fn named(name: &str) -> Result<&'static str> {
    let unknown =
        || Error::Request(format!("unknown backend {name}; the backends are {}", BACKENDS.join(", ")));
    BACKENDS.into_iter().find(|b| *b == name).ok_or_else(unknown)
}
