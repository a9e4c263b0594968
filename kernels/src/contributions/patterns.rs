//! Looks up what a tree adds to contributions in pattern tables.
//!
//! A unit finds the answers of its row to the tests of a subtree, at most eight, and reads one number for each feature
//! of the tests. The tables are those of `fangorn::contributions`.

use cubecl::prelude::*;
use fangorn_ir::RowType;

use super::{
    encoding::{SUBTREE_WORDS, TEST_WORDS},
    rows::clear_sums,
    steps::{ChunkSpan, Sections, goes_left},
};
use crate::{keys::load_key, rank::RowSpan};

/// Computes `partial[chunk][sum][row]`, the sums of one row over one chunk of subtrees, in each unit. Subtrees
/// name tests, features and tables by indices from their own first word on.
#[cube(launch_unchecked)]
pub fn look_up_patterns(
    rows: &[u32],
    program: &[u32],
    partial: &mut [f32],
    span: &RowSpan,
    of: &ChunkSpan,
    sections: &Sections,
    #[comptime] from: RowType,
) {
    let i = ABSOLUTE_POS as u32;
    let row = i % span.batch;
    let chunk = i / span.batch;
    if chunk < of.chunks {
        let out = clear_sums(partial, of.first + chunk, row, span.batch, sections.width);
        let first = chunk * of.chunk;
        let end = u32::min(first + of.chunk, of.items);
        let begin = sections.subtrees_at;
        let mut subtree = first;
        while subtree < end {
            let record = begin + subtree * SUBTREE_WORDS;
            let tests_at = begin + program[record as usize];
            let tests = program[(record + 1u32) as usize];
            let mut pattern = 0u32.runtime();
            let mut test = 0u32.runtime();
            while test < tests {
                let at = (tests_at + test * TEST_WORDS) as usize;
                let value = span.offset + row * span.row_stride + program[at] * span.column_stride;
                let key = load_key(rows, value, from);
                let left = goes_left(program, sections.questions_at, program[at + 1], program[at + 2], key);
                pattern |= left << test;
                test += 1u32;
            }
            let features_at = begin + program[(record + 2u32) as usize];
            let features = program[(record + 3u32) as usize];
            let mut table = begin + program[(record + 4u32) as usize] + pattern;
            let mut feature = 0u32.runtime();
            while feature < features {
                let sum = program[(features_at + feature) as usize];
                partial[(out + sum * span.batch) as usize] += f32::reinterpret(program[table as usize]);
                table += 1u32 << tests;
                feature += 1u32;
            }
            subtree += 1u32;
        }
    }
}
