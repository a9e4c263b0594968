//! The tables of a compiled forest: its nodes in the order in which walks read them.

use std::collections::VecDeque;

use crate::{
    error::{Error, Result},
    forest::{Accumulator, CompareType, Forest, Node, Predicate, Side, Tree},
};

/// The predicates of splits, and the numbers that stand for them in the words of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredicateCode {
    Less = 0,
    LessZeroAside = 1,
    Equal = 2,
    InSetLeft = 3,
    InSetRight = 4,
    Always = 5,
}

/// A node as C has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The split's threshold or the index of its set; the leaf's value or its number.
    pub threshold: f64,
    pub word: u64,
}

/// The fields of a node's word, from bit 0 on: whether it is a split, whether missing values go right, what it asks if
/// some split asks for more than a threshold, its column, and the distance to its left child. A leaf's distance is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    /// The first bit of the column.
    pub column: u32,
    /// The first bit of the distance.
    pub distance: u32,
    /// The number of bits of the word, 32 or 64.
    pub bits: u32,
}

/// The first bit of a split's predicate, and the number of its bits.
pub(super) const PREDICATE: [u32; 2] = [2, 3];

/// A forest's constants in C.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    pub nodes: Vec<Entry>,
    /// The index of each tree's root.
    pub roots: Vec<usize>,
    /// The producer's id of each node.
    pub ids: Vec<u32>,
    /// The leaf values, if they are not in the nodes.
    pub leaf_values: Option<Vec<f64>>,
    /// Whether some split asks for more than a threshold.
    pub questions: bool,
    pub fields: Fields,
}

/// A tree's nodes, level by level, the children of a node side by side.
struct Levels {
    /// The nodes' indices in the tree.
    nodes: Vec<u32>,
    /// The distance from each node to its left child; 0 for a leaf.
    distances: Vec<u64>,
}

impl Levels {
    fn of(tree: &Tree) -> Self {
        let mut levels = Self { nodes: vec![0], distances: Vec::new() };
        let mut next = VecDeque::from([0u32]);
        while let Some(node) = next.pop_front() {
            let at = levels.distances.len();
            levels.distances.push(match tree.nodes[node as usize] {
                Node::Split { left, right, .. } => {
                    let distance = levels.nodes.len() - at;
                    levels.nodes.extend([left, right]);
                    next.extend([left, right]);
                    distance as u64
                }
                Node::Leaf { .. } => 0,
            });
        }
        levels
    }
}

fn encoded(predicate: Predicate) -> (PredicateCode, f64) {
    match predicate {
        Predicate::Less { threshold } => (PredicateCode::Less, threshold.0),
        Predicate::LessZeroAside { threshold } => (PredicateCode::LessZeroAside, threshold.0),
        Predicate::Equal { value } => (PredicateCode::Equal, value.0),
        Predicate::InSet { set, inside: Side::Left } => (PredicateCode::InSetLeft, f64::from(set)),
        Predicate::InSet { set, inside: Side::Right } => (PredicateCode::InSetRight, f64::from(set)),
        Predicate::Always => (PredicateCode::Always, 0.0),
    }
}

/// Returns the number of bits of a number, at least 1.
fn bits(n: u64) -> u32 {
    (u64::BITS - n.leading_zeros()).max(1)
}

impl Tables {
    /// Encodes a forest that verifies.
    ///
    /// # Errors
    /// The forest has more leaves or sets than the type of its thresholds can number, more nodes or leaf values than 32
    /// bits, or a node needs more than 64 bits.
    pub(super) fn new(forest: &Forest) -> Result<Self> {
        let levels: Vec<Levels> = forest.trees.iter().map(Levels::of).collect();
        let splits = || forest.trees.iter().flat_map(|tree| &tree.nodes);
        let questions = splits().any(|node| match node {
            Node::Split { predicate, .. } => encoded(*predicate).0 != PredicateCode::Less,
            Node::Leaf { .. } => false,
        });
        let column = |node: &Node| match node {
            Node::Split { feature, .. } => u64::from(*feature),
            Node::Leaf { .. } => 0,
        };
        let most_column = splits().map(column).max().unwrap_or(0);
        let most_distance = levels.iter().flat_map(|of| &of.distances).copied().max().unwrap_or(0);
        let first = PREDICATE[0] + if questions { PREDICATE[1] } else { 0 };
        let distance = first + bits(most_column);
        let all = distance + bits(most_distance);
        if all > 64 {
            return Err(Error::Ahead(format!(
                "{most_column} columns and trees of {most_distance} nodes a level do not fit 64 bits a node; predict \
                 with the library instead"
            )));
        }
        let fields = Fields { column: first, distance, bits: if all > 32 { 64 } else { 32 } };
        // A leaf's value takes the place of its threshold if it has the same type.
        let same = matches!(
            (Accumulator::of(forest), forest.compare),
            (Accumulator::F32, CompareType::F32) | (Accumulator::F64, CompareType::F64)
        );
        let inline = same && forest.leaf_width() == 1;
        let most_number = if forest.compare == CompareType::F32 { 1u64 << 24 } else { 1 << 32 };
        let numbered = if inline { 0 } else { forest.leaf_count() };
        if numbered.max(forest.sets.len()) as u64 > most_number {
            return Err(Error::Ahead(format!(
                "{numbered} leaves and {} sets of categories, at most {most_number} of each; predict with the library \
                 instead",
                forest.sets.len()
            )));
        }
        // Indices have 32 bits.
        let nodes = levels.iter().map(|of| of.nodes.len()).sum::<usize>();
        if nodes.max(forest.leaf_values.len()) > u32::MAX as usize {
            let values = forest.leaf_values.len();
            return Err(Error::Ahead(format!(
                "{nodes} nodes and {values} leaf values, at most 2^32 of each; predict with the library instead"
            )));
        }
        let mut tables = Self {
            nodes: Vec::new(),
            roots: Vec::new(),
            ids: Vec::new(),
            leaf_values: (!inline).then(Vec::new),
            questions,
            fields,
        };
        for (tree, of) in forest.trees.iter().zip(&levels) {
            tables.roots.push(tables.nodes.len());
            for (node, distance) in of.nodes.iter().zip(&of.distances) {
                let entry = tables.entry(forest, tree.nodes[*node as usize], *distance);
                tables.nodes.push(entry);
                tables.ids.push(tree.ids[*node as usize]);
            }
        }
        Ok(tables)
    }

    /// Encodes a node, and adds a leaf's values to those of the table.
    fn entry(&mut self, forest: &Forest, node: Node, distance: u64) -> Entry {
        match node {
            Node::Split { feature, predicate, missing, .. } => {
                let (code, threshold) = encoded(predicate);
                let code = if self.questions { code as u64 } else { 0 };
                let word = 1
                    | u64::from(missing == Side::Right) << 1
                    | code << PREDICATE[0]
                    | u64::from(feature) << self.fields.column
                    | distance << self.fields.distance;
                Entry { threshold, word }
            }
            Node::Leaf { slot } => {
                let leaf = forest.leaf(slot);
                let threshold = match &mut self.leaf_values {
                    None => leaf[0].0,
                    Some(values) => {
                        let number = values.len() / leaf.len().max(1);
                        values.extend(leaf.iter().map(|value| value.0));
                        number as f64
                    }
                };
                Entry { threshold, word: 0 }
            }
        }
    }
}
