//! The kernels that execute instructions for rows, and that add up what chunks of trees give.

use cubecl::prelude::*;

use super::{
    encoding::*,
    interactions::{Ancestors, add_interactions},
    steps::{ChunkSpan, Sections, Shape, Stacks, begin, enter, execute, is_out_of_reach, load, push_nothing},
};
use crate::{keys::load_key, rank::RowSpan};

/// Computes `partial[chunk][sum][row]`, the sums of one row over one chunk of trees, in each unit.
#[cube(launch_unchecked)]
pub fn explain_rows(
    rows: &[u32],
    program: &[u32],
    partial: &mut [f32],
    span: &RowSpan,
    of: &ChunkSpan,
    sections: &Sections,
    #[comptime] shape: Shape,
) {
    let i = ABSOLUTE_POS as u32;
    let row = i % span.batch;
    let chunk = i / span.batch;
    if chunk < of.chunks {
        let out = clear_sums(partial, of.first + chunk, row, span.batch, sections.width);
        let mut stacks = Stacks {
            paths: Array::<f32>::new(comptime![(shape.levels * shape.points) as usize]),
            top: RuntimeCell::<u32>::new(0u32),
            belows: Array::<f32>::new(comptime![(shape.levels * shape.points) as usize]),
            count: RuntimeCell::<u32>::new(0u32),
            masks: Array::<u32>::new(comptime![shape.levels as usize]),
            terms: Array::<f32>::new(comptime![shape.explained.terms(shape.points) as usize]),
        };
        let first = chunk * of.chunk;
        let end = u32::min(first + of.chunk, of.items);
        let mut item = first;
        while item < end {
            let pass = item / sections.blocks;
            let instructions_at = program[(pass * PASS_WORDS) as usize];
            let instructions = program[(pass * PASS_WORDS + 1u32) as usize];
            let instructions_end =
                instructions_at + instructions * comptime![shape.explained.instruction_words()];
            let points_at = program[(pass * PASS_WORDS + 2u32) as usize];
            let mut other = (item % sections.blocks) * BLOCK_ROWS;
            let others_end = u32::min(other + BLOCK_ROWS, sections.background_rows);
            while other < others_end {
                begin(program, points_at, sections.weight, &mut stacks, comptime![shape.points]);
                let mut at = instructions_at;
                while at < instructions_end {
                    let instruction = load(program, at);
                    at += comptime![shape.explained.instruction_words()];
                    if instruction.opcode == BACK {
                        stacks.top.store(stacks.top.read() - 1u32);
                    } else {
                        if (instruction.flags & ENTERS) != 0u32 {
                            let value =
                                span.offset + row * span.row_stride + instruction.column * span.column_stride;
                            let key = load_key(rows, value, comptime![shape.from]);
                            enter(program, sections, &instruction, key, other, &mut stacks, shape);
                        }
                        let mut is_skipped = false.runtime();
                        if comptime![shape.explained.background] {
                            is_skipped = is_out_of_reach(&instruction, &stacks);
                        }
                        if is_skipped {
                            push_nothing(&mut stacks, comptime![shape.points]);
                            at = instructions_at + instruction.lists_or_after;
                        } else {
                            let added = execute(program, points_at, &instruction, &mut stacks, shape);
                            if instruction.opcode != LEFT && instruction.opcode != RIGHT {
                                partial[(out + instruction.feature * span.batch) as usize] += added;
                                if comptime![shape.explained.pairs] {
                                    let ancestors =
                                        Ancestors { at: at - 2u32, from: sections.ancestors_at, points_at };
                                    add_interactions(
                                        program, partial, out, span.batch, &ancestors, &stacks, shape,
                                    );
                                }
                            }
                        }
                    }
                }
                other += 1u32;
            }
            item += 1u32;
        }
    }
}

/// Clears the sums of a row in a chunk. Returns the index of the first one.
#[cube]
pub(super) fn clear_sums(partial: &mut [f32], chunk: u32, row: u32, batch: u32, width: u32) -> u32 {
    let out = chunk * width * batch + row;
    let mut sum = 0u32.runtime();
    while sum < width {
        partial[(out + sum * batch) as usize] = 0.0f32;
        sum += 1u32;
    }
    out
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
