//! The native kernels, where random cases seldom come: whole row blocks, windows that are copied, trees too deep for
//! their tops, and rows of which a walk ends long before the others'.

use crate::generate;

#[cfg(target_arch = "x86_64")]
use std::process::Command;

#[cfg(target_arch = "x86_64")]
use fangorn::cpu::ISA;
use fangorn::{
    Forest, Predictor,
    check::SelfCheck,
    cpu::{GATHERS, Program, Row, Rows},
    forest::{Real, Transform, reference},
    plan::{self, Request, lower},
    schedule::Schedule,
};
use generate::forest_of;

const FORESTS: [&str; 5] = [
    "5 x depth 3, chain 6, 10 x depth 2, depth 0, 7 x chain 3; features 4",
    "4 x depth 8, 3 x depth 5, 3 x depth 4, depth 1; features 20",
    "6 x chain 15, 3 x depth 6, 2 x chain 7; features 40",
    "depth 6, 4 x depth 0; features 1",
    "9 x chain 9, depth 5; features 300",
];

#[track_caller]
fn check(forest: &Forest, text: &str, count: usize) {
    let schedule = Schedule::parse(text).expect("a schedule");
    let predictor = match Predictor::builder(forest).schedule(schedule.clone()).threads(1).build() {
        Ok(predictor) => predictor,
        Err(fangorn::Error::Layout(_)) => return,
        Err(e) => panic!("{text}: {e}"),
    };
    let columns = forest.features.len();
    let values = generate::rows(forest, count, 11);
    let expected: Vec<u32> =
        values.chunks(columns).flat_map(|row| reference::leaf_slots(forest, row)).collect();
    let rows = Rows::strided(&values, [count, columns], [columns, 1]).expect("rows");
    assert_eq!(predictor.leaf_slots(&rows).expect("slots"), expected, "{text}\n{count} rows");
    let by_column: Vec<f32> =
        (0..columns).flat_map(|c| (0..count).map(move |r| r * columns + c)).map(|at| values[at]).collect();
    let apart = Rows::strided(&by_column, [count, columns], [1, count]).expect("rows");
    assert_eq!(predictor.leaf_slots(&apart).expect("slots"), expected, "{text}\n{count} rows, columns apart");
    let doubles: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
    let rows = Rows::strided(&doubles, [count, columns], [columns, 1]).expect("rows");
    let expected: Vec<u32> =
        doubles.chunks(columns).flat_map(|row| reference::leaf_slots(forest, row)).collect();
    assert_eq!(predictor.leaf_slots(&rows).expect("slots"), expected, "{text}\n{count} rows of f64");
}

#[test]
fn windows_and_blocks_give_what_the_reference_gives() {
    let bodies = [
        "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)",
        "tile(batch, b0, b1, 64)\ntile(b1, b2, b3, 8)\nreorder(b0, tree, b3, b2)",
        "tile(batch, b0, b1, 100)\nreorder(b0, tree, b1)",
        "tile(batch, b0, b1, 130)\ntile(b1, b2, b3, 40)\nreorder(b0, b2, tree, b3)",
        "tile(batch, b0, b1, 64)\ntile(b1, b2, b3, 8)\nreorder(b0, tree, b2, b3)\ninterleave(b3)",
        "tile(batch, b0, b1, 48)\ntile(tree, t0, t1, 4)\nreorder(b0, t0, b1, t1)\ninterleave(t1)",
        "tile(batch, b0, b1, batch_size/2)\nreorder(b0, tree, b1)",
        "tile(batch, b0, b1, 2)\nreorder(b0, tree, b1)",
    ];
    for forest in FORESTS.map(forest_of) {
        for body in bodies {
            let inner = body.rsplit(['(', ',', ')']).map(str::trim).find(|w| w.len() > 1).unwrap_or("b1");
            for layout in ["sparse", "array", "reorg"] {
                for unroll in ["", "unroll"] {
                    let walk =
                        if unroll.is_empty() { String::new() } else { format!("\nunrollWalk({inner})") };
                    for count in [1, 24, 63, 64, 65, 200] {
                        check(&forest, &format!("{body}{walk}\nlayout({layout})\ncache(b0)"), count);
                        check(&forest, &format!("{body}{walk}\nlayout({layout})"), count);
                    }
                }
            }
        }
    }
}

/// Several tiles of column-major rows share a window, if there are enough tiles for each thread. Results are those of
/// row-major rows, bit by bit.
#[test]
fn tiles_of_column_major_rows_share_a_window() {
    let tiles = |tile: u32| format!("tile(batch, b0, b1, {tile})\nreorder(b0, tree, b1)\ncache(b0)");
    let schedules = [
        tiles(64),
        format!("{}\nparallel(b0)", tiles(64)),
        format!("{}\nparallel(b0)", tiles(128)),
        tiles(100),
        tiles(256),
        "tile(batch, b0, b1, 640)\ntile(b1, b2, b3, 64)\nreorder(b0, b2, tree, b3)\nparallel(b0)\ncache(b2)".to_owned(),
        "tile(tree, t0, t1, trees/2)\ntile(batch, b0, b1, 64)\nreorder(t0, b0, t1, b1)\nparallel(t0)\ncache(b0)".to_owned(),
        "tile(batch, b0, b1, 64)\ntile(tree, t0, t1, 5)\nreorder(b0, t0, b1, t1)\ncache(t0)".to_owned(),
        format!("ranks(u8)\n{}\nevaluate(b1, blend)", tiles(64)),
        format!("ranks(u8)\n{}\nparallel(b0)\nevaluate(b1, blend)", tiles(128)),
        format!("ranks(u8)\n{}\nevaluate(b1, blend(2))", tiles(256)),
        format!("ranks(u16)\n{}", tiles(64)),
    ];
    let mut served = vec![0; schedules.len()];
    let drawn = FORESTS.map(forest_of).into_iter();
    // Categories, zeros aside and doubles.
    for forest in drawn.chain((0..12).map(|seed| generate::engines::usual(seed).0.forest)) {
        let columns = forest.features.len();
        for (text, served) in schedules.iter().zip(&mut served) {
            for (count, threads) in
                [(127, 1), (128, 1), (256, 2), (383, 1), (512, 1), (513, 2), (777, 1), (1300, 3)]
            {
                let predictor =
                    Predictor::builder(&forest).schedule(Schedule::parse(text).expect("a schedule"));
                let predictor = match predictor.threads(threads).check(SelfCheck::Off).build() {
                    Ok(predictor) => predictor,
                    Err(fangorn::Error::Layout(_) | fangorn::Error::Ranks(_)) => continue,
                    Err(e) => panic!("{text}: {e}"),
                };
                *served += 1;
                let values = generate::rows(&forest, count, 11);
                let doubles: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
                same_if_column_major(&predictor, &values, [count, columns], text);
                same_if_column_major(&predictor, &doubles, [count, columns], text);
            }
        }
    }
    for (text, served) in schedules.iter().zip(served) {
        assert!(served >= 40, "{served} predictors of\n{text}");
    }
}

/// Compares margins and slots of row-major rows with those of the same rows column-major, with a gap between columns.
#[track_caller]
fn same_if_column_major<T: Row + Copy>(
    predictor: &Predictor,
    values: &[T],
    [count, columns]: [usize; 2],
    text: &str,
) {
    let apart = count + 3;
    let value = |i: usize| values[(i % apart).min(count - 1) * columns + i / apart];
    let by_column: Vec<T> = (0..columns * apart).map(value).collect();
    let rows = Rows::strided(values, [count, columns], [columns, 1]).expect("rows");
    let by_column = Rows::strided(&by_column, [count, columns], [1, apart]).expect("rows");
    let what = format!("{count} rows\n{text}");
    let slots = |rows| predictor.leaf_slots(rows).expect("slots");
    assert!(slots(&by_column) == slots(&rows), "{what}");
    let bits =
        |rows| predictor.margins(rows).expect("margins").into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert!(bits(&by_column) == bits(&rows), "{what}");
}

/// Walks of a tree's own depth, of trees side by side and of rows side by side.
#[test]
fn counted_walks_give_what_the_reference_gives() {
    let texts = [
        "sort(depth)\nreorder(batch, tree)\nspecialize(tree)\nunrollWalk(tree)",
        "tile(tree, t0, t1, 3)\nspecialize(t0)\ninterleave(t1)\nunrollWalk(t1)",
        "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nspecialize(tree)\nunrollWalk(b1)\ncache(b0)",
        "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nspecialize(tree)\nunrollWalk(b1)",
        "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nunrollWalk(b1, 1)\ncache(b0)",
        "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\npeelWalk(b1, 8)\ncache(b0)",
    ];
    for forest in FORESTS.map(forest_of) {
        for text in texts {
            for layout in ["sparse", "array", "depth_first"] {
                for count in [1, 40, 130] {
                    check(&forest, &format!("{text}\nlayout({layout})"), count);
                }
            }
        }
    }
}

/// What became of a `cache` is said.
#[test]
fn caches_say_what_they_are() {
    let text = |forest: &str, schedule: &str| {
        let forest = forest_of(forest);
        let schedule = Schedule::parse(schedule).expect("a schedule");
        Predictor::builder(&forest)
            .schedule(schedule.clone())
            .threads(1)
            .build()
            .expect("a predictor")
            .program()
            .to_string()
    };
    let narrow = "3 x depth 3; features 4";
    let copied = text(narrow, "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)");
    let together = "cacheRows 64: packed copy of 4 of 4 columns, 256 rows together if column-major";
    assert!(copied.contains(together) || copied.contains("isa=portable"), "{copied}");
    let wide =
        text("40 x depth 3; features 2000", "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)");
    let few = wide.contains("; of fewer than") && wide.contains("rows, prefetch of");
    assert!(few || wide.contains("isa=portable"), "{wide}");
    let row = text(narrow, "reorder(batch, tree)\ncache(batch)");
    assert!(row.contains("cacheRows 1: prefetch of 1 lines a row"), "{row}");
    let trees = text(narrow, "tile(tree, t0, t1, 2)\ncache(t0)");
    assert!(trees.contains("cacheTrees 2: nothing"), "{trees}");
}

/// Returns whether `FANGORN_GATHERS` says that the machine gathers fast, or `None` if it says nothing. A machine
/// without AVX2 never gathers fast.
fn gathers_fast() -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    let able = is_x86_feature_detected!("avx2") && std::env::var(ISA).as_deref() != Ok("portable");
    #[cfg(not(target_arch = "x86_64"))]
    let able = false;
    match std::env::var(GATHERS).as_deref() {
        Ok("fast") => Some(able),
        Ok("slow") => Some(false),
        _ => None,
    }
}

/// Runs the next test with slow and with fast gathers, whatever this machine has.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_few_wide_rows_go_either_way() {
    for gathers in ["slow", "fast"] {
        let mut again = Command::new(std::env::current_exe().expect("this test's program"));
        again.args(["--exact", "cpu::a_few_wide_rows_give_what_the_reference_gives"]).env(GATHERS, gathers);
        let output = again.output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{gathers}\n{said}");
    }
}

/// Rows that fit no registers, a few at a time: through many trees abreast where the machine gathers fast.
#[test]
fn a_few_wide_rows_give_what_the_reference_gives() {
    let text = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)";
    let schedule = Schedule::parse(text).expect("a schedule");
    // More trees than are looked at together, a number that is no multiple of eight, and fewer than eight.
    for (trees, forest) in [
        (600, "600 x depth 2; features 300"),
        (75, "60 x depth 3, 9 x chain 12, 5 x depth 0, depth 9; features 300"),
        (7, "7 x depth 6; features 300"),
    ] {
        let forest = forest_of(forest);
        assert_eq!(forest.trees.len(), trees);
        for layout in ["sparse", "array"] {
            for count in [1, 5] {
                check(&forest, &format!("{text}\nlayout({layout})"), count);
            }
        }
        let predictor =
            Predictor::builder(&forest).schedule(schedule.clone()).threads(1).build().expect("a predictor");
        let program = predictor.program().to_string();
        // Unless `FANGORN_GATHERS` is set, the program measures how fast the machine gathers. The test expects nothing.
        if let Some(expected) = if trees < 8 { Some(false) } else { gathers_fast() } {
            assert_eq!(program.contains("64 trees abreast"), expected, "{program}");
        }
        let values = generate::rows(&forest, 3, 5);
        let rows = Rows::new(&values, forest.features.len()).expect("rows");
        let margins = predictor.margins(&rows).expect("margins");
        let (outputs, bound) = (forest.outputs as usize, forest.sum_bound());
        for (row, found) in values.chunks(forest.features.len()).zip(margins.chunks(outputs)) {
            for ((found, expected), bound) in found.iter().zip(reference::margins(&forest, row)).zip(&bound) {
                assert!((f64::from(*found) - expected).abs() <= *bound, "{found} is not {expected}");
            }
        }
    }
}

/// `Forest`'s fields are public, and the kernels rely on its rules.
#[test]
fn a_forest_that_does_not_verify_is_refused() {
    let sound = forest_of("3 x depth 3; features 4");
    let mut broken = sound.clone();
    broken.leaf_values.truncate(2);
    let refused = |what: Result<(), fangorn::Error>| {
        let error = what.expect_err("a slot that has no leaf value").to_string();
        assert!(error.contains("tree 0, node"), "{error}");
    };
    let schedule = Schedule::new();
    refused(lower(&broken, &schedule, Request::cpu()).map(drop));
    refused(plan::check(&broken, &schedule, Request::cpu()));
    let lowered = lower(&sound, &schedule, Request::cpu()).expect("a plan");
    refused(Program::new(&broken, &lowered, 1).map(drop));
}

#[test]
fn without_a_number_of_threads_a_predictor_has_those_of_its_pool() {
    let forest = forest_of("3 x depth 3; features 4");
    let threads = rayon::current_num_threads() + 3;
    let pool =
        std::sync::Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool"));
    let by_pool = Predictor::builder(&forest).pool(pool.clone()).build().expect("a predictor");
    assert_eq!(by_pool.program().threads() as usize, threads);
    let stated = Predictor::builder(&forest).pool(pool).threads(2).build().expect("a predictor");
    assert_eq!(stated.program().threads(), 2);
}

/// Values are computed from margins in tasks of 4096 rows, in place if a row has as many values as margins.
#[test]
fn values_of_many_rows_are_those_of_their_margins() {
    let cases = [
        (1, Transform::Sigmoid),
        (1, Transform::SigmoidPair),
        (1, Transform::OppositePair),
        (1, Transform::ComplementPair),
        (3, Transform::Softmax),
        (3, Transform::Argmax),
    ];
    let counts = [1, 17, 4095, 4096, 4097, 8192, 8193, 12_301];
    for (outputs, transform) in cases {
        for scale in [1.0, 1.0 / 3.0] {
            let mut forest = forest_of(&format!("9 x depth 4, 3 x chain 5; features 6; outputs {outputs}"));
            (forest.transform, forest.scale) = (transform, Real(scale));
            for (threads, count) in
                [1, 2].into_iter().flat_map(|threads| counts.map(|count| (threads, count)))
            {
                let predictor = Predictor::builder(&forest).threads(threads).build().expect("a predictor");
                let values = generate::rows(&forest, count, 5);
                let rows = Rows::new(&values, 6).expect("rows");
                let width = predictor.width();
                let mut expected = vec![0.0; count * width];
                let margins = predictor.margins(&rows).expect("margins");
                for (margins, values) in margins.chunks(outputs).zip(expected.chunks_mut(width)) {
                    let scaled: Vec<f32> = margins.iter().map(|margin| margin * scale as f32).collect();
                    transform.apply(&scaled, values);
                }
                let found = predictor.values(&rows).expect("values");
                assert!(found == expected, "{transform:?}, scale {scale}, {threads} threads, {count} rows");
                let of_margins = predictor.values_of_margins(&margins).expect("values");
                assert!(of_margins == expected, "margins, {transform:?}, scale {scale}, {count} rows");
                let torn = predictor.values_of_margins(&margins[..margins.len() - 1]);
                assert_eq!(torn.is_err(), outputs > 1, "{outputs} outputs");
            }
        }
    }
}
