//! Groups of splits in registers of 32 bytes, and the values of the leaves that they find.
//!
//! AVX2 compares bytes as signed numbers only, so ranks and thresholds have their highest bit flipped. All
//! exit numbers on a split's left are below those on its right. So a choice is the maximum of the left number
//! and of the right number, which is set to 0 if a row goes left. These are two instructions; the instruction
//! that selects bytes by a mask (`vpblendvb`) counts as three on many machines.

use std::arch::x86_64::*;

use crate::{
    arrays::{self, MapInline},
    cpu::{
        cache_line::CacheLine,
        engine::blend::groups::{Blend, Group, LeafGroup, LeafValues, ROW_BLOCK, Split, Tree, of},
    },
};

/// A byte for each of 64 rows.
type Rows = [__m256i; 2];

/// Returns all ones for the rows that go left, and 0 for the others.
///
/// # Safety
/// The machine has AVX2. `ranks` has 64 bytes for the split's column.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn left(split: &Split, ranks: *const u8) -> Rows {
    let threshold = _mm256_set1_epi32(split.threshold as i32);
    // SAFETY: the caller upholds that `ranks` has 64 bytes for the column. They fill two registers.
    arrays::from_fn(|half| unsafe {
        let column = _mm256_loadu_si256(ranks.add(split.column as usize + 32 * half).cast());
        _mm256_cmpgt_epi8(threshold, column)
    })
}

/// Returns `a` for the rows that go left, and `b` for the others. No number in `b` is less than the one in
/// `a`.
#[inline]
#[target_feature(enable = "avx2")]
fn choose(left: Rows, a: Rows, b: Rows) -> Rows {
    [_mm256_max_epu8(a[0], without(left[0], b[0])), _mm256_max_epu8(a[1], without(left[1], b[1]))]
}

/// Clears the bits of `of` that are set in `mask`. Compilers would combine an intrinsic and the maximum into
/// `vpblendvb`, which is slower.
#[inline]
#[target_feature(enable = "avx2")]
fn without(mask: __m256i, of: __m256i) -> __m256i {
    let out;
    // SAFETY: the assembly is one AVX2 instruction between registers.
    unsafe {
        std::arch::asm!(
            "vpandn {0}, {1}, {2}",
            lateout(ymm_reg) out, in(ymm_reg) mask, in(ymm_reg) of,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    out
}

/// Returns the exit numbers of a pair of leaves: `right - 1` for the rows that go left, and `right` for the
/// others.
#[inline]
#[target_feature(enable = "avx2")]
fn pair(left: Rows, right: u8) -> Rows {
    left.map_inline(|left| _mm256_add_epi8(_mm256_set1_epi8(right as i8), left))
}

/// Evaluates a tree's groups for `R` row blocks, and returns the exit number of each row. Each group takes
/// all row blocks in turn, so its loads and branch predictions serve them all.
///
/// # Safety
/// The machine has AVX2. `ranks`, flipped as the thresholds are, have 64 bytes for every column that the
/// tree's splits name. `values` have every buffer that its groups name.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn evaluate<const R: usize>(
    blend: &Blend,
    tree: &Tree,
    ranks: [*const u8; R],
    values: [*mut CacheLine<[u8; ROW_BLOCK]>; R],
) -> [CacheLine<[u8; ROW_BLOCK]>; R] {
    let mut numbers = [CacheLine([0; ROW_BLOCK]); R];
    // SAFETY: the caller upholds that `ranks` have 64 bytes for every column of the tree's splits and `values`
    // every buffer of its groups.
    unsafe {
        let left = |split: &Split, r: usize| left(split, ranks[r]);
        let value = |buffer: u16, r: usize| load(values[r].add(usize::from(buffer)));
        let put = |buffer: u16, r: usize, v: Rows| store(v, values[r].add(usize::from(buffer)));
        let from = |v: Rows, first: u8| v.map_inline(|v| _mm256_add_epi8(v, _mm256_set1_epi8(first as i8)));
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
        for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.0, tree.leaf_groups[0]) {
            for r in 0..R {
                put(*out, r, from(pair(left(&s[0], r), 1), *first));
            }
        }
        for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.1, tree.leaf_groups[1]) {
            for r in 0..R {
                let found = choose(left(&s[0], r), pair(left(&s[1], r), 1), pair(left(&s[2], r), 3));
                put(*out, r, from(found, *first));
            }
        }
        for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.2, tree.leaf_groups[2]) {
            for r in 0..R {
                let a = choose(left(&s[1], r), pair(left(&s[3], r), 1), pair(left(&s[4], r), 3));
                let b = choose(left(&s[2], r), pair(left(&s[5], r), 5), pair(left(&s[6], r), 7));
                put(*out, r, from(choose(left(&s[0], r), a, b), *first));
            }
        }
        for Group { splits: s, children: c, out } in of(&blend.groups_of_7, tree.groups_of_7) {
            for r in 0..R {
                let low = |i: usize| choose(left(&s[3 + i], r), value(c[2 * i], r), value(c[2 * i + 1], r));
                let a = choose(left(&s[1], r), low(0), low(1));
                let b = choose(left(&s[2], r), low(2), low(3));
                put(*out, r, choose(left(&s[0], r), a, b));
            }
        }
        for Group { splits: s, children: c, out } in of(&blend.groups_of_3, tree.groups_of_3) {
            for r in 0..R {
                let a = choose(left(&s[1], r), value(c[0], r), value(c[1], r));
                let b = choose(left(&s[2], r), value(c[2], r), value(c[3], r));
                put(*out, r, choose(left(&s[0], r), a, b));
            }
        }
        for Group { splits: s, children: c, out } in of(&blend.groups_of_1, tree.groups_of_1) {
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

/// Evaluates a tree for `R` row blocks, and adds the value of each row's leaf to the row's sum. Rows without
/// a sum are left out.
///
/// # Safety
/// The conditions of [`evaluate`]: the machine has AVX2, `ranks` have 64 bytes for every column of the tree's
/// splits, and `values` every buffer of its groups. `own` has a value for every leaf number of the tree,
/// padded as [`crate::cpu::engine::blend::evaluate::padded`] says.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn add_up<const R: usize>(
    blend: &Blend,
    tree: &Tree,
    ranks: [*const u8; R],
    values: [*mut CacheLine<[u8; ROW_BLOCK]>; R],
    own: LeafValues<'_>,
    sums: &mut [f32],
) {
    // SAFETY: the caller upholds that `ranks` and `values` have everything that the tree names, and that
    // `own` has a value for every leaf number.
    unsafe {
        let numbers = evaluate(blend, tree, ranks, values);
        numbers.iter().zip(sums.chunks_mut(ROW_BLOCK)).for_each(|(numbers, sums)| add(&numbers.0, own, sums));
    }
}

/// Loads a buffer.
///
/// # Safety
/// The machine has AVX2. `buffer` can be read.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(buffer: *const CacheLine<[u8; ROW_BLOCK]>) -> Rows {
    let buffer: *const __m256i = buffer.cast();
    // SAFETY: the caller upholds that the buffer can be read. It fills two registers.
    unsafe { [_mm256_loadu_si256(buffer), _mm256_loadu_si256(buffer.add(1))] }
}

/// Stores a buffer.
///
/// # Safety
/// The machine has AVX2. `buffer` can be written.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(rows: Rows, buffer: *mut CacheLine<[u8; ROW_BLOCK]>) {
    let buffer: *mut __m256i = buffer.cast();
    // SAFETY: the caller upholds that the buffer can be written. It fills two registers.
    unsafe {
        _mm256_storeu_si256(buffer, rows[0]);
        _mm256_storeu_si256(buffer.add(1), rows[1]);
    }
}

/// Adds to each sum the value of its row's leaf.
///
/// # Safety
/// The machine has AVX2. There are at least sixteen values, and every number is below their count. If
/// there are byte lists, every number is below 64.
#[target_feature(enable = "avx2")]
pub(in crate::cpu) unsafe fn add(numbers: &[u8; ROW_BLOCK], own: LeafValues<'_>, sums: &mut [f32]) {
    let LeafValues { singles: values, byte_lists } = own;
    let done = match (byte_lists, values.len()) {
        ([a, b, c, d], ..=32) => add_bytes::<2>(numbers, [a, b, c, d], sums),
        ([a, b, c, d], ..=64) => add_bytes::<4>(numbers, [a, b, c, d], sums),
        _ => 0,
    };
    let (eights, rest) = sums[done..].as_chunks_mut::<8>();
    let numbers = &numbers[done..];
    let done = 8 * eights.len();
    let first = values.as_ptr();
    // SAFETY: the caller upholds that there are at least sixteen values.
    let near = unsafe { [_mm256_loadu_ps(first), _mm256_loadu_ps(first.add(8))] };
    for (sums, numbers) in eights.iter_mut().zip(numbers.as_chunks::<8>().0) {
        // SAFETY: `as_chunks` gives eight numbers and eight sums. The caller upholds that every number is
        // below the count of values.
        unsafe {
            let at = _mm256_cvtepu8_epi32(_mm_loadl_epi64(numbers.as_ptr().cast()));
            let own = match values.len() {
                ..=16 => {
                    let [low, high] = near.map_inline(|near| _mm256_permutevar8x32_ps(near, at));
                    // Bit 3 of a number, moved to the sign bit, selects the upper eight values.
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

/// Adds leaf values for 32 rows at a time, byte by byte, from at most `16 * TABLES` values: see
/// [`LeafValues::byte_lists`](crate::cpu::engine::blend::groups::LeafValues::byte_lists). Returns how many sums it
/// has added to, a multiple of 32.
#[inline]
#[target_feature(enable = "avx2")]
fn add_bytes<const TABLES: usize>(
    numbers: &[u8; ROW_BLOCK],
    byte_lists: [&CacheLine<[u8; ROW_BLOCK]>; 4],
    sums: &mut [f32],
) -> usize {
    // Unpacking works within the halves of a register. This order puts rows 0 to 3, 8 to 11, 16 to 19 and 24
    // to 27 into the lower half, so that each unpacked register has eight adjacent rows.
    let order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    let whole = sums.as_chunks_mut::<32>().0;
    let done = 32 * whole.len();
    for (sums, numbers) in whole.iter_mut().zip(numbers.as_chunks::<32>().0) {
        // SAFETY: `as_chunks` gives 32 numbers.
        let numbers = unsafe { _mm256_loadu_si256(numbers.as_ptr().cast()) };
        let numbers = _mm256_permutevar8x32_epi32(numbers, order);
        // A number that is outside table `k` gets its highest bit set, for which the shuffle gives 0.
        let mut at = [numbers; TABLES];
        for (k, at) in at.iter_mut().enumerate() {
            let within = _mm256_sub_epi8(numbers, _mm256_set1_epi8(16 * k as i8));
            *at = _mm256_adds_epu8(within, _mm256_set1_epi8(0x70));
        }
        let mut bytes = [_mm256_setzero_si256(); 4];
        for (byte, list) in bytes.iter_mut().zip(byte_lists) {
            for (at, table) in at.iter().zip(list.0.as_chunks::<16>().0) {
                // SAFETY: `as_chunks` gives a table of sixteen bytes.
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
            // SAFETY: `as_chunks_mut` gives eight sums.
            unsafe {
                let sum = _mm256_add_ps(_mm256_loadu_ps(sums.as_ptr()), _mm256_castsi256_ps(value));
                _mm256_storeu_ps(sums.as_mut_ptr(), sum);
            }
        }
    }
    done
}
