//! Graphs, and the checks that one is valid.

use super::{
    operator::Operator,
    sizes::{Shape, Size, size_of},
};
use crate::FusionError;

/// The index of a node in its graph.
pub type NodeId = usize;

/// An operator and its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// What it computes.
    pub operator: Operator,
    /// The nodes whose results it takes. They come before it.
    pub inputs: Vec<NodeId>,
}

/// A result that a run returns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// The node that makes it.
    pub node: NodeId,
}

/// A graph of linear algebra. It is valid: each node comes after its inputs, which fit its operator, and
/// neither two inputs nor two outputs share a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Dag {
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    sizes: Vec<Size>,
    consumers: Vec<Vec<NodeId>>,
}

impl Dag {
    /// Makes a graph of its nodes, each after its inputs, and of its outputs.
    ///
    /// # Errors
    /// Inputs don't fit their operator or don't come before it, two inputs or two outputs share a name, there
    /// is no output, or an output names no node.
    pub fn new(nodes: Vec<Node>, outputs: Vec<Output>) -> Result<Self, FusionError> {
        let mut sizes: Vec<Size> = Vec::with_capacity(nodes.len());
        let mut consumers = vec![Vec::new(); nodes.len()];
        let mut names: Vec<&str> = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            let wrong = |problem: String| FusionError::Node { node: at, problem };
            if node.inputs.len() != node.operator.arity() {
                let (takes, has) = (node.operator.arity(), node.inputs.len());
                return Err(wrong(format!("{} takes {takes} inputs and has {has}", node.operator.short())));
            }
            if let Some(late) = node.inputs.iter().find(|input| **input >= at) {
                return Err(wrong(format!("it takes %{late}, which does not come before it")));
            }
            if let Operator::Input { name, .. } = &node.operator {
                if names.contains(&name.as_str()) {
                    return Err(wrong(format!("another input is named {name:?}; choose another name")));
                }
                names.push(name);
            }
            for input in &node.inputs {
                if consumers[*input].last() != Some(&at) {
                    consumers[*input].push(at);
                }
            }
            let of_inputs: Vec<(&Operator, Size)> =
                node.inputs.iter().map(|input| (&nodes[*input].operator, sizes[*input])).collect();
            sizes.push(size_of(&node.operator, &of_inputs).map_err(wrong)?);
        }
        if outputs.is_empty() {
            return Err(FusionError::Output("there is no output; name at least one".to_owned()));
        }
        for (at, output) in outputs.iter().enumerate() {
            if output.node >= nodes.len() {
                return Err(FusionError::Output(format!("output {:?} names no node", output.name)));
            }
            if outputs[..at].iter().any(|before| before.name == output.name) {
                let name = &output.name;
                return Err(FusionError::Output(format!(
                    "two outputs are named {name:?}; choose another name"
                )));
            }
        }
        Ok(Self { nodes, outputs, sizes, consumers })
    }

    /// Returns the nodes, each after its inputs.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the outputs.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// Returns the operator of a node.
    ///
    /// # Panics
    /// There is no such node.
    pub fn operator(&self, node: NodeId) -> &Operator {
        &self.nodes[node].operator
    }

    /// Returns the inputs of a node.
    ///
    /// # Panics
    /// There is no such node.
    pub fn inputs(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node].inputs
    }

    /// Returns the nodes that take a node's result, each once.
    ///
    /// # Panics
    /// There is no such node.
    pub fn consumers(&self, node: NodeId) -> &[NodeId] {
        &self.consumers[node]
    }

    /// Tells whether a run returns the node's result.
    pub fn is_output(&self, node: NodeId) -> bool {
        self.outputs.iter().any(|output| output.node == node)
    }

    /// Returns the size of a node's result.
    ///
    /// # Panics
    /// There is no such node.
    pub fn size(&self, node: NodeId) -> Size {
        self.sizes[node]
    }

    /// Returns the number of rows and columns of a node's result.
    ///
    /// # Panics
    /// There is no such node.
    pub fn shape(&self, node: NodeId) -> Shape {
        self.sizes[node].shape
    }

    /// Returns the node that is transposed, if the node is a transposition.
    pub fn transposed(&self, node: NodeId) -> Option<NodeId> {
        (*self.operator(node) == Operator::Transpose).then(|| self.inputs(node)[0])
    }

    /// Returns the number of a node that is a literal.
    pub fn literal(&self, node: NodeId) -> Option<f64> {
        match self.operator(node) {
            Operator::Literal(number) => Some(number.0),
            _ => None,
        }
    }

    /// Tells whether the node is a unary or binary operator that gives more than a scalar.
    pub fn is_elementwise(&self, node: NodeId) -> bool {
        matches!(self.operator(node), Operator::Unary(_) | Operator::Binary(_)) && self.shape(node) != (1, 1)
    }

    /// Tells whether the node is an input of the run or a literal, and so takes no result of another node.
    pub fn is_source(&self, node: NodeId) -> bool {
        matches!(self.operator(node), Operator::Input { .. } | Operator::Literal(_))
    }
}
