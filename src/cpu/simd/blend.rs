//! Groups of splits in registers of 64 bytes, and the values of the leaves that they find.

use std::arch::x86_64::*;

use crate::cpu::{
    blend::{BLOCK, Blend, Bottom, Group, Split, Tree, of},
    isa::{Isa, isa},
};

/// Whether the machine has what the kernels here need.
pub(in crate::cpu) fn available() -> bool {
    isa() == Isa::Avx512
}

/// Of each block of rows those that go right.
///
/// # Safety
/// AVX-512 BW; `ranks` have a block of the split's column.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn right<const R: usize>(split: &Split, ranks: &[*const u8; R]) -> [__mmask64; R] {
    let threshold = _mm512_set1_epi32(split.threshold as i32);
    // SAFETY: as promised to this function.
    std::array::from_fn(|r| unsafe {
        let column = _mm512_loadu_si512(ranks[r].add(split.column as usize).cast());
        _mm512_cmpge_epu8_mask(column, threshold)
    })
}

/// `b` where a row goes right, otherwise `a`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn choose<const R: usize>(right: [__mmask64; R], a: [__m512i; R], b: [__m512i; R]) -> [__m512i; R] {
    std::array::from_fn(|r| _mm512_mask_blend_epi8(right[r], a[r], b[r]))
}

/// A constant that stays in a register: as a constant it would be read from memory wherever it is needed.
#[inline]
#[target_feature(enable = "avx512f")]
fn kept(mut v: __m512i) -> __m512i {
    // SAFETY: no instruction, which reads and writes nothing.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) v, options(pure, nomem, nostack, preserves_flags));
    }
    v
}

/// Evaluates a tree's groups for some blocks of rows.
///
/// # Safety
/// [`available`]; `ranks` have a block of every column that the tree's splits name, and `values` every block that its
/// groups do.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::cpu) unsafe fn evaluate<const R: usize>(
    blend: &Blend,
    tree: &Tree,
    ranks: [*const u8; R],
    values: [*mut [u8; BLOCK]; R],
) -> [__m512i; R] {
    let numbers = [0, 1, 2, 3, 4, 5, 6, 7].map(|n| _mm512_set1_epi8(n));
    let [zero, one, two, three, four, five, six, seven] = numbers.map(|n| [kept(n); R]);
    // SAFETY: as promised to this function.
    unsafe {
        let right = |split: &Split| right(split, &ranks);
        let value = |block: u16| -> [__m512i; R] {
            values.map(|values| _mm512_loadu_si512(values.add(usize::from(block)).cast()))
        };
        let store = |block: u16, v: [__m512i; R]| {
            for r in 0..R {
                _mm512_storeu_si512(values[r].add(usize::from(block)).cast(), v[r]);
            }
        };
        let from = |v: [__m512i; R], first: u8| {
            let first = _mm512_set1_epi8(first as i8);
            v.map(|v| _mm512_add_epi8(v, first))
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
        for Bottom { splits: s, first, out } in of(&blend.bottoms.0, tree.bottoms[0]) {
            store(*out, from(choose(right(&s[0]), zero, one), *first));
        }
        for Bottom { splits: s, first, out } in of(&blend.bottoms.1, tree.bottoms[1]) {
            let a = choose(right(&s[1]), zero, one);
            let b = choose(right(&s[2]), two, three);
            store(*out, from(choose(right(&s[0]), a, b), *first));
        }
        for Bottom { splits: s, first, out } in of(&blend.bottoms.2, tree.bottoms[2]) {
            let a = choose(right(&s[3]), zero, one);
            let b = choose(right(&s[4]), two, three);
            let l = choose(right(&s[1]), a, b);
            let c = choose(right(&s[5]), four, five);
            let d = choose(right(&s[6]), six, seven);
            let r = choose(right(&s[2]), c, d);
            store(*out, from(choose(right(&s[0]), l, r), *first));
        }
        for Group { splits: s, children: c, out } in of(&blend.sevens, tree.sevens) {
            let low = |i: usize| choose(right(&s[3 + i]), value(c[2 * i]), value(c[2 * i + 1]));
            let l = choose(right(&s[1]), low(0), low(1));
            let r = choose(right(&s[2]), low(2), low(3));
            store(*out, choose(right(&s[0]), l, r));
        }
        for Group { splits: s, children: c, out } in of(&blend.threes, tree.threes) {
            let l = choose(right(&s[1]), value(c[0]), value(c[1]));
            let r = choose(right(&s[2]), value(c[2]), value(c[3]));
            store(*out, choose(right(&s[0]), l, r));
        }
        for Group { splits: s, children: c, out } in of(&blend.ones, tree.ones) {
            store(*out, choose(right(&s[0]), value(c[0]), value(c[1])));
        }
        value(tree.root)
    }
}

/// The values of these sixteen numbers, all below `16 << HALVINGS`.
///
/// # Safety
/// AVX-512 F; so many values stand there.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn pick<const HALVINGS: u32>(values: *const f32, numbers: __m512i) -> __m512 {
    // SAFETY: as promised to this function.
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

/// Adds to each of the first `count` of 64 sums the value of its leaf.
///
/// # Safety
/// [`available`]; `values` are padded as [`crate::cpu::blend::padded`] says, and every number is below their length;
/// `count` sums stand at `sums`.
#[target_feature(enable = "avx512f,avx512bw")]
pub(in crate::cpu) unsafe fn add(numbers: __m512i, values: &[f32], sums: *mut f32, count: usize) {
    // SAFETY: as promised to this function.
    unsafe {
        match values.len() {
            ..=16 => add_of::<0>(numbers, values.as_ptr(), sums, count),
            17..=32 => add_of::<1>(numbers, values.as_ptr(), sums, count),
            33..=64 => add_of::<2>(numbers, values.as_ptr(), sums, count),
            65..=128 => add_of::<3>(numbers, values.as_ptr(), sums, count),
            _ => add_of::<4>(numbers, values.as_ptr(), sums, count),
        }
    }
}

/// # Safety
/// As for [`add`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn add_of<const HALVINGS: u32>(numbers: __m512i, values: *const f32, sums: *mut f32, count: usize) {
    // SAFETY: as promised to this function; what the mask leaves out is not touched.
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
