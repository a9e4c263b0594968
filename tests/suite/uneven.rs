//! Walks of many rows through trees whose leaves lie at very different depths, so that walks end at very different times:
//! the leaf of each row and tree is that of the reference interpreter.

use crate::generate;

use fangorn::{
    Forest, Predictor,
    check::SelfCheck,
    cost::Machine,
    cpu::{Engine, Rows},
    forest::{CompareType, Predicate, Side, reference},
    schedule::Schedule,
};
use generate::Seeded;

/// Trees of up to `splits` splits each. Half of the splits go below the newest leaf, so some leaves are near the root and
/// others are many levels below it.
fn uneven(features: usize, trees: usize, splits: usize, draws: &mut Seeded) -> Forest {
    let mut builder = Forest::builder(features, 1);
    for _ in 0..trees {
        // The children of each split. Splits come first, then leaves.
        let splits = draws.below(splits + 1);
        let (mut children, mut open) = (vec![[0u32; 2]; splits], vec![(0, 0), (0, 1)]);
        for n in 1..splits {
            let at = if draws.below(2) == 0 { open.len() - 1 } else { draws.below(open.len()) };
            let (parent, side): (usize, usize) = open.remove(at);
            children[parent][side] = n as u32;
            open.extend([(n, 0), (n, 1)]);
        }
        if splits > 0 {
            for (leaf, (parent, side)) in open.into_iter().enumerate() {
                children[parent][side] = (splits + leaf) as u32;
            }
        }
        let mut tree = builder.tree(0);
        for [left, right] in children {
            let predicate = match draws.below(20) {
                0 => Predicate::Always,
                _ => CompareType::F32.less(draws.below(64) as f64 / 8.0 - 4.0),
            };
            let missing = if draws.below(2) == 0 { Side::Left } else { Side::Right };
            tree.split(draws.below(features) as u32, predicate, missing, left, right);
        }
        for leaf in 0..=splits {
            tree.leaf(leaf as u32, &[draws.below(100) as f64]);
        }
    }
    builder.build().expect("a forest")
}

/// Numbers of rows around those of registers, of row blocks and of the leaves that walks find together.
const BATCHES: [usize; 14] = [63, 64, 65, 66, 79, 80, 127, 129, 300, 511, 512, 513, 577, 1100];

#[test]
fn rows_end_at_their_leaves_whenever_the_others_do() {
    let draws = &mut Seeded(26);
    // Row blocks begin within row blocks of a copy in the last one.
    let tiles = [
        "tile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\ncache(b0)",
        "tile(batch, b0, b1, 1024)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)",
        "tile(batch, b0, b1, 512)\nreorder(b0, tree, b1)",
        "tile(batch, b0, b1, 1000)\ntile(b1, b2, b3, 100)\nreorder(b0, b2, tree, b3)\ncache(b0)",
    ];
    let walks = ["", "peelWalk(b, 3)\n"];
    let (mut vectors, mut all) = (0, 0);
    for (features, trees, splits) in [(3, 9, 60), (40, 5, 700), (300, 6, 200)] {
        let forest = uneven(features, trees, splits, draws);
        for (at, tile) in tiles.iter().enumerate() {
            let inner = if at == 3 { "b3" } else { "b1" };
            for (layout, ranks) in [
                ("sparse", ""),
                ("depth_first", ""),
                ("sparse", "ranks(u8)\n"),
                ("depth_first", "ranks(u16)\n"),
            ] {
                let walk = walks[draws.below(walks.len())].replace("(b,", &format!("({inner},"));
                let text = format!("{ranks}{tile}\n{walk}layout({layout})");
                let schedule = Schedule::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
                let builder = Predictor::builder(&forest).schedule(schedule).threads(2);
                let predictor =
                    builder.check(SelfCheck::Off).build().unwrap_or_else(|e| panic!("{e}: {text}"));
                for batch in BATCHES {
                    let rows = generate::rows(&forest, batch, draws.next());
                    let found = predictor.leaf_ids(&Rows::new(&rows, features).expect("rows")).expect("ids");
                    for (r, row) in rows.chunks_exact(features).enumerate() {
                        let expected = reference::leaf_ids(&forest, row);
                        assert_eq!(found[r * trees..][..trees], expected, "row {r} of {batch}: {text}");
                    }
                    all += 1;
                    let engines = predictor.engines(batch).expect("engines");
                    vectors += usize::from(engines.iter().any(|(engine, _)| *engine == Engine::Vectors));
                }
            }
        }
    }
    let has_vectors = Machine::here().name != "portable";
    assert!(!has_vectors || 2 * vectors >= all, "vectors serve {vectors} of {all}");
}

/// Full trees of an array, whose leaves do not hold walks, filled up below leaves near the root.
#[test]
fn walks_of_an_array_end_at_leaves_near_the_root() {
    let draws = &mut Seeded(27);
    let forest = uneven(5, 12, 9, draws);
    let text = "tile(batch, b0, b1, 1024)\nreorder(b0, tree, b1)\ncache(b0)\n";
    for layout in ["array", "reorg"] {
        let schedule = Schedule::parse(&format!("{text}layout({layout})")).expect("a schedule");
        let predictor =
            Predictor::builder(&forest).schedule(schedule).threads(1).build().expect("it is served");
        let engines = predictor.engines(1100).expect("engines");
        let by_vectors = engines.iter().all(|(engine, _)| *engine == Engine::Vectors);
        assert!(by_vectors || Machine::here().name == "portable", "{layout}: {engines:?}");
        for batch in BATCHES {
            let rows = generate::rows(&forest, batch, draws.next());
            let found = predictor.leaf_ids(&Rows::new(&rows, 5).expect("rows")).expect("ids");
            let expected: Vec<u32> =
                rows.chunks_exact(5).flat_map(|row| reference::leaf_ids(&forest, row)).collect();
            assert_eq!(found, expected, "{layout}, {batch} rows");
        }
    }
}
