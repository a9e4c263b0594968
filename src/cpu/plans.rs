//! The programs of a forest, by the number of rows in a batch.

use std::ops::RangeInclusive;

use super::Program;

/// The programs of a forest: one for all batches, or one for batches too small to fill a block of blends and
/// another for larger ones.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    small: Option<Program>,
    large: Program,
}

/// A program and the batches that it serves.
#[derive(Clone, Debug)]
pub struct NamedPlan<'a> {
    /// The name: `all batches`, `small batches` or `large batches`.
    pub name: &'static str,
    /// Rows of the batches that it serves.
    pub rows: RangeInclusive<usize>,
    /// The program that runs these batches.
    pub program: &'a Program,
}

impl Plans {
    /// Makes plans with one program for all batches.
    pub(crate) fn of_all(large: Program) -> Self {
        Self { small: None, large }
    }

    /// Adds a program for the small batches that it runs faster than the large one does.
    pub(crate) fn with_small(self, small: Program) -> Self {
        Self { small: Some(small.for_small_batches_of(&self.large)), ..self }
    }

    /// Returns the program of the largest batches.
    pub(crate) fn large(&self) -> &Program {
        &self.large
    }

    /// Returns the program for a batch of `rows` rows. This is the one place that decides it.
    pub(crate) fn of(&self, rows: usize) -> &Program {
        self.small.as_ref().filter(|small| rows < small.few_rows()).unwrap_or(&self.large)
    }

    /// Returns all programs, the one for the smallest batches first.
    pub(crate) fn named(&self) -> Vec<NamedPlan<'_>> {
        let Self { small, large } = self;
        let from = small.as_ref().map_or(1, Program::few_rows);
        let name = if small.is_some() { "large batches" } else { "all batches" };
        let mut named = vec![NamedPlan { name, rows: from..=usize::MAX, program: large }];
        if let Some(program) = small.as_ref().filter(|_| from > 1) {
            named.insert(0, NamedPlan { name: "small batches", rows: 1..=from - 1, program });
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
