//! Which outputs of a graph are its predictions. A file may have more outputs, in any order.

use super::{
    error::GraphError,
    model::{Graph, GraphOutput, Operand},
    operator::Operator,
    tensor::Dtype,
    tensor_type::TensorType,
};

/// A kind of prediction of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prediction {
    /// The values of a regression, the probabilities or scores of a classifier, or the columns of a transformer.
    Value,
    /// The label of each row's class.
    Class,
    /// The margins of a forest with linear models in its leaves.
    Margin,
    /// The leaf ids of such a forest.
    Leaf,
}

impl Graph {
    /// Returns the graph with only one output, `rows x columns` or `rows`: the prediction of this kind. What only other
    /// outputs need is then not computed.
    ///
    /// A classifier's labels are its output of integers or texts that is named `label`, or else its first output if that
    /// has no floats. Its values are all the outputs of floats after that, side by side: some files have an output for
    /// each class or for each target. The values of another model are its first output of floats, or its only output.
    ///
    /// # Errors
    /// The graph does not verify, or has no such output.
    pub fn predicting(&self, what: Prediction) -> Result<Self, GraphError> {
        let types = self.types()?;
        let refused = |cause: &str| Err(GraphError::at("the outputs", cause));
        let leaves = self.linear_leaves().map(|(at, _)| at);
        let operands: Vec<Operand> = match (what, leaves) {
            (Prediction::Margin, Some(at)) => vec![Operand::Node(at, 0)],
            (Prediction::Leaf, Some(at)) => vec![Operand::Node(at, 1)],
            (Prediction::Margin | Prediction::Leaf, None) => {
                return refused("a graph has values and classes, and no margins or leaves");
            }
            (Prediction::Value | Prediction::Class, _) => {
                let floats =
                    |at: usize| matches!(types.of(self.outputs[at].operand).dtype, Dtype::F32 | Dtype::F64);
                let all = 0..self.outputs.len();
                // skl2onnx and onnxmltools name labels so. An embedding may come before them, and leaf ids after values.
                let is_label = |at: &usize| self.outputs[*at].name.ends_with("label");
                let first = all.clone().next().filter(|at| !floats(*at));
                let label = all.clone().filter(|at| !floats(*at)).find(is_label).or(first);
                match (what, label) {
                    (Prediction::Value, _) if all.len() == 1 => vec![self.outputs[0].operand],
                    (Prediction::Class, Some(label)) => vec![self.outputs[label].operand],
                    (Prediction::Class, None) => return refused("the graph gives no classes"),
                    (_, Some(label)) => all
                        .skip(label + 1)
                        .filter(|at| floats(*at))
                        .map(|at| self.outputs[at].operand)
                        .collect(),
                    (_, None) => {
                        let at = all.clone().find(|at| floats(*at)).or(all.clone().next());
                        at.map(|at| self.outputs[at].operand).into_iter().collect()
                    }
                }
            }
        };
        let mut graph = self.clone();
        let mut columns = Vec::with_capacity(operands.len());
        for operand in operands {
            columns.push(graph.rows_first(operand, types.of(operand))?);
        }
        let operand = match columns[..] {
            [] => return refused("the graph gives classes and no values"),
            [(only, _)] => only,
            _ => {
                let wide = columns.iter().any(|(_, found)| found.dtype == Dtype::F64);
                let dtype = if wide { Dtype::F64 } else { Dtype::F32 };
                let mut joined = Vec::with_capacity(columns.len());
                for (mut operand, found) in columns {
                    if found.dtype != dtype {
                        operand = graph.node("predictions", Operator::Cast(dtype), [operand]);
                    }
                    if found.dimensions() == Some(1) {
                        operand = graph.node("predictions", Operator::Unsqueeze(vec![1]), [operand]);
                    }
                    joined.push(operand);
                }
                graph.node("predictions", Operator::Concat { axis: 1 }, joined)
            }
        };
        graph.outputs = vec![GraphOutput { name: "predictions".into(), operand }];
        graph.verify()?;
        Ok(graph)
    }

    /// Returns a tensor that has the rows as its second dimension with the rows first, and all else beside them.
    fn rows_first(
        &mut self,
        operand: Operand,
        found: &TensorType,
    ) -> Result<(Operand, TensorType), GraphError> {
        let name = "predictions";
        let of = |shape: Vec<Option<usize>>| TensorType { dtype: found.dtype, shape: Some(shape) };
        Ok(match found.shape.as_deref() {
            // Labels of a discriminant analysis.
            Some([Some(1), None]) => {
                (self.node(name, Operator::Reshape(vec![-1]), [operand]), of(vec![None]))
            }
            // Probabilities of a forest of several targets.
            Some([Some(outputs), None, Some(width)]) => {
                let columns = outputs.saturating_mul(*width);
                let length = i64::try_from(columns);
                let length = length.map_err(|_| GraphError::at(name, "it has too many columns"))?;
                let rows_first = self.node(name, Operator::Transpose(vec![1, 0, 2]), [operand]);
                let flat = self.node(name, Operator::Reshape(vec![-1, length]), [rows_first]);
                (flat, of(vec![None, Some(columns)]))
            }
            _ => (operand, found.clone()),
        })
    }
}
