//! The interpreter, which defines what a graph computes.

use smallvec::SmallVec;

use super::{
    arrange, choose, elementwise,
    error::GraphError,
    impute,
    model::{Graph, GraphOutput, Operand},
    networks,
    operator::Operator,
    reduce, solve,
    tensor::{Dtype, Elements, Lengths, Tensor, room},
    view::{ElementsView, TensorView},
};
use crate::forest::{Forest, reference};

/// Evaluates the forests and the matrix products of a graph.
pub(super) trait Evaluator: reduce::Products {
    /// Returns the values of rows, `rows x width`, and their class numbers. `wanted` says which of the two are needed;
    /// the other may be empty.
    fn forest(
        &self,
        forest: &Forest,
        rows: TensorView<'_>,
        wanted: [bool; 2],
    ) -> Result<(Vec<f32>, Vec<u32>), String>;

    /// Returns the leaf slot that each row reaches in each tree, `rows x trees`, trees in the producer's order.
    fn leaf_slots(&self, forest: &Forest, rows: TensorView<'_>) -> Result<Vec<u32>, String>;
}

/// Evaluates forests by the reference interpreter, and products by their definition.
struct Reference;

impl reduce::Products for Reference {}

impl Evaluator for Reference {
    fn forest(
        &self,
        forest: &Forest,
        rows: TensorView<'_>,
        _: [bool; 2],
    ) -> Result<(Vec<f32>, Vec<u32>), String> {
        fn all<T: reference::Input>(forest: &Forest, rows: &[T], columns: usize) -> (Vec<f32>, Vec<u32>) {
            let (mut values, mut classes) = (Vec::new(), Vec::new());
            for row in rows.chunks_exact(columns.max(1)) {
                let slots = reference::leaf_slots(forest, row);
                let sums = reference::margins_of(forest, &slots);
                values.extend(reference::values_of_sums(forest, &sums).into_iter().map(|v| v as f32));
                // The producer's own sums decide between classes that are nearly equal.
                classes.extend(reference::classes_of_slots(forest, &slots));
            }
            (values, classes)
        }
        let columns = forest.features.len();
        match rows.elements() {
            ElementsView::F64(values) => Ok(all(forest, values, columns)),
            ElementsView::F32(values) => Ok(all(forest, values, columns)),
            others => match others.doubles() {
                Some(values) => Ok(all(forest, &values, columns)),
                None => Err("a forest takes no texts".into()),
            },
        }
    }

    fn leaf_slots(&self, forest: &Forest, rows: TensorView<'_>) -> Result<Vec<u32>, String> {
        fn all<T: reference::Input>(forest: &Forest, rows: &[T], columns: usize) -> Vec<u32> {
            rows.chunks_exact(columns.max(1)).flat_map(|row| reference::leaf_slots(forest, row)).collect()
        }
        let columns = forest.features.len();
        match rows.elements() {
            ElementsView::F64(values) => Ok(all(forest, values, columns)),
            ElementsView::F32(values) => Ok(all(forest, values, columns)),
            _ => Err("a forest takes rows of floats".into()),
        }
    }
}

/// What reads the results of each node of a graph.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    /// The last node that reads a result of the node, or `usize::MAX` if a result is an output.
    last: Vec<usize>,
    /// Whether a node or an output reads the first result, and the second.
    wanted: Vec<[bool; 2]>,
}

impl Uses {
    /// Returns the uses of a graph that verifies.
    pub(super) fn of(graph: &Graph) -> Self {
        let nodes = graph.nodes.len();
        let (mut last, mut wanted) = (vec![0; nodes], vec![[false; 2]; nodes]);
        let of_nodes = graph
            .nodes
            .iter()
            .enumerate()
            .flat_map(|(at, node)| node.operands.iter().map(move |operand| (at, *operand)));
        let of_outputs = graph.outputs.iter().map(|output| (usize::MAX, output.operand));
        for (at, operand) in of_nodes.chain(of_outputs) {
            if let Operand::Node(of, result) = operand {
                last[of as usize] = at;
                wanted[of as usize][result as usize] = true;
            }
        }
        Self { last, wanted }
    }
}

impl Graph {
    /// Evaluates the graph by the definition of its operators, with the reference interpreter for its forests.
    /// It takes a tensor for each input and returns one for each output.
    ///
    /// Sums of floats, products of matrices and functions such as exponentials are computed in doubles and
    /// rounded to the type of the result.
    ///
    /// # Errors
    /// The graph does not verify, an input has another type or shape, or an operator does not take its
    /// operands. The error names the node.
    pub fn run(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>, GraphError> {
        self.verify()?;
        let inputs: Vec<TensorView<'_>> = inputs.iter().map(Tensor::view).collect();
        let mut outputs = Vec::new();
        self.run_with(&inputs, &Reference, &Uses::of(self), &mut outputs)?;
        Ok(outputs)
    }

    /// Evaluates a graph that verifies, given the uses of its results, and replaces the contents of `outputs` by its
    /// outputs.
    pub(super) fn run_with(
        &self,
        inputs: &[TensorView<'_>],
        evaluator: &impl Evaluator,
        uses: &Uses,
        outputs: &mut Vec<Tensor>,
    ) -> Result<(), GraphError> {
        outputs.clear();
        self.check_inputs(inputs)?;
        let mut made = NodeResults { results: SmallVec::new(), indices: SmallVec::new() };
        made.results.reserve(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            let refused = |cause| GraphError::at(&node.name, format!("{}: {cause}", node.operator));
            let reused = match unused_afterwards(&node.operands, at, uses) {
                Some(of) => {
                    let other = node.operands.get(1).copied();
                    made.reuse(&node.operator, of, other, self, inputs).map_err(refused)?
                }
                None => false,
            };
            if !reused {
                made.results.push(Results::NONE);
                made.indices.push(made.results.len() as u32 - 1);
                let (results, earlier) = made.results.split_last_mut().expect("there is one now");
                let view = |operand: &Operand| view(*operand, self, inputs, earlier, &made.indices);
                let wanted = uses.wanted[at];
                let call = |operands: &[TensorView<'_>]| {
                    evaluate(&node.operator, operands, evaluator, wanted, results)
                };
                with_views(&node.operands, view, call).map_err(refused)?;
            }
            // Results that no later node reads are freed.
            for operand in &node.operands {
                if let Operand::Node(of, _) = operand
                    && uses.last[*of as usize] == at
                    && made.indices[*of as usize] != made.indices[at]
                {
                    made.results[made.indices[*of as usize] as usize] = Results::NONE;
                }
            }
        }
        let output = |operand| view(operand, self, inputs, &made.results, &made.indices).to_tensor();
        // An only output is moved. Several are copied, because two may be the same tensor.
        match self.outputs[..] {
            [GraphOutput { operand: Operand::Node(at, result), .. }] => {
                let results = &mut made.results[made.indices[at as usize] as usize];
                outputs.extend(results.0[result as usize].take());
            }
            _ => outputs.extend(self.outputs.iter().map(|out| output(out.operand))),
        }
        Ok(())
    }

    fn check_inputs(&self, inputs: &[TensorView<'_>]) -> Result<(), GraphError> {
        if inputs.len() != self.inputs.len() {
            let cause = format!("it takes {} inputs, not {}", self.inputs.len(), inputs.len());
            return Err(GraphError::at("the graph", cause));
        }
        for (input, given) in self.inputs.iter().zip(inputs) {
            let fits = input.shape.len() == given.shape().len()
                && input.shape.iter().zip(given.shape()).all(|(a, b)| a.is_none_or(|a| a == *b));
            if input.dtype != given.dtype() || !fits {
                let cause = format!(
                    "it takes {} of shape {:?}, not {} of shape {:?}",
                    input.dtype,
                    input.shape,
                    given.dtype(),
                    given.shape()
                );
                return Err(GraphError::at(&input.name, cause));
            }
        }
        Ok(())
    }
}

impl Operator {
    /// Evaluates the operator by its definition.
    ///
    /// # Errors
    /// The operator does not take these operands.
    pub fn evaluate(&self, operands: &[&Tensor]) -> Result<Vec<Tensor>, String> {
        let (least, most) = self.operands();
        if !(least..=most).contains(&operands.len()) {
            return Err(format!("{self} takes {least} operands, not {}", operands.len()));
        }
        let operands: Vec<TensorView<'_>> = operands.iter().map(|operand| operand.view()).collect();
        let mut results = Results::NONE;
        evaluate(self, &operands, &Reference, [true; 2], &mut results)?;
        Ok(results.0.into_iter().flatten().collect())
    }
}

/// The results of a node.
struct Results([Option<Tensor>; 2]);

impl Results {
    const NONE: Self = Self([None, None]);
}

/// The results of the nodes that were evaluated so far.
struct NodeResults {
    results: SmallVec<[Results; 4]>,
    /// The index in `results` of each node's results. Two nodes share an index if one has changed the only result of
    /// the other in place.
    indices: SmallVec<[u32; 16]>,
}

/// Returns the view of an operand, given the results of earlier nodes and their indices.
fn view<'t>(
    operand: Operand,
    graph: &'t Graph,
    inputs: &[TensorView<'t>],
    results: &'t [Results],
    indices: &[u32],
) -> TensorView<'t> {
    match operand {
        Operand::Input(at) => inputs[at as usize],
        Operand::Weight(at) => graph.weights[at as usize].view(),
        // A result that nothing reads may have no tensor; every other result has one.
        Operand::Node(at, result) => {
            let results = &results[indices[at as usize] as usize];
            results.0[result as usize].as_ref().map_or(TensorView::NONE, Tensor::view)
        }
    }
}

impl NodeResults {
    /// Evaluates an operator in the memory of its first operand, the only result of the node `of`, which nothing reads
    /// afterwards. Returns `false`, and changes nothing, if the result has another type or another number of elements,
    /// or if the operator can't do it.
    fn reuse(
        &mut self,
        operator: &Operator,
        of: usize,
        other: Option<Operand>,
        graph: &Graph,
        inputs: &[TensorView<'_>],
    ) -> Result<bool, String> {
        let index = self.indices[of];
        let (first, other) = match other {
            Some(Operand::Node(at, result)) => {
                let of_other = self.indices[at as usize] as usize;
                let Ok([first, others]) = self.results.get_disjoint_mut([index as usize, of_other]) else {
                    return Ok(false);
                };
                (first, others.0[result as usize].as_ref().map(Tensor::view))
            }
            Some(operand) => {
                (&mut self.results[index as usize], Some(view(operand, graph, inputs, &[], &[])))
            }
            None => (&mut self.results[index as usize], None),
        };
        let Results([Some(first), None]) = first else { return Ok(false) };
        let changed = match (operator, other) {
            (Operator::Unary(how), None) => elementwise::unary_in_place(*how, first),
            (Operator::Binary(how), Some(other)) => elementwise::binary_in_place(*how, first, other),
            (Operator::Reshape(lengths), None) => first.reshape(arrange::reshaped(lengths, first.view())?),
            (Operator::ReshapeAs, Some(lengths)) => {
                first.reshape(arrange::reshaped(&arrange::integers(lengths)?, first.view())?)
            }
            (Operator::Unsqueeze(axes), None) => first.reshape(arrange::unsqueezed(axes, first.view())?),
            (Operator::Squeeze(axes), None) => first.reshape(arrange::squeezed(axes, first.view())?),
            _ => false,
        };
        if changed {
            self.indices.push(index);
        }
        Ok(changed)
    }
}

/// The maximum number of operands whose views need no allocation.
const FEW_OPERANDS: usize = 4;

/// Calls a function with the views of operands.
fn with_views<'t, R>(
    operands: &[Operand],
    view: impl Fn(&Operand) -> TensorView<'t>,
    call: impl FnOnce(&[TensorView<'t>]) -> R,
) -> R {
    if operands.len() > FEW_OPERANDS {
        return call(&operands.iter().map(view).collect::<Vec<_>>());
    }
    let mut views = [TensorView::NONE; FEW_OPERANDS];
    views.iter_mut().zip(operands).for_each(|(to, operand)| *to = view(operand));
    call(&views[..operands.len()])
}

/// Returns the node whose result is the first operand of node `at`, if nothing reads the result afterwards.
fn unused_afterwards(operands: &[Operand], at: usize, uses: &Uses) -> Option<usize> {
    let [first @ Operand::Node(of, _), others @ ..] = operands else { return None };
    (uses.last[*of as usize] == at && !others.contains(first)).then_some(*of as usize)
}

/// Checks the size of a result that can be far larger than the operands.
fn check_room(operator: &Operator, operands: &[TensorView<'_>]) -> Result<(), String> {
    match (operator, operands) {
        (Operator::MatMul, [a, b]) => {
            let many = |t: TensorView<'_>| t.elements().len() / t.shape().last().copied().unwrap_or(1).max(1);
            room(&[
                many(*a),
                b.elements().len() / b.shape().iter().rev().nth(1).copied().unwrap_or(1).max(1),
            ])?;
        }
        (Operator::SparseMatMul(weights), [a]) => {
            room(&[a.elements().len() / weights.shape().1.max(1), weights.shape().0])?;
        }
        (Operator::Distances(_), [a, b]) => {
            room(&[a.shape().first().copied().unwrap_or(1), b.shape().first().copied().unwrap_or(1)])?;
        }
        _ => {}
    }
    Ok(())
}

/// Evaluates an operator with as many operands as it takes. It writes into `results`, so that a tensor is moved only
/// once: moving a tensor that was just written is slow. `wanted` says which of the results are needed.
fn evaluate(
    operator: &Operator,
    operands: &[TensorView<'_>],
    evaluator: &impl Evaluator,
    wanted: [bool; 2],
    results: &mut Results,
) -> Result<(), String> {
    let x = operands[0];
    check_room(operator, operands)?;
    let found = match (operator, operands) {
        (Operator::Unary(how), _) => elementwise::unary(*how, x),
        (Operator::Binary(how), [a, b]) => elementwise::binary(*how, *a, *b),
        (Operator::Compare(how), [a, b]) => elementwise::compare(*how, *a, *b),
        (Operator::Where, [condition, yes, no]) => elementwise::choose(*condition, *yes, *no),
        (Operator::Cast(to), _) => elementwise::cast(*to, x),
        (Operator::Lookup { keys, values, other }, _) => elementwise::lookup(x, keys, values, other),
        (Operator::MatMul, [a, b]) => reduce::matmul(*a, *b, evaluator),
        (Operator::SparseMatMul(weights), _) => reduce::sparse_matmul(x, weights),
        (Operator::Distances(how), [a, b]) => reduce::distances(*how, *a, *b),
        (Operator::Reduce { how, axes, keep }, _) => reduce::reduce(*how, axes, *keep, x),
        (Operator::Softmax { axis }, _) => reduce::softmax(*axis, x),
        (Operator::ArgExtreme { axis, keep, greatest, last }, _) => {
            reduce::arg_extreme(*axis, *keep, *greatest, *last, x)
        }
        (Operator::TopK { axis, k, greatest }, _) => {
            *results = Results(reduce::top(*axis, *k, *greatest, x)?.map(Some));
            return Ok(());
        }
        (Operator::Gather { axis }, [x, indices]) => arrange::gather(*axis, *x, *indices),
        (Operator::GatherElements { axis }, [x, indices]) => arrange::gather_elements(*axis, *x, *indices),
        (Operator::Compress { axis }, [x, condition]) => choose::compress(*axis, *x, *condition),
        (Operator::ScatterElements { axis }, [x, indices, updates]) => {
            choose::scatter_elements(*axis, *x, *indices, *updates)
        }
        (Operator::Solve, [a, b]) => solve::solve(*a, *b),
        (Operator::ImputeNeighbors { neighbors, by_distance }, [x, donors]) => {
            impute::impute_neighbors(*neighbors, *by_distance, *x, *donors)
        }
        (Operator::Convolve { window, groups }, all) => networks::convolve(window, *groups, all, evaluator),
        (Operator::Pool(pool), _) => networks::pool(pool, x),
        (Operator::LayerNorm { epsilon }, all) => networks::layer_norm(*epsilon, all),
        (Operator::Texts(operator), _) => operator.evaluate(x),
        (Operator::CouplePairs { classes }, _) => reduce::couple_pairs(*classes, x),
        (Operator::Concat { axis }, all) => arrange::concat(*axis, all),
        (Operator::Reshape(lengths), _) => of_shape(x, arrange::reshaped(lengths, x)),
        (Operator::ReshapeAs, [x, lengths]) => {
            let shape = arrange::integers(*lengths).and_then(|lengths| arrange::reshaped(&lengths, *x));
            of_shape(*x, shape)
        }
        (Operator::CumulativeSum { axis }, _) => reduce::cumulative_sum(*axis, x),
        (Operator::Transpose(order), _) => arrange::transpose(order, x),
        (Operator::Slice { axis, start, end, step }, _) => arrange::slice(*axis, *start, *end, *step, x),
        (Operator::Unsqueeze(axes), _) => of_shape(x, arrange::unsqueezed(axes, x)),
        (Operator::Squeeze(axes), _) => of_shape(x, arrange::squeezed(axes, x)),
        (Operator::Fill(with), _) => arrange::fill(with, x),
        (Operator::Shape, _) => {
            let lengths: Vec<i64> = x.shape().iter().map(|length| *length as i64).collect();
            Ok(Tensor::new([lengths.len()], Elements::I64(lengths)).expect("a list"))
        }
        (Operator::Forest(forest), _) => return evaluate_forest(forest, x, evaluator, wanted, results),
        (Operator::LeafSlots(forest), _) => {
            let rows = rows_of(forest, x)?;
            let slots = evaluator.leaf_slots(forest, rows.view())?;
            let shape = [rows.view().shape()[0], forest.trees.len()];
            Tensor::new(shape, Elements::I64(slots.into_iter().map(i64::from).collect()))
                .ok_or_else(|| "its slots don't fit".into())
        }
        (Operator::LinearLeaves(leaves), _) => {
            let x = rows_of(leaves.forest(), x)?;
            let x = x.view();
            let forest = leaves.forest();
            room(&[x.shape()[0], forest.trees.len().max(forest.outputs as usize)])?;
            let found = leaves.evaluate(x, |forest, rows| evaluator.leaf_slots(forest, rows), wanted[1])?;
            *results = Results(found);
            return Ok(());
        }
        _ => return Err("it has another number of operands".into()),
    };
    results.0[0] = Some(found?);
    Ok(())
}

/// Evaluates a forest, and writes the values of rows, if they are wanted, and their classes.
fn evaluate_forest(
    forest: &Forest,
    x: TensorView<'_>,
    evaluator: &impl Evaluator,
    wanted: [bool; 2],
    results: &mut Results,
) -> Result<(), String> {
    let x = rows_of(forest, x)?;
    let x = x.view();
    let rows = &x.shape()[0];
    let (values, classes) = evaluator.forest(forest, x, wanted)?;
    let width = values.len().checked_div(*rows);
    let width = width.unwrap_or_else(|| forest.transform.width(forest.outputs as usize));
    // A forest that is no classifier has class 0. If each output has a class, the first counts.
    let a_row = classes.len().checked_div(*rows).unwrap_or(0).max(1);
    let mut classes: Vec<i64> = classes.into_iter().step_by(a_row).map(i64::from).collect();
    classes.resize(*rows, 0);
    let values = match wanted[0] {
        true => Some(Tensor::new([*rows, width], Elements::F32(values)).ok_or("its values don't fit")?),
        false => None,
    };
    let classes = Tensor::new([*rows], Elements::I64(classes)).ok_or("its classes don't fit")?;
    *results = Results([values, Some(classes)]);
    Ok(())
}

/// Returns the same elements in another shape.
fn of_shape(x: TensorView<'_>, shape: Result<Lengths, String>) -> Result<Tensor, String> {
    Tensor::new(shape?, x.elements().to_elements()).ok_or_else(|| "it has another number of elements".into())
}

/// Rows of floats for a forest.
enum ForestRows<'t> {
    Given(TensorView<'t>),
    Converted(Tensor),
}

impl ForestRows<'_> {
    fn view(&self) -> TensorView<'_> {
        match self {
            Self::Given(rows) => *rows,
            Self::Converted(rows) => rows.view(),
        }
    }
}

/// Returns a tensor as rows of floats for a forest.
fn rows_of<'t>(forest: &Forest, x: TensorView<'t>) -> Result<ForestRows<'t>, String> {
    let [_, columns] = x.shape() else {
        return Err(format!("a forest takes rows, not a tensor of shape {:?}", x.shape()));
    };
    if *columns != forest.features.len() {
        return Err(format!("it takes rows of {} columns, not {columns}", forest.features.len()));
    }
    // Integers and truth values are numbers here.
    Ok(match x.dtype() {
        Dtype::F32 | Dtype::F64 => ForestRows::Given(x),
        _ => ForestRows::Converted(elementwise::cast(Dtype::F64, x)?),
    })
}
