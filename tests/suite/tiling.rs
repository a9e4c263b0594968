//! Tilings of random trees: valid whatever gathers the nodes, and how near the greedy one comes to the best there is.

use crate::generate;

use fangorn::{
    forest::{
        Node, Side, Tree,
        tiling::{MOST_TILE, Tiling, is_leaf_biased, weights},
    },
    plan::Shape,
};
use generate::{Seeded, forest, forest_of};
use proptest::{prelude::*, test_runner::Config};

/// Visits by slot that a seed has: with `bias` nearly all to one leaf of each tree.
fn visits(trees: &[Tree], slots: usize, bias: bool, seed: u64) -> Vec<u64> {
    let mut random = Seeded(seed);
    let mut visits: Vec<u64> = (0..slots).map(|_| random.below(100) as u64).collect();
    for tree in trees.iter().filter(|_| bias) {
        let leaves: Vec<u32> = tree.nodes.iter().filter_map(Node::slot).collect();
        visits[leaves[random.below(leaves.len())] as usize] += 50 * 100 * leaves.len() as u64;
    }
    visits
}

/// The rows' steps in all: visits times the depth in tiles.
fn steps(tree: &Tree, tiling: &Tiling, visits: &[u64]) -> u64 {
    tiling.leaf_depths(tree).map(|(depth, slot)| u64::from(depth) * visits[slot as usize]).sum()
}

/// The least steps of any valid tiling (Treebeard, section 3.4.1, by dynamic programming): `below[v]` for the subtree of
/// `v` whose root enters a tile, `within[v][k]` where `k` of its splits are in the tile above it.
fn least_steps(tree: &Tree, size: usize, weights: &[u64]) -> u64 {
    let nodes = tree.nodes.len();
    let mut order = vec![0usize];
    for at in 0..nodes {
        if let Node::Split { left, right, .. } = tree.nodes[order[at]] {
            order.extend([left as usize, right as usize]);
        }
    }
    let (mut below, mut splits) = (vec![0u64; nodes], vec![0usize; nodes]);
    let mut within: Vec<Vec<Option<u64>>> = vec![Vec::new(); nodes];
    for v in order.into_iter().rev() {
        let Node::Split { left, right, .. } = tree.nodes[v] else {
            within[v] = vec![Some(0)];
            continue;
        };
        let [left, right] = [left, right].map(|c| c as usize);
        splits[v] = 1 + splits[left] + splits[right];
        let mut own = vec![None; size.min(splits[v]) + 1];
        for (i, a) in within[left].iter().enumerate() {
            for (j, b) in within[right].iter().enumerate() {
                if let (Some(a), Some(b), Some(weight)) = (a, b, own.get_mut(i + j + 1)) {
                    *weight = Some(weight.map_or(a + b, |least: u64| least.min(a + b)));
                }
            }
        }
        // A tile is full, or has all the splits there are.
        below[v] = weights[v] + own[size.min(splits[v])].expect("as many splits as there are");
        own[0] = Some(below[v]);
        within[v] = own;
    }
    below[0]
}

/// Every valid tiling that one can come to by growing tiles from the root on, counted by hand: what the program above is
/// held against.
fn least_by_force(tree: &Tree, size: usize, weights: &[u64], root: u32) -> u64 {
    if tree.nodes[root as usize].slot().is_some() {
        return 0;
    }
    let children = |n: u32| match tree.nodes[n as usize] {
        Node::Split { left, right, .. } => vec![left, right],
        Node::Leaf { .. } => Vec::new(),
    };
    let mut open = std::collections::BTreeSet::from([vec![root]]);
    let mut least = u64::MAX;
    while let Some(tile) = open.pop_first() {
        let exits: Vec<u32> = tile.iter().flat_map(|n| children(*n)).filter(|c| !tile.contains(c)).collect();
        let more: Vec<u32> =
            exits.iter().copied().filter(|c| tree.nodes[*c as usize].slot().is_none()).collect();
        if tile.len() == size || more.is_empty() {
            let below: u64 = exits.iter().map(|c| least_by_force(tree, size, weights, *c)).sum();
            least = least.min(weights[root as usize] + below);
            continue;
        }
        for next in more {
            let mut grown = tile.clone();
            grown.push(next);
            grown.sort_unstable();
            open.insert(grown);
        }
    }
    least
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    /// Partitioning, connectedness, leaf separation and maximality (Treebeard, section 3.2).
    #[test]
    fn tilings_are_valid(forest in forest(), size in 1..=MOST_TILE, bias: bool, seed: u64) {
        let visits = visits(&forest.trees, forest.leaf_count(), bias, seed);
        for tree in forest.trees.iter().take(60) {
            let by_probability = Tiling::by_probability(tree, size, &weights(tree, &visits));
            for tiling in [Tiling::uniform(tree, size), by_probability] {
                prop_assert_eq!(tiling.verify(tree, size), Ok(()));
                // Every leaf is a tile, and the tiles of splits have one exit more than splits.
                let exits = (0..tiling.len() as u32).map(|t| tiling.exits(tree, t).len()).sum::<usize>();
                prop_assert_eq!(exits, tiling.len() - 1, "each tile but the root's is entered once");
            }
        }
    }

    /// No tiling takes fewer steps than the best one; on trees whose rows nearly all come to one leaf the greedy one is
    /// near it.
    #[test]
    fn greedy_is_near_the_best(forest in forest(), size in 1..=MOST_TILE, seed: u64) {
        let visits = visits(&forest.trees, forest.leaf_count(), true, seed);
        for tree in forest.trees.iter().take(12) {
            let weights = weights(tree, &visits);
            let best = least_steps(tree, size as usize, &weights);
            let greedy = steps(tree, &Tiling::by_probability(tree, size, &weights), &visits);
            let uniform = steps(tree, &Tiling::uniform(tree, size), &visits);
            prop_assert!(greedy >= best && uniform >= best, "{greedy} and {uniform} steps, the best has {best}");
            // The likely leaf has 50 times the rows of the others together, so that what the greedy one loses on those is
            // little; the way to it is the shortest there is.
            let bound = best as f64 * 1.25 + 1.0;
            prop_assert!(greedy as f64 <= bound, "{greedy} steps, the best has {best}");
        }
    }

    /// The program finds what trying every tiling finds.
    #[test]
    fn the_best_is_the_best(seed: u64, splits in 0..9usize, size in 1..=4usize) {
        let tree = random_tree(splits, seed);
        let visits = visits(std::slice::from_ref(&tree), splits + 1, seed % 2 == 0, seed);
        let weights = weights(&tree, &visits);
        prop_assert_eq!(least_steps(&tree, size, &weights), least_by_force(&tree, size, &weights, 0));
    }

    /// A tile's table leads where walking its splits one by one leads.
    #[test]
    fn tables_lead_where_walks_do(seed: u64, splits in 1..40usize, size in 1..=MOST_TILE) {
        let tree = random_tree(splits, seed);
        let tiling = Tiling::uniform(&tree, size);
        for t in 0..tiling.len() as u32 {
            let inside = tiling.nodes(t);
            if tree.nodes[inside[0] as usize].slot().is_some() {
                continue;
            }
            let (shape, exits) = (Shape::of(&tree, inside), tiling.exits(&tree, t));
            prop_assert_eq!(shape.nodes() as usize, inside.len());
            for (outcome, child) in shape.table(size).into_iter().enumerate() {
                let mut at = inside[0];
                while let Some(index) = inside.iter().position(|n| *n == at) {
                    let Node::Split { left, right, .. } = tree.nodes[at as usize] else { break };
                    at = if outcome >> index & 1 == 1 { right } else { left };
                }
                prop_assert_eq!(exits[child as usize], at);
            }
        }
    }
}

/// A tree of so many splits, each where a leaf was drawn.
fn random_tree(splits: usize, seed: u64) -> Tree {
    let mut random = Seeded(seed);
    let mut nodes = vec![Node::Leaf { slot: 0 }];
    for _ in 0..splits {
        let leaves: Vec<usize> = (0..nodes.len()).filter(|n| nodes[*n].slot().is_some()).collect();
        let (leaf, left) = (leaves[random.below(leaves.len())], nodes.len() as u32);
        let predicate = fangorn::forest::Predicate::Always;
        nodes[leaf] = Node::Split { feature: 0, predicate, missing: Side::Left, left, right: left + 1 };
        nodes.extend([Node::Leaf { slot: 0 }; 2]);
    }
    let mut slots = 0..;
    for node in &mut nodes {
        if let Node::Leaf { slot } = node {
            *slot = slots.next().expect("a number");
        }
    }
    Tree { ids: (0..nodes.len() as u32).collect(), nodes }
}

/// As many as Catalan's numbers, no two alike (Treebeard, equation 1).
#[test]
fn shapes_are_as_many_as_binary_trees() {
    let counts: Vec<usize> = (1..=MOST_TILE).map(|nodes| Shape::all(nodes).len()).collect();
    assert_eq!(counts, [1, 2, 5, 14, 42, 132, 429, 1430]);
    let mut all: Vec<Shape> = (1..=MOST_TILE).flat_map(Shape::all).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 2055);
    assert!((1..=MOST_TILE).all(|nodes| Shape::all(nodes).iter().all(|s| s.nodes() == nodes)));
}

/// A chain whose last leaf nearly all rows come to: in tiles of four by probability two steps, level by level as many, and
/// a full tree of which one leaf is likely takes fewer by probability.
#[test]
fn likely_leaves_are_reached_in_fewer_tiles() {
    let forest = forest_of("depth 6; features 3");
    let tree = &forest.trees[0];
    let mut visits = vec![1u64; forest.leaf_count()];
    visits[40] = 10_000;
    assert!(is_leaf_biased(tree, &visits));
    assert!(!is_leaf_biased(tree, &vec![1; forest.leaf_count()]));
    assert!(!is_leaf_biased(tree, &vec![0; forest.leaf_count()]), "no rows, no bias");
    let depth_of =
        |tiling: &Tiling, slot: u32| tiling.leaf_depths(tree).find(|l| l.1 == slot).expect("a leaf").0;
    let uniform = Tiling::uniform(tree, 3);
    let likely = Tiling::by_probability(tree, 3, &weights(tree, &visits));
    assert_eq!((depth_of(&uniform, 40), depth_of(&likely, 40)), (3, 2));
}
