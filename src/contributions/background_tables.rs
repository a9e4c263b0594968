//! Pattern tables of contributions against a background.
//!
//! The mean over the background of a row's contributions from a subtree depends only on the row's pattern. So a table
//! replaces the background, and a row takes as long as a row of path-dependent contributions, however many background
//! rows there are (Nadel, Wettenstein: *From Decision Trees to Boolean Logic: A Fast and Unified SHAP Algorithm*, 2025,
//! which has tables for each leaf).
//!
//! Of a leaf's path, a row satisfies some features and a background row satisfies some. The leaf counts only if each
//! feature is satisfied by one of them. So with a set `b` of features that a background row satisfies, the rows that
//! count satisfy all features outside `b` and any of those in it.

use std::sync::Arc;

use super::{
    interventional::{add_to, full, orders},
    program::{PatternTables, Program, SubtreeTables, TreeProgram},
    tables::{self, Division, MOST_BYTES, Paths, feature_numbers},
    two_rows::side,
};
use crate::{
    cost::Machine,
    forest::{CompareType, Forest, Node, Side, Targets},
    parallel,
};

/// The programs of the trees with tables.
#[derive(Clone, Debug)]
pub(super) struct TabledTrees {
    /// The program for rows that are compared in `f32`.
    pub(super) singles: Program,
    /// The program for `f64` rows, if the forest compares in `f64`.
    pub(super) doubles: Option<Program>,
    /// For each tree of the forest, whether it has tables.
    has: Vec<bool>,
}

/// The background of a forest.
pub(super) struct Background<'a> {
    /// The columns that some split reads, in ascending order.
    pub(super) columns: &'a [u32],
    /// The background's values of these columns, column after column.
    pub(super) values: &'a [f64],
    /// Number of background rows.
    pub(super) count: usize,
    /// The mean margins of the background.
    pub(super) bias: &'a [f64],
}

impl TabledTrees {
    /// Makes the tables of all trees that can have tables. Returns `None` if there are no such trees, or if their tables
    /// would take more than [`MOST_BYTES`].
    pub(super) fn new(forest: &Forest, background: &Background<'_>) -> Option<Self> {
        let costs = &Machine::here().contributions;
        let divisions: Vec<Option<Division>> =
            forest.trees.iter().map(|tree| Division::new(&tree.nodes, costs)).collect();
        let copies = match forest.targets {
            Targets::One(_) => 1,
            Targets::All => forest.outputs as usize,
        };
        let bytes = divisions.iter().flatten().map(|division| division.bytes().saturating_mul(copies));
        if bytes.fold(0, usize::saturating_add) > MOST_BYTES || !divisions.iter().any(Option::is_some) {
            return None;
        }
        let mut singles = Program::new(forest, CompareType::F32);
        let mut trees: Vec<&mut TreeProgram> = singles.trees_mut().collect();
        parallel::each_chunk(&mut trees, 1, &|_, trees| {
            for tree in trees {
                let division = divisions[tree.source.0].as_ref();
                tree.tables = division.map(|division| Arc::new(background.tables(forest, division, tree)));
            }
        });
        let mut doubles =
            (forest.compare == CompareType::F64).then(|| Program::new(forest, CompareType::F64));
        doubles.iter_mut().for_each(|doubles| tables::share(&singles, doubles));
        for program in std::iter::once(&mut singles).chain(&mut doubles) {
            program.keep_tables_only();
            program.outputs.iter_mut().zip(background.bias).for_each(|(output, bias)| output.bias = *bias);
        }
        Some(Self { singles, doubles, has: divisions.iter().map(Option::is_some).collect() })
    }

    /// Returns whether a tree of the forest has tables.
    pub(super) fn has(&self, tree: usize) -> bool {
        self.has[tree]
    }

    /// Returns whether all trees of the forest have tables.
    pub(super) fn has_all(&self) -> bool {
        self.has.iter().all(|has| *has)
    }
}

/// A split of a path: the bit of its test in a pattern, its column, and the path's side.
#[derive(Clone, Copy)]
struct Step {
    bit: u32,
    column: u32,
    side: Side,
}

impl Background<'_> {
    /// Computes the tables of a divided tree, whose leaves' expected value is subtracted: a constant of the tree changes
    /// no contribution, and without it the tables of its subtrees do not cancel each other.
    fn tables(&self, forest: &Forest, division: &Division, tree: &TreeProgram) -> PatternTables {
        let (index, value) = tree.source;
        let nodes = &forest.trees[index].nodes;
        let paths = Paths::new(division, nodes);
        let tests = division.first_splits();
        let goes_left: Vec<Vec<bool>> = tests
            .iter()
            .map(|s| self.goes_left(forest, nodes[division.splits[*s as usize].0 as usize]))
            .collect();
        let numbers = feature_numbers(tree);
        let (mut subtrees, mut values) = (Vec::new(), Vec::new());
        for subtree in &division.subtrees {
            let own_tests = subtree.tests.list();
            let mut columns: Vec<u32> =
                own_tests.iter().map(|test| tree.splits[tests[*test as usize] as usize].column).collect();
            columns.sort_unstable();
            columns.dedup();
            let step = |n: u32, side| {
                let test = paths.tests[n as usize];
                Step {
                    bit: own_tests.binary_search(&test).unwrap_or(0) as u32,
                    column: tree.splits[tests[test as usize] as usize].column,
                    side,
                }
            };
            let mut patterns = vec![0usize; self.count];
            for (bit, test) in own_tests.iter().enumerate() {
                let sides = &goes_left[*test as usize];
                patterns
                    .iter_mut()
                    .zip(sides)
                    .for_each(|(pattern, left)| *pattern |= usize::from(*left) << bit);
            }
            // How many background rows have each pattern.
            let mut counts = vec![0u32; 1 << own_tests.len()];
            patterns.iter().for_each(|pattern| counts[*pattern] += 1);
            let path: Vec<Step> = paths.to(subtree.root).map(|(n, side)| step(n, side)).collect();
            let mut sums = vec![0f64; columns.len() * counts.len()];
            let mut open = vec![(subtree.root, path)];
            while let Some((n, path)) = open.pop() {
                if let Node::Split { left, right, .. } = nodes[n as usize] {
                    for (child, side) in [(left, Side::Left), (right, Side::Right)] {
                        let mut path = path.clone();
                        path.push(step(n, side));
                        open.push((child, path));
                    }
                } else if let Some(slot) = nodes[n as usize].slot() {
                    let value = forest.leaf(slot)[value].0 - tree.expected;
                    self.add_leaf(&path, value, &counts, &columns, &mut sums);
                }
            }
            let features = columns.iter().map(|column| numbers.get(column).copied().unwrap_or(0)).collect();
            let tables = SubtreeTables { tests: own_tests, features, first: values.len() };
            for table in sums.chunks_exact(counts.len()) {
                values.extend(table.iter().cycle().take(tables.patterns()).map(|sum| *sum as f32));
            }
            subtrees.push(tables);
        }
        PatternTables { tests, subtrees, values }
    }

    /// Returns for each background row whether it goes left at a split.
    fn goes_left(&self, forest: &Forest, split: Node) -> Vec<bool> {
        let Node::Split { feature, predicate, missing, .. } = split else { return Vec::new() };
        // `columns` holds every column that a split reads.
        let column = self.columns.binary_search(&feature).unwrap_or(0);
        let values = &self.values[column * self.count..][..self.count];
        values.iter().map(|x| side(&forest.sets, predicate, missing, *x) == Side::Left).collect()
    }

    /// Adds the contributions of a leaf to the tables of `columns`, a number for each pattern.
    fn add_leaf(&self, path: &[Step], value: f64, counts: &[u32], columns: &[u32], sums: &mut [f64]) {
        // The path's features, each with the bits that are 1 and those that are 0 if a row satisfies it.
        let mut features: Vec<(u32, [usize; 2])> = Vec::new();
        for step in path {
            let at = features.iter().position(|(column, _)| *column == step.column).unwrap_or_else(|| {
                features.push((step.column, [0, 0]));
                features.len() - 1
            });
            features[at].1[usize::from(step.side == Side::Right)] |= 1 << step.bit;
        }
        let satisfies =
            |pattern: usize, [ones, zeros]: [usize; 2]| pattern & ones == ones && pattern & zeros == 0;
        // The features that a row satisfies, as bits, for each of its patterns.
        let satisfied: Vec<u64> = (0..counts.len())
            .map(|pattern| {
                let bits = features
                    .iter()
                    .enumerate()
                    .map(|(f, (_, bits))| u64::from(satisfies(pattern, *bits)) << f);
                bits.sum()
            })
            .collect();
        let mut of_background = vec![0u32; 1 << features.len()];
        counts
            .iter()
            .zip(&satisfied)
            .for_each(|(count, satisfied)| of_background[*satisfied as usize] += count);
        // For each set of features that a row satisfies, what each feature gets.
        let count = features.len();
        let mut shares = vec![0f64; count << count];
        for (set, times) in of_background.iter().enumerate().filter(|(_, times)| **times > 0) {
            let share = value * f64::from(*times) / self.count as f64;
            let only_row = full(count) & !(set as u64);
            // All subsets of `set`.
            let mut both = set as u64;
            loop {
                let only_background = set as u64 & !both;
                let (a, b) = (only_row.count_ones() as usize, only_background.count_ones() as usize);
                if a + b > 0 {
                    let of_row = &mut shares[(only_row | both) as usize * count..][..count];
                    let orders = share * orders(a, b);
                    add_to(of_row, only_row, orders / a as f64);
                    add_to(of_row, only_background, -orders / b as f64);
                }
                if both == 0 {
                    break;
                }
                both = (both - 1) & set as u64;
            }
        }
        for (f, (column, _)) in features.iter().enumerate() {
            let table = columns.binary_search(column).unwrap_or(0);
            let table = &mut sums[table * counts.len()..][..counts.len()];
            for (sum, satisfied) in table.iter_mut().zip(&satisfied) {
                *sum += shares[*satisfied as usize * count + f];
            }
        }
    }
}
