//! Ranks columns with few thresholds where they lie in the rows. One compare takes sixteen columns of a row,
//! each with a threshold of its own. The resulting bits of 64 rows are then added up column by column.

use super::{avx2, avx512};
use crate::cpu::{
    cache_line::CacheLine,
    isa::{Isa, isa},
    ranking::{
        column_block::{BLOCK_COLUMNS, ColumnBlock, MOST_LAYERS, ROW_BLOCK, ThresholdMasks},
        search::{LayeredColumn, Missing},
    },
};

/// Writes, for each layer, row and column, whether the value reaches the column's threshold in the layer.
/// Returns `false` if the machine has no vectors for that.
///
/// # Safety
/// The column block begins within the rows, and each pointer in `rows` has `most` values from the first
/// column of the column block on. `reached` has an element for every layer.
pub(in crate::cpu) unsafe fn reach(
    rows: &[*const f32; ROW_BLOCK],
    most: usize,
    column_block: ColumnBlock,
    layers: &[CacheLine<[f32; BLOCK_COLUMNS]>],
    missing: Missing,
    reached: &mut [ThresholdMasks],
) -> bool {
    let isa = isa();
    if isa < Isa::Avx2 {
        return false;
    }
    macro_rules! each {
        ($($count:literal)*) => {
            match (isa, missing, layers.len()) {
                $(
                    (Isa::Avx512, Missing::Least, $count) => avx512::layers::reach::<$count, false>(rows, most, column_block, layers, reached),
                    (Isa::Avx512, Missing::Most, $count) => avx512::layers::reach::<$count, true>(rows, most, column_block, layers, reached),
                    (_, Missing::Least, $count) => avx2::layers::reach::<$count, false>(rows, most, column_block, layers, reached),
                    (_, Missing::Most, $count) => avx2::layers::reach::<$count, true>(rows, most, column_block, layers, reached),
                )*
                (_, _, count) => return count == 0,
            }
        };
    }
    const { assert!(MOST_LAYERS == 4) };
    // SAFETY: `isa` has found the kernel's instructions, and the kernel is compiled for this number of
    // layers. The caller upholds that the rows have `most` columns of the column block and `reached` has an
    // element for every layer.
    unsafe { each!(1 2 3 4) };
    true
}

/// Writes the ranks of columns: how many of its column's thresholds each of 64 values reaches.
///
/// # Safety
/// [`reach`] has returned `true`, so the machine has AVX2 or AVX-512.
pub(in crate::cpu) unsafe fn add_up(
    columns: &[LayeredColumn],
    reached: &[ThresholdMasks],
    out: &mut [u8],
    apart: usize,
) {
    // SAFETY: the caller upholds that `reach` has returned `true`, so `isa` is AVX-512 or AVX2.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::layers::add_up(columns, reached, out, apart),
            _ => avx2::layers::add_up(columns, reached, out, apart),
        }
    }
}

/// Returns the data for the ranks of one column: the half of each of its layers that has the column, the mask
/// of its bit there, and the room for its 64 ranks.
pub(super) fn of_column<'r, 'o>(
    few: &LayeredColumn,
    reached: &'r [ThresholdMasks],
    out: &'o mut [u8],
    apart: usize,
) -> (impl Iterator<Item = &'r [u8; ROW_BLOCK]>, i8, &'o mut [u8; ROW_BLOCK]) {
    let half = usize::from(few.lane / 8 % 2);
    let layers = reached[..usize::from(few.count)].iter().map(move |layer| &layer.0[half]);
    let out = out[few.column as usize * apart..].first_chunk_mut().expect("room for 64 ranks");
    (layers, 1u8.wrapping_shl(few.lane.into()) as i8, out)
}
