//! Rows to columns, sixteen by sixteen or eight by eight.

use std::arch::x86_64::*;

use super::{avx2, avx512};
use crate::cpu::{
    isa::{Isa, isa},
    ranking::column_block::ColumnBlock,
    window::BLOCK,
};

/// Rows of which a line of the cache is written of each column.
pub(super) const LANES: usize = 16;

/// Copies the wanted columns of lines to `[column][BLOCK]`, from the first line's first column on, if the machine has vectors for that.
///
/// # Safety
/// Rows have so many `columns`, no line begins past them, and the wanted ones are of them; `into` has a block for each of these.
pub(in crate::cpu) unsafe fn columns(
    rows: &[*const f32; BLOCK],
    count: usize,
    columns: usize,
    column_blocks: &[ColumnBlock],
    into: &mut [f32],
) -> bool {
    // SAFETY: as promised to this function; the kernel is one of this machine's.
    unsafe {
        match isa() {
            Isa::Avx512 => avx512::copy::columns(rows, count, columns, column_blocks, into),
            Isa::Avx2 => avx2::copy::columns(rows, count, columns, column_blocks, into),
            Isa::Neon | Isa::Portable => return false,
        }
    }
    true
}

/// Sixteen rows at a time.
pub(super) fn sixteens(
    rows: &[*const f32; BLOCK],
    count: usize,
) -> impl Iterator<Item = (usize, &[*const f32; LANES])> {
    let (sixteens, _) = rows.as_chunks();
    sixteens
        .iter()
        .enumerate()
        .map(|(i, rows)| (i * LANES, rows))
        .take_while(move |(begin, _)| *begin < count)
}

/// Asks for what is soon wanted of rows.
#[inline]
pub(super) fn ask(rows: &[*const f32; LANES], column_block: &ColumnBlock) {
    if let Some(ahead) = column_block.ahead {
        for row in rows {
            // SAFETY: every x86-64 has it, and it reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead as usize).cast()) };
        }
    }
}
