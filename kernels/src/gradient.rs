//! The gradient of leaf values: for each, the gradients of the rows that reached its leaf, added up.
//!
//! A unit adds up one leaf value's rows of one block, a second launch the blocks: no atomics, no shared memory, and one order
//! of additions on every device.

use cubecl::{client::Client, prelude::*};

use super::{
    device::{Buffer, flat},
    grid::MOST_PARTIALS,
};

/// Rows that a unit adds up.
pub const BLOCK: u32 = 256;

/// Words of a leaf value's place: its slot, its tree, and the output it is added to.
const PLACE_WORDS: u32 = 3;

/// The rows and leaf values of a launch.
#[derive(CubeType, CubeLaunch)]
pub struct GradientSpan {
    /// Leaf values.
    pub values: u32,
    /// The first row.
    pub first_row: u32,
    /// Where rows end.
    pub rows: u32,
    /// Blocks of rows.
    pub blocks: u32,
    /// Trees of the forest.
    pub trees: u32,
    /// Margins a row.
    pub outputs: u32,
}

/// `partial[block][value] = Σ over the block's rows that reached the value's leaf of grad[row][output]`.
#[cube(launch_unchecked)]
pub fn add_rows(slots: &[u32], grad: &[f32], places: &[u32], partial: &mut [f32], of: &GradientSpan) {
    let i = ABSOLUTE_POS as u32;
    let block = i / of.values;
    if block < of.blocks {
        let place = (i % of.values) * PLACE_WORDS;
        let slot = places[place as usize];
        let tree = places[(place + 1u32) as usize];
        let output = places[(place + 2u32) as usize];
        let mut row = of.first_row + block * BLOCK;
        let left = of.rows - row;
        let end = row + select(left < BLOCK, left, BLOCK.runtime());
        let mut sum = 0.0f32;
        while row < end {
            if slots[(row * of.trees + tree) as usize] == slot {
                sum += grad[(row * of.outputs + output) as usize];
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

/// Where the gradient of each leaf value comes from: three words a value, its slot, its tree and the output it is added to.
#[derive(Clone, Debug)]
pub struct LeafPlaces {
    /// The words.
    pub words: Buffer,
    /// Leaf values.
    pub values: u32,
    /// Trees of the forest.
    pub trees: u32,
    /// Margins a row.
    pub outputs: u32,
}

/// Writes the gradient of all leaf values into `sums`, or adds it where these are not the first rows, from the `slots` that
/// `rows` rows reached and the gradient of their margins, `rows x outputs`. Rows are added up in blocks of
/// [`ROWS_OF_GRADIENTS`](BLOCK), and the blocks in their order.
pub fn leaf_gradients(
    client: &Client,
    places: &LeafPlaces,
    slots: &Buffer,
    grad: &Buffer,
    rows: u32,
    sums: &Buffer,
    first_rows: bool,
) {
    let &LeafPlaces { values, trees, outputs, .. } = places;
    debug_assert!(places.words.len >= values as usize * PLACE_WORDS as usize && sums.len >= values as usize);
    if values == 0 {
        return;
    }
    // Partial sums stay small whatever the batch; how many launches there are changes no order.
    let most = (MOST_PARTIALS / 4 / u64::from(values)).clamp(1, 1 << 16) as u32;
    let blocks = rows.div_ceil(BLOCK);
    let mut first = 0;
    loop {
        let count = most.min(blocks - first);
        let partial = Buffer::of_words(client, (values * count).max(1) as usize);
        let extent = GradientSpanLaunch::new(values, first * BLOCK, rows, count, trees, outputs);
        // SAFETY: a unit has a place and a block of rows that are there, or none; there are slots and gradients of all
        // rows, three words of places and room for a sum a leaf value, and a partial sum for each unit.
        unsafe {
            let (slots, grad, words) = (slots.arg(), grad.arg(), places.words.arg());
            let (cubes, dim) = flat(client, values * count);
            add_rows::launch_unchecked(client, cubes, dim, slots, grad, words, partial.arg(), extent);
            let (cubes, dim) = flat(client, values);
            let (partial, sums) = (partial.arg(), sums.arg());
            let first = first_rows && first == 0;
            add_blocks::launch_unchecked(client, cubes, dim, partial, sums, values, count, first);
        }
        first += count;
        if first >= blocks {
            return;
        }
    }
}
