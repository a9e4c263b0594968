//! Answers of splits that ask for categories, looked up by category.

use crate::forest::{CategoryRule, CategorySet, Forest, Node, Predicate, Side};

/// The most bytes of answers. A column of many categories has a mask for each of them in each tile that asks for it, and
/// look-ups in tables that no cache holds take longer than walks from node to node.
const MOST_BYTES: usize = 8 << 20;
/// The code of a missing value.
const MISSING: u32 = 0;
/// The code of a value that is in no set of its column.
const OTHER: u32 = 1;
/// The code of category 0.
const FIRST: u32 = 2;

/// For tiles of any shape, at which splits on categories a row goes right. One look-up by a column's category answers all
/// splits of a tile on that column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    /// The columns that splits ask for categories, in ascending order. At most as many as registers hold values.
    pub(crate) columns: Vec<CategoryColumn>,
    /// The look-ups of each tile, those of a tile side by side.
    pub(crate) look_ups: Vec<LookUp>,
    /// The splits of a tile where a row goes right, a bit for each: by look-up, and by the code of the row's value.
    pub(crate) right: Vec<u32>,
}

/// A column of categories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CategoryColumn {
    /// The column of the row.
    pub(crate) column: u32,
    /// How its values are read.
    pub(crate) rule: CategoryRule,
    /// The end of its categories: no set has this category or a larger one.
    pub(crate) end: u32,
}

/// A look-up of a tile: the answers to its splits on a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookUp {
    /// Index into [`Answers::columns`].
    pub(crate) column: u32,
    /// Index into [`Answers::right`] of the answers to the first code.
    pub(crate) first: u32,
}

/// The look-ups of a tile: `count` of them, from `first` on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookUps {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// A split of a tile that asks for a category.
#[derive(Clone, Copy, Debug)]
pub(super) struct CategorySplit {
    /// Index of the split in its tile.
    pub(super) index: usize,
    /// The column of the row.
    pub(super) column: u32,
    pub(super) set: u32,
    pub(super) inside: Side,
    pub(super) missing: Side,
}

impl CategoryColumn {
    /// Returns the code of a value: its place among the answers of a look-up.
    #[inline]
    pub(crate) fn code(self, x: f64) -> u32 {
        match self.rule.category(x) {
            Some(category) if category < self.end => FIRST + category,
            _ if x.is_nan() => MISSING,
            _ => OTHER,
        }
    }
}

/// Returns the end of a set's categories: it has neither this one nor a larger one.
fn end(set: &CategorySet) -> u32 {
    let last = set.words.iter().rposition(|word| *word != 0);
    last.map_or(0, |last| 32 * (last as u32 + 1) - set.words[last].leading_zeros())
}

impl Answers {
    /// Returns no answers yet, for the columns of categories of a forest. Returns `None` if the values of some column
    /// are read by two rules.
    pub(super) fn new(forest: &Forest) -> Option<Self> {
        let mut columns: Vec<CategoryColumn> = Vec::new();
        if forest.sets.is_empty() {
            return Some(Self::default());
        }
        let ends: Vec<u32> = forest.sets.iter().map(end).collect();
        for node in forest.trees.iter().flat_map(|tree| &tree.nodes) {
            let Node::Split { feature, predicate: Predicate::InSet { set, .. }, .. } = *node else {
                continue;
            };
            let (rule, end) = (forest.sets[set as usize].rule, ends[set as usize]);
            match columns.binary_search_by_key(&feature, |column| column.column) {
                Ok(at) if columns[at].rule == rule => columns[at].end = columns[at].end.max(end),
                Ok(_) => return None,
                Err(at) => columns.insert(at, CategoryColumn { column: feature, rule, end }),
            }
        }
        Some(Self { columns, ..Self::default() })
    }

    /// Adds the answers to a tile's splits on categories. Returns `None` if there is no room for them.
    pub(super) fn add(&mut self, forest: &Forest, mut splits: Vec<CategorySplit>) -> Option<LookUps> {
        splits.sort_by_key(|split| split.column);
        let first = u32::try_from(self.look_ups.len()).ok()?;
        for splits in splits.chunk_by(|a, b| a.column == b.column) {
            let column = self.columns.binary_search_by_key(&splits[0].column, |column| column.column).ok()?;
            let codes = self.columns[column].end + FIRST;
            if self.bytes() + 4 * codes as usize > MOST_BYTES {
                return None;
            }
            let answers = |code: u32| {
                let goes_right = |split: &&CategorySplit| {
                    let inside = |category| forest.sets[split.set as usize].contains(category);
                    match code {
                        MISSING => split.missing == Side::Right,
                        OTHER => split.inside == Side::Left,
                        _ => inside(code - FIRST) == (split.inside == Side::Right),
                    }
                };
                splits.iter().filter(goes_right).fold(0, |mask, split| mask | 1 << split.index)
            };
            self.look_ups.push(LookUp { column: column as u32, first: self.right.len() as u32 });
            self.right.extend((0..codes).map(answers));
        }
        Some(LookUps { first, count: self.look_ups.len() as u32 - first })
    }

    /// Returns the bytes of the tables.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.right[..]) + size_of_val(&self.look_ups[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_end_after_their_last_category() {
        let ends = |words: &[u32]| end(&CategorySet { words: words.to_vec(), rule: CategoryRule::Whole });
        assert_eq!(ends(&[]), 0);
        assert_eq!(ends(&[0, 0]), 0);
        assert_eq!(ends(&[1, 0]), 1);
        assert_eq!(ends(&[1 << 31]), 32);
        assert_eq!(ends(&[0, 6, 0]), 35);
    }
}
