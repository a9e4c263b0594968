//! Rewrites a split on a computed column into a split on the raw column that the computation starts from.

use super::prologue::Operation;
use super::{CompareType, Predicate, Side, ZERO_ZONE, least_f32_not_below, reference};

/// The computation that turns one raw column into the column that a split reads.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// Index of the raw column.
    pub(super) column: u32,
    /// The type of values in raw rows.
    rows: CompareType,
    /// The steps of the computation. The last step comes first until [`Chain::finish`] reverses them.
    steps: Vec<ChainStep>,
}

#[derive(Clone, Copy, Debug)]
enum ChainStep {
    Arithmetic(Operation, f64, CompareType),
    Cast,
}

/// A predicate on the raw column, and whether the split's children swap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub(super) predicate: Predicate,
    pub(super) swapped: bool,
}

impl Chain {
    /// Returns a chain whose only step is the cast to `compare`, the type in which the forest compares.
    pub(super) fn new(feature: u32, compare: CompareType, rows: CompareType) -> Self {
        let mut chain = Self { column: feature, rows, steps: Vec::new() };
        chain.cast(compare);
        chain
    }

    /// Prepends an arithmetic operation, so that it runs before the steps that are in the chain.
    pub(super) fn arithmetic(&mut self, operation: Operation, number: f64, precision: CompareType) {
        let number = precision.cast(number);
        let neutral = match operation {
            Operation::Add | Operation::Subtract => 0.0,
            Operation::Multiply | Operation::Divide => 1.0,
        };
        // The chain leaves out `x + 0`, `x - 0`, `x * 1` and `x / 1`. They change at most the sign of a zero,
        // which no split asks for.
        if number != neutral {
            self.steps.push(ChainStep::Arithmetic(operation, number, precision));
        }
        // The operation also rounds its first operand, the column's value, to `precision`.
        self.cast(precision);
    }

    /// Prepends a rounding to `precision`, so that it runs before the steps that are in the chain.
    pub(super) fn cast(&mut self, precision: CompareType) {
        if precision == CompareType::F32 {
            self.steps.push(ChainStep::Cast);
        }
    }

    /// Puts the steps in the order in which they run, and drops casts of values that are `f32` already.
    pub(super) fn finish(&mut self) {
        self.steps.reverse();
        let mut single = self.rows == CompareType::F32;
        self.steps.retain(|step| match step {
            ChainStep::Cast => !std::mem::replace(&mut single, true),
            ChainStep::Arithmetic(.., precision) => {
                single = *precision == CompareType::F32;
                true
            }
        });
    }

    /// Returns the split on the raw column that decides as `predicate` and `missing` decide on the computed
    /// column.
    pub(super) fn fold(&self, predicate: Predicate, missing: Side) -> Result<Fold, &'static str> {
        let same = |predicate| Ok(Fold { predicate, swapped: false });
        match predicate {
            Predicate::InSet { .. } if self.steps.is_empty() => return same(predicate),
            Predicate::InSet { .. } => {
                return Err("the column is read as a category, and a step computes it or rounds it");
            }
            Predicate::LessZeroAside { threshold } if self.steps.is_empty() => {
                // Both ends of the zone of zeros are `f32` values, so the narrowed threshold stays outside
                // the zone.
                let narrowed = f64::from(least_f32_not_below(threshold.0));
                let threshold = if self.rows == CompareType::F32 { narrowed.into() } else { threshold };
                return same(Predicate::LessZeroAside { threshold });
            }
            _ => {}
        }
        self.split(&self.runs(predicate, missing))
    }

    /// Returns the predicate that takes the side of each run. `runs` holds the first key of each run with the
    /// run's side.
    fn split(&self, runs: &[(i64, Side)]) -> Result<Fold, &'static str> {
        let fold = |predicate, first: Side| Ok(Fold { predicate, swapped: first == Side::Right });
        let real = |key| value(self.rows, key).into();
        match *runs {
            [(_, side)] => fold(Predicate::Always, side),
            [(_, first), (second, _)] => fold(Predicate::Less { threshold: real(second) }, first),
            [_, (second, side), (third, _)] if third == second + 1 => {
                fold(Predicate::Equal { value: real(second) }, side)
            }
            _ => Err("after the steps the split asks for more than one threshold of the raw column"),
        }
    }

    /// Returns the runs of keys that take one side: the first key and the side of each run, in ascending
    /// order of keys.
    fn runs(&self, predicate: Predicate, missing: Side) -> Vec<(i64, Side)> {
        let asks: &[fn(f64, f64) -> bool] = match predicate {
            Predicate::Less { .. } => &[|y, t| y < t],
            Predicate::LessZeroAside { .. } => {
                &[|y, t| y < t, |y, _| y < -f64::from(ZERO_ZONE), |y, _| y <= f64::from(ZERO_ZONE)]
            }
            Predicate::Equal { .. } => &[|y, v| y < v, |y, v| y <= v],
            Predicate::Always | Predicate::InSet { .. } => &[],
        };
        let of = match predicate {
            Predicate::Less { threshold } | Predicate::LessZeroAside { threshold } => threshold.0,
            Predicate::Equal { value } => value.0,
            Predicate::Always | Predicate::InSet { .. } => 0.0,
        };
        let least = -largest_key(self.rows);
        let mut runs = vec![(least, missing)];
        let mut take = |key: i64, side: Side| match runs.last_mut() {
            Some(last) if last.0 == key => last.1 = side,
            _ => runs.push((key, side)),
        };
        for whole in self.monotonic_ranges() {
            let mut ranges = vec![whole];
            for ask in asks {
                ranges = self.split_where_answer_changes(ranges, self.steps.len(), |y| ask(y, of));
            }
            for range in ranges {
                take(range.0, reference::side_of_cast(&[], predicate, missing, self.result(range.0)));
            }
            // The keys between this range and the next give NaN, which takes the missing side.
            if whole.1 < largest_key(self.rows) {
                take(whole.1 + 1, missing);
            }
        }
        runs.dedup_by_key(|run| run.1);
        runs
    }

    /// Returns the ranges of keys, both ends included and ascending, whose results are not NaN. In each range
    /// the result is monotonic in the key.
    fn monotonic_ranges(&self) -> Vec<(i64, i64)> {
        let largest = largest_key(self.rows);
        let mut monotonic_ranges = vec![(-largest, largest)];
        for (s, step) in self.steps.iter().enumerate() {
            let ChainStep::Arithmetic(operation, 0.0, _) = step else { continue };
            match operation {
                // Infinity times zero is NaN, so infinities are split off and dropped.
                Operation::Multiply => {
                    monotonic_ranges =
                        self.split_where_answer_changes(monotonic_ranges, s, |y| y > f64::NEG_INFINITY);
                    monotonic_ranges =
                        self.split_where_answer_changes(monotonic_ranges, s, |y| y < f64::INFINITY);
                    monotonic_ranges.retain(|range| self.after(s, range.0).is_finite());
                }
                // Zero divided by zero is NaN, so zero is split off and dropped.
                Operation::Divide => {
                    monotonic_ranges = self.split_where_answer_changes(monotonic_ranges, s, |y| y < 0.0);
                    monotonic_ranges = self.split_where_answer_changes(monotonic_ranges, s, |y| y <= 0.0);
                    monotonic_ranges.retain(|range| self.after(s, range.0) != 0.0);
                }
                Operation::Add | Operation::Subtract => {}
            }
        }
        monotonic_ranges
    }

    /// Splits each range at the key where the answer of `ask` to the result of the first `steps` steps
    /// changes. The answer changes at most once in a range, because the result is monotonic there.
    fn split_where_answer_changes(
        &self,
        monotonic_ranges: Vec<(i64, i64)>,
        steps: usize,
        ask: impl Fn(f64) -> bool,
    ) -> Vec<(i64, i64)> {
        let mut ranges = Vec::with_capacity(monotonic_ranges.len() + 1);
        for (first, last) in monotonic_ranges {
            let answer = |key| ask(self.after(steps, key));
            let end = answer(last);
            if answer(first) == end {
                ranges.push((first, last));
                continue;
            }
            // The answer at `before` equals the answer at the first key, the answer at `from` equals the
            // answer at the last key.
            let (mut before, mut from) = (first, last);
            while from > before + 1 {
                let middle = i64::midpoint(before, from);
                if answer(middle) == end { from = middle } else { before = middle }
            }
            ranges.extend([(first, before), (from, last)]);
        }
        ranges
    }

    fn result(&self, key: i64) -> f64 {
        self.after(self.steps.len(), key)
    }

    /// Returns the result of the first `steps` steps for the raw value with the key `key`.
    fn after(&self, steps: usize, key: i64) -> f64 {
        self.steps[..steps].iter().fold(value(self.rows, key), |x, step| match *step {
            ChainStep::Cast => CompareType::F32.cast(x),
            ChainStep::Arithmetic(operation, number, CompareType::F64) => match operation {
                Operation::Add => x + number,
                Operation::Subtract => x - number,
                Operation::Multiply => x * number,
                Operation::Divide => x / number,
            },
            ChainStep::Arithmetic(operation, number, CompareType::F32) => {
                let (x, number) = (x as f32, number as f32);
                f64::from(match operation {
                    Operation::Add => x + number,
                    Operation::Subtract => x - number,
                    Operation::Multiply => x * number,
                    Operation::Divide => x / number,
                })
            }
        })
    }
}

/// Returns the key of infinity. Keys are consecutive integers in the order of the values. Both zeros have the
/// key 0: no step tells them apart, except by the sign of another zero.
fn largest_key(rows: CompareType) -> i64 {
    match rows {
        CompareType::F32 => i64::from(f32::INFINITY.to_bits()),
        CompareType::F64 => f64::INFINITY.to_bits() as i64,
    }
}

/// Returns the value that has the key `key`.
fn value(rows: CompareType, key: i64) -> f64 {
    let magnitude = match rows {
        CompareType::F32 => f64::from(f32::from_bits(key.unsigned_abs() as u32)),
        CompareType::F64 => f64::from_bits(key.unsigned_abs()),
    };
    if key < 0 { -magnitude } else { magnitude }
}
