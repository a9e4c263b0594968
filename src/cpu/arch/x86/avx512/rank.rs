//! Ranks of a byte: 64 rows of a column in four registers, whose pivots are permuted.

use std::arch::x86_64::*;

use super::{super::rank::pairs_of, LANES};
use crate::cpu::{
    cache_line::{CacheLine, flat},
    ranking::{
        count::FAN,
        search::{
            BLOCK, CategoryBits, ColumnSearch, Columns, MOST_LEVELS, Missing, each_level, first_of, lines_of,
        },
    },
};

// A line of pivots is a register.
const _: () = assert!(FAN == LANES);

/// # Safety
/// AVX-512 F, DQ and BW, and VBMI2 if it `SHIFTS`.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
pub(in crate::cpu::arch::x86) unsafe fn each<const SHIFTS: bool>(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    mut out: Columns<&mut [u8]>,
) {
    macro_rules! of {
        ($run:ident, $levels:expr, $pairs:literal) => {
            // SAFETY: as promised to this function.
            unsafe { some::<{ $levels }, $pairs, SHIFTS>(pivots, $run, values, &mut out) }
        };
    }
    let mut columns = columns;
    while let Some(first) = columns.first() {
        let run;
        (run, columns) = columns.split_at(columns.len().min(first.alike as usize));
        match first.search.kernel() {
            (0, _) => of!(run, 0, 1),
            (1, _) => of!(run, 1, 1),
            (2, _) => of!(run, 2, 1),
            (3, _) => of!(run, 3, 1),
            (4, _) => of!(run, 4, 1),
            (5, _) => of!(run, 5, 1),
            (6, _) => of!(run, 6, 1),
            (7, 1) => of!(run, 7, 1),
            (7, _) => of!(run, 7, 2),
            (_, 1) => of!(run, MOST_LEVELS, 1),
            (_, 2) => of!(run, MOST_LEVELS, 2),
            _ => of!(run, MOST_LEVELS, 4),
        }
    }
}

/// Two columns at a time: of one alone the registers wait for each other's permutes.
///
/// # Safety
/// As for [`each`].
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn some<const L: u32, const T: usize, const SHIFTS: bool>(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    out: &mut Columns<&mut [u8]>,
) {
    let (twos, one) = columns.as_chunks();
    for two in twos {
        // SAFETY: as promised to this function; two columns have eight registers.
        unsafe { within::<L, T, SHIFTS, 2, 8>(pivots, two, values, out) };
    }
    if let Ok(one) = one.try_into() {
        // SAFETY: as above, of one column.
        unsafe { within::<L, T, SHIFTS, 1, 4>(pivots, one, values, out) };
    }
}

/// Registers of 64 rows.
const R: usize = BLOCK / LANES;

/// The search of each row as the signs of what pivots leave of its value: two instructions a level beside the permute, and of
/// those one that runs beside it. Signs are ones where a value is below its pivot, so places are counted from the right.
///
/// Of `C` columns in `N` registers, all of `L` levels, the last of which has its pivots in `T` pairs of lines.
///
/// # Safety
/// As for [`each`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn within<const L: u32, const T: usize, const SHIFTS: bool, const C: usize, const N: usize>(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch; C],
    values: Columns<&[f32]>,
    out: &mut Columns<&mut [u8]>,
) {
    const { assert!(N == C * R) };
    let mut of: [&[f32]; C] = [&[]; C];
    let mut x = [_mm512_setzero_ps(); N];
    for (c, column) in columns.iter().enumerate() {
        of[c] = flat(&pivots[column.search.begin as usize..][..const { lines_of(L) }]);
        for (x, values) in x[R * c..].iter_mut().zip(values.column(column.from).as_chunks().0) {
            let values = load(values);
            // Where one of two is NaN, both give the second. `vfixupimmps` would do for both, but on the port of the shifts alone.
            *x = match column.search.missing {
                Missing::Least => _mm512_max_ps(values, _mm512_set1_ps(f32::NEG_INFINITY)),
                Missing::Most => _mm512_min_ps(values, _mm512_set1_ps(f32::INFINITY)),
            };
        }
    }
    let mut at = [_mm512_setzero_si512(); N];
    // Of the levels above: which half of a level's pivots, and which quarter of the next one's.
    let mut below: [[__mmask16; N]; 2] = [[0; N]; 2];
    macro_rules! level {
        ($level:literal) => {
            if $level < L {
                for r in 0..N {
                    let pairs = const { if $level + 1 == L { T } else { pairs_of($level) } };
                    let pivot = pick::<$level>(of[r / R], pairs, at[r], [below[0][r], below[1][r]]);
                    if SHIFTS {
                        let left = _mm512_castps_si512(_mm512_sub_ps(x[r], pivot));
                        if let Some(below) = below.get_mut($level) {
                            below[r] = _mm512_movepi32_mask(left);
                        }
                        // SAFETY: as promised to this function.
                        at[r] = unsafe { shifted_in(at[r], left) };
                    } else {
                        let lower = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(pivot, x[r]);
                        if let Some(below) = below.get_mut($level) {
                            below[r] = lower;
                        }
                        at[r] = _mm512_add_epi32(at[r], at[r]);
                        at[r] = _mm512_mask_add_epi32(at[r], lower, at[r], _mm512_set1_epi32(1));
                    }
                }
            }
        };
    }
    each_level!(level);
    // Packing goes by quarters of registers: four rows' of each of the four.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (c, column) in columns.iter().enumerate() {
        let at = &at[R * c..][..R];
        let words = [_mm512_packus_epi32(at[0], at[1]), _mm512_packus_epi32(at[2], at[3])];
        let places = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words[0], words[1]));
        let ranks = match const { T < pairs_of(L.saturating_sub(1)) } {
            true => {
                let [count, double] = column.search.rank().map(|byte| _mm512_set1_epi8(byte as i8));
                _mm512_sub_epi8(count, _mm512_min_epu8(places, _mm512_avg_epu8(places, double)))
            }
            false => _mm512_xor_si512(places, _mm512_set1_epi8(((1u32 << L) - 1) as i8)),
        };
        // SAFETY: 64 bytes have the room of 64 bytes.
        unsafe { _mm512_storeu_si512(out.column(column.to).as_mut_ptr().cast(), ranks) };
    }
}

/// Each word shifted left by one, and into it the highest bit of another. In the library it would need VBMI2 of whoever it is
/// compiled into.
///
/// It is said to have effects, so that these stay in the order in which they are written, a level of all registers after the other. One
/// register's levels after the other's are as many instructions as the machine looks ahead, and wait for each other.
///
/// # Safety
/// AVX-512 VBMI2.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn shifted_in(mut word: __m512i, bits: __m512i) -> __m512i {
    // SAFETY: as promised to this function; it is one instruction between registers.
    unsafe {
        std::arch::asm!(
            "vpshldd {0}, {0}, {1}, 1",
            inout(zmm_reg) word, in(zmm_reg) bits,
            options(nomem, nostack, preserves_flags),
        );
    }
    word
}

/// The pivots of a level, which are in the first pairs of its lines, at these places. What a permute can't reach of a place is in the
/// masks of the first two levels.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn pick<const LEVEL: u32>(pivots: &[f32], pairs: usize, at: __m512i, below: [__mmask16; 2]) -> __m512 {
    let own = &pivots[const { first_of(LEVEL) }..];
    let table = |i: usize| load(own[FAN * i..].first_chunk().expect("a line"));
    let pair = |i: usize| _mm512_permutex2var_ps(table(2 * i), at, table(2 * i + 1));
    let four = |i: usize, m: __mmask16| _mm512_mask_blend_ps(m, pair(2 * i), pair(2 * i + 1));
    match (LEVEL, pairs) {
        (0, _) => _mm512_set1_ps(own[0]),
        // They share a line, of which eight pivots are left.
        (1..=3, _) => {
            let own: &[f32; 8] = own.first_chunk().expect("the rest of a line");
            // SAFETY: there are eight of them.
            _mm512_permutexvar_ps(at, _mm512_castps256_ps512(unsafe { _mm256_loadu_ps(own.as_ptr()) }))
        }
        (4, _) => _mm512_permutexvar_ps(at, table(0)),
        (_, 1) => pair(0),
        // Of a place on a level, all bits but the last five are in the masks.
        (_, 2) => four(0, below[LEVEL as usize - 6]),
        _ => _mm512_mask_blend_ps(below[0], four(0, below[1]), four(1, below[1])),
    }
}

/// Sixteen values in a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; FAN]) -> __m512 {
    // SAFETY: there are sixteen of them.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// The bits of a table at 64 codes.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::cpu::arch::x86) fn bits(table: &[u8; 32], codes: &CategoryBits, out: &mut [u8; BLOCK]) {
    // SAFETY: a table is twice sixteen bytes, codes and what is made of them are 64.
    unsafe {
        let half = |i: usize| _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().add(16 * i).cast()));
        let byte = _mm512_loadu_si512(codes.byte.as_ptr().cast());
        let bit = _mm512_loadu_si512(codes.bit.as_ptr().cast());
        let high = _mm512_test_epi8_mask(byte, _mm512_set1_epi8(16));
        let low = _mm512_shuffle_epi8(half(0), byte);
        let found = _mm512_mask_shuffle_epi8(low, high, half(1), byte);
        let set = _mm512_test_epi8_mask(found, bit);
        _mm512_storeu_si512(out.as_mut_ptr().cast(), _mm512_maskz_set1_epi8(set, 1));
    }
}
