//! A schedule never changes a result, and the schedule is what runs: random forests under random schedules, on the CPU
//! and on the cubecl device that is built in, against the reference interpreter and against the loop nest.
//!
//! `FANGORN_CASES` asks for another number of cases than a change is held to, `FANGORN_SEED` for others than the
//! usual ones. A failure prints a file for `tests/schedules`, which `replayed.rs` runs from then on.

use crate::generate;
use crate::runs;

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use fangorn::{Error, plan::check_with, schedule::Device};
use generate::{Case, Kind};
use proptest::{
    prelude::*,
    test_runner::{TestCaseError, TestError},
};

/// Forests with schedules on a GPU: three kernels are compiled for each, which is what takes the time, and run each usual
/// batch.
#[cfg(feature = "cube")]
const ON_A_GPU: u32 = 60;

/// Runs drawn cases, and fails with the file that shows the smallest wrong one again. Gives how many were accepted.
fn hold(
    cases: u32,
    strategy: impl Strategy<Value = Case>,
    check: impl Fn(&Case) -> Result<bool, String>,
) -> u32 {
    let (run, accepted) = (Cell::new(0u32), Cell::new(0u32));
    let (begun, said) = (Instant::now(), Cell::new(Instant::now()));
    let result = generate::runner(cases).run(&strategy, |case| {
        run.set(run.get() + 1);
        if said.get().elapsed() > Duration::from_secs(5) {
            said.set(Instant::now());
            eprintln!(
                "{} of {cases} cases, {} accepted, {} s",
                run.get(),
                accepted.get(),
                begun.elapsed().as_secs()
            );
        }
        accepted.set(accepted.get() + u32::from(check(&case).map_err(TestCaseError::fail)?));
        Ok(())
    });
    eprintln!("{} cases, {} accepted, {:.1} s", run.get(), accepted.get(), begun.elapsed().as_secs_f32());
    match result {
        Ok(()) => accepted.get(),
        Err(TestError::Fail(what, case)) => {
            let file = runs::file_of(&case, &check);
            panic!("{what}\nput this into tests/schedules to see it again:\n# {what}\n{file}")
        }
        Err(other) => panic!("{other}"),
    }
}

#[track_caller]
fn assert_mostly(accepted: u32, cases: u32) {
    assert!(
        accepted * 10 >= cases * 9,
        "{accepted} of {cases} draws are accepted: refused ones test nothing"
    );
}

#[test]
fn any_schedule_on_the_cpu() {
    let cases = generate::wanted(generate::IN_CI);
    let accepted =
        hold(cases, generate::case(Kind::Any), |case| Ok(runs::on_cpu(case, 1)? && runs::on_cpu(case, 2)?));
    assert_mostly(accepted, cases);
}

#[test]
fn mapped_schedules_on_the_cpu() {
    let cases = generate::wanted(generate::IN_CI);
    let accepted = hold(cases, generate::case(Kind::MappedLoop), |case| {
        Ok(runs::on_cpu(case, 1)? && runs::on_cpu(case, 2)?)
    });
    assert_mostly(accepted, cases);
}

/// What the portable GPU makes of mapped draws, without running them.
#[test]
fn mapped_schedules_are_lowered_for_the_portable_gpu() {
    let cases = generate::wanted(generate::IN_CI);
    let accepted = hold(cases, generate::case(Kind::MappedLoop), |case| {
        let request = runs::request(Device::PORTABLE_GPU, 1);
        match check_with(&case.forest, &case.schedule, request, Some(&case.profile())) {
            Ok(()) => Ok(true),
            Err(Error::Layout(_) | Error::Schedule(_)) => Ok(false),
            Err(defect) => Err(defect.to_string()),
        }
    });
    assert_mostly(accepted, cases);
}

#[test]
#[cfg(feature = "cube")]
fn mapped_schedules_on_the_gpu() {
    let Some(client) = runs::gpu::client() else { return };
    let cases = generate::wanted(ON_A_GPU);
    let (lacks, batches) = (Cell::new(0), Cell::new(0));
    let accepted = hold(cases, generate::case_of_batches(Kind::MappedLoop), |case| {
        use runs::gpu::Ran;
        Ok(match runs::gpu::on_gpu(&client, case)? {
            Ran::Right => {
                batches.set(batches.get() + case.batches().len());
                true
            }
            Ran::TooLarge | Ran::Unmapped | Ran::Tiled => false,
            // The one refusal of a schedule: this driver would miscompile it.
            Ran::LacksSharedMemory => {
                lacks.set(lacks.get() + 1);
                true
            }
        })
    });
    eprintln!(
        "{} batches ran; {} cases need shared memory, which this driver lacks",
        batches.get(),
        lacks.get()
    );
    assert_mostly(accepted, cases);
}
