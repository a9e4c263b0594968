//! Interactions: what a split adds to the pairs of its feature with the features above it, and the matrix of a row.
//!
//! The instructions and their ancestors are those of `fangorn::contributions`. The sums of a row are the contributions of
//! each output's features, and one sum for each pair of features that lie on one path.

use cubecl::prelude::*;

use super::{
    encoding::*,
    steps::{Shape, Stacks},
};

/// The ancestors of a split that has ended.
#[derive(CubeType)]
pub struct Ancestors {
    /// Index of the words that say where the ancestors begin, and how many there are.
    pub at: u32,
    /// Index of the first ancestor of all splits.
    pub from: u32,
    /// Index of the points of the pass.
    pub points_at: u32,
}

/// Adds to the interactions of the split that has just ended with the features above it. `out` is the index of the
/// first sum of the row, in a chunk of `batch` rows.
#[cube]
pub fn add_interactions(
    program: &[u32],
    partial: &mut [f32],
    out: u32,
    batch: u32,
    ancestors: &Ancestors,
    stacks: &Stacks,
    #[comptime] shape: Shape,
) {
    let mut at = ancestors.from + program[ancestors.at as usize];
    let end = at + program[(ancestors.at + 1u32) as usize] * ANCESTOR_WORDS;
    // What is added if the row left the path at some split on the other feature.
    let mut without = 0.0f32.runtime();
    // Against a background, what is added if only the row took the path's sides at all splits on the other feature.
    let mut alone = 0.0f32.runtime();
    #[unroll]
    for q in 0..shape.points {
        let t = f32::reinterpret(program[(ancestors.points_at + q) as usize]);
        without -= stacks.terms[q as usize] / (1.0f32 - t);
        if comptime![shape.explained.background] {
            alone += stacks.terms[q as usize] / t;
        }
    }
    while at < end {
        let level = program[at as usize];
        let mask = stacks.masks[(level & comptime![!PATH_LEFT]) as usize];
        let takes = (level >> 31u32) | 2u32;
        let takes_path = (mask & 3u32) == takes;
        let other_takes_path = ((mask >> 2u32) & 3u32) == takes;
        let against = select(other_takes_path, 0.0f32, alone);
        let with = term_with(program, ancestors.points_at, at, stacks, against, shape);
        let added = select(takes_path, with, without);
        let pair = program[(at + 2u32) as usize];
        partial[(out + pair * batch) as usize] += added;
        at += ANCESTOR_WORDS;
    }
}

/// Returns what a split adds to its interaction with a feature if the row took the path's sides at all splits on it. This
/// is `against` if there is a background, and otherwise a sum over the numbers that the ancestor at `at` names.
#[cube]
fn term_with(
    program: &[u32],
    points_at: u32,
    at: u32,
    stacks: &Stacks,
    against: f32,
    #[comptime] shape: Shape,
) -> f32 {
    if comptime![shape.explained.background] {
        against
    } else {
        let numbers = points_at + program[(at + 1u32) as usize];
        let mut with = 0.0f32.runtime();
        #[unroll]
        for q in 0..shape.points {
            with += stacks.terms[q as usize] * f32::reinterpret(program[(numbers + q) as usize]);
        }
        with
    }
}

/// The interactions of a launch that adds up chunks of trees.
#[derive(CubeType, CubeLaunch)]
pub struct MatrixSpan {
    /// Number of rows.
    pub batch: u32,
    /// Number of chunks of trees.
    pub chunks: u32,
    /// Number of sums of a row.
    pub width: u32,
    /// Number of rows of a matrix: the columns of a row, and the bias.
    pub side: u32,
    /// Number of margins of a row.
    pub outputs: u32,
    /// Index of the first element of the matrices of sums: for each element the index of its sum plus 1, or 0.
    pub matrices_at: u32,
    /// Index of the first bias.
    pub biases_at: u32,
}

/// Computes `out[row][output][a][b]`: half of the sum of a pair, and on the diagonal what is left of a feature's
/// contribution without the pairs' halves. The last element of an output is its bias.
#[cube(launch_unchecked)]
pub fn write_interactions(partial: &[f32], program: &[u32], out: &mut [f32], of: &MatrixSpan) {
    let elements = of.outputs * of.side * of.side;
    // Units that follow each other read partial sums that follow each other.
    let i = ABSOLUTE_POS as u32;
    let row = i % of.batch;
    let element = i / of.batch;
    if element < elements {
        let b = element % of.side;
        let a = (element / of.side) % of.side;
        let mut value = sum_of(partial, program[(of.matrices_at + element) as usize], row, of);
        if a != b {
            value *= 0.5f32;
        } else if a + 1u32 == of.side {
            let output = element / (of.side * of.side);
            value = f32::reinterpret(program[(of.biases_at + output) as usize]);
        } else {
            let first = of.matrices_at + element - b;
            let mut other = 0u32.runtime();
            while other < of.side {
                if other != a {
                    value -= 0.5f32 * sum_of(partial, program[(first + other) as usize], row, of);
                }
                other += 1u32;
            }
        }
        out[(row * elements + element) as usize] = value;
    }
}

/// Returns a sum of a row over all chunks, or 0 if `number` is 0. The first sum has number 1.
#[cube]
fn sum_of(partial: &[f32], number: u32, row: u32, of: &MatrixSpan) -> f32 {
    let mut sum = 0.0f32.runtime();
    if number != 0u32 {
        let mut chunk = 0u32.runtime();
        while chunk < of.chunks {
            sum += partial[((chunk * of.width + number - 1u32) * of.batch + row) as usize];
            chunk += 1u32;
        }
    }
    sum
}
