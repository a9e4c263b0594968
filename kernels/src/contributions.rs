//! Contributions (path-dependent SHAP values) of rows on a device.
//!
//! A tree is a list of steps over two stacks: `path`, with the part of a row that arrives at a split, and `below`, with
//! the sum of the leaves below it. The steps, and what they compute, are those of `fangorn::contributions`. All rows
//! take the same steps, so the units of a plane never part. A unit computes one row of one block of trees, and a
//! second launch adds up the blocks in their order: this takes neither atomics nor shared memory.

use cubecl::{client::Client, prelude::*};
use fangorn_ir::{Number, RowType};

use super::{
    contribution_steps::*,
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

/// A forest's steps on a device.
#[derive(Clone, Debug)]
pub struct ContributionProgram {
    /// Passes, steps, points and parts, questions and biases.
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
    /// The greatest number of splits on a path, for which [`points_for`] has found `points`.
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
    /// Number of passes of a block.
    pub block: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Index of the first word of the questions.
    pub questions_at: u32,
    /// Number of contributions of a row.
    pub width: u32,
}

/// Computes `partial[block][contribution][row]`, the contributions of one row by one block of trees, in each unit.
#[cube(launch_unchecked)]
pub fn explain_rows(
    rows: &[u32],
    program: &[u32],
    partial: &mut [f32],
    span: &RowSpan,
    of: &PassSpan,
    #[comptime] from: RowType,
    #[comptime] points: u32,
    #[comptime] levels: u32,
) {
    let i = ABSOLUTE_POS as u32;
    let row = i % span.batch;
    let block = i / span.batch;
    if block < of.blocks {
        let out = block * of.width * span.batch + row;
        let mut c = 0u32.runtime();
        while c < of.width {
            partial[(out + c * span.batch) as usize] = 0.0f32;
            c += 1u32;
        }
        let mut paths = Array::<f32>::new(comptime![(levels * points) as usize]);
        let mut belows = Array::<f32>::new(comptime![(levels * points) as usize]);
        // Bit 0 of a level: the row goes left at the level's split. Bit 1: it took the path's sides at the splits above
        // on the same feature.
        let mut masks = Array::<u32>::new(comptime![levels as usize]);
        let first = block * of.block;
        let end = u32::min(first + of.block, of.passes);
        let mut pass = first;
        while pass < end {
            let mut step = program[(pass * PASS_WORDS) as usize];
            let steps_end = step + program[(pass * PASS_WORDS + 1u32) as usize] * STEP_WORDS;
            let points_at = program[(pass * PASS_WORDS + 2u32) as usize];
            let parts_at = points_at + comptime![2 * points];
            #[unroll]
            for q in 0..points {
                let weight = program[(points_at + comptime![points + q]) as usize];
                paths[q as usize] = f32::reinterpret(weight);
            }
            let mut top = 0u32.runtime();
            let mut count = 0u32.runtime();
            while step < steps_end {
                let flags = program[step as usize];
                let kind = flags & KIND;
                if kind == BACK {
                    top -= 1u32;
                } else {
                    let repeated = (flags & REPEATED) != 0u32;
                    if (flags & ENTERS) != 0u32 {
                        let column = program[(step + 1u32) as usize];
                        let asked = program[(step + 2u32) as usize];
                        let meta = program[(step + 3u32) as usize];
                        let at = span.offset + row * span.row_stride + column * span.column_stride;
                        let key = load_key(rows, at, from);
                        let mut right = node::right(key, asked, meta);
                        if (meta & comptime![node::QUESTION]) != 0u32 {
                            right = node::question_right(program, of.questions_at + asked, key, meta);
                        }
                        let mut mask = (1u32 - right) | 2u32;
                        if repeated {
                            let above = masks[(flags >> ABOVE_SHIFT) as usize];
                            let side = select((flags & ABOVE_LEFT) != 0u32, 1u32, 0u32);
                            mask = (1u32 - right) | select((above & 1u32) == side, above & 2u32, 0u32);
                        }
                        masks[top as usize] = mask;
                    }
                    let mask = masks[top as usize];
                    let left = (mask & 1u32) == 1u32;
                    let reached = (mask & 2u32) == 2u32;
                    let share = f32::reinterpret(program[(step + 5u32) as usize]);
                    let lists = parts_at + program[(step + 4u32) as usize] * comptime![4 * points];
                    let leaf_left = f32::reinterpret(program[(step + 6u32) as usize]);
                    let leaf_right = f32::reinterpret(program[(step + 7u32) as usize]);
                    // The index among `belows` of the split's left child, and then of the split itself.
                    let mut own = count;
                    if kind == JOIN {
                        own = count - 2u32;
                    } else if kind == RIGHT_LEAF || kind == LEFT_LEAF {
                        own = count - 1u32;
                    }
                    let mut sum = 0.0f32.runtime();
                    #[unroll]
                    for q in 0..points {
                        let at = f32::reinterpret(program[(points_at + q) as usize]);
                        let mut part = share * (1.0f32 - at) + select(left, at, 0.0f32);
                        let mut change = select(left, 1.0f32 - share, -share);
                        if repeated {
                            let side = select(left, 0u32, comptime![points].runtime());
                            let list = lists + side + q;
                            let yes = f32::reinterpret(program[list as usize]);
                            part = select(reached, yes, share);
                            let yes = f32::reinterpret(program[(list + comptime![2 * points]) as usize]);
                            change = select(reached, yes, 0.0f32);
                        }
                        let path = paths[(top * points + q) as usize];
                        if kind == LEFT || kind == RIGHT {
                            let child = path * part;
                            let child = select(kind == LEFT, child, path - child);
                            paths[((top + 1u32) * points + q) as usize] = child;
                        } else {
                            let place = (own * points + q) as usize;
                            let mut lefts = leaf_left;
                            let mut rights = leaf_right;
                            if kind == JOIN {
                                lefts = belows[place];
                                rights = belows[((own + 1u32) * points + q) as usize];
                            } else if kind == RIGHT_LEAF {
                                lefts = belows[place];
                            } else if kind == LEFT_LEAF {
                                rights = belows[place];
                            }
                            let difference = lefts - rights;
                            belows[place] = part * difference + rights;
                            sum += path * change * difference;
                        }
                    }
                    if kind == LEFT || kind == RIGHT {
                        top += 1u32;
                    } else {
                        count = own + 1u32;
                        let feature = program[(step + 8u32) as usize];
                        partial[(out + feature * span.batch) as usize] += sum;
                    }
                }
                step += STEP_WORDS;
            }
            pass += 1u32;
        }
    }
}

/// Computes `out[row][contribution] = bias + Σ partial[block][contribution][row]`, where only an output's last
/// contribution has a bias.
#[cube(launch_unchecked)]
pub fn add_blocks_of_trees(
    partial: &[f32],
    program: &[u32],
    out: &mut [f32],
    batch: u32,
    blocks: u32,
    columns: u32,
    outputs: u32,
    biases_at: u32,
) {
    let width = (columns + 1u32) * outputs;
    let i = ABSOLUTE_POS as u32;
    // Units that follow each other read partial sums that follow each other.
    let row = i % batch;
    let contribution = i / batch;
    if contribution < width {
        let mut sum = 0.0f32.runtime();
        let mut block = 0u32.runtime();
        while block < blocks {
            sum += partial[((block * width + contribution) * batch + row) as usize];
            block += 1u32;
        }
        let output = contribution / (columns + 1u32);
        if contribution % (columns + 1u32) == columns {
            sum += f32::reinterpret(program[(biases_at + output) as usize]);
        }
        out[(row * width + contribution) as usize] = sum;
    }
}

/// Units that a launch has at least, if there are enough trees: so many fill a large GPU.
const UNITS: u64 = 1 << 16;

/// Writes the contributions of rows into `out`, `rows x outputs x (columns + 1)` numbers of f32, the bias last. The rows
/// are of type `from`. Launches take at most `most_rows` rows, rounded down to a multiple of 128.
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

/// Explains rows whose partial sums of one block of trees fit a binding.
fn explain_piece(client: &Client, program: &ContributionProgram, rows: &Rows, from: RowType, out: &Buffer) {
    let (batch, width) = (u64::from(rows.batch), program.width());
    let room = (most_sums(client) / (batch * width).max(1)).max(1);
    let blocks = UNITS.div_ceil(batch.max(1)).min(room).clamp(1, u64::from(program.passes.max(1))) as u32;
    let block = program.passes.div_ceil(blocks).max(1);
    let blocks = program.passes.div_ceil(block).max(1);
    let partial = Buffer::of_words(client, (u64::from(blocks) * width * batch) as usize);
    let span = RowSpanLaunch::new(rows.batch, rows.row_stride, rows.column_stride, rows.offset);
    let of = PassSpanLaunch::new(program.passes, block, blocks, program.questions_at, width as u32);
    // SAFETY: each unit checks that its block, or its contribution, exists. `partial` is made here with a number for
    // each block, contribution and row. The encoder of the program upholds that its indices lie in it, that its columns
    // are those of the rows, and that stacks have no more levels than `deepest` says. The caller upholds that `out` has
    // room for all contributions.
    unsafe {
        let (cubes, dim) = flat(client, blocks * rows.batch);
        explain_rows::launch_unchecked(
            client,
            cubes,
            dim,
            rows.words.arg(),
            program.words.arg(),
            partial.arg(),
            span,
            of,
            from,
            program.points,
            levels(program.deepest as usize) as u32,
        );
        let (cubes, dim) = flat(client, width as u32 * rows.batch);
        add_blocks_of_trees::launch_unchecked(
            client,
            cubes,
            dim,
            partial.arg(),
            program.words.arg(),
            out.arg(),
            rows.batch,
            blocks,
            program.columns,
            program.outputs,
            program.biases_at,
        );
    }
}
