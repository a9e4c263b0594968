//! The type and the shape of each tensor of a graph, found without running it.

use super::{
    error::GraphError,
    model::{Graph, GraphInput, Node, Operand},
    networks::{Pool, Window},
    operator::{Binary, Operator, Unary},
    reduce::axis_of,
    tensor::{Dtype, Tensor},
    tensor_type::{TensorType, product_of},
};
use crate::forest::{Forest, reference};

/// The types of all tensors of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphTypes {
    inputs: Vec<TensorType>,
    weights: Vec<TensorType>,
    nodes: Vec<Vec<TensorType>>,
}

impl GraphTypes {
    /// Returns the types of a graph's inputs and weights.
    pub(super) fn of_leaves(graph: &Graph) -> Self {
        let input = |input: &GraphInput| TensorType::new(input.dtype, Some(input.shape.clone()));
        Self {
            inputs: graph.inputs.iter().map(input).collect(),
            weights: graph.weights.iter().map(|weight| TensorType::of(weight)).collect(),
            nodes: Vec::with_capacity(graph.nodes.len()),
        }
    }

    /// Adds the types of the next node.
    pub(super) fn push_node(&mut self, node: &Node) -> Result<(), GraphError> {
        let found = self
            .results_of(&node.operator, &node.operands)
            .map_err(|cause| GraphError::at(&node.name, format!("{}: {cause}", node.operator)))?;
        self.nodes.push(found);
        Ok(())
    }

    /// Returns the types of the results that an operator has for these operands.
    pub(super) fn results_of(
        &self,
        operator: &Operator,
        operands: &[Operand],
    ) -> Result<Vec<TensorType>, String> {
        let operands: Vec<&TensorType> = operands.iter().map(|operand| self.of(*operand)).collect();
        results(operator, &operands)
    }

    /// Adds the type of the next weight.
    pub(super) fn push_weight(&mut self, weight: &Tensor) {
        self.weights.push(TensorType::of(weight));
    }

    /// Returns the types of a node's results.
    pub fn results(&self, node: usize) -> &[TensorType] {
        &self.nodes[node]
    }

    /// Returns the type that a node computes in: that of the operand whose elements it computes with.
    pub(super) fn computed_in(&self, at: usize, node: &Node) -> Dtype {
        let operand = match &node.operator {
            // The first operand chooses between the others.
            Operator::Where => node.operands.get(1),
            // The first operand is a shape.
            Operator::Fill(_) => None,
            _ => node.operands.first(),
        };
        operand.map_or(self.nodes[at][0].dtype, |operand| self.of(*operand).dtype)
    }

    /// Returns the type of an operand of the graph.
    pub fn of(&self, operand: Operand) -> &TensorType {
        match operand {
            Operand::Input(at) => &self.inputs[at as usize],
            Operand::Weight(at) => &self.weights[at as usize],
            Operand::Node(at, result) => &self.nodes[at as usize][result as usize],
        }
    }
}

impl Graph {
    /// Returns the type of each tensor, and what is known of its shape before there are rows.
    ///
    /// # Errors
    /// The graph is not whole, or an operator does not take operands of these types or shapes. The error names
    /// the node.
    pub fn types(&self) -> Result<GraphTypes, GraphError> {
        self.verify_structure()?;
        let mut types = GraphTypes::of_leaves(self);
        self.nodes.iter().try_for_each(|node| types.push_node(node))?;
        Ok(types)
    }
}

type Shape = Option<Vec<Option<usize>>>;

fn same_dtype(a: &TensorType, b: &TensorType) -> Result<Dtype, String> {
    if a.dtype == b.dtype {
        Ok(a.dtype)
    } else {
        Err(format!("it does not take {} and {}", a.dtype, b.dtype))
    }
}

fn number(x: &TensorType) -> Result<Dtype, String> {
    if x.dtype == Dtype::Text { Err("it does not take text".into()) } else { Ok(x.dtype) }
}

/// Returns the shape that two shapes broadcast to.
fn broadcast(a: &Shape, b: &Shape) -> Result<Shape, String> {
    let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
    let dimensions = a.len().max(b.len());
    let length = |shape: &[Option<usize>], at: usize| match (at + shape.len()).checked_sub(dimensions) {
        Some(at) => shape[at],
        None => Some(1),
    };
    let both = |at| match (length(a, at), length(b, at)) {
        (Some(1), other) | (other, Some(1)) => Ok(other),
        (Some(a), Some(b)) if a != b => Err(()),
        (Some(known), _) | (_, Some(known)) => Ok(Some(known)),
        (None, None) => Ok(None),
    };
    let shape: Result<Vec<_>, ()> = (0..dimensions).map(both).collect();
    shape.map(Some).map_err(|()| format!("shapes {a:?} and {b:?} don't broadcast"))
}

/// The types of an operator's results, or why it does not take its operands.
type ResultTypes = Result<Vec<TensorType>, String>;

/// Returns the types of an operator's results.
fn results(operator: &Operator, operands: &[&TensorType]) -> ResultTypes {
    let x = operands[0];
    match operator {
        Operator::Unary(Unary::IsNan) => one(Dtype::Bool, x.shape.clone()),
        Operator::Unary(Unary::Not) if x.dtype != Dtype::Bool => Err(format!("it does not take {}", x.dtype)),
        Operator::Unary(_) | Operator::Softmax { .. } | Operator::CumulativeSum { .. } => {
            one(number(x)?, x.shape.clone())
        }
        // A power's exponent may have a type of its own.
        Operator::Binary(Binary::Power) => one(number(x)?, broadcast(&x.shape, &second(operands)?.shape)?),
        Operator::Binary(_) => {
            let y = second(operands)?;
            one(same_numbers(x, y)?, broadcast(&x.shape, &y.shape)?)
        }
        Operator::Compare(_) => {
            let y = second(operands)?;
            same_dtype(x, y)?;
            one(Dtype::Bool, broadcast(&x.shape, &y.shape)?)
        }
        Operator::Where => of_where(operands),
        Operator::Cast(to) => one(*to, x.shape.clone()),
        Operator::MatMul => {
            let y = second(operands)?;
            one(same_numbers(x, y)?, product(&x.shape, &y.shape)?)
        }
        Operator::SparseMatMul(weights) => {
            let (width, inner) = weights.shape();
            one(number(x)?, product(&x.shape, &Some(vec![Some(inner), Some(width)]))?)
        }
        Operator::Reduce { axes, keep, .. } => one(number(x)?, without(x, axes, *keep)?),
        Operator::ArgExtreme { axis, keep, .. } => one(Dtype::I64, without(x, &[*axis], *keep)?),
        Operator::TopK { axis, k, .. } => {
            let shape = with_axis(x, *axis, |_| Some(*k))?;
            Ok(vec![TensorType::new(number(x)?, shape.clone()), TensorType::new(Dtype::I64, shape)])
        }
        Operator::Gather { axis } => of_gather(x, second(operands)?, *axis),
        Operator::GatherElements { .. } => one(x.dtype, second(operands)?.shape.clone()),
        Operator::Concat { axis } => of_concat(operands, *axis),
        Operator::Reshape(lengths) => one(x.dtype, Some(reshaped(&x.shape, lengths)?)),
        Operator::ReshapeAs => one(x.dtype, of_lengths(second(operands)?)),
        Operator::Fill(with) => one(with.dtype(), of_lengths(x)),
        Operator::Transpose(order) => of_transpose(x, order),
        Operator::Slice { axis, start, end, step } => {
            let length = |length: Option<usize>| {
                let length = length?;
                super::arrange::sliced(*start, *end, *step, length).map(|(_, count)| count).ok()
            };
            one(x.dtype, with_axis(x, *axis, length)?)
        }
        Operator::Unsqueeze(axes) => of_unsqueeze(x, axes),
        Operator::Squeeze(axes) => of_squeeze(x, axes),
        Operator::Shape => one(Dtype::I64, x.dimensions().map(|dimensions| vec![Some(dimensions)])),
        Operator::Lookup { values, .. } => one(values.dtype(), x.shape.clone()),
        Operator::Distances(_) => {
            let y = second(operands)?;
            one(same_numbers(x, y)?, Some(vec![first_length(x), first_length(y)]))
        }
        Operator::ImputeNeighbors { .. } => of_imputation(x, second(operands)?),
        Operator::Compress { axis } => {
            second(operands)?;
            one(x.dtype, with_axis(x, *axis, |_| None)?)
        }
        Operator::ScatterElements { .. } => {
            let updates = operands.get(2).ok_or("it takes three operands")?;
            one(same_dtype(x, updates)?, x.shape.clone())
        }
        Operator::Solve => {
            let y = second(operands)?;
            one(same_numbers(x, y)?, y.shape.clone())
        }
        Operator::Convolve { window, groups } => of_convolution(operands, window, *groups),
        Operator::Pool(pool) => of_pool(x, pool),
        Operator::LayerNorm { .. } => of_layer_norm(operands),
        Operator::LeafSlots(forest) => {
            let rows = rows_of(x, forest)?;
            one(Dtype::I64, Some(vec![rows, Some(forest.trees.len())]))
        }
        Operator::Texts(operator) => Ok(vec![operator.result(x)?]),
        Operator::CouplePairs { classes } => one(number(x)?, with_axis(x, -1, |_| Some(*classes))?),
        Operator::Forest(forest) => of_forest(x, forest),
        Operator::LinearLeaves(leaves) => of_linear_leaves(x, leaves.forest()),
    }
}

/// Returns the type of an only result.
fn one(dtype: Dtype, shape: Shape) -> ResultTypes {
    Ok(vec![TensorType::new(dtype, shape)])
}

/// Returns the second operand.
fn second<'t>(operands: &[&'t TensorType]) -> Result<&'t TensorType, String> {
    operands.get(1).copied().ok_or_else(|| "it has another number of operands".to_owned())
}

/// Returns the type of two operands that must hold numbers of one type.
fn same_numbers(a: &TensorType, b: &TensorType) -> Result<Dtype, String> {
    number(a)?;
    same_dtype(a, b)
}

/// Returns the length of the first dimension, if it is known.
fn first_length(x: &TensorType) -> Option<usize> {
    x.shape.as_ref().and_then(|shape| shape.first().copied().flatten())
}

/// Returns a tensor's shape with the length of one axis changed by `f`.
fn with_axis(x: &TensorType, axis: i64, f: impl Fn(Option<usize>) -> Option<usize>) -> Result<Shape, String> {
    let Some(mut shape) = x.shape.clone() else { return Ok(None) };
    let at = axis_of(axis, shape.len())?;
    shape[at] = f(shape[at]);
    Ok(Some(shape))
}

/// Returns a tensor's shape without some axes, or with length 1 for each of them if it keeps them. An empty list stands
/// for all axes.
fn without(x: &TensorType, axes: &[i64], keep: bool) -> Result<Shape, String> {
    let Some(shape) = &x.shape else { return Ok(None) };
    let mut gone = vec![axes.is_empty(); shape.len()];
    for axis in axes {
        gone[axis_of(*axis, shape.len())?] = true;
    }
    let lengths = shape.iter().zip(gone).filter(|(_, gone)| keep || !gone);
    Ok(Some(lengths.map(|(length, gone)| if gone { Some(1) } else { *length }).collect()))
}

/// Returns the type of the result of [`Operator::Where`].
fn of_where(operands: &[&TensorType]) -> ResultTypes {
    let [condition, yes, no] = operands else { return Err("it takes three operands".into()) };
    if condition.dtype != Dtype::Bool {
        return Err(format!("its condition is of {}, not of truth values", condition.dtype));
    }
    one(same_dtype(yes, no)?, broadcast(&broadcast(&yes.shape, &no.shape)?, &condition.shape)?)
}

/// Returns the type of the result of [`Operator::Gather`].
fn of_gather(x: &TensorType, indices: &TensorType, axis: i64) -> ResultTypes {
    let (Some(shape), Some(indices)) = (&x.shape, &indices.shape) else { return one(x.dtype, None) };
    let axis = axis_of(axis, shape.len())?;
    one(x.dtype, Some([&shape[..axis], indices, &shape[axis + 1..]].concat()))
}

/// Returns the type of the result of [`Operator::Concat`].
fn of_concat(operands: &[&TensorType], axis: i64) -> ResultTypes {
    let mut so_far = operands[0].clone();
    for other in &operands[1..] {
        same_dtype(&so_far, other)?;
        let (Some(a), Some(b)) = (&so_far.shape, &other.shape) else {
            so_far.shape = None;
            continue;
        };
        let at = axis_of(axis, a.len())?;
        if a.len() != b.len() {
            return Err(format!("shapes {a:?} and {b:?} don't join along axis {axis}"));
        }
        let mut joined = Vec::with_capacity(a.len());
        for (dimension, lengths) in a.iter().zip(b).enumerate() {
            joined.push(match lengths {
                (Some(a), Some(b)) if dimension == at => a.checked_add(*b),
                _ if dimension == at => None,
                (Some(a), Some(b)) if a != b => {
                    return Err(format!("lengths {a} and {b} don't join along axis {axis}"));
                }
                (a, b) => a.or(*b),
            });
        }
        so_far.shape = Some(joined);
    }
    Ok(vec![so_far])
}

/// Returns the shape of a tensor whose lengths `lengths` holds. Only the number of the lengths is known.
fn of_lengths(lengths: &TensorType) -> Shape {
    first_length(lengths).filter(|dimensions| *dimensions <= 64).map(|dimensions| vec![None; dimensions])
}

/// Returns the type of the result of [`Operator::Transpose`].
fn of_transpose(x: &TensorType, order: &[usize]) -> ResultTypes {
    let Some(shape) = &x.shape else { return one(x.dtype, None) };
    let lengths: Option<Vec<_>> = order.iter().map(|at| shape.get(*at).copied()).collect();
    let lengths = lengths.filter(|lengths| lengths.len() == shape.len());
    let cause = || format!("{order:?} is no order of {} dimensions", shape.len());
    one(x.dtype, Some(lengths.ok_or_else(cause)?))
}

/// Returns the type of the result of [`Operator::Unsqueeze`].
fn of_unsqueeze(x: &TensorType, axes: &[i64]) -> ResultTypes {
    let Some(shape) = &x.shape else { return one(x.dtype, None) };
    let dimensions = shape.len() + axes.len();
    let mut new = vec![false; dimensions];
    for axis in axes {
        new[axis_of(*axis, dimensions)?] = true;
    }
    let mut old = shape.iter().copied();
    let lengths = new.iter().map(|new| if *new { Some(Some(1)) } else { old.next() });
    one(x.dtype, Some(lengths.collect::<Option<Vec<_>>>().ok_or("an axis is there twice")?))
}

/// Returns the type of the result of [`Operator::Squeeze`].
fn of_squeeze(x: &TensorType, axes: &[i64]) -> ResultTypes {
    if !axes.is_empty() {
        return one(x.dtype, without(x, axes, false)?);
    }
    // Without axes, what is left depends on every length.
    match &x.shape {
        Some(shape) if shape.iter().all(Option::is_some) => {
            one(x.dtype, Some(shape.iter().copied().filter(|length| *length != Some(1)).collect()))
        }
        _ => one(x.dtype, None),
    }
}

/// Returns the type of the result of [`Operator::ImputeNeighbors`]: that of `x`, whose missing elements the rows of `y`
/// replace.
fn of_imputation(x: &TensorType, y: &TensorType) -> ResultTypes {
    number(x)?;
    let both = x.width().zip(y.width());
    if both.is_some_and(|(a, b)| a != b) || y.dimensions().is_some_and(|dimensions| dimensions != 2) {
        return Err(format!("rows of shape {:?} are not for shape {:?}", y.shape, x.shape));
    }
    one(same_dtype(x, y)?, x.shape.clone())
}

/// Returns the type of the result of [`Operator::Convolve`].
fn of_convolution(operands: &[&TensorType], window: &Window, groups: usize) -> ResultTypes {
    let x = operands[0];
    let (y, dtype) = (second(operands)?, number(x)?);
    for other in &operands[1..] {
        same_dtype(x, other)?;
    }
    let (Some(images), Some(filters)) = (&x.shape, &y.shape) else { return one(dtype, None) };
    let ([rows, channels, image @ ..], [count, seen, size @ ..]) = (&images[..], &filters[..]) else {
        return Err(format!("it takes images and filters, not shapes {images:?} and {filters:?}"));
    };
    if channels.zip(*seen).is_some_and(|(channels, seen)| seen.checked_mul(groups) != Some(channels)) {
        return Err(format!("filters of {seen:?} channels in {groups} groups don't see {channels:?}"));
    }
    one(dtype, Some([&[*rows, *count], &result_lengths(window, image, size)?[..]].concat()))
}

/// Returns the type of the result of [`Operator::Pool`].
fn of_pool(x: &TensorType, pool: &Pool) -> ResultTypes {
    let Some(shape) = &x.shape else { return one(number(x)?, None) };
    let [rows, channels, image @ ..] = &shape[..] else {
        return Err(format!("it takes images, not shape {shape:?}"));
    };
    let lengths = result_lengths(&pool.window, image, &pool.size.map(Some))?;
    one(number(x)?, Some([&[*rows, *channels], &lengths[..]].concat()))
}

/// Returns the type of the result of [`Operator::LayerNorm`].
fn of_layer_norm(operands: &[&TensorType]) -> ResultTypes {
    let x = operands[0];
    for other in &operands[1..] {
        same_dtype(x, other)?;
        if x.width().zip(other.width()).is_some_and(|(a, b)| a != b) {
            return Err(format!("weights of shape {:?} are not for lines of {:?}", other.shape, x.shape));
        }
    }
    one(number(x)?, x.shape.clone())
}

/// Returns the types of the results of [`Operator::Forest`].
fn of_forest(x: &TensorType, forest: &Forest) -> ResultTypes {
    let rows = rows_of(x, forest)?;
    let margins = vec![0.0; forest.outputs as usize];
    let width = reference::values_of_sums(forest, &margins).len();
    Ok(vec![
        TensorType::new(Dtype::F32, Some(vec![rows, Some(width)])),
        TensorType::new(Dtype::I64, Some(vec![rows])),
    ])
}

/// Returns the types of the results of [`Operator::LinearLeaves`].
fn of_linear_leaves(x: &TensorType, forest: &Forest) -> ResultTypes {
    let rows = rows_of(x, forest)?;
    let of = |dtype, width| TensorType::new(dtype, Some(vec![rows, Some(width)]));
    Ok(vec![of(Dtype::F64, forest.outputs as usize), of(Dtype::I64, forest.trees.len())])
}

/// Returns the height and the width of the result of a window that moves over an image.
fn result_lengths(
    window: &Window,
    image: &[Option<usize>],
    size: &[Option<usize>],
) -> Result<[Option<usize>; 2], String> {
    let ([_, _], [_, _]) = (image, size) else {
        return Err("it takes images of four dimensions".into());
    };
    let mut found = [None; 2];
    for (axis, found) in found.iter_mut().enumerate() {
        if let (Some(length), Some(size)) = (image[axis], size[axis]) {
            *found = Some(window.result_length(axis, length, size)?);
        }
    }
    Ok(found)
}

/// Returns the number of rows of a tensor that a forest takes, if it is known.
fn rows_of(x: &TensorType, forest: &Forest) -> Result<Option<usize>, String> {
    number(x)?;
    let columns = forest.features.len();
    let other = x.dimensions().is_some_and(|dimensions| dimensions != 2)
        || x.width().is_some_and(|width| width != columns);
    if other {
        return Err(format!("it takes rows of {columns} columns, not shape {:?}", x.shape));
    }
    Ok(first_length(x))
}

/// Returns the shape of a product of matrices.
fn product(a: &Shape, b: &Shape) -> Result<Shape, String> {
    let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
    let refused = || format!("shapes {a:?} and {b:?} have no product");
    let (Some(inner), Some(_)) = (a.last(), b.last()) else { return Err(refused()) };
    let other = if b.len() == 1 { b[0] } else { b[b.len() - 2] };
    if inner.zip(other).is_some_and(|(inner, other)| inner != other) {
        return Err(refused());
    }
    let (of_a, of_b) = (a.len().saturating_sub(2), b.len().saturating_sub(2));
    let outside = broadcast(&Some(a[..of_a].to_vec()), &Some(b[..of_b].to_vec())).map_err(|_| refused())?;
    let mut shape = outside.unwrap_or_default();
    if a.len() > 1 {
        shape.push(a[a.len() - 2]);
    }
    if b.len() > 1 {
        shape.push(b[b.len() - 1]);
    }
    Ok(Some(shape))
}

/// Returns the shape that [`Operator::Reshape`] with these lengths gives a tensor of this shape.
fn reshaped(shape: &Shape, lengths: &[i64]) -> Result<Vec<Option<usize>>, String> {
    let all = shape.as_ref().and_then(|shape| product_of(shape.iter().copied()));
    let cannot = || format!("shape {shape:?} does not become {lengths:?}");
    let mut found = Vec::with_capacity(lengths.len());
    for (at, length) in lengths.iter().enumerate() {
        found.push(match length {
            0 => match shape {
                Some(shape) => *shape.get(at).ok_or_else(cannot)?,
                None => None,
            },
            -1 => None,
            other => Some(usize::try_from(*other).map_err(|_| cannot())?),
        });
    }
    if let (Some(at), Some(all)) = (lengths.iter().position(|length| *length == -1), all) {
        let others = found.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, length)| *length);
        if let Some(others) = product_of(others).filter(|others| *others > 0) {
            found[at] = Some(all / others);
        }
    }
    // If the first length stays, the length of -1 follows from the other lengths.
    if let (Some((None, inner)), Some((0, _))) =
        (shape.as_ref().and_then(|shape| shape.split_first()), lengths.split_first())
        && let Some(at) = lengths.iter().position(|length| *length == -1)
    {
        let others =
            found[1..].iter().enumerate().filter(|(other, _)| other + 1 != at).map(|(_, length)| *length);
        if let (Some(inner), Some(others)) = (product_of(inner.iter().copied()), product_of(others)) {
            found[at] = inner.checked_div(others);
        }
    }
    Ok(found)
}
