//! A forest as lists of instructions, one list for each tree.
//!
//! Let `t` be a point of the quadrature. A feature of a path has the factor `t one + (1 - t) zero`: `one` is 1 if the
//! row takes the path's side at all splits on the feature, otherwise 0, and `zero` is the product of the shares of the
//! cover at these splits. `path` is the product of the factors of a path's features. A leaf gives a feature the
//! integral over `t` of `value x path x (one - zero) / factor`.
//!
//! At a split, a row's `path` is divided among the children: the left one gets the fraction `left`, and the right one
//! the rest, because the sides' shares and the sides that a row takes both add up to 1. If `below` is the sum of a
//! child's leaves, each times the fractions on its path below the child, the split's own contribution is the integral
//! of `path x change x (below left - below right)`, where `change` is what the left child adds to
//! `(one - zero) / factor`, times `left`; what the right child adds, times the right fraction, is its negative. `left`
//! and `change` depend only on the side that the row takes and, at a feature's second split on a path, on whether the
//! row took the path's sides at the splits before.

use std::{collections::HashMap, sync::Arc};

use super::{
    quadrature::{self, Point},
    ratio,
};
use crate::{
    forest::{CategorySet, CompareType, Forest, Node, Predicate, Side, Targets, Tree, least_f32_not_below},
    isa,
};

/// The maximum number of quadrature points of one pass of a kernel. Trees that need more points take several passes.
pub(crate) const MOST_POINTS: usize = 8;

/// The maximum number of trees whose contributions are added up before they are widened to `f64`.
const TREES_A_GROUP: usize = 16;

/// The maximum number of features of a group, so that sums of a register's rows stay in the L1 cache. A tree with more
/// features is a group of its own.
const FEATURES_A_GROUP: usize = 256;

/// A forest's instructions.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The outputs, each with its trees.
    pub(crate) outputs: Vec<OutputProgram>,
    /// The columns that some split reads, in ascending order. Splits name a column by its index in this list.
    pub(crate) columns: Vec<u32>,
    pub(crate) sets: Vec<CategorySet>,
    /// Number of columns of a row.
    pub(crate) width: usize,
    /// The greatest number of splits of a tree.
    pub(crate) most_splits: usize,
    /// The greatest number of splits on a path.
    pub(crate) deepest: usize,
    /// The greatest number of features of a group.
    pub(crate) most_features: usize,
}

/// The program of one output.
#[derive(Clone, Debug)]
pub(crate) struct OutputProgram {
    pub(crate) groups: Vec<Group>,
    /// The expected margin if nothing of a row is known.
    pub(crate) bias: f64,
    /// The columns that the output's trees read, as indices into [`Program::columns`]. Groups name a feature by its
    /// index in this list.
    pub(crate) columns: Vec<u32>,
}

/// Trees whose contributions are added up in `f32`.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) trees: Vec<TreeProgram>,
    /// The features of the group's trees, as indices into [`OutputProgram::columns`].
    pub(crate) features: Vec<u32>,
}

/// The instructions of one tree, for one value of its leaves.
#[derive(Clone, Debug)]
pub(crate) struct TreeProgram {
    /// The index of the tree among the forest's trees, and the index of the value among its leaves' values.
    pub(crate) source: (usize, usize),
    /// The mean of the leaves, weighted by their covers. It is subtracted from the leaves of the instructions.
    pub(crate) expected: f64,
    /// The splits, each after its ancestors.
    pub(crate) splits: Vec<Split>,
    pub(crate) instructions: Vec<Instruction>,
    /// One pass for every [`MOST_POINTS`] points that the tree needs, all with the same number of points.
    pub(crate) passes: Vec<Pass>,
    /// The tables that replace the instructions where contributions are computed, if the tree has such tables.
    pub(crate) tables: Option<Arc<PatternTables>>,
}

/// The contributions of a tree for every pattern of sides that a row may take.
///
/// Splits with the same column and predicate are one test. The tree is divided into subtrees. The leaves of a subtree
/// depend on the tests in it and on the path to it, and a row's answers to these tests are a pattern of bits: bit `i`
/// is set if the row goes left at test `i`.
#[derive(Clone, Debug)]
pub(crate) struct PatternTables {
    /// One split of each test, as an index into [`TreeProgram::splits`].
    pub(crate) tests: Vec<u32>,
    pub(crate) subtrees: Vec<SubtreeTables>,
    /// The tables of all subtrees.
    pub(crate) values: Vec<f32>,
}

/// The tables of the leaves of one subtree.
#[derive(Clone, Debug)]
pub(crate) struct SubtreeTables {
    /// The tests of a pattern's bits, as indices into [`PatternTables::tests`], at most [`MOST_BITS`].
    pub(crate) tests: Vec<u32>,
    /// The features of these tests, as indices into [`Group::features`]. Each has a table.
    pub(crate) features: Vec<u32>,
    /// Where the tables begin in [`PatternTables::values`]. A table has a number for each pattern. If there are fewer
    /// than [`LEAST_PATTERNS`], they follow again and again up to so many.
    pub(crate) first: usize,
}

/// The maximum number of tests of a subtree that has tables.
pub(crate) const MOST_BITS: usize = 8;

/// The minimum length of a table: the lanes of the widest register.
pub(crate) const LEAST_PATTERNS: usize = 16;

impl SubtreeTables {
    /// Returns the length of each table.
    #[inline(always)]
    pub(crate) fn patterns(&self) -> usize {
        (1 << self.tests.len()).max(LEAST_PATTERNS)
    }
}

/// A split, as a kernel evaluates it on a register of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    pub(crate) test: Test,
    /// The column, as an index into [`Program::columns`].
    pub(crate) column: u32,
    /// The nearest split above on the same feature, and the side of it on which this split is.
    pub(crate) above: Option<(u32, Side)>,
}

/// How a split is evaluated on a register of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Test {
    /// `x < threshold`, where a missing value goes right or left.
    Less { threshold: f32, missing_left: bool },
    /// `x < threshold` in `f64`.
    LessDouble { threshold: f64, missing_left: bool },
    /// Any other predicate, which is evaluated row by row.
    Any { predicate: Predicate, missing: Side },
}

/// One instruction of a tree's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction {
    pub(crate) opcode: Opcode,
    /// The split's number in the tree.
    pub(crate) split: u32,
    /// The feature, as an index into [`Group::features`].
    pub(crate) feature: u32,
    /// The split's index among the splits of [`Pass::lists`], or [`FIRST`] if no split above has the same feature.
    pub(crate) lists: u32,
    /// The left child's share of the split's cover.
    pub(crate) share: f32,
    /// The values of children that are leaves.
    pub(crate) leaves: [f32; 2],
}

/// What an instruction does. A kernel has a stack of `path` and a stack of `below`, which the module's documentation
/// defines. When the instructions of a split begin, the split's `path` is on top of its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opcode {
    /// Pushes the path of the left child.
    Left,
    /// Pushes the path of the right child.
    Right,
    /// Pops the path of a child.
    Back,
    /// Ends a split with two leaves: pushes the split's `below`.
    Leaves,
    /// Ends a split whose right child is a leaf: replaces the left child's `below` with the split's.
    RightLeaf,
    /// Ends a split whose left child is a leaf: replaces the right child's `below` with the split's.
    LeftLeaf,
    /// Ends a split without leaves: replaces the `below` of both children with the split's.
    Join,
}

/// The value of [`Instruction::lists`] if no split above has the same feature.
pub(crate) const FIRST: u32 = u32::MAX;

/// The quadrature points of one pass, and the numbers that depend on them.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    pub(crate) at: Vec<f32>,
    pub(crate) weights: Vec<f32>,
    /// For each split with the same feature above it, four lists with a number for each point: the left fraction if the
    /// row goes left, the left fraction if it goes right, the change if it goes left, and the change if it goes right.
    /// All are for rows that took the path's sides at the feature's splits above. For other rows the left fraction is
    /// the left child's share of the cover, and the change is 0.
    pub(crate) lists: Vec<f32>,
}

impl Program {
    /// Prepares a forest that verifies, for rows that are compared in `rows`.
    pub(crate) fn new(forest: &Forest, rows: CompareType) -> Self {
        let columns = forest.used_columns();
        let mut program = Self {
            outputs: Vec::new(),
            sets: forest.sets.clone(),
            width: forest.features.len(),
            most_splits: 0,
            deepest: 0,
            most_features: 0,
            columns,
        };
        for output in 0..forest.outputs {
            let output = program.output(forest, rows, output);
            program.outputs.push(output);
        }
        program
    }

    fn output(&mut self, forest: &Forest, rows: CompareType, output: u32) -> OutputProgram {
        let mut bias = forest.base_score[output as usize].0;
        let (trees, value): (Vec<usize>, usize) = match &forest.targets {
            Targets::One(outputs) => ((0..forest.trees.len()).filter(|t| outputs[*t] == output).collect(), 0),
            Targets::All => ((0..forest.trees.len()).collect(), output as usize),
        };
        let mut read = vec![false; self.columns.len()];
        let mut compiled = Vec::new();
        for t in trees {
            let compiler = TreeCompiler { forest, tree: t, value, rows, columns: &self.columns, part: None };
            let (tree, deepest) = compiler.compile();
            bias += tree.expected;
            self.most_splits = self.most_splits.max(tree.splits.len());
            self.deepest = self.deepest.max(deepest);
            tree.splits.iter().for_each(|split| read[split.column as usize] = true);
            if !tree.splits.is_empty() {
                compiled.push(tree);
            }
        }
        let columns: Vec<u32> =
            (0u32..).zip(read).filter(|(_, read)| *read).map(|(column, _)| column).collect();
        let mut groups = Vec::new();
        let mut group = GroupBuilder::default();
        for tree in compiled {
            if group.is_full(&tree) {
                groups.push(std::mem::take(&mut group).finish(&columns));
            }
            group.push(tree);
        }
        groups.push(group.finish(&columns));
        let features = groups.iter().map(|group| group.features.len()).max();
        self.most_features = self.most_features.max(features.unwrap_or(0));
        OutputProgram { groups, bias, columns }
    }

    /// Returns the trees of all outputs.
    pub(crate) fn trees(&self) -> impl Iterator<Item = &TreeProgram> {
        self.outputs.iter().flat_map(|output| &output.groups).flat_map(|group| &group.trees)
    }

    /// Returns the trees of all outputs, to change them.
    pub(crate) fn trees_mut(&mut self) -> impl Iterator<Item = &mut TreeProgram> {
        self.outputs.iter_mut().flat_map(|output| &mut output.groups).flat_map(|group| &mut group.trees)
    }

    /// Leaves out trees of the forest. `keeps` takes the index of a tree among the forest's.
    #[cfg(feature = "kernels")]
    pub(crate) fn retain(&mut self, keeps: impl Fn(usize) -> bool) {
        for group in self.outputs.iter_mut().flat_map(|output| &mut output.groups) {
            group.trees.retain(|tree| keeps(tree.source.0));
        }
        self.most_splits = self.trees().map(|tree| tree.splits.len()).max().unwrap_or(0);
        self.deepest = self.trees().map(TreeProgram::deepest).max().unwrap_or(0);
    }

    /// Leaves out the trees without tables, and the instructions of the others.
    pub(super) fn keep_tables_only(&mut self) {
        (self.most_splits, self.deepest) = (0, 0);
        for group in self.outputs.iter_mut().flat_map(|output| &mut output.groups) {
            group.trees.retain(|tree| tree.tables.is_some());
            for tree in &mut group.trees {
                (tree.instructions, tree.passes) = (Vec::new(), Vec::new());
                let tests = tree.tables.as_ref().map_or(0, |tables| tables.tests.len());
                self.most_splits = self.most_splits.max(tests);
            }
        }
    }

    /// Returns the algorithms of the trees, the number of points of their quadratures, and the instruction set.
    pub(crate) fn describe(&self) -> String {
        let all = self.trees().count();
        let with_tables = self.trees().filter(|tree| tree.tables.is_some()).count();
        let points = self.trees().filter(|tree| tree.tables.is_none()).map(TreeProgram::points);
        let (least, most) =
            points.fold((usize::MAX, 0), |(least, most), points| (least.min(points), most.max(points)));
        let quadrature = format!("quadrature TreeSHAP, {} to {most} points a tree", least.min(most));
        let algorithms = match with_tables {
            0 => quadrature,
            _ if with_tables == all => "pattern tables".to_owned(),
            _ => format!("pattern tables in {with_tables} of {all} trees, {quadrature} in the others"),
        };
        format!("{algorithms}, {}", isa::isa().name())
    }
}

impl TreeProgram {
    /// Returns the number of points of the tree's quadrature.
    pub(crate) fn points(&self) -> usize {
        self.passes.iter().map(|pass| pass.at.len()).sum()
    }

    /// Returns the number of splits on the longest path.
    #[cfg(feature = "kernels")]
    fn deepest(&self) -> usize {
        let (mut level, mut deepest) = (0, 0);
        for instruction in &self.instructions {
            match instruction.opcode {
                Opcode::Left | Opcode::Right => level += 1,
                Opcode::Back => level -= 1,
                _ => deepest = deepest.max(level + 1),
            }
        }
        deepest
    }

    /// Gives each column a number in `numbers`, in the order of the instructions, and writes the numbers into them.
    pub(super) fn number_features(&mut self, numbers: &mut HashMap<u32, u32>) {
        for instruction in &mut self.instructions {
            if instruction.opcode != Opcode::Back {
                let next = numbers.len() as u32;
                instruction.feature =
                    *numbers.entry(self.splits[instruction.split as usize].column).or_insert(next);
            }
        }
    }
}

/// The trees of one group that is being built.
#[derive(Default)]
struct GroupBuilder {
    trees: Vec<TreeProgram>,
    /// The number of each column among the group's features.
    numbers: HashMap<u32, u32>,
}

impl GroupBuilder {
    fn is_full(&self, next: &TreeProgram) -> bool {
        let added = next.splits.iter().filter(|split| !self.numbers.contains_key(&split.column)).count();
        !self.trees.is_empty()
            && (self.trees.len() >= TREES_A_GROUP || self.numbers.len() + added > FEATURES_A_GROUP)
    }

    fn push(&mut self, mut tree: TreeProgram) {
        tree.number_features(&mut self.numbers);
        self.trees.push(tree);
    }

    fn finish(self, columns: &[u32]) -> Group {
        let mut features = vec![0; self.numbers.len()];
        for (column, number) in self.numbers {
            features[number as usize] = columns.binary_search(&column).unwrap_or(0) as u32;
        }
        Group { trees: self.trees, features }
    }
}

/// Makes the instructions of one tree, for one value of its leaves.
pub(super) struct TreeCompiler<'f> {
    pub(super) forest: &'f Forest,
    pub(super) tree: usize,
    pub(super) value: usize,
    /// The type in which rows are compared.
    pub(super) rows: CompareType,
    pub(super) columns: &'f [u32],
    /// If it is there, only the leaves of a part of the tree count.
    pub(super) part: Option<Part<'f>>,
}

/// The leaves of a part of a tree.
#[derive(Clone, Copy)]
pub(super) struct Part<'f> {
    /// For each node of the tree, whether it is outside: its leaves count as 0.
    pub(super) outside: &'f [bool],
    /// The expected value of the whole tree, which is subtracted from the leaves of the part.
    pub(super) expected: f64,
}

/// A feature's splits on a path.
#[derive(Clone, Copy)]
struct Before {
    split: u32,
    side: Side,
    zero: f64,
}

/// What comes next in the traversal of a tree.
enum Next {
    /// Enters a split.
    Enter(u32),
    /// Goes from a split to a child: the instruction that does so, and the child's path on the split's column.
    Push { instruction: Instruction, column: u32, child: Before },
    /// Comes back from a child, and restores what was before on the column.
    Pop { column: u32, before: Option<Before> },
    /// Ends a split.
    End(Instruction),
}

impl TreeCompiler<'_> {
    /// Returns the tree's program, and the number of splits on its longest path.
    pub(super) fn compile(&self) -> (TreeProgram, usize) {
        let tree = &self.forest.trees[self.tree];
        let expected = self.part.map_or_else(|| self.expected(tree), |part| part.expected);
        let program = |splits, instructions, passes| {
            let source = (self.tree, self.value);
            TreeProgram { source, expected, splits, instructions, passes, tables: None }
        };
        if self.leaf(tree, 0).is_some() {
            return (program(Vec::new(), Vec::new(), Vec::new()), 0);
        }
        let mut splits: Vec<Split> = Vec::new();
        let mut instructions: Vec<Instruction> = Vec::new();
        // For each split whose feature has a split above: its share, and the feature's `zero` above.
        let mut repeated: Vec<(f64, f64)> = Vec::new();
        let mut path: HashMap<u32, Before> = HashMap::new();
        let (mut most_features, mut depth, mut deepest) = (0, 1, 1);
        let mut open = vec![Next::Enter(0)];
        while let Some(next) = open.pop() {
            match next {
                Next::Push { instruction, column, child } => {
                    instructions.push(instruction);
                    path.insert(column, child);
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                Next::Pop { column, before } => {
                    match before {
                        Some(before) => path.insert(column, before),
                        None => path.remove(&column),
                    };
                    depth -= 1;
                    instructions.push(Instruction {
                        opcode: Opcode::Back,
                        split: 0,
                        feature: 0,
                        lists: FIRST,
                        share: 0.0,
                        leaves: [0.0; 2],
                    });
                }
                Next::End(instruction) => instructions.push(instruction),
                Next::Enter(n) => {
                    let Node::Split { feature, predicate, missing, left, right } = tree.nodes[n as usize]
                    else {
                        continue;
                    };
                    let number = splits.len() as u32;
                    // `columns` holds every column that a split reads.
                    let column = self.columns.binary_search(&feature).unwrap_or(0) as u32;
                    let before = path.get(&column).copied();
                    let above = before.map(|before| (before.split, before.side));
                    splits.push(Split { test: self.test(predicate, missing), column, above });
                    most_features = most_features.max(path.len() + usize::from(before.is_none()));
                    let share = ratio(self.forest, self.tree, left, right);
                    let zero = before.map_or(1.0, |before| before.zero);
                    let lists = if before.is_some() { repeated.len() as u32 } else { FIRST };
                    if before.is_some() {
                        repeated.push((share, zero));
                    }
                    let leaves = [left, right].map(|child| self.leaf(tree, child));
                    let opcode = match leaves {
                        [Some(_), Some(_)] => Opcode::Leaves,
                        [Some(_), None] => Opcode::LeftLeaf,
                        [None, Some(_)] => Opcode::RightLeaf,
                        [None, None] => Opcode::Join,
                    };
                    // A constant of the tree changes no contribution. Without the expected value, which may be an
                    // offset of the target, `f32` holds what a leaf adds to it.
                    let leaves = leaves.map(|leaf| leaf.map_or(0.0, |leaf| leaf - expected) as f32);
                    let end =
                        Instruction { opcode, split: number, feature: 0, lists, share: share as f32, leaves };
                    open.push(Next::End(end));
                    let children = [
                        (right, Side::Right, 1.0 - share, Opcode::Right),
                        (left, Side::Left, share, Opcode::Left),
                    ];
                    for (node, side, share, opcode) in children {
                        if self.leaf(tree, node).is_none() {
                            let child = Before { split: number, side, zero: zero * share };
                            open.push(Next::Pop { column, before });
                            open.push(Next::Enter(node));
                            open.push(Next::Push {
                                instruction: Instruction { opcode, ..end },
                                column,
                                child,
                            });
                        }
                    }
                }
            }
        }
        (program(splits, instructions, passes(most_features, &repeated)), deepest)
    }

    /// Returns the value of a leaf, or `None` for a split.
    fn leaf(&self, tree: &Tree, n: u32) -> Option<f64> {
        if let Some(part) = self.part.filter(|part| part.outside[n as usize]) {
            return Some(part.expected);
        }
        tree.nodes[n as usize].slot().map(|slot| self.forest.leaf(slot)[self.value].0)
    }

    /// Returns the mean of the leaves, weighted by their covers.
    fn expected(&self, tree: &Tree) -> f64 {
        let mut open = vec![(0u32, 1.0)];
        let mut sum = 0.0;
        while let Some((n, weight)) = open.pop() {
            match tree.nodes[n as usize] {
                Node::Split { left, right, .. } => {
                    let share = ratio(self.forest, self.tree, left, right);
                    open.extend([(left, weight * share), (right, weight * (1.0 - share))]);
                }
                Node::Leaf { .. } => sum += weight * self.leaf(tree, n).unwrap_or(0.0),
            }
        }
        sum
    }

    fn test(&self, predicate: Predicate, missing: Side) -> Test {
        let missing_left = missing == Side::Left;
        match (predicate, self.rows) {
            // Narrowed by its direction, the threshold decides every `f32` as it does in `f64`.
            (Predicate::Less { threshold }, CompareType::F32) => {
                Test::Less { threshold: least_f32_not_below(threshold.0), missing_left }
            }
            (Predicate::Less { threshold }, CompareType::F64) => {
                Test::LessDouble { threshold: threshold.0, missing_left }
            }
            _ => Test::Any { predicate, missing },
        }
    }
}

/// Returns the passes of a tree that has at most `features` features on a path. For each split whose feature has a
/// split above, `repeated` holds the share and the `zero` above.
fn passes(features: usize, repeated: &[(f64, f64)]) -> Vec<Pass> {
    let needed = quadrature::needed(features);
    let passes = needed.div_ceil(MOST_POINTS);
    let each = needed.div_ceil(passes);
    let points = quadrature::points(passes * each);
    points.chunks(each).map(|points| pass(points, repeated)).collect()
}

fn pass(points: &[Point], repeated: &[(f64, f64)]) -> Pass {
    let mut lists = Vec::with_capacity(4 * repeated.len() * points.len());
    for (share, zero) in repeated {
        // The factor above, and the left child's fraction if the row goes left, and if it goes right.
        let above = |t: f64| t + (1.0 - t) * zero;
        let left = |t: f64| (t + (1.0 - t) * zero * share) / above(t);
        let right = |t: f64| (1.0 - t) * zero * share / above(t);
        let change = |t: f64, one: f64, fraction: f64| {
            (one - zero * share) / above(t) - (1.0 - zero) / above(t) * fraction
        };
        lists.extend(points.iter().map(|p| left(p.at) as f32));
        lists.extend(points.iter().map(|p| right(p.at) as f32));
        lists.extend(points.iter().map(|p| change(p.at, 1.0, left(p.at)) as f32));
        lists.extend(points.iter().map(|p| change(p.at, 0.0, right(p.at)) as f32));
    }
    Pass {
        at: points.iter().map(|p| p.at as f32).collect(),
        weights: points.iter().map(|p| p.weight as f32).collect(),
        lists,
    }
}
