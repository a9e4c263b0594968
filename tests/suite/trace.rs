//! The schedule is what runs: a run that records who walks which tree for which row, and when, held against the order
//! that the loop nest prescribes.

use crate::generate;
use crate::runs;

use std::collections::BTreeSet;

use fangorn::{
    Forest, Predictor,
    cpu::{Rows, worker},
    forest::{Aggregate, CompareType, Side},
    plan::{TargetPlan, lower, lower_with},
    schedule::{Device, Extents, FewRows, Preset, Schedule},
};
use generate::{Case, Kind, forest_of};
use proptest::{prelude::*, test_runner::Config};
use runs::{Record, Walks, request};

/// Each worker's walks of drawn rows, or why there are none.
fn recorded(forest: &Forest, schedule: &Schedule, batch: usize, threads: u32) -> Result<Record, String> {
    runs::recorded(&Case::new(forest.clone(), schedule.clone(), batch, 3), threads)
}

/// The same as the nest prescribes it.
fn prescribed(forest: &Forest, schedule: &Schedule, batch: usize, threads: u32) -> Result<Walks, String> {
    runs::prescribed(&Case::new(forest.clone(), schedule.clone(), batch, 3), threads)
}

#[track_caller]
fn assert_runs_as_prescribed(what: &str, forest: &Forest, schedule: &Schedule, batch: usize) {
    for threads in [1, 2] {
        let case = Case::new(forest.clone(), schedule.clone(), batch, 3);
        let done = runs::runs_as_prescribed(&case, threads);
        assert!(done.is_ok(), "{what}, {batch} rows, {threads} threads: {done:?}");
    }
}

fn mixed_forest() -> Forest {
    forest_of("5 x depth 3, chain 6, 10 x depth 2, depth 0, 17 x chain 3; features 4")
}

#[test]
fn presets_run_as_prescribed() {
    let forest = mixed_forest();
    for preset in Preset::ALL {
        for gpu in [false, true] {
            for batch in [0, 1, 7, 64, 65, 200] {
                let schedule = preset.schedule(&forest, gpu);
                assert_runs_as_prescribed(preset.name(), &forest, &schedule, batch);
                let in_order = schedule.few_rows(FewRows::Walk);
                assert_runs_as_prescribed(preset.name(), &forest, &in_order, batch);
            }
        }
    }
}

/// The parts of a batch that is divided by rows don't end where the tiles of the whole batch do.
#[test]
fn each_part_of_a_batch_runs_as_a_batch_of_its_own() {
    let forest = forest_of("1500 x depth 6; features 9");
    let text = "tile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)";
    for evaluation in ["", "\nranks(u8)\nevaluate(b1, blend)"] {
        let schedule = Schedule::parse(&format!("{text}{evaluation}")).expect("a schedule");
        for (batch, parts) in [(64, 1), (300, 2), (700, 2)] {
            let case = Case::new(forest.clone(), schedule.clone(), batch, 3);
            assert_eq!(runs::runs_as_prescribed(&case, 2), Ok(parts), "{batch} rows by\n{text}{evaluation}");
        }
    }
}

/// A few rows of a window go one by one, too, as the trace says.
#[test]
fn a_few_rows_of_a_window_go_one_by_one() {
    let forest = mixed_forest();
    let text =
        "tile(batch, b0, b1, 64)\ntile(b1, b2, b3, 8)\nreorder(b0, b2, tree, b3)\ncache(b0)\nlayout(sparse)";
    let schedule = Schedule::parse(text).expect("a schedule");
    for batch in [7, 40, 64, 100] {
        assert_runs_as_prescribed(text, &forest, &schedule, batch);
    }
}

/// If a batch has too few rows for the threads, they share the trees. The trace says which share each visit belongs to.
#[test]
fn a_trace_has_the_shares_of_a_small_batch() {
    let stumps = |aggregate| {
        let mut builder = Forest::builder(3, 1).aggregate(aggregate);
        for t in 0..20_011u32 {
            let mut tree = builder.tree(0);
            tree.split(t % 3, CompareType::F32.less(f64::from(t % 5)), Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[2.0]);
        }
        builder.build().expect("a forest")
    };
    let values: Vec<f32> = (0..4 * 3).map(|i| (i % 7) as f32).collect();
    for (aggregate, threads, expected) in
        [(Aggregate::Sum, 4, 4), (Aggregate::Sum, 1, 1), (Aggregate::Max, 4, 1)]
    {
        let forest = stumps(aggregate);
        let schedule = Preset::Xgboost.schedule(&forest, false);
        let predictor = Predictor::builder(&forest).schedule(schedule).threads(threads).build();
        let trace =
            predictor.expect("a predictor").trace(&Rows::new(&values, 3).expect("rows")).expect("a trace");
        let shares: BTreeSet<u32> = trace.iter().map(|visit| visit.share).collect();
        let what = format!("{aggregate:?}, {threads} threads: {shares:?}");
        assert_eq!(shares.len() as u32, expected, "{what}");
        assert!(shares.contains(&0) && *shares.last().expect("a share") == expected - 1, "{what}");
        assert_eq!(trace.iter().map(|visit| visit.block).min(), Some(0), "{what}");
        // The trees of a share are adjacent.
        for row in trace.chunks(forest.trees.len()) {
            assert!(row.is_sorted_by_key(|visit| visit.share), "{what}");
        }
    }
}

/// If sizes of tiles do not divide their loops, the order of walks shows that a partial iteration ends with its tile.
#[test]
fn partial_tiles_keep_their_order() {
    let forest = forest_of("7 x depth 1");
    for text in [
        "tile(batch, b0, b1, 10)\ntile(b1, b2, b3, 4)\nreorder(b0, b2, tree, b3)",
        "tile(batch, b0, b1, 10)\ntile(b1, b2, b3, 4)\nreorder(b0, b2, tree, b3)\ninterleave(b3)",
        "tile(batch, b0, b1, threads)\ntile(b1, b2, b3, 2)",
        "tile(tree, t0, t1, 4)\ntile(t1, t2, t3, 3)\nreorder(t0, t2, batch, t3)",
        "tile(tree, t0, t1, 5)\nsplit(t1, t2, t3, 2)\ntile(batch, b0, b1, 3)\nreorder(b0, b1)",
        "tile(batch, a, b, 24)\ntile(b, c, d, 8)\ntile(d, e, f, 2)\nreorder(a, c, e, tree, f)",
    ] {
        let schedule = Schedule::parse(text).expect("a schedule").few_rows(FewRows::Walk);
        for batch in [1, 9, 10, 11, 30, 44] {
            assert_runs_as_prescribed(text, &forest, &schedule, batch);
        }
    }
}

/// Each block of a run has its own number, counted from 0. Each iteration of a parallel loop has its own worker.
#[test]
fn blocks_and_workers_have_numbers_of_their_own() {
    let forest = forest_of("6 x depth 2; features 3");
    let text = "tile(batch, b0, b1, 5)\ntile(tree, t0, t1, 2)\nreorder(b0, t0, b1, t1)\nparallel(b0)";
    let schedule = Schedule::parse(text).expect("a schedule").few_rows(FewRows::Walk);
    let values = generate::rows(&forest, 23, 5);
    let rows = Rows::new(&values, 3).expect("rows");
    for threads in [1, 2] {
        let predictor = Predictor::builder(&forest).schedule(schedule.clone()).threads(threads).build();
        let trace = predictor.expect("a predictor").trace(&rows).expect("a trace");
        // A block has two trees, and five rows, or three at the end of the batch.
        let mut tiles: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); 5 * 3];
        for (at, visit) in trace.iter().enumerate() {
            tiles[at / 6 / 5 * 3 + at % 6 / 2].insert(visit.block);
        }
        assert!(tiles.iter().all(|blocks| blocks.len() == 1), "{tiles:?}");
        let all: BTreeSet<u32> = tiles.into_iter().flatten().collect();
        assert_eq!(all, (0..15).collect(), "{threads} threads");
        let workers: BTreeSet<u32> = trace.iter().map(|visit| visit.worker).collect();
        assert_eq!(workers, (0..5).map(|k| worker([k])).collect(), "{threads} threads");
    }
    // Visits outside all parallel loops have worker 0, which no iteration of a parallel loop has.
    assert_eq!(worker([]), 0);
    assert!((0..100).all(|k| worker([k]) != 0 && worker([k, 0]) != worker([k])));
}

proptest! {
    #![proptest_config(Config { cases: 1500, failure_persistence: None, ..Config::default() })]

    /// A loop nest for a GPU, too, has each pair of a row and a tree once.
    #[test]
    fn mapped_nests_visit_each_pair_once(case in generate::case(Kind::MappedLoop)) {
        let request = request(Device::PORTABLE_GPU, 1);
        let Ok(lowered) = lower_with(&case.forest, &case.schedule, request, Some(&case.profile())) else { return Ok(()) };
        let trees = case.forest.trees.len() as u32;
        let extents = Extents { batch: case.batch as u32, trees, threads: 1 };
        let pairs = |nest: &fangorn::plan::LoopNest, size: u32| {
            let mut pairs: Vec<_> = nest.visits(extents, |_| size).iter().map(|v| (v.row, v.tree)).collect();
            pairs.sort_unstable();
            pairs
        };
        let all: Vec<_> = (0..extents.batch).flat_map(|r| (0..trees).map(move |t| (r, t))).collect();
        prop_assert_eq!(&pairs(lowered.legal(), u32::MAX), &all);
        prop_assert_eq!(&pairs(lowered.loops(), 3), &all, "wrapped over three units");
    }
}

fn plan(forest: &Forest, schedule: &Schedule, device: Device) -> Option<TargetPlan> {
    lower(forest, schedule, request(device, 2)).ok().map(|l| l.plan().clone())
}

/// A compiler that ignored the schedule would make these equal.
#[test]
fn presets_differ_from_each_other() {
    let forest = mixed_forest();
    let mut other_order = 0;
    for (i, a) in Preset::ALL.into_iter().enumerate() {
        for b in Preset::ALL.into_iter().skip(i + 1) {
            let what = format!("{} and {}", a.name(), b.name());
            for (gpu, device) in [(false, Device::Cpu), (true, Device::PORTABLE_GPU)] {
                let [a, b] =
                    [a, b].map(|p| plan(&forest, &p.schedule(&forest, gpu), device).expect("a plan"));
                assert_ne!(a, b, "{what} on {device:?}");
            }
            let [a, b] = [a, b].map(|p| p.schedule(&forest, false).few_rows(FewRows::Walk));
            let found = recorded(&forest, &a, 200, 2).expect("a run");
            let own = prescribed(&forest, &a, 200, 2).expect("an order");
            let foreign = prescribed(&forest, &b, 200, 2).expect("an order");
            assert_eq!(found.is(&foreign), own == foreign, "{what}: a run is taken for another schedule's");
            other_order += usize::from(!found.is(&foreign));
        }
    }
    // In order are alike those that walk a tree for a chunk of rows, those that walk a row at a time, and nvForest's three.
    assert_eq!(other_order, 81, "of 91 pairs run in another order");
}

/// Neither the reversed order nor another worker's walks pass for the right ones.
#[test]
fn a_wrong_expectation_fails() {
    let forest = mixed_forest();
    let run = |text: &str| {
        let schedule = Schedule::parse(text).expect("a schedule").few_rows(FewRows::Walk);
        recorded(&forest, &schedule, 20, 2).expect("a run")
    };
    let order = |text: &str| {
        prescribed(&forest, &Schedule::parse(text).expect("a schedule"), 20, 2).expect("an order")
    };
    let texts = [
        "",
        "reorder(tree, batch)",
        "parallel(batch)",
        "parallel(tree)",
        "sort(depth)",
        "tile(tree, t0, t1, 3)\nreorder(batch, t1, t0)",
        "tile(batch, b0, b1, 3)\nreorder(b1, b0)",
        "tile(batch, b0, b1, 3)\nreorder(b0, tree, b1)",
        "tile(batch, b0, b1, 4)\nreorder(b0, tree, b1)",
        "tile(batch, b0, b1, 4)\nreorder(b0, tree, b1)\nparallel(b0)",
        "tile(batch, b0, b1, 5)\nreorder(b0, tree, b1)\nparallel(b0)",
        "tile(tree, t0, t1, trees/2)\nparallel(t0)",
        "tile(tree, t0, t1, trees/3)\nparallel(t0)",
    ];
    for a in texts {
        for b in texts {
            assert_eq!(run(a).is(&order(b)), a == b, "run by\n{a}\nheld against\n{b}");
        }
    }
}

/// A directive that changes only how a walk goes changes the plan and not the order.
#[test]
fn marks_change_the_plan_and_not_the_order() {
    let forest = mixed_forest();
    let plain = Schedule::parse("tile(tree, t0, t1, 4)").expect("a schedule");
    let cpu = |s: &Schedule| plan(&forest, s, Device::Cpu).expect("a plan");
    for mark in ["interleave(t1)", "unrollWalk(t1)", "unrollWalk(t1, 2)", "layout(array)"] {
        let marked = Schedule::parse(&format!("tile(tree, t0, t1, 4)\n{mark}")).expect("a schedule");
        assert_ne!(cpu(&plain), cpu(&marked), "{mark}");
        let order = prescribed(&forest, &plain, 30, 2).expect("an order");
        let run = recorded(&forest, &marked.few_rows(FewRows::Walk), 30, 2).expect("a run");
        assert!(run.is(&order), "{mark}");
    }
}
