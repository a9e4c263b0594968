//! What a plan says of a batch is what a run of that batch does.

use crate::generate::forest_of;
use crate::support;

use std::collections::BTreeMap;

use fangorn::{
    Forest, Predictor,
    cpu::{Engine, Engines, Rows},
    schedule::{FewRows, Preset, Schedule},
};
use support::named;

/// Five producers' models: numbers, categories, several outputs.
const MODELS: [&str; 5] =
    ["churn", "lightgbm-categories", "softprob", "sklearn-forest-regressor", "catboost-multiclass-depthwise"];
const BATCHES: [usize; 5] = [1, 7, 16, 64, 4096];

/// The visits that a trace of so many rows has of each engine.
fn traced(predictor: &Predictor, columns: usize, batch: usize) -> Vec<(Engine, u64)> {
    let values: Vec<f32> = (0..batch * columns).map(|i| (i * 37 % 101) as f32 * 0.11 - 3.0).collect();
    let trace = predictor.trace(&Rows::new(&values, columns).expect("rows")).expect("a trace");
    let mut counts = BTreeMap::new();
    for entry in &trace {
        assert_ne!(entry.visit, u32::MAX, "a visit that is not made");
        *counts.entry(entry.engine).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

fn predictor(forest: &Forest, schedule: &Schedule, threads: usize) -> Predictor {
    Predictor::builder(forest).schedule(schedule.clone()).threads(threads).build().expect("a predictor")
}

#[test]
fn a_trace_names_the_engines_that_the_plan_names() {
    for name in MODELS {
        let forest = named(name).forest;
        let columns = forest.features.len();
        for preset in [Preset::Default, Preset::Xgboost, Preset::TreebeardTiles] {
            let predictor = predictor(&forest, &preset.schedule(&forest, false), 2);
            for batch in BATCHES {
                let engines = predictor.engines(batch).expect("engines");
                assert_eq!(
                    traced(&predictor, columns, batch),
                    engines,
                    "{name}, {}, {batch} rows",
                    preset.name()
                );
                let visits: u64 = engines.iter().map(|(_, visits)| visits).sum();
                assert_eq!(visits, (batch * forest.trees.len()) as u64, "{name}, {batch} rows");
            }
        }
    }
}

#[test]
fn an_engine_that_the_schedule_forbids_does_not_run() {
    let chosen = FewRows::ALL.into_iter().filter(|by| *by != FewRows::Auto);
    let few: Vec<_> = chosen
        .map(|by| (by, if by == FewRows::Rows { Some(Engine::WalksByRow) } else { Engine::of_few_rows(by) }))
        .collect();
    for name in MODELS {
        let forest = named(name).forest;
        let columns = forest.features.len();
        for &(by, own) in &few {
            let schedule = Preset::Default.schedule(&forest, false).few_rows(by);
            let predictor = predictor(&forest, &schedule, 1);
            for batch in BATCHES {
                let ran = traced(&predictor, columns, batch);
                for &(other, engine) in &few {
                    let fallback = engine == Some(Engine::WalksByRow) && by != FewRows::Walk;
                    let forbidden = engine.filter(|_| other != by && !fallback);
                    let found = ran.iter().any(|(engine, _)| Some(*engine) == forbidden);
                    assert!(!found, "{name}, {by:?}, {batch} rows: {ran:?}");
                }
                let plan = predictor.plan_for(7);
                let serves = plan.name != "large batches" && plan.program.few_rows_engine() == by;
                if let Some(own) = own.filter(|_| batch == 7 && serves) {
                    assert!(
                        ran.iter().any(|(engine, _)| *engine == own),
                        "{name}, {by:?}, {batch} rows: {ran:?}"
                    );
                }
            }
        }
        // Without blends there is nothing but walks.
        let walked = Preset::Default.schedule(&forest, false).unranked().few_rows(FewRows::Walk);
        let ran = traced(&predictor(&forest, &walked, 1), columns, 4096);
        assert!(
            ran.iter().all(|(engine, _)| [Engine::Walks, Engine::Vectors].contains(engine)),
            "{name}: {ran:?}"
        );
    }
}

/// A program names the engine of a few rows that runs, not the one that was asked for and can't read its rows.
#[test]
fn an_engine_that_cannot_read_the_rows_is_not_named() {
    let forest = forest_of("100 x depth 4; features 6");
    for by in FewRows::ALL.into_iter().filter(|by| Engine::of_few_rows(*by).is_some()) {
        for text in [
            "",
            "ranks(u8)\nreorder(tree, batch)",
            "tile(tree, t0, t1, 8)\nreorder(batch, t0, t1)",
            // The trees of a block are eight apart, and too few.
            "tile(tree, t0, t1, 8)\nreorder(t1, t0, batch)",
            "tile(tree, t0, t1, 4)\ntile(batch, b0, b1, 64)\nreorder(t0, b0, t1, b1)",
            "ranks(u8)\ntile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend)",
        ] {
            let schedule = Schedule::parse(text).expect("a schedule").few_rows(by);
            let predictor = predictor(&forest, &schedule, 1);
            for plan in predictor.plans() {
                let (rows, named) = (*plan.rows.start(), plan.program.few_rows_engine());
                assert_eq!(plan.program.plan().own.few_rows, named, "{text}: the plan");
                let told = plan.program.notes().iter().any(|note| note.directive.starts_with("fewRows"));
                // The plan of large batches blends, and leaves a few rows to the other one.
                let blends = plan.program.plan().to_string().contains("or blend");
                assert_eq!(told, named != by && !blends, "{text}, {by:?}: {:?}", plan.program.notes());
                let ran = traced(&predictor, 6, rows);
                let Some(own) = Engine::of_few_rows(named) else { continue };
                assert!(
                    ran.iter().any(|(engine, _)| *engine == own),
                    "{text}, {by:?}: {named:?}, but {ran:?}"
                );
            }
        }
    }
}

/// The plan of a program says up to which number of rows its engine for a few rows serves.
#[test]
fn the_plan_says_which_blocks_have_a_few_rows() {
    let forest = forest_of("100 x depth 4; features 6");
    let nest = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)";
    let in_order = [
        "reorder(batch, tree)".to_owned(),
        format!("{nest}\nranks(u16)"),
        format!("{nest}\nranks(u8)\ntileNodes(4, uniform)"),
    ];
    let many = [nest.to_owned(), format!("{nest}\ntileNodes(4, uniform)")];
    for (text, by) in many.iter().chain(&in_order).flat_map(|text| FewRows::ALL.map(|by| (text, by))) {
        let schedule = Schedule::parse(text).expect("a schedule");
        let program = predictor(&forest, &schedule.few_rows(by), 1);
        let plan = program.program().plan().clone();
        let printed = plan.to_string();
        let line = printed.lines().find_map(|line| line.strip_prefix("  few rows: ")).expect("a line");
        let engines =
            |rows| traced(&program, 6, rows).into_iter().map(|(engine, _)| engine).collect::<Vec<_>>();
        let Some(end) = plan.own.few_rows_end else {
            assert!(by == FewRows::Walk || in_order.contains(text), "{by:?} by\n{text}\n{line}");
            assert_eq!(line, "walk", "{by:?} by\n{text}");
            assert!(!engines(2).contains(&Engine::WalksByRow), "{by:?} by\n{text}");
            continue;
        };
        let named = format!("{}, of blocks of fewer than {end}", plan.own.few_rows.name());
        assert!(line.starts_with(&named), "{by:?} by\n{text}\n{line}");
        let [below, from] = [end - 1, end].map(|rows| engines(rows as usize));
        assert_ne!(below, from, "{by:?}: {end} rows by\n{text}");
    }
}

/// The plan of a program says which engine blocks of many rows go through, and from how many rows on.
#[test]
fn the_plan_says_which_engine_evaluates_many_rows() {
    let forest = forest_of("100 x depth 4; features 6");
    let nest = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)";
    let blends = format!("ranks(u8)\n{nest}\ncache(b0)\nevaluate(b1, blend)");
    let texts = [
        nest.to_owned(),
        format!("{nest}\ntileNodes(4, uniform)"),
        blends,
        // Blocks of so few rows, of rows that are two apart, and of a single row.
        "tile(batch, b0, b1, 8)\nreorder(b0, tree, b1)".to_owned(),
        "tile(batch, b0, b1, 2)\nreorder(b1, tree, b0)".to_owned(),
        "reorder(batch, tree)\ncache(batch)".to_owned(),
        "reorder(batch, tree)".to_owned(),
    ];
    let texts = texts.iter().flat_map(|text| FewRows::ALL.map(|by| (text, by)));
    let mut named = Vec::new();
    for (text, by) in texts {
        let schedule = Schedule::parse(text).expect("a schedule").few_rows(by);
        let predictor = predictor(&forest, &schedule, 1);
        let program = predictor.program();
        let many = program.plan().own.many_rows.expect("a program's plan");
        let from = format!("of blocks of {} and more", many.from);
        let line = format!("  many rows: {}", many.engine);
        let printed = program.plan().to_string();
        let printed = printed.lines().find(|printed| printed.starts_with(&line));
        let printed = printed.unwrap_or_else(|| panic!("{text}: no {line}"));
        assert_eq!(printed.contains(&from), many.from > 1, "{text}: {printed}");
        // Where rows are two apart, a block has half of a batch.
        let blocks = if text.contains("b1, 2)") { 2 } else { 1 };
        let engines = |rows: u32| {
            let rows = rows * blocks;
            let values = vec![0.5; rows as usize * 6];
            program.engines(&Rows::new(&values, 6).expect("rows")).expect("engines")
        };
        let ran = |rows: u32| engines(rows).iter().any(|(engine, _)| engine.name() == many.engine);
        let few = program.plan().own.few_rows_end.unwrap_or(1);
        let first = many.from.max(few);
        // The blocks of eight rows have a few rows.
        if !text.contains("b1, 8)") {
            let all = [first, first + 1, 64, 300].into_iter().all(ran);
            assert!(all, "{text}, {by:?}: {printed}: {:?}", engines(first));
        }
        if many.from > 1 {
            let below = engines(many.from - 1);
            assert!(!ran(many.from - 1), "{text}, {by:?}: {printed}: {below:?}");
            let walked = below.iter().all(|(engine, _)| engine.name().starts_with("walks"));
            assert!(walked || !printed.contains("walks of smaller"), "{text}, {by:?}: {printed}: {below:?}");
        } else {
            let some = [1, 8, 64, 300].into_iter().any(ran) || text.contains("b1, 8)");
            assert!(some, "{text}, {by:?}: {printed}");
        }
        named.push(many.engine);
    }
    named.dedup();
    assert!(named.contains(&"blends") && named.contains(&"walks"), "{named:?}");
}

/// What runs where only walks may: `fangorn verify` compares with it.
#[test]
fn plain_engines_are_walks_under_any_schedule() {
    let forest = named("churn").forest;
    let columns = forest.features.len();
    for preset in Preset::ALL {
        let schedule = preset.schedule(&forest, false);
        for by in FewRows::ALL {
            let builder = Predictor::builder(&forest).schedule(schedule.clone().few_rows(by)).threads(1);
            let predictor = builder.engines(Engines::PLAIN).build().expect("a predictor");
            for batch in [1, 64, 300] {
                let ran = traced(&predictor, columns, batch);
                assert!(
                    ran.iter().all(|(engine, _)| *engine == Engine::Walks),
                    "{preset:?}, {by:?}: {ran:?}"
                );
            }
        }
    }
}

#[test]
fn plans_are_named_by_batch() {
    let forest = named("churn").forest;
    let blends = Schedule::parse(
        "ranks(u8)\ntile(batch, b0, b1, 256)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend)\nfewRows(auto)",
    );
    let predictor = predictor(&forest, &blends.expect("a schedule"), 1);
    let names: Vec<_> = predictor.plans().iter().map(|plan| plan.name).collect();
    assert!(names == ["small batches", "large batches"] || names == ["large batches"], "{names:?}");
    let plans = predictor.plans();
    assert_eq!(plans[0].rows.start(), &1);
    for pair in plans.windows(2) {
        assert_eq!(pair[0].rows.end() + 1, *pair[1].rows.start());
    }
    let last = plans.last().expect("a plan");
    assert_eq!(last.rows.end(), &usize::MAX);
    assert_eq!(predictor.plan_for(4096).name, "large batches");
    assert_eq!(predictor.plan_for(1).name, names[0]);
    assert!(predictor.engines(4096).expect("engines").iter().any(|(engine, _)| *engine == Engine::Blends));
}

/// What an explicit layout or an unrolled walk says is true of few rows, too.
#[test]
fn layouts_and_unrolled_walks_reach_a_few_rows() {
    let forest = named("churn").forest;
    for (text, by) in [
        ("", FewRows::Auto),
        ("layout(array)", FewRows::Rows),
        ("unrollWalk(tree)", FewRows::Rows),
        ("layout(array)\nfewRows(auto)", FewRows::Auto),
        ("fewRows(full)\nlayout(array)", FewRows::Full),
    ] {
        let schedule = Schedule::parse(text).expect("a schedule");
        assert_eq!(schedule.few_rows_by(), by, "{text}");
    }
    let schedule =
        Schedule::parse("reorder(tree, batch)\nunrollWalk(batch)\nlayout(array)").expect("a schedule");
    let predictor = predictor(&forest, &schedule, 1);
    assert_eq!(predictor.engines(7).expect("engines"), [(Engine::WalksByRow, 700)]);
}
