//! Trees of any shape. Each node is an object inside its parent's object. Trees may be as deep as the limits
//! allow, so the reader keeps open objects in a vector and does not recurse.

use serde::de::DeserializeOwned;

use super::super::budget::Budget;
use super::super::decode::DecodeError;
use super::super::document::{self, NestedValue};
use super::super::json::{self, Reader};
use super::super::{ErrorKind, ImportError, Limits, Location};
use super::columns::{Columns, Condition};
use super::predicates::Predicates;
use super::schema::{Numbers, Split};
use crate::forest::ForestBuilder;

/// A tree whose nodes are ordered: children before their parents, the root last.
pub(super) struct Tree {
    nodes: Vec<Node>,
    values: Vec<f64>,
}

#[derive(Clone, Copy)]
enum Node {
    Split {
        condition: Condition,
        children: [u32; 2],
    },
    /// A leaf, with the index of its first value in `Tree::values`.
    Leaf {
        values: usize,
        /// The weight of the training rows in the leaf. Negative if the file has none.
        weight: f64,
    },
}

/// A node whose object the reader has not read to its end.
struct OpenNode {
    start: usize,
    first: bool,
    condition: Option<Condition>,
    children: [Option<u32>; 2],
    values: Option<usize>,
    weight: f64,
    /// Which child of its parent this node is: 0 is the left one, 1 the right one.
    side: usize,
}

/// Reads the trees one after another.
pub(super) struct Trees<'f> {
    bytes: &'f [u8],
    reader: Reader<'f>,
    columns: &'f Columns,
    /// Number of values in a leaf, known from the first leaf on.
    pub outputs: Option<usize>,
}

impl<'f> Trees<'f> {
    pub(super) fn new(bytes: &'f [u8], trees: NestedValue, limits: &Limits, columns: &'f Columns) -> Self {
        let reader = Reader::at(bytes, trees.start, limits.string_bytes);
        Self { bytes, reader, columns, outputs: None }
    }

    /// Reads all trees.
    pub(super) fn read(&mut self, budget: &mut Budget<'_>) -> Result<Vec<Tree>, ImportError> {
        let start = self.reader.offset();
        self.reader.open(b'[').map_err(|e| self.located(e, start))?;
        let (mut trees, mut first) = (Vec::new(), true);
        loop {
            let start = self.reader.offset();
            if !self.reader.next_item(b']', &mut first).map_err(|e| self.located(e, start))? {
                return Ok(trees);
            }
            let start = self.reader.offset();
            budget.trees(trees.len() + 1, || self.location(start))?;
            trees.push(self.tree(budget)?);
        }
    }

    fn tree(&mut self, budget: &mut Budget<'_>) -> Result<Tree, ImportError> {
        let mut tree = Tree { nodes: Vec::new(), values: Vec::new() };
        let mut open = vec![self.open(0)?];
        while let Some(mut node) = open.pop() {
            let at = self.reader.offset();
            if !self.reader.next_item(b'}', &mut node.first).map_err(|e| self.located(e, at))? {
                budget.nodes(1, || self.location(node.start))?;
                let (number, side) = (tree.nodes.len() as u32, node.side);
                tree.nodes.push(self.close(node)?);
                if let Some(parent) = open.last_mut() {
                    parent.children[side] = Some(number);
                }
                continue;
            }
            let at = self.reader.offset();
            let name = self.reader.name().map_err(|e| self.located(e, at))?;
            let side = match &*name {
                "left" => 0,
                "right" => 1,
                "split" => {
                    let start = self.reader.offset();
                    let split: Split = self.value()?;
                    node.condition = Some(self.columns.condition(&split, |_| self.location(start))?);
                    open.push(node);
                    continue;
                }
                "weight" => {
                    node.weight = self.value()?;
                    open.push(node);
                    continue;
                }
                "value" => {
                    node.values = Some(self.values(&mut tree)?);
                    open.push(node);
                    continue;
                }
                _ => {
                    self.reader.skip().map_err(|e| self.located(e, at))?;
                    open.push(node);
                    continue;
                }
            };
            if node.children[side].is_some() {
                return Err(self.structure(at, format!("a node with two children `{name}`")));
            }
            open.push(node);
            open.push(self.open(side)?);
        }
        Ok(tree)
    }

    fn open(&mut self, side: usize) -> Result<OpenNode, ImportError> {
        let start = self.reader.offset();
        self.reader.open(b'{').map_err(|e| self.located(e, start))?;
        Ok(OpenNode {
            start,
            first: true,
            condition: None,
            children: [None; 2],
            values: None,
            weight: -1.0,
            side,
        })
    }

    fn close(&self, node: OpenNode) -> Result<Node, ImportError> {
        match (node.values, node.condition, node.children) {
            (Some(values), None, [None, None]) => Ok(Node::Leaf { values, weight: node.weight }),
            (None, Some(condition), [Some(left), Some(right)]) => {
                Ok(Node::Split { condition, children: [left, right] })
            }
            (None, ..) => {
                Err(self.structure(node.start, "a node needs a `value`, or `left`, `right` and `split`"))
            }
            _ => Err(self.structure(node.start, "a node with a `value` can't have children or a `split`")),
        }
    }

    fn values(&mut self, tree: &mut Tree) -> Result<usize, ImportError> {
        let start = self.reader.offset();
        let Numbers(values) = self.value()?;
        let outputs = *self.outputs.get_or_insert(values.len());
        if values.len() != outputs || outputs == 0 {
            let cause = format!("a leaf of {} values, but the first has {outputs}", values.len());
            return Err(self.structure(start, cause));
        }
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(ImportError::new(
                ErrorKind::Value,
                self.location(start),
                format!("a leaf of {value:?}"),
            ));
        }
        let begin = tree.values.len();
        tree.values.extend(values);
        Ok(begin)
    }

    fn value<T: DeserializeOwned>(&mut self) -> Result<T, ImportError> {
        let start = self.reader.offset();
        T::deserialize(document::Value::Json(&mut self.reader)).map_err(|e| self.located(e, start))
    }

    fn location(&self, at: usize) -> Location {
        json::location(self.bytes, at)
    }

    fn structure(&self, at: usize, cause: impl AsRef<str>) -> ImportError {
        ImportError::new(ErrorKind::Structure, self.location(at), cause)
    }

    /// Turns a failure in the value that begins at `start` into an error with a location.
    fn located(&self, error: DecodeError, start: usize) -> ImportError {
        match error.offset {
            Some(offset) => ImportError::new(ErrorKind::Syntax, self.location(offset), &error.message),
            None => ImportError::new(ErrorKind::Schema, self.location(start), &error.message),
        }
    }
}

impl Tree {
    /// Returns all conditions of the tree.
    pub(super) fn conditions(&self) -> impl Iterator<Item = Condition> + '_ {
        self.nodes.iter().filter_map(|node| match node {
            Node::Split { condition, .. } => Some(*condition),
            Node::Leaf { .. } => None,
        })
    }

    /// Returns the covers of the nodes, or `None` if a leaf has no weight.
    fn covers(&self) -> Option<Vec<f64>> {
        // Children come before their parents.
        let mut covers: Vec<f64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            covers.push(match *node {
                Node::Split { children: [no, yes], .. } => covers[no as usize] + covers[yes as usize],
                Node::Leaf { weight, .. } if weight >= 0.0 => weight,
                Node::Leaf { .. } => return None,
            });
        }
        Some(covers)
    }

    /// Adds the tree to the forest, with its leaf values multiplied by `scale`.
    ///
    /// CatBoost numbers leaves from left to right, with one exception: a leaf whose sibling is a split comes
    /// before the leaves below that sibling, because CatBoost keeps such a leaf in its parent node.
    pub(super) fn grow(
        &self,
        forest: &mut ForestBuilder,
        outputs: usize,
        scale: f64,
        predicates: &Predicates,
    ) {
        // `order` lists the nodes in an order that numbers leaves as CatBoost does. `at` maps a node to its
        // index in `order`.
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut at = vec![0u32; self.nodes.len()];
        let mut open = vec![self.nodes.len() as u32 - 1];
        while let Some(n) = open.pop() {
            at[n as usize] = order.len() as u32;
            order.push(n);
            if let Node::Split { children: [left, right], .. } = self.nodes[n as usize] {
                let is_leaf = |n: u32| matches!(self.nodes[n as usize], Node::Leaf { .. });
                let right_first = is_leaf(right) && !is_leaf(left);
                open.extend(if right_first { [left, right] } else { [right, left] });
            }
        }
        let covers = self.covers();
        let mut tree = if outputs == 1 { forest.tree(0) } else { forest.vector_tree() };
        if let Some(covers) = covers {
            tree.covers(order.iter().map(|n| covers[*n as usize]));
        }
        tree.reserve(order.len());
        let mut scaled = vec![0.0; outputs];
        let mut leaves = 0;
        for n in order {
            match self.nodes[n as usize] {
                Node::Split { condition, children: [no, yes] } => {
                    let split = predicates.of(condition);
                    let [no, yes] = [no, yes].map(|child| at[child as usize]);
                    let [left, right] = if split.yes_left { [yes, no] } else { [no, yes] };
                    tree.split(split.column, split.predicate, split.missing, left, right);
                }
                Node::Leaf { values, .. } => {
                    for (scaled, value) in scaled.iter_mut().zip(&self.values[values..]) {
                        *scaled = value * scale;
                    }
                    tree.leaf(leaves, &scaled);
                    leaves += 1;
                }
            }
        }
    }
}
