//! Rows to columns, sixteen by sixteen or eight by eight.

use std::arch::x86_64::*;

use super::{
    super::{
        isa::{Isa, isa},
        rows::Rows,
        window::BLOCK,
    },
    LANES,
};

/// Lines that are asked for before they are read.
const AHEAD: usize = 4;

/// Copies the used columns of `count` rows from `first` on to `[column][BLOCK]`.
///
/// # Safety
/// [`super::available`] and [`super::fits`]; the rows are there, at most [`BLOCK`]; `into` has a block for each column.
pub(in crate::cpu) unsafe fn transpose(
    rows: &Rows<'_>,
    first: usize,
    count: usize,
    lines: &[(u32, u16)],
    into: &mut [f32],
) {
    // SAFETY: as promised to this function; the kernel is one of this machine's.
    unsafe {
        match isa() {
            Isa::Avx512 => transpose_512(rows, first, count, lines, into),
            _ => transpose_256(rows, first, count, lines, into),
        }
    }
}

/// # Safety
/// AVX-512 F and DQ; otherwise as for [`transpose`].
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn transpose_512(rows: &Rows<'_>, first: usize, count: usize, lines: &[(u32, u16)], into: &mut [f32]) {
    for begin in (0..count).step_by(LANES) {
        let here = (count - begin).min(LANES);
        let row: [*const f32; LANES] =
            std::array::from_fn(|r| rows.from(first + begin + r.min(here - 1)).as_ptr());
        for (k, &(line, mask)) in lines.iter().enumerate() {
            let line = line as usize;
            if let Some((ahead, _)) = lines.get(k + AHEAD) {
                for r in row {
                    _mm_prefetch::<_MM_HINT_T0>(r.wrapping_add(*ahead as usize).cast());
                }
            }
            let most = (rows.columns() - line).min(LANES);
            let some = (((1u32 << most) - 1) & 0xffff) as __mmask16;
            // SAFETY: the mask keeps to the row's columns.
            let values: [__m512i; LANES] =
                unsafe { std::array::from_fn(|r| _mm512_maskz_loadu_epi32(some, row[r].add(line).cast())) };
            for (c, column) in transposed(values).into_iter().enumerate() {
                if mask >> c & 1 == 1 {
                    let place = (line + c) * BLOCK + begin;
                    // SAFETY: a used column is one of the rows', and has its block.
                    unsafe { _mm512_storeu_si512(into.as_mut_ptr().add(place).cast(), column) };
                }
            }
        }
    }
}

/// Sixteen rows of sixteen words to columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(rows: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut a = rows;
    // Words of neighbouring rows side by side, then pairs of words: four rows' columns in each quarter.
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
    // `a[4 i + j]` has in quarter `q` column `4 q + j` of rows `4 i` to `4 i + 3`: a transposition of quarters is left.
    for j in 0..4 {
        let [p, q] = [0, 8].map(|i| _mm512_shuffle_i32x4::<0x88>(a[i + j], a[i + 4 + j]));
        let [r, s] = [0, 8].map(|i| _mm512_shuffle_i32x4::<0xdd>(a[i + j], a[i + 4 + j]));
        b[j] = _mm512_shuffle_i32x4::<0x88>(p, q);
        b[8 + j] = _mm512_shuffle_i32x4::<0xdd>(p, q);
        b[4 + j] = _mm512_shuffle_i32x4::<0x88>(r, s);
        b[12 + j] = _mm512_shuffle_i32x4::<0xdd>(r, s);
    }
    b
}

/// # Safety
/// AVX2; otherwise as for [`transpose`].
#[target_feature(enable = "avx2")]
unsafe fn transpose_256(rows: &Rows<'_>, first: usize, count: usize, lines: &[(u32, u16)], into: &mut [f32]) {
    const HALF: usize = LANES / 2;
    // Sixteen rows at a time here, too: what is written of a column is a line of the cache.
    for begin in (0..count).step_by(LANES) {
        let here = (count - begin).min(LANES);
        let row: [*const f32; LANES] =
            std::array::from_fn(|r| rows.from(first + begin + r.min(here - 1)).as_ptr());
        for (k, &(line, mask)) in lines.iter().enumerate() {
            let line = line as usize;
            if let Some((ahead, _)) = lines.get(k + AHEAD) {
                for r in row {
                    _mm_prefetch::<_MM_HINT_T0>(r.wrapping_add(*ahead as usize).cast());
                }
            }
            for half in [0, HALF] {
                let (line, mask) = (line + half, mask >> half & 0xff);
                if mask == 0 {
                    continue;
                }
                let into = &mut into[line * BLOCK + begin..];
                let used = (0..HALF).filter(|c| mask >> c & 1 == 1);
                if rows.columns() < line + HALF {
                    for c in used {
                        for (r, place) in into[c * BLOCK..][..here].iter_mut().enumerate() {
                            // SAFETY: a used column is one of the rows'.
                            *place = unsafe { *row[r].add(line + c) };
                        }
                    }
                    continue;
                }
                // SAFETY: the rows have these columns.
                let blocks = unsafe { [eight(&row, 0, line), eight(&row, HALF, line)] };
                for c in used {
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

/// Eight rows from `first` on, of eight values from `line` on, to columns. Not by closures that `map` calls: nothing of this machine is
/// compiled into those.
///
/// # Safety
/// AVX2; the rows have eight values there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn eight(row: &[*const f32; LANES], first: usize, line: usize) -> [__m256; 8] {
    let mut columns = [_mm256_setzero_ps(); 8];
    for half in 0..2 {
        // Half of a row each: in the lower half of a register a row's, in the upper one that of the row four on.
        let mut a = [_mm256_setzero_ps(); 4];
        for (r, a) in a.iter_mut().enumerate() {
            let from = line + 4 * half;
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
