//! Contributions on one device: a forest's instructions as words.

use cubecl::client::Client;
use fangorn_kernels::{
    Buffer, ContributionProgram, Rows, contribution_encoding as encoding,
    contribution_encoding::{INSTRUCTION_WORDS, PASS_WORDS},
    most_contributions,
};

use super::{executable::upload, words::asked};
use crate::{
    contributions::{
        self,
        program::{FIRST, Opcode, Pass, Program, Split, Test, TreeProgram},
    },
    error::{Error, Result},
    forest::{CompareType, Forest, Predicate, Side},
    layout::Questions,
    plan::RowType,
};

/// Explains a forest's margins on a device: the numbers of [`contributions::Explainer`], in f32 sums. It is immutable,
/// and launches take no lock.
#[derive(Clone)]
pub struct Explainer {
    client: Client,
    program: ContributionProgram,
    /// Maximum number of rows of a launch, if it is smaller than the device allows.
    most_rows: u32,
}

impl std::fmt::Debug for Explainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explainer")
            .field("device", &self.client.name())
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Explainer {
    /// Prepares path-dependent contributions of a forest on the device behind `client`, and uploads its instructions.
    /// The work and the memory are linear in the forest's size.
    ///
    /// # Errors
    /// The errors of [`contributions::Explainer::new`]. [`Error::Contributions`]: a path of the forest is too long for
    /// a unit's memory, or a row has too many contributions. [`Error::Device`]: the device has no memory for the
    /// instructions.
    pub fn new(client: &Client, forest: &Forest) -> Result<Self> {
        let explained = contributions::prepare(forest)?;
        // Rows are f32, f16 or bf16, so thresholds of f64 are narrowed without changing a decision.
        let program = Program::new(&explained, CompareType::F32);
        let most_points = encoding::points_for(program.deepest).ok_or_else(|| {
            Error::Contributions(format!(
                "a path of the model has {} splits, a GPU's units have room for {}; explain it on the CPU, with \
                 contributions::Explainer",
                program.deepest,
                encoding::deepest_path()
            ))
        })?;
        let points = most_points.min(needed_points(&program));
        let most = most_contributions(client);
        let width = program.outputs.len() * (program.width + 1);
        if width as u64 > most {
            return Err(Error::Contributions(format!(
                "a row of the model has {width} contributions, the device has room for {most}; explain it on the CPU, \
                 with contributions::Explainer"
            )));
        }
        let encoded = encode(&program, points as usize).ok_or_else(|| {
            Error::Contributions(
                "the model's instructions need more than 2^32 words; explain it on the CPU, with \
                 contributions::Explainer"
                    .into(),
            )
        })?;
        let program = ContributionProgram {
            words: upload(client, &encoded.words)?,
            passes: encoded.passes,
            questions_at: encoded.questions_at,
            biases_at: encoded.biases_at,
            columns: program.width as u32,
            outputs: program.outputs.len() as u32,
            points,
            deepest: program.deepest as u32,
        };
        Ok(Self { client: client.clone(), program, most_rows: u32::MAX })
    }

    /// Limits launches to `rows` rows, rounded down to a multiple of 128. The least limit is 128.
    #[must_use]
    pub fn with_most_rows(self, rows: u32) -> Self {
        Self { most_rows: rows, ..self }
    }

    /// Returns the number of values of a row: `outputs x (features + 1)`.
    pub fn width(&self) -> usize {
        self.program.outputs as usize * (self.program.columns as usize + 1)
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)` numbers of f32, the bias last.
    /// `rows` hold values of type `of` (f32, f16 or bf16), with the forest's number of columns. Nothing is read back.
    pub fn run(&self, rows: &Rows, of: RowType, out: &Buffer) {
        fangorn_kernels::contributions(&self.client, &self.program, rows, of, self.most_rows, out);
    }
}

/// Returns the greatest number of points that a tree needs, which is at least 1.
fn needed_points(program: &Program) -> u32 {
    let trees = program.outputs.iter().flat_map(|output| &output.groups).flat_map(|group| &group.trees);
    let points = trees.map(|tree| tree.passes.iter().map(|pass| pass.at.len()).sum::<usize>());
    points.max().unwrap_or(1).max(1) as u32
}

/// The words of a program, and the indices where their sections begin.
struct ProgramWords {
    words: Vec<u32>,
    passes: u32,
    questions_at: u32,
    biases_at: u32,
}

/// Encodes a program for passes of `points` points. Returns `None` if it needs more words than 32 bits can count.
fn encode(program: &Program, points: usize) -> Option<ProgramWords> {
    let mut questions = Questions::of_sets(&program.sets);
    let mut words_of_instructions: Vec<u32> = Vec::new();
    let mut numbers: Vec<f32> = Vec::new();
    // Of each pass: where its instructions begin, their number, and where its numbers begin.
    let mut passes: Vec<[usize; PASS_WORDS as usize]> = Vec::new();
    for (o, output) in program.outputs.iter().enumerate() {
        for group in &output.groups {
            // Returns the index of a feature of the group among the contributions of a row.
            let index_of = |feature: u32| {
                let column = output.columns[group.features[feature as usize] as usize];
                (o * (program.width + 1)) as u32 + program.columns[column as usize]
            };
            for tree in &group.trees {
                let first = words_of_instructions.len();
                encode_instructions(
                    tree,
                    &program.columns,
                    &mut questions,
                    index_of,
                    &mut words_of_instructions,
                );
                for pass in regrouped(&tree.passes, points) {
                    passes.push([first, tree.instructions.len(), numbers.len()]);
                    numbers.extend(pass);
                }
            }
        }
    }
    let instructions_at = passes.len() * PASS_WORDS as usize;
    let numbers_at = instructions_at + words_of_instructions.len();
    let mut words = Vec::with_capacity(numbers_at + numbers.len());
    for [first, count, numbers] in &passes {
        words.extend([(instructions_at + first) as u32, *count as u32, (numbers_at + numbers) as u32]);
    }
    words.extend(words_of_instructions);
    words.extend(numbers.iter().map(|number| number.to_bits()));
    let questions_at = words.len();
    words.extend(questions.words);
    // A lookup past the end of a set reads the set's first word, which an empty last set must have, too.
    words.push(0);
    let biases_at = words.len();
    words.extend(program.outputs.iter().map(|output| (output.bias as f32).to_bits()));
    u32::try_from(words.len()).ok()?;
    Some(ProgramWords {
        passes: passes.len() as u32,
        questions_at: questions_at as u32,
        biases_at: biases_at as u32,
        words,
    })
}

/// Adds the words of a tree's instructions. `index_of` returns the index of a feature among the contributions of a
/// row.
fn encode_instructions(
    tree: &TreeProgram,
    columns: &[u32],
    questions: &mut Questions,
    index_of: impl Fn(u32) -> u32,
    words: &mut Vec<u32>,
) {
    // The level of each split that the instructions have entered.
    let mut levels: Vec<Option<u32>> = vec![None; tree.splits.len()];
    let mut level = 0;
    for instruction in &tree.instructions {
        let opcode = match instruction.opcode {
            Opcode::Left => encoding::LEFT,
            Opcode::Right => encoding::RIGHT,
            Opcode::Back => encoding::BACK,
            Opcode::Leaves => encoding::LEAVES,
            Opcode::RightLeaf => encoding::RIGHT_LEAF,
            Opcode::LeftLeaf => encoding::LEFT_LEAF,
            Opcode::Join => encoding::JOIN,
        };
        if instruction.opcode == Opcode::Back {
            level -= 1;
            words.extend([opcode; INSTRUCTION_WORDS as usize]);
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
            flags |= encoding::REPEATED | side | above_level << encoding::ABOVE_SHIFT;
            lists = instruction.lists;
        }
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
        let (asked, meta) = asked(questions, predicate, missing);
        let [left, right] = instruction.leaves.map(f32::to_bits);
        let share = instruction.share.to_bits();
        words.extend([
            flags,
            columns[column as usize],
            asked,
            meta,
            lists,
            share,
            left,
            right,
            index_of(instruction.feature),
        ]);
        level += u32::from(matches!(instruction.opcode, Opcode::Left | Opcode::Right));
    }
}

/// Returns the numbers of a tree's passes, in passes of `count` points: the points, their weights, and then for each
/// split with a split above on the same feature the four lists of [`Pass::lists`]. The last pass is filled up with
/// points without weight.
fn regrouped(passes: &[Pass], count: usize) -> impl Iterator<Item = Vec<f32>> + '_ {
    let each = passes.first().map_or(1, |pass| pass.at.len());
    let all = passes.len() * each;
    let lists = passes.first().map_or(0, |pass| pass.lists.len() / each);
    (0..all).step_by(count).map(move |first| {
        // An index past the last point repeats it.
        let points: Vec<(&Pass, usize)> =
            (first..first + count).map(|p| p.min(all - 1)).map(|p| (&passes[p / each], p % each)).collect();
        let at = points.iter().map(|(pass, q)| pass.at[*q]);
        let weights = points.iter().enumerate().map(|(i, (pass, q))| match first + i < all {
            true => pass.weights[*q],
            false => 0.0,
        });
        let numbers =
            (0..lists).flat_map(|list| points.iter().map(move |(pass, q)| pass.lists[list * each + q]));
        at.chain(weights).chain(numbers).collect()
    })
}
