//! Random forests on adversarial rows: presets, `f64` rows, columns apart, and what a GPU makes of any schedule.
//!
//! Random schedules are run by `equivalence.rs`.

use crate::generate;
use crate::runs;

use fangorn::{
    Error, Forest, Predictor,
    cpu::Rows,
    forest::reference,
    plan::{
        Op, Request,
        cube::{Cube, Statement, Sum},
        lower,
    },
    schedule::{Device, Preset, Schedule},
};
use generate::{Case, Kind};
use proptest::{prelude::*, test_runner::Config};

fn config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() }
}

/// Leaves exactly, margins within the sum's contract, each worker's walks in the nest's order.
fn check(case: &Case, threads: usize) -> Result<(), TestCaseError> {
    match runs::on_cpu(case, threads) {
        Ok(true) => Ok(()),
        // A layout that would be unreasonably large is refused with its remedy.
        Ok(false) => Err(TestCaseError::reject("no layout")),
        Err(what) => Err(TestCaseError::fail(what)),
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
        let made = Predictor::builder(forest).schedule(case.schedule.clone()).threads(1).profile(&case.profile()).build();
        let Ok(predictor) = made else { return Ok(()) };
        let columns = forest.features.len();
        let values = generate::wide_rows(forest, case.batch, seed);
        let rows = Rows::strided(&values, [case.batch, columns], [columns, 1]).expect("rows");
        let expected: Vec<u32> = values.chunks(columns).flat_map(|row| reference::leaf_slots(forest, row)).collect();
        prop_assert_eq!(predictor.leaf_slots(&rows).expect("slots"), expected);
    }

    #[test]
    fn columns_apart_give_the_same_as_rows_together(case in generate::case(Kind::Any)) {
        let (count, columns) = (case.batch, case.forest.features.len());
        let made = Predictor::builder(&case.forest).schedule(case.schedule.clone()).threads(1).profile(&case.profile()).build();
        let Ok(predictor) = made else { return Ok(()) };
        let together = Rows::strided(&case.rows, [count, columns], [columns, 1]).expect("rows");
        let by_column: Vec<f32> =
            (0..columns).flat_map(|c| (0..count).map(move |r| (r, c))).map(|(r, c)| case.row(r)[c]).collect();
        let apart = Rows::strided(&by_column, [count, columns], [1, count]).expect("rows");
        prop_assert_eq!(predictor.leaf_slots(&together).expect("slots"), predictor.leaf_slots(&apart).expect("slots"));
    }
}

/// Shared sums are cleared before, and added up after, all that is added to them; barriers stand outside register
/// sums, whose units would have different ones pending.
fn shared_sums_are_reduced(ops: &[Op<Cube>], cleared: bool, accumulating: bool) -> Result<(), String> {
    let mut open = cleared;
    for op in ops {
        let adds = |into: Option<&Sum>| match into {
            Some(Sum::Shared) if !open => Err("a sum goes to shared memory and is never added up".to_owned()),
            _ => Ok(()),
        };
        match op {
            Op::Loop(l) => shared_sums_are_reduced(&l.body, open, accumulating)?,
            Op::Walk(w) => adds(w.own.into.as_ref())?,
            Op::Own(Statement::Accumulate { body, into }) => {
                adds(Some(into))?;
                shared_sums_are_reduced(body, open, true)?;
            }
            Op::Cases { cases, .. } => {
                cases.iter().try_for_each(|(_, body)| shared_sums_are_reduced(body, open, accumulating))?;
            }
            Op::Own(Statement::Only { body, .. }) => shared_sums_are_reduced(body, open, accumulating)?,
            Op::Own(
                Statement::CacheRows { .. }
                | Statement::CacheTrees { .. }
                | Statement::ClearShared
                | Statement::ReduceShared { .. },
            ) if accumulating => {
                return Err("a barrier inside a register sum".to_owned());
            }
            Op::Own(Statement::ClearShared) => open = true,
            Op::Own(Statement::ReduceShared { .. }) if !open => {
                return Err("shared sums are added up, but not cleared".to_owned());
            }
            Op::Own(Statement::ReduceShared { .. }) => open = cleared,
            Op::Own(Statement::CacheRows { .. } | Statement::CacheTrees { .. }) => {}
        }
    }
    if open == cleared { Ok(()) } else { Err("shared sums are never added up".to_owned()) }
}

/// Lowers for the portable GPU: a plan that verifies, or a refusal that a user can act on.
fn lower_for_gpu(forest: &Forest, schedule: &Schedule) -> Result<bool, TestCaseError> {
    let request = Request { device: Device::PORTABLE_GPU, threads: 1, ..Request::cpu() };
    match lower(forest, schedule, request) {
        Ok(lowered) => {
            let plan = lowered.cube_plan().expect("a kernel");
            prop_assert_eq!(plan.verify(), Ok(()));
            prop_assert_eq!(shared_sums_are_reduced(&plan.body, false, false), Ok(()), "{}", plan);
            prop_assert!(
                plan.own.units() <= 256 && plan.shared_bytes() <= 16 << 10,
                "over budget:\n{}",
                plan
            );
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
    fn the_gpu_lowers_or_refuses_with_a_remedy(case in generate::case(Kind::MappedLoop)) {
        lower_for_gpu(&case.forest, &case.schedule)?;
    }

    #[test]
    fn the_gpu_refuses_wild_mappings_with_a_remedy(case in generate::case(Kind::Any)) {
        lower_for_gpu(&case.forest, &case.schedule)?;
    }
}

#[test]
fn a_forest_without_trees_gives_its_base_score() {
    let forest = generate::forest_of("; features 2; outputs 3");
    let rows = vec![0.5; 2 * 65];
    for preset in Preset::ALL {
        let schedule = preset.schedule(&forest, false);
        let predictor =
            Predictor::builder(&forest).schedule(schedule.clone()).threads(2).build().expect("a predictor");
        let margins = predictor.margins(&Rows::new(&rows, 2).expect("rows")).expect("margins");
        assert_eq!(margins, [-0.5, -0.25, 0.0].repeat(65), "{}", preset.name());
    }
}
