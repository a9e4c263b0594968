//! Ranks of one byte, for 64 rows of a column in four registers. A search looks up all its pivots with
//! permutes of registers.

use std::{arch::x86_64::*, ops::Range};

use super::{super::rank::pairs_of, LANES};
use crate::{
    arrays::MapInline,
    cpu::{
        arch::CountingLoops,
        cache_line::{CacheLine, flat},
        ranking::{
            compressed::{CompressedBlock, CompressedColumn},
            count::FAN,
            search::{
                CategoryBits, ColumnSearch, Columns, MOST_LEVELS, Missing, ROW_BLOCK, cache_lines_of,
                each_level, first_pivot,
            },
        },
        rows::Read,
    },
    sparse::SparseMatrix,
};

// A cache line of pivots fills a register.
const _: () = assert!(FAN == LANES);

/// Calls a macro with each run of searches with the same kernel, its levels, and the pairs of cache lines of the last
/// level.
macro_rules! each_run {
    ($columns:expr, $of:ident) => {
        let mut columns: &[ColumnSearch] = $columns;
        while let Some(first) = columns.first() {
            let run;
            (run, columns) = columns.split_at(columns.len().min(first.run as usize));
            match first.search.kernel() {
                (0, _) => $of!(run, 0, 1),
                (1, _) => $of!(run, 1, 1),
                (2, _) => $of!(run, 2, 1),
                (3, _) => $of!(run, 3, 1),
                (4, _) => $of!(run, 4, 1),
                (5, _) => $of!(run, 5, 1),
                (6, _) => $of!(run, 6, 1),
                (7, 1) => $of!(run, 7, 1),
                (7, _) => $of!(run, 7, 2),
                (_, 1) => $of!(run, MOST_LEVELS, 1),
                (_, 2) => $of!(run, MOST_LEVELS, 2),
                _ => $of!(run, MOST_LEVELS, 4),
            }
        }
    };
}

/// Runs loops that count thresholds.
#[target_feature(enable = "avx512f,avx512dq,popcnt")]
pub(in crate::cpu::arch::x86) fn counting(loops: impl CountingLoops) {
    loops.run(|group, value| {
        // SAFETY: `group` has sixteen thresholds.
        let group = unsafe { _mm512_loadu_ps(group.as_ptr()) };
        _mm512_cmp_ps_mask::<_CMP_LE_OQ>(group, _mm512_set1_ps(value)).count_ones()
    });
}

/// Ranks 64 rows of each column, a run of columns with the same kernel at a time. `SHIFTS` says that the
/// kernels may use VBMI2.
///
/// # Safety
/// The machine has AVX-512 F, DQ and BW, and VBMI2 if `SHIFTS` is true.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
pub(in crate::cpu::arch::x86) unsafe fn each<const SHIFTS: bool>(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    mut out: Columns<&mut [u8]>,
) {
    macro_rules! of {
        ($run:ident, $levels:expr, $pairs:literal) => {
            // SAFETY: the caller upholds that the machine has AVX-512 F, DQ and BW, and VBMI2 if `SHIFTS` is
            // true.
            unsafe { some::<{ $levels }, $pairs, SHIFTS>(pivots, $run, values, &mut out) }
        };
    }
    each_run!(columns, of);
}

/// Ranks columns two at a time. With one column at a time, its registers would wait for each other's
/// permutes.
///
/// # Safety
/// The machine has AVX-512 F, DQ and BW, and VBMI2 if `SHIFTS` is true.
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn some<const L: u32, const T: usize, const SHIFTS: bool>(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch],
    values: Columns<&[f32]>,
    out: &mut Columns<&mut [u8]>,
) {
    let (twos, one) = columns.as_chunks();
    for two in twos {
        // SAFETY: the caller upholds that the machine has the instructions. Two columns take eight registers.
        unsafe { within::<L, T, SHIFTS, 2, 8>(pivots, two, values, out) };
    }
    if let Ok(one) = one.try_into() {
        // SAFETY: the caller upholds that the machine has the instructions. One column takes four registers.
        unsafe { within::<L, T, SHIFTS, 1, 4>(pivots, one, values, out) };
    }
}

/// Registers that 64 rows of a column take.
const R: usize = ROW_BLOCK / LANES;

/// Searches the thresholds of `C` columns for 64 rows, in `N` registers.
///
/// # Safety
/// The machine has AVX-512 F, DQ and BW, and VBMI2 if `SHIFTS` is true.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn within<const L: u32, const T: usize, const SHIFTS: bool, const C: usize, const N: usize>(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch; C],
    values: Columns<&[f32]>,
    out: &mut Columns<&mut [u8]>,
) {
    const { assert!(N == C * R) };
    let mut x = [_mm512_setzero_ps(); N];
    for (x, column) in x.chunks_exact_mut(R).zip(columns) {
        let values = values.column(column.from).as_chunks().0;
        x.iter_mut().zip(values).for_each(|(x, values)| *x = load(values));
    }
    // SAFETY: the caller upholds that the machine has the instructions.
    let at = unsafe { indices::<L, T, SHIFTS, C, R, N>(pivots, columns, x) };
    for (at, column) in at.chunks_exact(R).zip(columns) {
        let ranks = ranks::<L, T>(bytes([at[0], at[1], at[2], at[3]]), column);
        // SAFETY: a column of `out` has room for 64 bytes.
        unsafe { _mm512_storeu_si512(out.column(column.to).as_mut_ptr().cast(), ranks) };
    }
}

/// Searches the thresholds of `C` columns for values in `N` registers, `R` of each column. Returns the values' indices
/// below the last level. All columns have `L` levels, and the pivots of the last level are in `T` pairs of cache lines.
///
/// The sign of a value minus its pivot is the decision of a level. Besides the permute, a level takes two
/// instructions, and one of them runs beside the permute. A sign is 1 if a value is below its pivot, so
/// indices are counted from the right.
///
/// # Safety
/// The machine has AVX-512 F, DQ and BW, and VBMI2 if `SHIFTS` is true.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw")]
unsafe fn indices<
    const L: u32,
    const T: usize,
    const SHIFTS: bool,
    const C: usize,
    const R: usize,
    const N: usize,
>(
    pivots: &[CacheLine<[f32; FAN]>],
    columns: &[ColumnSearch; C],
    mut x: [__m512; N],
) -> [__m512i; N] {
    const { assert!(N == C * R) };
    let mut of: [&[f32]; C] = [&[]; C];
    for (c, column) in columns.iter().enumerate() {
        of[c] = flat(&pivots[column.search.begin as usize..][..const { cache_lines_of(L) }]);
        for x in &mut x[R * c..][..R] {
            // If one of two operands is NaN, both instructions return the second. `vfixupimmps` would serve
            // both cases, but it runs on the port of the shifts alone.
            *x = match column.search.missing {
                Missing::Least => _mm512_max_ps(*x, _mm512_set1_ps(f32::NEG_INFINITY)),
                Missing::Most => _mm512_min_ps(*x, _mm512_set1_ps(f32::INFINITY)),
            };
        }
    }
    let mut at = [_mm512_setzero_si512(); N];
    // The decisions of the first two levels. They say in which half and in which quarter of a later level's
    // pivots an index is.
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
                        // SAFETY: `SHIFTS` is true, so the caller upholds that the machine has VBMI2.
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
    at
}

/// Packs the words of four registers into bytes, in their order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn bytes(words: [__m512i; R]) -> __m512i {
    // Packing works within the quarters of registers, so each quarter has four words of each of the four
    // registers.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let pairs = [_mm512_packus_epi32(words[0], words[1]), _mm512_packus_epi32(words[2], words[3])];
    _mm512_permutexvar_epi32(order, _mm512_packus_epi16(pairs[0], pairs[1]))
}

/// Returns the ranks of the values with these indices below the last level of a search.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn ranks<const L: u32, const T: usize>(indices: __m512i, column: &ColumnSearch) -> __m512i {
    match const { T < pairs_of(L.saturating_sub(1)) } {
        true => {
            let [count, double] = column.search.rank().map_inline(|byte| _mm512_set1_epi8(byte as i8));
            _mm512_sub_epi8(count, _mm512_min_epu8(indices, _mm512_avg_epu8(indices, double)))
        }
        false => _mm512_xor_si512(indices, _mm512_set1_epi8(((1u32 << L) - 1) as i8)),
    }
}

/// Ranks a row block of sparse rows by the searches of its columns, a run of searches with the same kernel at a time.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi2,popcnt")]
pub(in crate::cpu::arch::x86) fn compressed<T: Read<f32> + Copy + Default + PartialEq>(
    block: CompressedBlock<'_, T>,
) {
    let CompressedBlock { matrix, rows, columns, pivots, searches, absent, out } = block;
    compress(matrix, rows, columns);
    macro_rules! of {
        ($run:ident, $levels:expr, $pairs:literal) => {
            compressed_run::<{ $levels }, $pairs>(pivots, $run, columns, absent, out)
        };
    }
    each_run!(searches, of);
}

/// Reads rows into compressed columns.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi2,popcnt")]
fn compress<T: Read<f32> + Copy + Default + PartialEq>(
    matrix: &SparseMatrix<T>,
    rows: Range<usize>,
    columns: &mut [CompressedColumn],
) {
    columns.iter_mut().for_each(|column| column.held = 0);
    for (row, of_matrix) in rows.take(ROW_BLOCK).enumerate() {
        let (of_row, values) = matrix.elements_of(of_matrix);
        for (column, value) in of_row.iter().zip(values) {
            let column = &mut columns[*column as usize];
            if let Some(next) = column.values.get_mut(column.held.count_ones() as usize) {
                *next = value.read();
            }
            column.held |= 1 << row;
        }
    }
}

/// Ranks compressed columns by searches with the same kernel. At most sixteen values of a column fill one register.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi2,popcnt")]
fn compressed_run<const L: u32, const T: usize>(
    pivots: &[CacheLine<[f32; FAN]>],
    run: &[ColumnSearch],
    columns: &[CompressedColumn],
    absent: &[u8],
    out: &mut [[u8; ROW_BLOCK]],
) {
    let (eights, rest) = run.as_chunks::<8>();
    for eight in eights {
        let most =
            eight.map_inline(|column| columns[column.from as usize].held.count_ones()).into_iter().max();
        if most <= Some(LANES as u32) {
            compressed_columns::<L, T, 8, 1, 8>(pivots, eight, columns, absent, out);
        } else {
            for two in eight.as_chunks().0 {
                compressed_columns::<L, T, 2, R, 8>(pivots, two, columns, absent, out);
            }
        }
    }
    for one in rest.as_chunks().0 {
        compressed_columns::<L, T, 1, R, 4>(pivots, one, columns, absent, out);
    }
}

/// Ranks `C` compressed columns, in `R` registers each: `N` registers.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi2")]
fn compressed_columns<const L: u32, const T: usize, const C: usize, const R: usize, const N: usize>(
    pivots: &[CacheLine<[f32; FAN]>],
    searches: &[ColumnSearch; C],
    columns: &[CompressedColumn],
    absent: &[u8],
    out: &mut [[u8; ROW_BLOCK]],
) {
    let mut x = [_mm512_setzero_ps(); N];
    for (x, search) in x.chunks_exact_mut(R).zip(searches) {
        let values = columns[search.from as usize].values.as_chunks().0;
        x.iter_mut().zip(values).for_each(|(x, values)| *x = load(values));
    }
    // SAFETY: the machine has AVX-512 F, DQ, BW and VBMI2.
    let at = unsafe { indices::<L, T, true, C, R, N>(pivots, searches, x) };
    for (at, search) in at.chunks_exact(R).zip(searches) {
        let at = match at {
            [a, b, c, d] => bytes([*a, *b, *c, *d]),
            _ => _mm512_castsi128_si512(_mm512_cvtepi32_epi8(at[0])),
        };
        let absent = _mm512_set1_epi8(absent[search.to as usize] as i8);
        let ranks =
            _mm512_mask_expand_epi8(absent, columns[search.from as usize].held, ranks::<L, T>(at, search));
        // SAFETY: a column of `out` has 64 bytes.
        unsafe { _mm512_storeu_si512(out[search.to as usize].as_mut_ptr().cast(), ranks) };
    }
}

/// Shifts each word left by one, and the highest bit of another word into it. As an intrinsic, it would need
/// VBMI2 in every function that it is inlined into.
///
/// The assembly is declared to have effects, so the compiler keeps these instructions in the order in which
/// they are written: one level of all registers, then the next level. In the other order, all levels of one
/// register are as many instructions as the processor looks ahead, and they wait for each other.
///
/// # Safety
/// The machine has AVX-512 VBMI2.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn shifted_in(mut word: __m512i, bits: __m512i) -> __m512i {
    // SAFETY: the caller upholds that the machine has VBMI2. The assembly is one instruction between
    // registers.
    unsafe {
        std::arch::asm!(
            "vpshldd {0}, {0}, {1}, 1",
            inout(zmm_reg) word, in(zmm_reg) bits,
            options(nomem, nostack, preserves_flags),
        );
    }
    word
}

/// Returns the pivots of a level at sixteen indices. They stand in the first `pairs` pairs of the level's
/// cache lines. A permute reads at most five bits of an index; `below` has the others, the decisions of the
/// first two levels.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn pick<const LEVEL: u32>(pivots: &[f32], pairs: usize, at: __m512i, below: [__mmask16; 2]) -> __m512 {
    let own = &pivots[const { first_pivot(LEVEL) }..];
    let table = |i: usize| load(own[FAN * i..].first_chunk().expect("a line"));
    let pair = |i: usize| _mm512_permutex2var_ps(table(2 * i), at, table(2 * i + 1));
    let four = |i: usize, m: __mmask16| _mm512_mask_blend_ps(m, pair(2 * i), pair(2 * i + 1));
    match (LEVEL, pairs) {
        (0, _) => _mm512_set1_ps(own[0]),
        // These levels share a cache line, in which at least eight pivots follow.
        (1..=3, _) => {
            let own: &[f32; 8] = own.first_chunk().expect("the rest of a line");
            // SAFETY: `own` has eight pivots.
            _mm512_permutexvar_ps(at, _mm512_castps256_ps512(unsafe { _mm256_loadu_ps(own.as_ptr()) }))
        }
        (4, _) => _mm512_permutexvar_ps(at, table(0)),
        (_, 1) => pair(0),
        // The masks have all bits of an index but the last five.
        (_, 2) => four(0, below[LEVEL as usize - 6]),
        _ => _mm512_mask_blend_ps(below[0], four(0, below[1]), four(1, below[1])),
    }
}

/// Loads sixteen values into a register.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(values: &[f32; FAN]) -> __m512 {
    // SAFETY: `values` has sixteen values.
    unsafe { _mm512_loadu_ps(values.as_ptr()) }
}

/// Writes for each of 64 codes its bit in a table.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::cpu::arch::x86) fn bits(table: &[u8; 32], codes: &CategoryBits, out: &mut [u8; ROW_BLOCK]) {
    // SAFETY: a table has two halves of sixteen bytes. The codes and `out` have 64 bytes.
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
