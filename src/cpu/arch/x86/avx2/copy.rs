//! Rows to columns, eight by eight.

use std::arch::x86_64::*;

use super::super::copy::{LANES, ask, sixteens};
use crate::cpu::{ranking::column_block::ColumnBlock, window::BLOCK};

/// # Safety
/// AVX2; otherwise as for [`columns`](super::super::columns).
#[target_feature(enable = "avx2")]
pub(in crate::cpu::arch::x86) unsafe fn columns(
    rows: &[*const f32; BLOCK],
    count: usize,
    columns: usize,
    column_blocks: &[ColumnBlock],
    into: &mut [f32],
) {
    const HALF: usize = LANES / 2;
    let base = column_blocks[0].first;
    for (begin, rows) in sixteens(rows, count) {
        for column_block in column_blocks {
            ask(rows, column_block);
            for half in [0, HALF] {
                let (first, wanted) =
                    (column_block.first as usize + half, column_block.wanted >> half & 0xff);
                if wanted == 0 {
                    continue;
                }
                let into = &mut into[(first - base as usize) * BLOCK + begin..];
                let wanted = (0..HALF).filter(|c| wanted >> c & 1 == 1);
                if columns < first + HALF {
                    for c in wanted {
                        for (place, row) in into[c * BLOCK..][..LANES].iter_mut().zip(rows) {
                            // SAFETY: a wanted column is one of the rows'.
                            *place = unsafe { *row.add(first + c) };
                        }
                    }
                    continue;
                }
                // SAFETY: the rows have these columns.
                let blocks = unsafe { [eight(rows, 0, first), eight(rows, HALF, first)] };
                for c in wanted {
                    let into = &mut into[c * BLOCK..][..LANES];
                    // SAFETY: there is room for sixteen values.
                    unsafe {
                        _mm256_storeu_ps(into.as_mut_ptr(), blocks[0][c]);
                        _mm256_storeu_ps(into.as_mut_ptr().add(HALF), blocks[1][c]);
                    }
                }
            }
        }
    }
}

/// Eight rows from `first` on, of eight values from `column_block` on, to columns. Not by closures that `map` calls: nothing of this machine is
/// compiled into those.
///
/// # Safety
/// AVX2; the rows have eight values there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn eight(row: &[*const f32; LANES], first: usize, column_block: usize) -> [__m256; 8] {
    let mut columns = [_mm256_setzero_ps(); 8];
    for half in 0..2 {
        // Half of a row each: in the lower half of a register a row's, in the upper one that of the row four on.
        let mut a = [_mm256_setzero_ps(); 4];
        for (r, a) in a.iter_mut().enumerate() {
            let from = column_block + 4 * half;
            // SAFETY: as promised to this function.
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
