//! Products with weights that are mostly 0.

use std::sync::Arc;

use super::super::{
    interpret::GraphError,
    model::{Graph, Operand},
    operator::Operator,
    tensor::Dtype,
};
use super::rebuild::Rebuild;
use crate::{cost::SPARSE_DENSITY, sparse::SparseMatrix};

/// Products with a matrix of which at most [`SPARSE_DENSITY`] of the elements are not 0 skip the others.
pub(super) fn replace(old: &Graph) -> Result<Graph, GraphError> {
    replace_up_to(old, SPARSE_DENSITY)
}

/// Products with a matrix of which at most this part of the elements is not 0 skip the others.
pub(super) fn replace_up_to(old: &Graph, density: f64) -> Result<Graph, GraphError> {
    let mut new = Rebuild::of(old);
    for node in &old.nodes {
        match node.operands.get(1).and_then(|weight| sparse(old, &node.operator, *weight, density)) {
            Some(weights) => {
                let x = new.operand(node.operands[0]);
                new.replace(&node.name, Operator::SparseMatMul(Arc::new(weights)), vec![x])?;
            }
            None => new.keep(node)?,
        }
    }
    Ok(new.finish(old))
}

/// Returns the weight of a product in sparse rows, if few of its elements are not 0.
fn sparse(old: &Graph, operator: &Operator, weight: Operand, density: f64) -> Option<SparseMatrix<f64>> {
    let weight = old.weight_of(weight).filter(|_| *operator == Operator::MatMul)?;
    let [rows, columns] = *weight.shape() else { return None };
    let floats = matches!(weight.dtype(), Dtype::F32 | Dtype::F64);
    // NaN and infinities count as filled.
    if !floats || weight.density() > density {
        return None;
    }
    SparseMatrix::of_dense([rows, columns], &weight.elements().doubles()?)
}
