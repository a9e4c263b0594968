//! Groups of splits in registers of 32 bytes, and the values of the leaves that they find.
//!
//! AVX2 compares bytes as signed numbers only, so ranks and thresholds come with their highest bit turned. All numbers on a
//! split's left are below those on its right: what is chosen is the greater of the left one and of the right one, which is 0
//! where a row goes left. That is two instructions, where a blend by bytes is three on many machines.

use std::arch::x86_64::*;

use crate::cpu::{
    blend::{BLOCK, Blend, Bottom, Group, Split, Tree, of},
    line::Line,
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
    std::array::from_fn(|half| _mm256_max_epu8(a[half], _mm256_andnot_si256(left[half], b[half])))
}

/// A leaf's number or the next one, which is `right`.
#[inline]
#[target_feature(enable = "avx2")]
fn pair(left: Rows, right: u8) -> Rows {
    left.map(|left| _mm256_add_epi8(_mm256_set1_epi8(right as i8), left))
}

/// Evaluates a tree's groups for a block of rows.
///
/// # Safety
/// AVX2; `ranks`, turned as the thresholds are, have a block of every column that the tree's splits name, and `values` every block
/// that its groups do.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn evaluate(
    blend: &Blend,
    tree: &Tree,
    ranks: *const u8,
    values: *mut Line<[u8; BLOCK]>,
) -> [u8; BLOCK] {
    // SAFETY: as promised to this function.
    unsafe {
        let left = |split: &Split| left(split, ranks);
        let value = |block: u16| load(values.add(usize::from(block)));
        let store = |block: u16, v: Rows| store(v, values.add(usize::from(block)));
        let from = |v: Rows, first: u8| v.map(|v| _mm256_add_epi8(v, _mm256_set1_epi8(first as i8)));
        if tree.levels.0 != tree.levels.1 {
            let (mut bit, mut found) = (_mm256_set1_epi8(1), [_mm256_setzero_si256(); 2]);
            for split in of(&blend.levels, tree.levels) {
                for (found, left) in found.iter_mut().zip(left(split)) {
                    *found = _mm256_or_si256(*found, _mm256_andnot_si256(left, bit));
                }
                bit = _mm256_add_epi8(bit, bit);
            }
            return bytes(found);
        }
        for Bottom { splits: s, first, out } in of(&blend.bottoms.0, tree.bottoms[0]) {
            store(*out, from(pair(left(&s[0]), 1), *first));
        }
        for Bottom { splits: s, first, out } in of(&blend.bottoms.1, tree.bottoms[1]) {
            let found = choose(left(&s[0]), pair(left(&s[1]), 1), pair(left(&s[2]), 3));
            store(*out, from(found, *first));
        }
        for Bottom { splits: s, first, out } in of(&blend.bottoms.2, tree.bottoms[2]) {
            let a = choose(left(&s[1]), pair(left(&s[3]), 1), pair(left(&s[4]), 3));
            let b = choose(left(&s[2]), pair(left(&s[5]), 5), pair(left(&s[6]), 7));
            store(*out, from(choose(left(&s[0]), a, b), *first));
        }
        for Group { splits: s, children: c, out } in of(&blend.sevens, tree.sevens) {
            let low = |i: usize| choose(left(&s[3 + i]), value(c[2 * i]), value(c[2 * i + 1]));
            let a = choose(left(&s[1]), low(0), low(1));
            let b = choose(left(&s[2]), low(2), low(3));
            store(*out, choose(left(&s[0]), a, b));
        }
        for Group { splits: s, children: c, out } in of(&blend.threes, tree.threes) {
            let a = choose(left(&s[1]), value(c[0]), value(c[1]));
            let b = choose(left(&s[2]), value(c[2]), value(c[3]));
            store(*out, choose(left(&s[0]), a, b));
        }
        for Group { splits: s, children: c, out } in of(&blend.ones, tree.ones) {
            store(*out, choose(left(&s[0]), value(c[0]), value(c[1])));
        }
        bytes(value(tree.root))
    }
}

/// # Safety
/// AVX2; a block is there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(block: *const Line<[u8; BLOCK]>) -> Rows {
    let block: *const __m256i = block.cast();
    // SAFETY: as promised to this function; a block is two registers.
    unsafe { [_mm256_loadu_si256(block), _mm256_loadu_si256(block.add(1))] }
}

/// # Safety
/// AVX2; there is room for a block.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(rows: Rows, block: *mut Line<[u8; BLOCK]>) {
    let block: *mut __m256i = block.cast();
    // SAFETY: as promised to this function; a block is two registers.
    unsafe {
        _mm256_storeu_si256(block, rows[0]);
        _mm256_storeu_si256(block.add(1), rows[1]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn bytes(rows: Rows) -> [u8; BLOCK] {
    let mut bytes = Line([0; BLOCK]);
    // SAFETY: the room is a block's.
    unsafe { store(rows, &mut bytes) };
    bytes.0
}

/// Adds to each sum the value of its row's leaf.
///
/// # Safety
/// AVX2; every number is below the values there are, which are sixteen at least.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn add(numbers: &[u8; BLOCK], values: &[f32], sums: &mut [f32]) {
    let (eights, rest) = sums.as_chunks_mut::<8>();
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
    for (sum, number) in rest.iter_mut().zip(&numbers[done.min(BLOCK)..]) {
        *sum += values[usize::from(*number)];
    }
}
