//! Rows to columns, sixteen by sixteen.

use std::arch::x86_64::*;

use super::{
    super::{rows::Rows, window::BLOCK},
    LANES,
};

/// Copies the used columns of `count` rows from `first` on to `[column][BLOCK]`.
///
/// # Safety
/// [`super::available`] and [`super::fits`]; the rows are there, at most [`BLOCK`]; `into` has a block for each column.
#[target_feature(enable = "avx512f,avx512dq")]
pub(in crate::cpu) unsafe fn transpose(
    rows: &Rows<'_>,
    first: usize,
    count: usize,
    lines: &[(u32, u16)],
    into: &mut [f32],
) {
    /// Lines that are asked for before they are read.
    const AHEAD: usize = 4;
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
