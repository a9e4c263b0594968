//! Compares each kernel that evaluates a tree with the reference interpreter.

use super::{
    build,
    evaluate::{GroupExits, Leaves, MOST_ROW_BLOCKS, add, with_values},
    groups::{Blend, FLIPPED_BIT, LeafValues, ROW_BLOCK},
};
use crate::cpu::arch::portable::blend as portable;
#[cfg(target_arch = "x86_64")]
use crate::cpu::arch::x86;
use crate::{
    forest::{CompareType, Forest, Side, reference},
    layout::{PackedNode, layout},
    schedule::LayoutKind,
};

/// Blends this many levels of the only tree of a forest.
fn blended(forest: &Forest, levels: u32) -> Option<Blend> {
    let packed = layout(LayoutKind::Sparse).pack(forest, &[0], &[0]).expect("a small tree");
    Blend::new(forest, &packed, levels)
}

/// Returns ranks in the form that the blend reads.
fn given(blend: &Blend, ranks: &[u8]) -> Vec<u8> {
    let turn = if blend.flipped() { FLIPPED_BIT } else { 0 };
    ranks.iter().map(|rank| rank ^ turn).collect()
}

/// Returns the leaves of the only tree, which is not cut.
fn leaves_of(blend: &Blend) -> Leaves<'_> {
    match blend.exits(0) {
        GroupExits::Leaves(leaves) => leaves,
        GroupExits::Addresses(_) => panic!("a whole tree is cut"),
    }
}

/// Numbers from a seed (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

/// Which leaf becomes the next split while a tree grows.
#[derive(Clone, Copy, Debug)]
enum Grows {
    /// The highest leaf, so that trees are full.
    Evenly,
    /// Any leaf.
    Anyhow,
    /// The last leaf, so that trees are chains.
    Downwards,
    /// The highest leaf, and each level repeats one split.
    ByLevel,
}

/// Returns a forest on ranks that has one tree with this many leaves.
fn tree(leaves: usize, grows: Grows, columns: usize, random: &mut Seeded) -> Forest {
    // The children of each split, and `None` for a leaf.
    let mut nodes: Vec<Option<[u32; 2]>> = vec![None];
    let mut open = vec![0usize];
    while open.len() < leaves {
        let at = match grows {
            Grows::Evenly | Grows::ByLevel => 0,
            Grows::Anyhow => random.below(open.len()),
            Grows::Downwards => open.len() - 1,
        };
        let node = open.remove(at);
        let children = [nodes.len(), nodes.len() + 1];
        nodes[node] = Some(children.map(|c| c as u32));
        nodes.extend([None, None]);
        open.extend(children);
    }
    let mut forest = Forest::builder(columns, 1).base_score([0.0]);
    let mut tree = forest.tree(0);
    let one = random.below(200);
    for (n, node) in nodes.iter().enumerate() {
        match node {
            Some([left, right]) if matches!(grows, Grows::ByLevel) => {
                let level = (n + 1).ilog2() as usize;
                let predicate = CompareType::F32.less((one + level) as f64);
                tree.split((level % columns) as u32, predicate, Side::Right, *left, *right);
            }
            Some([left, right]) => {
                // Some thresholds are the least and the greatest. Threshold 0 sends every row right.
                let threshold = [0, 255, random.below(256), random.below(256)][random.below(4)];
                let predicate = CompareType::F32.less(threshold as f64);
                tree.split(random.below(columns) as u32, predicate, Side::Right, *left, *right);
            }
            None => {
                // Thirds have bits in every byte of an `f32`.
                tree.leaf(n as u32, &[n as f64 / 3.0]);
            }
        }
    }
    forest.build().expect("a forest")
}

/// Returns a row block of random ranks, and the leaf slot that each row reaches.
fn block(forest: &Forest, random: &mut Seeded) -> (Vec<u8>, Vec<u32>) {
    let columns = forest.features.len();
    let ranks: Vec<u8> =
        (0..columns * ROW_BLOCK).map(|_| [0, 255, random.below(256) as u8][random.below(3)]).collect();
    let row = |r: usize| (0..columns).map(|c| f32::from(ranks[c * ROW_BLOCK + r])).collect::<Vec<_>>();
    let slots = (0..ROW_BLOCK).map(|r| reference::leaf_slots(forest, &row(r))[0]).collect();
    (ranks, slots)
}

/// A leaf value for each exit number, equal to the number.
static NUMBERS: [f32; 256] = {
    let mut numbers = [0.0; 256];
    let mut number = 0;
    while number < 256 {
        numbers[number] = number as f32;
        number += 1;
    }
    numbers
};

#[test]
fn trees_of_every_shape_find_the_reference_s_leaves() {
    let most = if cfg!(miri) { 20 } else { 256 };
    let mut random = Seeded(5);
    for leaves in (1..=most).filter(|n| *n < 40 || n % 7 == 4 || *n > 250) {
        for grows in [Grows::Evenly, Grows::Anyhow, Grows::Downwards, Grows::ByLevel] {
            let forest = tree(leaves, grows, 1 + random.below(9), &mut random);
            let packed = layout(LayoutKind::Sparse).pack(&forest, &[0], &[0]).expect("a small tree");
            let built = |flipped| {
                build::build(&forest, &packed, u32::MAX, flipped).expect("a tree of at most 256 leaves")
            };
            let blend = built(false);
            let [(ranks, slots), (others, other_slots)] = [(); 2].map(|()| block(&forest, &mut random));
            let of =
                |numbers: [u8; ROW_BLOCK]| numbers.map(|n| leaves_of(&blend).slots[usize::from(n)]).to_vec();
            let what = format!("{leaves} leaves, {grows:?}");
            with_values(&blend, |values| {
                assert_eq!(of(blend.evaluate(0, &ranks, values)), slots, "{what}");
                // Each leaf value is an exit number, so a sum says which exit was found.
                let mut sums = [0.0; MOST_ROW_BLOCKS * ROW_BLOCK];
                let own = LeafValues { singles: &NUMBERS, byte_lists: &[] };
                let together = [&others[..], &ranks, &ranks, &others];
                let expected = [&other_slots[..], &slots, &slots, &other_slots].concat();
                let named = |blend: &Blend, sums: &[f32]| {
                    let slots = leaves_of(blend).slots;
                    sums.iter().map(|number| slots[*number as usize]).collect::<Vec<u32>>()
                };
                if blend.add_together(0, together, own, values, &mut sums) {
                    assert_eq!(named(&blend, &sums), expected, "{what}, four row blocks");
                }
                let tree = &blend.trees[0].expect("the tree");
                let found = portable::evaluate(&blend, tree, &others, &mut values.buffers[0]);
                assert_eq!(of(found), other_slots, "{what}, without vectors");
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    let flipped = built(true);
                    let found = flipped.evaluate(0, &given(&flipped, &ranks), values);
                    assert_eq!(of(found), slots, "{what}, with AVX2");
                    let mut sums = [0.0; MOST_ROW_BLOCKS * ROW_BLOCK];
                    let together = together.map(|ranks| given(&flipped, ranks));
                    let together = together.each_ref().map(|ranks| &ranks[..]);
                    with_values(&flipped, |values| {
                        assert!(flipped.add_together(0, together, own, values, &mut sums));
                    });
                    assert_eq!(named(&flipped, &sums), expected, "{what}, four row blocks with AVX2");
                }
            });
        }
    }
}

#[test]
fn sums_take_the_values_of_the_leaves() {
    let mut random = Seeded(9);
    for leaves in [1, 2, 15, 16, 17, 33, 64, 65, 129, 200, 256] {
        let forest = tree(leaves, Grows::Anyhow, 5, &mut random);
        let blend = blended(&forest, u32::MAX).expect("a tree of at most 256 leaves");
        let own = leaves_of(&blend).values;
        let blocks = [(); MOST_ROW_BLOCKS].map(|()| block(&forest, &mut random));
        let value = |slot: &u32| 0.5 + forest.leaf_values[*slot as usize].0 as f32;
        let expected: Vec<f32> = blocks.iter().flat_map(|(_, slots)| slots).map(value).collect();
        let ranks = blocks.each_ref().map(|(ranks, _)| given(&blend, ranks));
        let [a, b, c, d] = ranks.each_ref().map(|ranks| &ranks[..]);
        with_values(&blend, |values| {
            for count in [1, 15, 16, 17, 40, 63, 64] {
                let expected = &expected[..count];
                let numbers = blend.evaluate(0, a, values);
                let mut sums = vec![0.5f32; count];
                // SAFETY: `evaluate` finds numbers of leaves, and the blend has put a value for each into `own`.
                unsafe { add(&numbers, own, &mut sums) };
                assert_eq!(sums, expected, "{leaves} leaves, {count} rows");
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    let mut sums = vec![0.5f32; count];
                    // SAFETY: the machine has AVX2. `evaluate` finds numbers of leaves, and the blend has put a
                    // value for each into `own`.
                    unsafe {
                        x86::avx2::blend::add(&numbers, LeafValues { byte_lists: &[], ..own }, &mut sums);
                    }
                    assert_eq!(sums, expected, "{leaves} leaves, {count} rows, with AVX2");
                }
            }
            for count in [1, 16, 30, 64, 65, 100, 128, 129, 192, 200, 255, 256] {
                // Runs with the byte lists that the machine keeps, and without byte lists.
                for own in [own, LeafValues { byte_lists: &[], ..own }] {
                    let mut sums = vec![0.5f32; count];
                    let done = match count.div_ceil(ROW_BLOCK) {
                        1 => blend.add_together(0, [a], own, values, &mut sums),
                        2 => blend.add_together(0, [a, b], own, values, &mut sums),
                        _ => blend.add_together(0, [a, b, c, d], own, values, &mut sums),
                    };
                    assert!(!done || sums == expected[..count], "{leaves} leaves, {count} rows together");
                    assert_eq!(done, blend.together());
                }
            }
        });
    }
}

#[test]
fn more_leaves_than_a_byte_counts_are_left_to_walks() {
    let mut random = Seeded(1);
    for grows in [Grows::Evenly, Grows::Anyhow, Grows::Downwards] {
        assert!(blended(&tree(257, grows, 3, &mut random), u32::MAX).is_none());
    }
}

#[test]
fn one_split_a_level_is_one_compare_a_level() {
    let mut random = Seeded(2);
    for depth in 2..=8 {
        let blend =
            blended(&tree(1 << depth, Grows::ByLevel, 3, &mut random), u32::MAX).expect("a full tree");
        let tree = &blend.trees[0].expect("the tree");
        assert_eq!(tree.levels.1 - tree.levels.0, depth);
        assert!(
            blend.leaf_groups.0.is_empty()
                && blend.leaf_groups.1.is_empty()
                && blend.leaf_groups.2.is_empty()
        );
    }
}

/// A walk from the exit that a cut tree finds ends at the leaf of the reference.
#[test]
fn a_cut_tree_leaves_off_where_the_row_has_come() {
    let mut random = Seeded(3);
    for leaves in [2, 5, 40, 256, 300, 1500] {
        for grows in [Grows::Evenly, Grows::Anyhow, Grows::Downwards, Grows::ByLevel] {
            let forest = tree(leaves, grows, 4, &mut random);
            let packed = layout(LayoutKind::Sparse).pack(&forest, &[0], &[0]).expect("a small tree");
            for levels in [1, 2, 3, 5, 8] {
                let blend = Blend::new(&forest, &packed, levels).expect("a top");
                let (ranks, slots) = block(&forest, &mut random);
                let numbers = with(&blend, &ranks);
                for (r, slot) in slots.iter().enumerate() {
                    let number = usize::from(numbers[r]);
                    let mut at = match blend.exits(0) {
                        GroupExits::Leaves(leaves) => {
                            assert_eq!(leaves.slots[number], *slot);
                            continue;
                        }
                        GroupExits::Addresses(addresses) => addresses[number],
                    };
                    while let PackedNode::Split { feature, predicate, missing, .. } =
                        packed.nodes[at as usize]
                    {
                        let rank = f64::from(ranks[feature as usize * ROW_BLOCK + r]);
                        at = packed.step(0, at, reference::side_of_cast(&[], predicate, missing, rank));
                    }
                    assert_eq!(packed.nodes[at as usize], PackedNode::Leaf { slot: *slot });
                }
            }
        }
    }
}

fn with(blend: &Blend, ranks: &[u8]) -> [u8; ROW_BLOCK] {
    let mut found = [0; ROW_BLOCK];
    with_values(blend, |values| found = blend.evaluate(0, &given(blend, ranks), values));
    found
}
