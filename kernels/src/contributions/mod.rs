//! Contributions (SHAP values) and interactions of rows on a device.
//!
//! | file | subject |
//! |---|---|
//! | `encoding` | the words that a host encodes and the kernels read |
//! | `steps` | an instruction, as a unit executes it on its stacks |
//! | `rows` | the kernel that executes instructions for rows, and the one that adds up chunks of trees |
//! | `interactions` | pairs of features, and the matrices that they make |
//! | `patterns` | the kernel that looks up pattern tables |
//!
//! A tree is a list of instructions over two stacks: `path`, with the fraction of a row that arrives at a split, and
//! `below`, with the sum of the leaves below it. The instructions, and what they compute, are those of
//! `fangorn::contributions`. By covers all rows take the same instructions, so the units of a plane never diverge. Against
//! a background a unit takes one background row after the other, and leaves out the instructions of a child at which
//! neither row arrives. A unit computes one row of one chunk of trees, and a second launch adds up the chunks in their
//! order: this takes neither atomics nor shared memory.

pub mod encoding;
mod interactions;
mod patterns;
mod rows;
mod steps;

use cubecl::client::Client;
use fangorn_ir::{Number, RowType};

use self::{
    encoding::{BLOCK_ROWS, levels},
    interactions::{MatrixSpanLaunch, write_interactions},
    patterns::look_up_patterns,
    rows::{SumSpanLaunch, add_chunks, explain_rows},
    steps::{ChunkSpanLaunch, SectionsLaunch, Shape},
};
use crate::{
    device::{Buffer, Rows, flat},
    grid::{MOST_PARTIALS, PIECE},
    launch::pieces,
    rank::RowSpanLaunch,
};

pub use steps::Explained;

/// Returns the maximum number of sums of a row for which a launch has room. A program with passes and subtrees needs
/// twice the room.
pub fn most_row_sums(client: &Client) -> u64 {
    most_sums(client) / u64::from(PIECE)
}

/// Returns the maximum number of interactions of a row for which a launch has room.
pub fn most_interactions(client: &Client) -> u64 {
    // Indices of interactions are below 2^32, and so is the number of units.
    (most_bytes(client) / 4).min(1 << 31) / u64::from(PIECE)
}

/// Returns the maximum number of partial sums of a launch.
fn most_sums(client: &Client) -> u64 {
    (most_bytes(client) / 4).min(MOST_PARTIALS)
}

/// Returns the maximum number of bytes of a binding.
fn most_bytes(client: &Client) -> u64 {
    client.properties().memory.max_page_size.min(1 << 33)
}

/// A forest's instructions and tables on a device.
#[derive(Clone, Debug)]
pub struct ContributionProgram {
    /// Passes, instructions, points and lists, ancestors, sides, subtrees, questions, matrices and biases.
    pub words: Buffer,
    /// What is explained.
    pub explained: Explained,
    /// Number of passes of all trees. Their words come first.
    pub passes: u32,
    /// Number of subtrees with tables.
    pub subtrees: u32,
    /// Index of the first word of the ancestors of splits.
    pub ancestors_at: u32,
    /// Index of the first word of the sides of background rows.
    pub sides_at: u32,
    /// Index of the first word of the subtrees.
    pub subtrees_at: u32,
    /// Index of the first word of the questions.
    pub questions_at: u32,
    /// Index of the first element of the matrices: for each interaction of a row the index of its sum plus 1, or 0.
    pub matrices_at: u32,
    /// Index of the first of the biases, one for each output.
    pub biases_at: u32,
    /// Number of columns of a row.
    pub columns: u32,
    /// Number of margins of a row.
    pub outputs: u32,
    /// Number of sums of a row: its contributions, or for interactions those of the features and pairs of each output.
    pub sums: u32,
    /// Number of points of each pass.
    pub points: u32,
    /// The greatest number of splits on a path. [`encoding::points_for`] finds room for `points` on such paths.
    pub deepest: u32,
    /// Number of background rows, or 1 if there are none.
    pub background_rows: u32,
}

impl ContributionProgram {
    /// Returns the number of results of a row.
    pub fn width(&self) -> u64 {
        let side = u64::from(self.columns) + 1;
        let of_output = if self.explained.pairs { side * side } else { side };
        u64::from(self.outputs) * of_output
    }

    /// Number of blocks of background rows.
    fn blocks(&self) -> u32 {
        self.background_rows.div_ceil(BLOCK_ROWS).max(1)
    }

    /// Number of launches that write partial sums.
    fn launches(&self) -> u64 {
        (u64::from(self.passes > 0) + u64::from(self.subtrees > 0)).max(1)
    }
}

/// Units that a launch has at least, if there are enough trees: so many fill a large GPU.
const UNITS: u64 = 1 << 16;

/// The maximum number of passes that a launch executes against a background, for all rows and background rows. A driver
/// may end a launch that takes seconds.
const MOST_WALKS: u64 = 1 << 30;

/// Items against a background that are added up in one sum, if there is room for more sums: the rounding of an f32 sum
/// grows with the number of its terms.
const ITEMS_A_SUM: u64 = 16;

/// Writes the contributions of rows into `out`, `rows x outputs x (columns + 1)` numbers of f32, the bias last, or their
/// interactions, `rows x outputs x (columns + 1) x (columns + 1)`. The rows are of type `from`. Launches take at most
/// `most_rows` rows, rounded down to a multiple of 128.
pub fn contributions(
    client: &Client,
    program: &ContributionProgram,
    rows: &Rows,
    from: RowType,
    most_rows: u32,
    out: &Buffer,
) {
    let bytes = most_bytes(client);
    let most = [
        most_sums(client) / u64::from(program.sums.max(1)) / program.launches(),
        most_interactions(client) * u64::from(PIECE) / program.width().max(1),
        bytes / 4 / u64::from(rows.row_stride.max(1)),
        match program.explained.background {
            true => MOST_WALKS / (u64::from(program.background_rows) * u64::from(program.passes)).max(1),
            false => u64::MAX,
        },
        u64::from(most_rows),
        1 << 24,
    ];
    let most = most.into_iter().min().unwrap_or(1) as u32 / PIECE * PIECE;
    for (rows, out) in pieces(from, rows, out, Number::F32, most.max(PIECE)) {
        ExplainedPiece { client, program, rows: &rows, from }.explain(&out);
    }
}

/// Rows whose partial sums fit a binding, those of one chunk for each launch.
struct ExplainedPiece<'a> {
    client: &'a Client,
    program: &'a ContributionProgram,
    rows: &'a Rows,
    from: RowType,
}

/// How the items of a launch are divided.
#[derive(Clone, Copy)]
struct Chunks {
    /// Number of items of a chunk.
    chunk: u32,
    /// Number of chunks.
    count: u32,
}

impl ExplainedPiece<'_> {
    /// Divides items among at most `room` chunks, so that a launch fills the device, and chunks have at most `most` items.
    fn chunks(&self, items: u32, most: u64, room: u64) -> Chunks {
        let full = UNITS.div_ceil(u64::from(self.rows.batch.max(1)));
        let wanted = full.max(u64::from(items).div_ceil(most)).min(room);
        let count = wanted.clamp(1, u64::from(items.max(1))) as u32;
        let chunk = items.div_ceil(count).max(1);
        Chunks { chunk, count: items.div_ceil(chunk) }
    }

    fn explain(&self, out: &Buffer) {
        let Self { client, program, rows, from } = *self;
        let (batch, sums) = (u64::from(rows.batch), u64::from(program.sums));
        let room = most_sums(client) / (batch * sums).max(1) / program.launches();
        let blocks = program.blocks();
        let most = if program.explained.background { ITEMS_A_SUM } else { u64::MAX };
        let items = program.passes * blocks;
        let of_passes = self.chunks(items, most, room);
        let of_subtrees = self.chunks(program.subtrees, u64::MAX, room);
        let chunks = of_passes.count + of_subtrees.count;
        let partial = Buffer::of_words(client, (u64::from(chunks) * sums * batch) as usize);
        let span = || RowSpanLaunch::new(rows.batch, rows.row_stride, rows.column_stride, rows.offset);
        let sections = || {
            let ContributionProgram { questions_at, ancestors_at, sides_at, subtrees_at, .. } = *program;
            let (rows, weight) = (program.background_rows, 1.0 / program.background_rows as f32);
            SectionsLaunch::new(
                questions_at,
                ancestors_at,
                sides_at,
                subtrees_at,
                program.sums,
                rows,
                blocks,
                weight,
            )
        };
        // SAFETY: each unit checks that its chunk exists. `partial` is made here with a number for each chunk, sum and
        // row. The encoder of the program upholds that its indices lie in it, that its columns are those of the rows,
        // that its sums are at most `sums`, and that stacks have no more levels than `deepest` says.
        unsafe {
            if of_passes.count > 0 {
                let (cubes, dim) = flat(client, of_passes.count * rows.batch);
                explain_rows::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    rows.words.arg(),
                    program.words.arg(),
                    partial.arg(),
                    span(),
                    ChunkSpanLaunch::new(items, of_passes.chunk, of_passes.count, 0),
                    sections(),
                    self.shape(),
                );
            }
            if of_subtrees.count > 0 {
                let (cubes, dim) = flat(client, of_subtrees.count * rows.batch);
                look_up_patterns::launch_unchecked(
                    client,
                    cubes,
                    dim,
                    rows.words.arg(),
                    program.words.arg(),
                    partial.arg(),
                    span(),
                    ChunkSpanLaunch::new(
                        program.subtrees,
                        of_subtrees.chunk,
                        of_subtrees.count,
                        of_passes.count,
                    ),
                    sections(),
                    from,
                );
            }
        }
        self.add_up(chunks, &partial, out);
    }

    fn shape(&self) -> Shape {
        let ContributionProgram { points, deepest, explained, .. } = *self.program;
        Shape { from: self.from, points, levels: levels(deepest as usize) as u32, explained }
    }

    /// Writes the results from the partial sums of all chunks.
    fn add_up(&self, chunks: u32, partial: &Buffer, out: &Buffer) {
        let Self { client, program, rows, .. } = *self;
        let (cubes, dim) = flat(client, program.width() as u32 * rows.batch);
        let (words, partial, out) = (&program.words, partial, out);
        // SAFETY: each unit checks that its result exists. `partial` has a number for each chunk, sum and row. The encoder
        // of the program upholds that matrices name sums of a row, and that there is a bias for each output. The caller
        // upholds that `out` has room for all results.
        unsafe {
            if program.explained.pairs {
                let span = MatrixSpanLaunch::new(
                    rows.batch,
                    chunks,
                    program.sums,
                    program.columns + 1,
                    program.outputs,
                    program.matrices_at,
                    program.biases_at,
                );
                let (partial, words, out) = (partial.arg(), words.arg(), out.arg());
                write_interactions::launch_unchecked(client, cubes, dim, partial, words, out, span);
            } else {
                let span = SumSpanLaunch::new(
                    rows.batch,
                    chunks,
                    program.columns,
                    program.outputs,
                    program.biases_at,
                );
                let (partial, words, out) = (partial.arg(), words.arg(), out.arg());
                add_chunks::launch_unchecked(client, cubes, dim, partial, words, out, span);
            }
        }
    }
}
