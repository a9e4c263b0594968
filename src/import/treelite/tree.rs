//! Turns a tree's arrays into nodes.

use super::super::budget::Budget;
use super::super::error::at;
use super::super::{ErrorKind, ImportError, Location};
use super::arrays::{Kind, TreeArrays};
use super::header::Header;
use super::outputs::TreeOutputs;
use super::reader::Reader;
use crate::forest::{
    CategoryRule, CategorySet, CompareType, ForestBuilder, MOST_CATEGORIES, Predicate, Side,
};

/// Adds a file's trees to a forest, one after another.
pub(super) struct TreeGrower<'h> {
    header: &'h Header,
    /// The number of zeros that may still be written for outputs that a tree does not add to.
    spare: usize,
    /// The values of one leaf: one for each output, or a single one.
    values: Vec<f64>,
}

/// The destination of one value of a leaf: an output, and the number of trees that this output averages.
/// `None` for padding.
type Destination = Option<(usize, f64)>;

impl<'h> TreeGrower<'h> {
    /// Starts with room for as many zeros as the file has bytes.
    pub(super) fn new(header: &'h Header, bytes: usize) -> Self {
        Self { header, spare: bytes, values: Vec::new() }
    }

    /// Reads tree `t` and adds it to the forest.
    pub(super) fn grow(
        &mut self,
        t: usize,
        reach: TreeOutputs,
        reader: &mut Reader<'_>,
        budget: &mut Budget<'_>,
        forest: &mut ForestBuilder,
    ) -> Result<(), ImportError> {
        let mut arrays = TreeArrays::read(t, reader, self.header.compare, budget)?;
        let indices = arrays.indices()?;
        let mut sets = arrays.sets(budget, forest)?.into_iter();
        let destinations = self.destinations(reach);
        let width = if destinations.len() == 1 { 1 } else { self.header.outputs.count() as usize };
        let mut tree = match destinations[..] {
            [Some((output, _))] => forest.tree(output as u32),
            _ => forest.vector_tree(),
        };
        tree.reserve(arrays.nodes);
        for n in (0..arrays.nodes).filter(|n| indices[*n].is_some()) {
            let (predicate, swapped) = match arrays.kind(n)? {
                Kind::Leaf => {
                    self.spare = match self.spare.checked_sub(width - destinations.len()) {
                        Some(spare) => spare,
                        None => return Err(arrays.too_sparse(destinations.len(), width)),
                    };
                    self.values.clear();
                    self.values.resize(width, 0.0);
                    arrays.leaf(n, &destinations, &mut self.values)?;
                    tree.leaf(n as u32, &self.values);
                    continue;
                }
                Kind::Numbers => arrays.comparison(n, self.header.compare)?,
                // `sets` has a set for each split on categories, so the fallback is never used.
                Kind::Categories => (arrays.membership(n, sets.next().unwrap_or(u32::MAX))?, false),
            };
            let feature = arrays.feature(n, self.header.features)?;
            // `TreeArrays::indices` has checked the children, so the fallback is never used.
            let [mut left, mut right] =
                arrays.children(n).map(|child| indices.get(child).copied().flatten().unwrap_or(u32::MAX));
            let mut missing_left = arrays.flag("default_left", arrays.default_left, n)?;
            if swapped {
                std::mem::swap(&mut left, &mut right);
                missing_left = !missing_left;
            }
            let missing = if missing_left { Side::Left } else { Side::Right };
            tree.split(feature, predicate, missing, left, right);
        }
        let kept = (0..arrays.nodes).filter(|n| indices[*n].is_some());
        if let Some(covers) = arrays.covers {
            tree.covers(kept.map(|n| covers.of(n)));
        }
        Ok(())
    }

    fn destinations(&self, reach: TreeOutputs) -> Vec<Destination> {
        let averaged = |output| self.header.averaged.as_ref().map_or(1, |counts| counts.of(output));
        let destination = |output: Option<usize>| output.map(|output| (output, averaged(output) as f64));
        self.header.outputs.of_leaf(reach).map(destination).collect()
    }
}

impl TreeArrays<'_> {
    /// Returns the sets of the splits on categories, in the order of their nodes.
    fn sets(&mut self, budget: &mut Budget<'_>, forest: &mut ForestBuilder) -> Result<Vec<u32>, ImportError> {
        let mut sets = Vec::new();
        for n in 0..self.nodes {
            if self.kind(n)? == Kind::Categories {
                sets.push(forest.push_set(self.set(n, budget)?));
            }
        }
        Ok(sets)
    }

    fn set(&mut self, n: usize, budget: &mut Budget<'_>) -> Result<CategorySet, ImportError> {
        let range = self.category_lists.take(self.tree, n)?;
        let members = self.categories[range].iter().map(|category| u32::from_le_bytes(*category));
        let largest = members.clone().max();
        if let Some(category) = largest.filter(|category| *category >= MOST_CATEGORIES) {
            let cause = format!("category {category} is not below 2^24, which is not supported");
            let error = self.error(ErrorKind::Unsupported, "category_list_begin", n, cause);
            return Err(error.with_remedy("number the categories from 0 before training"));
        }
        let words = largest.map_or(0, |category| category as usize / 32 + 1);
        budget.category_words(words, || Location::Field(format!("trees[{}].category_list", self.tree)))?;
        Ok(CategorySet::new(members, CategoryRule::NotNegative))
    }

    /// Writes a leaf's values to their outputs. A leaf of one value writes it to `values[0]`.
    fn leaf(
        &mut self,
        n: usize,
        destinations: &[Destination],
        values: &mut [f64],
    ) -> Result<(), ImportError> {
        let vector = self.leaf_lists.take(self.tree, n)?;
        let (field, from, begin) = match vector.is_empty() {
            true => ("leaf_value", self.leaf_value, n),
            false => ("leaf_vector", self.leaf_vector, vector.start),
        };
        let held = vector.len().max(1);
        if held != destinations.len() {
            let cause =
                format!("a leaf of {held} values in a model whose leaves have {}", destinations.len());
            return Err(self.error(ErrorKind::Structure, "leaf_vector_begin", n, cause));
        }
        for (i, destination) in destinations.iter().enumerate() {
            let Some((output, trees)) = destination else { continue };
            let value = from.get(begin + i);
            // Sums may be in f32, so the value has to be finite as f32.
            if !(value as f32).is_finite() {
                return Err(self.error(ErrorKind::Value, field, begin + i, format!("a leaf of {value:?}")));
            }
            values[if held == 1 { 0 } else { *output }] = value / trees;
        }
        Ok(())
    }

    /// Returns the predicate of a split on a number, and whether its children are swapped. treelite has five
    /// operators.
    fn comparison(&self, n: usize, compare: CompareType) -> Result<(Predicate, bool), ImportError> {
        let t = self.threshold.get(n);
        if t.is_nan() {
            return Err(self.error(ErrorKind::Value, "threshold", n, "the threshold is NaN"));
        }
        match self.operator[n] {
            [1] => Ok((Predicate::Equal { value: t.into() }, false)),
            [2] => Ok((compare.less(t), false)),
            [3] => Ok((compare.at_most(t), false)),
            // `x > t` is `x <= t` with the children swapped.
            [4] => Ok((compare.at_most(t), true)),
            [5] => Ok((compare.less(t), true)),
            [other] => Err(self.error(ErrorKind::Value, "cmp", n, format!("operator {other}"))),
        }
    }

    fn membership(&self, n: usize, set: u32) -> Result<Predicate, ImportError> {
        let right = self.flag("category_list_right_child", self.list_right, n)?;
        Ok(Predicate::InSet { set, inside: if right { Side::Right } else { Side::Left } })
    }

    fn feature(&self, n: usize, features: usize) -> Result<u32, ImportError> {
        let feature = i32::from_le_bytes(self.feature[n]);
        u32::try_from(feature).ok().filter(|column| (*column as usize) < features).ok_or_else(|| {
            self.error(ErrorKind::Value, "split_index", n, format!("feature {feature} of {features}"))
        })
    }

    /// Returns the error for a model whose leaves would need so many zeros that they outgrow the file by far.
    fn too_sparse(&self, held: usize, width: usize) -> ImportError {
        let cause = format!(
            "leaves of {held} values in a model of {width} outputs, too many of which would be zeros"
        );
        at(ErrorKind::Unsupported, format!("trees[{}].leaf_vector", self.tree), cause)
            .with_remedy("save a model a target, or one whose leaves have a value for each output")
    }
}
