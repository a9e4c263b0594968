//! Rows as ranks: a launch before the walks'.

// What a kernel works on is its arguments.
#![allow(clippy::too_many_arguments)]

use cubecl::prelude::*;

use super::{keys::load_key, node};
use crate::plan::RowType;

/// Words of a rank column's record: the feature, where its keys or its question begin, how many keys, and a node's flags
/// ([`QUESTION`](super::QUESTION), [`NAMED_RIGHT`](super::NAMED_RIGHT), [`MISSING_LEFT`](super::MISSING_LEFT)).
pub const COLUMN_WORDS: u32 = 4;

/// One unit a word of ranks, rows one after the other, each from a word's beginning on.
///
/// A column's keys are ascending; where missing values go left each is one more, and so is the key of the value that is
/// looked up. That of a missing one is the largest word, which wraps to 0.
#[cube(launch_unchecked)]
pub fn rank_rows(
    rows: &[u32],
    tables: &[u32],
    ranked: &mut [u32],
    batch: u32,
    columns: u32,
    row_stride: u32,
    column_stride: u32,
    row_offset: u32,
    #[comptime] from: RowType,
    #[comptime] to: RowType,
) {
    let per_word = comptime![to.per_word()];
    let words = columns.div_ceil(per_word);
    let i = ABSOLUTE_POS as u32;
    let row = i / words;
    if row < batch {
        let first = (i % words) * per_word;
        let mut packed = 0u32;
        #[unroll]
        for c in 0..per_word {
            let column = first + c;
            if column < columns {
                let record = column * COLUMN_WORDS;
                let feature = tables[record as usize];
                let key = load_key(rows, row_offset + row * row_stride + feature * column_stride, from);
                packed |= rank(tables, 0u32, record, key) << comptime![c * (32 / per_word)];
            }
        }
        ranked[i as usize] = packed;
    }
}

/// The rank of a value in the column whose record is given, with tables that begin at `tables_at`.
#[cube]
pub fn rank(tables: &[u32], tables_at: u32, record: u32, key: u32) -> u32 {
    let at = tables_at + tables[(record + 1u32) as usize];
    let count = tables[(record + 2u32) as usize];
    let flags = tables[(record + 3u32) as usize];
    let mut found = 0u32;
    if (flags & comptime![node::QUESTION]) != 0u32 {
        found = node::question_right(tables, at, key, flags);
    } else if count != 0u32 {
        let key = key + (flags >> 31u32);
        // By halves, from the largest power of two that is no more than there are.
        let mut step = 0x8000_0000u32 >> count.leading_zeros();
        while step > 0u32 {
            let probe = found + step;
            let inside = probe <= count;
            let below = tables[(at + select(inside, probe, count) - 1u32) as usize] <= key;
            found = select(inside, select(below, probe, found), found);
            step >>= 1u32;
        }
    }
    found
}
