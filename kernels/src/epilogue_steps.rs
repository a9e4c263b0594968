//! What follows a forest element by element, where its sums are written.

// `#[cube]` unrolls index loops over comptime vectors, and takes neither slices nor iterators there.
#![allow(clippy::needless_range_loop, clippy::ptr_arg)]

use cubecl::{prelude::*, server::Handle};
use half::{bf16, f16};

use super::{recorded::RecordedOps, transform::apply};
use fangorn_ir::{EpilogueOp, EpiloguePlan, LEAST_STEP, Number, Transform};

/// What a tail reads and, where that is no f32, writes.
#[derive(CubeType, CubeLaunch)]
pub struct EpilogueOperands {
    /// Tensors of the result's shape, then scales and shifts by output.
    pub buffers: Sequence<Box<[f32]>>,
    /// Numbers of the steps.
    pub numbers: Sequence<f32>,
    /// The result as halves, where it is that: then a kernel's own result is not written, or holds f32 on the way.
    pub halves: Sequence<Box<[f16]>>,
    /// The result as bfloat16.
    pub brains: Sequence<Box<[bf16]>>,
    /// Operations that write it.
    pub recorded: Sequence<RecordedOps>,
}

/// What a call hands to a tail.
#[derive(Clone, Debug, Default)]
pub struct EpilogueInputs {
    /// Tensors of f32 of the result's shape, row by row without a gap.
    pub tensors: Vec<Handle>,
    /// Scales and then shifts by output, for each step that has such.
    pub each: Vec<Handle>,
    /// Numbers.
    pub numbers: Vec<f32>,
}

impl EpilogueInputs {
    /// What belongs to the rows from `first` on, of `width` values each. `first` is a multiple of a piece's rows.
    pub fn from(&self, first: u32, width: u32) -> Self {
        let skipped = u64::from(first) * u64::from(width) * 4;
        let tensors = self.tensors.iter().map(|t| t.clone().offset_start(skipped)).collect();
        Self { tensors, ..self.clone() }
    }
}

/// A row's value after these steps, of which none is of the whole row.
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

/// Writes a value as the result's type.
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

/// The tail of a row whose margins, or values before what is made of a whole row, lie in the result.
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

/// The first value as it is, and to each further one the value before it and the least step, in place.
#[cube]
fn cumulate(out: &mut [u32], at: u32, #[comptime] width: u32) {
    let mut value = f32::reinterpret(out[at as usize]);
    for output in 1..width {
        let m = f32::reinterpret(out[(at + output) as usize]);
        value += apply(m, Transform::Softplus) + comptime![LEAST_STEP];
        out[(at + output) as usize] = u32::reinterpret(value);
    }
}

/// Where the steps between softmaxes end.
fn softmaxes(epilogue: &EpiloguePlan) -> Vec<usize> {
    let softmax = epilogue.steps.iter().enumerate().filter(|(_, s)| **s == EpilogueOp::Softmax);
    softmax.map(|(i, _)| i).chain([epilogue.steps.len()]).collect()
}

/// `e^(v - max v) / Σ e^(v - max v)` in place; `zero` leaves out what is zero.
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
    sum = select(sum > 0.0f32, sum, 1.0f32);
    for output in 0..width {
        let share = f32::reinterpret(out[(at + output) as usize]) / sum;
        out[(at + output) as usize] = u32::reinterpret(share);
    }
}
