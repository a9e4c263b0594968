//! A tree as the page draws it.

use std::collections::VecDeque;

use fangorn::{
    Forest,
    forest::{Node, Predicate, Side, reference},
};
use serde::Serialize;

use crate::{
    error::{Error, Result},
    json::{Num, category_name, feature_name},
};

/// The maximum number of nodes that are drawn.
const MOST_NODES: usize = 1500;
/// The maximum number of categories, and of values of a leaf, that are listed.
const MOST_LISTED: usize = 8;

/// The top of a tree, and the path of a row through it.
#[derive(Debug, Serialize)]
pub struct DrawnTree {
    tree: usize,
    /// The output that the tree adds to; `None` if its leaves have a value for each output.
    output: Option<u32>,
    nodes_of_tree: usize,
    depth: u32,
    /// The nodes, parents before children; the root is first.
    nodes: Vec<DrawnNode>,
}

#[derive(Debug, Serialize)]
struct DrawnNode {
    /// The producer's number of the node.
    id: u32,
    depth: u32,
    /// Whether the row reaches the node.
    on_path: bool,
    cover: Option<Num>,
    /// A split's predicate; `None` for a leaf.
    #[serde(rename = "question")]
    predicate: Option<DrawnPredicate>,
    /// The indices of the children in the list of nodes, first for yes and then for no. `None` for a leaf, and for a
    /// node at which the drawing ends.
    children: Option<[usize; 2]>,
    /// A leaf's values; of many, the first ones.
    values: Vec<Num>,
    /// The number of a leaf's values.
    width: usize,
}

#[derive(Debug, Serialize)]
struct DrawnPredicate {
    column: u32,
    feature: String,
    /// `<`, `< or 0` if zeros go to the other side than the comparison says, `=`, `in`, `not in`, or `any`.
    operator: &'static str,
    threshold: Option<Num>,
    /// The first categories of a set. `members` is the number of all.
    categories: Vec<String>,
    members: usize,
    /// Whether a missing value goes to the child for yes.
    missing_is_yes: bool,
    /// The row's value. `category` is the name of its category.
    value: Option<Num>,
    category: Option<String>,
}

/// Returns the nodes of a tree down to a depth, and further down along the path of a row.
///
/// # Errors
/// The model has no such tree.
pub fn drawn(forest: &Forest, tree: usize, depth: u32, row: Option<&[f64]>) -> Result<DrawnTree> {
    let Some(of) = forest.trees.get(tree) else {
        return Err(Error::request(format!("tree {tree}: the model has {}", forest.trees.len())));
    };
    let mut found = DrawnTree {
        tree,
        output: match &forest.targets {
            fangorn::forest::Targets::One(outputs) => outputs.get(tree).copied(),
            fangorn::forest::Targets::All => None,
        },
        nodes_of_tree: of.nodes.len(),
        depth: of.depth(),
        nodes: Vec::new(),
    };
    // Nodes to add: the node, its depth, whether it is on the path, and the index of its parent with the side.
    let mut open = VecDeque::from([(0u32, 0u32, row.is_some(), None::<(usize, usize)>)]);
    while let Some((node, at_depth, on_path, parent)) = open.pop_front() {
        let index = found.nodes.len();
        if let Some((parent, side)) = parent
            && let Some(children) = &mut found.nodes[parent].children
        {
            children[side] = index;
        }
        let mut drawn = DrawnNode {
            id: of.ids[node as usize],
            depth: at_depth,
            on_path,
            cover: forest.covers.as_ref().map(|covers| Num(covers.tree(tree)[node as usize].0)),
            predicate: None,
            children: None,
            values: Vec::new(),
            width: forest.leaf_width(),
        };
        match of.nodes[node as usize] {
            Node::Leaf { slot } => {
                drawn.values = forest.leaf(slot).iter().take(MOST_LISTED).map(|value| Num(value.0)).collect();
            }
            Node::Split { feature, predicate, missing, left, right } => {
                let value = row.filter(|_| on_path).map(|row| row[feature as usize]);
                let goes = value.map(|value| reference::side(forest, predicate, missing, value));
                drawn.predicate = Some(drawn_predicate(forest, feature, predicate, missing, value));
                // In a hostile model a path may have a million nodes.
                if (at_depth < depth || on_path) && index + open.len() + 2 < MOST_NODES {
                    drawn.children = Some([0, 0]);
                    open.push_back((left, at_depth + 1, goes == Some(Side::Left), Some((index, 0))));
                    open.push_back((right, at_depth + 1, goes == Some(Side::Right), Some((index, 1))));
                }
            }
        }
        found.nodes.push(drawn);
    }
    Ok(found)
}

fn drawn_predicate(
    forest: &Forest,
    feature: u32,
    predicate: Predicate,
    missing: Side,
    value: Option<f64>,
) -> DrawnPredicate {
    let column = feature as usize;
    let (operator, threshold) = match predicate {
        Predicate::Less { threshold } => ("<", Some(threshold)),
        Predicate::LessZeroAside { threshold } => ("< or 0", Some(threshold)),
        Predicate::Equal { value } => ("=", Some(value)),
        Predicate::InSet { inside: Side::Left, .. } => ("in", None),
        Predicate::InSet { .. } => ("not in", None),
        Predicate::Always => ("any", None),
    };
    let set = match predicate {
        Predicate::InSet { set, .. } => Some(&forest.sets[set as usize]),
        _ => None,
    };
    let name = |code: u32| category_name(forest, column, f64::from(code)).unwrap_or_else(|| code.to_string());
    DrawnPredicate {
        column: feature,
        feature: feature_name(forest, column),
        operator,
        threshold: threshold.map(|threshold| Num(threshold.0)),
        categories: set.map_or_else(Vec::new, |set| set.members().take(MOST_LISTED).map(name).collect()),
        members: set.map_or(0, |set| set.words.iter().map(|word| word.count_ones() as usize).sum()),
        missing_is_yes: missing == Side::Left,
        value: value.map(Num),
        category: value.and_then(|value| category_name(forest, column, value)),
    }
}
