//! Fangorn in a browser: what a page asks of the library, as WebAssembly.
//!
//! The page runs a [`Session`] in a worker. Answers are JSON, or arrays of numbers. An error is one line, the library's
//! own. A panic ends the worker: its message goes to the function `fangornPanicked` of the worker, and the page starts
//! another worker.
//!
//! | file | subject |
//! |---|---|
//! | `model` | a model, and what the page says about it |
//! | `tree` | a tree as the page draws it, and a row's path |
//! | `rows` | rows of a dropped file |
//! | `predictions` | what a model predicts for rows, and why |
//! | `stages` | a schedule and what the compiler makes of it |
//! | `bench` | batches to time |
//! | `limits` | how much a page takes |

mod bench;
mod error;
mod json;
mod limits;
mod model;
mod predictions;
mod rows;
mod stages;
mod tree;

use fangorn::sum::Contract;
use wasm_bindgen::prelude::*;

use bench::Bench;
use error::{Error, Result};
use model::Model;
use rows::RowSet;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = globalThis, js_name = fangornPanicked)]
    fn panicked(message: &str);
}

/// Runs once, when the WebAssembly is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| panicked(&panic.to_string().replace('\n', " "))));
}

/// A model and rows, as the page has them.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Session {
    model: Option<Model>,
    rows: Option<RowSet>,
    bench: Option<Bench>,
}

/// The rows that are made where there are none.
const MADE_ROWS: usize = 256;

#[wasm_bindgen]
impl Session {
    /// Returns a session without a model.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns Fangorn's version.
    pub fn version() -> String {
        env!("CARGO_PKG_VERSION").into()
    }

    /// Returns the most bytes of the file of a model.
    pub fn most_model_bytes() -> usize {
        limits::MODEL_BYTES
    }

    /// Returns the most bytes of the file of rows.
    pub fn most_rows_bytes() -> usize {
        limits::ROWS_BYTES
    }

    /// Reads a model's file and forgets the last model and its rows. Returns what the page says about it.
    ///
    /// # Errors
    /// The file is too large, or is no model that Fangorn reads as a forest.
    pub fn open_model(&mut self, name: &str, bytes: &[u8]) -> Result<String, JsError> {
        // The last model goes first, so that two large ones are not there at a time.
        *self = Self::default();
        let model = Model::read(name, bytes)?;
        let summary = json::text_of(&model.summary())?;
        self.model = Some(model);
        Ok(summary)
    }

    /// Reads rows for the model. Returns their number and notes about how the file was read.
    ///
    /// # Errors
    /// There is no model, the file is too large, is no matrix of numbers, or has other columns than the model.
    pub fn open_rows(&mut self, name: &str, bytes: &[u8], by_position: bool) -> Result<String, JsError> {
        let forest = &self.model()?.forest;
        let rows = RowSet::read(name, bytes, forest, by_position)?;
        self.take_rows(rows)
    }

    /// Makes rows for the model.
    ///
    /// # Errors
    /// There is no model.
    pub fn make_rows(&mut self) -> Result<String, JsError> {
        let rows = RowSet::made(&self.model()?.forest, MADE_ROWS);
        self.take_rows(rows)
    }

    /// Returns the histogram of a column's thresholds.
    ///
    /// # Errors
    /// There is no model, or it has no such column.
    pub fn thresholds(&self, column: usize) -> Result<String, JsError> {
        Ok(json::text_of(&self.model()?.thresholds(column)?)?)
    }

    /// Returns the nodes of a tree down to a depth, and further down along the path of a row.
    ///
    /// # Errors
    /// There is no model, no such tree or no such row.
    pub fn tree(&self, tree: usize, depth: u32, row: Option<usize>) -> Result<String, JsError> {
        let forest = &self.model()?.forest;
        let columns = forest.features.len();
        let row = match (row, &self.rows) {
            (Some(row), Some(rows)) if row < rows.rows => Some(&rows.values[row * columns..][..columns]),
            (Some(row), _) => return Err(Error::request(format!("row {row}: there is none")).into()),
            (None, _) => None,
        };
        Ok(json::text_of(&tree::drawn(forest, tree, depth, row)?)?)
    }

    /// Returns the predictions of `count` rows from `first` on, by a contract of sums: `any`, `tree` or `exact`.
    ///
    /// # Errors
    /// There is no model, there are no such rows, or the forest has no sum by the contract.
    pub fn predict(&mut self, first: usize, count: usize, sum: &str) -> Result<String, JsError> {
        let (model, rows) = self.both()?;
        let range = first..first.saturating_add(count).min(rows.rows);
        Ok(json::text_of(&predictions::predict(model, rows, range, contract(sum)?)?)?)
    }

    /// Returns the margins of all rows, `rows x outputs`.
    ///
    /// # Errors
    /// There is no model, there are no rows or too many results, or the forest has no sum by the contract.
    pub fn margins(&mut self, sum: &str) -> Result<Vec<f32>, JsError> {
        let (model, rows) = self.both()?;
        Ok(predictions::margins(model, rows, contract(sum)?)?)
    }

    /// Returns the values of all rows, `rows x width`.
    ///
    /// # Errors
    /// Those of [`margins`](Self::margins).
    pub fn values(&mut self, sum: &str) -> Result<Vec<f32>, JsError> {
        let (model, rows) = self.both()?;
        Ok(predictions::values(model, rows, contract(sum)?)?)
    }

    /// Explains one output of a row's margins.
    ///
    /// # Errors
    /// There is no model, no such row or output, or the margins can't be explained.
    pub fn explain(&mut self, row: usize, output: usize) -> Result<String, JsError> {
        let (model, rows) = self.both()?;
        Ok(json::text_of(&predictions::explain(model, rows, row, output)?)?)
    }

    /// Returns the compiler's stages of a preset's name or a schedule's text.
    ///
    /// # Errors
    /// There is no model, the text is no schedule, or the schedule can't be carried out.
    pub fn stages(&self, schedule: &str) -> Result<String, JsError> {
        Ok(json::text_of(&stages::stages(&self.model()?.forest, schedule)?)?)
    }

    /// Begins a benchmark on `count` rows: the session's, again and again. Returns their number, which is smaller where rows
    /// are long.
    ///
    /// # Errors
    /// There is no model, or there are no rows.
    pub fn bench_begin(&mut self, count: usize) -> Result<usize, JsError> {
        let (model, rows) = self.both()?;
        let bench = Bench::new(&model.forest, rows, count);
        let count = bench.count();
        self.bench = Some(bench);
        Ok(count)
    }

    /// Compiles the model by a schedule for the benchmark.
    ///
    /// # Errors
    /// The benchmark has not begun, or the schedule can't be carried out.
    pub fn bench_prepare(&mut self, schedule: &str) -> Result<String, JsError> {
        let (Some(model), Some(bench)) = (&self.model, &mut self.bench) else {
            return Err(no_bench().into());
        };
        Ok(json::text_of(&bench.prepare(&model.forest, schedule)?)?)
    }

    /// Predicts a batch of the benchmark's first rows. Returns their number.
    ///
    /// # Errors
    /// No schedule is prepared.
    pub fn bench_run(&mut self, count: usize) -> Result<usize, JsError> {
        Ok(self.bench.as_mut().ok_or_else(no_bench)?.run(count)?)
    }

    /// Panics, so that a test sees what the page does then.
    pub fn panic(&self) {
        panic!("a test asked for a panic");
    }
}

impl Session {
    fn model(&self) -> Result<&Model> {
        self.model.as_ref().ok_or_else(no_model)
    }

    fn both(&mut self) -> Result<(&mut Model, &RowSet)> {
        match (&mut self.model, &self.rows) {
            (Some(model), Some(rows)) => Ok((model, rows)),
            (None, _) => Err(no_model()),
            (_, None) => Err(Error::request("there are no rows; drop a .csv or .npy file, or make rows")),
        }
    }

    /// Keeps rows, and returns what the page says about them.
    fn take_rows(&mut self, rows: RowSet) -> Result<String, JsError> {
        #[derive(serde::Serialize)]
        struct Taken<'r> {
            name: &'r str,
            rows: usize,
            notes: &'r [String],
        }
        let taken = json::text_of(&Taken { name: &rows.name, rows: rows.rows, notes: &rows.notes })?;
        (self.rows, self.bench) = (Some(rows), None);
        Ok(taken)
    }
}

fn no_model() -> Error {
    Error::request("there is no model; drop the file of one")
}

fn no_bench() -> Error {
    Error::request("no benchmark has begun")
}

fn contract(name: &str) -> Result<Contract> {
    Contract::parse(name).ok_or_else(|| Error::request(format!("{name}: any, tree or exact is expected")))
}
