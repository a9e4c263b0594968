//! Products with weights that are mostly 0.

use std::sync::Arc;

use super::super::{
    error::GraphError,
    model::{Graph, Operand},
    operator::Operator,
    tensor::Dtype,
};
use super::rebuild::Rebuild;
use crate::{cost::PRODUCTS, sparse::SparseMatrix};

/// Products with a weight skip its zeros if that is estimated to be faster ([`PRODUCTS`]).
pub(super) fn replace(old: &Graph) -> Result<Graph, GraphError> {
    replace_where(old, |shape, filled| PRODUCTS.skipping_pays(shape, filled))
}

/// Products with a weight skip its zeros if `pays` returns true for the weight's shape and its number of elements that
/// are not 0.
pub(super) fn replace_where(
    old: &Graph,
    pays: impl Fn([usize; 2], usize) -> bool,
) -> Result<Graph, GraphError> {
    let mut new = Rebuild::of(old);
    for node in &old.nodes {
        match node.operands.get(1).and_then(|weight| sparse(old, &node.operator, *weight, &pays)) {
            Some(weights) => {
                let x = new.operand(node.operands[0]);
                new.replace(&node.name, Operator::SparseMatMul(Arc::new(weights)), vec![x])?;
            }
            None => new.keep(node)?,
        }
    }
    Ok(new.finish(old))
}

/// Returns the weight of a product as sparse rows, transposed, if `pays` returns true for it.
fn sparse(
    old: &Graph,
    operator: &Operator,
    weight: Operand,
    pays: &impl Fn([usize; 2], usize) -> bool,
) -> Option<SparseMatrix<f64>> {
    let weight = old.weight_of(weight).filter(|_| *operator == Operator::MatMul)?;
    let [rows, columns] = *weight.shape() else { return None };
    let floats = matches!(weight.dtype(), Dtype::F32 | Dtype::F64);
    // NaN and infinities count as filled.
    let values = weight.elements().doubles()?;
    let filled = values.iter().filter(|value| **value != 0.0).count();
    if !floats || !pays([rows, columns], filled) {
        return None;
    }
    let transposed: Vec<f64> = (0..columns)
        .flat_map(|column| (0..rows).map(move |row| row * columns + column))
        .map(|at| values[at])
        .collect();
    SparseMatrix::of_dense([columns, rows], &transposed)
}
