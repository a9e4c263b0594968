//! Where two forests differ.

use serde::Serialize;

use super::{CategorySet, Forest, Node, Predicate, Side, Targets};

/// The differences between two forests, `a` and `b`.
///
/// ```
/// use fangorn::{forest::ForestDiff, import};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let a = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let mut b = a.clone();
/// b.leaf_values[0].0 += 1.0;
/// let diff = ForestDiff::new(&a, &b);
/// assert!(!diff.is_empty());
/// assert_eq!((diff.leaf_trees, diff.equal_trees), (1, a.trees.len() - 1));
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ForestDiff {
    /// Properties of the whole model that differ.
    pub model: Vec<FieldDiff>,
    /// The number of trees of `a` and of `b`. Trees with the same index are compared.
    pub trees: [usize; 2],
    /// Number of trees that are equal, leaf values included.
    pub equal_trees: usize,
    /// Number of trees with equal splits whose leaf values differ.
    pub leaf_trees: usize,
    /// The first difference of each tree that differs.
    pub differences: Vec<TreeDiff>,
}

/// A property of the whole model that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldDiff {
    /// The property.
    pub field: &'static str,
    /// Its value in `a`.
    pub a: String,
    /// Its value in `b`.
    pub b: String,
}

/// The first difference between two trees, in depth-first order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeDiff {
    /// The index of the two trees.
    pub tree: usize,
    /// The side taken at each split from the root on, `L` or `R`.
    pub path: String,
    /// The node at the end of the path in `a`.
    pub a: String,
    /// The node at the end of the path in `b`.
    pub b: String,
}

impl ForestDiff {
    /// Compares two forests.
    pub fn new(a: &Forest, b: &Forest) -> Self {
        let mut diff = Self {
            model: fields(a, b),
            trees: [a.trees.len(), b.trees.len()],
            equal_trees: 0,
            leaf_trees: 0,
            differences: Vec::new(),
        };
        for t in 0..a.trees.len().min(b.trees.len()) {
            match first_difference([a, b], t) {
                None => diff.equal_trees += 1,
                Some((difference, leaf)) => {
                    diff.leaf_trees += usize::from(leaf);
                    diff.differences.push(difference);
                }
            }
        }
        diff
    }

    /// Returns whether the forests are equal.
    pub fn is_empty(&self) -> bool {
        self.model.is_empty() && self.trees[0] == self.trees[1] && self.differences.is_empty()
    }
}

fn fields(a: &Forest, b: &Forest) -> Vec<FieldDiff> {
    let mut fields = Vec::new();
    let mut field = |field: &'static str, of: &dyn Fn(&Forest) -> String| {
        let (a, b) = (of(a), of(b));
        if a != b {
            fields.push(FieldDiff { field, a, b });
        }
    };
    field("producer", &|f| f.producer.library.clone());
    field("version", &|f| f.producer.version.clone());
    field("objective", &|f| f.producer.objective.clone());
    field("columns", &|f| f.features.len().to_string());
    field("column names", &|f| {
        let name = |f: &super::Feature| f.name.clone().unwrap_or_default();
        if f.features.iter().all(|f| f.name.is_none()) {
            "none".into()
        } else {
            f.features.iter().map(name).collect::<Vec<_>>().join(", ")
        }
    });
    field("outputs", &|f| f.outputs.to_string());
    field("base score", &|f| format!("{:?}", f.base_score));
    field("compared in", &|f| f.compare.name().into());
    field("aggregate", &|f| f.aggregate.name().into());
    field("scale", &|f| format!("{:?}", f.scale));
    field("transform", &|f| f.transform.name().into());
    field("classes", &|f| {
        let words = if f.classes.words { " as texts" } else { "" };
        format!("{} {:?}{words}", f.classes.rule, f.classes.labels)
    });
    field("targets", &|f| match &f.targets {
        Targets::All => "a value for each output in every leaf".into(),
        Targets::One(targets) => format!("{targets:?}"),
    });
    fields
}

/// Returns the first difference between two trees in depth-first order, and whether the trees differ in leaf
/// values only.
fn first_difference(forests: [&Forest; 2], t: usize) -> Option<(TreeDiff, bool)> {
    // For each visited pair of nodes, the index of its parent's entry and the side taken there. Storing a
    // path for each node would fill memory on a tree that is one long chain.
    let mut visits = vec![(0usize, ' ')];
    let mut open = vec![([0u32, 0u32], 0usize)];
    let mut leaf = None;
    while let Some((at, visit)) = open.pop() {
        let nodes = [0, 1].map(|i| forests[i].trees[t].nodes[at[i] as usize]);
        let report = |visits: &[(usize, char)]| {
            let mut path = String::new();
            let mut visit = visit;
            while visit != 0 {
                path.push(visits[visit].1);
                visit = visits[visit].0;
            }
            let text = |i: usize| node_text(forests[i], nodes[i]);
            TreeDiff { tree: t, path: path.chars().rev().collect(), a: text(0), b: text(1) }
        };
        match nodes {
            [Node::Leaf { slot: a }, Node::Leaf { slot: b }] => {
                if leaf.is_none() && forests[0].leaf(a) != forests[1].leaf(b) {
                    leaf = Some(report(&visits));
                }
            }
            [Node::Split { left: la, right: ra, .. }, Node::Split { left: lb, right: rb, .. }]
                if same_split(forests, nodes) =>
            {
                for (children, side) in [([ra, rb], 'R'), ([la, lb], 'L')] {
                    visits.push((visit, side));
                    open.push((children, visits.len() - 1));
                }
            }
            _ => return Some((report(&visits), false)),
        }
    }
    leaf.map(|difference| (difference, true))
}

/// Returns whether two splits ask the same predicate of the same column. Compares category sets by their members.
fn same_split(forests: [&Forest; 2], nodes: [Node; 2]) -> bool {
    let [
        Node::Split { feature: fa, predicate: pa, missing: ma, .. },
        Node::Split { feature: fb, predicate: pb, missing: mb, .. },
    ] = nodes
    else {
        return false;
    };
    let asks = match (pa, pb) {
        (Predicate::InSet { set: a, inside: ia }, Predicate::InSet { set: b, inside: ib }) => {
            let [a, b] = [&forests[0].sets[a as usize], &forests[1].sets[b as usize]];
            let members = |set: &CategorySet| set.members().collect::<Vec<_>>();
            ia == ib && a.rule == b.rule && (a.words == b.words || members(a) == members(b))
        }
        (a, b) => a == b,
    };
    fa == fb && ma == mb && asks
}

fn node_text(forest: &Forest, node: Node) -> String {
    let Node::Split { feature, predicate, missing, .. } = node else {
        return format!("leaf {:?}", node.slot().map_or(&[][..], |slot| forest.leaf(slot)));
    };
    let asks = match predicate {
        // Numbers of category sets can't be compared across models, so print the members.
        Predicate::InSet { set, inside } => {
            let members: Vec<u32> = forest.sets[set as usize].members().take(9).collect();
            let more = if members.len() == 9 { ", …" } else { "" };
            let members = members.iter().take(8).map(u32::to_string).collect::<Vec<_>>().join(", ");
            let not = if inside == Side::Left { "" } else { "not " };
            format!("{not}in {{{members}{more}}}")
        }
        other => other.to_string(),
    };
    format!("x[{feature}] {asks}, missing {}", format!("{missing:?}").to_lowercase())
}
