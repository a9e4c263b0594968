//! The gradient of leaf values: for each, the gradients of the rows that reached its leaf, added up.
//!
//! A unit adds up one leaf value's rows of one block, a second launch the blocks: no atomics, no shared memory, and one order
//! of additions on every device.

// What a kernel works on is its arguments.
#![allow(clippy::too_many_arguments)]

use cubecl::prelude::*;

/// Rows that a unit adds up.
pub const BLOCK: u32 = 256;

/// Words of a leaf value's place: its slot, its tree, and the output it is added to.
pub const PLACE_WORDS: u32 = 3;

/// `partial[block][value] = Σ over the block's rows that reached the value's leaf of grad[row][output]`.
#[cube(launch_unchecked)]
pub fn add_rows(
    slots: &[u32],
    grad: &[f32],
    places: &[u32],
    partial: &mut [f32],
    values: u32,
    first_row: u32,
    rows: u32,
    blocks: u32,
    trees: u32,
    outputs: u32,
) {
    let i = ABSOLUTE_POS as u32;
    let block = i / values;
    if block < blocks {
        let place = (i % values) * PLACE_WORDS;
        let slot = places[place as usize];
        let tree = places[(place + 1u32) as usize];
        let output = places[(place + 2u32) as usize];
        let mut row = first_row + block * BLOCK;
        let left = rows - row;
        let end = row + select(left < BLOCK, left, BLOCK.runtime());
        let mut sum = 0.0f32;
        while row < end {
            if slots[(row * trees + tree) as usize] == slot {
                sum += grad[(row * outputs + output) as usize];
            }
            row += 1u32;
        }
        partial[i as usize] = sum;
    }
}

/// `sums[value] += Σ over blocks of partial[block][value]`, or `=` for the first blocks.
#[cube(launch_unchecked)]
pub fn add_blocks(partial: &[f32], sums: &mut [f32], values: u32, blocks: u32, #[comptime] first: bool) {
    let value = ABSOLUTE_POS as u32;
    if value < values {
        let mut sum = if first { 0.0f32.runtime() } else { sums[value as usize] };
        let mut block = 0u32.runtime();
        while block < blocks {
            sum += partial[(block * values + value) as usize];
            block += 1u32;
        }
        sums[value as usize] = sum;
    }
}
