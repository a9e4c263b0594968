//! Copies columns of rows so that the values of a column are adjacent: squares of sixteen by sixteen or eight
//! by eight values.

use std::arch::x86_64::*;

use super::{avx2, avx512};
use crate::cpu::{
    isa::{Isa, isa},
    ranking::column_block::ColumnBlock,
    window::ROW_BLOCK,
};

/// Rows that are copied together: their values of one column fill a cache line.
pub(super) const LANES: usize = 16;

/// Copies the wanted columns of column blocks into `into`, as `[column][ROW_BLOCK]` from the first column block's
/// first column on. Returns `false` if the machine has no vectors for that.
///
/// # Safety
/// Each pointer in `rows` points to `columns` values. No column block begins past these columns, and every
/// wanted column is one of them. `into` has room for 64 values of each wanted column.
pub(in crate::cpu) unsafe fn columns(
    rows: &[*const f32; ROW_BLOCK],
    count: usize,
    columns: usize,
    column_blocks: &[ColumnBlock],
    into: &mut [f32],
) -> bool {
    // SAFETY: `isa` has found the kernel's instructions. The caller upholds that the rows have the wanted
    // columns and `into` has room for them.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::copy::columns(rows, count, columns, column_blocks, into),
            Isa::Avx2 => avx2::copy::columns(rows, count, columns, column_blocks, into),
            Isa::Neon | Isa::Portable => return false,
        }
    }
    true
}

/// Groups of sixteen rows, as long as they begin before row `count`: the number of the first row, and the
/// rows.
pub(super) fn sixteens(
    rows: &[*const f32; ROW_BLOCK],
    count: usize,
) -> impl Iterator<Item = (usize, &[*const f32; LANES])> {
    let (sixteens, _) = rows.as_chunks();
    sixteens
        .iter()
        .enumerate()
        .map(|(i, rows)| (i * LANES, rows))
        .take_while(move |(begin, _)| *begin < count)
}

/// Prefetches, in each row, the column that the column block names as read soon.
#[inline]
pub(super) fn prefetch(rows: &[*const f32; LANES], column_block: &ColumnBlock) {
    if let Some(ahead) = column_block.ahead {
        for row in rows {
            // SAFETY: every x86-64 has the instruction. A prefetch may take any address and loads no value.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead as usize).cast()) };
        }
    }
}
