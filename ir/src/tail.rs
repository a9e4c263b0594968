//! What follows a forest element by element, computed where its sums are written.

use std::fmt;

use crate::Transform;

/// A step on a row's values, one output after the other. Numbers and tensors are the call's: a kernel serves any of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TailStep {
    /// `v * scale + shift` with the numbers at this place of the call's and the one after it.
    Affine {
        /// The scale's place.
        at: u32,
    },
    /// The same with two numbers an output: a buffer of all scales and then all shifts.
    AffineEach {
        /// Number of the buffer.
        buffer: u32,
    },
    /// `1 / (1 + e^-v)`.
    Sigmoid,
    /// `e^(v - max v) / Σ e^(v - max v)` over the row.
    Softmax,
    /// Plus an element of a tensor of the result's shape.
    Add {
        /// Number of the buffer.
        buffer: u32,
    },
    /// Times an element of such a tensor.
    Multiply {
        /// Number of the buffer.
        buffer: u32,
    },
}

/// The type of what is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Number {
    /// 32-bit.
    #[default]
    F32,
    /// IEEE half.
    F16,
    /// bfloat16.
    BF16,
}

impl Number {
    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        if self == Self::F32 { 4 } else { 2 }
    }
}

/// The steps behind the margins or values that a plan writes, and the type of the result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tail {
    /// In order.
    pub steps: Vec<TailStep>,
    /// What comes out.
    pub number: Number,
    /// Whether operations that burn's fusion recorded follow: they write the result, where each sum is written.
    pub fused: bool,
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            match step {
                TailStep::Affine { at } => write!(f, "v * n{at} + n{} -> ", at + 1)?,
                TailStep::AffineEach { buffer } => {
                    write!(f, "v * b{buffer}[0, output] + b{buffer}[1, output] -> ")?
                }
                TailStep::Sigmoid => f.write_str("sigmoid -> ")?,
                TailStep::Softmax => f.write_str("softmax -> ")?,
                TailStep::Add { buffer } => write!(f, "v + b{buffer}[row, output] -> ")?,
                TailStep::Multiply { buffer } => write!(f, "v * b{buffer}[row, output] -> ")?,
            }
        }
        f.write_str(match self.number {
            _ if self.fused => "fused operations",
            Number::F32 => "f32",
            Number::F16 => "f16",
            Number::BF16 => "bf16",
        })
    }
}

impl Tail {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.number == Number::F32 && !self.fused
    }

    /// Buffers that its steps read.
    pub fn buffers(&self) -> u32 {
        let buffer = |step: &TailStep| match step {
            TailStep::AffineEach { buffer } | TailStep::Add { buffer } | TailStep::Multiply { buffer } => {
                buffer + 1
            }
            TailStep::Affine { .. } | TailStep::Sigmoid | TailStep::Softmax => 0,
        };
        self.steps.iter().map(buffer).max().unwrap_or(0)
    }

    /// Numbers that its steps read.
    pub fn numbers(&self) -> u32 {
        let number = |step: &TailStep| if let TailStep::Affine { at } = step { at + 2 } else { 0 };
        self.steps.iter().map(number).max().unwrap_or(0)
    }

    /// Whether each value is of its own value before alone.
    pub fn is_each(&self) -> bool {
        !self.steps.contains(&TailStep::Softmax)
    }

    /// The steps on rows of `width` values in the CPU's memory, of which `first` is the number of the first one. Each buffer
    /// is read as on a device.
    pub fn apply(&self, width: usize, first: usize, values: &mut [f32], numbers: &[f32], buffers: &[&[f32]]) {
        let beside = first * width..first * width + values.len();
        for step in &self.steps {
            match *step {
                TailStep::Affine { at } => {
                    let (scale, shift) = (numbers[at as usize], numbers[at as usize + 1]);
                    values.iter_mut().for_each(|v| *v = *v * scale + shift);
                }
                TailStep::AffineEach { buffer } => {
                    let (scales, shifts) = buffers[buffer as usize].split_at(width);
                    for row in values.chunks_exact_mut(width.max(1)) {
                        let each = row.iter_mut().zip(scales).zip(shifts);
                        each.for_each(|((v, scale), shift)| *v = *v * scale + shift);
                    }
                }
                TailStep::Sigmoid => Transform::Sigmoid.apply_in_place(values),
                TailStep::Softmax => {
                    let rows = values.chunks_exact_mut(width.max(1));
                    rows.for_each(|row| Transform::Softmax.apply_in_place(row));
                }
                TailStep::Add { buffer } => {
                    let other = &buffers[buffer as usize][beside.clone()];
                    values.iter_mut().zip(other).for_each(|(v, o)| *v += o);
                }
                TailStep::Multiply { buffer } => {
                    let other = &buffers[buffer as usize][beside.clone()];
                    values.iter_mut().zip(other).for_each(|(v, o)| *v *= o);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Number, Tail, TailStep};

    #[test]
    fn steps_are_taken_in_order_and_rows_have_their_own_neighbours() {
        let steps = vec![
            TailStep::Affine { at: 0 },
            TailStep::Add { buffer: 0 },
            TailStep::AffineEach { buffer: 2 },
            TailStep::Multiply { buffer: 1 },
        ];
        let tail = Tail { steps, number: Number::F32, fused: false };
        assert_eq!((tail.numbers(), tail.buffers(), tail.is_each()), (2, 3, true));
        let added: Vec<f32> = (0..6).map(|i| i as f32).collect();
        let times: Vec<f32> = (0..6).map(|i| i as f32 * 0.5).collect();
        let buffers: [&[f32]; 3] = [&added, &times, &[2.0, 4.0, 0.25, -1.0]];
        let mut all = vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        tail.apply(2, 0, &mut all, &[3.0, 1.0], &buffers);
        let by_hand = |i: usize| {
            let v = (i as f32 + 1.0) * 3.0 + 1.0 + i as f32;
            let v = if i.is_multiple_of(2) { v * 2.0 + 0.25 } else { v * 4.0 - 1.0 };
            v * i as f32 * 0.5
        };
        assert_eq!(all, (0..6).map(by_hand).collect::<Vec<_>>());
        // The last row alone.
        let mut last = vec![5.0, 6.0];
        tail.apply(2, 2, &mut last, &[3.0, 1.0], &buffers);
        assert_eq!(last, all[4..]);
    }

    #[test]
    fn a_softmax_is_of_its_row() {
        let tail = Tail { steps: vec![TailStep::Softmax], number: Number::F16, fused: false };
        let mut values = vec![0.0, 0.0, 1000.0, 0.0];
        tail.apply(2, 0, &mut values, &[], &[]);
        assert_eq!(values, [0.5, 0.5, 1.0, 0.0]);
        assert!(!tail.is_each() && !tail.is_empty() && Tail::default().is_empty());
    }
}
