//! Evaluates groups of splits in 16-byte registers, and adds up the leaf values of the leaves that rows
//! reach.

use std::arch::aarch64::*;

use super::{LANES, four, load as load_16};
use crate::{
    arrays::{self, MapInline},
    cpu::{
        cache_line::CacheLine,
        engine::blend::groups::{Blend, Group, LeafGroup, ROW_BLOCK, Split, Tree, of},
    },
};

/// One byte for each of the 64 rows of a row block.
type Rows = [uint8x16_t; 4];

/// Returns the bits of `a` where `left` has a bit set, elsewhere those of `b`. A row's byte of `left`
/// is all ones where the row goes left.
#[inline]
#[target_feature(enable = "neon")]
fn choose(left: Rows, a: Rows, b: Rows) -> Rows {
    arrays::from_fn(|q| vbslq_u8(left[q], a[q], b[q]))
}

/// Returns the exit number `right - 1` for the rows that go left, and `right` for the others. A byte of
/// `left` that is all ones adds -1.
#[inline]
#[target_feature(enable = "neon")]
fn pair(left: Rows, right: u8) -> Rows {
    left.map_inline(|left| vaddq_u8(vdupq_n_u8(right), left))
}

/// Loads the 64 bytes at `from`.
///
/// # Safety
/// The machine has NEON, and `from` points to 64 readable bytes.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(from: *const u8) -> Rows {
    // SAFETY: the caller upholds that `from` points to 64 readable bytes, which are four registers.
    arrays::from_fn(|q| unsafe { vld1q_u8(from.add(16 * q)) })
}

/// Evaluates a tree's groups for one row block and returns the exit number of each row.
///
/// # Safety
/// The machine has NEON. `ranks` points to one row block of ranks, with every column that the tree's
/// splits name. `values` points to a list with every buffer that the tree's groups name.
#[target_feature(enable = "neon")]
pub(in crate::cpu) unsafe fn evaluate(
    blend: &Blend,
    tree: &Tree,
    ranks: *const u8,
    values: *mut CacheLine<[u8; ROW_BLOCK]>,
) -> [u8; ROW_BLOCK] {
    // SAFETY: the caller upholds that `ranks` has 64 bytes for every column that a split names.
    let column = |split: &Split| unsafe { load(ranks.add(split.column as usize)) };
    // All ones where rows go left, 0 elsewhere.
    let left = |split: &Split| {
        let threshold = vdupq_n_u8(split.threshold as u8);
        column(split).map_inline(|ranks| vcltq_u8(ranks, threshold))
    };
    // SAFETY: the caller upholds that `values` has every buffer that a group names.
    let value = |buffer: u16| unsafe { load(values.add(usize::from(buffer)).cast()) };
    // SAFETY: the caller upholds that `values` has every buffer that a group names.
    let store = |buffer: u16, v: Rows| unsafe { values.add(usize::from(buffer)).write(CacheLine(bytes(v))) };
    let from = |v: Rows, first: u8| v.map_inline(|v| vaddq_u8(v, vdupq_n_u8(first)));
    if tree.levels.0 != tree.levels.1 {
        let mut found = [vdupq_n_u8(0); 4];
        // From the root down: each level shifts the bits found so far up by one and inserts its own bit
        // below.
        for split in of(&blend.levels, tree.levels).iter().rev() {
            let threshold = vdupq_n_u8(split.threshold as u8);
            for (found, ranks) in found.iter_mut().zip(column(split)) {
                *found = vsliq_n_u8::<1>(vcgeq_u8(ranks, threshold), *found);
            }
        }
        return bytes(found);
    }
    for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.0, tree.leaf_groups[0]) {
        store(*out, pair(left(&s[0]), first.wrapping_add(1)));
    }
    for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.1, tree.leaf_groups[1]) {
        let found = choose(left(&s[0]), pair(left(&s[1]), 1), pair(left(&s[2]), 3));
        store(*out, from(found, *first));
    }
    for LeafGroup { splits: s, first, out } in of(&blend.leaf_groups.2, tree.leaf_groups[2]) {
        let a = choose(left(&s[1]), pair(left(&s[3]), 1), pair(left(&s[4]), 3));
        let b = choose(left(&s[2]), pair(left(&s[5]), 5), pair(left(&s[6]), 7));
        store(*out, from(choose(left(&s[0]), a, b), *first));
    }
    for Group { splits: s, children: c, out } in of(&blend.groups_of_7, tree.groups_of_7) {
        let low = |i: usize| choose(left(&s[3 + i]), value(c[2 * i]), value(c[2 * i + 1]));
        let a = choose(left(&s[1]), low(0), low(1));
        let b = choose(left(&s[2]), low(2), low(3));
        store(*out, choose(left(&s[0]), a, b));
    }
    for Group { splits: s, children: c, out } in of(&blend.groups_of_3, tree.groups_of_3) {
        let a = choose(left(&s[1]), value(c[0]), value(c[1]));
        let b = choose(left(&s[2]), value(c[2]), value(c[3]));
        store(*out, choose(left(&s[0]), a, b));
    }
    for Group { splits: s, children: c, out } in of(&blend.groups_of_1, tree.groups_of_1) {
        store(*out, choose(left(&s[0]), value(c[0]), value(c[1])));
    }
    bytes(value(tree.root))
}

#[inline]
#[target_feature(enable = "neon")]
fn bytes(rows: Rows) -> [u8; ROW_BLOCK] {
    let mut bytes = [0; ROW_BLOCK];
    for (out, row) in bytes.as_chunks_mut().0.iter_mut().zip(rows) {
        super::store(row, out);
    }
    bytes
}

/// Adds to each row's sum the leaf value with the row's exit number.
///
/// # Safety
/// The machine has NEON. Every number is below `values.len()`, which is a power of two and at least 16.
#[target_feature(enable = "neon")]
pub(in crate::cpu) unsafe fn add(numbers: &[u8; ROW_BLOCK], values: &[f32], sums: &mut [f32]) {
    // The tables of more values take more registers, and one load for each row is then as fast.
    let done = match values.len() {
        16 => {
            let table = by_byte(&values[..16]);
            permuted(numbers, sums, |i, n| vqtbl1q_u8(table[i], n))
        }
        32 => {
            let [low, high] = [&values[..16], &values[16..]].map_inline(|half| by_byte(half));
            permuted(numbers, sums, |i, n| vqtbl2q_u8(uint8x16x2_t(low[i], high[i]), n))
        }
        _ => 0,
    };
    let (sums, numbers) = (&mut sums[done..], &numbers[done..]);
    // SAFETY: the caller upholds that every number is below `values.len()`.
    let value = |number: u8| unsafe { *values.get_unchecked(usize::from(number)) };
    let (fours, rest) = sums.as_chunks_mut::<LANES>();
    let done = LANES * fours.len();
    for (sums, numbers) in fours.iter_mut().zip(numbers.as_chunks().0) {
        add_four(sums, four(&numbers.map_inline(value)));
    }
    for (sum, number) in rest.iter_mut().zip(&numbers[done..]) {
        *sum += value(*number);
    }
}

/// Splits sixteen values by bytes: one register has the first byte of each value, the next the second
/// bytes, and so on.
#[inline]
#[target_feature(enable = "neon")]
fn by_byte(values: &[f32]) -> [uint8x16_t; 4] {
    let values: &[f32; 16] = values.try_into().expect("sixteen values");
    // SAFETY: `vld4q_u8` reads 64 bytes, the size of sixteen `f32` values.
    let uint8x16x4_t(a, b, c, d) = unsafe { vld4q_u8(values.as_ptr().cast()) };
    [a, b, c, d]
}

/// Adds to each sum the leaf value with the row's exit number, sixteen rows at a time, and returns the
/// number of rows served. `byte(i, numbers)` looks up byte `i` of the values with these exit numbers.
#[inline]
#[target_feature(enable = "neon")]
fn permuted(
    numbers: &[u8; ROW_BLOCK],
    sums: &mut [f32],
    byte: impl Fn(usize, uint8x16_t) -> uint8x16_t,
) -> usize {
    let sums = sums.as_chunks_mut::<16>().0;
    for (sums, numbers) in sums.iter_mut().zip(numbers.as_chunks().0) {
        let numbers = load_16(numbers);
        let [a, b, c, d] = arrays::from_fn(|i| byte(i, numbers));
        let side_by_side = |a, b| {
            let uint8x16x2_t(low, high) = vzipq_u8(a, b);
            [low, high].map_inline(|v| vreinterpretq_u16_u8(v))
        };
        let halves = side_by_side(a, b).into_iter().zip(side_by_side(c, d));
        let values = halves.flat_map(|(low, high)| {
            let uint16x8x2_t(first, second) = vzipq_u16(low, high);
            [first, second].map_inline(|v| vreinterpretq_f32_u16(v))
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
    // SAFETY: `sums` has room for four `f32` values.
    unsafe { vst1q_f32(sums.as_mut_ptr(), sum) };
}
