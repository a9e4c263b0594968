//! Turns one XGBoost tree from parallel arrays into HIR nodes.

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Limits, Location};
use super::categories::Splits;
use super::schema;
use crate::forest::{CategorySet, Node, Predicate, Real, Side, Tree};

/// The entry of a leaf in `left_children`, and of the root of a vector-leaf tree in `parents`.
const NONE: i32 = -1;

/// The entry of the root of a scalar tree in `parents`.
const NO_PARENT: i32 = i32::MAX;

/// The entry of a deleted node in `split_indices`. XGBoost sets all 32 bits. The file holds 31 of them here,
/// and the last one in `default_left`.
const DELETED: u32 = i32::MAX as u32;

/// The trees of a file as HIR trees, with their leaf values and category sets.
pub(super) struct GrownTrees {
    pub trees: Vec<Tree>,
    pub leaf_values: Vec<Real>,
    pub sets: Vec<CategorySet>,
    pub vector_leaves: bool,
    /// The covers of the trees that have some.
    pub covers: Vec<Vec<Real>>,
    /// The index of each tree in the file.
    pub indices: Vec<usize>,
}

/// Builds the trees one after another, under limits that hold for all trees together.
pub(super) struct TreeBuilder<'l> {
    features: usize,
    outputs: usize,
    limits: &'l Limits,
    budget: Budget<'l>,
    slots: u32,
    /// Of each tree: whether its leaves are vectors, with a value for each output. Users may switch between
    /// rounds.
    vectors: Vec<bool>,
    grown: GrownTrees,
}

impl<'l> TreeBuilder<'l> {
    pub(super) fn new(features: usize, outputs: usize, limits: &'l Limits) -> Self {
        let grown = GrownTrees {
            trees: Vec::new(),
            leaf_values: Vec::new(),
            sets: Vec::new(),
            vector_leaves: false,
            covers: Vec::new(),
            indices: Vec::new(),
        };
        Self { features, outputs, limits, budget: Budget::new(limits), slots: 0, vectors: Vec::new(), grown }
    }

    /// Returns the trees. `targets` says to which output each tree adds whose leaves hold one value. If other
    /// trees have vectors, such a leaf becomes a vector with zeros for all other outputs, which change no sum.
    pub(super) fn finish(mut self, targets: &[u32], path: &str) -> Result<GrownTrees, ImportError> {
        self.grown.vector_leaves = self.vectors.contains(&true);
        if self.grown.vector_leaves && self.vectors.contains(&false) {
            let location = || Location::Field(format!("{path}.trees"));
            self.budget.vector_leaves(self.slots as usize, self.outputs, location)?;
            let mut values = Vec::with_capacity(self.slots as usize * self.outputs);
            let mut held = self.grown.leaf_values.iter().copied();
            for ((tree, vectors), target) in self.grown.trees.iter().zip(&self.vectors).zip(targets) {
                let leaves = tree.nodes.iter().filter(|node| node.slot().is_some()).count();
                if *vectors {
                    values.extend(held.by_ref().take(leaves * self.outputs));
                    continue;
                }
                for value in held.by_ref().take(leaves) {
                    let before = values.len();
                    values.resize(before + self.outputs, Real(0.0));
                    values[before + *target as usize] = value;
                }
            }
            self.grown.leaf_values = values;
        }
        Ok(self.grown)
    }

    /// Records the index in the file of the tree that was grown last.
    pub(super) fn note_index(&mut self, index: usize) {
        self.grown.indices.push(index);
    }

    /// Builds the tree at `path`, with its leaf values multiplied by `weight`.
    pub(super) fn grow(&mut self, tree: schema::Tree, weight: f32, path: &str) -> Result<(), ImportError> {
        let file = FileTree { tree: &tree, path };
        let nodes = file.check_lengths()?;
        let width = self.leaf_width(&file)?;
        self.vectors.push(width > 1);
        self.budget.nodes(nodes, || Location::Field(format!("{path}.tree_param.num_nodes")))?;
        let ids = file.reachable_nodes(self.limits)?;
        let mut splits = Splits::new(&tree, path)?;
        // Nodes keep the file's order. `new_index` maps a node's index in the file to its index without deleted
        // nodes. It is empty if no node is deleted.
        let mut new_index = Vec::new();
        if ids.len() < nodes {
            new_index = vec![0; nodes];
            ids.iter().enumerate().for_each(|(new, id)| new_index[*id as usize] = new as u32);
        }
        let renumber = |id: i32| new_index.get(id as usize).copied().unwrap_or(id as u32);
        let mut grown = Vec::with_capacity(ids.len());
        for id in &ids {
            let n = *id as usize;
            let node = if tree.left_children[n] == NONE {
                self.push_leaf(&file, n, width, weight)?;
                self.slots += 1;
                Node::Leaf { slot: self.slots - 1 }
            } else {
                Node::Split {
                    feature: file.feature(n, self.features)?,
                    predicate: self.predicate(&file, n, &mut splits)?,
                    missing: if tree.default_left[n] != 0 { Side::Left } else { Side::Right },
                    left: renumber(tree.left_children[n]),
                    right: renumber(tree.right_children[n]),
                }
            };
            grown.push(node);
        }
        if !tree.sum_hessian.is_empty() {
            self.grown.covers.push(ids.iter().map(|id| Real::from(tree.sum_hessian[*id as usize])).collect());
        }
        self.grown.trees.push(Tree { nodes: grown, ids });
        Ok(())
    }

    /// Returns how many values a leaf of the tree has: one, or one for each output.
    fn leaf_width(&self, file: &FileTree<'_>) -> Result<usize, ImportError> {
        let width = usize::try_from(file.tree.tree_param.size_leaf_vector).unwrap_or(usize::MAX).max(1);
        if width > 1 && width != self.outputs {
            let cause = format!("leaves of {width} values in a model of {} outputs", self.outputs);
            let path = format!("{}.tree_param.size_leaf_vector", file.path);
            return Err(at(ErrorKind::Structure, path, cause));
        }
        Ok(width)
    }

    fn push_leaf(
        &mut self,
        file: &FileTree<'_>,
        n: usize,
        width: usize,
        weight: f32,
    ) -> Result<(), ImportError> {
        let (field, values) = match width {
            1 => ("split_conditions", n..n + 1),
            _ => file.vector(n, width)?,
        };
        let all = match field {
            "leaf_weights" => &file.tree.leaf_weights,
            "base_weights" => &file.tree.base_weights,
            _ => &file.tree.split_conditions,
        };
        for i in values {
            let value = all[i] * weight;
            if !value.is_finite() {
                let times = if weight == 1.0 {
                    String::new()
                } else {
                    format!(" after the tree's weight {weight:?}")
                };
                return Err(file.error(ErrorKind::Value, field, i, format!("a leaf of {value:?}{times}")));
            }
            self.grown.leaf_values.push(value.into());
        }
        Ok(())
    }

    fn predicate(
        &mut self,
        file: &FileTree<'_>,
        n: usize,
        sets: &mut Splits<'_>,
    ) -> Result<Predicate, ImportError> {
        match file.tree.split_type.as_ref().map_or(0, |types| types[n]) {
            0 => {
                let threshold = file.tree.split_conditions[n];
                if threshold.is_nan() {
                    return Err(file.error(ErrorKind::Value, "split_conditions", n, "the threshold is NaN"));
                }
                Ok(Predicate::Less { threshold: threshold.into() })
            }
            1 => {
                let set = sets.set(n as u32, &mut self.budget)?;
                self.grown.sets.push(set);
                Ok(Predicate::InSet { set: self.grown.sets.len() as u32 - 1, inside: Side::Right })
            }
            other => {
                let cause = format!("split type {other} is neither 0 (numbers) nor 1 (categories)");
                Err(file.error(ErrorKind::Value, "split_type", n, cause))
            }
        }
    }
}

/// A tree of the file, with its path.
struct FileTree<'t> {
    tree: &'t schema::Tree,
    path: &'t str,
}

impl FileTree<'_> {
    fn error(&self, kind: ErrorKind, field: &str, n: usize, cause: impl AsRef<str>) -> ImportError {
        at(kind, format!("{}.{field}[{n}]", self.path), cause)
    }

    /// Checks that every array has one entry for each node. Returns the number of nodes.
    fn check_lengths(&self) -> Result<usize, ImportError> {
        let tree = self.tree;
        let claimed = tree.tree_param.num_nodes;
        let arrays = [
            ("left_children", tree.left_children.len()),
            ("right_children", tree.right_children.len()),
            ("parents", tree.parents.len()),
            ("split_indices", tree.split_indices.len()),
            ("split_conditions", tree.split_conditions.len()),
            ("default_left", tree.default_left.len()),
            ("split_type", tree.split_type.as_ref().map_or(tree.left_children.len(), Vec::len)),
            (
                "sum_hessian",
                if tree.sum_hessian.is_empty() { tree.left_children.len() } else { tree.sum_hessian.len() },
            ),
        ];
        for (field, length) in arrays {
            if length as u64 != claimed {
                let cause = format!("{length} entries for {claimed} nodes (tree_param.num_nodes)");
                return Err(at(ErrorKind::Structure, format!("{}.{field}", self.path), cause));
            }
        }
        if claimed == 0 {
            return Err(at(ErrorKind::Structure, self.path, "a tree without nodes has no root"));
        }
        Ok(tree.left_children.len())
    }

    fn is_deleted(&self, n: usize) -> bool {
        match self.tree.split_indices[n] {
            DELETED => self.tree.default_left[n] != 0,
            index => index == u32::MAX,
        }
    }

    /// Returns the nodes that the root reaches, in ascending order. All other nodes must be marked deleted.
    fn reachable_nodes(&self, limits: &Limits) -> Result<Vec<u32>, ImportError> {
        let tree = self.tree;
        let nodes = tree.left_children.len();
        if !matches!(tree.parents[0], NONE | NO_PARENT) {
            let cause = format!("node 0 has the parent {}, so the tree has no root", tree.parents[0]);
            return Err(self.error(ErrorKind::Structure, "parents", 0, cause));
        }
        let mut seen = vec![false; nodes];
        seen[0] = true;
        let mut level = vec![0u32];
        let mut below = Vec::new();
        let mut depth = 0;
        while !level.is_empty() {
            if depth > limits.depth {
                let cause = format!("a tree deeper than the limit of {}", limits.depth);
                return Err(ImportError::limit(Location::Field(self.path.into()), cause, "depth"));
            }
            for n in level.drain(..) {
                if let Some(children) = self.children(n as usize, &mut seen)? {
                    below.extend(children);
                }
            }
            std::mem::swap(&mut level, &mut below);
            depth += 1;
        }
        if let Some(n) = (0..nodes).find(|n| !seen[*n] && !self.is_deleted(*n)) {
            let cause = format!(
                "the root does not reach node {n}, nor is it marked deleted: a second root or a cycle"
            );
            return Err(self.error(ErrorKind::Structure, "parents", n, cause));
        }
        Ok((0..nodes as u32).filter(|n| seen[*n as usize]).collect())
    }

    /// Returns the children of a node that the root reaches, or `None` for a leaf.
    fn children(&self, n: usize, seen: &mut [bool]) -> Result<Option<[u32; 2]>, ImportError> {
        let tree = self.tree;
        if self.is_deleted(n) {
            return Err(self.error(
                ErrorKind::Structure,
                "split_indices",
                n,
                "a deleted node that the root reaches",
            ));
        }
        if tree.left_children[n] == NONE {
            return Ok(None);
        }
        let left = self.child("left_children", n, tree.left_children[n], seen)?;
        let right = self.child("right_children", n, tree.right_children[n], seen)?;
        Ok(Some([left, right]))
    }

    fn child(&self, field: &str, n: usize, child: i32, seen: &mut [bool]) -> Result<u32, ImportError> {
        let fail = |cause: String| Err(self.error(ErrorKind::Structure, field, n, cause));
        let nodes = seen.len();
        let Some(seen) = usize::try_from(child).ok().and_then(|c| seen.get_mut(c)) else {
            return fail(format!("child {child} is out of range ({nodes} nodes)"));
        };
        if child == 0 {
            return fail("the root is a child, so there is a cycle".into());
        }
        let parent = self.tree.parents[child as usize];
        if usize::try_from(parent) != Ok(n) {
            return fail(format!(
                "node {child} is a child of node {n}, but its parent is {parent}: two parents or a cycle"
            ));
        }
        if std::mem::replace(seen, true) {
            return fail(format!("node {child} has two parents"));
        }
        Ok(child as u32)
    }

    fn feature(&self, n: usize, features: usize) -> Result<u32, ImportError> {
        let feature = self.tree.split_indices[n];
        if (feature as usize) < features {
            return Ok(feature);
        }
        Err(self.error(ErrorKind::Value, "split_indices", n, format!("feature {feature} of {features}")))
    }

    /// Returns the field that holds the values of a vector leaf, and the range of the values in the field.
    fn vector(&self, n: usize, width: usize) -> Result<(&'static str, std::ops::Range<usize>), ImportError> {
        let tree = self.tree;
        let (field, error_field, index, length) = if tree.leaf_weights.is_empty() {
            ("base_weights", "base_weights", n as i32, tree.base_weights.len())
        } else {
            ("leaf_weights", "right_children", tree.right_children[n], tree.leaf_weights.len())
        };
        let start = usize::try_from(index).ok().and_then(|i| i.checked_mul(width));
        match start
            .and_then(|start| Some(start..start.checked_add(width)?))
            .filter(|range| range.end <= length)
        {
            Some(range) => Ok((field, range)),
            None => {
                let cause =
                    format!("leaf vector {index} of width {width}, but `{field}` has {length} values");
                Err(self.error(ErrorKind::Structure, error_field, n, cause))
            }
        }
    }
}
