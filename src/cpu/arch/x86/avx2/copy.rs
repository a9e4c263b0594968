//! Copies columns of rows in squares of eight by eight values.

use std::arch::x86_64::*;

use super::super::copy::{LANES, prefetch, sixteens};
use crate::cpu::{ranking::column_block::ColumnBlock, window::ROW_BLOCK};

/// Copies the wanted columns of column blocks: see [`columns`](super::super::columns).
///
/// # Safety
/// The machine has AVX2. Otherwise the conditions of [`columns`](super::super::columns): the rows have every
/// wanted column, and `into` has room for it.
#[target_feature(enable = "avx2")]
pub(in crate::cpu::arch::x86) unsafe fn columns(
    rows: &[*const f32; ROW_BLOCK],
    count: usize,
    columns: usize,
    column_blocks: &[ColumnBlock],
    into: &mut [f32],
) {
    const HALF: usize = LANES / 2;
    let base = column_blocks[0].first;
    for (begin, rows) in sixteens(rows, count) {
        for column_block in column_blocks {
            prefetch(rows, column_block);
            for half in [0, HALF] {
                let (first, wanted) =
                    (column_block.first as usize + half, column_block.wanted >> half & 0xff);
                if wanted == 0 {
                    continue;
                }
                let into = &mut into[(first - base as usize) * ROW_BLOCK + begin..];
                let wanted = (0..HALF).filter(|c| wanted >> c & 1 == 1);
                if columns < first + HALF {
                    for c in wanted {
                        for (value, row) in into[c * ROW_BLOCK..][..LANES].iter_mut().zip(rows) {
                            // SAFETY: the caller upholds that the rows have every wanted column.
                            *value = unsafe { *row.add(first + c) };
                        }
                    }
                    continue;
                }
                // SAFETY: the caller upholds that the rows have `columns` columns, and all eight from `first`
                // on are among them.
                let squares = unsafe { [eight(rows, 0, first), eight(rows, HALF, first)] };
                for c in wanted {
                    let into = &mut into[c * ROW_BLOCK..][..LANES];
                    // SAFETY: `into` has just been cut to sixteen values.
                    unsafe {
                        _mm256_storeu_ps(into.as_mut_ptr(), squares[0][c]);
                        _mm256_storeu_ps(into.as_mut_ptr().add(HALF), squares[1][c]);
                    }
                }
            }
        }
    }
}

/// Loads eight rows from row `first` on, eight values each from column `column_block` on, and turns them into
/// columns. It uses no closures that `map` calls, because those are compiled without this function's
/// instructions.
///
/// # Safety
/// The machine has AVX2. The rows have eight values from column `column_block` on.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn eight(row: &[*const f32; LANES], first: usize, column_block: usize) -> [__m256; 8] {
    let mut columns = [_mm256_setzero_ps(); 8];
    for half in 0..2 {
        // A register has four values of row `r` in its lower half, and the same columns of row `r + 4` in its
        // upper half.
        let mut a = [_mm256_setzero_ps(); 4];
        for (r, a) in a.iter_mut().enumerate() {
            let from = column_block + 4 * half;
            // SAFETY: the caller upholds that the rows have eight values from column `column_block` on.
            let (low, high) = unsafe {
                (_mm_loadu_ps(row[first + r].add(from)), _mm_loadu_ps(row[first + r + 4].add(from)))
            };
            *a = _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(low), high);
        }
        let (p, q) = (_mm256_unpacklo_ps(a[0], a[1]), _mm256_unpackhi_ps(a[0], a[1]));
        let (r, s) = (_mm256_unpacklo_ps(a[2], a[3]), _mm256_unpackhi_ps(a[2], a[3]));
        let [p, q, r, s] =
            [_mm256_castps_pd(p), _mm256_castps_pd(q), _mm256_castps_pd(r), _mm256_castps_pd(s)];
        columns[4 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(p, r));
        columns[4 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(p, r));
        columns[4 * half + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(q, s));
        columns[4 * half + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(q, s));
    }
    columns
}
