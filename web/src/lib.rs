//! Fangorn in a browser: what a page asks of the library, as WebAssembly.
//!
//! The page runs a [`Session`] in a worker. Answers are JSON, or arrays of numbers. An error is a message of one line,
//! of the library or of this crate. A panic ends the worker: its message goes to the function `fangornPanicked` of the
//! worker, and the page starts another worker.
//!
//! | file | subject |
//! |---|---|
//! | `model` | a model, and what the page shows about it |
//! | `tree` | a tree as the page draws it, and a row's path |
//! | `rows` | rows, read from a dropped file or made for the model |
//! | `predictions` | what a model predicts for rows, and why |
//! | `stages` | a schedule and what the compiler makes of it |
//! | `bench` | batches to time |
//! | `limits` | the largest files, rows and results that a page takes |

mod bench;
mod error;
mod json;
mod limits;
mod model;
mod predictions;
mod rows;
mod stages;
mod tree;

use fangorn::{file::Contents, sum::Contract};
use wasm_bindgen::prelude::*;

use bench::Bench;
use error::{Error, Result};
use model::Model;
use predictions::Reached;
use rows::RowSet;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = globalThis, js_name = fangornPanicked)]
    fn panicked(message: &str);
}

/// Makes panics call `fangornPanicked`. Runs once, when the module is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| panicked(&panic.to_string().replace('\n', " "))));
}

/// The model, the rows and the benchmark that a page works with.
#[wasm_bindgen]
#[derive(Debug, Default)]
pub struct Session {
    model: Option<Model>,
    rows: Option<RowSet>,
    bench: Option<Bench>,
}

/// The number of rows that [`Session::make_rows`] asks for.
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

    /// Returns the size of the largest model file that the page reads, in bytes.
    pub fn most_model_bytes() -> usize {
        limits::MODEL_BYTES
    }

    /// Returns the size of the largest file of rows that the page reads, in bytes.
    pub fn most_rows_bytes() -> usize {
        limits::ROWS_BYTES
    }

    /// Reads a model's file, and forgets the previous model with its rows and benchmark. Returns what the page shows
    /// about the new model, as JSON.
    ///
    /// # Errors
    /// The file is too large, or is no model that Fangorn reads as a forest.
    pub fn open_model(&mut self, name: &str, bytes: &[u8]) -> Result<String, JsError> {
        // The previous model is dropped first, so that memory never holds two large models.
        *self = Self::default();
        let model = Model::read(name, bytes)?;
        let summary = json::text_of(&model.summary())?;
        self.model = Some(model);
        Ok(summary)
    }

    /// Reads rows for the model. Returns their name and number, and notes about how the file was read, as JSON.
    ///
    /// # Errors
    /// There is no model, the file is too large, is no matrix of numbers, or has other columns than the model.
    pub fn open_rows(&mut self, name: &str, bytes: &[u8], by_position: bool) -> Result<String, JsError> {
        let forest = &self.model()?.forest;
        let rows = RowSet::read(name, bytes, forest, by_position)?;
        self.take_rows(rows)
    }

    /// Makes rows with values at the model's thresholds and beside them. Returns the same as [`Session::open_rows`].
    ///
    /// # Errors
    /// There is no model.
    pub fn make_rows(&mut self) -> Result<String, JsError> {
        let rows = RowSet::made(&self.model()?.forest, MADE_ROWS);
        self.take_rows(rows)
    }

    /// Returns the histogram of a column's thresholds, as JSON.
    ///
    /// # Errors
    /// There is no model, or it has no such column.
    pub fn thresholds(&self, column: usize) -> Result<String, JsError> {
        Ok(json::text_of(&self.model()?.thresholds(column)?)?)
    }

    /// Returns the nodes of a tree down to a depth, and further down along the path of a row, as JSON.
    ///
    /// # Errors
    /// There is no model, no such tree or no such row.
    pub fn tree(&self, tree: usize, depth: u32, row: Option<usize>) -> Result<String, JsError> {
        let forest = &self.model()?.forest;
        let columns = forest.features.len();
        let row = match (row, &self.rows) {
            (Some(row), Some(rows)) if row < rows.rows => Some(&rows.values[row * columns..][..columns]),
            (Some(row), _) => return Err(Error::request(format!("row {row}: there is no such row")).into()),
            (None, _) => None,
        };
        Ok(json::text_of(&tree::drawn(forest, tree, depth, row)?)?)
    }

    /// Returns the predictions of `count` rows from `first` on, as JSON. `sum` names the contract that sums keep:
    /// `any`, `tree` or `exact`.
    ///
    /// # Errors
    /// There is no model, there are no such rows, the results are too many, or the forest's sums can't keep the
    /// contract.
    pub fn predict(&mut self, first: usize, count: usize, sum: &str) -> Result<String, JsError> {
        let (model, rows) = self.both()?;
        let range = rows.range(first, count);
        Ok(json::text_of(&predictions::predict(model, rows, range, contract(sum)?, None)?)?)
    }

    /// Returns the predictions of rows whose margins and leaf slots a GPU has found, as JSON, like
    /// [`predict`](Self::predict).
    ///
    /// # Errors
    /// Those of `predict`, or the margins or leaf slots are of other rows.
    pub fn predict_from(
        &mut self,
        first: usize,
        count: usize,
        sum: &str,
        margins: Vec<f32>,
        slots: Vec<u32>,
    ) -> Result<String, JsError> {
        let (model, rows) = self.both()?;
        let (range, found) = (rows.range(first, count), Some(Reached { margins, slots }));
        Ok(json::text_of(&predictions::predict(model, rows, range, contract(sum)?, found)?)?)
    }

    /// Returns `count` rows from `first` on as a GPU takes them, `rows x columns`.
    ///
    /// # Errors
    /// There is no model, there are no rows, or the model compares in `f64` and `f32` does not hold a value.
    pub fn single_rows(&mut self, first: usize, count: usize) -> Result<Vec<f32>, JsError> {
        let (model, rows) = self.both()?;
        Ok(predictions::single_rows(model, rows, &rows.range(first, count))?)
    }

    /// Returns the numbers of rows, columns and outputs, if the page takes the results of all rows.
    ///
    /// # Errors
    /// There is no model, there are no rows, the results are too many, or the forest's sums can't keep the contract.
    pub fn all_rows(&mut self, sum: &str) -> Result<Vec<usize>, JsError> {
        let (model, rows) = self.both()?;
        Ok(predictions::all_rows(model, rows, contract(sum)?)?.to_vec())
    }

    /// Returns the values of rows with these margins, `rows x width`.
    ///
    /// # Errors
    /// There is no model, the margins are no whole number of rows, or the results are too many.
    pub fn values_of_margins(&mut self, margins: &[f32], sum: &str) -> Result<Vec<f32>, JsError> {
        let (model, _) = self.both()?;
        Ok(predictions::values_of_margins(model, margins, contract(sum)?)?)
    }

    /// Returns the margins of all rows, `rows x outputs`.
    ///
    /// # Errors
    /// There is no model, there are no rows, the results are too many, or the forest's sums can't keep the contract.
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

    /// Returns the contributions of the features to one margin of a row, the largest first, as JSON.
    ///
    /// # Errors
    /// There is no model, no such row or output, or the margins can't be explained.
    pub fn explain(&mut self, row: usize, output: usize) -> Result<String, JsError> {
        let (model, rows) = self.both()?;
        Ok(json::text_of(&predictions::explain(model, rows, row, output)?)?)
    }

    /// Compiles the model with a schedule, given as a preset's name or as text. Returns the text of each stage, as
    /// JSON.
    ///
    /// # Errors
    /// There is no model, the text is no schedule, or the schedule can't be carried out.
    pub fn stages(&self, schedule: &str) -> Result<String, JsError> {
        Ok(json::text_of(&stages::stages(&self.model()?.forest, schedule)?)?)
    }

    /// Begins a benchmark on `count` rows, for which the session's rows are repeated. Returns the number of rows, which
    /// is less than `count` if there are very many columns or outputs.
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

    /// Compiles the model with a schedule for the benchmark. Returns its engines and warnings, as JSON.
    ///
    /// # Errors
    /// The benchmark has not begun, or the schedule can't be carried out.
    pub fn bench_prepare(&mut self, schedule: &str) -> Result<String, JsError> {
        let (Some(model), Some(bench)) = (&self.model, &mut self.bench) else {
            return Err(no_bench().into());
        };
        Ok(json::text_of(&bench.prepare(&model.forest, schedule)?)?)
    }

    /// Returns the rows of the benchmark, `rows x columns`.
    ///
    /// # Errors
    /// The benchmark has not begun.
    pub fn bench_rows(&self) -> Result<Vec<f32>, JsError> {
        Ok(self.bench()?.1.values().to_vec())
    }

    /// Returns the number of rows of the benchmark whose leaves are compared.
    ///
    /// # Errors
    /// The benchmark has not begun.
    pub fn bench_compared(&self) -> Result<usize, JsError> {
        let (model, bench) = self.bench()?;
        Ok(bench.compared(&model.forest))
    }

    /// Returns the leaf slots that the first rows of the benchmark reach, `rows x trees`: what a GPU is compared with.
    ///
    /// # Errors
    /// The benchmark has not begun.
    pub fn bench_slots(&self) -> Result<Vec<u32>, JsError> {
        let (model, bench) = self.bench()?;
        Ok(bench.slots(&model.forest)?)
    }

    /// Returns the margins of the benchmark's rows under a contract, `rows x outputs`: what a GPU is compared with.
    ///
    /// # Errors
    /// The benchmark has not begun, or the model's sums can't keep the contract.
    pub fn bench_margins(&self, sum: &str) -> Result<Vec<f32>, JsError> {
        let (model, bench) = self.bench()?;
        Ok(bench.margins_under(&model.forest, contract(sum)?)?)
    }

    /// Returns the model as a `.fangorn` file, which the module for the GPU reads.
    ///
    /// # Errors
    /// There is no model.
    pub fn model_file(&self) -> Result<Vec<u8>, JsError> {
        Ok(Contents::new(self.model()?.forest.clone()).to_bytes())
    }

    /// Predicts the first `count` rows of the benchmark, or all if there are fewer. Returns the number of rows that
    /// were predicted.
    ///
    /// # Errors
    /// No schedule is prepared.
    pub fn bench_run(&mut self, count: usize) -> Result<usize, JsError> {
        Ok(self.bench.as_mut().ok_or_else(no_bench)?.run(count)?)
    }

    /// Panics, so that a test sees what the page does after a panic.
    pub fn panic(&self) {
        panic!("a test asked for a panic");
    }
}

impl Session {
    fn model(&self) -> Result<&Model> {
        self.model.as_ref().ok_or_else(no_model)
    }

    fn bench(&self) -> Result<(&Model, &Bench)> {
        self.model.as_ref().zip(self.bench.as_ref()).ok_or_else(no_bench)
    }

    fn both(&mut self) -> Result<(&mut Model, &RowSet)> {
        match (&mut self.model, &self.rows) {
            (Some(model), Some(rows)) => Ok((model, rows)),
            (None, _) => Err(no_model()),
            (_, None) => Err(Error::request("there are no rows; drop a .csv or .npy file, or make rows")),
        }
    }

    /// Keeps rows, and returns what the page shows about them.
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
    Error::request("there is no model; drop a model's file first")
}

fn no_bench() -> Error {
    Error::request("no benchmark has begun")
}

fn contract(name: &str) -> Result<Contract> {
    Contract::parse(name)
        .ok_or_else(|| Error::request(format!("sum: `{name}` is unknown; give any, tree or exact")))
}
