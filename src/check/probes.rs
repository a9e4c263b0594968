//! Probes: rows made for a forest, with values on its thresholds, just below and just above, on paths that
//! lead to them.

use crate::forest::{Forest, Node, Predicate, Side, reference};

/// A type of values in the rows of [`Probes`]: `f32` or `f64`.
pub trait Value: reference::Input + PartialEq {
    /// Returns the value of this type that is nearest to `value`.
    fn of(value: f64) -> Self;
    /// Returns the next value below.
    fn below(self) -> Self;
    /// Returns the next value above.
    fn above(self) -> Self;
}

impl Value for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }
    fn below(self) -> Self {
        self.next_down()
    }
    fn above(self) -> Self {
        self.next_up()
    }
}

impl Value for f64 {
    fn of(value: f64) -> Self {
        value
    }
    fn below(self) -> Self {
        self.next_down()
    }
    fn above(self) -> Self {
        self.next_up()
    }
}

/// Zeros of both signs, and both infinities.
const ENDS: [f64; 4] = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY];
/// Values that are seldom thresholds: missing, zeros, infinities, denormals, and numbers at the bounds of
/// what can be a category.
const SPECIAL: [f64; 13] = [
    f64::NAN,
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e-40,
    -1e-40,
    -0.5,
    -1.0,
    2.7,
    16_777_216.0,
    1e30,
    1.0,
];

/// Rows made for a forest, one after the other.
#[derive(Clone, Debug)]
pub struct Probes<T> {
    /// The values, `rows x columns`.
    pub values: Vec<T>,
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
}

impl<T: Value> Probes<T> {
    /// Makes `rows` rows for a forest. The same seed always gives the same rows.
    ///
    /// A row first follows a path of one tree to a leaf. Each split on it usually gets a value on its
    /// threshold or right beside it. The row then meets splits of other trees the same way. A column that no
    /// split has asked for gets a missing value, a zero, an infinity or the like. Categories come in turn,
    /// row by row.
    ///
    /// ```
    /// use fangorn::{Forest, check::Probes};
    ///
    /// let mut forest = Forest::builder(3, 1);
    /// forest.tree(0).leaf(0, &[0.5]);
    /// let rows = Probes::<f32>::new(&forest.build()?, 100, 0);
    /// assert_eq!(rows.values.len(), 100 * 3);
    /// # Ok::<(), fangorn::Error>(())
    /// ```
    pub fn new(forest: &Forest, rows: usize, seed: u64) -> Self {
        let columns = forest.features.len();
        let mut maker = ProbeBuilder { forest, random: Random(seed), round: 0, set: vec![0; columns] };
        let mut values = vec![T::of(0.0); rows * columns];
        if columns > 0 {
            for (r, row) in values.chunks_exact_mut(columns).enumerate() {
                maker.round = r as u32 + 1;
                maker.fill(row);
            }
        }
        Self { values, rows, columns }
    }

    /// Returns row `r`.
    pub fn row(&self, r: usize) -> &[T] {
        &self.values[r * self.columns..][..self.columns]
    }
}

/// Maximum number of splits of other trees that a row meets. Each of their nodes is far from the one before in memory,
/// so each is slow to read.
const MET: usize = 64;

struct ProbeBuilder<'f> {
    forest: &'f Forest,
    random: Random,
    /// The row's number, counted from 1.
    round: u32,
    /// For each column, the number of the last row that set it.
    set: Vec<u32>,
}

impl ProbeBuilder<'_> {
    fn fill<T: Value>(&mut self, row: &mut [T]) {
        let trees = self.forest.trees.len();
        if trees > 0 {
            let first = self.random.below(trees);
            self.follow(first, row);
            for _ in 0..MET.min(2 * row.len()).min(2 * self.splits()) {
                let tree = self.random.below(trees);
                let node = self.random.below(self.forest.trees[tree].nodes.len());
                self.meet(tree, node, row);
            }
        }
        for (value, set) in row.iter_mut().zip(&self.set) {
            if *set != self.round {
                *value = T::of(SPECIAL[self.random.below(SPECIAL.len())]);
            }
        }
    }

    /// Returns roughly the number of splits of the forest.
    fn splits(&self) -> usize {
        self.forest.leaf_count().max(1)
    }

    /// Goes from the root to a leaf, and sets each column when the path first reads it.
    fn follow<T: Value>(&mut self, tree: usize, row: &mut [T]) {
        let mut at = 0;
        let forest = self.forest;
        while let Node::Split { feature, predicate, missing, left, right } = forest.trees[tree].nodes[at] {
            self.meet(tree, at, row);
            let side = reference::side(forest, predicate, missing, row[feature as usize]);
            at = if side == Side::Left { left as usize } else { right as usize };
        }
    }

    /// Sets the column that a split reads, unless it has been set for this row.
    fn meet<T: Value>(&mut self, tree: usize, node: usize, row: &mut [T]) {
        let Node::Split { feature, predicate, .. } = self.forest.trees[tree].nodes[node] else { return };
        let column = feature as usize;
        if self.set[column] == self.round {
            return;
        }
        self.set[column] = self.round;
        row[column] = match self.random.below(12) {
            0 => T::of(f64::NAN),
            1 => T::of(ENDS[self.random.below(ENDS.len())]),
            2 => T::of(SPECIAL[self.random.below(SPECIAL.len())]),
            draw => self.beside(predicate, draw),
        };
    }

    /// Returns a split's threshold or a value right beside it, or a category for a split on a category set.
    fn beside<T: Value>(&mut self, predicate: Predicate, draw: usize) -> T {
        match predicate {
            Predicate::Less { threshold: t }
            | Predicate::LessZeroAside { threshold: t }
            | Predicate::Equal { value: t } => {
                let t = T::of(t.0);
                match draw % 3 {
                    0 => t,
                    1 => t.below(),
                    _ => t.above(),
                }
            }
            Predicate::InSet { set, .. } => {
                // All codes of the set's words come in turn, and one past the last.
                let codes = 32 * self.forest.sets[set as usize].words.len() + 1;
                T::of(((self.round as usize + self.random.below(2) * codes / 2) % codes) as f64)
            }
            Predicate::Always => T::of(SPECIAL[self.random.below(SPECIAL.len())]),
        }
    }
}

/// Pseudo-random numbers from a seed (splitmix64; Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Returns a number that is at least 0 and below 1.
    pub(crate) fn fraction(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forest::{CategoryRule, Real};

    #[test]
    fn rows_meet_every_split_from_both_sides() {
        let mut builder = Forest::builder(3, 1);
        let set = builder.set([0, 3, 6], CategoryRule::NotNegative);
        let mut tree = builder.tree(0);
        let less = |t: f64| Predicate::Less { threshold: Real(t) };
        tree.split(0, less(0.5), Side::Left, 1, 2);
        tree.split(1, less(-2.0), Side::Right, 3, 4);
        tree.split(2, Predicate::InSet { set, inside: Side::Left }, Side::Left, 5, 6);
        for leaf in 3..7 {
            tree.leaf(leaf, &[0.0]);
        }
        let forest = builder.build().expect("a forest");
        let rows = Probes::<f32>::new(&forest, 200, 1);
        let has = |column: usize, value: f32| (0..200).any(|r| rows.row(r)[column] == value);
        for (column, t) in [(0, 0.5f32), (1, -2.0)] {
            for value in [t, t.next_down(), t.next_up(), f32::INFINITY, f32::NEG_INFINITY] {
                assert!(has(column, value), "{value} in column {column}");
            }
            assert!((0..200).any(|r| rows.row(r)[column].is_nan()));
        }
        assert!((0..=32).all(|code| has(2, code as f32)), "every category");
        let same = Probes::<f32>::new(&forest, 200, 1);
        assert!(rows.values.iter().zip(&same.values).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
