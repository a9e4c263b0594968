//! Groups of splits in registers of 32 bytes, and the values of the leaves that they find.
//!
//! AVX2 compares bytes as signed numbers only, so ranks and thresholds come with their highest bit turned. All numbers on a
//! split's left are below those on its right: what is chosen is the greater of the left one and of the right one, which is 0
//! where a row goes left. That is two instructions, where a blend by bytes is three on many machines.

use std::arch::x86_64::*;

use crate::cpu::{
    cache_line::CacheLine,
    engine::blend::groups::{BLOCK, Blend, Group, LeafGroup, LeafValues, Split, Tree, of},
};

/// 64 rows.
type Rows = [__m256i; 2];

/// All ones where rows go left, 0 elsewhere.
///
/// # Safety
/// AVX2; `ranks` have a block of the split's column.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn left(split: &Split, ranks: *const u8) -> Rows {
    let threshold = _mm256_set1_epi32(split.threshold as i32);
    // SAFETY: as promised to this function; a block is two registers.
    std::array::from_fn(|half| unsafe {
        let column = _mm256_loadu_si256(ranks.add(split.column as usize + 32 * half).cast());
        _mm256_cmpgt_epi8(threshold, column)
    })
}

/// The left one where a row goes left, otherwise the right one, which is no less.
#[inline]
#[target_feature(enable = "avx2")]
fn choose(left: Rows, a: Rows, b: Rows) -> Rows {
    [_mm256_max_epu8(a[0], without(left[0], b[0])), _mm256_max_epu8(a[1], without(left[1], b[1]))]
}

/// What the mask leaves of a register. As an operation that compilers know it becomes, together with what follows, the blend by bytes
/// that is to be saved.
#[inline]
#[target_feature(enable = "avx2")]
fn without(mask: __m256i, of: __m256i) -> __m256i {
    let out;
    // SAFETY: an instruction between registers, of AVX2.
    unsafe {
        std::arch::asm!(
            "vpandn {0}, {1}, {2}",
            lateout(ymm_reg) out, in(ymm_reg) mask, in(ymm_reg) of,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    out
}

/// A leaf's number or the next one, which is `right`.
#[inline]
#[target_feature(enable = "avx2")]
fn pair(left: Rows, right: u8) -> Rows {
    left.map(|left| _mm256_add_epi8(_mm256_set1_epi8(right as i8), left))
}

/// Evaluates a tree's groups for some blocks of rows, one after the other in each group: what is loaded and foreseen of a group serves
/// them all.
///
/// # Safety
/// AVX2; `ranks`, turned as the thresholds are, have a block of every column that the tree's splits name, and `values` every block
/// that its groups do.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn evaluate<const R: usize>(
    blend: &Blend,
    tree: &Tree,
    ranks: [*const u8; R],
    values: [*mut CacheLine<[u8; BLOCK]>; R],
) -> [CacheLine<[u8; BLOCK]>; R] {
    let mut numbers = [CacheLine([0; BLOCK]); R];
    // SAFETY: as promised to this function.
    unsafe {
        let left = |split: &Split, r: usize| left(split, ranks[r]);
        let value = |block: u16, r: usize| load(values[r].add(usize::from(block)));
        let put = |block: u16, r: usize, v: Rows| store(v, values[r].add(usize::from(block)));
        let from = |v: Rows, first: u8| v.map(|v| _mm256_add_epi8(v, _mm256_set1_epi8(first as i8)));
        if tree.levels.0 != tree.levels.1 {
            for (r, numbers) in numbers.iter_mut().enumerate() {
                let (mut bit, mut found) = (_mm256_set1_epi8(1), [_mm256_setzero_si256(); 2]);
                for split in of(&blend.levels, tree.levels) {
                    for (found, left) in found.iter_mut().zip(left(split, r)) {
                        *found = _mm256_or_si256(*found, _mm256_andnot_si256(left, bit));
                    }
                    bit = _mm256_add_epi8(bit, bit);
                }
                store(found, numbers);
            }
            return numbers;
        }
        for LeafGroup { splits: s, first, out } in of(&blend.bottoms.0, tree.bottoms[0]) {
            for r in 0..R {
                put(*out, r, from(pair(left(&s[0], r), 1), *first));
            }
        }
        for LeafGroup { splits: s, first, out } in of(&blend.bottoms.1, tree.bottoms[1]) {
            for r in 0..R {
                let found = choose(left(&s[0], r), pair(left(&s[1], r), 1), pair(left(&s[2], r), 3));
                put(*out, r, from(found, *first));
            }
        }
        for LeafGroup { splits: s, first, out } in of(&blend.bottoms.2, tree.bottoms[2]) {
            for r in 0..R {
                let a = choose(left(&s[1], r), pair(left(&s[3], r), 1), pair(left(&s[4], r), 3));
                let b = choose(left(&s[2], r), pair(left(&s[5], r), 5), pair(left(&s[6], r), 7));
                put(*out, r, from(choose(left(&s[0], r), a, b), *first));
            }
        }
        for Group { splits: s, children: c, out } in of(&blend.sevens, tree.sevens) {
            for r in 0..R {
                let low = |i: usize| choose(left(&s[3 + i], r), value(c[2 * i], r), value(c[2 * i + 1], r));
                let a = choose(left(&s[1], r), low(0), low(1));
                let b = choose(left(&s[2], r), low(2), low(3));
                put(*out, r, choose(left(&s[0], r), a, b));
            }
        }
        for Group { splits: s, children: c, out } in of(&blend.threes, tree.threes) {
            for r in 0..R {
                let a = choose(left(&s[1], r), value(c[0], r), value(c[1], r));
                let b = choose(left(&s[2], r), value(c[2], r), value(c[3], r));
                put(*out, r, choose(left(&s[0], r), a, b));
            }
        }
        for Group { splits: s, children: c, out } in of(&blend.ones, tree.ones) {
            for r in 0..R {
                put(*out, r, choose(left(&s[0], r), value(c[0], r), value(c[1], r)));
            }
        }
        for (r, numbers) in numbers.iter_mut().enumerate() {
            store(value(tree.root, r), numbers);
        }
    }
    numbers
}

/// Evaluates a tree for some blocks of rows, and adds to the sum of each row, as many as there are sums, the value of its leaf.
///
/// # Safety
/// As for [`evaluate`]; every number that the tree has is one of a value of `own`, padded as [`crate::cpu::engine::blend::evaluate::padded`] says.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn add_up<const R: usize>(
    blend: &Blend,
    tree: &Tree,
    ranks: [*const u8; R],
    values: [*mut CacheLine<[u8; BLOCK]>; R],
    own: LeafValues<'_>,
    sums: &mut [f32],
) {
    // SAFETY: as promised to this function.
    unsafe {
        let numbers = evaluate(blend, tree, ranks, values);
        numbers.iter().zip(sums.chunks_mut(BLOCK)).for_each(|(numbers, sums)| add(&numbers.0, own, sums));
    }
}

/// # Safety
/// AVX2; a block is there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(block: *const CacheLine<[u8; BLOCK]>) -> Rows {
    let block: *const __m256i = block.cast();
    // SAFETY: as promised to this function; a block is two registers.
    unsafe { [_mm256_loadu_si256(block), _mm256_loadu_si256(block.add(1))] }
}

/// # Safety
/// AVX2; there is room for a block.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(rows: Rows, block: *mut CacheLine<[u8; BLOCK]>) {
    let block: *mut __m256i = block.cast();
    // SAFETY: as promised to this function; a block is two registers.
    unsafe {
        _mm256_storeu_si256(block, rows[0]);
        _mm256_storeu_si256(block.add(1), rows[1]);
    }
}

/// Adds to each sum the value of its row's leaf.
///
/// # Safety
/// AVX2; every number is below the values there are, which are sixteen at least, and below 64 where there are planes.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn add(numbers: &[u8; BLOCK], own: LeafValues<'_>, sums: &mut [f32]) {
    let LeafValues { singles: values, planes } = own;
    let done = match (planes, values.len()) {
        ([a, b, c, d], ..=32) => add_bytes::<2>(numbers, [a, b, c, d], sums),
        ([a, b, c, d], ..=64) => add_bytes::<4>(numbers, [a, b, c, d], sums),
        _ => 0,
    };
    let (eights, rest) = sums[done..].as_chunks_mut::<8>();
    let numbers = &numbers[done..];
    let done = 8 * eights.len();
    let first = values.as_ptr();
    // SAFETY: there are sixteen values.
    let near = unsafe { [_mm256_loadu_ps(first), _mm256_loadu_ps(first.add(8))] };
    for (sums, numbers) in eights.iter_mut().zip(numbers.as_chunks::<8>().0) {
        // SAFETY: eight numbers and eight sums are there, and every number has its value.
        unsafe {
            let at = _mm256_cvtepu8_epi32(_mm_loadl_epi64(numbers.as_ptr().cast()));
            let own = match values.len() {
                ..=16 => {
                    let [low, high] = near.map(|near| _mm256_permutevar8x32_ps(near, at));
                    // The fourth bit says which, as the highest.
                    _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(at)))
                }
                _ => _mm256_i32gather_ps::<4>(first, at),
            };
            _mm256_storeu_ps(sums.as_mut_ptr(), _mm256_add_ps(_mm256_loadu_ps(sums.as_ptr()), own));
        }
    }
    for (sum, number) in rest.iter_mut().zip(&numbers[done.min(numbers.len())..]) {
        *sum += values[usize::from(*number)];
    }
}

/// The same of 32 rows at a time, by the bytes of at most `16 * TABLES` values: see
/// [`LeafValues::planes`](crate::cpu::engine::blend::groups::LeafValues::planes). Says of how many.
#[inline]
#[target_feature(enable = "avx2")]
fn add_bytes<const TABLES: usize>(
    numbers: &[u8; BLOCK],
    planes: [&CacheLine<[u8; BLOCK]>; 4],
    sums: &mut [f32],
) -> usize {
    // Half a register ends as rows that stand eight apart, so they begin there.
    let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    let whole = sums.as_chunks_mut::<32>().0;
    let done = 32 * whole.len();
    for (sums, numbers) in whole.iter_mut().zip(numbers.as_chunks::<32>().0) {
        // SAFETY: there are 32 of them.
        let numbers = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
        let numbers = _mm256_permutevar8x32_epi32(numbers, order);
        // What a table of sixteen has no place for gets its highest bit, and so a zero.
        let mut at = [numbers; TABLES];
        for (k, at) in at.iter_mut().enumerate() {
            let within = _mm256_sub_epi8(numbers, _mm256_set1_epi8(16 * k as i8));
            *at = _mm256_adds_epu8(within, _mm256_set1_epi8(0x70));
        }
        let mut bytes = [_mm256_setzero_si256(); 4];
        for (byte, plane) in bytes.iter_mut().zip(planes) {
            for (at, table) in at.iter().zip(plane.0.as_chunks::<16>().0) {
                // SAFETY: a table is sixteen bytes.
                let table = unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast())) };
                *byte = _mm256_or_si256(*byte, _mm256_shuffle_epi8(table, *at));
            }
        }
        let low = [_mm256_unpacklo_epi8(bytes[0], bytes[1]), _mm256_unpacklo_epi8(bytes[2], bytes[3])];
        let upper = [_mm256_unpackhi_epi8(bytes[0], bytes[1]), _mm256_unpackhi_epi8(bytes[2], bytes[3])];
        let values = [
            _mm256_unpacklo_epi16(low[0], low[1]),
            _mm256_unpackhi_epi16(low[0], low[1]),
            _mm256_unpacklo_epi16(upper[0], upper[1]),
            _mm256_unpackhi_epi16(upper[0], upper[1]),
        ];
        for (value, sums) in values.into_iter().zip(sums.as_chunks_mut::<8>().0) {
            // SAFETY: there are eight of them.
            unsafe {
                let sum = _mm256_add_ps(_mm256_loadu_ps(sums.as_ptr()), _mm256_castsi256_ps(value));
                _mm256_storeu_ps(sums.as_mut_ptr(), sum);
            }
        }
    }
    done
}
