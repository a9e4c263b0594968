//! Sums in the order of the trees, from the slots that a plan's kernel has found.

// What a kernel works on is its arguments.
#![allow(clippy::too_many_arguments)]

use cubecl::prelude::*;

use super::double::{self, Pair};

/// How sums in the order of the trees are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Sums a row.
    pub outputs: u32,
    /// Whether a leaf holds a value for each output; otherwise each tree has one output.
    pub vector_leaves: bool,
    /// Whether each addition is rounded to `f32`; otherwise to a double, and the margin to `f32` once.
    pub single: bool,
}

/// One unit a sum: the base score, then a leaf of each tree. Leaves and base scores are doubles, the lower word first.
#[cube(launch_unchecked)]
pub fn add_in_order(
    slots: &[u32],
    leaves: &[u32],
    base: &[u32],
    targets: &[u32],
    margins: &mut [u32],
    rows: u32,
    trees: u32,
    #[comptime] order: Order,
) {
    let i = ABSOLUTE_POS as u32;
    let row = i / order.outputs;
    let output = i % order.outputs;
    if row < rows {
        let low = RuntimeCell::<u32>::new(base[(output * 2u32) as usize]);
        let high = RuntimeCell::<u32>::new(base[(output * 2u32 + 1u32) as usize]);
        for tree in 0..trees {
            let mine = if comptime![order.vector_leaves || order.outputs == 1] {
                true.runtime()
            } else {
                targets[tree as usize] == output
            };
            if mine {
                let slot = slots[(row * trees + tree) as usize];
                let at = if comptime![order.vector_leaves] { slot * order.outputs + output } else { slot };
                let leaf =
                    Pair { low: leaves[(at * 2u32) as usize], high: leaves[(at * 2u32 + 1u32) as usize] };
                let have = Pair { low: low.read(), high: high.read() };
                let sum = double::add(&have, &leaf);
                if comptime![order.single] {
                    let sum = double::of_single(double::to_single(&sum));
                    low.store(sum.low);
                    high.store(sum.high);
                } else {
                    low.store(sum.low);
                    high.store(sum.high);
                }
            }
        }
        margins[i as usize] = double::to_single(&Pair { low: low.read(), high: high.read() });
    }
}
