//! Random forests under random schedules on adversarial rows: a schedule never changes a result.

mod generate;

use fangorn::{
    Error, Forest, Predictor,
    cpu::Rows,
    forest::reference,
    plan::{Emit, Op, Request, RowType, Sum, lower},
    schedule::{Device, Preset, Schedule},
};
use generate::{Case, Kind};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRunner},
};

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

/// Leaves exactly, margins within the sum's contract, for any schedule the CPU takes.
fn check(case: &Case, threads: usize) -> Result<(), TestCaseError> {
    let forest = &case.forest;
    let predictor = match Predictor::with_threads(forest, &case.schedule, threads) {
        Ok(predictor) => predictor,
        // A layout that would be unreasonably large is refused with its remedy.
        Err(e @ Error::Layout(_)) => return Err(TestCaseError::reject(e.to_string())),
        Err(e) => return Err(TestCaseError::fail(e.to_string())),
    };
    let columns = forest.features.len();
    let rows = Rows::strided(&case.rows, [case.batch, columns], [columns, 1]).expect("rows");
    let slots = predictor.slots(&rows).expect("slots");
    let margins = predictor.margins(&rows).expect("margins");
    let (trees, outputs) = (forest.trees.len(), forest.outputs as usize);
    prop_assert_eq!(slots.len(), case.batch * trees);
    prop_assert_eq!(margins.len(), case.batch * outputs);
    let bound = forest.sum_bound();
    for r in 0..case.batch {
        let row = case.row(r);
        let expected = reference::slots(forest, row);
        prop_assert_eq!(&slots[r * trees..][..trees], &expected[..], "slots of row {} {:?}", r, row);
        for (o, expected) in reference::margins(forest, row).into_iter().enumerate() {
            let found = margins[r * outputs + o];
            let off = (f64::from(found) - expected).abs();
            prop_assert!(
                off <= bound[o],
                "row {}, output {}: {} is {:e} from {}",
                r,
                o,
                found,
                off,
                expected
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn any_schedule_gives_what_the_reference_gives(case in generate::case(Kind::Any), threads in 1..=2usize) {
        check(&case, threads)?;
    }

    #[test]
    fn mapped_schedules_run_on_the_cpu_too(case in generate::case(Kind::Mapped)) {
        check(&case, 2)?;
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn presets_give_what_the_reference_gives(case in generate::case(Kind::Any)) {
        for (preset, gpu) in Preset::ALL.into_iter().flat_map(|p| [(p, false), (p, true)]) {
            let schedule = preset.schedule(&case.forest, gpu);
            check(&Case { schedule, ..case.clone() }, 2)?;
        }
    }

    #[test]
    fn f64_rows_decide_in_the_producers_type(case in generate::case(Kind::Any), seed in any::<u64>()) {
        let forest = &case.forest;
        let Ok(predictor) = Predictor::with_threads(forest, &case.schedule, 1) else { return Ok(()) };
        let columns = forest.features.len();
        let values = generate::wide_rows(forest, case.batch, seed);
        let rows = Rows::strided(&values, [case.batch, columns], [columns, 1]).expect("rows");
        let expected: Vec<u32> = values.chunks(columns).flat_map(|row| reference::slots(forest, row)).collect();
        prop_assert_eq!(predictor.slots(&rows).expect("slots"), expected);
    }

    #[test]
    fn columns_apart_give_the_same_as_rows_together(case in generate::case(Kind::Any)) {
        let (count, columns) = (case.batch, case.forest.features.len());
        let Ok(predictor) = Predictor::with_threads(&case.forest, &case.schedule, 1) else { return Ok(()) };
        let together = Rows::strided(&case.rows, [count, columns], [columns, 1]).expect("rows");
        let by_column: Vec<f32> =
            (0..columns).flat_map(|c| (0..count).map(move |r| (r, c))).map(|(r, c)| case.row(r)[c]).collect();
        let apart = Rows::strided(&by_column, [count, columns], [1, count]).expect("rows");
        prop_assert_eq!(predictor.slots(&together).expect("slots"), predictor.slots(&apart).expect("slots"));
    }
}

/// Shared sums are cleared before, and added up after, all that is added to them; barriers stand outside register
/// sums, whose units would have different ones pending.
fn shared_sums_are_reduced(ops: &[Op], cleared: bool, accumulating: bool) -> Result<(), String> {
    let mut open = cleared;
    for op in ops {
        let adds = |into: Option<&Sum>| match into {
            Some(Sum::Shared) if !open => Err("a sum goes to shared memory and is never added up".to_owned()),
            _ => Ok(()),
        };
        match op {
            Op::Loop(l) => shared_sums_are_reduced(&l.body, open, accumulating)?,
            Op::Walk(w) => adds(w.into.as_ref())?,
            Op::Accumulate { body, into } => {
                adds(Some(into))?;
                shared_sums_are_reduced(body, open, true)?;
            }
            Op::Cases { cases, .. } => {
                cases.iter().try_for_each(|(_, body)| shared_sums_are_reduced(body, open, accumulating))?;
            }
            Op::Only { body, .. } => shared_sums_are_reduced(body, open, accumulating)?,
            Op::CacheRows { .. } | Op::CacheTrees { .. } | Op::ClearShared | Op::ReduceShared { .. }
                if accumulating =>
            {
                return Err("a barrier inside a register sum".to_owned());
            }
            Op::ClearShared => open = true,
            Op::ReduceShared { .. } if !open => {
                return Err("shared sums are added up, but not cleared".to_owned());
            }
            Op::ReduceShared { .. } => open = cleared,
            Op::CacheRows { .. } | Op::CacheTrees { .. } | Op::ReduceDimension { .. } => {}
        }
    }
    if open == cleared { Ok(()) } else { Err("shared sums are never added up".to_owned()) }
}

/// Lowers for the portable GPU: a plan that verifies, or a refusal that a user can act on.
fn lower_for_gpu(forest: &Forest, schedule: &Schedule) -> Result<bool, TestCaseError> {
    let request =
        Request { device: Device::PORTABLE_GPU, emit: Emit::Margins, rows: RowType::F32, threads: 1 };
    match lower(forest, schedule, request) {
        Ok(lowered) => {
            let plan = lowered.plan();
            prop_assert_eq!(plan.verify(), Ok(()));
            prop_assert_eq!(shared_sums_are_reduced(&plan.body, false, false), Ok(()), "{}", plan);
            prop_assert!(plan.units() <= 256 && plan.shared_bytes() <= 16 << 10, "over budget:\n{}", plan);
            Ok(true)
        }
        Err(Error::Schedule(e)) => {
            prop_assert!(e.remedy.len() > 20, "{} says too little", e);
            Ok(false)
        }
        Err(Error::Layout(e)) => {
            prop_assert!(e.remedy.contains("use "), "{} has no remedy", e);
            Ok(false)
        }
        Err(e) => Err(TestCaseError::fail(e.to_string())),
    }
}

proptest! {
    #![proptest_config(config(4000))]

    #[test]
    fn the_gpu_lowers_or_refuses_with_a_remedy(case in generate::case(Kind::Mapped)) {
        lower_for_gpu(&case.forest, &case.schedule)?;
    }

    #[test]
    fn the_gpu_refuses_wild_mappings_with_a_remedy(case in generate::case(Kind::Any)) {
        lower_for_gpu(&case.forest, &case.schedule)?;
    }
}

/// Draws that are refused test nothing, so few may be.
#[test]
fn most_draws_are_accepted() {
    let mut runner = TestRunner::deterministic();
    let mut draw = |kind| generate::case(kind).new_tree(&mut runner).expect("a draw").current();
    const DRAWS: usize = 300;
    let cpu = |case: &Case| Predictor::with_threads(&case.forest, &case.schedule, 2).is_ok();
    let accepted = (0..DRAWS).filter(|_| cpu(&draw(Kind::Any))).count();
    assert!(accepted * 10 >= DRAWS * 9, "the CPU accepts {accepted} of {DRAWS}");
    let gpu = |case: &Case| lower_for_gpu(&case.forest, &case.schedule).is_ok_and(|accepted| accepted);
    let accepted = (0..DRAWS).filter(|_| gpu(&draw(Kind::Mapped))).count();
    assert!(accepted * 10 >= DRAWS * 9, "the GPU accepts {accepted} of {DRAWS} mapped draws");
}

#[test]
fn a_forest_without_trees_gives_its_base_score() {
    let forest = generate::forest_of("; features 2; outputs 3");
    let rows = vec![0.5; 2 * 65];
    for preset in Preset::ALL {
        let schedule = preset.schedule(&forest, false);
        let predictor = Predictor::with_threads(&forest, &schedule, 2).expect("a predictor");
        let margins = predictor.margins(&Rows::new(&rows, 2).expect("rows")).expect("margins");
        assert_eq!(margins, [-0.5, -0.25, 0.0].repeat(65), "{}", preset.name());
    }
}

/// What random draws have found once, each as small as it gets: `(forest, rows, schedule)`.
#[test]
fn schedules_that_went_wrong_once() {
    let cases = [
        // Copies of a parallel loop share a buffer of partial sums; each copy needs its own stages.
        ("12 x depth 0", 2, "split(batch, b0, b1, 1)\nparallel(tree)"),
        ("12 x depth 1", 2, "tile(tree, t0, t1, 2)\nsplit(t0, t2, t3, 1)\nparallel(t1)"),
        // A tile of a tile that does not divide it is no single loop.
        ("depth 0", 2, "tile(batch, b0, b1, threads)\ntile(b1, b2, b3, 2)"),
        ("depth 1", 100, "tile(batch, b0, b1, 10)\ntile(b1, b2, b3, 4)\nreorder(b0, b2, tree, b3)"),
        // A loop that never runs has no copies, and the stage that adds them up still runs.
        ("depth 0", 1, "tile(tree, t0, t1, trees/2)\nsplit(t1, t2, t3, trees/2)\nparallel(t0)\nparallel(t3)"),
        // Neighbours whose step and end are equal by chance, from different tiles.
        (
            "5 x depth 0",
            1,
            "tile(tree, t2, t3, 4)\ntile(t3, t4, t5, 64)\nreorder(t5, t4)\ntile(t2, t6, t7, 16)\nreorder(t7, t4, t5)\n\
             reorder(t4, t7, t6)",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, batch, schedule) in cases {
        let forest = generate::forest_of(text);
        let rows = generate::rows(&forest, batch, 7);
        let case = Case { forest, schedule: Schedule::parse(schedule).expect("a schedule"), batch, rows };
        for threads in [1, 2] {
            let what = match std::panic::catch_unwind(|| check(&case, threads)) {
                Ok(Ok(())) => continue,
                Ok(Err(e)) => e.to_string(),
                Err(_) => "it panics".to_owned(),
            };
            wrong.push(format!("{text}, {batch} rows, {threads} threads:\n{schedule}\n{what}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Shared sums whose block loops do not stand right under the rows: carried out or refused, never a defect and never
/// a sum that is left in shared memory.
#[test]
fn shared_sums_below_a_serial_loop() {
    let forest = generate::forest_of("40 x depth 1; features 2");
    let schedules = [
        // Inside a serial loop over trees.
        "tile(tree, t0, t1, 2)\ngpuDimension(batch, grid.x)\ngpuDimension(t1, block.x)\nsharedReduce(t1)",
        // Beside a serial loop that holds another block loop.
        "split(tree, t0, t1, trees/2)\ntile(t1, t2, t3, trees/2)\ngpuDimension(t0, block.y)\n\
         gpuDimension(batch, grid.x)\ngpuDimension(t3, block.y)\nsharedReduce(t0)",
    ];
    for schedule in schedules {
        let schedule = Schedule::parse(schedule).expect("a schedule");
        lower_for_gpu(&forest, &schedule).unwrap_or_else(|e| panic!("{e}\n{schedule}"));
    }
}
