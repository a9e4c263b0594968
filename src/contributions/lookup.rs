//! Adds the contributions of a tree's pattern tables.

use super::{
    kernel::{MOST_REGISTERS, Registers},
    lanes::Lanes,
    program::{MOST_BITS, PatternTables, SubtreeTables},
};

/// Adds a tree's contributions to `sums`, for the rows of the first `registers` registers. `left` has the rows that go
/// left at each test of the tables.
#[inline(always)]
pub(super) fn run<V: Lanes>(
    tables: &PatternTables,
    registers: usize,
    left: &[Registers<V>],
    sums: &mut [Registers<V>],
) {
    const { assert!(MOST_BITS == 8, "the last arm below is of eight bits") };
    for subtree in &tables.subtrees {
        let values = &tables.values[subtree.first..][..subtree.features.len() * subtree.patterns()];
        match subtree.tests.len() {
            ..=3 => add::<V, 3>(subtree, values, registers, left, sums),
            4 => add::<V, 4>(subtree, values, registers, left, sums),
            5 => add::<V, 5>(subtree, values, registers, left, sums),
            6 => add::<V, 6>(subtree, values, registers, left, sums),
            7 => add::<V, 7>(subtree, values, registers, left, sums),
            _ => add::<V, MOST_BITS>(subtree, values, registers, left, sums),
        }
    }
}

/// Adds the contributions of a subtree with at most `BITS` tests, whose tables are `values`.
#[inline(always)]
fn add<V: Lanes, const BITS: usize>(
    subtree: &SubtreeTables,
    values: &[f32],
    registers: usize,
    left: &[Registers<V>],
    sums: &mut [Registers<V>],
) {
    for r in 0..registers.min(MOST_REGISTERS) {
        let mut bits = [V::splat(0.0); MOST_BITS];
        let mut index = V::splat(0.0);
        for (i, (bit, test)) in bits.iter_mut().zip(&subtree.tests).enumerate() {
            *bit = left[*test as usize][r];
            index = index.or(bit.and(V::splat(f32::from_bits(1 << i))));
        }
        for (feature, table) in subtree.features.iter().zip(values.chunks_exact(subtree.patterns())) {
            let sum = &mut sums[*feature as usize][r];
            *sum = sum.add(V::lookup::<BITS>(table, index, &bits));
        }
    }
}
