//! Predicts with a graph on this machine's CPU.

use std::sync::Arc;

use super::{
    interpret::{Evaluator, GraphError},
    model::Graph,
    passes::{PassChange, Passes},
    tensor::{Elements, Tensor},
};
use crate::{
    cpu::{Row, Rows, product},
    error::Result,
    forest::{Forest, reference},
    predictor::Predictor,
};

/// Rows that a graph is evaluated on at a time.
const ROWS_AT_A_TIME: usize = 4096;

/// A graph that is rewritten by [`Passes`], and whose forests are compiled for this machine's CPU.
///
/// Each row's outputs depend on that row alone, so a batch is evaluated in parts.
///
/// ```
/// use fangorn::graph::{Dtype, Elements, Graph, GraphPredictor, Operator, Tensor, Unary};
///
/// let mut graph = Graph::default();
/// let x = graph.input("x", Dtype::F32, [None, Some(1)]);
/// let values = graph.node("squash", Operator::Unary(Unary::Sigmoid), [x]);
/// graph.output("p", values);
/// let predictor = GraphPredictor::new(graph, 1)?;
/// let rows = Tensor::new([2, 1], Elements::F32(vec![0.0, 100.0])).expect("two rows");
/// assert_eq!(predictor.predict(&[rows])?[0].elements(), &Elements::F32(vec![0.5, 1.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GraphPredictor {
    graph: Graph,
    changes: Vec<PassChange>,
    forests: Vec<(Arc<Forest>, Predictor)>,
}

impl GraphPredictor {
    /// Rewrites a graph by the passes that are on by default, and compiles it for this many threads.
    ///
    /// # Errors
    /// The graph does not verify, or a forest can't be compiled.
    pub fn new(graph: Graph, threads: usize) -> Result<Self> {
        Self::with_passes(&graph, threads, &Passes::default())
    }

    /// Rewrites a graph by these passes, and compiles it for this many threads.
    ///
    /// # Errors
    /// The graph does not verify, or a forest can't be compiled.
    pub fn with_passes(graph: &Graph, threads: usize, passes: &Passes) -> Result<Self> {
        graph.verify()?;
        let (graph, changes) = passes.apply(graph)?;
        let compiled = |forest: Arc<Forest>| {
            let predictor = Predictor::builder(&forest).threads(threads).build()?;
            Ok((forest, predictor))
        };
        let forests = graph.forests().into_iter().map(compiled).collect::<Result<_>>()?;
        Ok(Self { graph, changes, forests })
    }

    /// Returns the rewritten graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns what each pass did.
    pub fn changes(&self) -> &[PassChange] {
        &self.changes
    }

    /// Evaluates the graph. It takes a tensor for each input, rows in the first dimension, and returns one for
    /// each output.
    ///
    /// # Errors
    /// An input has another type or shape, or an operator does not take its operands.
    pub fn predict(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let rows = inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(0);
        let all_rows =
            |tensors: &[Tensor], rows: usize| tensors.iter().all(|t| t.shape().first() == Some(&rows));
        if rows <= ROWS_AT_A_TIME || !all_rows(inputs, rows) {
            return Ok(self.graph.run_with(inputs, self)?);
        }
        let mut parts: Vec<Vec<Tensor>> = vec![Vec::new(); self.graph.outputs.len()];
        for first in (0..rows).step_by(ROWS_AT_A_TIME) {
            let count = ROWS_AT_A_TIME.min(rows - first);
            let part: Vec<Tensor> = inputs.iter().map(|input| rows_of(input, first, count)).collect();
            let found = self.graph.run_with(&part, self)?;
            if !all_rows(&found, count) {
                // An output that is no row for each row can't be put together.
                return Ok(self.graph.run_with(inputs, self)?);
            }
            parts.iter_mut().zip(found).for_each(|(parts, tensor)| parts.push(tensor));
        }
        let join = |parts: Vec<Tensor>| super::arrange::concat(0, &parts.iter().collect::<Vec<_>>());
        let joined =
            self.graph.outputs.iter().zip(parts).map(|(output, parts)| {
                join(parts).map_err(|cause| GraphError::at(&output.name, cause).into())
            });
        joined.collect()
    }
}

/// Returns some rows of a tensor.
fn rows_of(tensor: &Tensor, first: usize, count: usize) -> Tensor {
    let width: usize = tensor.shape()[1..].iter().product();
    let elements = tensor.elements().at(first * width..(first + count) * width);
    let shape = [&[count], &tensor.shape()[1..]].concat();
    Tensor::new(shape, elements).expect("rows of the tensor")
}

impl Evaluator for GraphPredictor {
    fn product(&self, a: &[f64], b: &[f64], out: &mut [f64], lengths: [usize; 3]) {
        product(a, b, out, lengths);
    }

    fn forest(
        &self,
        forest: &Forest,
        rows: &Tensor,
        classes: bool,
    ) -> std::result::Result<(Vec<f32>, Vec<u32>), String> {
        let known = self.forests.iter().find(|(known, _)| std::ptr::eq(&raw const **known, forest));
        let (_, predictor) = known.ok_or("it was not compiled")?;
        let found = match rows.elements() {
            Elements::F64(values) => all(forest, predictor, values, classes),
            Elements::F32(values) => all(forest, predictor, values, classes),
            _ => return Err("a forest takes rows of floats".into()),
        };
        found.map_err(|e| e.to_string())
    }

    fn leaf_slots(&self, forest: &Forest, rows: &Tensor) -> std::result::Result<Vec<u32>, String> {
        let known = self.forests.iter().find(|(known, _)| std::ptr::eq(&raw const **known, forest));
        let (_, predictor) = known.ok_or("it was not compiled")?;
        let width = forest.features.len();
        let found = match rows.elements() {
            Elements::F64(values) => Rows::new(values, width).and_then(|rows| predictor.leaf_slots(&rows)),
            Elements::F32(values) => Rows::new(values, width).and_then(|rows| predictor.leaf_slots(&rows)),
            _ => return Err("a forest takes rows of floats".into()),
        };
        found.map_err(|e| e.to_string())
    }
}

/// Returns the values of rows, and their classes if they are wanted.
fn all<T: Row>(
    forest: &Forest,
    predictor: &Predictor,
    values: &[T],
    classes: bool,
) -> Result<(Vec<f32>, Vec<u32>)> {
    let rows = Rows::new(values, forest.features.len())?;
    let found = predictor.values(&rows)?;
    if !classes {
        return Ok((found, Vec::new()));
    }
    // Sums as the producer has them, so that no order of adding decides between two classes.
    let slots = predictor.leaf_slots(&rows)?;
    let mut numbers = Vec::with_capacity(rows.len());
    for row in 0..rows.len() {
        let trees = forest.trees.len();
        let margins = reference::producer_margins(forest, &slots[row * trees..][..trees], None);
        numbers.extend(reference::classes_of_sums(forest, &margins));
    }
    Ok((found, numbers))
}
