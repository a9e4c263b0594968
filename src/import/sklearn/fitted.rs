//! Reads the trees of all estimators except histogram boosting: scikit-learn's `tree_`, which has an array
//! for each field with an entry for each node.

use std::ops::Range;

use super::super::budget::Budget;
use super::super::{ErrorKind, ImportError, Location};
use super::array::{self, Count};
use super::{File, error, missing_side};
use crate::forest::{CompareType, ForestBuilder, Side, TreeBuilder};

/// The value of both children of a leaf.
const LEAF: i32 = -1;

/// The nodes of all trees, tree after tree. A child's index is counted from its tree's root.
pub(super) struct FittedTrees {
    /// The range of each tree's nodes.
    pub(super) trees: Vec<Range<usize>>,
    left: Vec<i32>,
    right: Vec<i32>,
    feature: Vec<i32>,
    threshold: Vec<f64>,
    /// For each node, whether missing values go left. Empty in releases before 1.3, which have no rule for
    /// missing values: NaN is not at most a threshold and goes right.
    missing_left: Vec<u8>,
    /// The columns that each tree of a bag sees, one tree after another; empty if trees see all columns.
    columns: Vec<i32>,
    columns_of: Vec<Range<usize>>,
    features: usize,
}

impl FittedTrees {
    pub(super) fn read(file: &File<'_>) -> Result<Self, ImportError> {
        let (archive, limits) = (&file.archive, file.limits);
        let trees = array::ranges(archive, "children_left", Count::AtMost(limits.trees, "trees"))?;
        let nodes = trees.last().map_or(0, |tree| tree.end);
        Budget::new(limits).nodes(nodes, || Location::Field("children_left.sizes".into()))?;
        if file.head.trees.len() != trees.len() {
            let cause = format!("{} entries for {} trees", file.head.trees.len(), trees.len());
            return Err(error(ErrorKind::Structure, "fangorn.trees", cause));
        }
        let each = Count::Exactly(nodes, "nodes");
        let left = array::integers(archive, "children_left", each)?;
        for name in ["children_right", "feature", "threshold"] {
            same_ranges(file, name, &trees)?;
        }
        let columns_of = match array::ranges(archive, "columns", Count::AtMost(limits.trees, "trees"))? {
            none if none.is_empty() => none,
            some if some.len() == trees.len() => some,
            other => {
                let cause = format!("{} parts for {} trees", other.len(), trees.len());
                return Err(error(ErrorKind::Structure, "columns.sizes", cause));
            }
        };
        let columns = columns_of.last().map_or(0, |columns| columns.end);
        let unknown = array::ranges(archive, "missing_go_to_left", Count::AtMost(limits.trees, "trees"))?
            .iter()
            .all(Range::is_empty);
        let missing_left = match unknown {
            true => Vec::new(),
            false => {
                same_ranges(file, "missing_go_to_left", &trees)?;
                array::integers(archive, "missing_go_to_left", each)?
            }
        };
        Ok(Self {
            left,
            right: array::integers(archive, "children_right", each)?,
            feature: array::integers(archive, "feature", each)?,
            threshold: array::reals(archive, "threshold", each)?,
            missing_left,
            columns: array::integers(archive, "columns", Count::Exactly(columns, "columns of trees"))?,
            columns_of,
            features: file.head.features as usize,
            trees,
        })
    }

    /// Sends missing values right at every split, whatever the trees say.
    pub(super) fn without_missing(mut self) -> Self {
        self.missing_left.clear();
        self
    }

    /// Drops the list of columns if every tree sees all columns, because such trees number the columns as the
    /// user does.
    pub(super) fn without_full_columns(mut self) -> Self {
        if self.columns_of.iter().all(|columns| columns.len() == self.features) {
            self.columns_of.clear();
        }
        self
    }

    /// Returns the children of node `n` of tree `t`, counted over all trees, or `None` for a leaf. Refuses a
    /// child that does not come after its parent.
    pub(super) fn children_after(&self, t: usize, n: usize) -> Result<Option<[usize; 2]>, ImportError> {
        let nodes = &self.trees[t];
        let Some(children) = self.children(n)? else { return Ok(None) };
        let children = children.map(|child| nodes.start + child as usize);
        match children.iter().all(|child| *child > n && *child < nodes.end) {
            true => Ok(Some(children)),
            false => {
                let cause = "a child that does not stand after its parent";
                Err(error(ErrorKind::Structure, format!("children_left[{n}]"), cause))
            }
        }
    }

    /// Adds tree `t` to a forest, for one output or for all if `output` is `None`. `leaf` appends the values
    /// of a leaf, given its node index over all trees.
    pub(super) fn grow(
        &self,
        forest: &mut ForestBuilder,
        t: usize,
        output: Option<u32>,
        mut leaf: impl FnMut(usize, &mut Vec<f64>),
    ) -> Result<(), ImportError> {
        let nodes = self.trees[t].clone();
        let mut tree: TreeBuilder<'_> = match output {
            Some(output) => forest.tree(output),
            None => forest.vector_tree(),
        };
        tree.reserve(nodes.len());
        let mut values = Vec::new();
        for n in nodes.clone() {
            if let Some([left, right]) = self.children(n)? {
                let predicate = at_most(CompareType::F32, self.threshold[n]);
                tree.split(self.column(t, n)?, predicate, self.missing(n)?, left, right);
                continue;
            }
            values.clear();
            leaf(n, &mut values);
            check_leaf(&values, n)?;
            tree.leaf((n - nodes.start) as u32, &values);
        }
        Ok(())
    }

    fn children(&self, n: usize) -> Result<Option<[u32; 2]>, ImportError> {
        let (left, right) = (self.left[n], self.right[n]);
        match (u32::try_from(left), u32::try_from(right)) {
            (Ok(left), Ok(right)) => Ok(Some([left, right])),
            _ if left == LEAF && right == LEAF => Ok(None),
            _ => {
                let cause = format!("children {left} and {right}, expected two nodes or -1 for both");
                Err(error(ErrorKind::Structure, format!("children_left[{n}]"), cause))
            }
        }
    }

    /// Returns the user's column that node `n` of tree `t` asks for.
    fn column(&self, t: usize, n: usize) -> Result<u32, ImportError> {
        let feature = self.feature[n];
        let seen = match self.columns_of.get(t) {
            Some(columns) => usize::try_from(feature).ok().and_then(|f| self.columns[columns.clone()].get(f)),
            None => Some(&feature),
        };
        let column = seen.and_then(|column| u32::try_from(*column).ok());
        column.filter(|column| (*column as usize) < self.features).ok_or_else(|| {
            let cause = format!("feature {feature} is none of {} columns", self.features);
            error(ErrorKind::Value, format!("feature[{n}]"), cause)
        })
    }

    fn missing(&self, n: usize) -> Result<Side, ImportError> {
        let flag = self.missing_left.get(n).copied().unwrap_or(0);
        missing_side(flag, || format!("missing_go_to_left[{n}]"))
    }
}

/// Returns the predicate `x <= threshold`. No value is at most NaN, so a NaN threshold sends all values
/// right.
pub(super) fn at_most(compare: CompareType, threshold: f64) -> crate::forest::Predicate {
    if threshold.is_nan() { compare.less(f64::NEG_INFINITY) } else { compare.at_most(threshold) }
}

/// Refuses a leaf whose values are not all finite.
pub(super) fn check_leaf(values: &[f64], n: usize) -> Result<(), ImportError> {
    match values.iter().find(|value| !value.is_finite()) {
        None => Ok(()),
        Some(value) => {
            Err(error(ErrorKind::Value, format!("value, node {n}"), format!("a leaf of {value:?}")))
        }
    }
}

/// Checks that each tree has as many entries in an array as it has nodes.
pub(super) fn same_ranges(file: &File<'_>, name: &str, trees: &[Range<usize>]) -> Result<(), ImportError> {
    let ranges = array::ranges(&file.archive, name, Count::Exactly(trees.len(), "trees"))?;
    match ranges.iter().zip(trees).position(|(range, tree)| range != tree) {
        None => Ok(()),
        Some(t) => {
            let cause = format!("{} entries for {} nodes", ranges[t].len(), trees[t].len());
            Err(error(ErrorKind::Structure, format!("{name}.sizes[{t}]"), cause))
        }
    }
}
