//! The kernel of an epilogue that runs in a launch of its own: from sums to margins, from margins to values.

// An `if` on a comptime condition and an `if` of the kernel can't be merged.
#![allow(clippy::collapsible_if)]

use cubecl::prelude::*;

use super::{
    epilogue_steps::{self, EpilogueOperands},
    fixed,
    memory::{combine, margin},
    transform::{apply, first_of_pair, second_of_pair},
};
use fangorn_ir::{Combine, EpiloguePlan, Transform};

/// The comptime values of the [`epilogue`] kernel. The rest comes with the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpilogueStage {
    /// How leaf values become margins.
    pub combine: Combine,
    /// Whether sums began at the sum of no leaves (for example at infinity for a minimum), so that the kernel
    /// has to add the base score.
    pub add_base: bool,
    /// Number of margins of a row.
    pub outputs: u32,
    /// The transform from margins to values.
    pub transform: Transform,
    /// The steps on values, and the type of the result.
    pub epilogue: EpiloguePlan,
}

/// The buffers that the epilogue kernel reads and writes.
#[derive(CubeType, CubeLaunch)]
pub struct EpilogueBuffers {
    /// The model's words, with the base scores.
    pub model: Box<[u32]>,
    /// The sums that the plan's kernel has written.
    pub sums: Box<[u32]>,
    /// The copies of sums that are not added up yet.
    pub partial: Box<[u32]>,
    /// The bits of the result's f32 values.
    pub values: Box<[u32]>,
    /// What the steps read, and the result if it is f16 or bf16.
    pub beside: EpilogueOperands,
}

/// The run-time values of the [`epilogue`] kernel.
#[derive(CubeType, CubeLaunch)]
pub struct EpilogueCall {
    /// Index of the first base score in the model's words.
    pub base_at: u32,
    /// Index of the first copy's first word.
    pub partial_at: u32,
    /// Number of copies that are not added up yet.
    pub copies: u32,
    /// Number of rows.
    pub rows: u32,
    /// Factor of margins before the transform.
    pub scale: f32,
}

/// Adds the copies that are left in `partial` to a row's sums, and writes the row's values. One unit computes
/// one row. `values` has room for f32 even if the result has another type.
#[cube(launch_unchecked)]
pub fn epilogue(buffers: EpilogueBuffers, call: EpilogueCall, #[comptime] what: EpilogueStage) {
    // Do not bind the context to a `mut` name: each number of the epilogue would then become a variable of the
    // kernel.
    finish_row(&mut EpilogueContext { buffers, call }, &what);
}

/// The buffers and the call of the epilogue kernel.
#[derive(CubeType)]
struct EpilogueContext {
    buffers: EpilogueBuffers,
    call: EpilogueCall,
}

#[cube]
fn finish_row(cx: &mut EpilogueContext, #[comptime] what: &EpilogueStage) {
    let row = ABSOLUTE_POS as u32;
    if row < cx.call.rows {
        let outputs = comptime![what.outputs];
        let width = comptime![what.transform.width(what.outputs)];
        let at = row * width;
        let transform = comptime![what.transform];
        let mut best = 0u32;
        let mut top = 0.0f32;
        for o in 0..outputs {
            let m = cx.call.scale * total(&*cx, row, o, what);
            if comptime![transform == Transform::Argmax] {
                if o == 0u32 || m > top {
                    top = m;
                    best = o;
                }
            } else if comptime![transform.is_pair()] {
                cx.buffers.values[(at + 2u32 * o) as usize] = u32::reinterpret(first_of_pair(m, transform));
                cx.buffers.values[(at + 2u32 * o + 1u32) as usize] =
                    u32::reinterpret(second_of_pair(m, transform));
            } else if comptime![transform == Transform::MeanAndVariance] {
                let deviation = m.exp();
                cx.buffers.values[(at + o) as usize] =
                    u32::reinterpret(select(o == 0u32, m, deviation * deviation));
            } else {
                cx.buffers.values[(at + o) as usize] = u32::reinterpret(apply(m, transform));
            }
        }
        if comptime![transform == Transform::Argmax] {
            cx.buffers.values[at as usize] = u32::reinterpret(f32::cast_from(best));
        }
        epilogue_steps::row(
            &mut cx.buffers.values,
            &mut cx.buffers.beside,
            row,
            width,
            transform,
            comptime![&what.epilogue],
        );
    }
}

/// Returns a margin of a row: the sum that the plan's kernel has written, the copies that are not added up
/// yet and, if the sums began without it, the base score.
#[cube]
fn total(cx: &EpilogueContext, row: u32, output: u32, #[comptime] what: &EpilogueStage) -> f32 {
    let fixed = comptime![what.combine == Combine::Fixed];
    let words = comptime![what.outputs * what.combine.words()];
    let first = row * words + output * comptime![what.combine.words()];
    let mut low = cx.buffers.sums[first as usize];
    let mut high = if fixed { cx.buffers.sums[(first + 1u32) as usize] } else { 0u32.runtime() };
    let mut copy = 0u32.runtime();
    while copy < cx.call.copies {
        let at = cx.call.partial_at + copy * cx.call.rows * words + first;
        low = combine(low, cx.buffers.partial[at as usize], what.combine);
        if fixed {
            high += cx.buffers.partial[(at + 1u32) as usize];
        }
        copy += 1u32;
    }
    if comptime![what.add_base] {
        let base = cx.buffers.model[(cx.call.base_at + output) as usize];
        low = margin(base, low, cx.buffers.model[(cx.call.base_at + words) as usize], what.combine);
    }
    if fixed {
        // After the base scores the model has the sum of no leaves, the number of bits of a low word, and
        // each output's exponent.
        let low_bits = cx.buffers.model[(cx.call.base_at + words + 1u32) as usize];
        fixed::round(
            low,
            high,
            low_bits,
            cx.buffers.model[(cx.call.base_at + words + 2u32 + output) as usize],
        )
    } else {
        f32::reinterpret(low)
    }
}
