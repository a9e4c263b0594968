//! The epilogue of a plan: steps on a forest's margins or values, taken while its sums are written.

use std::fmt;

use crate::Transform;

/// A step of an epilogue on one row's values. The call supplies the numbers and tensors, so that one kernel
/// serves any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EpilogueOp {
    /// `v * scale + shift`. The scale is the call's number `at`, the shift is the one after it.
    Affine {
        /// Index of the scale among the call's numbers.
        at: u32,
    },
    /// `v * scale[output] + shift[output]`. The buffer holds the scales of all outputs, then the shifts of
    /// all outputs.
    AffineEach {
        /// Index of the buffer among the call's buffers.
        buffer: u32,
    },
    /// `1 / (1 + e^-v)`.
    Sigmoid,
    /// `e^(v - max v) / Σ e^(v - max v)` over the row's outputs.
    Softmax,
    /// `v + tensor[row, output]`, with a tensor of the result's shape.
    Add {
        /// Index of the tensor among the call's buffers.
        buffer: u32,
    },
    /// `v * tensor[row, output]`, with a tensor of the result's shape.
    Multiply {
        /// Index of the tensor among the call's buffers.
        buffer: u32,
    },
}

/// The type of the numbers of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Number {
    /// IEEE single, 32 bits.
    #[default]
    F32,
    /// IEEE half, 16 bits.
    F16,
    /// bfloat16, 16 bits.
    BF16,
}

impl Number {
    /// Returns the size of one number in bytes.
    pub fn bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }
}

/// The steps after the margins or values that a plan computes, and the type of the result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EpiloguePlan {
    /// The steps, in the order in which they are taken.
    pub steps: Vec<EpilogueOp>,
    /// The type of the result.
    pub number: Number,
    /// Whether operations that burn's fusion recorded run after the steps. They then write the result, where
    /// each sum would be written.
    pub recorded: bool,
}

impl fmt::Display for EpiloguePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                EpilogueOp::Affine { at } => write!(f, "v * n{at} + n{} -> ", at + 1)?,
                EpilogueOp::AffineEach { buffer } => {
                    write!(f, "v * b{buffer}[0, output] + b{buffer}[1, output] -> ")?
                }
                EpilogueOp::Sigmoid => f.write_str("sigmoid -> ")?,
                EpilogueOp::Softmax => f.write_str("softmax -> ")?,
                EpilogueOp::Add { buffer } => write!(f, "v + b{buffer}[row, output] -> ")?,
                EpilogueOp::Multiply { buffer } => write!(f, "v * b{buffer}[row, output] -> ")?,
            }
        }
        f.write_str(match self.number {
            _ if self.recorded => "recorded operations",
            Number::F32 => "f32",
            Number::F16 => "f16",
            Number::BF16 => "bf16",
        })
    }
}

impl EpiloguePlan {
    /// Whether the epilogue has no steps, no recorded operations and an f32 result.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.number == Number::F32 && !self.recorded
    }

    /// Returns how many buffers a call supplies for the steps.
    pub fn buffers(&self) -> u32 {
        let buffer = |step: &EpilogueOp| match step {
            EpilogueOp::AffineEach { buffer }
            | EpilogueOp::Add { buffer }
            | EpilogueOp::Multiply { buffer } => buffer + 1,
            EpilogueOp::Affine { .. } | EpilogueOp::Sigmoid | EpilogueOp::Softmax => 0,
        };
        self.steps.iter().map(buffer).max().unwrap_or(0)
    }

    /// Returns how many numbers a call supplies for the steps.
    pub fn numbers(&self) -> u32 {
        let number = |step: &EpilogueOp| if let EpilogueOp::Affine { at } = step { at + 2 } else { 0 };
        self.steps.iter().map(number).max().unwrap_or(0)
    }

    /// Whether each value depends on no other value of its row.
    pub fn is_elementwise(&self) -> bool {
        !self.steps.contains(&EpilogueOp::Softmax)
    }

    /// Applies the steps in place to rows of `width` values in the CPU's memory. `first` is the index of the
    /// first of these rows in the call: tensors of the result's shape are read from this row on. Buffers have
    /// the same contents as on a device.
    pub fn apply(&self, width: usize, first: usize, values: &mut [f32], numbers: &[f32], buffers: &[&[f32]]) {
        let range = first * width..first * width + values.len();
        for step in &self.steps {
            match *step {
                EpilogueOp::Affine { at } => {
                    let (scale, shift) = (numbers[at as usize], numbers[at as usize + 1]);
                    values.iter_mut().for_each(|v| *v = *v * scale + shift);
                }
                EpilogueOp::AffineEach { buffer } => {
                    let (scales, shifts) = buffers[buffer as usize].split_at(width);
                    for row in values.chunks_exact_mut(width.max(1)) {
                        let each = row.iter_mut().zip(scales).zip(shifts);
                        each.for_each(|((v, scale), shift)| *v = *v * scale + shift);
                    }
                }
                EpilogueOp::Sigmoid => Transform::Sigmoid.apply_in_place(values),
                EpilogueOp::Softmax => {
                    let rows = values.chunks_exact_mut(width.max(1));
                    rows.for_each(|row| Transform::Softmax.apply_in_place(row));
                }
                EpilogueOp::Add { buffer } => {
                    let other = &buffers[buffer as usize][range.clone()];
                    values.iter_mut().zip(other).for_each(|(v, o)| *v += o);
                }
                EpilogueOp::Multiply { buffer } => {
                    let other = &buffers[buffer as usize][range.clone()];
                    values.iter_mut().zip(other).for_each(|(v, o)| *v *= o);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{EpilogueOp, EpiloguePlan, Number};

    #[test]
    fn steps_are_taken_in_order_and_rows_have_their_own_neighbours() {
        let steps = vec![
            EpilogueOp::Affine { at: 0 },
            EpilogueOp::Add { buffer: 0 },
            EpilogueOp::AffineEach { buffer: 2 },
            EpilogueOp::Multiply { buffer: 1 },
        ];
        let epilogue = EpiloguePlan { steps, number: Number::F32, recorded: false };
        assert_eq!((epilogue.numbers(), epilogue.buffers(), epilogue.is_elementwise()), (2, 3, true));
        let added: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let times: Vec<f32> = (0..6).map(|i| i as f32 * 0.5).collect();
        let buffers: [&[f32]; 3] = [&added, &times, &[2.0, 4.0, 0.25, -1.0]];
        let mut all = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        epilogue.apply(2, 0, &mut all, &[3.0, 1.0], &buffers);
        let by_hand = |i: usize| {
            let v = (i as f32 + 1.0) * 3.0 + 1.0 + i as f32;
            let v = if i.is_multiple_of(2) { v * 2.0 + 0.25 } else { v * 4.0 - 1.0 };
            v * i as f32 * 0.5
        };
        assert_eq!(all, (0..6).map(by_hand).collect::<Vec<_>>());
        // The last row alone.
        let mut last = vec![5.0, 6.0];
        epilogue.apply(2, 2, &mut last, &[3.0, 1.0], &buffers);
        assert_eq!(last, all[4..]);
    }

    #[test]
    fn a_softmax_is_of_its_row() {
        let epilogue =
            EpiloguePlan { steps: vec![EpilogueOp::Softmax], number: Number::F16, recorded: false };
        let mut values = vec![0.0, 0.0, 1000.0, 0.0];
        epilogue.apply(2, 0, &mut values, &[], &[]);
        assert_eq!(values, [0.5, 0.5, 1.0, 0.0]);
        assert!(!epilogue.is_elementwise() && !epilogue.is_empty() && EpiloguePlan::default().is_empty());
    }
}
