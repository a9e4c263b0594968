//! Ranks of a byte in registers: 64 rows of a column by a search whose pivots are permuted, or by a table of bits.

use std::arch::x86_64::*;

use crate::cpu::{
    count::FAN,
    isa::{Isa, isa},
    line::Line,
    rank::{BLOCK, Coded, Missing, Searched, blocks_of, by_levels},
};

// A level's pivots are whole registers.
const _: () = assert!(FAN == super::LANES);

/// Ranks as [`ranks`](crate::cpu::rank::ranks) does: no column if the machine is not able.
pub(in crate::cpu) fn ranks(
    pivots: &[Line<[f32; FAN]>],
    columns: impl Iterator<Item = Searched>,
    values: &[f32],
    out: &mut [u8],
) -> usize {
    // SAFETY: the machine has just said that it has the instructions.
    unsafe {
        match isa() {
            Isa::Avx512 if is_x86_feature_detected!("avx512vbmi2") => {
                each_512::<true>(pivots, columns, values, out)
            }
            Isa::Avx512 => each_512::<false>(pivots, columns, values, out),
            Isa::Avx2 => each_256(pivots, columns, values, out),
            Isa::Neon | Isa::Portable => 0,
        }
    }
}

/// # Safety
/// AVX-512 F, DQ and BW, and VBMI2 if it `SHIFTS`.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn each_512<const SHIFTS: bool>(
    pivots: &[Line<[f32; FAN]>],
    columns: impl Iterator<Item = Searched>,
    values: &[f32],
    out: &mut [u8],
) -> usize {
    // SAFETY: as promised to this function.
    unsafe { by_levels!(columns, pivots, values, out, within, SHIFTS) }
}

#[target_feature(enable = "avx2")]
fn each_256(
    pivots: &[Line<[f32; FAN]>],
    columns: impl Iterator<Item = Searched>,
    values: &[f32],
    out: &mut [u8],
) -> usize {
    by_levels!(columns, pivots, values, out, within_256)
}

/// The search of each row as the signs of what pivots leave of its value: two instructions a level beside the permute, and of
/// those one that runs beside it. Signs are ones where a value is below its pivot, so places are counted from the right.
///
/// # Safety
/// As for [`each_512`].
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn within<const L: u32, const SHIFTS: bool>(
    pivots: &[Line<[f32; FAN]>],
    values: &[f32; BLOCK],
    missing: Missing,
    out: &mut [u8; BLOCK],
) {
    /// Registers of rows, side by side so that none waits for its own permutes.
    const R: usize = BLOCK / super::LANES;
    let pivots = &pivots[..blocks_of(L)];
    // The first and second of eight kinds of floats, each of four bits, are NaN: 4 stands for -inf there, 5 for +inf.
    let kinds = _mm512_set1_epi32(match missing {
        Missing::Least => 0x44,
        Missing::Most => 0x55,
    });
    let mut x = [_mm512_setzero_ps(); R];
    for (x, values) in x.iter_mut().zip(values.as_chunks().0) {
        let values = load(values);
        *x = _mm512_fixupimm_ps::<0>(values, values, kinds);
    }
    let mut at = [_mm512_setzero_si512(); R];
    // Of the levels above: which half of a level's pivots, and which quarter of the next one's.
    let mut below: [[__mmask16; R]; 2] = [[0; R]; 2];
    // Written out, since what a level permutes is known only where its number is.
    macro_rules! level {
        ($level:literal) => {
            if $level < L {
                for r in 0..R {
                    let pivot = pick::<$level>(pivots, at[r], [below[0][r], below[1][r]]);
                    if SHIFTS {
                        let left = _mm512_castps_si512(_mm512_sub_ps(x[r], pivot));
                        if $level < 2 {
                            below[$level % 2][r] = _mm512_movepi32_mask(left);
                        }
                        // SAFETY: as promised to this function.
                        at[r] = unsafe { shifted_in(at[r], left) };
                    } else {
                        let lower = _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(pivot, x[r]);
                        if $level < 2 {
                            below[$level % 2][r] = lower;
                        }
                        at[r] = _mm512_add_epi32(at[r], at[r]);
                        at[r] = _mm512_mask_add_epi32(at[r], lower, at[r], _mm512_set1_epi32(1));
                    }
                }
            }
        };
    }
    level!(0);
    level!(1);
    level!(2);
    level!(3);
    level!(4);
    level!(5);
    level!(6);
    level!(7);
    // Packing goes by quarters of registers: four rows' of each of the four.
    let words = [_mm512_packus_epi32(at[0], at[1]), _mm512_packus_epi32(at[2], at[3])];
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let places = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(words[0], words[1]));
    let ranks = _mm512_xor_si512(places, _mm512_set1_epi8(((1u32 << L) - 1) as i8));
    // SAFETY: 64 bytes have the room of 64 bytes.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), ranks) };
}

/// Each word shifted left by one, and into it the highest bit of another. In the library it would need VBMI2 of whoever it is
/// compiled into.
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
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    word
}

/// The pivots of a level at these places. What a permute can't reach of a place is in the masks of the first two levels.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn pick<const LEVEL: u32>(pivots: &[Line<[f32; FAN]>], at: __m512i, below: [__mmask16; 2]) -> __m512 {
    let first = const { blocks_of(LEVEL) };
    let table = |i: usize| load(&pivots[first + i].0);
    let pair = |i: usize| _mm512_permutex2var_ps(table(2 * i), at, table(2 * i + 1));
    let four = |i: usize, m: __mmask16| _mm512_mask_blend_ps(m, pair(2 * i), pair(2 * i + 1));
    match LEVEL {
        0 => _mm512_set1_ps(pivots[first].0[0]),
        1..=4 => _mm512_permutexvar_ps(at, table(0)),
        5 => pair(0),
        6 => four(0, below[0]),
        _ => _mm512_mask_blend_ps(below[0], four(0, below[1]), four(1, below[1])),
    }
}

/// The same eight rows a register: what lies below the first levels is gathered.
#[target_feature(enable = "avx2")]
fn within_256<const L: u32>(
    pivots: &[Line<[f32; FAN]>],
    values: &[f32; BLOCK],
    missing: Missing,
    out: &mut [u8; BLOCK],
) {
    /// Levels whose pivots are permuted.
    const NEAR: u32 = 4;
    let pivots = &pivots[..blocks_of(L)];
    let stands = _mm256_set1_ps(match missing {
        Missing::Least => f32::NEG_INFINITY,
        Missing::Most => f32::INFINITY,
    });
    let turn = _mm256_set1_epi8(((1u32 << L) - 1) as i8);
    for (values, out) in values.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let mut x = [_mm256_setzero_ps(); 4];
        for (x, values) in x.iter_mut().zip(values.as_chunks::<8>().0) {
            // SAFETY: there are eight of them.
            let values = unsafe { _mm256_loadu_ps(values.as_ptr()) };
            *x = _mm256_blendv_ps(values, stands, _mm256_cmp_ps::<_CMP_UNORD_Q>(values, values));
        }
        let mut at = [_mm256_setzero_si256(); 4];
        for level in 0..L {
            let table = pivots[blocks_of(level)..].as_ptr().cast::<f32>();
            // SAFETY: a level has a block at least, of sixteen pivots.
            let near = unsafe { _mm256_loadu_ps(table) };
            for r in 0..4 {
                let pivot = match level < NEAR {
                    true => _mm256_permutevar8x32_ps(near, at[r]),
                    // SAFETY: a place on a level is below its pivots' number, which are rounded up to blocks.
                    false => unsafe { _mm256_i32gather_ps::<4>(table, at[r]) },
                };
                let lower = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_NLE_UQ>(pivot, x[r]));
                at[r] = _mm256_sub_epi32(_mm256_add_epi32(at[r], at[r]), lower);
            }
        }
        let words = [_mm256_packus_epi32(at[0], at[1]), _mm256_packus_epi32(at[2], at[3])];
        // Packing goes by halves of registers: four rows' of each of the four, twice.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let places = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words[0], words[1]), order);
        // SAFETY: 32 bytes have the room of 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_xor_si256(places, turn)) };
    }
}

/// Sixteen values in a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; FAN]) -> __m512 {
    // SAFETY: there are sixteen of them.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// The bits of a table at 64 codes, if the machine is able; otherwise `false`.
pub(in crate::cpu) fn bits(table: &[u8; 32], codes: &Coded, out: &mut [u8; BLOCK]) -> bool {
    match isa() {
        // SAFETY: the machine has just said that it has the instructions.
        Isa::Avx512 => unsafe { bits_512(table, codes, out) },
        // SAFETY: as above.
        Isa::Avx2 => unsafe { bits_256(table, codes, out) },
        Isa::Neon | Isa::Portable => return false,
    }
    true
}

#[target_feature(enable = "avx512f,avx512bw")]
fn bits_512(table: &[u8; 32], codes: &Coded, out: &mut [u8; BLOCK]) {
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

#[target_feature(enable = "avx2")]
fn bits_256(table: &[u8; 32], codes: &Coded, out: &mut [u8; BLOCK]) {
    for i in 0..2 {
        // SAFETY: a table is twice sixteen bytes, codes and what is made of them are twice 32.
        unsafe {
            let half =
                |i: usize| _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().add(16 * i).cast()));
            let byte = _mm256_loadu_si256(codes.byte.as_ptr().add(32 * i).cast());
            let bit = _mm256_loadu_si256(codes.bit.as_ptr().add(32 * i).cast());
            let high = _mm256_cmpgt_epi8(byte, _mm256_set1_epi8(15));
            let [low, above] = [0, 1].map(|i| _mm256_shuffle_epi8(half(i), byte));
            let found = _mm256_blendv_epi8(low, above, high);
            let none = _mm256_cmpeq_epi8(_mm256_and_si256(found, bit), _mm256_setzero_si256());
            let set = _mm256_andnot_si256(none, _mm256_set1_epi8(1));
            _mm256_storeu_si256(out.as_mut_ptr().add(32 * i).cast(), set);
        }
    }
}
