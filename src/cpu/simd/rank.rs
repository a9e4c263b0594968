//! Ranks of a byte in registers: 64 rows of a column by a search whose pivots are permuted, or by a table of bits.

use std::arch::x86_64::*;

use crate::cpu::{
    isa::{Isa, isa},
    line::{Line, flat},
    ranking::count::FAN,
    ranking::search::{
        BLOCK, Coded, Columns, MOST_LEVELS, Missing, Search, Searched, by_levels, each_level, first_of,
        lines_of,
    },
};

// A line of pivots is a register.
const _: () = assert!(FAN == super::LANES);

/// Ranks as [`ranks`](crate::cpu::ranking::search::ranks) does.
pub(in crate::cpu) fn ranks(
    pivots: &[Line<[f32; FAN]>],
    columns: &[Searched],
    values: Columns<&[f32]>,
    out: Columns<&mut [u8]>,
) -> bool {
    // SAFETY: the machine has just said that it has the instructions.
    unsafe {
        match isa() {
            Isa::Avx512 if is_x86_feature_detected!("avx512vbmi2") => {
                each_512::<true>(pivots, columns, values, out)
            }
            Isa::Avx512 => each_512::<false>(pivots, columns, values, out),
            Isa::Avx2 => each_256(pivots, columns, values, out),
            Isa::Neon | Isa::Portable => return false,
        }
    }
    true
}

/// # Safety
/// AVX-512 F, DQ and BW, and VBMI2 if it `SHIFTS`.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn each_512<const SHIFTS: bool>(
    pivots: &[Line<[f32; FAN]>],
    columns: &[Searched],
    values: Columns<&[f32]>,
    mut out: Columns<&mut [u8]>,
) {
    macro_rules! of {
        ($run:ident, $levels:expr, $pairs:literal) => {
            // SAFETY: as promised to this function.
            unsafe { some_512::<{ $levels }, $pairs, SHIFTS>(pivots, $run, values, &mut out) }
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
/// As for [`each_512`].
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn some_512<const L: u32, const T: usize, const SHIFTS: bool>(
    pivots: &[Line<[f32; FAN]>],
    columns: &[Searched],
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

#[target_feature(enable = "avx2")]
fn each_256(
    pivots: &[Line<[f32; FAN]>],
    columns: &[Searched],
    values: Columns<&[f32]>,
    mut out: Columns<&mut [u8]>,
) {
    by_levels!(columns, pivots, values, out, within_256);
}

/// Registers of 64 rows.
const R: usize = BLOCK / super::LANES;

/// The search of each row as the signs of what pivots leave of its value: two instructions a level beside the permute, and of
/// those one that runs beside it. Signs are ones where a value is below its pivot, so places are counted from the right.
///
/// Of `C` columns in `N` registers, all of `L` levels, the last of which has its pivots in `T` pairs of lines.
///
/// # Safety
/// As for [`each_512`].
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn within<const L: u32, const T: usize, const SHIFTS: bool, const C: usize, const N: usize>(
    pivots: &[Line<[f32; FAN]>],
    columns: &[Searched; C],
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

/// Pairs of lines that a level has: one at least.
const fn pairs_of(level: u32) -> usize {
    (1usize << level).div_ceil(2 * FAN)
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

/// The search of 64 rows in eight registers. What lies below the first five levels is gathered.
#[target_feature(enable = "avx2")]
fn within_256<const L: u32>(pivots: &[f32], search: Search, values: &[f32; BLOCK], out: &mut [u8; BLOCK]) {
    const EIGHT: usize = 8;
    assert!(pivots.len() == const { FAN * lines_of(L) });
    let mut x = [_mm256_setzero_ps(); BLOCK / EIGHT];
    for (x, values) in x.iter_mut().zip(values.as_chunks::<EIGHT>().0) {
        // SAFETY: there are eight of them.
        let values = unsafe { _mm256_loadu_ps(values.as_ptr()) };
        // Where one of two is NaN, both give the second.
        *x = match search.missing {
            Missing::Least => _mm256_max_ps(values, _mm256_set1_ps(f32::NEG_INFINITY)),
            Missing::Most => _mm256_min_ps(values, _mm256_set1_ps(f32::INFINITY)),
        };
    }
    let mut at = [_mm256_setzero_si256(); BLOCK / EIGHT];
    macro_rules! level {
        ($level:literal) => {
            if $level < L {
                for (at, x) in at.iter_mut().zip(x) {
                    // SAFETY: a place on a level is below its pivots' number.
                    let pivot = unsafe { pick_256::<$level>(&pivots[const { first_of($level) }..], *at) };
                    let lower = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_NLE_UQ>(pivot, x));
                    *at = in_order(_mm256_sub_epi32(_mm256_add_epi32(*at, *at), lower));
                }
            }
        };
    }
    each_level!(level);
    let turn = _mm256_set1_epi8(((1u32 << L) - 1) as i8);
    let [count, double] = search.rank().map(|byte| _mm256_set1_epi8(byte as i8));
    for (at, out) in at.as_chunks::<4>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        let words = [_mm256_packus_epi32(at[0], at[1]), _mm256_packus_epi32(at[2], at[3])];
        // Packing goes by halves of registers: four rows' of each of the four, twice.
        let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        let places = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(words[0], words[1]), order);
        let ranks = match const { pairs_of(L.saturating_sub(1)) } {
            1 => _mm256_xor_si256(places, turn),
            _ => _mm256_sub_epi8(count, _mm256_min_epu8(places, _mm256_avg_epu8(places, double))),
        };
        // SAFETY: 32 bytes have the room of 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), ranks) };
    }
}

/// The pivots of a level at these places.
///
/// # Safety
/// AVX2; the places are below the number of the level's pivots, which are the first of these.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pick_256<const LEVEL: u32>(pivots: &[f32], at: __m256i) -> __m256 {
    let eight = |i: usize| {
        let own: &[f32; 8] = pivots[8 * i..].first_chunk().expect("eight pivots of a line");
        // SAFETY: there are eight of them.
        unsafe { _mm256_loadu_ps(own.as_ptr()) }
    };
    match LEVEL {
        0 => _mm256_set1_ps(pivots[0]),
        1..=3 => _mm256_permutevar8x32_ps(eight(0), at),
        4 => {
            let [low, high] = [0, 1].map(|i| _mm256_permutevar8x32_ps(eight(i), at));
            // The fourth bit of a place as its sign.
            let half = _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at));
            _mm256_blendv_ps(low, high, half)
        }
        // SAFETY: as promised to this function.
        _ => unsafe { _mm256_i32gather_ps::<4>(pivots.as_ptr(), at) },
    }
}

/// What it is given, where the compiler can't put it elsewhere: see [`shifted_in`].
#[inline]
#[target_feature(enable = "avx2")]
fn in_order(mut word: __m256i) -> __m256i {
    // SAFETY: it is no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(ymm_reg) word, options(nomem, nostack, preserves_flags)) };
    word
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::ranking::search::lay_out;

    type Ranked = unsafe fn(&[Line<[f32; FAN]>], &[Searched], Columns<&[f32]>, Columns<&mut [u8]>);

    /// Every way that this machine is able of, those among them that it would not take, with values in all gaps of the thresholds.
    #[test]
    fn kernels_agree() {
        const COLUMNS: usize = 5;
        let mut ways: Vec<Ranked> = Vec::new();
        if is_x86_feature_detected!("avx2") {
            ways.push(each_256);
        }
        if is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512bw") {
            ways.push(each_512::<false>);
            if is_x86_feature_detected!("avx512vbmi2") {
                ways.push(each_512::<true>);
            }
        }
        let odd = [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, f32::MIN, f32::MAX];
        let gaps = BLOCK - odd.len();
        let gap = |i: usize| (i / BLOCK * gaps + i % BLOCK - odd.len()) as f32 - 12.0 + (i % 2) as f32 * 0.5;
        let value = |i: usize| odd.get(i % BLOCK).copied().unwrap_or_else(|| gap(i));
        let values: Vec<f32> = (0..COLUMNS * BLOCK).map(value).collect();
        let of = Columns { of: &values[..], apart: BLOCK };
        for count in 0..=255usize {
            let mut pivots = Vec::new();
            let thresholds: [Vec<f32>; COLUMNS] = std::array::from_fn(|c| {
                (0..count.saturating_sub(c % 2)).map(|i| (i + 3 * c) as f32 - 8.0).collect()
            });
            let searches =
                thresholds.each_ref().map(|own| lay_out(own, &mut pivots).expect("finite thresholds"));
            for turn in 0..COLUMNS {
                let columns: [Searched; COLUMNS] = std::array::from_fn(|c| {
                    let missing = if c == 1 { Missing::Most } else { Missing::Least };
                    Searched::new(searches[c].of_missing(missing), ((c + turn) % COLUMNS) as u32, c as u32)
                });
                let mut together = columns;
                Searched::count_runs(&mut together);
                for (way, columns) in ways.iter().flat_map(|way| [(way, &columns), (way, &together)]) {
                    let mut out = [0xee; COLUMNS * BLOCK];
                    // SAFETY: the machine is able of it.
                    unsafe { way(&pivots, columns, of, Columns { of: &mut out, apart: BLOCK }) };
                    for (c, column) in columns.iter().enumerate() {
                        for (value, rank) in of.column(column.from).iter().zip(&out[c * BLOCK..]) {
                            let expected = match value.is_nan() {
                                true if c == 1 => thresholds[c].len(),
                                true => 0,
                                false => thresholds[c].partition_point(|t| t <= value),
                            };
                            assert_eq!(usize::from(*rank), expected, "{value:e} among {count}, column {c}");
                        }
                    }
                }
            }
        }
    }
}
