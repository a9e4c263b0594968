//! Graphs: inputs, weights, nodes, each after its operands, and outputs.

use std::sync::Arc;

use super::{
    error::GraphError,
    operator::Operator,
    tensor::{Dtype, Tensor},
};
use crate::forest::Feature;

/// A tensor that a node reads or that a graph returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// An input of the graph, by its index.
    Input(u32),
    /// A weight of the graph, by its index.
    Weight(u32),
    /// A result of a node: the index of the node, and that of the result.
    Node(u32, u32),
}

/// An input of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphInput {
    /// The name.
    pub name: String,
    /// The type of its elements.
    pub dtype: Dtype,
    /// The lengths of its dimensions. `None` stands for a length that may differ from batch to batch, such as
    /// the number of rows.
    pub shape: Vec<Option<usize>>,
    /// The columns of a table that the input holds, with their names and the numbers of their categories. Empty if
    /// nothing is known of them.
    pub columns: Vec<Feature>,
}

/// An output of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOutput {
    /// The name.
    pub name: String,
    /// The tensor that is returned.
    pub operand: Operand,
}

/// An operator with its operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where the node comes from, for messages: the node's name or its location in a file.
    pub name: String,
    /// The operator.
    pub operator: Operator,
    /// The tensors that the operator reads, in its order.
    pub operands: Vec<Operand>,
}

/// A graph of tensor operators.
///
/// ```
/// use fangorn::graph::{Binary, Dtype, Elements, Graph, Operator, Tensor};
///
/// let mut graph = Graph::default();
/// let x = graph.input("x", Dtype::F32, [None, Some(2)]);
/// let scale = graph.weight(Tensor::new([2], Elements::F32(vec![2.0, 0.5])).expect("two numbers"));
/// let scaled = graph.node("scale", Operator::Binary(Binary::Multiply), [x, scale]);
/// graph.output("scaled", scaled);
/// graph.verify()?;
/// let rows = Tensor::new([1, 2], Elements::F32(vec![3.0, 4.0])).expect("a row");
/// let found = graph.run(&[rows])?;
/// assert_eq!(found[0].elements(), &Elements::F32(vec![6.0, 2.0]));
/// # Ok::<(), fangorn::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The tensors that the caller passes.
    pub inputs: Vec<GraphInput>,
    /// The constant tensors of the model.
    pub weights: Vec<Arc<Tensor>>,
    /// The operators with their operands. Each node comes after the nodes that it reads.
    pub nodes: Vec<Node>,
    /// The tensors that the caller gets.
    pub outputs: Vec<GraphOutput>,
}

impl Graph {
    /// Adds an input, and returns it as an operand.
    pub fn input(&mut self, name: &str, dtype: Dtype, shape: impl Into<Vec<Option<usize>>>) -> Operand {
        let input = GraphInput { name: name.to_owned(), dtype, shape: shape.into(), columns: Vec::new() };
        self.inputs.push(input);
        Operand::Input(self.inputs.len() as u32 - 1)
    }

    /// Adds a weight, and returns it as an operand.
    pub fn weight(&mut self, tensor: impl Into<Arc<Tensor>>) -> Operand {
        self.weights.push(tensor.into());
        Operand::Weight(self.weights.len() as u32 - 1)
    }

    /// Adds a node, and returns its first result.
    pub fn node(
        &mut self,
        name: &str,
        operator: Operator,
        operands: impl IntoIterator<Item = Operand>,
    ) -> Operand {
        let operands = operands.into_iter().collect();
        self.nodes.push(Node { name: name.to_owned(), operator, operands });
        Operand::Node(self.nodes.len() as u32 - 1, 0)
    }

    /// Adds an output.
    pub fn output(&mut self, name: &str, operand: Operand) {
        self.outputs.push(GraphOutput { name: name.to_owned(), operand });
    }

    /// Returns the tensor of an operand that is a weight, or `None` for another operand.
    pub fn weight_of(&self, operand: Operand) -> Option<&Tensor> {
        match operand {
            Operand::Weight(at) => self.weights.get(at as usize).map(|weight| &**weight),
            _ => None,
        }
    }

    /// Checks that the graph is whole: every operand exists and comes before the node that reads it, each
    /// operator has as many operands as it takes, of types and shapes that it takes, and there is an output.
    ///
    /// # Errors
    /// The error names the first thing that is wrong, and where it is.
    pub fn verify(&self) -> Result<(), GraphError> {
        self.types().map(drop)
    }

    /// Checks everything but types and shapes.
    pub(super) fn verify_structure(&self) -> Result<(), GraphError> {
        for input in &self.inputs {
            let width = input.shape.get(1).copied().unwrap_or(Some(1));
            if !input.columns.is_empty() && width != Some(input.columns.len()) {
                let cause = format!("it has {} columns, and shape {:?}", input.columns.len(), input.shape);
                return Err(GraphError::at(&input.name, cause));
            }
        }
        let is_there = |operand: Operand, before: usize| match operand {
            Operand::Input(at) => (at as usize) < self.inputs.len(),
            Operand::Weight(at) => (at as usize) < self.weights.len(),
            Operand::Node(at, result) => {
                let node = self.nodes.get(at as usize).filter(|_| (at as usize) < before);
                node.is_some_and(|node| (result as usize) < node.operator.results())
            }
        };
        for (at, node) in self.nodes.iter().enumerate() {
            let (least, most) = node.operator.operands();
            if !(least..=most).contains(&node.operands.len()) {
                let cause = format!("{} takes {least} operands, not {}", node.operator, node.operands.len());
                return Err(GraphError::at(&node.name, cause));
            }
            if let Some(wrong) = node.operands.iter().find(|operand| !is_there(**operand, at)) {
                return Err(GraphError::at(&node.name, format!("{wrong:?} does not come before the node")));
            }
        }
        match self.outputs.iter().find(|output| !is_there(output.operand, self.nodes.len())) {
            Some(output) => Err(GraphError::at(&output.name, "nothing gives this output")),
            None if self.outputs.is_empty() => Err(GraphError::at("the graph", "it has no output")),
            None => Ok(()),
        }
    }
}
