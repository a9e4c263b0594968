//! A forest on the native CPU target: compiled schedules, batches of rows, and timed calls.

use std::{
    hint::black_box,
    path::{Path, PathBuf},
    time::Instant,
};

use fangorn::{Forest, Predictor, cpu::Rows, schedule::Schedule};
use serde::Serialize;

use crate::{
    bounds,
    error::{Error, Result},
    npy, schedules,
    time::{Groups, groups},
};

/// A compiled schedule.
pub struct Candidate {
    /// The name of a preset, or of a schedule file.
    pub name: String,
    /// The schedule's directives, on one line.
    pub directives: String,
    /// Milliseconds of compiling, from the forest to a predictor.
    pub compile_ms: f64,
    predictor: Predictor,
}

/// A schedule that fangorn refuses for the forest.
pub struct Refusal {
    /// The name of a preset, or of a schedule file.
    pub name: String,
    /// Why the schedule is refused.
    pub error: String,
}

/// Files with results of a batch, for comparison with other libraries.
#[derive(Debug, Serialize)]
pub struct ResultFiles {
    /// Margins of the first rows, `rows x outputs`.
    margins: PathBuf,
    /// Values of the same rows, which the producer's own predict should return.
    outputs: PathBuf,
    /// Error bounds of the same rows' margins, `rows x outputs`: how far a correct `f32` sum may be from the
    /// exact sum.
    row_bound: PathBuf,
}

/// The maximum number of leaf slots that are looked up at a time.
const MOST_LEAVES: usize = 1 << 24;

/// A forest with compiled schedules and batches of rows.
pub struct Session {
    forest: Forest,
    threads: usize,
    /// The schedules that were not refused. The first is timed against other libraries.
    pub candidates: Vec<Candidate>,
    rows: Vec<f32>,
    batch: usize,
    /// The index of the batch that the next call takes.
    next: usize,
    out: Vec<f32>,
}

impl Session {
    /// Compiles the first schedule.
    ///
    /// # Errors
    /// The schedule is refused.
    pub fn new(forest: Forest, first: &(String, Schedule), threads: usize) -> Result<Self> {
        let candidates = vec![compile(&forest, first, threads)?];
        Ok(Self { forest, threads, candidates, rows: Vec::new(), batch: 1, next: 0, out: Vec::new() })
    }

    /// Compiles another schedule. Returns the reason if the schedule is refused.
    pub fn add(&mut self, named: &(String, Schedule)) -> Option<Refusal> {
        match compile(&self.forest, named, self.threads) {
            Ok(candidate) => self.candidates.push(candidate),
            Err(e) => return Some(Refusal { name: named.0.clone(), error: e.to_string() }),
        }
        None
    }

    /// Returns the forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// Returns the name of the instruction set of the first schedule's vector kernels. The name is empty
    /// if the schedule has no vector kernels on this machine.
    pub fn vectors(&self) -> &'static str {
        self.candidates[0].predictor.program().vector_name()
    }

    /// Replaces the loaded rows. Each `batch` rows make one batch.
    pub fn load(&mut self, rows: Vec<f32>, batch: usize) {
        let outputs = self.candidates[0].predictor.program().outputs();
        (self.rows, self.batch, self.next) = (rows, batch, 0);
        self.out = vec![0.0; batch * outputs];
    }

    /// Computes the margins of one batch. The next call takes the next batch; after the last batch comes the
    /// first one.
    fn call(&mut self, candidate: usize) -> Result<()> {
        let columns = self.forest.features.len();
        let values = self.batch * columns;
        let rows = Rows::new(&self.rows[self.next * values..][..values], columns)?;
        self.candidates[candidate].predictor.margins_into(black_box(&rows), &mut self.out)?;
        black_box(&mut self.out);
        self.next = if (self.next + 2) * values <= self.rows.len() { self.next + 1 } else { 0 };
        Ok(())
    }

    /// Times a schedule for about `seconds` seconds.
    ///
    /// # Errors
    /// No rows are loaded, or a call fails.
    pub fn time(&mut self, candidate: usize, seconds: f64) -> Result<Groups> {
        if self.rows.is_empty() {
            return Err(Error::Request("no rows are loaded; open a batch first".into()));
        }
        groups(seconds, || self.call(candidate))
    }

    /// Writes the first schedule's results for the first `most` rows.
    ///
    /// # Errors
    /// A file can't be written, or a call fails.
    pub fn write(&self, folder: &Path, most: usize) -> Result<ResultFiles> {
        let predictor = &self.candidates[0].predictor;
        let columns = self.forest.features.len();
        let trees = self.forest.trees.len().max(1);
        let sums = predictor.program().outputs();
        let count = most.min(self.rows.len() / columns).max(1);
        let values = &self.rows[..count * columns];
        let rows = Rows::new(values, columns)?;
        let written = ResultFiles {
            margins: folder.join("margins.npy"),
            outputs: folder.join("outputs.npy"),
            row_bound: folder.join("row-bound.npy"),
        };
        npy::write(&written.margins, sums, predictor.margins(&rows)?.into_iter())?;
        let outputs = predictor.predict(values, columns)?;
        npy::write(&written.outputs, predictor.width(), outputs.into_iter())?;
        let mut bounds = Vec::with_capacity(count * sums);
        for piece in values.chunks((MOST_LEAVES / trees).max(1) * columns) {
            let slots = predictor.leaf_slots(&Rows::new(piece, columns)?)?;
            let of_row = |row: &[u32]| bounds::of_row(&self.forest, row.iter().copied());
            bounds.extend(slots.chunks_exact(trees).flat_map(of_row));
        }
        npy::write(&written.row_bound, sums, bounds.into_iter())?;
        Ok(written)
    }
}

fn compile(forest: &Forest, (name, schedule): &(String, Schedule), threads: usize) -> Result<Candidate> {
    let start = Instant::now();
    let predictor = Predictor::builder(forest).schedule(schedule.clone()).threads(threads).build()?;
    let compile_ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(Candidate { name: name.clone(), directives: schedules::line(schedule), compile_ms, predictor })
}
