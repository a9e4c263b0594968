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
    program::{PatternTables, Program, SubtreeTables, TreeProgram},
    shares::{add_to, full, orders},
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
pub(crate) struct TabledTrees {
    /// The program for rows that are compared in `f32`.
    pub(crate) singles: Program,
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
        // A tree without splits has a division, but nothing in it.
        let has_splits = |division: &Division| division.tests > 0;
        if bytes.fold(0, usize::saturating_add) > MOST_BYTES || !divisions.iter().flatten().any(has_splits) {
            return None;
        }
        let mut singles = Program::new(forest, CompareType::F32);
        // The programs of each tree, one for each value of its leaves.
        let mut trees: Vec<Vec<&mut TreeProgram>> = divisions.iter().map(|_| Vec::new()).collect();
        singles.trees_mut().for_each(|tree| trees[tree.source.0].push(tree));
        parallel::each_chunk(&mut trees, 1, &|t, trees| {
            let (Some(division), Some(programs)) = (&divisions[t], trees.first_mut()) else { return };
            let tables = background.tables(forest, division, programs);
            programs
                .iter_mut()
                .zip(tables)
                .for_each(|(program, tables)| program.tables = Some(Arc::new(tables)));
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
    pub(crate) fn has(&self, tree: usize) -> bool {
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
    /// Computes the tables of a divided tree, for each of its programs. The programs differ in the value of the leaves
    /// that they explain.
    ///
    /// The mean over the background is subtracted from the leaves. A constant of the tree changes no contribution, but
    /// without it the tables of different subtrees would cancel each other, and lose digits.
    fn tables(
        &self,
        forest: &Forest,
        division: &Division,
        programs: &[&mut TreeProgram],
    ) -> Vec<PatternTables> {
        let Some(tree) = programs.first() else { return Vec::new() };
        let nodes = &forest.trees[tree.source.0].nodes;
        let paths = Paths::new(division, nodes);
        let tests = division.first_splits();
        let column_of = |test: u32| tree.splits[tests[test as usize] as usize].column;
        let goes_left: Vec<Vec<bool>> = tests
            .iter()
            .map(|s| self.goes_left(forest, nodes[division.splits[*s as usize].0 as usize]))
            .collect();
        let means = self.means(forest, nodes, &paths, &goes_left);
        let numbers: Vec<_> = programs.iter().map(|program| feature_numbers(program)).collect();
        let mut made: Vec<PatternTables> = programs
            .iter()
            .map(|_| PatternTables { tests: tests.clone(), subtrees: Vec::new(), values: Vec::new() })
            .collect();
        for subtree in &division.subtrees {
            let own_tests = subtree.tests.list();
            let mut columns: Vec<u32> = own_tests.iter().map(|test| column_of(*test)).collect();
            columns.sort_unstable();
            columns.dedup();
            let step = |n: u32, side| {
                let test = paths.tests[n as usize];
                let bit = own_tests.binary_search(&test).unwrap_or(0) as u32;
                Step { bit, column: column_of(test), side }
            };
            let mut patterns = vec![0usize; self.count];
            for (bit, test) in own_tests.iter().enumerate() {
                let sides = &goes_left[*test as usize];
                let sides = sides.iter().map(|left| usize::from(*left) << bit);
                patterns.iter_mut().zip(sides).for_each(|(pattern, side)| *pattern |= side);
            }
            // How many background rows have each pattern.
            let mut counts = vec![0u32; 1 << own_tests.len()];
            patterns.iter().for_each(|pattern| counts[*pattern] += 1);
            // The tables of each program, one after the other, each with its columns.
            let length = columns.len() * counts.len();
            let mut sums = vec![0f64; programs.len() * length];
            let path: Vec<Step> = paths.to(subtree.root).map(|(n, side)| step(n, side)).collect();
            let mut open = vec![(subtree.root, path)];
            while let Some((n, path)) = open.pop() {
                if let Node::Split { left, right, .. } = nodes[n as usize] {
                    for (child, side) in [(left, Side::Left), (right, Side::Right)] {
                        let mut path = path.clone();
                        path.push(step(n, side));
                        open.push((child, path));
                    }
                } else if let Some(slot) = nodes[n as usize].slot() {
                    let shares = self.leaf_shares(&path, &counts);
                    let leaf = forest.leaf(slot);
                    for (program, sums) in programs.iter().zip(sums.chunks_exact_mut(length.max(1))) {
                        let value = program.source.1;
                        shares.add(leaf[value].0 - means[value], &columns, sums);
                    }
                }
            }
            for ((made, numbers), sums) in made.iter_mut().zip(&numbers).zip(sums.chunks_exact(length.max(1)))
            {
                let features =
                    columns.iter().map(|column| numbers.get(column).copied().unwrap_or(0)).collect();
                let tables = SubtreeTables { tests: own_tests.clone(), features, first: made.values.len() };
                for table in sums.chunks_exact(counts.len()) {
                    let table = table.iter().cycle().take(tables.patterns());
                    made.values.extend(table.map(|sum| *sum as f32));
                }
                made.subtrees.push(tables);
            }
        }
        made
    }

    /// Returns the mean over the background of each value of a tree's leaves. `goes_left` has the sides of all background
    /// rows, for each test.
    fn means(&self, forest: &Forest, nodes: &[Node], paths: &Paths, goes_left: &[Vec<bool>]) -> Vec<f64> {
        let leaf_of = |row: usize| {
            let mut n = 0;
            while let Node::Split { left, right, .. } = nodes[n as usize] {
                n = if goes_left[paths.tests[n as usize] as usize][row] { left } else { right };
            }
            forest.leaf(nodes[n as usize].slot().unwrap_or(0))
        };
        let mut means: Vec<f64> = Vec::new();
        for leaf in (0..self.count).map(leaf_of) {
            means.resize(leaf.len(), 0.0);
            means.iter_mut().zip(leaf).for_each(|(mean, value)| *mean += value.0 / self.count as f64);
        }
        means
    }

    /// Returns for each background row whether it goes left at a split.
    pub(super) fn goes_left(&self, forest: &Forest, split: Node) -> Vec<bool> {
        let Node::Split { feature, predicate, missing, .. } = split else { return Vec::new() };
        // `columns` holds every column that a split reads.
        let column = self.columns.binary_search(&feature).unwrap_or(0);
        let values = &self.values[column * self.count..][..self.count];
        values.iter().map(|x| side(&forest.sets, predicate, missing, *x) == Side::Left).collect()
    }

    /// Returns what a leaf with the value 1 adds to the contributions, from the numbers of background rows with each
    /// pattern.
    fn leaf_shares(&self, path: &[Step], counts: &[u32]) -> LeafShares {
        // The path's features, each with the bits that are 1 and those that are 0 if a row satisfies it.
        let mut features: Vec<(u32, [usize; 2])> = Vec::new();
        for step in path {
            let at = features.iter().position(|(column, _)| *column == step.column).unwrap_or_else(|| {
                features.push((step.column, [0, 0]));
                features.len() - 1
            });
            features[at].1[usize::from(step.side == Side::Right)] |= 1 << step.bit;
        }
        let satisfied: Vec<u64> = (0..counts.len())
            .map(|pattern| {
                let satisfies = |[ones, zeros]: [usize; 2]| pattern & ones == ones && pattern & zeros == 0;
                features.iter().enumerate().map(|(f, (_, bits))| u64::from(satisfies(*bits)) << f).sum()
            })
            .collect();
        let count = features.len();
        let mut of_background = vec![0u32; 1 << count];
        for (rows, satisfied) in counts.iter().zip(&satisfied) {
            of_background[*satisfied as usize] += rows;
        }
        let weights: Vec<f64> = (0..=count).flat_map(|a| (0..=count).map(move |b| orders(a, b))).collect();
        let mut shares = vec![0f64; count << count];
        for (set, rows) in of_background.iter().enumerate().filter(|(_, rows)| **rows > 0) {
            let share = f64::from(*rows) / self.count as f64;
            let set = set as u64;
            let only_row = full(count) & !set;
            // All subsets of `set`.
            let mut both = set;
            loop {
                let only_background = set & !both;
                let (a, b) = (only_row.count_ones() as usize, only_background.count_ones() as usize);
                if a + b > 0 {
                    let of_row = &mut shares[(only_row | both) as usize * count..][..count];
                    let orders = share * weights[a * (count + 1) + b];
                    add_to(of_row, only_row, orders / a as f64);
                    add_to(of_row, only_background, -orders / b as f64);
                }
                if both == 0 {
                    break;
                }
                both = (both - 1) & set;
            }
        }
        LeafShares { columns: features.iter().map(|(column, _)| *column).collect(), satisfied, shares }
    }
}

/// What a leaf with the value 1 adds to the contributions of the features on its path.
struct LeafShares {
    /// The columns of the features.
    columns: Vec<u32>,
    /// The features that a row satisfies, a bit for each, for each of its patterns.
    satisfied: Vec<u64>,
    /// For each set of features that a row satisfies, what each feature gets.
    shares: Vec<f64>,
}

impl LeafShares {
    /// Adds the contributions of a leaf with a value to the tables of `columns`, each with a number for each pattern.
    fn add(&self, value: f64, columns: &[u32], tables: &mut [f64]) {
        let (patterns, count) = (self.satisfied.len(), self.columns.len());
        for (f, column) in self.columns.iter().enumerate() {
            // `columns` holds the columns of the leaf's path.
            let table = columns.binary_search(column).unwrap_or(0);
            for (sum, satisfied) in tables[table * patterns..][..patterns].iter_mut().zip(&self.satisfied) {
                *sum += value * self.shares[*satisfied as usize * count + f];
            }
        }
    }
}
