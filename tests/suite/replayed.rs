//! Cases that went wrong once, each as small as it gets: the files of `schedules`, and that such a file shows a case
//! again.

use crate::generate;
use crate::runs;

use generate::{Case, Kind};
use proptest::{prelude::*, test_runner::Config};

/// The names of the files that a check fails on.
fn failing(check: impl Fn(&Case) -> Result<bool, String>) -> Vec<String> {
    let cases = generate::kept().into_iter();
    cases.filter_map(|(name, case)| Some(format!("{name}: {}", runs::failure(&case, &check)?))).collect()
}

#[test]
fn cases_that_went_wrong_once_on_the_cpu() {
    let wrong = failing(|case| Ok(runs::on_cpu(case, 1)? && runs::on_cpu(case, 2)?));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[cfg(feature = "cube")]
fn cases_that_went_wrong_once_on_the_gpu() {
    let Some(client) = runs::gpu::client() else { return };
    let wrong = failing(|case| {
        Ok(case.schedule.is_mapped() && runs::gpu::on_gpu(&client, case)? == runs::gpu::Ran::Right)
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Plans that verify, whatever the portable GPU makes of them.
#[test]
fn cases_that_went_wrong_once_are_lowered_for_a_gpu() {
    use fangorn::{plan::lower, schedule::Device};
    let wrong = failing(|case| {
        if !case.schedule.is_mapped() {
            return Ok(false);
        }
        let lowered = lower(&case.forest, &case.schedule, runs::request(Device::PORTABLE_GPU, 1));
        lowered.map(|_| true).map_err(|e| e.to_string())
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #![proptest_config(Config { cases: 300, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_case_is_read_as_it_was_written(case in prop_oneof![generate::case(Kind::Any), generate::case(Kind::MappedLoop)]) {
        let read = Case::from_text(&case.to_text());
        prop_assert_eq!(&read.forest, &case.forest);
        prop_assert_eq!(&read.schedule, &case.schedule);
        prop_assert_eq!((read.batch, read.seed), (case.batch, case.seed));
        let bits = |case: &Case| case.rows.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&read), bits(&case));
    }
}

/// What fails is found again from what is printed of it, with a forest of a line where one shows it.
#[test]
fn a_failure_prints_the_file_that_shows_it_again() {
    let schedule = fangorn::schedule::Schedule::parse("sort(depth)\nparallel(tree)").expect("a schedule");
    let forest = generate::forest_of("chain 6, 9 x depth 2; features 2");
    // A check that fails wherever there are three trees.
    let check = |case: &Case| match case.forest.trees.len() {
        0..3 => Ok(true),
        n => Err(format!("{n} trees")),
    };
    let case = Case::new(forest, schedule, 2, 9);
    let file = runs::file_of(&case, check);
    assert_eq!(file, "batch: 2\nseed: 9\nforest: 3 x depth 0\nschedule:\n  sort(depth)\n  parallel(tree)\n");
    assert_eq!(runs::failure(&Case::from_text(&file), check), Some("3 trees".to_owned()));
    // None of a line does: the forest's own text.
    let check = |case: &Case| match case.forest.trees.iter().any(|t| t.depth() == 6) {
        true => Err("a deep one".to_owned()),
        false => Ok(true),
    };
    let file = runs::file_of(&case, check);
    assert!(file.contains("forest:\n  forest features=2"), "{file}");
    assert_eq!(runs::failure(&Case::from_text(&file), check), Some("a deep one".to_owned()));
}
