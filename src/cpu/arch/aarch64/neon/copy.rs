//! Copies rows to columns, in squares of four rows by four columns.

use std::arch::aarch64::*;

use super::LANES;
use crate::cpu::{ranking::column_block::ColumnBlock, window::ROW_BLOCK};

/// Rows whose values of one column are written together: one cache line of values.
const ROWS: usize = 16;

/// Copies the wanted columns of column blocks to `[column][ROW_BLOCK]`. Column 0 of `into` is the first
/// column of the first column block.
///
/// # Safety
/// The machine has NEON. Each of `rows` points to `columns` readable values, and every wanted column is
/// below `columns`. `into` has `ROW_BLOCK` values for every wanted column.
#[target_feature(enable = "neon")]
pub(in crate::cpu) unsafe fn columns(
    rows: &[*const f32; ROW_BLOCK],
    count: usize,
    columns: usize,
    column_blocks: &[ColumnBlock],
    into: &mut [f32],
) {
    let base = column_blocks[0].first as usize;
    let (sixteens, _) = rows.as_chunks::<ROWS>();
    for (rows, begin) in sixteens.iter().zip((0..count).step_by(ROWS)) {
        for column_block in column_blocks {
            for quarter in (0..16).step_by(LANES) {
                let (first, wanted) =
                    (column_block.first as usize + quarter, column_block.wanted >> quarter & 0xf);
                if wanted == 0 {
                    continue;
                }
                let into = &mut into[(first - base) * ROW_BLOCK + begin..];
                let wanted = (0..LANES).filter(|c| wanted >> c & 1 == 1);
                if columns < first + LANES {
                    for c in wanted {
                        for (row, value) in rows.iter().zip(&mut into[c * ROW_BLOCK..][..ROWS]) {
                            // SAFETY: the caller upholds that each row has `columns` values and that a
                            // wanted column is below that.
                            *value = unsafe { *row.add(first + c) };
                        }
                    }
                    continue;
                }
                let mut squares = [[vdupq_n_f32(0.0); LANES]; ROWS / LANES];
                for (square, rows) in squares.iter_mut().zip(rows.as_chunks::<LANES>().0) {
                    let mut values = [vdupq_n_f32(0.0); LANES];
                    for (values, row) in values.iter_mut().zip(rows) {
                        // SAFETY: `columns` is at least `first + LANES` here, and the caller upholds
                        // that each row has `columns` values.
                        *values = unsafe { vld1q_f32(row.add(first)) };
                    }
                    *square = transposed(values);
                }
                for c in wanted {
                    let (into, _) = into[c * ROW_BLOCK..][..ROWS].as_chunks_mut::<LANES>();
                    for (into, square) in into.iter_mut().zip(squares) {
                        // SAFETY: `into` has room for four values.
                        unsafe { vst1q_f32(into.as_mut_ptr(), square[c]) };
                    }
                }
            }
        }
    }
}

/// Transposes four rows of four values.
#[inline]
#[target_feature(enable = "neon")]
fn transposed([a, b, c, d]: [float32x4_t; LANES]) -> [float32x4_t; LANES] {
    // Interleaves rows 0 and 2, and rows 1 and 3. Then it interleaves the two results.
    let [even, odd] = [vzipq_f32(a, c), vzipq_f32(b, d)];
    let [low, high] = [vzipq_f32(even.0, odd.0), vzipq_f32(even.1, odd.1)];
    [low.0, low.1, high.0, high.1]
}
