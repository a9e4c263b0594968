//! Rows to columns, sixteen by sixteen or eight by eight.

use std::arch::x86_64::*;

use super::{
    super::{
        isa::{Isa, isa},
        ranking::row_block::LineOf,
        window::BLOCK,
    },
    LANES,
};

/// Copies the wanted columns of lines to `[column][BLOCK]`, from the first line's first column on, if the machine has vectors for that.
///
/// # Safety
/// Rows have so many `columns`, no line begins past them, and the wanted ones are of them; `into` has a block for each of these.
pub(in crate::cpu) unsafe fn columns(
    rows: &[*const f32; BLOCK],
    count: usize,
    columns: usize,
    lines: &[LineOf],
    into: &mut [f32],
) -> bool {
    // SAFETY: as promised to this function; the kernel is one of this machine's.
    unsafe {
        match isa() {
            Isa::Avx512 => columns_512(rows, count, columns, lines, into),
            Isa::Avx2 => columns_256(rows, count, columns, lines, into),
            Isa::Neon | Isa::Portable => return false,
        }
    }
    true
}

/// Sixteen rows at a time, of which a line of the cache is written of each column.
fn sixteens(rows: &[*const f32; BLOCK], count: usize) -> impl Iterator<Item = (usize, &[*const f32; LANES])> {
    let (sixteens, _) = rows.as_chunks();
    sixteens
        .iter()
        .enumerate()
        .map(|(i, rows)| (i * LANES, rows))
        .take_while(move |(begin, _)| *begin < count)
}

/// Asks for what is soon wanted of rows.
#[inline]
pub(super) fn ask(rows: &[*const f32; LANES], line: &LineOf) {
    if let Some(ahead) = line.ahead {
        for row in rows {
            // SAFETY: every x86-64 has it, and it reads nothing.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(ahead as usize).cast()) };
        }
    }
}

/// # Safety
/// AVX-512 F and DQ; otherwise as for [`columns`].
#[target_feature(enable = "avx512f,avx512dq")]
unsafe fn columns_512(
    rows: &[*const f32; BLOCK],
    count: usize,
    columns: usize,
    lines: &[LineOf],
    into: &mut [f32],
) {
    let base = lines[0].first;
    for (begin, rows) in sixteens(rows, count) {
        for line in lines {
            ask(rows, line);
            let there = (((1u32 << line.most(columns)) - 1) & 0xffff) as __mmask16;
            let mut values = [_mm512_setzero_si512(); LANES];
            for (values, row) in values.iter_mut().zip(rows) {
                // SAFETY: the mask keeps to the row's columns.
                *values = unsafe { _mm512_maskz_loadu_epi32(there, row.add(line.first as usize).cast()) };
            }
            let place = (line.first - base) as usize * BLOCK + begin;
            for (c, column) in transposed(values).into_iter().enumerate() {
                if line.wanted >> c & 1 == 1 {
                    // SAFETY: a wanted column has its block.
                    unsafe { _mm512_storeu_si512(into.as_mut_ptr().add(place + c * BLOCK).cast(), column) };
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
/// AVX2; otherwise as for [`columns`].
#[target_feature(enable = "avx2")]
unsafe fn columns_256(
    rows: &[*const f32; BLOCK],
    count: usize,
    columns: usize,
    lines: &[LineOf],
    into: &mut [f32],
) {
    const HALF: usize = LANES / 2;
    let base = lines[0].first;
    for (begin, rows) in sixteens(rows, count) {
        for line in lines {
            ask(rows, line);
            for half in [0, HALF] {
                let (first, wanted) = (line.first as usize + half, line.wanted >> half & 0xff);
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
