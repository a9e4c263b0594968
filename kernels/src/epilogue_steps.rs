//! The steps of an epilogue, computed in a kernel.

// `#[cube]` unrolls only loops over an index of comptime vectors, and takes neither slices nor iterators
// there.
#![allow(clippy::needless_range_loop, clippy::ptr_arg)]

use cubecl::{prelude::*, server::Handle};
use half::{bf16, f16};

use super::{recorded::RecordedOps, transform::apply};
use fangorn_ir::{EpilogueOp, EpiloguePlan, LEAST_INCREMENT, Number, Transform};

/// The operands of an epilogue: what its steps read, and the result if it is not f32.
#[derive(CubeType, CubeLaunch)]
pub struct EpilogueOperands {
    /// Tensors of the result's shape, then buffers of scales and shifts by output.
    pub buffers: Sequence<Box<[f32]>>,
    /// The numbers of the steps.
    pub numbers: Sequence<f32>,
    /// The result, if it is f16. The kernel's own f32 result is then not written, or holds values before the
    /// cast.
    pub halves: Sequence<Box<[f16]>>,
    /// The result, if it is bfloat16.
    pub brains: Sequence<Box<[bf16]>>,
    /// The operations that burn's fusion recorded, if they write the result.
    #[cfg_attr(not(feature = "recorded"), allow(dead_code))]
    pub recorded: Sequence<RecordedOps>,
}

/// The inputs of an epilogue that a call supplies.
#[derive(Clone, Debug, Default)]
pub struct EpilogueInputs {
    /// Tensors of f32 of the result's shape, row by row without gaps.
    pub tensors: Vec<Handle>,
    /// For each step [`EpilogueOp::AffineEach`], a buffer with the scales of all outputs and then the shifts
    /// of all outputs.
    pub each: Vec<Handle>,
    /// The numbers of the steps.
    pub numbers: Vec<f32>,
}

impl EpilogueInputs {
    /// Returns the inputs for the rows from `first` on, of `width` values each. `first` is a multiple of a
    /// piece's rows, so that tensors begin where a binding may begin.
    pub fn from(&self, first: u32, width: u32) -> Self {
        let skipped = u64::from(first) * u64::from(width) * 4;
        let tensors = self.tensors.iter().map(|t| t.clone().offset_start(skipped)).collect();
        Self { tensors, ..self.clone() }
    }
}

/// Returns the value of one output of a row after `steps`, which have no softmax among them.
#[cube]
pub fn steps(
    beside: &EpilogueOperands,
    value: f32,
    row: u32,
    output: u32,
    #[comptime] width: u32,
    #[comptime] steps: &Vec<EpilogueOp>,
) -> f32 {
    let mut v = value;
    #[unroll]
    for i in 0..steps.len() {
        let step = comptime![steps[i]];
        v = match step {
            EpilogueOp::Affine { at } => {
                let scale = *beside.numbers.index(at as usize);
                v * scale + *beside.numbers.index(comptime![at as usize + 1])
            }
            EpilogueOp::AffineEach { buffer } => {
                let numbers = beside.buffers.index(buffer as usize);
                v * numbers[output as usize] + numbers[(width + output) as usize]
            }
            EpilogueOp::Sigmoid => apply(v, Transform::Sigmoid),
            EpilogueOp::Add { buffer } => {
                v + beside.buffers.index(buffer as usize)[(row * width + output) as usize]
            }
            EpilogueOp::Multiply { buffer } => {
                v * beside.buffers.index(buffer as usize)[(row * width + output) as usize]
            }
            EpilogueOp::Softmax => v,
        };
    }
    v
}

/// Writes a value at index `at` of the result, in the result's type.
#[cube]
pub fn write(
    out: &mut [u32],
    beside: &mut EpilogueOperands,
    at: u32,
    value: f32,
    #[comptime] number: Number,
) {
    match number {
        Number::F32 => out[at as usize] = u32::reinterpret(value),
        Number::F16 => beside.halves.index_mut(0)[at as usize] = f16::cast_from(value),
        Number::BF16 => beside.brains.index_mut(0)[at as usize] = bf16::cast_from(value),
    }
}

/// Computes the epilogue of a row in place. On entry `out` holds the row's margins if the transform is a
/// softmax or a cumulative softplus, otherwise the row's values.
#[cube]
pub fn row(
    out: &mut [u32],
    beside: &mut EpilogueOperands,
    row: u32,
    #[comptime] width: u32,
    #[comptime] transform: Transform,
    #[comptime] epilogue: &EpiloguePlan,
) {
    let at = row * width;
    if comptime![matches!(transform, Transform::Softmax | Transform::SoftmaxZero)] {
        softmax(out, at, width, comptime![transform == Transform::SoftmaxZero]);
    }
    if comptime![transform == Transform::CumulativeSoftplus] {
        cumulate(out, at, width);
    }
    let ends = comptime![softmaxes(epilogue)];
    #[unroll]
    for s in 0..ends.len() {
        let (from, to) = comptime![(if s == 0 { 0 } else { ends[s - 1] + 1 }, ends[s])];
        let last = comptime![s + 1 == ends.len()];
        if comptime![from < to || (last && epilogue.number != Number::F32)] {
            let between = comptime![epilogue.steps[from..to].to_vec()];
            for output in 0..width {
                let value = f32::reinterpret(out[(at + output) as usize]);
                let value = steps(&*beside, value, row, output, width, &between);
                let number = comptime![if last { epilogue.number } else { Number::F32 }];
                write(out, beside, at + output, value, number);
            }
        }
        if comptime![!last] {
            softmax(out, at, width, false);
        }
    }
}

/// Computes [`Transform::CumulativeSoftplus`] of a row in place.
#[cube]
fn cumulate(out: &mut [u32], at: u32, #[comptime] width: u32) {
    let mut value = f32::reinterpret(out[at as usize]);
    for output in 1..width {
        let m = f32::reinterpret(out[(at + output) as usize]);
        value += apply(m, Transform::Softplus) + comptime![LEAST_INCREMENT];
        out[(at + output) as usize] = u32::reinterpret(value);
    }
}

/// Returns the index of each softmax step, then the number of steps: where runs of elementwise steps end.
fn softmaxes(epilogue: &EpiloguePlan) -> Vec<usize> {
    let softmax = epilogue.steps.iter().enumerate().filter(|(_, s)| **s == EpilogueOp::Softmax);
    softmax.map(|(i, _)| i).chain([epilogue.steps.len()]).collect()
}

/// Computes `e^(v - max v) / Σ e^(v - max v)` in place. With `zero`, values of at most 1e-7 in magnitude
/// become 0 and add nothing to the sum.
#[cube]
fn softmax(out: &mut [u32], at: u32, #[comptime] width: u32, #[comptime] zero: bool) {
    let mut top = f32::reinterpret(out[at as usize]);
    for output in 1..width {
        let v = f32::reinterpret(out[(at + output) as usize]);
        top = select(v > top, v, top);
    }
    let mut sum = 0.0f32;
    for output in 0..width {
        let v = f32::reinterpret(out[(at + output) as usize]);
        let mut power = (v - top).exp();
        if zero {
            power = select(v.abs() > 1e-7f32, power, 0.0f32);
        }
        out[(at + output) as usize] = u32::reinterpret(power);
        sum += power;
    }
    sum = select(sum == 0.0f32, 1.0f32, sum);
    for output in 0..width {
        let share = f32::reinterpret(out[(at + output) as usize]) / sum;
        out[(at + output) as usize] = u32::reinterpret(share);
    }
}
