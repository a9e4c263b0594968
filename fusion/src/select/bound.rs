//! A lower bound of the cost of the plans of a component, given some of their operators.

use std::collections::{BTreeSet, HashMap};

use super::{
    cost::Costs,
    operator::{Assignment, Reference, flops},
    partition::references,
};
use crate::{
    dag::{Dag, Format, NodeId, Operator, Size},
    explore::MemoTable,
};

/// A component of a partition, and for each node the least share of its elements that any plan computes.
pub(super) struct Bound<'a> {
    dag: &'a Dag,
    costs: &'a Costs,
    nodes: &'a [NodeId],
    references: Vec<Reference>,
    scales: Vec<f64>,
}

impl<'a> Bound<'a> {
    pub fn new(dag: &'a Dag, memo: &MemoTable, costs: &'a Costs, nodes: &'a [NodeId]) -> Self {
        let inside = |node: NodeId| nodes.binary_search(&node).is_ok();
        let references: Vec<Reference> =
            references(memo, nodes).into_iter().filter(|(input, _)| inside(*input)).collect();
        let touched = nodes.iter().flat_map(|node| dag.inputs(*node).iter().chain([node]));
        let sparse = touched.map(|node| dag.size(*node)).filter(|size| size.format == Format::Csr);
        let least = sparse.map(|size| size.filled).fold(1.0, f64::min);
        // A plan may skip elements of a node only if the node or what it aggregates is in CSR, or if it may skip
        // elements of a consumer of the same shape. Consumers come after their inputs, so the loop starts at the end.
        let consumers = |node: NodeId| {
            let first = references.partition_point(|(input, _)| *input < node);
            references[first..].iter().take_while(move |(input, _)| *input == node)
        };
        let mut scales = vec![1.0; nodes.len()];
        for (at, node) in nodes.iter().enumerate().rev() {
            let skips = dag.size(*node).format == Format::Csr
                || matches!(dag.operator(*node), Operator::Aggregate(..))
                    && dag.size(dag.inputs(*node)[0]).format == Format::Csr
                || consumers(*node).any(|(input, consumer)| {
                    dag.shape(*input) == dag.shape(*consumer)
                        && nodes.binary_search(consumer).is_ok_and(|index| scales[index] < 1.0)
                });
            scales[at] = if skips { least } else { 1.0 };
        }
        // A plan may compute only the distinct tuples of a compressed matrix where the node goes through its elements.
        let touched = nodes.iter().flat_map(|node| dag.inputs(*node).iter().chain([node]));
        let compressed: Vec<Size> =
            touched.map(|node| dag.size(*node)).filter(|size| size.format.is_compressed()).collect();
        for (scale, node) in scales.iter_mut().zip(nodes) {
            let is_aggregate = matches!(dag.operator(*node), Operator::Aggregate(..));
            let space = dag.shape(if is_aggregate { dag.inputs(*node)[0] } else { *node });
            let of_space = compressed.iter().filter(|size| size.shape == space);
            *scale = of_space.map(Size::distinct).fold(*scale, f64::min);
        }
        Self { dag, costs, nodes, references, scales }
    }

    fn index(&self, node: NodeId) -> Option<usize> {
        self.nodes.binary_search(&node).ok()
    }

    /// Returns a lower bound of the cost of the operators at `open` and of all that they need, in seconds. `written`
    /// says for each node of the component whether its operator is counted elsewhere or is open.
    ///
    /// A node that is needed and not written is computed at least once, by an operator within a component of the
    /// references that are not cut. A node to which no such reference leads is written and read. Reading and computing
    /// overlap within an operator, so a component takes the time of its writing plus the greater of reading and
    /// computing.
    pub fn rest(&self, open: &[NodeId], written: &[bool], assignment: &Assignment) -> f64 {
        let dag = self.dag;
        let mut parent: Vec<usize> = (0..self.nodes.len()).collect();
        let mut fusible = vec![false; self.nodes.len()];
        for reference in &self.references {
            if assignment.is_cut(*reference) {
                continue;
            }
            let (Some(input), Some(consumer)) = (self.index(reference.0), self.index(reference.1)) else {
                continue;
            };
            fusible[input] = true;
            let (a, b) = (find(&mut parent, input), find(&mut parent, consumer));
            parent[a.max(b)] = a.min(b);
        }
        let mut needed = vec![false; self.nodes.len()];
        let mut pending: Vec<usize> = open.iter().filter_map(|node| self.index(*node)).collect();
        pending.iter().for_each(|index| needed[*index] = true);
        let mut write = 0.0;
        pending.iter().for_each(|index| write += dag.size(self.nodes[*index]).bytes());
        let mut compute: HashMap<usize, f64> = HashMap::new();
        let mut reads: HashMap<(usize, NodeId), f64> = HashMap::new();
        let mut separate = BTreeSet::new();
        while let Some(index) = pending.pop() {
            let node = self.nodes[index];
            let component = find(&mut parent, index);
            *compute.entry(component).or_default() += flops(dag, node) * self.scales[index];
            for input in dag.inputs(node) {
                let within = self.index(*input);
                let fuses = within.is_some_and(|at| fusible[at] && find(&mut parent, at) == component);
                if !fuses {
                    let same_shape = dag.shape(*input) == dag.shape(node);
                    let bytes = dag.size(*input).bytes() * if same_shape { self.scales[index] } else { 1.0 };
                    let least = reads.entry((component, *input)).or_insert(bytes);
                    *least = least.min(bytes);
                }
                let Some(at) = within else { continue };
                if written[at] {
                    continue;
                }
                if !fuses && separate.insert(at) {
                    write += dag.size(*input).bytes();
                }
                if !needed[at] {
                    needed[at] = true;
                    pending.push(at);
                }
            }
        }
        let mut read: HashMap<usize, f64> = HashMap::new();
        reads.into_iter().for_each(|((component, _), bytes)| *read.entry(component).or_default() += bytes);
        let overlapped = compute.iter().map(|(component, operations)| {
            let read = read.get(component).copied().unwrap_or(0.0);
            (read / self.costs.read).max(operations / self.costs.compute)
        });
        write / self.costs.write + overlapped.sum::<f64>()
    }
}

fn find(parent: &mut [usize], mut index: usize) -> usize {
    while parent[index] != index {
        parent[index] = parent[parent[index]];
        index = parent[index];
    }
    index
}
