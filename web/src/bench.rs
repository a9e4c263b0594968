//! A benchmark of schedules: predictors that run batches, which the page's worker times.

use fangorn::{Forest, Predictor, cpu::Rows};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    predictions::warnings,
    rows::RowSet,
    stages::schedule_of,
};

/// The most values of the rows that are run.
const MOST_VALUES: usize = 1 << 21;
/// The most margins that a batch makes.
const MOST_MARGINS: usize = 1 << 21;
/// Rows whose leaves are compared between schedules.
const COMPARED: usize = 64;
/// The most leaves that are compared.
const MOST_COMPARED: usize = 1 << 20;

/// Rows, and the predictor that runs them.
#[derive(Debug)]
pub struct Bench {
    columns: usize,
    outputs: usize,
    /// The rows, in the type in which most programs hold them.
    rows: Vec<f32>,
    count: usize,
    margins: Vec<f32>,
    predictor: Option<Predictor>,
    /// The leaves that the first schedule's walks of some rows end in.
    leaves: Option<Vec<u32>>,
}

/// What a schedule became.
#[derive(Debug, Serialize)]
pub struct Prepared {
    /// Whether some rows reach the same leaves as on the first schedule.
    same_leaves: bool,
    /// The engines that run the batch.
    engines: Vec<&'static str>,
    warnings: Vec<String>,
}

impl Bench {
    /// Takes rows, again and again until there are `count` of them.
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

    /// Compiles the forest by a schedule.
    ///
    /// # Errors
    /// The schedule can't be carried out.
    pub fn prepare(&mut self, forest: &Forest, schedule: &str) -> Result<Prepared> {
        self.predictor = None;
        let schedule = schedule_of(forest, schedule)?;
        let predictor = Predictor::builder(forest).schedule(schedule).threads(1).build()?;
        let compared = self.count.min(COMPARED).min(MOST_COMPARED / forest.trees.len().max(1)).max(1);
        let leaves = predictor.leaf_slots(&self.rows(compared)?)?;
        let same_leaves = *self.leaves.get_or_insert_with(|| leaves.clone()) == leaves;
        let engines = predictor.engines(compared)?.into_iter().map(|(engine, _)| engine.name()).collect();
        let prepared = Prepared { same_leaves, engines, warnings: warnings(&predictor) };
        self.predictor = Some(predictor);
        Ok(prepared)
    }

    fn rows(&self, count: usize) -> Result<Rows<'_, f32>> {
        let values = &self.rows[..count * self.columns];
        Ok(Rows::strided(values, [count, self.columns], [self.columns, 1])?)
    }

    /// Predicts a batch of the first rows, at most all of them. Returns their number.
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
