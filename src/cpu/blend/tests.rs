//! Each way to evaluate a tree against the reference interpreter.

use super::{BLOCK, Blend, Numbers, portable, with_values};
use crate::forest::{CompareType, Forest, Side, reference};

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

/// How the next leaf that becomes a split is chosen.
#[derive(Clone, Copy, Debug)]
enum Grows {
    /// The highest, so that trees are full.
    Evenly,
    /// Any.
    Anyhow,
    /// The last, so that trees are chains.
    Downwards,
}

/// A forest on ranks with a tree of so many leaves.
fn tree(leaves: usize, grows: Grows, columns: usize, random: &mut Seeded) -> Forest {
    // Children, or neither for a leaf.
    let mut nodes: Vec<Option<[u32; 2]>> = vec![None];
    let mut open = vec![0usize];
    while open.len() < leaves {
        let at = match grows {
            Grows::Evenly => 0,
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
    for (n, node) in nodes.iter().enumerate() {
        match node {
            Some([left, right]) => {
                // Thresholds at both ends, too: 0 sends everything right.
                let threshold = [0, 255, random.below(256), random.below(256)][random.below(4)];
                let predicate = CompareType::F32.less(threshold as f64);
                tree.split(random.below(columns) as u32, predicate, Side::Right, *left, *right);
            }
            None => {
                tree.leaf(n as u32, &[n as f64]);
            }
        }
    }
    forest.build().expect("a forest")
}

/// A block of ranks, and the slot of each of its rows.
fn block(forest: &Forest, random: &mut Seeded) -> (Vec<u8>, Vec<u32>) {
    let columns = forest.features.len();
    let ranks: Vec<u8> =
        (0..columns * BLOCK).map(|_| [0, 255, random.below(256) as u8][random.below(3)]).collect();
    let row = |r: usize| (0..columns).map(|c| f32::from(ranks[c * BLOCK + r])).collect::<Vec<_>>();
    let slots = (0..BLOCK).map(|r| reference::slots(forest, &row(r))[0]).collect();
    (ranks, slots)
}

#[test]
fn trees_of_every_shape_find_the_reference_s_leaves() {
    let most = if cfg!(miri) { 20 } else { 256 };
    let mut random = Seeded(5);
    for leaves in (1..=most).filter(|n| *n < 40 || n % 7 == 4 || *n > 250) {
        for grows in [Grows::Evenly, Grows::Anyhow, Grows::Downwards] {
            let forest = tree(leaves, grows, 1 + random.below(9), &mut random);
            let blend = Blend::new(&forest, &[0]).expect("a tree of at most 256 leaves");
            let [(ranks, slots), (others, other_slots)] = [(); 2].map(|()| block(&forest, &mut random));
            let of =
                |numbers: Numbers| numbers.bytes().map(|n| blend.leaves(0).slots[usize::from(n)]).to_vec();
            let what = format!("{leaves} leaves, {grows:?}");
            with_values(&blend, |values| {
                assert_eq!(of(blend.evaluate(0, &ranks, values)), slots, "{what}");
                if let Some(pair) = blend.evaluate_pair(0, [&ranks, &others], values) {
                    assert_eq!(pair.map(of), [slots.clone(), other_slots.clone()], "{what}, a pair");
                }
                let tree = &blend.trees[0].expect("the tree");
                let found = portable::evaluate(&blend, tree, &others, &mut values.blocks[0]);
                assert_eq!(of(Numbers::Bytes(found)), other_slots, "{what}, without vectors");
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine is able.
                    let found =
                        unsafe { portable::evaluate_avx2(&blend, tree, &ranks, &mut values.blocks[0]) };
                    assert_eq!(of(Numbers::Bytes(found)), slots, "{what}, with AVX2");
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
        let blend = Blend::new(&forest, &[0]).expect("a tree of at most 256 leaves");
        let (ranks, slots) = block(&forest, &mut random);
        for count in [1, 15, 16, 17, 40, 63, 64] {
            let mut sums = vec![0.5f32; count];
            with_values(&blend, |values| {
                blend.evaluate(0, &ranks, values).add(blend.leaves(0).values, &mut sums);
            });
            let expected: Vec<f32> =
                slots[..count].iter().map(|slot| 0.5 + forest.leaf_values[*slot as usize].0 as f32).collect();
            assert_eq!(sums, expected, "{leaves} leaves, {count} rows");
        }
    }
}

#[test]
fn more_leaves_than_a_byte_counts_are_left_to_walks() {
    let mut random = Seeded(1);
    for grows in [Grows::Evenly, Grows::Anyhow, Grows::Downwards] {
        assert!(Blend::new(&tree(257, grows, 3, &mut random), &[0]).is_none());
    }
}
