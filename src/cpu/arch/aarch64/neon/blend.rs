//! Groups of splits in registers of 16 bytes, and the values of the leaves that they find.

use std::arch::aarch64::*;

use super::{LANES, four, load as load_16};
use crate::cpu::{
    cache_line::CacheLine,
    engine::blend::groups::{BLOCK, Blend, Group, LeafGroup, Split, Tree, of},
};

/// 64 rows.
type Rows = [uint8x16_t; 4];

/// Two sets of bits, chosen from by a third: the left one where a row goes left.
#[inline]
#[target_feature(enable = "neon")]
fn choose(left: Rows, a: Rows, b: Rows) -> Rows {
    std::array::from_fn(|q| vbslq_u8(left[q], a[q], b[q]))
}

/// A leaf's number or the next one, which is `right`: all ones are -1.
#[inline]
#[target_feature(enable = "neon")]
fn pair(left: Rows, right: u8) -> Rows {
    left.map(|left| vaddq_u8(vdupq_n_u8(right), left))
}

/// # Safety
/// NEON; a block is there.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(block: *const u8) -> Rows {
    // SAFETY: as promised to this function; a block is four registers.
    std::array::from_fn(|q| unsafe { vld1q_u8(block.add(16 * q)) })
}

/// Evaluates a tree's groups for a block of rows.
///
/// # Safety
/// NEON; `ranks` have a block of every column that the tree's splits name, and `values` every block that its groups do.
#[target_feature(enable = "neon")]
pub(in crate::cpu) unsafe fn evaluate(
    blend: &Blend,
    tree: &Tree,
    ranks: *const u8,
    values: *mut CacheLine<[u8; BLOCK]>,
) -> [u8; BLOCK] {
    // SAFETY: as promised to this function, here and below.
    let column = |split: &Split| unsafe { load(ranks.add(split.column as usize)) };
    // All ones where rows go left, 0 elsewhere.
    let left = |split: &Split| {
        let threshold = vdupq_n_u8(split.threshold as u8);
        column(split).map(|ranks| vcltq_u8(ranks, threshold))
    };
    // SAFETY: as above.
    let value = |block: u16| unsafe { load(values.add(usize::from(block)).cast()) };
    // SAFETY: as above.
    let store = |block: u16, v: Rows| unsafe { values.add(usize::from(block)).write(CacheLine(bytes(v))) };
    let from = |v: Rows, first: u8| v.map(|v| vaddq_u8(v, vdupq_n_u8(first)));
    if tree.levels.0 != tree.levels.1 {
        let mut found = [vdupq_n_u8(0); 4];
        // From the root down: what was found moves up by a bit, and makes room for the next.
        for split in of(&blend.levels, tree.levels).iter().rev() {
            let threshold = vdupq_n_u8(split.threshold as u8);
            for (found, ranks) in found.iter_mut().zip(column(split)) {
                *found = vsliq_n_u8::<1>(vcgeq_u8(ranks, threshold), *found);
            }
        }
        return bytes(found);
    }
    for LeafGroup { splits: s, first, out } in of(&blend.bottoms.0, tree.bottoms[0]) {
        store(*out, pair(left(&s[0]), first.wrapping_add(1)));
    }
    for LeafGroup { splits: s, first, out } in of(&blend.bottoms.1, tree.bottoms[1]) {
        let found = choose(left(&s[0]), pair(left(&s[1]), 1), pair(left(&s[2]), 3));
        store(*out, from(found, *first));
    }
    for LeafGroup { splits: s, first, out } in of(&blend.bottoms.2, tree.bottoms[2]) {
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

#[inline]
#[target_feature(enable = "neon")]
fn bytes(rows: Rows) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    for (out, row) in bytes.as_chunks_mut().0.iter_mut().zip(rows) {
        super::store(row, out);
    }
    bytes
}

/// Adds to each sum the value of its row's leaf.
///
/// # Safety
/// NEON; every number is below the values there are, which are a power of two and sixteen at least.
#[target_feature(enable = "neon")]
pub(in crate::cpu) unsafe fn add(numbers: &[u8; BLOCK], values: &[f32], sums: &mut [f32]) {
    // Of more values, whose tables are as many registers again, a load a row is done as soon.
    let done = match values.len() {
        16 => {
            let table = by_byte(&values[..16]);
            permuted(numbers, sums, |i, n| vqtbl1q_u8(table[i], n))
        }
        32 => {
            let [low, high] = [&values[..16], &values[16..]].map(|half| by_byte(half));
            permuted(numbers, sums, |i, n| vqtbl2q_u8(uint8x16x2_t(low[i], high[i]), n))
        }
        _ => 0,
    };
    let (sums, numbers) = (&mut sums[done..], &numbers[done..]);
    // SAFETY: as promised to this function.
    let value = |number: u8| unsafe { *values.get_unchecked(usize::from(number)) };
    let (fours, rest) = sums.as_chunks_mut::<LANES>();
    let done = LANES * fours.len();
    for (sums, numbers) in fours.iter_mut().zip(numbers.as_chunks().0) {
        add_four(sums, four(&numbers.map(value)));
    }
    for (sum, number) in rest.iter_mut().zip(&numbers[done..]) {
        *sum += value(*number);
    }
}

/// Sixteen values as the first byte of each, the second and so on.
#[inline]
#[target_feature(enable = "neon")]
fn by_byte(values: &[f32]) -> [uint8x16_t; 4] {
    let values: &[f32; 16] = values.try_into().expect("sixteen values");
    // SAFETY: sixteen values are 64 bytes.
    let uint8x16x4_t(a, b, c, d) = unsafe { vld4q_u8(values.as_ptr().cast()) };
    [a, b, c, d]
}

/// Adds to each sum, sixteen rows at a time, the value whose bytes stand at the row's number, and says to how many.
#[inline]
#[target_feature(enable = "neon")]
fn permuted(
    numbers: &[u8; BLOCK],
    sums: &mut [f32],
    byte: impl Fn(usize, uint8x16_t) -> uint8x16_t,
) -> usize {
    let sums = sums.as_chunks_mut::<16>().0;
    for (sums, numbers) in sums.iter_mut().zip(numbers.as_chunks().0) {
        let numbers = load_16(numbers);
        let [a, b, c, d] = std::array::from_fn(|i| byte(i, numbers));
        let side_by_side = |a, b| {
            let uint8x16x2_t(low, high) = vzipq_u8(a, b);
            [low, high].map(|v| vreinterpretq_u16_u8(v))
        };
        let halves = side_by_side(a, b).into_iter().zip(side_by_side(c, d));
        let values = halves.flat_map(|(low, high)| {
            let uint16x8x2_t(first, second) = vzipq_u16(low, high);
            [first, second].map(|v| vreinterpretq_f32_u16(v))
        });
        for (sums, values) in sums.as_chunks_mut().0.iter_mut().zip(values) {
            add_four(sums, values);
        }
    }
    16 * sums.len()
}

#[inline]
#[target_feature(enable = "neon")]
fn add_four(sums: &mut [f32; LANES], values: float32x4_t) {
    let sum = vaddq_f32(four(sums), values);
    // SAFETY: four sums have the room of four sums.
    unsafe { vst1q_f32(sums.as_mut_ptr(), sum) };
}
