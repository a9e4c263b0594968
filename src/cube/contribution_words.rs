//! Encodes the instructions and pattern tables of contributions as the words that the kernels read.

use fangorn_kernels::contributions::encoding::{
    self, ABOVE_SHIFT, ANCESTOR_WORDS, PASS_WORDS, PATH_LEFT, SUBTREE_WORDS, TEST_WORDS,
};

use super::words::asked;
use crate::{
    contributions::{
        pairs::{GroupPairs, Pairs, TreePairs},
        program::{
            FIRST, Group, Instruction, Opcode, OutputProgram, Pass, Program, Split, Test, TreeProgram,
        },
    },
    forest::{Predicate, Side},
    layout::Questions,
};

/// What the instructions need besides a program.
#[derive(Clone, Copy, Default)]
pub(super) struct Extras<'a> {
    /// The features above each split, for interactions.
    pub(super) pairs: Option<&'a Pairs>,
    /// The sides of a background's rows. Without them, the covers count.
    pub(super) sides: Option<&'a Sides>,
}

/// For each split of the trees with instructions, the sides that the rows of a background take.
pub(super) struct Sides {
    /// The bits of all splits, a word for every 32 background rows: a bit is set if the row goes left.
    pub(super) words: Vec<u32>,
    /// For each tree of the forest, the index in `words` of its first split.
    pub(super) trees: Vec<u32>,
    /// Number of words of a split.
    pub(super) of_split: u32,
}

/// The words of a program, and the indices where their sections begin.
pub(super) struct ProgramWords {
    pub(super) words: Vec<u32>,
    pub(super) passes: u32,
    pub(super) subtrees: u32,
    pub(super) ancestors_at: u32,
    pub(super) sides_at: u32,
    pub(super) subtrees_at: u32,
    pub(super) questions_at: u32,
    pub(super) matrices_at: u32,
    pub(super) biases_at: u32,
    /// Number of sums of a row.
    pub(super) sums: u32,
}

/// Encodes a program for passes of `points` points, and the tables of another program of the same forest. Returns `None` if they need more words than 32 bits can count.
pub(super) fn encode(
    program: &Program,
    tables: Option<&Program>,
    extras: Extras<'_>,
    points: usize,
) -> Option<ProgramWords> {
    let sums = Sums::new(program, extras);
    let mut encoder = Encoder {
        program,
        extras,
        points,
        questions: Questions::of_sets(&program.sets),
        instructions: Vec::new(),
        numbers: Vec::new(),
        passes: Vec::new(),
        ancestors: Vec::new(),
    };
    for (o, output) in program.outputs.iter().enumerate() {
        for (g, group) in output.groups.iter().enumerate() {
            let pairs = extras.pairs.map(|pairs| &pairs.outputs[o].groups[g]);
            let of_group = GroupSums { sums: &sums, o, output, group, pairs };
            for (t, tree) in group.trees.iter().enumerate() {
                encoder.add_tree(tree, pairs.map(|pairs| &pairs.trees[t]), &of_group);
            }
        }
    }
    let Encoder { mut questions, instructions, numbers, passes, ancestors, .. } = encoder;
    let tables = tables.map(|tables| encode_tables(tables, &sums, &mut questions)).unwrap_or_default();
    let instructions_at = passes.len() * PASS_WORDS as usize;
    let numbers_at = instructions_at + instructions.len();
    let mut words = Vec::with_capacity(numbers_at + numbers.len());
    for [first, count, numbers] in &passes {
        words.extend([(instructions_at + first) as u32, *count as u32, (numbers_at + numbers) as u32]);
    }
    words.extend(instructions);
    words.extend(numbers.iter().map(|number| number.to_bits()));
    let ancestors_at = words.len();
    words.extend(ancestors);
    let sides_at = words.len();
    words.extend(extras.sides.iter().flat_map(|sides| &sides.words));
    let subtrees_at = words.len();
    words.extend(tables.words);
    let questions_at = words.len();
    words.extend(questions.words);
    // A lookup past the end of a set reads the set's first word, which an empty last set must have, too.
    words.push(0);
    let matrices_at = words.len();
    sums.write_matrices(&mut words);
    let biases_at = words.len();
    words.extend(program.outputs.iter().map(|output| (output.bias as f32).to_bits()));
    u32::try_from(words.len()).ok()?;
    let [ancestors_at, sides_at, subtrees_at, questions_at, matrices_at, biases_at] =
        [ancestors_at, sides_at, subtrees_at, questions_at, matrices_at, biases_at].map(|at| at as u32);
    Some(ProgramWords {
        passes: passes.len() as u32,
        subtrees: tables.count,
        sums: sums.count,
        ancestors_at,
        sides_at,
        subtrees_at,
        questions_at,
        matrices_at,
        biases_at,
        words,
    })
}

/// Where the sums of a row lie.
struct Sums<'a> {
    program: &'a Program,
    /// If interactions are added up, the pairs, and for each output the index of its first sum. The sums of an output are
    /// those of its features, and then those of its pairs. Without pairs the sums are the contributions.
    pairs: Option<(&'a Pairs, Vec<u32>)>,
    count: u32,
}

impl<'a> Sums<'a> {
    fn new(program: &'a Program, extras: Extras<'a>) -> Self {
        let Some(pairs) = extras.pairs else {
            return Self {
                program,
                pairs: None,
                count: (program.outputs.len() * (program.width + 1)) as u32,
            };
        };
        let mut count = 0;
        let first = program.outputs.iter().zip(&pairs.outputs).map(|(output, pairs)| {
            let first = count;
            count += (output.columns.len() + pairs.pairs.len()) as u32;
            first
        });
        let first = first.collect();
        Self { program, pairs: Some((pairs, first)), count }
    }

    /// Returns the index of the sum of a feature of output `o`, which is one of [`OutputProgram::columns`].
    fn of_feature(&self, o: usize, feature: u32) -> u32 {
        match &self.pairs {
            Some((_, first)) => first[o] + feature,
            None => (o * (self.program.width + 1)) as u32 + self.column(o, feature) as u32,
        }
    }

    /// Returns the index of the sum of a pair of output `o`.
    fn of_pair(&self, o: usize, pair: u32) -> u32 {
        let features = self.program.outputs[o].columns.len() as u32;
        self.pairs.as_ref().map_or(0, |(_, first)| first[o] + features + pair)
    }

    /// Returns the column of a feature of output `o`.
    fn column(&self, o: usize, feature: u32) -> usize {
        self.program.columns[self.program.outputs[o].columns[feature as usize] as usize] as usize
    }

    /// Writes for each interaction of a row the index of its sum plus 1, or 0.
    fn write_matrices(&self, words: &mut Vec<u32>) {
        let Some((pairs, _)) = &self.pairs else { return };
        let side = self.program.width + 1;
        for (o, (output, pairs)) in self.program.outputs.iter().zip(&pairs.outputs).enumerate() {
            let first = words.len();
            words.resize(first + side * side, 0);
            for feature in 0..output.columns.len() as u32 {
                words[first + self.column(o, feature) * (side + 1)] = self.of_feature(o, feature) + 1;
            }
            for (p, [a, b]) in (0u32..).zip(&pairs.pairs) {
                let (a, b) = (self.column(o, *a), self.column(o, *b));
                words[first + a * side + b] = self.of_pair(o, p) + 1;
                words[first + b * side + a] = self.of_pair(o, p) + 1;
            }
        }
    }
}

/// The sums of a group of trees.
struct GroupSums<'a> {
    sums: &'a Sums<'a>,
    o: usize,
    output: &'a OutputProgram,
    group: &'a Group,
    pairs: Option<&'a GroupPairs>,
}

impl GroupSums<'_> {
    /// Returns the index of the sum of one of [`Group::features`].
    fn of_feature(&self, feature: u32) -> u32 {
        debug_assert!(self.group.features.len() <= self.output.columns.len());
        self.sums.of_feature(self.o, self.group.features[feature as usize])
    }

    /// Returns the index of the sum of one of [`GroupPairs::indices`].
    fn of_pair(&self, pair: u32) -> u32 {
        self.sums.of_pair(self.o, self.pairs.map_or(0, |pairs| pairs.indices[pair as usize]))
    }
}

struct Encoder<'a> {
    program: &'a Program,
    extras: Extras<'a>,
    points: usize,
    questions: Questions,
    instructions: Vec<u32>,
    numbers: Vec<f32>,
    /// Of each pass: where its instructions begin, their number, and where its numbers begin.
    passes: Vec<[usize; PASS_WORDS as usize]>,
    ancestors: Vec<u32>,
}

impl Encoder<'_> {
    /// Adds the instructions and the passes of a tree.
    fn add_tree(&mut self, tree: &TreeProgram, pairs: Option<&TreePairs>, sums: &GroupSums<'_>) {
        let first = self.instructions.len();
        self.add_instructions(tree, pairs, sums);
        let numbers = PassNumbers {
            passes: &tree.passes,
            // Against a background they are not read.
            edge_terms: pairs.filter(|_| self.extras.sides.is_none()).map_or(&[], |pairs| &pairs.edge_terms),
            has_lists: self.extras.sides.is_none(),
        };
        for pass in numbers.regrouped(self.points) {
            self.passes.push([first, tree.instructions.len(), self.numbers.len()]);
            self.numbers.extend(pass);
        }
    }

    fn add_instructions(&mut self, tree: &TreeProgram, pairs: Option<&TreePairs>, sums: &GroupSums<'_>) {
        // The level of each split that the instructions have entered.
        let mut levels: Vec<Option<u32>> = vec![None; tree.splits.len()];
        let mut level = 0;
        // The words of instructions that went to a child, and the side of each edge so far.
        let (mut open, mut edges) = (Vec::new(), Vec::new());
        let first = self.instructions.len();
        let mut ended = 0;
        for instruction in &tree.instructions {
            let opcode = opcode(instruction.opcode);
            if instruction.opcode == Opcode::Back {
                level -= 1;
                let words = encoding::INSTRUCTION_WORDS + if pairs.is_some() { 2 } else { 0 };
                self.instructions.extend((0..words).map(|_| opcode));
                if let (Some(at), Some(_)) = (open.pop(), self.extras.sides) {
                    let after = (self.instructions.len() - first) as u32;
                    self.instructions[at + encoding::AFTER_WORD as usize] = after;
                }
                continue;
            }
            let Split { test, column, above } = tree.splits[instruction.split as usize];
            let enters = levels[instruction.split as usize].replace(level).is_none();
            let mut flags = opcode | if enters { encoding::ENTERS } else { 0 };
            let mut lists = 0;
            if let (Some((split, side)), true) = (above, instruction.lists != FIRST) {
                // A split above on the path has been entered before.
                let above_level = levels[split as usize].unwrap_or(0);
                let side = if side == Side::Left { encoding::ABOVE_LEFT } else { 0 };
                flags |= encoding::REPEATED | side | above_level << ABOVE_SHIFT;
                lists = instruction.lists;
            }
            let share = match self.extras.sides {
                Some(sides) => sides.trees[tree.source.0] + instruction.split * sides.of_split,
                None => instruction.share.to_bits(),
            };
            let goes_down = matches!(instruction.opcode, Opcode::Left | Opcode::Right);
            if goes_down {
                open.push(self.instructions.len());
                edges.push(instruction.opcode == Opcode::Left);
                level += 1;
            }
            let (asked, meta) = question(&mut self.questions, test);
            let [left, right] = instruction.leaves.map(f32::to_bits);
            let column = self.program.columns[column as usize];
            let feature = sums.of_feature(instruction.feature);
            self.instructions.extend([flags, column, asked, meta, lists, share, left, right, feature]);
            if let Some(pairs) = pairs {
                self.add_ancestors(tree, pairs, instruction, &edges, &mut ended, sums);
            }
        }
    }

    /// Adds the words of an instruction's ancestors, which it has if it ends a split. `edges` has for each edge so far
    /// whether it leads to the left, and `ended` is the number of splits that have ended.
    fn add_ancestors(
        &mut self,
        tree: &TreeProgram,
        pairs: &TreePairs,
        instruction: &Instruction,
        edges: &[bool],
        ended: &mut usize,
        sums: &GroupSums<'_>,
    ) {
        if matches!(instruction.opcode, Opcode::Left | Opcode::Right) {
            self.instructions.extend([0, 0]);
            return;
        }
        let from = if *ended == 0 { 0 } else { pairs.ends[*ended - 1] };
        let ancestors = &pairs.ancestors[from as usize..pairs.ends[*ended] as usize];
        *ended += 1;
        self.instructions.extend([self.ancestors.len() as u32, ancestors.len() as u32]);
        // The points and their weights come before the lists.
        let edges_at = 2 + lists_of(&tree.passes);
        for ancestor in ancestors {
            let side = if edges[ancestor.edge as usize] { PATH_LEFT } else { 0 };
            let at = match self.extras.sides {
                Some(_) => 0,
                None => (edges_at + ancestor.edge as usize) * self.points,
            };
            self.ancestors.extend([ancestor.level | side, at as u32, sums.of_pair(ancestor.pair)]);
        }
        debug_assert_eq!(self.ancestors.len() % ANCESTOR_WORDS as usize, 0);
    }
}

fn opcode(opcode: Opcode) -> u32 {
    match opcode {
        Opcode::Left => encoding::LEFT,
        Opcode::Right => encoding::RIGHT,
        Opcode::Back => encoding::BACK,
        Opcode::Leaves => encoding::LEAVES,
        Opcode::RightLeaf => encoding::RIGHT_LEAF,
        Opcode::LeftLeaf => encoding::LEFT_LEAF,
        Opcode::Join => encoding::JOIN,
    }
}

/// Returns words 0 and 1 of a split's node.
fn question(questions: &mut Questions, test: Test) -> (u32, u32) {
    let (predicate, missing) = match test {
        Test::Less { threshold, missing_left } => {
            let missing = if missing_left { Side::Left } else { Side::Right };
            (Predicate::Less { threshold: f64::from(threshold).into() }, missing)
        }
        Test::LessDouble { threshold, missing_left } => {
            let missing = if missing_left { Side::Left } else { Side::Right };
            (Predicate::Less { threshold: threshold.into() }, missing)
        }
        Test::Any { predicate, missing } => (predicate, missing),
    };
    asked(questions, predicate, missing)
}

/// Returns the number of lists of a tree's passes.
fn lists_of(passes: &[Pass]) -> usize {
    passes.first().map_or(0, |pass| pass.lists.len() / pass.at.len())
}

/// The numbers of a tree's passes.
struct PassNumbers<'a> {
    passes: &'a [Pass],
    /// The terms of edges in each pass, for interactions.
    edge_terms: &'a [Vec<f32>],
    /// Whether the lists are part of the numbers.
    has_lists: bool,
}

impl PassNumbers<'_> {
    /// Returns the numbers in passes of `count` points: the points, their weights, then for each split with a split above
    /// on the same feature the four lists of [`Pass::lists`], and for each edge its terms. The last pass is filled up
    /// with points without weight.
    fn regrouped(&self, count: usize) -> impl Iterator<Item = Vec<f32>> + '_ {
        let passes = self.passes;
        let each = passes.first().map_or(1, |pass| pass.at.len());
        let all = passes.len() * each;
        let lists = if self.has_lists { lists_of(passes) } else { 0 };
        let edges = self.edge_terms.first().map_or(0, |terms| terms.len() / each);
        (0..all).step_by(count).map(move |first| {
            // An index past the last point repeats it.
            let points: Vec<(usize, usize)> =
                (first..first + count).map(|p| p.min(all - 1)).map(|p| (p / each, p % each)).collect();
            let at = points.iter().map(|(pass, q)| passes[*pass].at[*q]);
            let weights = points.iter().enumerate().map(|(i, (pass, q))| match first + i < all {
                true => passes[*pass].weights[*q],
                false => 0.0,
            });
            let numbers = (0..lists)
                .flat_map(|list| points.iter().map(move |(pass, q)| passes[*pass].lists[list * each + q]));
            let terms = (0..edges)
                .flat_map(|edge| points.iter().map(move |(pass, q)| self.edge_terms[*pass][edge * each + q]));
            at.chain(weights).chain(numbers).chain(terms).collect()
        })
    }
}

/// The words of subtrees with tables, and their number.
#[derive(Default)]
struct TableWords {
    words: Vec<u32>,
    count: u32,
}

/// Encodes the pattern tables of a program: the subtrees, their tests and features, and the tables.
fn encode_tables(program: &Program, sums: &Sums<'_>, questions: &mut Questions) -> TableWords {
    // The tests and features of each subtree, and its tables.
    let (mut lists, mut values): (Vec<u32>, Vec<f32>) = (Vec::new(), Vec::new());
    let mut records: Vec<[usize; SUBTREE_WORDS as usize]> = Vec::new();
    for (o, output) in program.outputs.iter().enumerate() {
        for group in &output.groups {
            for tree in &group.trees {
                let Some(tables) = &tree.tables else { continue };
                for subtree in &tables.subtrees {
                    let (tests, features) = (subtree.tests.len(), subtree.features.len());
                    let tests_at = lists.len();
                    let features_at = tests_at + tests * TEST_WORDS as usize;
                    records.push([tests_at, tests, features_at, features, values.len()]);
                    for test in &subtree.tests {
                        let split = &tree.splits[tables.tests[*test as usize] as usize];
                        let (asked, meta) = question(questions, split.test);
                        lists.extend([program.columns[split.column as usize], asked, meta]);
                    }
                    let sum = |feature: &u32| sums.of_feature(o, group.features[*feature as usize]);
                    lists.extend(subtree.features.iter().map(sum));
                    let of_subtree = &tables.values[subtree.first..][..features * subtree.patterns()];
                    for table in of_subtree.chunks_exact(subtree.patterns()) {
                        values.extend(&table[..1 << tests]);
                    }
                }
            }
        }
    }
    let lists_at = records.len() * SUBTREE_WORDS as usize;
    let values_at = lists_at + lists.len();
    let mut words = Vec::with_capacity(values_at + values.len());
    for [tests_at, tests, features_at, features, table] in &records {
        let record = [lists_at + tests_at, *tests, lists_at + features_at, *features, values_at + table];
        words.extend(record.map(|word| word as u32));
    }
    words.extend(lists);
    words.extend(values.iter().map(|value| value.to_bits()));
    TableWords { words, count: records.len() as u32 }
}
