//! A split on a computed column as a split on the column it is computed of.

use super::prologue::Operation;
use super::{CompareType, Predicate, Side, ZERO_ZONE, least_f32_not_below, reference};

/// What happens to one column before a split asks for it.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    /// The raw column that goes in.
    pub(super) column: u32,
    /// The type of raw rows.
    rows: CompareType,
    /// Until [`Chain::finish`], the last one first.
    steps: Vec<ChainStep>,
}

#[derive(Clone, Copy, Debug)]
enum ChainStep {
    Arithmetic(Operation, f64, CompareType),
    Cast,
}

/// A predicate on the raw column, and whether children change places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub(super) predicate: Predicate,
    pub(super) swapped: bool,
}

impl Chain {
    /// A chain without steps but the forest's own rounding.
    pub(super) fn new(feature: u32, compare: CompareType, rows: CompareType) -> Self {
        let mut chain = Self { column: feature, rows, steps: Vec::new() };
        chain.cast(compare);
        chain
    }

    /// Puts an operation before the others.
    pub(super) fn arithmetic(&mut self, operation: Operation, number: f64, precision: CompareType) {
        let number = precision.cast(number);
        let neutral = match operation {
            Operation::Add | Operation::Subtract => 0.0,
            Operation::Multiply | Operation::Divide => 1.0,
        };
        // The sign of a zero is asked by nobody.
        if number != neutral {
            self.steps.push(ChainStep::Arithmetic(operation, number, precision));
        }
        // The first operand is rounded, too.
        self.cast(precision);
    }

    /// Puts a rounding before the others.
    pub(super) fn cast(&mut self, precision: CompareType) {
        if precision == CompareType::F32 {
            self.steps.push(ChainStep::Cast);
        }
    }

    /// Turns the steps round and leaves out roundings of what is rounded already.
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

    /// The split on the raw column that decides as `predicate` and `missing` do on the computed one.
    pub(super) fn fold(&self, predicate: Predicate, missing: Side) -> Result<Fold, &'static str> {
        let same = |predicate| Ok(Fold { predicate, swapped: false });
        match predicate {
            Predicate::InSet { .. } if self.steps.is_empty() => return same(predicate),
            Predicate::InSet { .. } => {
                return Err("the column is read as a category, and a step computes it or rounds it");
            }
            Predicate::LessZeroAside { threshold } if self.steps.is_empty() => {
                // The zone ends at values of either type.
                let narrowed = f64::from(least_f32_not_below(threshold.0));
                let threshold = if self.rows == CompareType::F32 { narrowed.into() } else { threshold };
                return same(Predicate::LessZeroAside { threshold });
            }
            _ => {}
        }
        self.split(&self.runs(predicate, missing))
    }

    /// The predicate of sides that change at these keys.
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

    /// From which key on which side is taken, in the order of keys.
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
        for whole in self.pieces() {
            let mut parts = vec![whole];
            for ask in asks {
                parts = self.parted(parts, self.steps.len(), |y| ask(y, of));
            }
            for part in parts {
                take(part.0, reference::side_of_cast(&[], predicate, missing, self.result(part.0)));
            }
            // What comes between this piece and the next is NaN.
            if whole.1 < largest_key(self.rows) {
                take(whole.1 + 1, missing);
            }
        }
        runs.dedup_by_key(|run| run.1);
        runs
    }

    /// The keys, in pieces from the first to the last, whose results are no NaN. On each of them the result goes one way.
    fn pieces(&self) -> Vec<(i64, i64)> {
        let largest = largest_key(self.rows);
        let mut pieces = vec![(-largest, largest)];
        for (s, step) in self.steps.iter().enumerate() {
            let ChainStep::Arithmetic(operation, 0.0, _) = step else { continue };
            match operation {
                // An infinity times zero.
                Operation::Multiply => {
                    pieces = self.parted(pieces, s, |y| y > f64::NEG_INFINITY);
                    pieces = self.parted(pieces, s, |y| y < f64::INFINITY);
                    pieces.retain(|piece| self.after(s, piece.0).is_finite());
                }
                // Zero by zero.
                Operation::Divide => {
                    pieces = self.parted(pieces, s, |y| y < 0.0);
                    pieces = self.parted(pieces, s, |y| y <= 0.0);
                    pieces.retain(|piece| self.after(s, piece.0) != 0.0);
                }
                Operation::Add | Operation::Subtract => {}
            }
        }
        pieces
    }

    /// Pieces parted where the answer to a question of what the first `steps` steps give changes: at most once a piece,
    /// because what they give goes one way there.
    fn parted(&self, pieces: Vec<(i64, i64)>, steps: usize, ask: impl Fn(f64) -> bool) -> Vec<(i64, i64)> {
        let mut parts = Vec::with_capacity(pieces.len() + 1);
        for (first, last) in pieces {
            let answer = |key| ask(self.after(steps, key));
            let end = answer(last);
            if answer(first) == end {
                parts.push((first, last));
                continue;
            }
            // The answer at `before` is the first one's, at `from` the last one's.
            let (mut before, mut from) = (first, last);
            while from > before + 1 {
                let middle = i64::midpoint(before, from);
                if answer(middle) == end { from = middle } else { before = middle }
            }
            parts.extend([(first, before), (from, last)]);
        }
        parts
    }

    fn result(&self, key: i64) -> f64 {
        self.after(self.steps.len(), key)
    }

    /// What the first `steps` steps make of the input with this key.
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

/// The key of infinity. Keys are in the order of the values and next to each other; both zeros have the key 0, which no
/// step tells apart but by the sign of a zero again.
fn largest_key(rows: CompareType) -> i64 {
    match rows {
        CompareType::F32 => i64::from(f32::INFINITY.to_bits()),
        CompareType::F64 => f64::INFINITY.to_bits() as i64,
    }
}

/// The value of a key.
fn value(rows: CompareType, key: i64) -> f64 {
    let magnitude = match rows {
        CompareType::F32 => f64::from(f32::from_bits(key.unsigned_abs() as u32)),
        CompareType::F64 => f64::from_bits(key.unsigned_abs()),
    };
    if key < 0 { -magnitude } else { magnitude }
}
