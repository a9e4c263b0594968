//! The programs of a forest, by the number of rows in a batch.

use std::ops::RangeInclusive;

use super::Program;

/// The programs of a forest, by the number of rows in a batch.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    /// The programs of all batches but the largest ones, in ascending order. Each has the number of rows from
    /// which on the next one serves.
    smaller: Vec<(usize, Program)>,
    largest: Program,
    /// Whether the programs are those of several schedules.
    several: bool,
}

/// The programs of one schedule: the program that it asks for, and another one, if any, for the batches that
/// are too small to fill a row block of the first one's blends.
#[derive(Clone, Debug)]
pub(crate) struct SchedulePrograms {
    large: Program,
    /// The number of rows from which on `large` serves, and the other program.
    small: Option<(usize, Program)>,
}

/// A program and the batches that it serves.
#[derive(Clone, Debug)]
pub struct NamedPlan<'a> {
    /// The name: `all batches`, `small batches`, `medium batches` or `large batches`.
    pub name: &'static str,
    /// Numbers of rows of the batches that it serves.
    pub rows: RangeInclusive<usize>,
    /// The program that runs these batches.
    pub program: &'a Program,
}

impl SchedulePrograms {
    /// Makes the programs of a schedule. `small` runs the batches that it runs faster than `large` does.
    pub(crate) fn new(large: Program, small: Option<Program>) -> Self {
        let small = small.map(|small| (small.slower_from(&large), small)).filter(|(end, _)| *end > 1);
        Self { large, small }
    }

    /// Returns about how many seconds a batch of `rows` rows takes on one thread.
    fn seconds(&self, rows: usize) -> f64 {
        match &self.small {
            Some((end, small)) if rows < *end => small.seconds(rows),
            _ => self.large.seconds(rows),
        }
    }

    /// Returns the least number of rows above `below` from which on batches of fewer than `rows` rows take
    /// less time by these programs than by `others`. At most some hundreds of sizes are compared.
    fn faster_from(&self, others: &Self, below: usize, rows: usize) -> usize {
        let stride = rows.saturating_sub(below).div_ceil(MOST_COMPARED).max(1);
        let between = (below.saturating_add(1)..rows).step_by(stride);
        let slower = between.rev().find(|rows| self.seconds(*rows) > others.seconds(*rows));
        slower.map_or(below + 1, |slower| (slower + stride).min(rows))
    }
}

/// Maximum number of batch sizes between two buckets at which their programs are compared.
const MOST_COMPARED: usize = 512;

impl Plans {
    /// Makes plans of the programs of some schedules. Each schedule was chosen for batches of one size, and
    /// the sizes ascend. A batch between two sizes goes to the programs that take less time by their costs.
    /// Returns `None` if there is no schedule.
    pub(crate) fn new(buckets: Vec<(usize, SchedulePrograms)>) -> Option<Self> {
        let several = buckets.len() > 1;
        let pairs = buckets.windows(2);
        let between = pairs.map(|pair| pair[1].1.faster_from(&pair[0].1, pair[0].0, pair[1].0));
        let mut ends: Vec<usize> = between.collect();
        ends.push(usize::MAX);
        let mut from = 1;
        let mut smaller = Vec::new();
        for ((_, programs), end) in buckets.into_iter().zip(ends) {
            if let Some((small_end, small)) = programs.small
                && small_end > from
            {
                smaller.push((small_end.min(end), small));
            }
            // A program whose batches all go to the small one has no batch left.
            if smaller.last().is_none_or(|(last, _)| *last < end) {
                smaller.push((end, programs.large));
            }
            from = end;
        }
        smaller.pop().map(|(_, largest)| Self { smaller, largest, several })
    }

    /// Returns whether the programs are those of several schedules.
    pub(crate) fn of_several_schedules(&self) -> bool {
        self.several
    }

    /// Returns the program of the largest batches.
    pub(crate) fn large(&self) -> &Program {
        &self.largest
    }

    /// Returns the program for a batch of `rows` rows. Nothing else decides it.
    pub(crate) fn of(&self, rows: usize) -> &Program {
        let smaller = self.smaller.iter().find(|(end, _)| rows < *end);
        smaller.map_or(&self.largest, |(_, program)| program)
    }

    /// Returns all programs, the one for the smallest batches first.
    pub(crate) fn named(&self) -> Vec<NamedPlan<'_>> {
        let all = self.smaller.iter().map(|(end, program)| (end - 1, program));
        let mut from = 1;
        let mut named = Vec::new();
        for (last, program) in all.chain([(usize::MAX, &self.largest)]) {
            let name = match (from, last) {
                (1, usize::MAX) => "all batches",
                (1, _) => "small batches",
                (_, usize::MAX) => "large batches",
                _ => "medium batches",
            };
            named.push(NamedPlan { name, rows: from..=last, program });
            from = last.saturating_add(1);
        }
        named
    }
}

impl std::fmt::Display for NamedPlan<'_> {
    /// Writes for example `small batches (1 to 23 rows)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (first, last) = (self.rows.start(), self.rows.end());
        match *last {
            usize::MAX if *first == 1 => f.write_str(self.name),
            usize::MAX => write!(f, "{} ({first} rows and more)", self.name),
            _ => write!(f, "{} ({first} to {last} rows)", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        forest::{CompareType, Forest, Side},
        plan::{Request, lower},
        schedule::Schedule,
    };

    fn program(trees: u32, text: &str) -> Program {
        let mut forest = Forest::builder(3, 1);
        for t in 0..trees {
            let mut tree = forest.tree(0);
            tree.split(t % 3, CompareType::F32.less(f64::from(t % 50)), Side::Left, 1, 2);
            tree.split(2, CompareType::F32.less(f64::from(t % 7)), Side::Left, 3, 4);
            for leaf in 2..5 {
                tree.leaf(leaf, &[1.0]);
            }
        }
        let forest = forest.build().expect("trees");
        let schedule = Schedule::parse(text).expect("a schedule");
        let lowered = lower(&forest, &schedule, Request::cpu()).expect("lowered");
        Program::new(&forest, &lowered, 1).expect("a program")
    }

    /// Around the batch size up to which a schedule has a program for small batches.
    #[test]
    fn no_plan_is_without_a_batch() {
        let walks = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nlayout(sparse)";
        let blends = format!("ranks(u8)\n{walks}\ncache(b0)\nevaluate(b1, blend)");
        let second = SchedulePrograms::new(program(300, &blends), Some(program(300, walks)));
        let bound = second.small.as_ref().expect("walks for small batches").0;
        // So few trees that they take less time in every batch, so `second` serves from its own size on.
        let first = SchedulePrograms::new(program(1, walks), None);
        for size in [bound - 1, bound, bound + 1, 2 * bound].into_iter().filter(|size| *size > 1) {
            assert!(second.seconds(size - 1) > first.seconds(size - 1), "{size} rows");
            let plans = Plans::new(vec![(1, first.clone()), (size, second.clone())]).expect("two sizes");
            let named = plans.named();
            let mut next = 1;
            for plan in &named {
                assert!(*plan.rows.start() == next && plan.rows.end() >= plan.rows.start(), "{plan}");
                next = plan.rows.end().saturating_add(1);
            }
            assert_eq!(named.len(), if size < bound { 3 } else { 2 }, "{size} rows, the bound is {bound}");
        }
    }
}
