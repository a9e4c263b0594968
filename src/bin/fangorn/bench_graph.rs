//! `fangorn bench` for a graph of classical operators: each call evaluates the next batch of the rows.

use std::{path::Path, time::Instant};

use fangorn::{
    auto::LEAST_ROWS,
    graph::{Graph, GraphPredictor, Passes, Tensor},
};

use crate::{
    error::{Error, Result},
    library_error,
    predict::Output,
    predict_graph,
    schedule::compiled_graph,
};

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
    pub fn new(path: &Path, graph: Graph, output: Output, passes: &Passes, threads: usize) -> Result<Self> {
        let start = Instant::now();
        let graph = predict_graph::with_one_output(path, &graph, output)?;
        let predictor = compiled_graph(&graph, threads, passes).map_err(library_error)?;
        Ok(Self { predictor, compile_ms: start.elapsed().as_secs_f64() * 1e3 })
    }

    /// Returns the calls of one batch size: each evaluates the next batch of the inputs. If the inputs have
    /// fewer rows than [`LEAST_ROWS`], the rows repeat.
    ///
    /// # Errors
    /// There is no row.
    pub fn rerun<'g>(
        &'g self,
        path: &Path,
        inputs: &[Tensor],
        batch: usize,
    ) -> Result<impl FnMut() -> Result<()> + 'g> {
        let rows = inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(0);
        if rows == 0 {
            return Err(Error::file(path, "there is no row in it to repeat; give at least one"));
        }
        let batches = LEAST_ROWS.max(rows).div_ceil(batch);
        let of_batch = |at: usize| {
            let indices: Vec<usize> = (at * batch..(at + 1) * batch).map(|row| row % rows).collect();
            let tensors = inputs.iter().map(|input| input.rows(&indices));
            tensors
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| Error::Defect("rows of different lengths".into()))
        };
        let batches: Vec<Vec<Tensor>> = (0..batches).map(of_batch).collect::<Result<_>>()?;
        let (mut next, mut found) = (0, Vec::new());
        Ok(move || {
            self.predictor.predict_into(&batches[next], &mut found).map_err(library_error)?;
            std::hint::black_box(&found);
            next = (next + 1) % batches.len();
            Ok(())
        })
    }
}
