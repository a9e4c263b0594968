//! Rows to time predictions with: so many that neither caches nor branch predictors remember them.

use crate::{
    check::Random,
    error::{Error, Result},
    forest::{Forest, Node, Predicate},
};

/// The least number of rows of a pool. A branch predictor learns a few hundred rows that come again and
/// again, and predictions then look up to four times as fast as they are on rows not seen before.
pub const LEAST_ROWS: usize = 1 << 14;
/// Maximum number of values of a pool that has more rows than one batch.
const MOST_VALUES: usize = 1 << 27;
/// The greatest relative change of a value in a repeated row.
const JITTER: f32 = 0.001;

/// Contiguous `f32` rows that calls go through batch by batch, so that each call gets other rows than the
/// calls before.
#[derive(Clone, Debug)]
pub struct RowPool {
    values: Vec<f32>,
    columns: usize,
    batch: usize,
    batches: usize,
}

impl RowPool {
    /// Makes a pool of batches of `batch` rows from rows of the forest's columns. The rows come first as they
    /// are. They are then repeated, with each value except categories changed by up to one part in a
    /// thousand.
    ///
    /// # Errors
    /// There is no row, the values are not a whole number of rows, `batch` is 0, or there is not enough
    /// memory.
    pub fn of_rows(forest: &Forest, rows: &[f32], batch: usize) -> Result<Self> {
        let columns = forest.features.len();
        if rows.is_empty() || columns == 0 || !rows.len().is_multiple_of(columns) {
            let what = format!(
                "{} values are no whole number of rows of {columns} columns, or none; give at least one row",
                rows.len()
            );
            return Err(Error::Rows(what));
        }
        let mut categories = vec![false; columns];
        for node in forest.trees.iter().flat_map(|t| &t.nodes) {
            if let Node::Split { feature, predicate: Predicate::InSet { .. }, .. } = *node {
                categories[feature as usize] = true;
            }
        }
        let mut random = Random(0x5eed);
        Self::filled(columns, batch, |values, wanted| {
            values.extend_from_slice(&rows[..rows.len().min(wanted)]);
            for (at, value) in (0..rows.len()).cycle().zip(rows.iter().cycle()).take(wanted - values.len()) {
                let jitter = 1.0 + JITTER * (2.0 * random.fraction() - 1.0);
                values.push(if categories[at % columns] { *value } else { value * jitter });
            }
        })
    }

    /// Makes a pool of batches of `batch` random rows. A value lies between two neighbouring thresholds of
    /// its column, or below or above all of them, each case with the same probability. In a column of
    /// categories it is one of those that the column's splits name. A column with both has both, half and
    /// half.
    ///
    /// # Errors
    /// The forest has no columns, `batch` is 0, or there is not enough memory.
    pub fn drawn(forest: &Forest, batch: usize) -> Result<Self> {
        let columns: Vec<Column> = Column::all_of(forest);
        if columns.is_empty() {
            return Err(Error::Rows("the forest has no columns, so there are no rows to draw".into()));
        }
        let mut random = Random(0x5eed);
        Self::filled(columns.len(), batch, |values, wanted| {
            values.extend((0..wanted).map(|at| columns[at % columns.len()].draw(&mut random)));
        })
    }

    fn filled(columns: usize, batch: usize, fill: impl FnOnce(&mut Vec<f32>, usize)) -> Result<Self> {
        if batch == 0 {
            return Err(Error::Rows("a batch of 0 rows; ask for at least one".into()));
        }
        let most = (MOST_VALUES / columns / batch).max(1);
        let batches = LEAST_ROWS.div_ceil(batch).min(most);
        let wanted = columns.checked_mul(batch).and_then(|n| n.checked_mul(batches));
        let mut values = Vec::new();
        let no_room = || Error::Rows(format!("no memory for batches of {batch} rows; ask for fewer rows"));
        let wanted = wanted.ok_or_else(no_room)?;
        values.try_reserve_exact(wanted).map_err(|_| no_room())?;
        fill(&mut values, wanted);
        Ok(Self { values, columns, batch, batches })
    }

    /// Returns the number of rows of a batch.
    pub fn rows(&self) -> usize {
        self.batch
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the number of different batches.
    pub fn batches(&self) -> usize {
        self.batches
    }

    /// Returns the values of batch `n`, row by row. After the last batch comes the first one again.
    pub fn batch(&self, n: usize) -> &[f32] {
        let values = self.batch * self.columns;
        &self.values[n % self.batches * values..][..values]
    }
}

/// The values that may be drawn for a column.
#[derive(Clone, Debug, Default)]
struct Column {
    /// Distinct thresholds in ascending order.
    thresholds: Vec<f32>,
    /// Categories that some split names.
    categories: Vec<f32>,
}

impl Column {
    fn all_of(forest: &Forest) -> Vec<Self> {
        let mut columns = vec![Self::default(); forest.features.len()];
        for node in forest.trees.iter().flat_map(|t| &t.nodes) {
            let Node::Split { feature, predicate, .. } = *node else { continue };
            let column = &mut columns[feature as usize];
            match predicate {
                Predicate::Less { threshold }
                | Predicate::LessZeroAside { threshold }
                | Predicate::Equal { value: threshold } => column.thresholds.push(threshold.0 as f32),
                Predicate::InSet { set, .. } => {
                    let words = forest.sets.get(set as usize).map_or(&[][..], |set| &set.words);
                    let members = |(at, word): (usize, &u32)| {
                        let word = *word;
                        (0..32).filter(move |bit| word >> bit & 1 != 0).map(move |bit| (32 * at + bit) as f32)
                    };
                    let known = words.iter().enumerate().flat_map(members).take(MOST_CATEGORIES);
                    column.categories.extend(known);
                }
                Predicate::Always => {}
            }
        }
        for column in &mut columns {
            for values in [&mut column.thresholds, &mut column.categories] {
                values.retain(|v| v.is_finite());
                values.sort_unstable_by(f32::total_cmp);
                values.dedup();
            }
        }
        columns
    }

    fn draw(&self, random: &mut Random) -> f32 {
        // CatBoost asks some columns for both.
        if !self.categories.is_empty() && (self.thresholds.is_empty() || random.below(2) == 0) {
            return self.categories[random.below(self.categories.len())];
        }
        let all = &self.thresholds;
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return random.fraction() };
        let end = (last - first).abs().max(last.abs()).max(1.0) / all.len() as f32;
        match random.below(all.len() + 1) {
            0 => first - end * random.fraction(),
            at if at == all.len() => last + end * random.fraction(),
            at => all[at - 1] + (all[at] - all[at - 1]) * random.fraction(),
        }
    }
}

/// Maximum number of categories that are taken from one split.
const MOST_CATEGORIES: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::{CategoryRule, CategorySet, Real, Side};

    fn forest() -> Forest {
        let mut builder = Forest::builder(3, 1);
        let set = builder.push_set(CategorySet::new([2, 40], CategoryRule::Truncated));
        for (column, predicate) in [
            (0, Predicate::Less { threshold: Real(10.0) }),
            (0, Predicate::Less { threshold: Real(20.0) }),
            (1, Predicate::InSet { set, inside: Side::Left }),
        ] {
            let mut tree = builder.tree(0);
            tree.split(column, predicate, Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[2.0]);
        }
        builder.build().expect("stumps")
    }

    #[test]
    fn rows_come_as_they_are_and_then_with_jitter() {
        let forest = forest();
        let rows = [15.0, 40.0, -1.0, 9.0, 2.0, 0.5];
        let pool = RowPool::of_rows(&forest, &rows, 5).expect("two rows");
        assert_eq!((pool.columns(), pool.batches()), (3, LEAST_ROWS.div_ceil(5)));
        assert_eq!(pool.batch(0)[..6], rows);
        let all: Vec<f32> = (0..pool.batches()).flat_map(|n| pool.batch(n)).copied().collect();
        for (row, expected) in all.chunks_exact(3).skip(2).zip([&rows[..3], &rows[3..]].iter().cycle()) {
            assert_eq!(row[1], expected[1], "a category is not changed");
            for column in [0, 2] {
                let change = (row[column] / expected[column] - 1.0).abs();
                assert!(change <= 1.001 * JITTER, "{row:?} of {expected:?}");
            }
        }
        assert_ne!(all[6], all[0]);
        assert_eq!(pool.batch(pool.batches()), pool.batch(0));
        assert!(RowPool::of_rows(&forest, &rows[..4], 5).is_err());
        assert!(RowPool::of_rows(&forest, &[], 5).is_err());
        assert!(RowPool::of_rows(&forest, &rows, 0).is_err());
        assert!(RowPool::of_rows(&forest, &rows, usize::MAX / 8).is_err());
    }

    #[test]
    fn a_column_asked_both_ways_has_both_kinds_of_values() {
        let mut builder = Forest::builder(1, 1);
        let set = builder.push_set(CategorySet::new([2], CategoryRule::Truncated));
        for predicate in
            [Predicate::Less { threshold: Real(10.5) }, Predicate::InSet { set, inside: Side::Left }]
        {
            let mut tree = builder.tree(0);
            tree.split(0, predicate, Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[2.0]);
        }
        let pool = RowPool::drawn(&builder.build().expect("stumps"), LEAST_ROWS).expect("rows");
        let count = |which: &dyn Fn(f32) -> bool| pool.batch(0).iter().filter(|v| which(**v)).count();
        for n in [count(&|v| v == 2.0) / 2, count(&|v| v > 10.5), count(&|v| v < 10.5 && v != 2.0)] {
            assert!((LEAST_ROWS / 5..LEAST_ROWS / 3).contains(&n), "{n}");
        }
    }

    #[test]
    fn drawn_values_reach_each_side_of_each_split() {
        let pool = RowPool::drawn(&forest(), 4096).expect("rows");
        let rows: Vec<&[f32]> = (0..pool.batches()).flat_map(|n| pool.batch(n).chunks_exact(3)).collect();
        let count = |which: &dyn Fn(&[f32]) -> bool| rows.iter().filter(|row| which(row)).count();
        for between in [f32::NEG_INFINITY..10.0, 10.0..20.0, 20.0..f32::INFINITY] {
            let n = count(&|row| between.contains(&row[0]));
            assert!((LEAST_ROWS / 4..LEAST_ROWS / 2).contains(&n), "{n} rows in {between:?}");
        }
        assert_eq!(count(&|row| row[1] == 2.0) + count(&|row| row[1] == 40.0), LEAST_ROWS);
        assert!(rows.iter().flat_map(|row| *row).all(|v| v.is_finite()));
    }
}
