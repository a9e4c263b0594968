//! Predicts with a graph on this machine's CPU.

use std::sync::Arc;

use rayon::prelude::*;
use smallvec::SmallVec;

use super::{
    by_rows::goes_by_rows,
    error::GraphError,
    interpret::{Evaluator, Uses},
    model::{Graph, Operand},
    operator::Operator,
    passes::{PassChange, Passes},
    reduce::Products,
    tensor::{Dtype, Elements, MOST_ELEMENTS, Tensor, count},
    types::GraphTypes,
    view::{ElementsView, TensorView},
};
use crate::{
    check::Warning,
    cost::PIECE_BYTES,
    cpu::{Row, Rows, prefer_large_pages, product},
    error::Result,
    forest::Forest,
    predictor::{ClassDecision, Predictor},
};

/// The least and the greatest number of rows of a piece.
const PIECE_ROWS: [usize; 2] = [64, 4096];

/// A graph that is rewritten by [`Passes`], and whose forests are compiled for this machine's CPU.
///
/// If each row's outputs depend on that row alone, a batch is evaluated in pieces, whose tensors stay in a cache.
/// Several threads evaluate pieces at the same time. Products of matrices of floats with eight columns or more are
/// summed in floats, forests under the contract [`Any`](crate::sum::Contract::Any), and all other sums in doubles.
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
    uses: Uses,
    forests: Vec<CompiledForest>,
    /// Whether each row's outputs depend on that row alone.
    by_rows: bool,
    /// Number of rows of a piece, or `None` if a batch is evaluated as a whole.
    piece_rows: Option<usize>,
    /// Whether the threads of the current rayon pool evaluate pieces.
    several_threads: bool,
}

/// A forest of the graph, ready to predict.
#[derive(Debug)]
struct CompiledForest {
    forest: Arc<Forest>,
    predictor: Predictor,
    decision: ClassDecision,
}

impl GraphPredictor {
    /// Rewrites a graph by the passes that are on by default, and compiles it for this many threads of the rayon pool
    /// that is current when it predicts.
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
        let types = graph.types()?;
        let by_rows = goes_by_rows(&graph, &types);
        let piece_rows = rows_of_piece(&graph, &types).filter(|_| by_rows);
        // Either the forests have the threads, or the pieces.
        let of_forests = if piece_rows.is_none() { threads } else { 1 };
        let compiled = |forest: Arc<Forest>| {
            let predictor = Predictor::builder(&forest).threads(of_forests).build()?;
            let decision = ClassDecision::new(&forest);
            Ok(CompiledForest { forest, predictor, decision })
        };
        let forests = graph.forests().into_iter().map(compiled).collect::<Result<_>>()?;
        let uses = Uses::of(&graph);
        Ok(Self { graph, changes, uses, forests, by_rows, piece_rows, several_threads: threads > 1 })
    }

    /// Returns the rewritten graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns whether a caller may predict a batch piece by piece, because a row's outputs do not depend on other
    /// rows. Returns `false` if this is not known.
    pub fn goes_by_rows(&self) -> bool {
        self.by_rows
    }

    /// Returns what each pass did.
    pub fn changes(&self) -> &[PassChange] {
        &self.changes
    }

    /// Returns the warnings of the forests: for example, that a self-check failed and plain walks run instead.
    pub fn warnings(&self) -> impl Iterator<Item = &Warning> {
        self.forests.iter().flat_map(|compiled| compiled.predictor.warnings())
    }

    /// Evaluates the graph. It takes a tensor for each input, rows in the first dimension, and returns one for
    /// each output.
    ///
    /// # Errors
    /// An input has another type or shape, or an operator does not take its operands.
    pub fn predict(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut outputs = Vec::new();
        self.predict_into(inputs, &mut outputs)?;
        Ok(outputs)
    }

    /// Evaluates the graph like [`predict`](Self::predict), and replaces the contents of `outputs`. Tensors that an
    /// earlier call has left there give their memory to the new ones. After an error, the contents of `outputs` are
    /// unspecified.
    ///
    /// Reused memory saves time, because the system clears new memory first. For a scaler that is much of the whole
    /// time.
    ///
    /// # Errors
    /// Those of [`predict`](Self::predict).
    pub fn predict_into(&self, inputs: &[Tensor], outputs: &mut Vec<Tensor>) -> Result<()> {
        let rows = inputs.first().and_then(|input| input.shape().first()).copied().unwrap_or(0);
        let by_rows = inputs.iter().all(|input| input.shape().first() == Some(&rows));
        match self.piece_rows.filter(|piece_rows| by_rows && *piece_rows < rows) {
            Some(piece_rows) => {
                *outputs = self.in_pieces(inputs, std::mem::take(outputs), [rows, piece_rows])?;
            }
            None => self.run(inputs.iter().map(Tensor::view), outputs)?,
        }
        Ok(())
    }

    fn compiled(&self, forest: &Forest) -> std::result::Result<&CompiledForest, String> {
        let known = self.forests.iter().find(|known| std::ptr::eq(&raw const *known.forest, forest));
        known.ok_or_else(|| "the forest was not compiled".into())
    }

    fn run<'t>(
        &self,
        inputs: impl Iterator<Item = TensorView<'t>>,
        outputs: &mut Vec<Tensor>,
    ) -> std::result::Result<(), GraphError> {
        let inputs: SmallVec<[TensorView<'_>; 4]> = inputs.collect();
        self.graph.run_with(&inputs, self, &self.uses, outputs)
    }

    /// Evaluates a batch of `rows` rows in pieces of `piece_rows` rows. `earlier` holds the outputs of an earlier call,
    /// whose memory is reused.
    fn in_pieces(
        &self,
        inputs: &[Tensor],
        earlier: Vec<Tensor>,
        [rows, piece_rows]: [usize; 2],
    ) -> Result<Vec<Tensor>> {
        let run = |first: usize| {
            let count = piece_rows.min(rows - first);
            let shape = |input: &Tensor| [&[count], &input.shape()[1..]].concat();
            let shapes: Vec<Vec<usize>> = inputs.iter().map(shape).collect();
            let views = inputs.iter().zip(&shapes).map(|(input, shape)| input.rows_view(first, shape));
            let mut outputs = Vec::new();
            self.run(views, &mut outputs).map(|()| outputs)
        };
        let first = run(0)?;
        let earlier = earlier.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        let room = first.iter().zip(&self.graph.outputs).zip(earlier).map(|((piece, output), earlier)| {
            let refused = || {
                let cause = format!("an output of {rows} rows is too large; predict fewer rows at a time");
                GraphError::at(&output.name, cause)
            };
            Output::new(piece, rows, earlier).ok_or_else(refused)
        });
        let mut outputs: Vec<Output> = room.collect::<std::result::Result<_, _>>()?;
        let mut pieces: Vec<Vec<PieceElements<'_>>> =
            (0..rows.div_ceil(piece_rows)).map(|_| Vec::new()).collect();
        for output in &mut outputs {
            output.pieces(piece_rows).zip(&mut pieces).for_each(|(elements, piece)| piece.push(elements));
        }
        let fill = |elements: Vec<PieceElements<'_>>, found: Vec<Tensor>| {
            for ((to, tensor), output) in elements.into_iter().zip(found).zip(&self.graph.outputs) {
                let wrong = || GraphError::at(&output.name, "its rows have different shapes");
                to.fill(tensor).ok_or_else(wrong)?;
            }
            Ok::<(), GraphError>(())
        };
        let mut pieces = pieces.into_iter().enumerate();
        if let Some((_, elements)) = pieces.next() {
            fill(elements, first)?;
        }
        let each = |(at, elements): (usize, Vec<PieceElements<'_>>)| fill(elements, run(at * piece_rows)?);
        match self.several_threads {
            true => pieces.collect::<Vec<_>>().into_par_iter().try_for_each(each)?,
            false => pieces.try_for_each(each)?,
        }
        Ok(outputs.into_iter().map(Output::whole).collect())
    }
}

/// Returns the number of rows of a piece, so that the tensors of a piece stay in a cache. Returns `None` if only
/// forests read the inputs, because forests divide a batch themselves.
fn rows_of_piece(graph: &Graph, types: &GraphTypes) -> Option<usize> {
    let mut readers = graph
        .nodes
        .iter()
        .filter(|node| node.operands.iter().any(|operand| matches!(operand, Operand::Input(_))));
    if readers.all(|node| matches!(node.operator, Operator::Forest(_))) {
        return None;
    }
    let inputs = (0..graph.inputs.len() as u32).map(Operand::Input);
    let nodes = (0u32..).zip(&graph.nodes).flat_map(|(at, node)| {
        (0..node.operator.results() as u32).map(move |result| Operand::Node(at, result))
    });
    // Bytes of one row of a tensor.
    let bytes = |operand: Operand| {
        let found = types.of(operand);
        let mut row = found.shape.as_ref()?.iter().skip(1).map(|length| length.unwrap_or(1));
        row.try_fold(size_of_element(found.dtype), usize::checked_mul)
    };
    let largest = inputs.chain(nodes).filter_map(bytes).max().unwrap_or(1);
    Some((PIECE_BYTES / largest.max(1)).clamp(PIECE_ROWS[0], PIECE_ROWS[1]))
}

fn size_of_element(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Bool => 1,
        Dtype::I32 | Dtype::F32 => 4,
        Dtype::I64 | Dtype::F64 => 8,
        Dtype::Text => size_of::<Arc<str>>(),
    }
}

/// An output of a whole batch, which pieces fill.
struct Output {
    shape: Vec<usize>,
    elements: Elements,
}

/// The elements of an output that one piece fills.
enum PieceElements<'o> {
    Bool(&'o mut [bool]),
    I32(&'o mut [i32]),
    I64(&'o mut [i64]),
    F32(&'o mut [f32]),
    F64(&'o mut [f64]),
    Text(&'o mut [Arc<str>]),
}

/// Returns `count` elements: the memory of an earlier output, with its old elements, or new memory.
fn room<T: Clone + Default>(earlier: Option<Vec<T>>, count: usize) -> Vec<T> {
    if let Some(mut room) = earlier.filter(|earlier| earlier.capacity() >= count) {
        room.resize(count, T::default());
        return room;
    }
    let mut room = vec![T::default(); count];
    prefer_large_pages(&mut room);
    room
}

impl Output {
    /// Makes room for an output of `rows` rows, given one piece of it. The memory of an earlier output of the same type
    /// is reused. Returns `None` if the output is too large.
    fn new(piece: &Tensor, rows: usize, earlier: Option<Tensor>) -> Option<Self> {
        let shape = [&[rows], &piece.shape()[1..]].concat();
        let all = count(&shape).filter(|all| *all <= MOST_ELEMENTS)?;
        macro_rules! of_type {
            ($($variant:ident),+) => {
                match (piece.elements(), earlier.map(Tensor::into_elements)) {
                    $(
                        (Elements::$variant(_), Some(Elements::$variant(values))) => {
                            Elements::$variant(room(Some(values), all))
                        }
                        (Elements::$variant(_), _) => Elements::$variant(room(None, all)),
                    )+
                }
            };
        }
        let elements = of_type!(Bool, I32, I64, F32, F64, Text);
        Some(Self { shape, elements })
    }

    /// Returns the elements of the pieces, each of `piece_rows` rows.
    fn pieces(&mut self, piece_rows: usize) -> Box<dyn Iterator<Item = PieceElements<'_>> + '_> {
        let length = piece_rows * self.shape[1..].iter().product::<usize>();
        if length == 0 {
            return Box::new(std::iter::repeat_with(|| PieceElements::Bool(&mut [])));
        }
        match &mut self.elements {
            Elements::Bool(values) => Box::new(values.chunks_mut(length).map(PieceElements::Bool)),
            Elements::I32(values) => Box::new(values.chunks_mut(length).map(PieceElements::I32)),
            Elements::I64(values) => Box::new(values.chunks_mut(length).map(PieceElements::I64)),
            Elements::F32(values) => Box::new(values.chunks_mut(length).map(PieceElements::F32)),
            Elements::F64(values) => Box::new(values.chunks_mut(length).map(PieceElements::F64)),
            Elements::Text(values) => Box::new(values.chunks_mut(length).map(PieceElements::Text)),
        }
    }

    /// Returns the output.
    fn whole(self) -> Tensor {
        Tensor::new(self.shape, self.elements).expect("as many elements as the shape has")
    }
}

impl PieceElements<'_> {
    /// Copies a piece's output here. Returns `None` if the piece has another type or length.
    fn fill(self, piece: Tensor) -> Option<()> {
        fn put<T: Clone>(to: &mut [T], from: &[T]) -> Option<()> {
            (to.len() == from.len()).then(|| to.clone_from_slice(from))
        }
        match (self, piece.elements()) {
            (Self::Bool(to), Elements::Bool(from)) => put(to, from),
            (Self::I32(to), Elements::I32(from)) => put(to, from),
            (Self::I64(to), Elements::I64(from)) => put(to, from),
            (Self::F32(to), Elements::F32(from)) => put(to, from),
            (Self::F64(to), Elements::F64(from)) => put(to, from),
            (Self::Text(to), Elements::Text(from)) => put(to, from),
            (Self::Bool([]), others) if others.is_empty() => Some(()),
            _ => None,
        }
    }
}

impl Products for GraphPredictor {
    fn floats(&self, a: &[f32], b: &[f32], out: &mut [f32], lengths: [usize; 3]) {
        product(a, b, out, lengths);
    }

    fn doubles(&self, a: &[f64], b: &[f64], out: &mut [f64], lengths: [usize; 3]) {
        product(a, b, out, lengths);
    }
}

impl Evaluator for GraphPredictor {
    fn forest(
        &self,
        forest: &Forest,
        rows: TensorView<'_>,
        wanted: [bool; 2],
    ) -> std::result::Result<(Vec<f32>, Vec<u32>), String> {
        let known = self.compiled(forest)?;
        let found = match rows.elements() {
            ElementsView::F64(values) => known.predict(values, wanted),
            ElementsView::F32(values) => known.predict(values, wanted),
            _ => return Err("a forest takes rows of floats".into()),
        };
        found.map_err(|e| e.to_string())
    }

    fn leaf_slots(&self, forest: &Forest, rows: TensorView<'_>) -> std::result::Result<Vec<u32>, String> {
        let predictor = &self.compiled(forest)?.predictor;
        let width = forest.features.len();
        let found = match rows.elements() {
            ElementsView::F64(values) => {
                Rows::new(values, width).and_then(|rows| predictor.leaf_slots(&rows))
            }
            ElementsView::F32(values) => {
                Rows::new(values, width).and_then(|rows| predictor.leaf_slots(&rows))
            }
            _ => return Err("a forest takes rows of floats".into()),
        };
        found.map_err(|e| e.to_string())
    }
}

impl CompiledForest {
    /// Returns the values of rows and their classes, each if it is wanted.
    fn predict<T: Row>(
        &self,
        values: &[T],
        [wants_values, wants_classes]: [bool; 2],
    ) -> Result<(Vec<f32>, Vec<u32>)> {
        let rows = Rows::new(values, self.forest.features.len())?;
        let found = if wants_values { self.predictor.values(&rows)? } else { Vec::new() };
        let classes = match wants_classes {
            true => self.predictor.classes(&self.forest, &self.decision, values)?,
            false => Vec::new(),
        };
        Ok((found, classes))
    }
}
