//! Contributions (path-dependent SHAP values) of rows on a device.
//!
//! A tree is a list of instructions over two stacks: `path`, with the fraction of a row that arrives at a split, and
//! `below`, with the sum of the leaves below it. The instructions, and what they compute, are those of
//! `fangorn::contributions`. All rows take the same instructions, so the units of a plane never diverge. A unit
//! computes one row of one chunk of trees, and a second launch adds up the chunks in their order: this takes neither
//! atomics nor shared memory.

use cubecl::{client::Client, prelude::*};
use fangorn_ir::{Number, RowType};

use super::{
    contribution_encoding::*,
    device::{Buffer, Rows, flat},
    grid::{MOST_PARTIALS, PIECE},
    keys::load_key,
    launch::pieces,
    node,
    rank::{RowSpan, RowSpanLaunch},
};

/// Returns the maximum number of contributions of a row for which a launch has room.
pub fn most_contributions(client: &Client) -> u64 {
    most_sums(client) / u64::from(PIECE)
}

/// Returns the maximum number of partial sums of a launch.
fn most_sums(client: &Client) -> u64 {
    (client.properties().memory.max_page_size.min(1 << 33) / 4).min(MOST_PARTIALS)
}

/// A forest's instructions on a device.
#[derive(Clone, Debug)]
pub struct ContributionProgram {
    /// Passes, instructions, points and lists, questions and biases.
    pub words: Buffer,
    /// Number of passes of all trees. Their words come first.
    pub passes: u32,
    /// Index of the first word of the questions.
    pub questions_at: u32,
    /// Index of the first of the biases, one for each output.
    pub biases_at: u32,
    /// Number of columns of a row.
    pub columns: u32,
    /// Number of margins of a row.
    pub outputs: u32,
    /// Number of points of each pass.
    pub points: u32,
    /// The greatest number of splits on a path. [`points_for`] finds room for `points` on such paths.
    pub deepest: u32,
}

impl ContributionProgram {
    /// Number of contributions of a row.
    fn width(&self) -> u64 {
        u64::from(self.outputs) * (u64::from(self.columns) + 1)
    }
}

/// The trees of a launch.
#[derive(CubeType, CubeLaunch)]
pub struct PassSpan {
    /// Number of passes.
    pub passes: u32,
    /// Number of passes of a chunk.
    pub chunk: u32,
    /// Number of chunks.
    pub chunks: u32,
    /// Index of the first word of the questions.
    pub questions_at: u32,
    /// Number of contributions of a row.
    pub width: u32,
}

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The type of the rows' values.
    pub from: RowType,
    /// Number of points of a pass.
    pub points: u32,
    /// Number of levels of a stack.
    pub levels: u32,
}

/// An instruction, as it is encoded.
#[derive(CubeType)]
struct Instruction {
    opcode: u32,
    flags: u32,
    column: u32,
    asked: u32,
    meta: u32,
    lists: u32,
    share: f32,
    left: f32,
    right: f32,
    feature: u32,
}

/// The stacks of a unit, with a number for each level and point.
#[derive(CubeType)]
struct Stacks {
    /// The fractions of the row that arrive at the splits of the path. The one at `top` is the running split's.
    paths: Array<f32>,
    top: RuntimeCell<u32>,
    /// The sums of the leaves below splits whose instructions are done, `count` of them.
    belows: Array<f32>,
    count: RuntimeCell<u32>,
    /// For each split of the path, bit 0: the row goes left. Bit 1: it took the path's sides at the splits above on the
    /// same feature.
    masks: Array<u32>,
}

/// A split at a point: the fraction of the left child, and the split's change.
#[derive(CubeType)]
struct PointNumbers {
    fraction: f32,
    change: f32,
}

/// Computes `partial[chunk][contribution][row]`, the contributions of one row by one chunk of trees, in each unit.
#[cube(launch_unchecked)]
pub fn explain_rows(
    rows: &[u32],
    program: &[u32],
    partial: &mut [f32],
    span: &RowSpan,
    of: &PassSpan,
    #[comptime] shape: Shape,
) {
    let i = ABSOLUTE_POS as u32;
    let row = i % span.batch;
    let chunk = i / span.batch;
    if chunk < of.chunks {
        let out = chunk * of.width * span.batch + row;
        let mut c = 0u32.runtime();
        while c < of.width {
            partial[(out + c * span.batch) as usize] = 0.0f32;
            c += 1u32;
        }
        let mut stacks = Stacks {
            paths: Array::<f32>::new(comptime![(shape.levels * shape.points) as usize]),
            top: RuntimeCell::<u32>::new(0u32),
            belows: Array::<f32>::new(comptime![(shape.levels * shape.points) as usize]),
            count: RuntimeCell::<u32>::new(0u32),
            masks: Array::<u32>::new(comptime![shape.levels as usize]),
        };
        let first = chunk * of.chunk;
        let end = u32::min(first + of.chunk, of.passes);
        let mut pass = first;
        while pass < end {
            let mut at = program[(pass * PASS_WORDS) as usize];
            let instructions_end = at + program[(pass * PASS_WORDS + 1u32) as usize] * INSTRUCTION_WORDS;
            let points_at = program[(pass * PASS_WORDS + 2u32) as usize];
            stacks.top.store(0u32);
            stacks.count.store(0u32);
            #[unroll]
            for q in 0..shape.points {
                let weight = program[(points_at + comptime![shape.points + q]) as usize];
                stacks.paths[q as usize] = f32::reinterpret(weight);
            }
            while at < instructions_end {
                let instruction = load(program, at);
                if instruction.opcode == BACK {
                    stacks.top.store(stacks.top.read() - 1u32);
                } else {
                    if (instruction.flags & ENTERS) != 0u32 {
                        let value =
                            span.offset + row * span.row_stride + instruction.column * span.column_stride;
                        let key = load_key(rows, value, comptime![shape.from]);
                        enter(program, of.questions_at, &instruction, key, &mut stacks);
                    }
                    let index = out + instruction.feature * span.batch;
                    let added =
                        execute(program, points_at, &instruction, &mut stacks, comptime![shape.points]);
                    if instruction.opcode != LEFT && instruction.opcode != RIGHT {
                        partial[index as usize] += added;
                    }
                }
                at += INSTRUCTION_WORDS;
            }
            pass += 1u32;
        }
    }
}

/// Loads the instruction at index `at`.
#[cube]
fn load(program: &[u32], at: u32) -> Instruction {
    let at = at as usize;
    let flags = program[at];
    Instruction {
        opcode: flags & OPCODE,
        flags,
        column: program[at + 1],
        asked: program[at + 2],
        meta: program[at + 3],
        lists: program[at + 4],
        share: f32::reinterpret(program[at + 5]),
        left: f32::reinterpret(program[at + 6]),
        right: f32::reinterpret(program[at + 7]),
        feature: program[at + 8],
    }
}

/// Writes the mask of a split on the top of the path, for a row whose value has this key.
#[cube]
fn enter(program: &[u32], questions_at: u32, instruction: &Instruction, key: u32, stacks: &mut Stacks) {
    let mut right = node::right(key, instruction.asked, instruction.meta);
    if (instruction.meta & comptime![node::QUESTION]) != 0u32 {
        right = node::question_right(program, questions_at + instruction.asked, key, instruction.meta);
    }
    let left = 1u32 - right;
    let mut mask = left | 2u32;
    if (instruction.flags & REPEATED) != 0u32 {
        let above = stacks.masks[(instruction.flags >> ABOVE_SHIFT) as usize];
        let side = select((instruction.flags & ABOVE_LEFT) != 0u32, 1u32, 0u32);
        mask = left | select((above & 1u32) == side, above & 2u32, 0u32);
    }
    stacks.masks[stacks.top.read() as usize] = mask;
}

/// Returns the numbers of a split at point `q`, for a row with this mask.
#[cube]
fn numbers(
    program: &[u32],
    points_at: u32,
    instruction: &Instruction,
    mask: u32,
    #[comptime] q: u32,
    #[comptime] points: u32,
) -> PointNumbers {
    let left = (mask & 1u32) == 1u32;
    let at = f32::reinterpret(program[(points_at + q) as usize]);
    let mut fraction = instruction.share * (1.0f32 - at) + select(left, at, 0.0f32);
    let mut change = select(left, 1.0f32 - instruction.share, -instruction.share);
    if (instruction.flags & REPEATED) != 0u32 {
        let reached = (mask & 2u32) == 2u32;
        let lists = points_at + comptime![2 * points] + instruction.lists * comptime![4 * points];
        let list = lists + select(left, 0u32, comptime![points].runtime()) + q;
        fraction = select(reached, f32::reinterpret(program[list as usize]), instruction.share);
        let changed = f32::reinterpret(program[(list + comptime![2 * points]) as usize]);
        change = select(reached, changed, 0.0f32);
    }
    PointNumbers { fraction, change }
}

/// Executes an instruction at all points of a pass. Returns what it adds to the contribution of its feature, if it ends
/// a split.
#[cube]
fn execute(
    program: &[u32],
    points_at: u32,
    instruction: &Instruction,
    stacks: &mut Stacks,
    #[comptime] points: u32,
) -> f32 {
    let top = stacks.top.read();
    let mask = stacks.masks[top as usize];
    let mut added = 0.0f32.runtime();
    if instruction.opcode == LEFT || instruction.opcode == RIGHT {
        #[unroll]
        for q in 0..points {
            let numbers = numbers(program, points_at, instruction, mask, q, points);
            let path = stacks.paths[(top * points + q) as usize];
            let left = path * numbers.fraction;
            let child = select(instruction.opcode == LEFT, left, path - left);
            stacks.paths[((top + 1u32) * points + q) as usize] = child;
        }
        stacks.top.store(top + 1u32);
    } else {
        // The index of the left child's sum in the stack, and then of the split's own.
        let mut own = stacks.count.read();
        if instruction.opcode == JOIN {
            own -= 2u32;
        } else if instruction.opcode != LEAVES {
            own -= 1u32;
        }
        #[unroll]
        for q in 0..points {
            let numbers = numbers(program, points_at, instruction, mask, q, points);
            let index = (own * points + q) as usize;
            let mut lefts = instruction.left;
            let mut rights = instruction.right;
            if instruction.opcode == JOIN || instruction.opcode == RIGHT_LEAF {
                lefts = stacks.belows[index];
            }
            if instruction.opcode == JOIN {
                rights = stacks.belows[((own + 1u32) * points + q) as usize];
            } else if instruction.opcode == LEFT_LEAF {
                rights = stacks.belows[index];
            }
            let difference = lefts - rights;
            stacks.belows[index] = numbers.fraction * difference + rights;
            added += stacks.paths[(top * points + q) as usize] * numbers.change * difference;
        }
        stacks.count.store(own + 1u32);
    }
    added
}

/// The contributions of a launch that adds up chunks of trees.
#[derive(CubeType, CubeLaunch)]
pub struct SumSpan {
    /// Number of rows.
    pub batch: u32,
    /// Number of chunks of trees.
    pub chunks: u32,
    /// Number of columns of a row.
    pub columns: u32,
    /// Number of margins of a row.
    pub outputs: u32,
    /// Index of the first bias.
    pub biases_at: u32,
}

/// Computes `out[row][contribution] = bias + Σ partial[chunk][contribution][row]`, where only an output's last
/// contribution has a bias.
#[cube(launch_unchecked)]
pub fn add_chunks(partial: &[f32], program: &[u32], out: &mut [f32], of: &SumSpan) {
    let of_output = of.columns + 1u32;
    let width = of_output * of.outputs;
    // Units that follow each other read partial sums that follow each other.
    let i = ABSOLUTE_POS as u32;
    let row = i % of.batch;
    let contribution = i / of.batch;
    if contribution < width {
        let mut sum = 0.0f32.runtime();
        let mut chunk = 0u32.runtime();
        while chunk < of.chunks {
            sum += partial[((chunk * width + contribution) * of.batch + row) as usize];
            chunk += 1u32;
        }
        if contribution % of_output == of.columns {
            sum += f32::reinterpret(program[(of.biases_at + contribution / of_output) as usize]);
        }
        out[(row * width + contribution) as usize] = sum;
    }
}

/// Units that a launch has at least, if there are enough trees: so many fill a large GPU.
const UNITS: u64 = 1 << 16;

/// Writes the contributions of rows into `out`, `rows x outputs x (columns + 1)` numbers of f32, the bias last. The
/// rows are of type `from`. Launches take at most `most_rows` rows, rounded down to a multiple of 128.
pub fn contributions(
    client: &Client,
    program: &ContributionProgram,
    rows: &Rows,
    from: RowType,
    most_rows: u32,
    out: &Buffer,
) {
    let bytes = client.properties().memory.max_page_size.min(1 << 33);
    let most = [
        most_sums(client) / program.width().max(1),
        bytes / 4 / u64::from(rows.row_stride.max(1)),
        u64::from(most_rows),
        1 << 24,
    ];
    let most = most.into_iter().min().unwrap_or(1) as u32 / PIECE * PIECE;
    for (rows, out) in pieces(from, rows, out, Number::F32, most.max(PIECE)) {
        explain_piece(client, program, &rows, from, &out);
    }
}

/// Explains rows whose partial sums of one chunk of trees fit a binding.
fn explain_piece(client: &Client, program: &ContributionProgram, rows: &Rows, from: RowType, out: &Buffer) {
    let (batch, width) = (u64::from(rows.batch), program.width());
    let room = (most_sums(client) / (batch * width).max(1)).max(1);
    let chunks = UNITS.div_ceil(batch.max(1)).min(room).clamp(1, u64::from(program.passes.max(1))) as u32;
    let chunk = program.passes.div_ceil(chunks).max(1);
    let chunks = program.passes.div_ceil(chunk).max(1);
    let partial = Buffer::of_words(client, (u64::from(chunks) * width * batch) as usize);
    let span = RowSpanLaunch::new(rows.batch, rows.row_stride, rows.column_stride, rows.offset);
    let of = PassSpanLaunch::new(program.passes, chunk, chunks, program.questions_at, width as u32);
    // SAFETY: each unit checks that its chunk, or its contribution, exists. `partial` is made here with a number for
    // each chunk, contribution and row. The encoder of the program upholds that its indices lie in it, that its columns
    // are those of the rows, and that stacks have no more levels than `deepest` says. The caller upholds that `out` has
    // room for all contributions.
    unsafe {
        let (cubes, dim) = flat(client, chunks * rows.batch);
        explain_rows::launch_unchecked(
            client,
            cubes,
            dim,
            rows.words.arg(),
            program.words.arg(),
            partial.arg(),
            span,
            of,
            Shape { from, points: program.points, levels: levels(program.deepest as usize) as u32 },
        );
        let (cubes, dim) = flat(client, width as u32 * rows.batch);
        add_chunks::launch_unchecked(
            client,
            cubes,
            dim,
            partial.arg(),
            program.words.arg(),
            out.arg(),
            SumSpanLaunch::new(rows.batch, chunks, program.columns, program.outputs, program.biases_at),
        );
    }
}
