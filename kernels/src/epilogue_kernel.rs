//! The last stage: what leaves came to as margins, and margins as values.

// A comptime condition is not joined to one of the kernel.
#![allow(clippy::collapsible_if)]

use cubecl::prelude::*;

use super::{
    epilogue_steps::{self, EpilogueOperands},
    fixed,
    memory::{combine, margin},
    transform::{apply, first_of_pair, second_of_pair},
};
use fangorn_ir::{Combine, EpiloguePlan, Transform};

/// What a [`epilogue`] does, besides what only the call knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EpilogueStage {
    /// How leaves become margins.
    pub combine: Combine,
    /// Whether sums began as those of no leaves, so that the base score is still to be added.
    pub add_base: bool,
    /// Margins a row.
    pub outputs: u32,
    /// What becomes of them.
    pub transform: Transform,
    /// And of the values.
    pub epilogue: EpiloguePlan,
}

/// What the last launch reads and writes.
#[derive(CubeType, CubeLaunch)]
pub struct EpilogueBuffers {
    /// Where the base scores are.
    pub model: Box<[u32]>,
    /// What the kernel has written.
    pub sums: Box<[u32]>,
    /// Copies of sums that are left.
    pub partial: Box<[u32]>,
    /// The result.
    pub values: Box<[u32]>,
    /// What follows.
    pub beside: EpilogueOperands,
}

/// What only the call knows of it.
#[derive(CubeType, CubeLaunch)]
pub struct EpilogueCall {
    /// Where the base scores begin.
    pub base_at: u32,
    /// Where the copies begin.
    pub partial_at: u32,
    /// How many are left.
    pub copies: u32,
    /// Rows.
    pub rows: u32,
    /// What margins are multiplied with.
    pub scale: f32,
}

/// One unit a row: adds up the copies of its sums that `partial` still has, and writes its values. Where the result is of
/// another type than f32, `values` has room for f32 all the same.
#[cube(launch_unchecked)]
pub fn epilogue(buffers: EpilogueBuffers, call: EpilogueCall, #[comptime] what: EpilogueStage) {
    // Bound to a name that is `mut`, each number of the tail would become a variable of the kernel.
    finish_row(&mut EpilogueContext { buffers, call }, &what);
}

/// What the last stage works on.
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

/// A row's margin: what the kernel has written, the copies that are left, and perhaps the base score.
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
        // After the base scores and the sum of no leaves stand the bits of a low word, and each output's exponent.
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
