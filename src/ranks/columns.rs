//! Gathers the thresholds and questions of a forest by feature and missing side, and makes rank columns of
//! them.

use std::collections::HashMap;

use super::{
    Column, ColumnKind, RanksError, Width,
    split::{RankSplit, Sets},
};
use crate::{
    cost::RankColumns,
    forest::{Forest, Node, Predicate, Real, Side},
};

/// The column numbers that a node can hold are below this number.
const MOST_COLUMNS: usize = 1 << 24;

/// The thresholds of a feature and a missing side.
#[derive(Clone, Copy, Debug)]
struct Group {
    feature: u32,
    missing: Side,
    /// Index of the least threshold in [`ForestPredicates::thresholds`].
    first: u32,
    count: u32,
}

/// A question of one bit: the feature, the side of missing values, and the predicate.
type Question = (u32, Side, Predicate);

/// The thresholds and questions of a forest, without repetitions.
#[derive(Clone, Debug)]
pub(super) struct ForestPredicates {
    /// The thresholds of all groups, ascending within each group.
    pub(super) thresholds: Vec<Real>,
    pub(super) sets: Sets,
    /// The groups, by feature, missing left before missing right.
    groups: Vec<Group>,
    /// The questions, in order of first appearance.
    questions: Vec<Question>,
    /// If every split of the forest is constant, the feature that the first of them reads.
    constant_split_feature: Option<u32>,
}

/// The rank columns, and where to find the one that answers a split.
#[derive(Clone, Debug)]
pub(super) struct ColumnIndex {
    pub(super) columns: Vec<Column>,
    /// The first column of each group in [`ForestPredicates`].
    first: Vec<u32>,
    questions: HashMap<Question, u32>,
    width: Width,
}

impl ForestPredicates {
    pub(super) fn of(forest: &Forest) -> Result<Self, RanksError> {
        let sets = Sets::of(forest);
        let mut thresholds: Vec<(u32, bool, f64)> = Vec::new();
        let (mut questions, mut known) = (Vec::new(), HashMap::new());
        let mut constant_split_feature = None;
        for node in forest.trees.iter().flat_map(|t| &t.nodes) {
            let Node::Split { feature, predicate, missing, .. } = *node else { continue };
            match RankSplit::of(predicate, missing, &sets) {
                RankSplit::Constant(_) => constant_split_feature = constant_split_feature.or(Some(feature)),
                RankSplit::Threshold(t) => thresholds.push((feature, missing == Side::Right, t)),
                RankSplit::Question(predicate) => {
                    let question = (feature, missing, predicate);
                    known.entry(question).or_insert_with(|| questions.push(question));
                }
            }
        }
        // In this order NaN, which stands for the threshold above infinity, is last. There is no -0.
        thresholds.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(a.2.total_cmp(&b.2)));
        thresholds.dedup_by(|a, b| (a.0, a.1, a.2.to_bits()) == (b.0, b.1, b.2.to_bits()));
        if u32::try_from(thresholds.len()).is_err() {
            return Err(RanksError::Thresholds { thresholds: thresholds.len() });
        }
        let mut groups: Vec<Group> = Vec::new();
        for of_group in thresholds.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let first = groups.last().map_or(0, |g| g.first + g.count);
            let missing = if of_group[0].1 { Side::Right } else { Side::Left };
            groups.push(Group { feature: of_group[0].0, missing, first, count: of_group.len() as u32 });
        }
        if !groups.is_empty() || !questions.is_empty() {
            constant_split_feature = None;
        }
        let thresholds = thresholds.into_iter().map(|(_, _, t)| Real(t)).collect();
        Ok(Self { thresholds, sets, groups, questions, constant_split_feature })
    }

    /// Returns the number of columns that ranks of this width take.
    fn columns(&self, width: Width) -> usize {
        let slices: usize = self.groups.iter().map(|g| g.count.div_ceil(width.largest()) as usize).sum();
        slices + self.questions.len() + usize::from(self.constant_split_feature.is_some())
    }

    /// Returns the columns that ranks of this width take, and the levels of their searches.
    pub(super) fn rank_columns(&self, width: Width) -> RankColumns {
        let largest = width.largest();
        let levels = |group: &Group| {
            let whole = (group.count / largest) as usize * RankColumns::levels_of(largest);
            whole + RankColumns::levels_of(group.count % largest)
        };
        let questions = self.questions.len();
        RankColumns {
            thresholds: self.columns(width) - questions,
            levels: self.groups.iter().map(levels).sum(),
            questions,
        }
    }

    /// Returns the size of a ranked row in bytes.
    pub(super) fn bytes(&self, width: Width) -> usize {
        self.columns(width) * width.bytes()
    }

    /// Makes the columns, by feature. The columns of one feature come in the order missing left, missing
    /// right, questions.
    ///
    /// # Errors
    /// There are more columns than a node can hold numbers of.
    pub(super) fn column_index(&self, width: Width) -> Result<ColumnIndex, RanksError> {
        let columns = self.columns(width);
        if columns >= MOST_COLUMNS {
            return Err(RanksError::Columns { columns, width });
        }
        let mut questions = self.questions.clone();
        // A stable sort keeps the questions of one feature in their order.
        questions.sort_by_key(|(feature, ..)| *feature);
        let mut questions = questions.into_iter().peekable();
        let mut index = ColumnIndex {
            columns: Vec::with_capacity(columns),
            first: Vec::with_capacity(self.groups.len()),
            questions: HashMap::new(),
            width,
        };
        for group in &self.groups {
            while let Some(question) = questions.next_if(|(feature, ..)| *feature < group.feature) {
                index.push_question(question);
            }
            index.first.push(index.columns.len() as u32);
            index.push_slices(*group);
        }
        questions.for_each(|question| index.push_question(question));
        if let Some(feature) = self.constant_split_feature {
            // A split has to read a column. This one has no thresholds, so all its ranks are 0.
            index.columns.push(Column {
                feature,
                missing: Side::Left,
                asks: ColumnKind::Thresholds { first: 0, count: 0 },
            });
        }
        Ok(index)
    }

    /// Returns the compare of a rank column that decides as a split does.
    pub(super) fn decision(
        &self,
        index: &ColumnIndex,
        feature: u32,
        missing: Side,
        predicate: Predicate,
    ) -> Decision {
        match RankSplit::of(predicate, missing, &self.sets) {
            // No rank is below 0.
            RankSplit::Constant(side) => Decision { column: 0, threshold: 0, swapped: side == Side::Left },
            RankSplit::Question(predicate) => {
                let column = index.questions[&(feature, missing, predicate)];
                Decision { column, threshold: 1, swapped: false }
            }
            RankSplit::Threshold(t) => {
                let key = |feature, missing| (feature, missing == Side::Right);
                let wanted = key(feature, missing);
                let group = self.groups.partition_point(|g| key(g.feature, g.missing) < wanted);
                let Group { first, count, .. } = self.groups[group];
                let of_group = &self.thresholds[first as usize..][..count as usize];
                let k = of_group.partition_point(|other| other.0.total_cmp(&t).is_lt()) as u32;
                let largest = index.width.largest();
                Decision {
                    column: index.first[group] + k / largest,
                    threshold: k % largest + 1,
                    swapped: false,
                }
            }
        }
    }
}

/// A compare of a rank column that decides as a split does: rows with `rank < threshold` go left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    pub(super) column: u32,
    /// The threshold, at most [`Width::largest`].
    pub(super) threshold: u32,
    /// Whether the split's children have to be swapped.
    pub(super) swapped: bool,
}

impl ColumnIndex {
    fn push_slices(&mut self, group: Group) {
        let largest = self.width.largest();
        for slice in 0..group.count.div_ceil(largest) {
            let done = slice * largest;
            let asks =
                ColumnKind::Thresholds { first: group.first + done, count: largest.min(group.count - done) };
            self.columns.push(Column { feature: group.feature, missing: group.missing, asks });
        }
    }

    fn push_question(&mut self, question: Question) {
        let (feature, missing, predicate) = question;
        self.questions.insert(question, self.columns.len() as u32);
        self.columns.push(Column { feature, missing, asks: ColumnKind::Question { predicate } });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many thresholds that their columns are one more than a node can tell apart.
    #[test]
    fn more_columns_than_a_node_can_name_are_refused() {
        let count = MOST_COLUMNS as u32 * Width::U8.largest();
        let predicates = ForestPredicates {
            thresholds: Vec::new(),
            sets: Sets::of(&Forest::builder(1, 1).build().expect("no tree")),
            groups: vec![Group { feature: 0, missing: Side::Left, first: 0, count }],
            questions: Vec::new(),
            constant_split_feature: None,
        };
        let refused = predicates.column_index(Width::U8);
        assert!(matches!(refused, Err(RanksError::Columns { columns: MOST_COLUMNS, width: Width::U8 })));
        assert!(predicates.column_index(Width::U16).is_ok());
    }
}
