//! Constant folding, common subexpressions, and operators that change nothing or cancel.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::super::{
    error::GraphError,
    model::{Graph, Node, Operand},
    operator::{Operator, Unary},
    reduce::axis_of,
    tensor::{Dtype, Elements, Tensor},
    tensor_type::TensorType,
};
use super::rebuild::Rebuild;

/// The maximum number of elements that a folded constant may have beyond those that it is computed from.
const MOST_NEW_ELEMENTS: usize = 1 << 16;

/// An operator whose operands are all weights becomes a weight.
pub(super) fn constants(old: &Graph) -> Result<Graph, GraphError> {
    let mut new = Rebuild::of(old);
    for node in &old.nodes {
        match folded(&new, node) {
            Some(results) => {
                let results = results.into_iter().map(|tensor| new.weight(tensor)).collect();
                new.becomes(results);
            }
            None => new.keep(node)?,
        }
    }
    Ok(new.finish(old))
}

/// Returns the results of a node whose operands are all weights, or `None` if the node must stay.
fn folded(new: &Rebuild, node: &Node) -> Option<Vec<Tensor>> {
    if node.operator.forest().is_some() {
        return None;
    }
    let operands = new.operands(node);
    let weights: Vec<&Tensor> =
        operands.iter().map(|operand| new.graph.weight_of(*operand)).collect::<Option<_>>()?;
    let given: usize = weights.iter().map(|weight| weight.elements().len()).sum();
    // A few numbers must not become a large weight.
    let mut alone = new.results_of(&node.operator, &operands).ok()?.into_iter();
    if alone.any(|result| result.count().is_none_or(|count| count > given + MOST_NEW_ELEMENTS)) {
        return None;
    }
    // A node that can't be evaluated stays, and gives an error when the graph runs.
    node.operator.evaluate(&weights).ok()
}

/// Equal weights become one weight, and nodes that compute the same become one node.
pub(super) fn duplicates(old: &Graph) -> Result<Graph, GraphError> {
    let mut new = Rebuild::of(old);
    let mut weights: HashMap<u64, Vec<u32>> = HashMap::new();
    let mut same = Vec::with_capacity(old.weights.len());
    for (at, weight) in (0u32..).zip(&old.weights) {
        let alike = weights.entry(hash(weight)).or_default();
        let known = alike.iter().copied().find(|at| equal_to_the_bit(&old.weights[*at as usize], weight));
        same.push(known.unwrap_or(at));
        if known.is_none() {
            alike.push(at);
        }
    }
    let mut nodes: HashMap<(&'static str, Vec<Operand>), Vec<usize>> = HashMap::new();
    for node in &old.nodes {
        let operands: Vec<Operand> = node
            .operands
            .iter()
            .map(|operand| match new.operand(*operand) {
                Operand::Weight(at) => Operand::Weight(same[at as usize]),
                other => other,
            })
            .collect();
        let alike = nodes.entry((node.operator.name(), operands.clone())).or_default();
        let known = alike.iter().copied().find(|at| is_same(&new.graph.nodes[*at].operator, &node.operator));
        match known {
            Some(at) => {
                let results = 0..node.operator.results() as u32;
                new.becomes(results.map(|result| Operand::Node(at as u32, result)).collect());
            }
            None => {
                alike.push(new.graph.nodes.len());
                new.replace(&node.name, node.operator.clone(), operands)?;
            }
        }
    }
    Ok(new.finish(old))
}

/// Returns whether two operators are the same. Zeros of different signs are different.
fn is_same(a: &Operator, b: &Operator) -> bool {
    let holds_elements = matches!(a, Operator::Fill(_) | Operator::Lookup { .. });
    a == b && (!holds_elements || format!("{a:?}") == format!("{b:?}"))
}

/// Returns whether two tensors have the same type, shape and elements, to the bit.
pub(super) fn equal_to_the_bit(a: &Tensor, b: &Tensor) -> bool {
    let elements = match (a.elements(), b.elements()) {
        (Elements::F32(a), Elements::F32(b)) => {
            a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()))
        }
        (Elements::F64(a), Elements::F64(b)) => {
            a.iter().map(|v| v.to_bits()).eq(b.iter().map(|v| v.to_bits()))
        }
        (a, b) => a == b,
    };
    elements && a.shape() == b.shape()
}

/// Returns a hash that is the same for tensors that are equal to the bit.
fn hash(tensor: &Tensor) -> u64 {
    let mut hasher = DefaultHasher::new();
    tensor.shape().hash(&mut hasher);
    match tensor.elements() {
        Elements::Bool(values) => values.hash(&mut hasher),
        Elements::I32(values) => values.hash(&mut hasher),
        Elements::I64(values) => values.hash(&mut hasher),
        Elements::F32(values) => values.iter().for_each(|v| v.to_bits().hash(&mut hasher)),
        Elements::F64(values) => values.iter().for_each(|v| v.to_bits().hash(&mut hasher)),
        Elements::Text(values) => values.hash(&mut hasher),
    }
    hasher.finish()
}

/// Operators that change nothing or that cancel are removed.
pub(super) fn redundant(old: &Graph) -> Result<Graph, GraphError> {
    let mut new = Rebuild::of(old);
    let mut readers = vec![0usize; old.nodes.len()];
    let of_outputs = old.outputs.iter().map(|output| &output.operand);
    for operand in old.nodes.iter().flat_map(|node| &node.operands).chain(of_outputs) {
        if let Operand::Node(at, _) = operand {
            readers[*at as usize] += 1;
        }
    }
    for node in &old.nodes {
        let operands = new.operands(node);
        let alone = matches!(node.operands[..], [Operand::Node(at, _), ..] if readers[at as usize] == 1);
        match simpler(&new, &node.operator, &operands, alone) {
            Some(Simpler::Operand(operand)) => new.becomes(vec![operand]),
            Some(Simpler::Node(operator, operand)) => new.replace(&node.name, operator, vec![operand])?,
            Some(Simpler::Choice(axis, weight, indices)) => {
                let weight = new.weight(weight);
                new.replace(&node.name, Operator::Gather { axis }, vec![weight, indices])?;
            }
            None => new.keep(node)?,
        }
    }
    Ok(new.finish(old))
}

/// What replaces a node.
enum Simpler {
    /// An operand that exists already.
    Operand(Operand),
    /// Another operator of one operand.
    Node(Operator, Operand),
    /// Elements that are gathered from a weight along an axis, with these indices.
    Choice(i64, Tensor, Operand),
}

/// Returns a simpler replacement of an operator, if there is one. `alone` says whether nothing else reads its
/// first operand.
fn simpler(new: &Rebuild, operator: &Operator, operands: &[Operand], alone: bool) -> Option<Simpler> {
    let x = operands[0];
    let read = new.type_of(x);
    let same_axis = |a: i64, b: i64| {
        let dimensions = read.dimensions()?;
        Some(axis_of(a, dimensions).ok()? == axis_of(b, dimensions).ok()?)
    };
    let in_order = |order: &[usize]| order.iter().copied().eq(0..order.len());
    let before = new.node_of(x).map(|node| (&node.operator, node.operands[0]));
    match (operator, before) {
        (Operator::Cast(to), _) if read.dtype == *to => Some(Simpler::Operand(x)),
        (Operator::Cast(to), Some((Operator::Cast(through), first))) => {
            let from = new.type_of(first).dtype;
            match widens(from, *through) {
                true if from == *to => Some(Simpler::Operand(first)),
                // The text of a number depends on the number's type.
                true if *to != Dtype::Text => Some(Simpler::Node(Operator::Cast(*to), first)),
                _ => None,
            }
        }
        (Operator::Reshape(lengths), Some((Operator::Reshape(_), first))) if !lengths.contains(&0) => {
            Some(Simpler::Node(Operator::Reshape(lengths.clone()), first))
        }
        // A cast of elements that are gathered from a weight becomes a cast of the weight.
        (Operator::Cast(to), Some((Operator::Gather { axis }, first))) if alone => {
            let weight = new.graph.weight_of(first)?;
            if weight.elements().len() > MOST_NEW_ELEMENTS {
                return None;
            }
            let found = Operator::Cast(*to).evaluate(&[weight]).ok()?.pop()?;
            Some(Simpler::Choice(*axis, found, new.node_of(x)?.operands[1]))
        }
        // An index of an extreme that keeps its axis, and a reshape that drops the axis.
        (
            Operator::Reshape(lengths),
            Some((Operator::ArgExtreme { axis, keep: true, greatest, last }, first)),
        ) if alone
            && lengths[..] == [-1]
            && new.type_of(first).dimensions() == Some(2)
            && axis_of(*axis, 2) == Ok(1) =>
        {
            let (axis, greatest, last) = (*axis, *greatest, *last);
            Some(Simpler::Node(Operator::ArgExtreme { axis, keep: false, greatest, last }, first))
        }
        (Operator::Reshape(lengths), _) if keeps_shape(read, lengths) => Some(Simpler::Operand(x)),
        (Operator::Transpose(order), _) if in_order(order) => Some(Simpler::Operand(x)),
        (Operator::Transpose(order), Some((Operator::Transpose(earlier), first))) => {
            let order: Option<Vec<usize>> = order.iter().map(|at| earlier.get(*at).copied()).collect();
            Some(Simpler::Node(Operator::Transpose(order?), first))
        }
        (Operator::Unary(how), Some((Operator::Unary(earlier), first))) if how == earlier => match how {
            Unary::Not | Unary::Negate => Some(Simpler::Operand(first)),
            // A second call of these functions changes nothing.
            Unary::Abs | Unary::Relu | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Sign => {
                Some(Simpler::Operand(x))
            }
            _ => None,
        },
        // A slice of the whole axis.
        (Operator::Slice { axis, start: 0, end, step: 1 }, _) => {
            let shape = read.shape.as_ref()?;
            let length = shape[axis_of(*axis, shape.len()).ok()?]?;
            usize::try_from(*end).is_ok_and(|end| end >= length).then_some(Simpler::Operand(x))
        }
        (Operator::Concat { .. }, _) if operands.len() == 1 => Some(Simpler::Operand(x)),
        // The greatest probability has the greatest score. Finite scores that a softmax rounds to one probability
        // differ by less than 2^-23.
        (
            Operator::ArgExtreme { axis, greatest: true, .. },
            Some((Operator::Softmax { axis: along }, first)),
        ) if same_axis(*axis, *along) == Some(true) => Some(Simpler::Node(operator.clone(), first)),
        _ => None,
    }
}

/// Returns whether a reshape to these lengths keeps the shape. Only the first length of the tensor may differ
/// from batch to batch.
fn keeps_shape(x: &TensorType, lengths: &[i64]) -> bool {
    let same = |(at, (length, to)): (usize, (&Option<usize>, &i64))| match length {
        Some(length) => usize::try_from(*to) == Ok(*length) && *length > 0 || at == 0 && *to == 0,
        None => at == 0 && matches!(to, -1 | 0),
    };
    let Some(shape) = &x.shape else { return false };
    shape.len() == lengths.len() && shape.iter().zip(lengths).enumerate().all(same)
}

/// Returns whether a cast keeps every value.
pub(super) fn widens(from: Dtype, to: Dtype) -> bool {
    use Dtype::{Bool, F32, F64, I32, I64};
    matches!((from, to), (Bool, I32 | I64 | F32 | F64) | (I32, I64 | F64) | (F32, F64)) || from == to
}
