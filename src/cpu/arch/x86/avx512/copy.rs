//! Copies columns of rows in squares of sixteen by sixteen values.

use std::arch::x86_64::*;

use super::super::copy::{LANES, prefetch, sixteens};
use crate::{
    arrays::MapInline,
    cpu::{ranking::column_block::ColumnBlock, window::ROW_BLOCK},
};

/// Copies the wanted columns of column blocks: see [`columns`](super::super::columns).
///
/// # Safety
/// The machine has AVX-512 F and DQ. Otherwise the conditions of [`columns`](super::super::columns): the rows
/// have every wanted column, and `into` has room for it.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in crate::cpu::arch::x86) unsafe fn columns(
    rows: &[*const f32; ROW_BLOCK],
    count: usize,
    columns: usize,
    column_blocks: &[ColumnBlock],
    into: &mut [f32],
) {
    let base = column_blocks[0].first;
    for (begin, rows) in sixteens(rows, count) {
        for column_block in column_blocks {
            prefetch(rows, column_block);
            let there = (((1u32 << column_block.most(columns)) - 1) & 0xffff) as __mmask16;
            let mut values = [_mm512_setzero_si512(); LANES];
            for (values, row) in values.iter_mut().zip(rows) {
                // SAFETY: the mask leaves out columns that the row lacks. The caller upholds that the row has
                // `columns` columns.
                *values =
                    unsafe { _mm512_maskz_loadu_epi32(there, row.add(column_block.first as usize).cast()) };
            }
            let start = (column_block.first - base) as usize * ROW_BLOCK + begin;
            for (c, column) in transposed(values).into_iter().enumerate() {
                if column_block.wanted >> c & 1 == 1 {
                    // SAFETY: the caller upholds that `into` has room for 64 values of each wanted column.
                    unsafe {
                        _mm512_storeu_si512(into.as_mut_ptr().add(start + c * ROW_BLOCK).cast(), column)
                    };
                }
            }
        }
    }
}

/// Turns sixteen rows of sixteen words into sixteen columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut a = rows;
    // Words of neighbouring rows are put side by side, then pairs of words. Each quarter then has one column
    // of four rows.
    let mut b = a;
    for i in 0..8 {
        b[2 * i] = _mm512_unpacklo_epi32(a[2 * i], a[2 * i + 1]);
        b[2 * i + 1] = _mm512_unpackhi_epi32(a[2 * i], a[2 * i + 1]);
    }
    for i in 0..4 {
        a[4 * i] = _mm512_unpacklo_epi64(b[4 * i], b[4 * i + 2]);
        a[4 * i + 1] = _mm512_unpackhi_epi64(b[4 * i], b[4 * i + 2]);
        a[4 * i + 2] = _mm512_unpacklo_epi64(b[4 * i + 1], b[4 * i + 3]);
        a[4 * i + 3] = _mm512_unpackhi_epi64(b[4 * i + 1], b[4 * i + 3]);
    }
    // Quarter `q` of `a[4 i + j]` has column `4 q + j` of rows `4 i` to `4 i + 3`. What remains is a
    // transposition of quarters.
    for j in 0..4 {
        let [p, q] = [0, 8].map_inline(|i| _mm512_shuffle_i32x4::<0x88>(a[i + j], a[i + 4 + j]));
        let [r, s] = [0, 8].map_inline(|i| _mm512_shuffle_i32x4::<0xdd>(a[i + j], a[i + 4 + j]));
        b[j] = _mm512_shuffle_i32x4::<0x88>(p, q);
        b[8 + j] = _mm512_shuffle_i32x4::<0xdd>(p, q);
        b[4 + j] = _mm512_shuffle_i32x4::<0x88>(r, s);
        b[12 + j] = _mm512_shuffle_i32x4::<0xdd>(r, s);
    }
    b
}
