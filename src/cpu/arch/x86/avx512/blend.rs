//! Groups of splits in registers of 64 bytes, and the values of the leaves that they find.

use std::arch::x86_64::*;

use crate::{
    arrays::{self, MapInline},
    cpu::{
        cache_line::CacheLine,
        engine::blend::groups::{Blend, Group, LeafGroup, LeafValues, ROW_BLOCK, Split, Tree, of},
        isa::{Isa, isa, vbmi},
    },
};

/// Whether the machine has the instructions that the kernels here need.
pub(in crate::cpu) fn available() -> bool {
    isa() == Isa::Avx512
}

/// Returns, for each of `R` row blocks, the rows that go right.
///
/// # Safety
/// The machine has AVX-512 F and BW. `ranks` have 64 bytes for the split's column.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn right<const R: usize>(split: &Split, ranks: &[*const u8; R]) -> [__mmask64; R] {
    let threshold = _mm512_set1_epi32(split.threshold as i32);
    // SAFETY: the caller upholds that `ranks` have 64 bytes for the split's column.
    arrays::from_fn(|r| unsafe {
        let column = _mm512_loadu_si512(ranks[r].add(split.column as usize).cast());
        _mm512_cmpge_epu8_mask(column, threshold)
    })
}

/// Returns `b` for the rows that go right, and `a` for the others.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn choose<const R: usize>(right: [__mmask64; R], a: [__m512i; R], b: [__m512i; R]) -> [__m512i; R] {
    arrays::from_fn(|r| _mm512_mask_blend_epi8(right[r], a[r], b[r]))
}

/// Keeps a constant in a register. Otherwise the compiler reads it from memory wherever it is needed.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn kept(mut v: __m512i) -> __m512i {
    // SAFETY: the assembly is a comment without an instruction, so it reads and writes nothing.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) v, options(pure, nomem, nostack, preserves_flags));
    }
    v
}

/// Whether the machine also has VBMI, which permutes bytes.
pub(in crate::cpu) fn permutes_bytes() -> bool {
    vbmi()
}

/// Evaluates a tree's groups for `R` row blocks, and returns the exit number of each row.
///
/// # Safety
/// [`available`] is true. `ranks` have 64 bytes for every column that the tree's splits name. `values` have
/// every buffer that its groups name.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn evaluate<const R: usize>(
    blend: &Blend,
    tree: &Tree,
    ranks: [*const u8; R],
    values: [*mut CacheLine<[u8; ROW_BLOCK]>; R],
) -> [__m512i; R] {
    let numbers = [0, 1, 2, 3, 4, 5, 6, 7].map_inline(|n| _mm512_set1_epi8(n));
    let [zero, one, two, three, four, five, six, seven] = numbers.map_inline(|n| [kept(n); R]);
    // SAFETY: the caller upholds that `ranks` have 64 bytes for every column of the tree's splits and `values`
    // every buffer of its groups.
    unsafe {
        let right = |split: &Split| right(split, &ranks);
        let value = |buffer: u16| -> [__m512i; R] {
            values.map_inline(|values| _mm512_loadu_si512(values.add(usize::from(buffer)).cast()))
        };
        let store = |buffer: u16, v: [__m512i; R]| {
            for r in 0..R {
                _mm512_storeu_si512(values[r].add(usize::from(buffer)).cast(), v[r]);
            }
        };
        let from = |v: [__m512i; R], first: u8| {
            let first = _mm512_set1_epi8(first as i8);
            v.map_inline(|v| _mm512_add_epi8(v, first))
        };
        if tree.levels.0 != tree.levels.1 {
            let (mut bit, mut found) = (one[0], zero);
            for split in of(&blend.levels, tree.levels) {
                let right = right(split);
                for r in 0..R {
                    found[r] = _mm512_mask_add_epi8(found[r], right[r], found[r], bit);
                }
                bit = _mm512_add_epi8(bit, bit);
            }
            return found;
        }
        for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.0, tree.leaf_groups[0]) {
            store(*out, from(choose(right(&s[0]), zero, one), *first));
        }
        for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.1, tree.leaf_groups[1]) {
            let a = choose(right(&s[1]), zero, one);
            let b = choose(right(&s[2]), two, three);
            store(*out, from(choose(right(&s[0]), a, b), *first));
        }
        for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.2, tree.leaf_groups[2]) {
            let a = choose(right(&s[3]), zero, one);
            let b = choose(right(&s[4]), two, three);
            let l = choose(right(&s[1]), a, b);
            let c = choose(right(&s[5]), four, five);
            let d = choose(right(&s[6]), six, seven);
            let r = choose(right(&s[2]), c, d);
            store(*out, from(choose(right(&s[0]), l, r), *first));
        }
        for Group { splits: s, children: c, out } in of(&blend.groups_of_7, tree.groups_of_7) {
            let low = |i: usize| choose(right(&s[3 + i]), value(c[2 * i]), value(c[2 * i + 1]));
            let l = choose(right(&s[1]), low(0), low(1));
            let r = choose(right(&s[2]), low(2), low(3));
            store(*out, choose(right(&s[0]), l, r));
        }
        for Group { splits: s, children: c, out } in of(&blend.groups_of_3, tree.groups_of_3) {
            let l = choose(right(&s[1]), value(c[0]), value(c[1]));
            let r = choose(right(&s[2]), value(c[2]), value(c[3]));
            store(*out, choose(right(&s[0]), l, r));
        }
        for Group { splits: s, children: c, out } in of(&blend.groups_of_1, tree.groups_of_1) {
            store(*out, choose(right(&s[0]), value(c[0]), value(c[1])));
        }
        value(tree.root)
    }
}

/// Returns the leaf values of sixteen exit numbers, all below `16 << HALVINGS`.
///
/// # Safety
/// The machine has AVX-512 F. `values` points to `16 << HALVINGS` values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn pick<const HALVINGS: u32>(values: *const f32, numbers: __m512i) -> __m512 {
    // SAFETY: the caller upholds that there are `16 << HALVINGS` values.
    unsafe {
        let at = |i: usize| _mm512_loadu_ps(values.add(16 * i));
        let pair = |i: usize| _mm512_permutex2var_ps(at(2 * i), numbers, at(2 * i + 1));
        let bit = |n: i32| _mm512_test_epi32_mask(numbers, _mm512_set1_epi32(n));
        let four = |i: usize| _mm512_mask_blend_ps(bit(32), pair(2 * i), pair(2 * i + 1));
        let eight = |i: usize| _mm512_mask_blend_ps(bit(64), four(2 * i), four(2 * i + 1));
        match HALVINGS {
            0 => _mm512_permutexvar_ps(numbers, at(0)),
            1 => pair(0),
            2 => four(0),
            3 => eight(0),
            _ => _mm512_mask_blend_ps(bit(128), eight(0), eight(1)),
        }
    }
}

/// Evaluates a tree's groups for one row block, and returns the exit number of each row.
///
/// # Safety
/// The conditions of [`evaluate`]: [`available`] is true, `ranks` has 64 bytes for every column of the tree's
/// splits, and `values` every buffer of its groups.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::cpu) unsafe fn numbers(
    blend: &Blend,
    tree: &Tree,
    ranks: *const u8,
    values: *mut CacheLine<[u8; ROW_BLOCK]>,
) -> [u8; ROW_BLOCK] {
    let mut numbers = [0; ROW_BLOCK];
    // SAFETY: the caller upholds that `ranks` has 64 bytes for every column of the tree's splits and `values`
    // every buffer of its groups. `numbers` has room for 64 bytes.
    unsafe {
        let [found] = evaluate(blend, tree, [ranks], [values]);
        _mm512_storeu_si512(numbers.as_mut_ptr().cast(), found);
    }
    numbers
}

/// Evaluates a tree for `R` row blocks, and adds the value of each row's leaf to the row's sum. Rows without
/// a sum are left out.
///
/// # Safety
/// The conditions of [`evaluate`]: [`available`] is true, `ranks` have 64 bytes for every column of the tree's
/// splits, and `values` every buffer of its groups. `own` has a value for every leaf number of the tree,
/// padded as [`crate::cpu::engine::blend::evaluate::padded`] says. It has byte lists only if [`permutes_bytes`]
/// is true.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::cpu) unsafe fn add_up<const R: usize>(
    blend: &Blend,
    tree: &Tree,
    ranks: [*const u8; R],
    values: [*mut CacheLine<[u8; ROW_BLOCK]>; R],
    own: LeafValues<'_>,
    sums: &mut [f32],
) {
    // SAFETY: the caller upholds that `ranks` and `values` have everything that the tree names, that `own`
    // has a value for every leaf number, and that there are byte lists only on a machine with VBMI. The values
    // are padded to the 16, 32, 64, 128 or 256 that `add_of` reads.
    unsafe {
        let numbers = evaluate(blend, tree, ranks, values);
        let LeafValues { singles, byte_lists } = own;
        for (numbers, sums) in numbers.into_iter().zip(sums.chunks_mut(ROW_BLOCK)) {
            match (byte_lists.len() / 4, singles.len()) {
                (1, _) => add_bytes::<1>(numbers, byte_lists, sums),
                (2, _) => add_bytes::<2>(numbers, byte_lists, sums),
                (4, _) => add_bytes::<4>(numbers, byte_lists, sums),
                (_, ..=16) => add_of::<0>(numbers, singles.as_ptr(), sums.as_mut_ptr(), sums.len()),
                (_, ..=32) => add_of::<1>(numbers, singles.as_ptr(), sums.as_mut_ptr(), sums.len()),
                (_, ..=64) => add_of::<2>(numbers, singles.as_ptr(), sums.as_mut_ptr(), sums.len()),
                (_, ..=128) => add_of::<3>(numbers, singles.as_ptr(), sums.as_mut_ptr(), sums.len()),
                _ => add_of::<4>(numbers, singles.as_ptr(), sums.as_mut_ptr(), sums.len()),
            }
        }
    }
}

/// Adds the value of each row's leaf to the row's sum.
///
/// # Safety
/// The machine has AVX-512 F. `values` points to `16 << HALVINGS` values, and `sums` to `count` sums, at most
/// 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn add_of<const HALVINGS: u32>(numbers: __m512i, values: *const f32, sums: *mut f32, count: usize) {
    // SAFETY: the caller upholds that there are `16 << HALVINGS` values and `count` sums. The mask leaves out
    // all lanes past the sums.
    unsafe {
        macro_rules! quarter {
            ($q:literal) => {
                if count > 16 * $q {
                    let left = count - 16 * $q;
                    let mask: __mmask16 = if left >= 16 { 0xffff } else { (1 << left) - 1 };
                    let own = _mm512_cvtepu8_epi32(_mm512_extracti32x4_epi32::<$q>(numbers));
                    let at = sums.add(16 * $q);
                    let sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, at), pick::<HALVINGS>(values, own));
                    _mm512_mask_storeu_ps(at, mask, sum);
                }
            };
        }
        quarter!(0);
        quarter!(1);
        quarter!(2);
        quarter!(3);
    }
}

/// Adds the value of each row's leaf to the row's sum, for at most 64 rows. The bytes of the values are
/// apart: see [`LeafValues::byte_lists`](crate::cpu::engine::blend::groups::LeafValues::byte_lists).
///
/// # Safety
/// [`permutes_bytes`] is true.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vbmi")]
unsafe fn add_bytes<const EACH: usize>(
    numbers: __m512i,
    byte_lists: &[CacheLine<[u8; ROW_BLOCK]>],
    sums: &mut [f32],
) {
    assert!(byte_lists.len() >= 4 * EACH);
    // Unpacking works within the quarters of a register. This order puts rows 0 to 3, 16 to 19, 32 to 35 and
    // 48 to 51 into the first quarter, so that each unpacked register has sixteen adjacent rows.
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    let numbers = _mm512_permutexvar_epi32(order, numbers);
    let high = _mm512_movepi8_mask(numbers);
    let byte = |list: usize| {
        // SAFETY: a cache line of a list is 64 bytes.
        let table = |i: usize| unsafe { _mm512_loadu_si512(byte_lists[list * EACH + i].0.as_ptr().cast()) };
        let two = |i: usize| _mm512_permutex2var_epi8(table(i), numbers, table(i + 1));
        match EACH {
            1 => _mm512_permutexvar_epi8(numbers, table(0)),
            2 => two(0),
            _ => _mm512_mask_blend_epi8(high, two(0), two(2)),
        }
    };
    // Written out, because closures that `map` calls are compiled without this function's instructions.
    let bytes = [byte(0), byte(1), byte(2), byte(3)];
    let low = [_mm512_unpacklo_epi8(bytes[0], bytes[1]), _mm512_unpacklo_epi8(bytes[2], bytes[3])];
    let upper = [_mm512_unpackhi_epi8(bytes[0], bytes[1]), _mm512_unpackhi_epi8(bytes[2], bytes[3])];
    let values = [
        _mm512_unpacklo_epi16(low[0], low[1]),
        _mm512_unpackhi_epi16(low[0], low[1]),
        _mm512_unpacklo_epi16(upper[0], upper[1]),
        _mm512_unpackhi_epi16(upper[0], upper[1]),
    ];
    for (value, sums) in values.into_iter().zip(sums.chunks_mut(16)) {
        let mask = (0xffffu32 >> (16 - sums.len())) as __mmask16;
        let value = _mm512_castsi512_ps(value);
        // SAFETY: the mask leaves out all lanes past the sums.
        unsafe {
            let sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, sums.as_ptr()), value);
            _mm512_mask_storeu_ps(sums.as_mut_ptr(), mask, sum);
        }
    }
}
