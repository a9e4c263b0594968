//! Makes the pattern tables of trees.
//!
//! A row's contributions from a leaf depend only on the sides that it takes at the splits of the leaf's path, so they
//! can be computed once for each pattern of sides (Nadel, Wettenstein: *From Decision Trees to Boolean Logic: A Fast and
//! Unified SHAP Algorithm*, 2025, which has tables for each leaf). A table here serves a whole subtree: its patterns are
//! of all tests that the subtree's leaves depend on. A tree of depth 4 has four subtrees of depth 2 with five tests
//! each, and an oblivious tree of depth 8 is one subtree with eight tests. The kernel for instructions fills the tables:
//! it takes the patterns for rows.

use std::{collections::HashMap, sync::Arc};

use super::{
    kernel::{self, MOST_REGISTERS, Scratch},
    lanes::{self, Lanes, Work},
    program::{
        Instruction, LEAST_PATTERNS, MOST_BITS, Opcode, Part, PatternTables, Program, SubtreeTables,
        TreeCompiler, TreeProgram,
    },
};
use crate::{
    cost::{ContributionCosts, ContributionWork, Machine},
    forest::{CompareType, Forest, Node, Predicate, Side},
};

/// The maximum bytes of the tables of a program. A forest whose tables would take more has none.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// How path-dependent contributions of a tree are computed. The results differ by rounding only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// By pattern tables where they are estimated to take less time
    /// ([`ContributionCosts`](crate::cost::ContributionCosts)), and by a quadrature elsewhere.
    #[default]
    Estimated,
    /// Every tree by a quadrature.
    Quadrature,
    /// Every tree by pattern tables that has at most eight splits on a path, and the others by a quadrature. If the tables
    /// would take more than 256 MB, all trees by a quadrature.
    PatternTables,
}

/// Gives tables to trees of a forest's program: where they pay, or where [`Algorithm::PatternTables`] asks for them.
pub(super) fn add(program: &mut Program, forest: &Forest, algorithm: Algorithm) {
    let costs = &Machine::here().contributions;
    let divide = |tree: &TreeProgram| {
        let division = Division::new(&forest.trees[tree.source.0].nodes, costs)?;
        let pays = || costs.seconds(&division.work()) < costs.seconds(&tree.work());
        (algorithm == Algorithm::PatternTables || pays()).then_some(division)
    };
    let divisions: Vec<Option<Division>> = program.trees().map(divide).collect();
    let bytes = divisions.iter().flatten().map(Division::bytes).fold(0, usize::saturating_add);
    if bytes > MOST_BYTES {
        return;
    }
    let columns = program.columns.clone();
    for (tree, division) in program.trees_mut().zip(divisions) {
        tree.tables = division.map(|division| Arc::new(tables(&division, forest, tree, &columns)));
    }
}

/// Gives the tables of a program to another program of the same forest.
pub(super) fn share(from: &Program, to: &mut Program) {
    for (from, to) in from.trees().zip(to.trees_mut()) {
        to.tables.clone_from(&from.tables);
    }
}

/// Returns what a row of a program takes.
pub(super) fn work(program: &Program) -> ContributionWork {
    let of_tree =
        |tree: &TreeProgram| tree.tables.as_ref().map_or_else(|| tree.work(), |tables| tables.work());
    program.trees().map(of_tree).fold(ContributionWork::default(), |all, tree| all + tree)
}

impl TreeProgram {
    /// Returns what a row's quadrature takes.
    fn work(&self) -> ContributionWork {
        let splits = self.splits.len();
        ContributionWork { tests: splits, splits, points: splits * self.points(), ..Default::default() }
    }
}

impl PatternTables {
    fn work(&self) -> ContributionWork {
        let tests = ContributionWork { tests: self.tests.len(), ..Default::default() };
        let subtrees =
            self.subtrees.iter().map(|subtree| lookups(subtree.tests.len(), subtree.features.len()));
        subtrees.fold(tests, |all, subtree| all + subtree)
    }
}

/// Returns what the tables of a subtree take.
fn lookups(bits: usize, features: usize) -> ContributionWork {
    let reads = features * lanes::table_reads(bits);
    ContributionWork { bits, lookups: features, reads, ..Default::default() }
}

/// What a split asks: two splits with the same column and predicate are one test.
type Test = (u32, Predicate, Side);

/// The maximum number of splits of a tree that has tables.
const MOST_SPLITS: usize = 1 << MOST_BITS;

/// A set of tests of a tree, and of the tests' columns, a bit for each.
#[derive(Clone, Copy, Default)]
pub(super) struct Tests {
    tests: [u64; MOST_SPLITS / 64],
    columns: [u64; MOST_SPLITS / 64],
}

impl Tests {
    fn one(test: usize, column: usize) -> Self {
        let mut one = Self::default();
        one.tests[test / 64] |= 1 << (test % 64);
        one.columns[column / 64] |= 1 << (column % 64);
        one
    }

    fn union(mut self, other: Self) -> Self {
        self.tests.iter_mut().zip(other.tests).for_each(|(own, other)| *own |= other);
        self.columns.iter_mut().zip(other.columns).for_each(|(own, other)| *own |= other);
        self
    }

    fn tests(&self) -> usize {
        self.tests.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(super) fn columns(&self) -> usize {
        self.columns.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the tests in ascending order.
    pub(super) fn list(&self) -> Vec<u32> {
        (0..MOST_SPLITS as u32)
            .filter(|test| self.tests[*test as usize / 64] >> (test % 64) & 1 == 1)
            .collect()
    }

    /// Returns what the tables of a subtree with these tests take.
    fn work(&self) -> ContributionWork {
        lookups(self.tests(), self.columns())
    }
}

/// A tree divided into subtrees of few tests.
pub(super) struct Division {
    /// The tree's splits in the order of [`TreeProgram::splits`], and for each one its test's number.
    pub(super) splits: Vec<(u32, u32)>,
    /// Number of tests.
    pub(super) tests: usize,
    pub(super) subtrees: Vec<Subtree>,
}

pub(super) struct Subtree {
    pub(super) root: u32,
    /// The tests in the subtree and on the path to it, at most [`MOST_BITS`].
    pub(super) tests: Tests,
}

impl Division {
    /// Divides a tree into the subtrees with the least estimated time. Returns `None` if the tree has too many splits,
    /// or a path has more than a pattern has bits.
    pub(super) fn new(nodes: &[Node], costs: &ContributionCosts) -> Option<Self> {
        if nodes.len() >= 2 * MOST_SPLITS || is_too_deep(nodes) {
            return None;
        }
        let splits = splits_of(nodes, &[]);
        let (mut numbers, mut columns) = (HashMap::<Test, usize>::new(), HashMap::<u32, usize>::new());
        let mut tests = vec![Tests::default(); nodes.len()];
        let mut numbered = Vec::with_capacity(splits.len());
        for n in splits {
            let Node::Split { feature, predicate, missing, .. } = nodes[n as usize] else { continue };
            let (next, next_column) = (numbers.len(), columns.len());
            let number = *numbers.entry((feature, predicate, missing)).or_insert(next);
            tests[n as usize] = Tests::one(number, *columns.entry(feature).or_insert(next_column));
            numbered.push((n, number as u32));
        }
        let mut divider = Divider { nodes, tests: &tests, costs, subtrees: Vec::new() };
        divider.divide(0, Tests::default());
        Some(Self { splits: numbered, tests: numbers.len(), subtrees: divider.subtrees })
    }

    /// Returns what a row takes.
    fn work(&self) -> ContributionWork {
        let tests = ContributionWork { tests: self.tests, ..Default::default() };
        self.subtrees.iter().fold(tests, |all, subtree| all + subtree.tests.work())
    }

    /// Returns the first split of each test, as an index into [`splits`](Self::splits).
    pub(super) fn first_splits(&self) -> Vec<u32> {
        let mut first = vec![0; self.tests];
        for (s, (_, test)) in self.splits.iter().enumerate().rev() {
            first[*test as usize] = s as u32;
        }
        first
    }

    /// Returns the bytes of all tables.
    pub(super) fn bytes(&self) -> usize {
        let values =
            |subtree: &Subtree| subtree.tests.columns() * (1 << subtree.tests.tests()).max(LEAST_PATTERNS);
        self.subtrees.iter().map(values).sum::<usize>() * size_of::<f32>()
    }
}

struct Divider<'a> {
    nodes: &'a [Node],
    /// The test of each split.
    tests: &'a [Tests],
    costs: &'a ContributionCosts,
    /// The subtrees that are chosen so far.
    subtrees: Vec<Subtree>,
}

impl Divider<'_> {
    /// Divides the tree below a node, whose path has the tests `path`. Returns the seconds of the best division, and the
    /// tests of the splits below.
    fn divide(&mut self, n: u32, path: Tests) -> (f64, Tests) {
        let before = self.subtrees.len();
        let (apart, below) = match self.nodes[n as usize] {
            Node::Split { left, right, .. } => {
                let own = self.tests[n as usize];
                let (of_left, left) = self.divide(left, path.union(own));
                let (of_right, right) = self.divide(right, path.union(own));
                (of_left + of_right, own.union(left).union(right))
            }
            Node::Leaf { .. } => (f64::INFINITY, Tests::default()),
        };
        let tests = path.union(below);
        let whole = match tests.tests() <= MOST_BITS {
            true => self.costs.seconds(&tests.work()),
            false => f64::INFINITY,
        };
        if whole <= apart {
            self.subtrees.truncate(before);
            self.subtrees.push(Subtree { root: n, tests });
        }
        (whole.min(apart), below)
    }
}

/// Returns whether a path of a tree has more splits than a pattern has bits.
fn is_too_deep(nodes: &[Node]) -> bool {
    let mut open = vec![(0u32, 0)];
    while let Some((n, depth)) = open.pop() {
        if let Node::Split { left, right, .. } = nodes[n as usize] {
            if depth == MOST_BITS {
                return true;
            }
            open.extend([(left, depth + 1), (right, depth + 1)]);
        }
    }
    false
}

/// Returns the splits of a tree in the order of [`TreeProgram::splits`]: each before those below it, those on its left
/// first. Nodes of `outside` are taken for leaves.
pub(super) fn splits_of(nodes: &[Node], outside: &[bool]) -> Vec<u32> {
    let mut splits = Vec::new();
    let mut open = vec![0u32];
    while let Some(n) = open.pop() {
        if outside.get(n as usize).is_some_and(|outside| *outside) {
            continue;
        }
        if let Node::Split { left, right, .. } = nodes[n as usize] {
            splits.push(n);
            open.extend([right, left]);
        }
    }
    splits
}

/// Computes the tables of a divided tree. `columns` are the columns of the tree's program.
fn tables(division: &Division, forest: &Forest, tree: &TreeProgram, columns: &[u32]) -> PatternTables {
    let (index, value) = tree.source;
    let nodes = &forest.trees[index].nodes;
    let paths = Paths::new(division, nodes);
    let numbers = feature_numbers(tree);
    let (mut subtrees, mut rows, mut length) = (Vec::new(), Vec::new(), 0);
    for subtree in &division.subtrees {
        // All leaves outside the subtree are 0.
        let mut outside = vec![false; nodes.len()];
        for (n, side) in paths.to(subtree.root) {
            if let Node::Split { left, right, .. } = nodes[n as usize] {
                outside[if side == Side::Left { right } else { left } as usize] = true;
            }
        }
        // Patterns stand for rows, so no values are compared, and their type has no effect.
        let part = Some(Part { outside: &outside, expected: tree.expected });
        let compiler = TreeCompiler { forest, tree: index, value, rows: CompareType::F32, columns, part };
        let (mut part, deepest) = compiler.compile();
        let mut own_numbers = HashMap::new();
        part.number_features(&mut own_numbers);
        let mut features = vec![0; own_numbers.len()];
        for (column, own) in own_numbers {
            features[own as usize] = numbers.get(&column).copied().unwrap_or(0);
        }
        let tests = subtree.tests.list();
        let bit_of = |n: &u32| tests.binary_search(&paths.tests[*n as usize]).unwrap_or(0) as u32;
        let bits = splits_of(nodes, &outside).iter().map(bit_of).collect();
        let tables = SubtreeTables { tests, features, first: length };
        length += tables.features.len() * tables.patterns();
        rows.push(PatternRows { part, deepest, bits, patterns: tables.patterns() });
        subtrees.push(tables);
    }
    let mut values = vec![0.0; length];
    TreePatterns(rows).run_widest(&mut values);
    PatternTables { tests: division.first_splits(), subtrees, values }
}

/// The paths to the nodes of a divided tree.
pub(super) struct Paths {
    /// The parent of each node, and the side of it on which the node is. A root has none.
    parents: Vec<Option<(u32, Side)>>,
    /// The test of each split.
    pub(super) tests: Vec<u32>,
}

impl Paths {
    pub(super) fn new(division: &Division, nodes: &[Node]) -> Self {
        let (mut parents, mut tests) = (vec![None; nodes.len()], vec![0; nodes.len()]);
        for (n, test) in &division.splits {
            tests[*n as usize] = *test;
            if let Node::Split { left, right, .. } = nodes[*n as usize] {
                parents[left as usize] = Some((*n, Side::Left));
                parents[right as usize] = Some((*n, Side::Right));
            }
        }
        Self { parents, tests }
    }

    /// Returns the splits on the path to a node, the nearest first, and the sides that the path takes.
    pub(super) fn to(&self, node: u32) -> impl Iterator<Item = (u32, Side)> {
        std::iter::successors(self.parents[node as usize], |(n, _)| self.parents[*n as usize])
    }
}

/// Returns the group's number of each column of a tree.
pub(super) fn feature_numbers(tree: &TreeProgram) -> HashMap<u32, u32> {
    let of =
        |instruction: &Instruction| (tree.splits[instruction.split as usize].column, instruction.feature);
    tree.instructions.iter().filter(|instruction| instruction.opcode != Opcode::Back).map(of).collect()
}

/// All patterns of sides of a tree's subtrees, as rows of the subtrees' instructions.
struct TreePatterns(Vec<PatternRows>);

/// All patterns of sides of a subtree, as rows of its instructions.
struct PatternRows {
    /// The tree's instructions without the leaves outside the subtree.
    part: TreeProgram,
    /// Number of splits on the longest path.
    deepest: usize,
    /// For each split, the bit of a pattern that is its side.
    bits: Vec<u32>,
    /// The length of a table.
    patterns: usize,
}

impl TreePatterns {
    /// Fills the tables of all subtrees, one after the other, on the widest registers of this machine.
    #[inline(never)]
    fn run_widest(&self, tables: &mut [f32]) {
        lanes::run(self, tables);
    }
}

impl Work for TreePatterns {
    #[inline(always)]
    fn run<V: Lanes>(&self, out: &mut [f32]) {
        let most = |of: fn(&PatternRows) -> usize| self.0.iter().map(of).max().unwrap_or(0);
        // Each split may have a feature of its own.
        let splits = most(|rows| rows.bits.len());
        let mut scratch = Scratch::<V>::new(splits, most(|rows| rows.deepest), splits);
        let mut rest = out;
        for rows in &self.0 {
            let features = rows.part.instructions.iter().map(|i| i.feature as usize + 1).max().unwrap_or(0);
            let (tables, after) = rest.split_at_mut(features * rows.patterns);
            rows.fill(tables, &mut scratch);
            rest = after;
        }
    }
}

impl PatternRows {
    /// Fills the tables of the subtree's features.
    #[inline(always)]
    fn fill<V: Lanes>(&self, tables: &mut [f32], scratch: &mut Scratch<V>) {
        for first in (0..self.patterns).step_by(MOST_REGISTERS * V::WIDTH) {
            let registers = ((self.patterns - first) / V::WIDTH).min(MOST_REGISTERS);
            for (left, bit) in scratch.left.iter_mut().zip(&self.bits) {
                for (r, left) in left[..registers].iter_mut().enumerate() {
                    let mut sides = [0f32; LEAST_PATTERNS];
                    for (lane, side) in sides[..V::WIDTH].iter_mut().enumerate() {
                        let pattern = first + r * V::WIDTH + lane;
                        *side = f32::from_bits(if pattern >> bit & 1 == 1 { u32::MAX } else { 0 });
                    }
                    *left = V::load(&sides);
                }
            }
            scratch.find_reached(&self.part, registers);
            scratch.sums.fill([V::splat(0.0); MOST_REGISTERS]);
            for pass in &self.part.passes {
                kernel::run(&self.part, pass, registers, scratch);
            }
            for (sums, table) in scratch.sums.iter().zip(tables.chunks_exact_mut(self.patterns)) {
                for (sum, table) in sums[..registers].iter().zip(table[first..].chunks_exact_mut(V::WIDTH)) {
                    sum.store(table);
                }
            }
        }
    }
}
