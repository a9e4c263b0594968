//! The gradient of leaf values: for each leaf value, the sum of the gradients of the rows that reached its
//! leaf.
//!
//! A unit adds up one leaf value's rows of one row block, and a second launch adds up the blocks. This takes
//! neither atomics nor shared memory, and has one order of additions on every device.

use cubecl::{client::Client, prelude::*};

use super::{
    device::{Buffer, flat},
    grid::MOST_PARTIALS,
};

/// Number of rows of a row block, which one unit adds up.
pub const GRADIENT_ROWS: u32 = 256;

/// Words of a leaf value's record: its leaf slot, its tree, and the output it is added to.
const SOURCE_WORDS: u32 = 3;

/// The rows and leaf values of a launch.
#[derive(CubeType, CubeLaunch)]
pub struct GradientSpan {
    /// Number of leaf values.
    pub values: u32,
    /// The first row.
    pub first_row: u32,
    /// One past the last row.
    pub rows: u32,
    /// Number of row blocks.
    pub blocks: u32,
    /// Number of trees of the forest.
    pub trees: u32,
    /// Number of margins of a row.
    pub outputs: u32,
}

/// Computes `partial[block][value] = Σ grad[row][output]` over the rows of the block that reached the value's
/// leaf.
#[cube(launch_unchecked)]
pub fn add_rows(slots: &[u32], grad: &[f32], sources: &[u32], partial: &mut [f32], of: &GradientSpan) {
    let i = ABSOLUTE_POS as u32;
    let block = i / of.values;
    if block < of.blocks {
        let source = (i % of.values) * SOURCE_WORDS;
        let slot = sources[source as usize];
        let tree = sources[(source + 1u32) as usize];
        let output = sources[(source + 2u32) as usize];
        let mut row = of.first_row + block * GRADIENT_ROWS;
        let left = of.rows - row;
        let end = row + select(left < GRADIENT_ROWS, left, GRADIENT_ROWS.runtime());
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

/// Computes `sums[value] += Σ partial[block][value]` over all blocks, or `=` if these are the first blocks.
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

/// The sources of each leaf value's gradient: its leaf slot, its tree and the output it is added to.
#[derive(Clone, Debug)]
pub struct GradientSources {
    /// Three words for each leaf value: leaf slot, tree, output.
    pub words: Buffer,
    /// Number of leaf values.
    pub values: u32,
    /// Number of trees of the forest.
    pub trees: u32,
    /// Number of margins of a row.
    pub outputs: u32,
}

/// Writes the gradient of all leaf values into `sums` if these are the first rows, and otherwise adds it
/// there. `slots` are the leaf slots that `rows` rows reached, `grad` is the gradient of their margins, `rows
/// x outputs`. Rows are added up in blocks of [`GRADIENT_ROWS`], and blocks in their order.
pub fn leaf_gradients(
    client: &Client,
    sources: &GradientSources,
    slots: &Buffer,
    grad: &Buffer,
    rows: u32,
    sums: &Buffer,
    first_rows: bool,
) {
    let &GradientSources { values, trees, outputs, .. } = sources;
    debug_assert!(
        sources.words.len >= values as usize * SOURCE_WORDS as usize && sums.len >= values as usize
    );
    if values == 0 {
        return;
    }
    // The partial sums of a launch stay small whatever the batch. The number of launches does not change the
    // order of additions.
    let most = (MOST_PARTIALS / 4 / u64::from(values)).clamp(1, 1 << 16) as u32;
    let blocks = rows.div_ceil(GRADIENT_ROWS);
    let mut first = 0;
    loop {
        let count = most.min(blocks - first);
        let partial = Buffer::of_words(client, (values * count).max(1) as usize);
        let extent = GradientSpanLaunch::new(values, first * GRADIENT_ROWS, rows, count, trees, outputs);
        // SAFETY: each unit checks that its block or value exists. `partial` is made here with a word for
        // each unit. The caller upholds that `slots` and `grad` hold all rows, that `sources` has three words
        // for each leaf value, and that `sums` has room for one word for each.
        unsafe {
            let (slots, grad, words) = (slots.arg(), grad.arg(), sources.words.arg());
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
