//! One tree's arrays as the file has them, and the checks on their entries.

use std::ops::Range;

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location};
use super::reader::{Reader, Reals};
use crate::forest::CompareType;

/// In a leaf, `cleft` and `cright` hold this value.
const NONE: i32 = -1;

/// A tree's arrays. Arrays with an entry for each node all have `nodes` entries.
pub(super) struct TreeArrays<'b> {
    /// The index of the tree in the file.
    pub tree: usize,
    pub nodes: usize,
    kind: &'b [[u8; 1]],
    left: &'b [[u8; 4]],
    right: &'b [[u8; 4]],
    pub feature: &'b [[u8; 4]],
    pub default_left: &'b [[u8; 1]],
    pub leaf_value: Reals<'b>,
    pub threshold: Reals<'b>,
    pub operator: &'b [[u8; 1]],
    /// Whether the categories of a node's list go right.
    pub list_right: &'b [[u8; 1]],
    pub leaf_vector: Reals<'b>,
    pub leaf_lists: Lists<'b>,
    pub categories: &'b [[u8; 4]],
    pub category_lists: Lists<'b>,
    /// The sum of the hessians of each node's rows, or their number if the file has no hessians.
    pub covers: Option<Covers<'b>>,
}

/// The cover of each node, as the file has it.
#[derive(Clone, Copy)]
pub(super) enum Covers<'b> {
    /// The sums of hessians, f64.
    Hessians(&'b [[u8; 8]]),
    /// The numbers of rows, u64.
    Counts(&'b [[u8; 8]]),
}

impl Covers<'_> {
    /// Returns the cover of node `n`.
    pub(super) fn of(&self, n: usize) -> f64 {
        match self {
            Self::Hessians(values) => f64::from_le_bytes(values[n]),
            Self::Counts(values) => u64::from_le_bytes(values[n]) as f64,
        }
    }
}

/// Lists within an array, one for each node. No two lists may share entries.
pub(super) struct Lists<'b> {
    field: &'static str,
    begin: &'b [[u8; 8]],
    end: &'b [[u8; 8]],
    /// Number of entries in the array.
    length: usize,
    /// Number of entries that no list has taken yet. It reveals overlapping lists, which would ask for more
    /// memory than the file's own size.
    left: usize,
}

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Leaf,
    /// A split on a number.
    Numbers,
    /// A split on a category.
    Categories,
}

impl<'b> TreeArrays<'b> {
    /// Reads tree `tree`, whose thresholds and leaves have type `of`.
    pub(super) fn read(
        tree: usize,
        reader: &mut Reader<'b>,
        of: CompareType,
        budget: &mut Budget<'_>,
    ) -> Result<Self, ImportError> {
        let claimed = reader.i32("num_nodes")?;
        let location = || format!("trees[{tree}].num_nodes");
        let nodes = match usize::try_from(claimed) {
            Ok(nodes) if nodes > 0 => nodes,
            _ => {
                let cause = format!("a tree of {claimed} nodes has no root");
                return Err(at(ErrorKind::Structure, location(), cause));
            }
        };
        budget.nodes(nodes, || Location::Field(location()))?;
        reader.bool("has_categorical_split")?;
        let kind = reader.array(nodes, "node_type")?;
        let left = reader.array(nodes, "cleft")?;
        let right = reader.array(nodes, "cright")?;
        let feature = reader.array(nodes, "split_index")?;
        let default_left = reader.array(nodes, "default_left")?;
        let leaf_value = reader.real_array(nodes, of, "leaf_value")?;
        let threshold = reader.real_array(nodes, of, "threshold")?;
        let operator = reader.array(nodes, "cmp")?;
        let list_right = reader.array(nodes, "category_list_right_child")?;
        let leaf_vector = reader.reals(of, "leaf_vector")?;
        let leaf_lists = Lists {
            field: "leaf_vector",
            begin: reader.array(nodes, "leaf_vector_begin")?,
            end: reader.array(nodes, "leaf_vector_end")?,
            length: leaf_vector.len(),
            left: leaf_vector.len(),
        };
        let categories = reader.list("category_list")?;
        let category_lists = Lists {
            field: "category_list",
            begin: reader.array(nodes, "category_list_begin")?,
            end: reader.array(nodes, "category_list_end")?,
            length: categories.len(),
            left: categories.len(),
        };
        let mut statistics = |values, present| {
            let values = reader.list::<8>(values)?;
            let present = reader.list::<1>(present)?;
            let whole = present.len() == nodes && present.iter().all(|flag| *flag == [1]);
            Ok::<_, ImportError>((whole && values.len() == nodes).then_some(values))
        };
        let counts = statistics("data_count", "data_count_present")?.map(Covers::Counts);
        let hessians = statistics("sum_hess", "sum_hess_present")?.map(Covers::Hessians);
        statistics("gain", "gain_present")?;
        reader.optional_fields("num_opt_field_per_tree")?;
        reader.optional_fields("num_opt_field_per_node")?;
        Ok(Self {
            tree,
            nodes,
            kind,
            left,
            right,
            feature,
            default_left,
            leaf_value,
            threshold,
            operator,
            list_right,
            leaf_vector,
            leaf_lists,
            categories,
            category_lists,
            covers: hessians.or(counts),
        })
    }

    /// Returns an error at node `n` of an array.
    pub(super) fn error(
        &self,
        kind: ErrorKind,
        field: &str,
        n: usize,
        cause: impl AsRef<str>,
    ) -> ImportError {
        at(kind, format!("trees[{}].{field}[{n}]", self.tree), cause)
    }

    pub(super) fn kind(&self, n: usize) -> Result<Kind, ImportError> {
        match self.kind[n] {
            [0] => Ok(Kind::Leaf),
            [1] => Ok(Kind::Numbers),
            [2] => Ok(Kind::Categories),
            [other] => Err(self.error(ErrorKind::Value, "node_type", n, format!("node type {other}"))),
        }
    }

    /// Returns the entry of node `n` in an array of flags.
    pub(super) fn flag(&self, field: &str, array: &[[u8; 1]], n: usize) -> Result<bool, ImportError> {
        match array[n] {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => {
                Err(self.error(ErrorKind::Value, field, n, format!("{other}, but 0 or 1 is expected")))
            }
        }
    }

    /// Returns each node's index after dropping the leaves that are no node's child, and `None` for a dropped
    /// leaf. treelite keeps leaves that XGBoost pruned in this form. Checks that children are in range and
    /// have one parent. The forest's own check finds every other defect of the shape.
    pub(super) fn indices(&self) -> Result<Vec<Option<u32>>, ImportError> {
        let mut children = vec![false; self.nodes];
        for n in 0..self.nodes {
            let kind = self.kind(n)?;
            for (field, child) in [("cleft", self.left), ("cright", self.right)] {
                let child = i32::from_le_bytes(child[n]);
                let fail = |cause: String| Err(self.error(ErrorKind::Structure, field, n, cause));
                match usize::try_from(child).ok().and_then(|child| children.get_mut(child)) {
                    _ if kind == Kind::Leaf && child == NONE => {}
                    _ if kind == Kind::Leaf => return fail(format!("a leaf with child {child}")),
                    None => return fail(format!("child {child} is out of range ({} nodes)", self.nodes)),
                    Some(_) if child == 0 => return fail("the root is a child, so there is a cycle".into()),
                    Some(true) => return fail(format!("child {child} has two parents")),
                    Some(seen) => *seen = true,
                }
            }
        }
        let mut kept = 0;
        let index = |(n, child): (usize, bool)| {
            let keep = child || n == 0 || self.kind[n] != [0];
            kept += u32::from(keep);
            keep.then(|| kept - 1)
        };
        Ok(children.into_iter().enumerate().map(index).collect())
    }

    /// Returns the left and right child of a split. [`TreeArrays::indices`] has checked that they are nodes.
    pub(super) fn children(&self, n: usize) -> [usize; 2] {
        [self.left, self.right].map(|array| u32::from_le_bytes(array[n]) as usize)
    }
}

impl Lists<'_> {
    /// Returns the range of the list of node `n` of tree `t` in the array. Call it once for each node.
    pub(super) fn take(&mut self, t: usize, n: usize) -> Result<Range<usize>, ImportError> {
        let fail = |cause: String| {
            Err(at(ErrorKind::Structure, format!("trees[{t}].{}_begin[{n}]", self.field), cause))
        };
        let [begin, end] = [self.begin, self.end].map(|bound| u64::from_le_bytes(bound[n]));
        let range = match (usize::try_from(begin), usize::try_from(end)) {
            (Ok(begin), Ok(end)) if begin <= end && end <= self.length => begin..end,
            _ => {
                return fail(format!(
                    "entries {begin} to {end} of `{}`, which has {}",
                    self.field, self.length
                ));
            }
        };
        let Some(left) = self.left.checked_sub(range.len()) else {
            return fail(format!("the lists of `{}` overlap", self.field));
        };
        self.left = left;
        Ok(range)
    }
}
