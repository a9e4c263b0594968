//! `fangorn bench` for a graph of classical operators: each call evaluates the next batch of the rows.

use std::{path::Path, time::Instant};

use clap::ValueEnum;
use fangorn::graph::{Dtype, Elements, Graph, GraphPredictor, Passes, Tensor};

use crate::{
    error::{Error, Result},
    library_error,
    predict_graph::{self, Wanted},
    rows::Matrix,
};

/// The output of a graph that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GraphOutput {
    /// The values: those of a regressor or a transformer, and a classifier's probabilities or scores
    Value,
    /// The class of each row
    Class,
}

/// The least number of rows that calls go through, as in [`fangorn::auto::RowPool`].
const LEAST_ROWS: usize = fangorn::auto::LEAST_ROWS;

/// A graph that is ready to be timed.
pub struct GraphBench {
    predictor: GraphPredictor,
    /// Milliseconds that compiling took.
    pub compile_ms: f64,
}

impl GraphBench {
    /// Compiles one output of a graph.
    ///
    /// # Errors
    /// The graph has no such output, or does not compile.
    pub fn new(
        path: &Path,
        graph: Graph,
        (output, passes, threads): (GraphOutput, &Passes, usize),
    ) -> Result<Self> {
        let start = Instant::now();
        let wanted = if output == GraphOutput::Class { Wanted::Class } else { Wanted::Value };
        let graph = predict_graph::with_one_output(path, graph, wanted)?;
        let predictor = GraphPredictor::with_passes(&graph, threads, passes).map_err(library_error)?;
        Ok(Self { predictor, compile_ms: start.elapsed().as_secs_f64() * 1e3 })
    }

    /// Returns the calls of one batch size: each evaluates the next batch. Rows are repeated if there are fewer than
    /// calls should go through.
    ///
    /// # Errors
    /// An input takes texts.
    pub fn rerun<'g>(
        &'g self,
        path: &Path,
        rows: &Matrix<f32>,
        batch: usize,
    ) -> Result<impl FnMut() -> Result<()> + 'g> {
        let batches = LEAST_ROWS.max(rows.rows).div_ceil(batch);
        let inputs = (0..batches).map(|at| self.inputs(path, rows, at * batch, batch));
        let inputs: Vec<Vec<Tensor>> = inputs.collect::<Result<_>>()?;
        let mut next = 0;
        Ok(move || {
            let found = self.predictor.predict(&inputs[next]).map_err(library_error)?;
            std::hint::black_box(found);
            next = (next + 1) % inputs.len();
            Ok(())
        })
    }

    /// Returns the inputs of a batch that begins with this row.
    fn inputs(&self, path: &Path, rows: &Matrix<f32>, first: usize, batch: usize) -> Result<Vec<Tensor>> {
        let graph = self.predictor.graph();
        let mut begin = 0;
        let input = |input: &fangorn::graph::GraphInput| {
            let width = input.shape.get(1).copied().flatten().unwrap_or(1);
            let values =
                (first..first + batch).flat_map(|row| &rows.row(row % rows.rows)[begin..begin + width]);
            let elements = match input.dtype {
                Dtype::F32 => Some(Elements::F32(values.copied().collect())),
                other => Elements::of_doubles(other, values.map(|value| f64::from(*value)).collect()),
            };
            begin += width;
            let shape = if input.shape.len() == 1 { vec![batch] } else { vec![batch, width] };
            let tensor = elements.and_then(|elements| Tensor::new(shape, elements));
            tensor.ok_or_else(|| {
                Error::file(path, format!("input `{}` takes texts, which bench can't repeat", input.name))
            })
        };
        graph.inputs.iter().map(input).collect()
    }
}
