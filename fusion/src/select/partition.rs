//! Partitions of plans and their interesting points (section 4.2).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    dag::{Dag, NodeId},
    explore::{MemoTable, Template},
};

/// Why a reference is an interesting point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PointKind {
    /// The input has several consumers, or is also an output: it is written to memory once, or computed again for each
    /// consumer.
    Materialization,
    /// The input has plans of a template that the consumer has not. If it is fused, it can't use that template.
    Switch,
}

/// A reference that may be cut: the input is then written to memory, and the consumer reads it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The input.
    pub input: NodeId,
    /// Its consumer.
    pub consumer: NodeId,
    /// Why it is an interesting point.
    pub kind: PointKind,
}

/// Operators whose plans are connected by references. Choices in one partition do not affect another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The operators, ascending.
    pub nodes: Vec<NodeId>,
    /// The operators that no plan references.
    pub roots: Vec<NodeId>,
    /// The operators whose results every plan writes to memory: the roots, outputs, and inputs of other partitions.
    pub demanded: Vec<NodeId>,
    /// The nodes outside the partition that its operators read.
    pub inputs: Vec<NodeId>,
    /// The interesting points.
    pub points: Vec<Point>,
}

/// Returns the sets of nodes that edges connect, each ascending.
pub(super) fn components(
    nodes: &[NodeId],
    edges: impl Iterator<Item = (NodeId, NodeId)>,
) -> Vec<Vec<NodeId>> {
    let mut parent: BTreeMap<NodeId, NodeId> = nodes.iter().map(|node| (*node, *node)).collect();
    fn find(parent: &mut BTreeMap<NodeId, NodeId>, mut node: NodeId) -> NodeId {
        while parent[&node] != node {
            let above = parent[&parent[&node]];
            parent.insert(node, above);
            node = above;
        }
        node
    }
    for (a, b) in edges {
        let (a, b) = (find(&mut parent, a), find(&mut parent, b));
        parent.insert(a.max(b), a.min(b));
    }
    let mut found: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for node in nodes {
        found.entry(find(&mut parent, *node)).or_default().push(*node);
    }
    found.into_values().collect()
}

/// Returns the references of all entries of some nodes, each once, as pairs of input and consumer.
pub(super) fn references(memo: &MemoTable, nodes: &[NodeId]) -> BTreeSet<(NodeId, NodeId)> {
    let of = |node: &NodeId| {
        let node = *node;
        memo.entries(node).iter().flat_map(move |entry| entry.references().map(move |input| (input, node)))
    };
    nodes.iter().flat_map(of).collect()
}

impl Partition {
    /// Returns the partitions of a memo table.
    pub fn all(dag: &Dag, memo: &MemoTable) -> Vec<Self> {
        let nodes: Vec<NodeId> = memo.nodes().collect();
        let edges = references(memo, &nodes);
        components(&nodes, edges.iter().copied())
            .into_iter()
            .map(|nodes| Self::of(dag, memo, nodes))
            .collect()
    }

    fn of(dag: &Dag, memo: &MemoTable, nodes: Vec<NodeId>) -> Self {
        let edges = references(memo, &nodes);
        let inside = |node: &NodeId| nodes.binary_search(node).is_ok();
        let referenced: BTreeSet<NodeId> = edges.iter().map(|(input, _)| *input).collect();
        let roots: Vec<NodeId> = nodes.iter().filter(|node| !referenced.contains(node)).copied().collect();
        let demanded = nodes.iter().copied().filter(|node| {
            !referenced.contains(node)
                || dag.is_output(*node)
                || dag.consumers(*node).iter().any(|consumer| !inside(consumer))
        });
        let inputs: BTreeSet<NodeId> =
            nodes.iter().flat_map(|node| dag.inputs(*node)).filter(|input| !inside(input)).copied().collect();
        let templates = |node: NodeId| -> BTreeSet<Template> {
            memo.entries(node).iter().map(|entry| entry.template).collect()
        };
        let points = edges.iter().filter_map(|(input, consumer)| {
            let kind = if dag.consumers(*input).len() + usize::from(dag.is_output(*input)) > 1 {
                PointKind::Materialization
            } else if !templates(*input).is_subset(&templates(*consumer)) {
                PointKind::Switch
            } else {
                return None;
            };
            Some(Point { input: *input, consumer: *consumer, kind })
        });
        let points = points.collect();
        Self { demanded: demanded.collect(), roots, inputs: inputs.into_iter().collect(), points, nodes }
    }
}
