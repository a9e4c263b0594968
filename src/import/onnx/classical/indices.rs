//! Operators that select or replace elements by their indices, and products that name their axes.

use super::super::super::ImportError;
use super::{Reader, Source, Value, tensors};
use crate::graph::{Binary, Elements, Operator, Reduction, Tensor};

impl Reader<'_> {
    /// Adds an operator of ONNX's own domain that takes indices or names its axes.
    pub(super) fn by_index(
        &mut self,
        source: &mut Source<'_>,
        axis: Option<i64>,
    ) -> Result<Value, ImportError> {
        match &source.node.op_type[..] {
            "Compress" => {
                let (mut x, condition) = (source.operand(0)?, source.operand(1)?);
                if axis.is_none() {
                    x = self.add(source, Operator::Reshape(vec![-1]), &[x], x.dtype);
                }
                if let Some(Elements::Bool(kept)) =
                    self.graph.weight_of(condition.operand).map(Tensor::elements)
                {
                    let indices = (0..).zip(kept).filter(|(_, kept)| **kept).map(|(at, _)| at).collect();
                    let indices = self.weight(tensors::list(Elements::I64(indices)));
                    let axis = axis.unwrap_or(0);
                    return Ok(self.add(source, Operator::Gather { axis }, &[x, indices], x.dtype));
                }
                Ok(self.add(source, Operator::Compress { axis: axis.unwrap_or(0) }, &[x, condition], x.dtype))
            }
            "ScatterElements" => {
                if let Some(how) = source.attributes.string("reduction").filter(|how| how != "none") {
                    return Err(source.unsupported(&format!(" with the reduction {how:?}")));
                }
                let operands = [source.operand(0)?, source.operand(1)?, source.operand(2)?];
                let operator = Operator::ScatterElements { axis: axis.unwrap_or(0) };
                Ok(self.add(source, operator, &operands, operands[0].dtype))
            }
            "Einsum" => {
                let equation = source.attributes.string("equation").unwrap_or_default().replace(' ', "");
                let axis = match &equation[..] {
                    "ij,ij->j" => 0,
                    "ij,ij->i" => 1,
                    other => return Err(source.unsupported(&format!(" of {other:?}"))),
                };
                let operands = [source.operand(0)?, source.operand(1)?];
                let dtype = operands[0].dtype;
                let products = self.add(source, Operator::Binary(Binary::Multiply), &operands, dtype);
                let sum = Operator::Reduce { how: Reduction::Sum, axes: vec![axis], keep: false };
                Ok(self.add(source, sum, &[products], dtype))
            }
            _ => Err(source.unsupported("")),
        }
    }

    /// Adds the solution of a system of linear equations.
    pub(super) fn solve(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        if ["lower", "transposed"].iter().any(|name| source.attributes.int(name).unwrap_or(0) != 0) {
            return Err(source.unsupported(" of a triangular or a transposed matrix"));
        }
        let (a, b) = (source.operand(0)?, source.operand(1)?);
        Ok(self.add(source, Operator::Solve, &[a, b], b.dtype))
    }
}
