//! A benchmark of schedules: predictors that run batches, which the page's worker times.

use fangorn::{Forest, Predictor, cpu::Rows, sum::Contract};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    predictions::warnings,
    rows::RowSet,
    stages::schedule_of,
};

/// The maximum number of values of the benchmark's rows.
const MOST_VALUES: usize = 1 << 21;
/// The maximum number of margins of a batch.
const MOST_MARGINS: usize = 1 << 21;
/// The maximum number of rows whose leaves are compared between schedules.
const COMPARED: usize = 64;
/// The maximum number of leaves that are compared.
const MOST_COMPARED: usize = 1 << 20;

/// Rows, and the predictor that runs them.
#[derive(Debug)]
pub struct Bench {
    columns: usize,
    outputs: usize,
    /// The rows in `f32`, the type in which most programs hold them.
    rows: Vec<f32>,
    count: usize,
    margins: Vec<f32>,
    predictor: Option<Predictor>,
    /// The leaf slots that some rows reach with the first schedule.
    leaves: Option<Vec<u32>>,
}

/// What a compiled schedule runs.
#[derive(Debug, Serialize)]
pub struct PreparedRun {
    /// Whether some rows reach the same leaves as with the first schedule.
    same_leaves: bool,
    /// The engines that run the batch.
    engines: Vec<&'static str>,
    warnings: Vec<String>,
}

impl Bench {
    /// Takes `count` rows, or fewer if that would be too many values. The given rows are repeated.
    pub fn new(forest: &Forest, rows: &RowSet, count: usize) -> Self {
        let (columns, outputs) = (forest.features.len(), forest.outputs as usize);
        let most = (MOST_VALUES / columns.max(1)).min(MOST_MARGINS / outputs.max(1));
        let count = count.min(most).max(1);
        let there = rows.values.len().max(1);
        let values = (0..count * columns).map(|at| rows.values[at % there] as f32).collect();
        let margins = vec![0.0; count * outputs];
        Self { columns, outputs, rows: values, count, margins, predictor: None, leaves: None }
    }

    /// Returns the number of rows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Compiles the forest with a schedule.
    ///
    /// # Errors
    /// The schedule can't be carried out.
    pub fn prepare(&mut self, forest: &Forest, schedule: &str) -> Result<PreparedRun> {
        self.predictor = None;
        let schedule = schedule_of(forest, schedule)?;
        let predictor = Predictor::builder(forest).schedule(schedule).threads(1).build()?;
        let compared = self.compared(forest);
        let leaves = predictor.leaf_slots(&self.rows(compared)?)?;
        let same_leaves = *self.leaves.get_or_insert_with(|| leaves.clone()) == leaves;
        let engines = predictor.engines(compared)?.into_iter().map(|(engine, _)| engine.name()).collect();
        let prepared = PreparedRun { same_leaves, engines, warnings: warnings(&predictor) };
        self.predictor = Some(predictor);
        Ok(prepared)
    }

    /// Returns the rows, `rows x columns`.
    pub fn values(&self) -> &[f32] {
        &self.rows
    }

    /// Returns the leaf slots that the first rows reach on the processor, as many rows as are compared: `rows x trees`.
    ///
    /// # Errors
    /// There is no memory for so many.
    pub fn slots(&self, forest: &Forest) -> Result<Vec<u32>> {
        let predictor = Predictor::builder(forest).threads(1).build()?;
        Ok(predictor.leaf_slots(&self.rows(self.compared(forest))?)?)
    }

    /// Returns the margins of all rows on the processor under a contract, `rows x outputs`.
    ///
    /// # Errors
    /// The forest's sums can't keep the contract.
    pub fn margins_under(&self, forest: &Forest, sum: Contract) -> Result<Vec<f32>> {
        let predictor = Predictor::builder(forest).sum(sum).threads(1).build()?;
        Ok(predictor.margins(&self.rows(self.count)?)?)
    }

    /// Returns the number of rows whose leaves are compared.
    pub fn compared(&self, forest: &Forest) -> usize {
        self.count.min(COMPARED).min(MOST_COMPARED / forest.trees.len().max(1)).max(1)
    }

    fn rows(&self, count: usize) -> Result<Rows<'_, f32>> {
        let values = &self.rows[..count * self.columns];
        Ok(Rows::strided(values, [count, self.columns], [self.columns, 1])?)
    }

    /// Predicts the first `count` rows, or all if there are fewer. Returns the number of rows that were
    /// predicted.
    ///
    /// # Errors
    /// No schedule is prepared.
    pub fn run(&mut self, count: usize) -> Result<usize> {
        let count = count.clamp(1, self.count);
        let mut margins = std::mem::take(&mut self.margins);
        let done = match &self.predictor {
            Some(predictor) => self
                .rows(count)
                .and_then(|rows| Ok(predictor.margins_into(&rows, &mut margins[..count * self.outputs])?)),
            None => Err(Error::request("no schedule is prepared")),
        };
        self.margins = margins;
        done.map(|()| count)
    }
}
