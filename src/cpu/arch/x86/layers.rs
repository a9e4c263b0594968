//! Columns of few thresholds, ranked where they lie: sixteen of them are compared with a threshold each, a row at a time, and what
//! comes of 64 rows is turned as bits.

use super::{avx2, avx512};
use crate::cpu::{
    cache_line::CacheLine,
    isa::{Isa, isa},
    ranking::{
        column_block::{BLOCK, BLOCK_COLUMNS, ColumnBlock, MOST_LAYERS, ThresholdMasks},
        search::{LayeredColumn, Missing},
    },
};

/// Says for each row and column whether the value reaches the column's threshold in a layer, if the machine has vectors for that.
///
/// # Safety
/// The line begins within the rows, which have columns up to `most` of it; every layer has its place in `reached`.
pub(in crate::cpu) unsafe fn reach(
    rows: &[*const f32; BLOCK],
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
    // SAFETY: the machine is able; as promised to this function.
    unsafe { each!(1 2 3 4) };
    true
}

/// Ranks of columns: how many of its thresholds each value reaches.
///
/// # Safety
/// [`reach`] has just said that the machine is able.
pub(in crate::cpu) unsafe fn add_up(
    columns: &[LayeredColumn],
    reached: &[ThresholdMasks],
    out: &mut [u8],
    apart: usize,
) {
    // SAFETY: as promised to this function.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::layers::add_up(columns, reached, out, apart),
            _ => avx2::layers::add_up(columns, reached, out, apart),
        }
    }
}

/// A column's layers, its half of them and its bit there, and where its ranks go.
pub(super) fn places<'r, 'o>(
    few: &LayeredColumn,
    reached: &'r [ThresholdMasks],
    out: &'o mut [u8],
    apart: usize,
) -> (impl Iterator<Item = &'r [u8; BLOCK]>, i8, &'o mut [u8; BLOCK]) {
    let half = usize::from(few.lane / 8 % 2);
    let layers = reached[..usize::from(few.count)].iter().map(move |layer| &layer.0[half]);
    let out = out[few.column as usize * apart..].first_chunk_mut().expect("a block of room");
    (layers, 1u8.wrapping_shl(few.lane.into()) as i8, out)
}
