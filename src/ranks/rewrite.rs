//! Rewrites a forest so that its splits compare ranks.

use super::{
    Column, ColumnKind,
    columns::{ColumnIndex, Decision, ForestPredicates},
};
use crate::forest::{CompareType, Feature, Forest, Node, Predicate, Real, Side, Tree};

/// Returns a forest of the same trees in which each split compares a rank column.
pub(super) fn on_ranks(forest: &Forest, predicates: &ForestPredicates, index: &ColumnIndex) -> Forest {
    let node = |node: &Node| match *node {
        Node::Leaf { .. } => *node,
        Node::Split { feature, predicate, missing, left, right } => {
            let Decision { column, threshold, swapped } =
                predicates.decision(index, feature, missing, predicate);
            let (left, right) = if swapped { (right, left) } else { (left, right) };
            let threshold = Real(f64::from(threshold));
            let missing = index.columns[column as usize].missing;
            Node::Split { feature: column, predicate: Predicate::Less { threshold }, missing, left, right }
        }
    };
    let tree = |tree: &Tree| Tree { nodes: tree.nodes.iter().map(node).collect(), ids: tree.ids.clone() };
    Forest {
        producer: forest.producer.clone(),
        features: index.columns.iter().map(|column| feature(forest, column)).collect(),
        outputs: forest.outputs,
        trees: forest.trees.iter().map(tree).collect(),
        targets: forest.targets.clone(),
        leaf_values: forest.leaf_values.clone(),
        sets: Vec::new(),
        base_score: forest.base_score.clone(),
        aggregate: forest.aggregate,
        // Ranks are integers below 2^24, so an `f32` represents each of them.
        compare: CompareType::F32,
        scale: forest.scale,
        transform: forest.transform,
        classes: forest.classes.clone(),
        covers: forest.covers.clone(),
        gains: None,
    }
}

/// Names a rank column: the feature's own name, and its thresholds or question, which no other column of the
/// feature has.
fn feature(forest: &Forest, column: &Column) -> Feature {
    let own = forest.features[column.feature as usize].name.clone();
    let own = own.unwrap_or_else(|| format!("x[{}]", column.feature));
    let missing = if column.missing == Side::Left { "left" } else { "right" };
    let name = match column.asks {
        ColumnKind::Thresholds { first, count } => {
            format!(
                "{own} among thresholds {first}..{}, missing {missing}",
                u64::from(first) + u64::from(count)
            )
        }
        ColumnKind::Question { predicate } => format!("{own} {predicate}, missing {missing}"),
    };
    Feature { name: Some(name), ..Feature::default() }
}
