//! `evaluate(v, blend)`: every split of a tree for 64 rows at once finds what walks find.

use crate::generate;
use crate::runs;

use fangorn::{
    Forest, Predictor,
    cpu::{Program, Rows},
    forest::reference,
    plan::{Request, lower},
    schedule::{Device, Preset, Schedule},
    sum::Contract,
};
use generate::{Case, forest_of};
use proptest::{prelude::*, test_runner::Config};

/// Nests that read each row in one window, of one row block or several, aligned or not, and some that don't.
const NESTS: [&str; 14] = [
    "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend)",
    "tile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)\nevaluate(b1, blend)",
    "tile(batch, b0, b1, 100)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend)",
    "tile(batch, b0, b1, 128)\ntile(b1, b2, b3, 24)\nreorder(b0, b2, tree, b3)\ncache(b0)\nevaluate(b3, blend)",
    "tile(batch, b0, b1, 64)\ntile(tree, t0, t1, 3)\nreorder(b0, t0, b1, t1)\ncache(b0)\nevaluate(t1, blend)",
    "tile(tree, t0, t1, trees/2)\ntile(batch, b0, b1, 64)\nreorder(b0, t0, t1, b1)\nparallel(t0)\ncache(b0)\nevaluate(b1, blend)",
    "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend(3))",
    "tile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)\nevaluate(b1, blend(8))\nlayout(depth_first)",
    "tile(batch, b0, b1, 100)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend(1))",
    // A cut tree's rows begin inside a row block.
    "tile(batch, b0, b1, 128)\ntile(b1, b2, b3, 24)\nreorder(b0, b2, tree, b3)\ncache(b0)\nevaluate(b3, blend(3))",
    // Rows of a visit lie eight apart.
    "tile(batch, b0, b1, 256)\ntile(b1, b2, b3, 8)\nreorder(b0, b3, tree, b2)\ncache(b0)\nevaluate(b2, blend)",
    // Some trees are blended, the others walked.
    "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nsplit(tree, t0, t1, 2)\ncache(b0)\nevaluate(t0.b1, blend)",
    // Rows are ranked before.
    "reorder(tree, batch)\nevaluate(batch, blend)",
    "tile(tree, t0, t1, 2)\ntile(batch, b0, b1, 64)\nreorder(t0, b0, t1, b1)\ncache(b0)\nevaluate(b1, blend)",
];
const BATCHES: [usize; 10] = [0, 1, 15, 16, 17, 64, 65, 129, 300, 1000];

fn schedule(nest: &str) -> Schedule {
    Schedule::parse(&format!("ranks(u8)\n{nest}")).unwrap_or_else(|e| panic!("{e}\n{nest}"))
}

/// A caller's own leaf values take the place of the forest's, also where a blend finds the leaves.
#[test]
fn leaf_values_of_the_caller_are_added() {
    for forest in ["40 x depth 3, chain 20, depth 0; features 9", "9 x depth 6; features 5; outputs 3"] {
        let forest = forest_of(forest);
        let mut other = forest.clone();
        let turned = other.leaf_values.len() - 1;
        other.leaf_values.rotate_left(turned / 2);
        for nest in NESTS {
            let request = Request { threads: 2, ..Request::cpu() };
            let programs = [&forest, &other].map(|forest| {
                let lowered = lower(forest, &schedule(nest), request).expect("lowered");
                Program::new(forest, &lowered, 2).expect("a program")
            });
            for batch in BATCHES {
                let values = generate::rows(&forest, batch, 5);
                let rows = Rows::new(&values, forest.features.len()).expect("rows");
                let [found, expected] = programs.each_ref().map(|program| {
                    let mut out = vec![0.0; batch * forest.outputs as usize];
                    program.margins(&rows, programs[1].leaves(), &mut out).expect("margins");
                    out
                });
                assert_eq!(found, expected, "{batch} rows by\n{nest}");
            }
        }
    }
}

/// Sums that begin inside a cache line are kept in room of their own meanwhile.
#[test]
fn sums_may_begin_anywhere_in_a_cache_line() {
    for forest in ["40 x depth 3, chain 20, depth 0; features 9", "2 x depth 9, 3 x depth 4; features 5"] {
        let forest = forest_of(forest);
        for nest in NESTS {
            let request = Request { threads: 2, ..Request::cpu() };
            let lowered = lower(&forest, &schedule(nest), request).expect("lowered");
            let program = Program::new(&forest, &lowered, 2).expect("a program");
            for batch in [13, 64, 150, 300] {
                let values = generate::rows(&forest, batch, 5);
                let rows = Rows::new(&values, forest.features.len()).expect("rows");
                let mut room = vec![7.0; batch + 32];
                let mut margins = |begin: usize| {
                    room.fill(7.0);
                    let out = &mut room[begin..begin + batch];
                    program.margins(&rows, program.leaves(), out).expect("margins");
                    let found = out.to_vec();
                    let others = room[..begin].iter().chain(&room[begin + batch..]);
                    assert!(others.into_iter().all(|other| *other == 7.0), "{batch} rows from {begin} on");
                    found
                };
                let first = margins(0);
                for begin in 1..=16 {
                    assert_eq!(margins(begin), first, "{batch} rows from {begin} on, by\n{nest}");
                }
            }
        }
    }
}

#[test]
fn trees_of_every_size_give_what_the_reference_gives() {
    let forests = [
        "3 x depth 0; features 2",
        "40 x depth 3, chain 20, depth 0; features 9",
        "depth 8, depth 2; features 5",
        // Too large for a byte, beside one that is not.
        "depth 9, 3 x depth 4; features 5",
        "chain 60, chain 3; features 7; outputs 2",
        "30 x depth 5; features 6; outputs 3",
        "9 x depth 3; features 4; outputs 5; vector",
        "2 x depth 11, chain 40; features 30",
    ];
    for forest in forests.map(forest_of) {
        for nest in NESTS {
            for batch in BATCHES {
                let case = Case::new(forest.clone(), schedule(nest), batch, 11);
                for threads in [1, 2] {
                    let done = runs::on_cpu(&case, threads);
                    assert_eq!(done, Ok(true), "{batch} rows, {threads} threads\n{}", case.to_text());
                }
            }
        }
    }
}

/// Five rows that cross the end of a block of 64 are too few for blends, so they are walked, in the order of the loops.
#[test]
fn a_few_rows_across_two_blocks_are_walked_in_order() {
    let forest = forest_of("9 x depth 1; features 4");
    let rows = "tile(batch, b0, b1, 128)\ntile(b1, b2, b3, 5)\n";
    let trees = "tile(tree, t0, t1, 2)\nreorder(b0, b2, t0, b3, t1)\ncache(b0)\nevaluate(t1, blend)";
    for nest in ["reorder(b0, b2, tree, b3)\ncache(b0)\nevaluate(b3, blend)", trees] {
        for batch in [65, 130] {
            let case = Case::new(forest.clone(), schedule(&format!("{rows}{nest}")), batch, 7);
            assert_eq!(runs::on_cpu(&case, 1), Ok(true), "{batch} rows\n{}", case.to_text());
        }
    }
}

#[test]
fn cut_trees_are_walked_on_in_every_layout() {
    let forest = forest_of("4 x depth 9, 3 x depth 5, depth 0; features 20; outputs 2");
    for layout in ["sparse", "array", "reorg", "depth_first"] {
        for levels in 1..=8 {
            let nest = format!(
                "tile(batch, b0, b1, 128)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend({levels}))\nlayout({layout})"
            );
            for batch in [16, 63, 130, 257] {
                let case = Case::new(forest.clone(), schedule(&nest), batch, 5);
                assert_eq!(runs::on_cpu(&case, 1), Ok(true), "{layout}, {levels} levels, {batch} rows");
            }
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]
    #[test]
    fn random_forests_give_what_the_reference_gives(
        forest in generate::forest(),
        nest in prop::sample::select(NESTS.to_vec()),
        batch in prop::sample::select(vec![1usize, 17, 64, 131]),
        seed in any::<u64>(),
    ) {
        prop_assume!(batch * forest.features.len() <= 1 << 16 && batch * forest.trees.len() <= 1 << 16);
        let case = Case::new(forest, schedule(nest), batch, seed);
        let done = runs::on_cpu(&case, 1);
        prop_assert_eq!(done, Ok(true), "{}", case.to_text());
    }
}

/// The margins of a predictor, by each contract, are those of the reference: exactly where that is promised.
#[test]
fn contracts_hold_with_blends() {
    let forest = forest_of("30 x depth 5, chain 9; features 6; outputs 3");
    let data = generate::rows(&forest, 200, 3);
    let rows = Rows::new(&data, 6).expect("rows");
    let margins = |schedule: &Schedule, contract| {
        let predictor = Predictor::builder(&forest)
            .schedule(schedule.clone())
            .threads(1)
            .sum(contract)
            .build()
            .expect("a predictor");
        predictor.margins(&rows).expect("margins")
    };
    let (blended, walked) = (schedule(NESTS[1]), Preset::Xgboost.schedule(&forest, false));
    for contract in [Contract::Tree, Contract::Exact] {
        assert_eq!(margins(&blended, contract), margins(&walked, contract), "{}", contract.name());
    }
}

/// A predictor walks a batch of few rows on values, and says the same as for many.
#[test]
fn few_rows_and_many_find_the_same_leaves() {
    let forest = forest_of("100 x depth 6; features 12");
    let data = generate::rows(&forest, 100, 3);
    let predictor =
        Predictor::builder(&forest).schedule(Preset::Default.schedule(&forest, false)).threads(1).build();
    let predictor = predictor.expect("a predictor");
    let all = predictor.leaf_slots(&Rows::new(&data, 12).expect("rows")).expect("slots");
    for (r, row) in data.chunks(12).enumerate() {
        let own = predictor.leaf_slots(&Rows::new(row, 12).expect("a row")).expect("slots");
        assert_eq!(own, reference::leaf_slots(&forest, row));
        assert_eq!(own, all[r * 100..][..100]);
    }
}

fn notes(forest: &Forest, text: &str, device: Device) -> Vec<String> {
    let schedule = Schedule::parse(text).expect("a schedule");
    let lowered =
        lower(forest, &schedule, Request { device, threads: 1, ..Request::cpu() }).expect("lowered");
    lowered.notes().iter().map(ToString::to_string).collect()
}

#[test]
fn what_can_t_be_blended_is_walked_and_said() {
    let forest = forest_of("4 x depth 3; features 3");
    let cpu = |text: &str| notes(&forest, text, Device::Cpu);
    assert!(cpu(&format!("ranks(u8)\n{}", NESTS[0])).is_empty());
    assert!(cpu("ranks(u8)\nevaluate(tree, blend)")[0].contains("cache"));
    assert!(cpu("evaluate(tree, blend)")[0].contains("ranks(u8)"));
    assert!(cpu("ranks(u16)\nevaluate(tree, blend)")[0].contains("ranks(u8)"));
    let gpu =
        notes(&forest, "ranks(u8)\nevaluate(tree, blend)\ngpuDimension(batch, grid.x)", Device::PORTABLE_GPU);
    assert!(gpu[0].contains("a cube's units walk trees"), "{gpu:?}");
    assert!(cpu("ranks(u8)\nevaluate(tree, walk)").is_empty());
}
