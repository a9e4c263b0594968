//! Schedules by the number of rows in a batch.

use super::Schedule;

/// Schedules for batches of several sizes, at least one. Each was chosen for batches of one size, its
/// *bucket*. A batch whose size lies between two buckets may run by either of their schedules.
///
/// ```
/// use fangorn::schedule::{BatchSchedules, Schedule};
///
/// let row = Schedule::parse("fewRows(registers)")?;
/// let block = Schedule::parse("tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)")?;
/// let schedules = BatchSchedules::new([(4096, block), (1, row)]).expect("two sizes");
/// assert_eq!(schedules.buckets().map(|(rows, _)| rows).collect::<Vec<_>>(), [1, 4096]);
/// # Ok::<(), fangorn::schedule::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BatchSchedules {
    /// In ascending order of rows, each number of rows once.
    buckets: Vec<(usize, Schedule)>,
}

impl BatchSchedules {
    /// The number of rows of a batch if no size is given: schedules are chosen and shown for it.
    pub const USUAL_ROWS: usize = 4096;

    /// Makes schedules of pairs: the rows of a batch, and the schedule for such batches. Returns `None` if
    /// there is no pair, a number of rows is 0, or two pairs have the same number of rows.
    pub fn new(buckets: impl IntoIterator<Item = (usize, Schedule)>) -> Option<Self> {
        let mut buckets: Vec<_> = buckets.into_iter().collect();
        buckets.sort_by_key(|(rows, _)| *rows);
        let twice = buckets.windows(2).any(|pair| pair[0].0 == pair[1].0);
        let named = buckets.first().is_some_and(|(rows, _)| *rows > 0);
        (named && !twice).then_some(Self { buckets })
    }

    /// Returns the buckets in ascending order of rows.
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = (usize, &Schedule)> {
        self.buckets.iter().map(|(rows, schedule)| (*rows, schedule))
    }

    /// Returns the schedule of the bucket whose number of rows is nearest to `rows` by ratio.
    pub fn nearest(&self, rows: usize) -> &Schedule {
        self.bucket(rows).1
    }

    /// Returns the bucket whose number of rows is nearest to `rows` by ratio: its number of rows, and its schedule.
    pub fn bucket(&self, rows: usize) -> (usize, &Schedule) {
        let distance = |bucket: usize| (bucket as f64 / rows.max(1) as f64).ln().abs();
        let nearest = self.buckets.iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
        // There is at least one bucket.
        let (rows, schedule) = nearest.unwrap_or(&self.buckets[0]);
        (*rows, schedule)
    }
}

impl From<Schedule> for BatchSchedules {
    /// One schedule for all batches.
    fn from(schedule: Schedule) -> Self {
        Self { buckets: vec![(1, schedule)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::FewRows;

    #[test]
    fn sizes_are_ordered_and_each_comes_once() {
        let schedule = |by| Schedule::new().few_rows(by);
        let [row, walk] = [FewRows::Rows, FewRows::Walk].map(schedule);
        assert_eq!(BatchSchedules::new([]), None);
        assert_eq!(BatchSchedules::new([(0, row.clone())]), None);
        assert_eq!(BatchSchedules::new([(8, row.clone()), (8, walk.clone())]), None);
        let both = BatchSchedules::new([(64, walk.clone()), (1, row.clone())]).expect("two sizes");
        for (rows, expected) in [(0, &row), (1, &row), (7, &row), (9, &walk), (64, &walk), (9999, &walk)] {
            assert_eq!(both.nearest(rows), expected, "{rows}");
        }
    }
}
