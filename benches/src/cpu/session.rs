//! A forest on the native CPU target: its schedules, the rows of some batches, and how calls on them are timed.

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

/// A schedule, compiled.
pub struct Candidate {
    /// A preset's name, or a file's.
    pub name: String,
    /// The schedule, one directive after the other.
    pub directives: String,
    /// Milliseconds from the forest to a predictor.
    pub compile_ms: f64,
    predictor: Predictor,
}

/// A schedule that can't be carried out.
pub struct Refused {
    /// A preset's name, or a file's.
    pub name: String,
    /// Why not.
    pub error: String,
}

/// What was written of a batch's results, for others to compare with.
#[derive(Debug, Serialize)]
pub struct Written {
    /// Margins of the first rows.
    margins: PathBuf,
    /// What the producer's own predict says of them.
    outputs: PathBuf,
    /// How far two correct sums of them may be from the exact one, by output.
    row_bound: PathBuf,
}

/// Leaves that are looked up at a time.
const MOST_LEAVES: usize = 1 << 24;

/// A forest ready to be timed.
pub struct Session {
    forest: Forest,
    threads: usize,
    /// The schedules that can be carried out; the first is the one that is timed against other engines.
    pub candidates: Vec<Candidate>,
    rows: Vec<f32>,
    batch: usize,
    /// The batch that the next call takes.
    next: usize,
    out: Vec<f32>,
}

impl Session {
    /// Compiles the first schedule.
    ///
    /// # Errors
    /// A schedule that can't be carried out.
    pub fn new(forest: Forest, first: &(String, Schedule), threads: usize) -> Result<Self> {
        let candidates = vec![compile(&forest, first, threads)?];
        Ok(Self { forest, threads, candidates, rows: Vec::new(), batch: 1, next: 0, out: Vec::new() })
    }

    /// Compiles a further schedule; gives why not where it can't be carried out.
    pub fn add(&mut self, named: &(String, Schedule)) -> Option<Refused> {
        match compile(&self.forest, named, self.threads) {
            Ok(candidate) => self.candidates.push(candidate),
            Err(e) => return Some(Refused { name: named.0.clone(), error: e.to_string() }),
        }
        None
    }

    /// The forest.
    pub fn forest(&self) -> &Forest {
        &self.forest
    }

    /// The instruction set of the first schedule's vector kernels; empty where it has none for this machine.
    pub fn vectors(&self) -> &'static str {
        self.candidates[0].predictor.program().vector_name()
    }

    /// Puts batches of rows in place of those before.
    pub fn load(&mut self, rows: Vec<f32>, batch: usize) {
        let outputs = self.candidates[0].predictor.program().outputs();
        (self.rows, self.batch, self.next) = (rows, batch, 0);
        self.out = vec![0.0; batch * outputs];
    }

    /// Margins of one batch, and of the next one with the next call.
    fn call(&mut self, candidate: usize) -> Result<()> {
        let columns = self.forest.features.len();
        let values = self.batch * columns;
        let rows = Rows::new(&self.rows[self.next * values..][..values], columns)?;
        self.candidates[candidate].predictor.margins_into(black_box(&rows), &mut self.out)?;
        black_box(&mut self.out);
        self.next = if (self.next + 2) * values <= self.rows.len() { self.next + 1 } else { 0 };
        Ok(())
    }

    /// Times a schedule for about so many seconds.
    ///
    /// # Errors
    /// Rows that are not loaded.
    pub fn time(&mut self, candidate: usize, seconds: f64) -> Result<Groups> {
        if self.rows.is_empty() {
            return Err(Error::Request("no rows are loaded; open a batch first".into()));
        }
        groups(seconds, || self.call(candidate))
    }

    /// Writes what the first schedule says of the first `most` rows.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn write(&self, folder: &Path, most: usize) -> Result<Written> {
        let predictor = &self.candidates[0].predictor;
        let columns = self.forest.features.len();
        let trees = self.forest.trees.len().max(1);
        let sums = predictor.program().outputs();
        let count = most.min(self.rows.len() / columns).max(1);
        let values = &self.rows[..count * columns];
        let rows = Rows::new(values, columns)?;
        let written = Written {
            margins: folder.join("margins.npy"),
            outputs: folder.join("outputs.npy"),
            row_bound: folder.join("row-bound.npy"),
        };
        npy::write(&written.margins, sums, predictor.margins(&rows)?.into_iter())?;
        let outputs = predictor.predict(values, columns)?;
        npy::write(&written.outputs, predictor.width(), outputs.into_iter())?;
        let mut bounds = Vec::with_capacity(count * sums);
        for part in values.chunks((MOST_LEAVES / trees).max(1) * columns) {
            let slots = predictor.leaf_slots(&Rows::new(part, columns)?)?;
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
