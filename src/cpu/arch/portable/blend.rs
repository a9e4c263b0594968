//! Evaluates groups of splits in arrays of bytes, which the compiler turns into vectors. It runs on
//! every machine.

use crate::{
    arrays::MapInline,
    cpu::{
        cache_line::CacheLine,
        engine::blend::groups::{Blend, Group, LeafGroup, ROW_BLOCK, Split, Tree, of},
    },
};

type Lanes = [u8; ROW_BLOCK];

/// Returns 0xff for each row that goes right, and 0 for the others.
#[inline(always)]
fn right(split: Split, ranks: &[u8]) -> Lanes {
    let at = split.column as usize;
    let column: &Lanes = ranks[at..at + ROW_BLOCK].try_into().expect("64 ranks of a column");
    let threshold = split.threshold as u8;
    column.map_inline(|rank| 0u8.wrapping_sub(u8::from(rank >= threshold)))
}

/// Returns `b` for the rows whose `mask` is set, and `a` for the others.
#[inline(always)]
fn choose(mask: &Lanes, a: &Lanes, b: &Lanes) -> Lanes {
    let mut out = [0; ROW_BLOCK];
    for (((out, mask), a), b) in out.iter_mut().zip(mask).zip(a).zip(b) {
        *out = a ^ ((a ^ b) & mask);
    }
    out
}

/// Returns `low + 1` for the rows whose `mask` is set, and `low` for the others.
#[inline(always)]
fn pair(mask: &Lanes, low: u8) -> Lanes {
    mask.map_inline(|m| low.wrapping_sub(m))
}

#[inline(always)]
fn three(splits: &[Split], ranks: &[u8], values: [&Lanes; 4]) -> Lanes {
    let a = choose(&right(splits[1], ranks), values[0], values[1]);
    let b = choose(&right(splits[2], ranks), values[2], values[3]);
    choose(&right(splits[0], ranks), &a, &b)
}

/// Evaluates a tree's groups for one row block and returns the exit number of each row.
#[inline(always)]
pub(in crate::cpu) fn evaluate(
    blend: &Blend,
    tree: &Tree,
    ranks: &[u8],
    values: &mut [CacheLine<Lanes>],
) -> Lanes {
    if tree.levels.0 != tree.levels.1 {
        let (mut bit, mut found) = (1u8, [0; ROW_BLOCK]);
        for split in of(&blend.levels, tree.levels) {
            let right = right(*split, ranks);
            found.iter_mut().zip(right).for_each(|(found, right)| *found |= right & bit);
            bit = bit.wrapping_add(bit);
        }
        return found;
    }
    for LeafGroup { splits, first, out } in of(&blend.leaf_groups.0, tree.leaf_groups[0]) {
        values[usize::from(*out)].0 = pair(&right(splits[0], ranks), *first);
    }
    for LeafGroup { splits, first, out } in of(&blend.leaf_groups.1, tree.leaf_groups[1]) {
        let low = |i: u8| pair(&right(splits[1 + usize::from(i)], ranks), first.wrapping_add(2 * i));
        values[usize::from(*out)].0 = choose(&right(splits[0], ranks), &low(0), &low(1));
    }
    for LeafGroup { splits, first, out } in of(&blend.leaf_groups.2, tree.leaf_groups[2]) {
        let low = |i: u8| pair(&right(splits[3 + usize::from(i)], ranks), first.wrapping_add(2 * i));
        let a = choose(&right(splits[1], ranks), &low(0), &low(1));
        let b = choose(&right(splits[2], ranks), &low(2), &low(3));
        values[usize::from(*out)].0 = choose(&right(splits[0], ranks), &a, &b);
    }
    for Group { splits, children, out } in of(&blend.groups_of_7, tree.groups_of_7) {
        let child = |i: usize| &values[usize::from(children[i])].0;
        let low = |i: usize| choose(&right(splits[3 + i], ranks), child(2 * i), child(2 * i + 1));
        let a = choose(&right(splits[1], ranks), &low(0), &low(1));
        let b = choose(&right(splits[2], ranks), &low(2), &low(3));
        values[usize::from(*out)].0 = choose(&right(splits[0], ranks), &a, &b);
    }
    for Group { splits, children, out } in of(&blend.groups_of_3, tree.groups_of_3) {
        let child = children.map_inline(|c| &values[usize::from(c)].0);
        values[usize::from(*out)].0 = three(splits, ranks, child);
    }
    for Group { splits, children, out } in of(&blend.groups_of_1, tree.groups_of_1) {
        let [a, b] = children.map_inline(|c| &values[usize::from(c)].0);
        values[usize::from(*out)].0 = choose(&right(splits[0], ranks), a, b);
    }
    values[usize::from(tree.root)].0
}
