//! Builds the new graph of a pass, node by node, in the old graph's order.

use std::sync::Arc;

use super::super::{
    error::GraphError,
    model::{Graph, Node, Operand},
    operator::Operator,
    tensor::Tensor,
    tensor_type::TensorType,
    types::GraphTypes,
};

/// The new graph of a pass while it is built.
pub(super) struct Rebuild {
    /// The new graph. Its inputs are the old graph's, and its weights begin with them.
    pub(super) graph: Graph,
    /// The types of the new graph.
    types: GraphTypes,
    /// For each result of the old nodes, the operand of the new graph that replaces it.
    found: Vec<Vec<Operand>>,
}

impl Rebuild {
    pub(super) fn of(old: &Graph) -> Self {
        let graph = Graph {
            inputs: old.inputs.clone(),
            weights: old.weights.clone(),
            nodes: Vec::with_capacity(old.nodes.len()),
            outputs: Vec::new(),
        };
        Self { types: GraphTypes::of_leaves(&graph), graph, found: Vec::with_capacity(old.nodes.len()) }
    }

    /// Returns the operand of the new graph that replaces an operand of the old one.
    pub(super) fn operand(&self, old: Operand) -> Operand {
        match old {
            Operand::Node(at, result) => self.found[at as usize][result as usize],
            other => other,
        }
    }

    /// Returns the operands of an old node in the new graph.
    pub(super) fn operands(&self, node: &Node) -> Vec<Operand> {
        node.operands.iter().map(|operand| self.operand(*operand)).collect()
    }

    /// Returns the type of an operand of the new graph.
    pub(super) fn type_of(&self, operand: Operand) -> &TensorType {
        self.types.of(operand)
    }

    /// Returns the types of the results that an operator has for these operands.
    pub(super) fn results_of(
        &self,
        operator: &Operator,
        operands: &[Operand],
    ) -> Result<Vec<TensorType>, String> {
        self.types.results_of(operator, operands)
    }

    /// Returns the node of the new graph that has an operand as its first result.
    pub(super) fn node_of(&self, operand: Operand) -> Option<&Node> {
        match operand {
            Operand::Node(at, 0) => self.graph.nodes.get(at as usize),
            _ => None,
        }
    }

    /// Sets the operands that replace the results of the next old node.
    pub(super) fn becomes(&mut self, results: Vec<Operand>) {
        self.found.push(results);
    }

    /// Adds a node and returns its results.
    pub(super) fn node(
        &mut self,
        name: &str,
        operator: Operator,
        operands: Vec<Operand>,
    ) -> Result<Vec<Operand>, GraphError> {
        let results = operator.results() as u32;
        let at = self.graph.nodes.len() as u32;
        let node = Node { name: name.to_owned(), operator, operands };
        self.types.push_node(&node)?;
        self.graph.nodes.push(node);
        Ok((0..results).map(|result| Operand::Node(at, result)).collect())
    }

    /// Adds the next old node as it is.
    pub(super) fn keep(&mut self, node: &Node) -> Result<(), GraphError> {
        let operands = self.operands(node);
        self.replace(&node.name, node.operator.clone(), operands)
    }

    /// Adds a node in place of the next old one. Both have the same number of results.
    pub(super) fn replace(
        &mut self,
        name: &str,
        operator: Operator,
        operands: Vec<Operand>,
    ) -> Result<(), GraphError> {
        let results = self.node(name, operator, operands)?;
        self.becomes(results);
        Ok(())
    }

    /// Adds a weight.
    pub(super) fn weight(&mut self, tensor: impl Into<Arc<Tensor>>) -> Operand {
        let tensor = tensor.into();
        self.types.push_weight(&tensor);
        self.graph.weight(tensor)
    }

    /// Returns the whole graph.
    pub(super) fn finish(mut self, old: &Graph) -> Graph {
        for output in &old.outputs {
            let operand = self.operand(output.operand);
            self.graph.output(&output.name, operand);
        }
        self.graph
    }
}

impl Graph {
    /// Returns the graph without the nodes and weights that no output needs.
    #[must_use]
    pub fn used(&self) -> Self {
        let mut nodes = vec![false; self.nodes.len()];
        let mut weights = vec![false; self.weights.len()];
        let mut keep = |operand: Operand, nodes: &mut [bool]| match operand {
            Operand::Node(at, _) => nodes[at as usize] = true,
            Operand::Weight(at) => weights[at as usize] = true,
            Operand::Input(_) => {}
        };
        self.outputs.iter().for_each(|output| keep(output.operand, &mut nodes));
        for (at, node) in self.nodes.iter().enumerate().rev() {
            if nodes[at] {
                node.operands.iter().for_each(|operand| keep(*operand, &mut nodes));
            }
        }
        // The new index of each node or weight that stays.
        let numbers = |used: &[bool]| -> Vec<u32> {
            used.iter()
                .scan(0, |next, used| Some(std::mem::replace(next, *next + u32::from(*used))))
                .collect()
        };
        let (of_nodes, of_weights) = (numbers(&nodes), numbers(&weights));
        let renamed = |operand: &Operand| match *operand {
            Operand::Node(at, result) => Operand::Node(of_nodes[at as usize], result),
            Operand::Weight(at) => Operand::Weight(of_weights[at as usize]),
            input => input,
        };
        let kept = self.nodes.iter().zip(&nodes).filter(|(_, used)| **used).map(|(node, _)| Node {
            name: node.name.clone(),
            operator: node.operator.clone(),
            operands: node.operands.iter().map(renamed).collect(),
        });
        let mut outputs = self.outputs.clone();
        outputs.iter_mut().for_each(|output| output.operand = renamed(&output.operand));
        Self {
            inputs: self.inputs.clone(),
            weights: self
                .weights
                .iter()
                .zip(&weights)
                .filter(|(_, used)| **used)
                .map(|(w, _)| w.clone())
                .collect(),
            nodes: kept.collect(),
            outputs,
        }
    }
}
