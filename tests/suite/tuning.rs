//! Schedules by batch size, and what the tuner finds: which program serves which batch, and that none changes a result.

use std::time::Duration;

use crate::support::{assert_margins, for_each_specimen, named, reference_margins};

use fangorn::{
    Predictor,
    auto::{Explanation, TimedSchedule, TimingRecord, Tuner, cpu_space},
    cost::{CHOICE_ROWS, ForestFacts, Machine, RankColumns, Work},
    cpu::{Engine, Rows},
    schedule::{BatchSchedules, FewRows, Preset, Schedule},
    sum::Contract,
};

/// Schedules whose walks come in different orders, two of them with ranks.
fn mixed() -> BatchSchedules {
    let parse = |text: &str| Schedule::parse(text).expect("a schedule");
    let block = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\nparallel(b0)\ncache(b0)";
    BatchSchedules::new([
        (1, parse("fewRows(rows)\nlayout(sparse)")),
        (16, parse(&format!("{block}\nlayout(array)"))),
        (64, parse(&format!("ranks(u8)\n{block}\nevaluate(b1, blend)\nlayout(sparse)"))),
        (300, parse("sort(structure)\nranks(u16)\nreorder(tree, batch)\nlayout(sparse)")),
    ])
    .expect("four sizes")
}

#[test]
fn every_batch_is_served_and_a_buckets_batch_by_its_own_schedule() {
    for model in ["churn", "softprob", "lightgbm-categories", "deep-lossguide"] {
        let s = named(model);
        let columns = s.columns();
        let rows = |n: usize| -> Vec<f32> { s.rows.iter().copied().cycle().take(n * columns).collect() };
        for threads in [1, 2] {
            let builder = || Predictor::builder(&s.forest).threads(threads).sum(Contract::Exact);
            let predictor = builder().schedules(mixed()).build().expect("compiled");
            let plain = builder().build().expect("compiled");
            let plans = predictor.plans();
            let mut next = 1;
            for plan in &plans {
                assert_eq!(*plan.rows.start(), next, "{model}: {plan}");
                assert!(plan.rows.end() >= plan.rows.start(), "{model}: {plan}");
                next = plan.rows.end().saturating_add(1);
            }
            assert_eq!(next, usize::MAX, "{model}");
            for (bucket, schedule) in mixed().buckets() {
                let alone = builder().schedule(schedule.clone()).build().expect("compiled");
                let (found, expected) = (predictor.plan_for(bucket), alone.plan_for(bucket));
                assert_eq!(
                    found.program.to_string(),
                    expected.program.to_string(),
                    "{model}, {bucket} rows: {found}"
                );
            }
            for n in (1..70).chain([127, 128, 129, 255, 299, 300, 301, 1000]) {
                let rows = rows(n);
                let rows = Rows::new(&rows, columns).expect("rows");
                assert_eq!(
                    predictor.margins(&rows).expect("margins"),
                    plain.margins(&rows).expect("margins"),
                    "{model}, {n} rows, {threads} threads"
                );
                assert_eq!(
                    predictor.leaf_ids(&rows).expect("leaves"),
                    plain.leaf_ids(&rows).expect("leaves"),
                    "{model}, {n} rows, {threads} threads"
                );
            }
        }
    }
}

/// Every batch has a plan, no plan is without a batch, and a batch runs the engines of the plan that is named for it.
#[test]
fn a_plan_is_named_for_every_batch_and_runs_it() {
    let parse = |text: &str| Schedule::parse(text).expect("a schedule");
    let block = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)";
    let blends = parse(&format!("ranks(u8)\n{block}\nevaluate(b1, blend)\nlayout(sparse)\nfewRows(auto)"));
    let walks = parse(&format!("{block}\nlayout(array)"));
    // Each has another engine for a few rows.
    let full = parse(&format!("{block}\nlayout(sparse)\nfewRows(full)"));
    for model in ["churn", "softprob", "deep-lossguide"] {
        let s = named(model);
        for bucket in (2..=40).chain([48, 64]) {
            for [first, second] in [[&blends, &walks], [&walks, &blends], [&blends, &full]] {
                let schedules = BatchSchedules::new([(1, first.clone()), (bucket, second.clone())]);
                let builder =
                    Predictor::builder(&s.forest).threads(1).schedules(schedules.expect("two sizes"));
                let predictor = builder.build().expect("compiled");
                let plans = predictor.plans();
                let mut next = 1;
                for plan in &plans {
                    assert!(
                        *plan.rows.start() == next && plan.rows.end() >= plan.rows.start(),
                        "{bucket}: {plan}"
                    );
                    next = plan.rows.end().saturating_add(1);
                    for rows in [*plan.rows.start(), (*plan.rows.end()).min(200)] {
                        let values = vec![0.0f32; rows * s.columns()];
                        let values = Rows::new(&values, s.columns()).expect("rows");
                        let engines = plan.program.engines(&values).expect("engines");
                        let what = format!("{model}, {bucket}, {rows} rows: {plan}");
                        assert_eq!(predictor.plan_for(rows).name, plan.name, "{what}");
                        assert_eq!(predictor.engines(rows).expect("engines"), engines, "{what}");
                        assert_eq!(
                            predictor.trace(&values).expect("a trace").len(),
                            rows * s.forest.trees.len()
                        );
                    }
                }
                assert_eq!(next, usize::MAX, "{model}, {bucket}");
            }
        }
    }
}

/// One of the schedules sorts trees, so no batch may add in the order of its walks.
#[test]
fn sums_in_the_producers_order_stay_so_where_one_schedule_has_another_order() {
    let s = named("churn");
    let builder = || Predictor::builder(&s.forest).threads(1).sum(Contract::Tree);
    let (mixed, plain) =
        (builder().schedules(mixed()).build().expect("compiled"), builder().build().expect("compiled"));
    for n in [1, 5, 16, 40, 64, 100, 300, 450] {
        let rows: Vec<f32> = s.rows.iter().copied().cycle().take(n * s.columns()).collect();
        let rows = Rows::new(&rows, s.columns()).expect("rows");
        assert_eq!(
            mixed.margins(&rows).expect("margins"),
            plain.margins(&rows).expect("margins"),
            "{n} rows"
        );
    }
}

#[test]
fn sizes_between_two_equal_schedules_need_no_program_of_their_own() {
    let s = named("churn");
    let schedule = Preset::Xgboost.schedule(&s.forest, false);
    let twice = BatchSchedules::new([(1, schedule.clone()), (512, schedule)]).expect("two sizes");
    let predictor = Predictor::builder(&s.forest).schedules(twice).build().expect("compiled");
    let plans: Vec<String> = predictor.plans().iter().map(ToString::to_string).collect();
    assert_eq!(plans, ["all batches"]);
}

#[test]
fn a_tuned_plan_predicts_what_the_model_says() {
    for model in ["churn", "lightgbm-categories", "onnx-doubles", "targets", "only-leaves"] {
        let s = named(model);
        let mut reports = 0;
        let tuner = Tuner::new(&s.forest).rows(&s.rows[..]).batches([70, 1]).threads(1);
        let tuned = tuner.budget(Duration::from_millis(100)).run(|progress| {
            reports += 1;
            assert!(progress.seen <= progress.points && progress.best <= 1.0);
        });
        let tuned = tuned.unwrap_or_else(|e| panic!("{model}: {e}"));
        assert!(reports > 0);
        assert_eq!(tuned.batches.iter().map(|b| b.rows).collect::<Vec<_>>(), [1, 70]);
        for batch in &tuned.batches {
            assert!(batch.tuned.seconds > 0.0 && batch.best.is_none());
            // The last measurement decides, and no noise chooses a slower schedule.
            assert!(batch.tuned.seconds <= batch.auto.seconds);
            assert!(!batch.screened.is_empty());
        }
        let schedules = tuned.plan_file(&s.forest).schedules(&s.forest).expect("a plan of the forest");
        let predictor =
            Predictor::builder(&s.forest).schedules(schedules).threads(1).build().expect("compiled");
        let rows = Rows::new(&s.rows, s.columns()).expect("rows");
        assert_margins(model, &s.forest, &predictor.margins(&rows).expect("margins"), reference_margins(&s));
    }
}

#[test]
fn an_exhaustive_search_times_or_misses_every_candidate() {
    let s = named("churn");
    let tuner = Tuner::new(&s.forest).batches([8]).threads(1).budget(Duration::from_millis(1));
    let tuned = tuner.exhaustive(true).run(|_| ()).expect("tuned");
    let batch = &tuned.batches[0];
    assert_eq!(batch.points, cpu_space(1).len());
    assert_eq!(batch.screened.len() + batch.missed.len(), batch.points);
    let best = batch.best.as_ref().expect("a best one").seconds;
    assert!(best <= batch.tuned.seconds && batch.tuned.seconds <= batch.auto.seconds);
    // A layout and an engine for a few rows that does not read it are no reason to leave a candidate out.
    let timed = |by: FewRows| {
        let asks = |timed: &TimedSchedule| {
            timed.schedule.few_rows_by() == by && timed.schedule.layout_kind().is_some()
        };
        batch.screened.iter().any(asks)
    };
    assert!(timed(FewRows::Full) && timed(FewRows::Rows), "{:?}", batch.missed);
    for miss in &batch.missed {
        assert!(!miss.why.is_empty() && !miss.why.contains('\n'), "{}: {}", miss.schedule, miss.why);
    }
}

#[test]
fn what_can_not_be_tuned_is_refused() {
    let s = named("churn");
    let tuner = || Tuner::new(&s.forest).budget(Duration::from_millis(1));
    for (refused, phrase) in [
        (tuner().batches([]).run(|_| ()), "at least one"),
        (tuner().batches([0]).run(|_| ()), "a batch of 0 rows"),
        (tuner().rows(&s.rows[1..]).run(|_| ()), "no whole number of rows"),
        (tuner().rows(&[][..]).run(|_| ()), "at least one row"),
        (tuner().batches([usize::MAX / 2]).run(|_| ()), "no memory"),
    ] {
        let error = refused.expect_err(phrase).to_string();
        assert!(error.contains(phrase), "`{phrase}` is not in {error}");
    }
}

/// What an explanation says of the choice is what the costs say, and what would change the choice changes it.
#[test]
fn explanations_say_what_the_default_schedule_goes_by() {
    let machine = Machine::here();
    let fastest = |facts: &ForestFacts| {
        let seconds =
            |work| machine.estimate(facts, work, CHOICE_ROWS).map(|estimate| (estimate.seconds(), work));
        let ways = Work::OF_MANY_ROWS.into_iter().filter_map(seconds);
        ways.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, work)| work)
    };
    for_each_specimen(|s| {
        let why = Explanation::new(&s.forest, 100);
        let default = Preset::Default.schedule(&s.forest, false);
        assert_eq!(why.schedule, default);
        assert_eq!(why.options[0].schedule, default);
        assert_eq!(Some(why.options[0].work), fastest(&why.facts));
        assert_eq!(default.blends(), why.options[0].work == Work::Blends);
        for way in why.options.iter().chain(&why.of_batch) {
            let sum: f64 = way.estimate.terms.iter().map(|term| term.count * term.each).sum();
            assert!((sum - way.seconds).abs() <= 1e-12 && way.seconds >= 0.0, "{way:?}");
        }
        assert!(why.by_batch.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
        assert_eq!(why.by_batch[0].0, 1);
        if let Some(columns) = why.rank_columns {
            let with = |columns| {
                let now = why.facts.rank_columns;
                let levels = (now.levels as f64 / now.thresholds.max(1) as f64).max(1.0) * columns as f64;
                let facts = ForestFacts {
                    rank_columns: RankColumns { thresholds: columns, levels: levels as usize, ..now },
                    columns: why.facts.columns + columns - now.thresholds,
                    ..why.facts
                };
                fastest(&facts) == Some(Work::Blends)
            };
            assert_eq!(with(columns), !default.blends(), "{columns} columns");
            // One column nearer to what the forest has, the choice is as it was.
            let now = why.facts.rank_columns.thresholds;
            let nearer = if columns > now { columns - 1 } else { columns + 1 };
            assert_eq!(with(nearer), default.blends(), "{columns} columns");
        }
        let here = why.by_machine.iter().find(|(name, _)| *name == machine.name);
        assert_eq!(here.map(|(_, work)| *work), Some(why.options[0].work));
    });
}

/// A record's counts and the costs of this machine make up its estimate, and its way is what ran.
#[test]
fn records_hold_the_terms_of_their_estimates() {
    let ways = Machine::here().ways;
    let costs = [
        ("split", ways.split),
        ("load", ways.load),
        ("tree", ways.tree),
        ("thresholds", ways.thresholds),
        ("level", ways.level),
        ("far_step", ways.far_step),
        ("node", ways.node),
        ("question", ways.question),
        ("codes", ways.codes),
        ("column", ways.column),
        ("far_column", ways.far_column),
        ("step", ways.step),
        ("tested_step", ways.tested_step),
        ("waiting_step", ways.waiting_step),
        ("set_step", ways.set_step),
        ("row_step", ways.row_step),
    ];
    let used = std::sync::Mutex::new(std::collections::BTreeSet::new());
    for_each_specimen(|s| {
        for rows in [1, 25, 64, 300] {
            for way in Explanation::new(&s.forest, rows).of_batch {
                let builder = Predictor::builder(&s.forest).schedule(way.schedule.clone()).threads(1);
                let predictor = builder.build().expect("compiled");
                let record = TimingRecord::new(&s.forest, &way.schedule, &predictor, (rows, 1.0));
                let record = record.expect("a record");
                assert_eq!((record.rows, record.threads, record.seconds), (rows, 1, 1.0));
                assert_eq!(record.way.is_none(), record.estimate.is_none());
                let sum: f64 = record
                    .terms
                    .iter()
                    .map(|(name, count)| {
                        let cost = costs.iter().find(|(cost, _)| cost == name).expect("a cost").1;
                        used.lock().expect("no panic").insert(*name);
                        cost * count
                    })
                    .sum();
                let estimate = record.estimate.unwrap_or_default();
                assert!((sum - estimate).abs() <= 1e-9 * estimate, "{record:?}");
                let engines = predictor.engines(rows).expect("engines");
                let blended = matches!(engines[..], [(Engine::Blends, _)]);
                assert_eq!(record.way == Some("blends"), blended, "{engines:?}");
            }
        }
    });
    let used = used.into_inner().expect("no panic");
    // Only tiles of more than 512 columns have `far_column`, and no model that a clone brings has so many.
    for (name, _) in costs.iter().filter(|(name, _)| *name != "far_column") {
        assert!(used.contains(name), "no specimen has {name}");
    }
}
