//! `tileNodes(n, how)`: walks by tiles end where walks by nodes end, in every layout, order and instruction set.
//! `FANGORN_ISA` has them run as on another machine.

use crate::generate;
use crate::runs;

use fangorn::{
    Error, Forest, Predictor,
    forest::{Profile, ProfileError},
    plan::{PackedNode, Remainder, Request, check, lower, lower_with},
    schedule::{Device, Preset, Schedule},
};
use generate::{Case, forest_of};

/// Nests with rows inside and with trees inside, interleaved or not, and how their walks go.
const NESTS: [&str; 9] = [
    "",
    "reorder(tree, batch)",
    "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)\nunrollWalk(b1)",
    "tile(batch, b0, b1, 8)\nreorder(b0, tree, b1)\ninterleave(b1)\nunrollWalk(b1)",
    "tile(batch, b0, b1, 16)\nreorder(b0, tree, b1)\ninterleave(b1)\npeelWalk(b1, 4)",
    "tile(batch, b0, b1, 3)\nreorder(b1, tree, b0)\nunrollWalk(b0, 2)",
    "tile(tree, t0, t1, 8)\ninterleave(t1)\nunrollWalk(t1)\nsort(structure)",
    "sort(likely_leaf)\nspecialize(tree)\npeelWalk(tree, 90%)",
    "sort(depth)\npad(40)\nspecialize(tree)\nreorder(tree, batch)\npeelWalk(batch, 3)\npeelWalk(batch, 60%)",
];

const FORESTS: [&str; 6] = [
    "3 x depth 0; features 2",
    "9 x depth 3, chain 20, depth 0; features 9",
    "depth 8, depth 2; features 5",
    "4 x chain 15, 3 x depth 5; features 40; outputs 2",
    "chain 60, chain 3; features 7",
    "9 x depth 4; features 1; outputs 5; vector",
];

#[test]
fn tiles_of_every_size_give_what_the_reference_gives() {
    let mut held = 0;
    for forest in FORESTS.map(forest_of) {
        for nest in NESTS {
            for (nodes, how) in (1..=8u32).zip(["uniform", "probability", "hybrid"].into_iter().cycle()) {
                for layout in ["sparse", "array"] {
                    let text = format!("tileNodes({nodes}, {how})\n{nest}\nlayout({layout})");
                    let schedule = Schedule::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
                    for batch in [0, 1, 7, 17, 65] {
                        let case = Case::new(forest.clone(), schedule.clone(), batch, 11 + u64::from(nodes));
                        match runs::on_cpu(&case, 1 + batch % 2) {
                            Ok(fits) => held += usize::from(fits),
                            Err(e) => panic!("{batch} rows: {e}\n{}", case.to_text()),
                        }
                    }
                }
            }
        }
    }
    // Chains are refused as full trees of tiles.
    assert!(held > 2800, "{held} of 4320 fit their layouts");
}

fn lowered(forest: &Forest, text: &str) -> fangorn::plan::LoweredForest {
    let case = Case::new(forest.clone(), Schedule::parse(text).expect("a schedule"), 0, 3);
    let request = Request { threads: 1, ..Request::cpu() };
    lower_with(forest, &case.schedule, request, Some(&case.profile())).expect("lowered")
}

/// A tile's children are all leaves or all tiles; where they were of both kinds, a leaf has a hop above it, and no other
/// padding is there without unrolled walks.
#[test]
fn leaves_beside_tiles_are_a_hop_away() {
    let forest = forest_of("chain 4; features 2");
    let packed = lowered(&forest, "tileNodes(2, uniform)").packed().clone();
    // Two splits, their two leaves behind hops, the next two splits, whose three children are leaves.
    let count = |kind: fn(&PackedNode) -> bool| packed.nodes.iter().filter(|n| kind(n)).count();
    let [tiles, hops] =
        [count(|n| matches!(n, PackedNode::Tile { .. })), count(|n| matches!(n, PackedNode::Through { .. }))];
    assert_eq!((tiles, hops, packed.nodes.len()), (2, 2, 9), "{:?}", packed.nodes);
    assert_eq!(packed.depths, [2]);
    let full = lowered(&forest_of("depth 4; features 2"), "tileNodes(3, uniform)").packed().clone();
    assert!(!full.nodes.iter().any(|n| matches!(n, PackedNode::Through { .. })));
    assert_eq!((full.nodes.len(), &full.depths[..]), (5 + 16, &[2][..]));
}

/// Steps, padding and orders count tiles.
#[test]
fn walks_count_tiles() {
    let steps = |text: &str| {
        let lowered = lowered(&forest_of("depth 6, depth 3; features 3"), text);
        let plan = lowered.cpu_plan().expect("a program");
        plan.walks().map(|w| (w.steps, w.rest)).collect::<Vec<_>>()
    };
    assert_eq!(steps("unrollWalk(tree)"), [(6, Remainder::Nothing)]);
    assert_eq!(steps("tileNodes(7, uniform)\nunrollWalk(tree)"), [(2, Remainder::Nothing)]);
    assert_eq!(steps("tileNodes(7, uniform)\npeelWalk(tree, 8)"), [(1, Remainder::UntilLeaf)]);
    let grouped = "tileNodes(7, uniform)\nsort(depth)\nspecialize(tree)\nunrollWalk(tree)";
    assert_eq!(steps(grouped), [(1, Remainder::Nothing), (2, Remainder::Nothing)]);
    assert_eq!(steps("tileNodes(1, probability)\nunrollWalk(tree)"), [(6, Remainder::Nothing)]);
}

/// Leaf tests reach down to where so many of a profile's rows have ended.
#[test]
fn peeled_walks_test_to_where_most_rows_end() {
    let forest = forest_of("chain 6; features 3");
    let mut profile = Profile::new(&forest);
    // Slots of a chain count through the nodes; each leaf's depth says where its rows end.
    let depths = forest.trees[0].depths();
    let leaf = |depth: u32| {
        let at =
            depths.iter().zip(&forest.trees[0].nodes).find_map(|(d, n)| n.slot().filter(|_| *d == depth));
        at.expect("a leaf at each depth")
    };
    for (depth, rows) in [(1, 50), (2, 30), (3, 10), (6, 10)] {
        profile.count(&forest, &vec![leaf(depth); rows]).expect("slots");
    }
    for (percent, tested) in [(1, 1), (50, 1), (51, 2), (80, 2), (90, 3), (91, 6), (100, 6)] {
        let schedule = Schedule::parse(&format!("peelWalk(tree, {percent}%)")).expect("a schedule");
        let lowered = lower_with(&forest, &schedule, Request::cpu(), Some(&profile)).expect("lowered");
        let found = lowered.cpu_plan().expect("a program").walks().map(|w| w.own.tested).next();
        assert_eq!(found, Some(tested), "{percent}%");
    }
}

#[test]
fn what_needs_a_profile_says_so() {
    let forest = forest_of("depth 3; features 3");
    let refused = |text: &str, device: Device| {
        let request = Request { device, ..Request::cpu() };
        let schedule = Schedule::parse(text).expect("a schedule");
        check(&forest, &schedule, request).expect_err(text).to_string()
    };
    for text in ["tileNodes(8, probability)", "peelWalk(tree, 90%)", "sort(likely_leaf)"] {
        let message = refused(text, Device::Cpu);
        assert!(message.contains(text) && message.contains("fangorn profile"), "{message}");
    }
    let on_gpu = "gpuDimension(batch, grid.x)\ntileNodes(8, uniform)";
    assert!(refused(on_gpu, Device::PORTABLE_GPU).contains("directive 2 `tileNodes(8, uniform)`"));
    for layout in ["reorg", "depth_first"] {
        let message = refused(&format!("tileNodes(2, uniform)\nlayout({layout})"), Device::Cpu);
        assert!(message.starts_with(&format!("layout({layout}): it has no tiles")), "{message}");
    }
    let hybrid = Schedule::parse("tileNodes(8, hybrid)").expect("a schedule");
    let notes = lower(&forest, &hybrid, Request::cpu()).expect("lowered").notes().to_vec();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].directive, "tileNodes(8, hybrid)");
    // One node a tile is no tile, on any device.
    let one = Schedule::parse("gpuDimension(batch, grid.x)\ntileNodes(1, uniform)").expect("a schedule");
    let request = Request { device: Device::PORTABLE_GPU, threads: 1, ..Request::cpu() };
    assert!(check(&forest, &one, request).is_ok());
}

#[test]
fn a_profile_of_another_forest_is_refused() {
    let [forest, other] = ["depth 3; features 3", "depth 3; features 4"].map(forest_of);
    let profile = Profile::new(&other);
    let schedule = Preset::TreebeardTiles.schedule(&forest, false);
    let made = Predictor::builder(&forest).schedule(schedule.clone()).threads(1).profile(&profile).build();
    assert!(matches!(made, Err(Error::Profile(ProfileError::Forest { .. }))), "{made:?}");
    let too_few = Profile::of_visits(&forest, vec![1; 7]);
    assert!(matches!(too_few, Err(ProfileError::Counts(_))), "{too_few:?}");
    assert_eq!(Profile::of_visits(&forest, vec![2; 8]).expect("a profile").rows(), 16);
    let bare = Forest::builder(2, 1).build().expect("a base score alone");
    let mut none = Profile::new(&bare);
    let refused = none.count(&bare, &[]).expect_err("no leaf");
    assert_eq!(refused, ProfileError::NoTrees);
    assert!(refused.to_string().contains("no trees") && !refused.to_string().contains("again"), "{refused}");
    let mut changed = forest.clone();
    changed.leaf_values[0].0 += 1.0;
    assert_eq!(changed.fingerprint(), forest.fingerprint(), "values decide no leaf");
    changed.sets.push(Default::default());
    assert_ne!(changed.fingerprint(), forest.fingerprint());
}
