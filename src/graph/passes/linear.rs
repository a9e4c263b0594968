//! Linear models of one input, merged into one product.

use std::collections::HashMap;

use super::super::{
    error::GraphError,
    model::{Graph, Operand},
    operator::Operator,
    tensor::{Dtype, Elements, Tensor},
};
use super::rebuild::Rebuild;

/// Products of one tensor with several weights become one product, and a slice of it for each. Each element is
/// the same sum as before.
pub(super) fn merge(old: &Graph) -> Result<Graph, GraphError> {
    let types = old.types()?;
    let mut groups: HashMap<(Operand, usize, Dtype), Vec<usize>> = HashMap::new();
    for (at, node) in old.nodes.iter().enumerate() {
        if let (Operator::MatMul, [x, weight]) = (&node.operator, &node.operands[..])
            && let Some(weight) = old.weight_of(*weight)
            && let [rows, _] = *weight.shape()
            && types.of(*x).dimensions() == Some(2)
            && matches!(weight.dtype(), Dtype::F32 | Dtype::F64)
        {
            groups.entry((*x, rows, weight.dtype())).or_default().push(at);
        }
    }
    groups.retain(|_, nodes| nodes.len() > 1);
    let first_of: HashMap<usize, &Vec<usize>> = groups.values().map(|nodes| (nodes[0], nodes)).collect();
    let mut new = Rebuild::of(old);
    let mut merged: HashMap<usize, Operand> = HashMap::new();
    for (at, node) in old.nodes.iter().enumerate() {
        if let Some(nodes) = first_of.get(&at) {
            let weights: Vec<&Tensor> =
                nodes.iter().filter_map(|at| old.weight_of(old.nodes[*at].operands[1])).collect();
            let Some(weight) = side_by_side(&weights) else {
                new.keep(node)?;
                continue;
            };
            let (x, weight) = (new.operand(node.operands[0]), new.weight(weight));
            let product = new.node(&node.name, Operator::MatMul, vec![x, weight])?[0];
            let mut first = 0;
            for (at, weight) in nodes.iter().zip(weights) {
                let end = first + weight.shape()[1] as i64;
                let slice = Operator::Slice { axis: 1, start: first, end, step: 1 };
                merged.insert(*at, new.node(&old.nodes[*at].name, slice, vec![product])?[0]);
                first = end;
            }
        }
        match merged.get(&at) {
            Some(slice) => new.becomes(vec![*slice]),
            None => new.keep(node)?,
        }
    }
    Ok(new.finish(old))
}

/// Returns one matrix that holds matrices side by side. All have the same number of rows.
fn side_by_side(weights: &[&Tensor]) -> Option<Tensor> {
    let views: Vec<_> = weights.iter().map(|weight| weight.view()).collect();
    let joined = super::super::arrange::concat(1, &views).ok()?;
    matches!(joined.elements(), Elements::F32(_) | Elements::F64(_)).then_some(joined)
}
