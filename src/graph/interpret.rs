//! The interpreter: what a graph means.

use std::fmt;

use super::{
    arrange, choose, elementwise,
    model::{Graph, GraphOutput, Operand},
    networks,
    operator::Operator,
    reduce, solve,
    tensor::{Dtype, Elements, Lengths, Tensor, room},
    view::{ElementsView, TensorView},
};
use crate::forest::{Forest, reference};

/// The error of a graph that is not whole, or that does not take its inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct GraphError {
    /// The node, the input or the output.
    pub place: String,
    /// What is wrong.
    pub cause: String,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.cause)
    }
}

impl GraphError {
    pub(super) fn at(place: &str, cause: impl Into<String>) -> Self {
        Self { place: place.to_owned(), cause: cause.into() }
    }
}

/// What evaluates the forests and the products of a graph.
pub(super) trait Evaluator: reduce::Products {
    /// Returns the values of rows, `rows x width`, and the class of each row as a place among the labels, each if it is
    /// wanted.
    fn forest(
        &self,
        forest: &Forest,
        rows: TensorView<'_>,
        wanted: [bool; 2],
    ) -> Result<(Vec<f32>, Vec<u32>), String>;

    /// Returns the leaf slot that each row reaches in each tree, `rows x trees`, trees in the producer's order.
    fn leaf_slots(&self, forest: &Forest, rows: TensorView<'_>) -> Result<Vec<u32>, String>;
}

/// The interpreter of forests, and products in order.
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

/// What reads the results of each node.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    /// The last node that reads a result; above all nodes where an output is it.
    last: Vec<usize>,
    /// Whether anything reads the first and the second result.
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
        self.run_with(&inputs, &Reference, &Uses::of(self))
    }

    /// Evaluates a graph that verifies, given the uses of its results.
    pub(super) fn run_with(
        &self,
        inputs: &[TensorView<'_>],
        evaluator: &impl Evaluator,
        uses: &Uses,
    ) -> Result<Vec<Tensor>, GraphError> {
        self.check_inputs(inputs)?;
        let mut results: Vec<Results> = Vec::with_capacity(self.nodes.len());
        for (at, node) in self.nodes.iter().enumerate() {
            let context = (evaluator, uses.wanted[at]);
            let unused = unused_afterwards(&node.operands, at, uses).and_then(|of| results[of].take_only());
            let view = |operand: &Operand| self.view(*operand, inputs, &results);
            let found = match unused {
                Some(first) => with_views(&node.operands[1..], view, |others| {
                    evaluate_reusing(&node.operator, first, others, context)
                }),
                None => {
                    with_views(&node.operands, view, |operands| evaluate(&node.operator, operands, context))
                }
            };
            let refused = |cause| GraphError::at(&node.name, format!("{}: {cause}", node.operator));
            results.push(found.map_err(refused)?);
            // What no later node reads gives its memory back.
            for operand in &node.operands {
                if let Operand::Node(of, _) = operand
                    && uses.last[*of as usize] == at
                {
                    results[*of as usize] = Results::NONE;
                }
            }
        }
        let output = |operand| self.view(operand, inputs, &results).to_tensor();
        // The only output is the tensor itself; of several, two may be the same tensor.
        Ok(match self.outputs[..] {
            [GraphOutput { operand: Operand::Node(at, result), .. }] => {
                results[at as usize].0[result as usize].take().into_iter().collect()
            }
            _ => self.outputs.iter().map(|out| output(out.operand)).collect(),
        })
    }

    fn view<'t>(
        &'t self,
        operand: Operand,
        inputs: &[TensorView<'t>],
        results: &'t [Results],
    ) -> TensorView<'t> {
        match operand {
            Operand::Input(at) => inputs[at as usize],
            Operand::Weight(at) => self.weights[at as usize].view(),
            // What nothing reads may have no tensor, and what is read has one.
            Operand::Node(at, result) => {
                results[at as usize].0[result as usize].as_ref().map_or(TensorView::NONE, Tensor::view)
            }
        }
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
        let Results(found) = evaluate(self, &operands, (&Reference, [true; 2]))?;
        Ok(found.into_iter().flatten().collect())
    }
}

/// The results of a node.
struct Results([Option<Tensor>; 2]);

impl Results {
    const NONE: Self = Self([None, None]);

    fn one(found: Result<Tensor, String>) -> Result<Self, String> {
        found.map(|tensor| Self([Some(tensor), None]))
    }

    /// Takes the only result; `None` where there are two or none.
    fn take_only(&mut self) -> Option<Tensor> {
        if self.0[1].is_some() { None } else { self.0[0].take() }
    }
}

/// The most operands whose views need no memory of their own.
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

/// Evaluates an operator whose first operand nothing reads afterwards. The result gets the operand's memory if it has
/// as many elements of the same type.
fn evaluate_reusing(
    operator: &Operator,
    mut first: Tensor,
    others: &[TensorView<'_>],
    context: (&impl Evaluator, [bool; 2]),
) -> Result<Results, String> {
    let in_place = match (operator, others) {
        (Operator::Unary(how), []) => elementwise::unary_in_place(*how, &mut first),
        (Operator::Binary(how), [other]) => elementwise::binary_in_place(*how, &mut first, *other),
        _ => false,
    };
    if in_place {
        return Results::one(Ok(first));
    }
    let x = first.view();
    let shape = match (operator, others) {
        (Operator::Reshape(lengths), []) => arrange::reshaped(lengths, x)?,
        (Operator::ReshapeAs, [lengths]) => arrange::reshaped(&arrange::integers(*lengths)?, x)?,
        (Operator::Unsqueeze(axes), []) => arrange::unsqueezed(axes, x)?,
        (Operator::Squeeze(axes), []) => arrange::squeezed(axes, x)?,
        (_, []) => return evaluate(operator, &[x], context),
        _ => return evaluate(operator, &[&[x], others].concat(), context),
    };
    let found = Tensor::new(shape, first.into_elements());
    Results::one(found.ok_or_else(|| "it has another number of elements".into()))
}

/// Evaluates an operator with as many operands as it takes.
fn evaluate(
    operator: &Operator,
    operands: &[TensorView<'_>],
    (evaluator, wanted): (&impl Evaluator, [bool; 2]),
) -> Result<Results, String> {
    let x = operands[0];
    // Only these operators make more elements than they take.
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
    let one = Results::one;
    match (operator, operands) {
        (Operator::Unary(how), _) => one(elementwise::unary(*how, x)),
        (Operator::Binary(how), [a, b]) => one(elementwise::binary(*how, *a, *b)),
        (Operator::Compare(how), [a, b]) => one(elementwise::compare(*how, *a, *b)),
        (Operator::Where, [condition, yes, no]) => one(elementwise::choose(*condition, *yes, *no)),
        (Operator::Cast(to), _) => one(elementwise::cast(*to, x)),
        (Operator::Lookup { keys, values, other }, _) => one(elementwise::lookup(x, keys, values, other)),
        (Operator::MatMul, [a, b]) => one(reduce::matmul(*a, *b, evaluator)),
        (Operator::SparseMatMul(weights), _) => one(reduce::sparse_matmul(x, weights)),
        (Operator::Distances(how), [a, b]) => one(reduce::distances(*how, *a, *b)),
        (Operator::Reduce { how, axes, keep }, _) => one(reduce::reduce(*how, axes, *keep, x)),
        (Operator::Softmax { axis }, _) => one(reduce::softmax(*axis, x)),
        (Operator::ArgExtreme { axis, keep, greatest, last }, _) => {
            one(reduce::arg_extreme(*axis, *keep, (*greatest, *last), x))
        }
        (Operator::TopK { axis, k, greatest }, _) => {
            reduce::top(*axis, *k, *greatest, x).map(|found| Results(found.map(Some)))
        }
        (Operator::Gather { axis }, [x, places]) => one(arrange::gather(*axis, *x, *places)),
        (Operator::GatherElements { axis }, [x, places]) => one(arrange::gather_elements(*axis, *x, *places)),
        (Operator::Compress { axis }, [x, condition]) => one(choose::compress(*axis, *x, *condition)),
        (Operator::ScatterElements { axis }, [x, places, updates]) => {
            one(choose::scatter_elements(*axis, *x, *places, *updates))
        }
        (Operator::Solve, [a, b]) => one(solve::solve(*a, *b)),
        (Operator::Convolve { window, groups }, all) => {
            one(networks::convolve(window, *groups, all, evaluator))
        }
        (Operator::Pool(pool), _) => one(networks::pool(pool, x)),
        (Operator::LayerNorm { epsilon }, all) => one(networks::layer_norm(*epsilon, all)),
        (Operator::Texts(operator), _) => one(operator.evaluate(x)),
        (Operator::CouplePairs { classes }, _) => one(reduce::couple_pairs(*classes, x)),
        (Operator::Concat { axis }, all) => one(arrange::concat(*axis, all)),
        (Operator::Reshape(lengths), _) => one(of_shape(x, arrange::reshaped(lengths, x))),
        (Operator::ReshapeAs, [x, lengths]) => {
            let shape = arrange::integers(*lengths).and_then(|lengths| arrange::reshaped(&lengths, *x));
            one(of_shape(*x, shape))
        }
        (Operator::CumulativeSum { axis }, _) => one(reduce::cumulative_sum(*axis, x)),
        (Operator::Transpose(order), _) => one(arrange::transpose(order, x)),
        (Operator::Slice { axis, start, end, step }, _) => one(arrange::slice(*axis, *start, *end, *step, x)),
        (Operator::Unsqueeze(axes), _) => one(of_shape(x, arrange::unsqueezed(axes, x))),
        (Operator::Squeeze(axes), _) => one(of_shape(x, arrange::squeezed(axes, x))),
        (Operator::Fill(with), _) => one(arrange::fill(with, x)),
        (Operator::Shape, _) => {
            let lengths: Vec<i64> = x.shape().iter().map(|length| *length as i64).collect();
            one(Ok(Tensor::new([lengths.len()], Elements::I64(lengths)).expect("a list")))
        }
        (Operator::Forest(forest), _) => {
            let x = rows_of(forest, x)?;
            let x = x.view();
            let rows = &x.shape()[0];
            let (values, classes) = evaluator.forest(forest, x, wanted)?;
            let width = values.len().checked_div(*rows);
            let width = width.unwrap_or_else(|| forest.transform.width(forest.outputs as usize));
            // A forest that is no classifier has class 0, and one of several outputs that of the first.
            let a_row = classes.len().checked_div(*rows).unwrap_or(0).max(1);
            let mut classes: Vec<i64> = classes.into_iter().step_by(a_row).map(i64::from).collect();
            classes.resize(*rows, 0);
            let values = match wanted[0] {
                true => {
                    Some(Tensor::new([*rows, width], Elements::F32(values)).ok_or("its values don't fit")?)
                }
                false => None,
            };
            let classes = Tensor::new([*rows], Elements::I64(classes)).ok_or("its classes don't fit")?;
            Ok(Results([values, Some(classes)]))
        }
        (Operator::LeafSlots(forest), _) => {
            let rows = rows_of(forest, x)?;
            let slots = evaluator.leaf_slots(forest, rows.view())?;
            let shape = [rows.view().shape()[0], forest.trees.len()];
            one(Tensor::new(shape, Elements::I64(slots.into_iter().map(i64::from).collect()))
                .ok_or_else(|| "its slots don't fit".into()))
        }
        (Operator::LinearLeaves(leaves), _) => {
            let x = rows_of(leaves.forest(), x)?;
            let x = x.view();
            let forest = leaves.forest();
            room(&[x.shape()[0], forest.trees.len().max(forest.outputs as usize)])?;
            let found = leaves.evaluate(x, |forest, rows| evaluator.leaf_slots(forest, rows), wanted[1])?;
            Ok(Results(found))
        }
        _ => Err("it has another number of operands".into()),
    }
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
