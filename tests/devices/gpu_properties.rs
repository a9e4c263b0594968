//! Random forests and adversarial rows on a GPU, against the reference interpreter.
//!
//! Schedules are the presets: a kernel is compiled for each, which a software driver is slow at.

#![cfg(feature = "cube")]

use crate::generate;
use crate::support;

use std::{cell::Cell, sync::Arc};

use burn::tensor::{Tensor, TensorData};
use fangorn::{forest::reference, op::ForestOp, schedule::Preset};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use support::assert_margins;

#[test]
fn random_forests_give_what_the_reference_gives() {
    let Some((name, device)) = support::gpu() else { return };
    let preset = Cell::new(0);
    let config = Config { cases: 8, failure_persistence: None, max_shrink_iters: 16, ..Config::default() };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&(generate::forest(), any::<u64>()), |(forest, seed)| {
        let preset = Preset::ALL[preset.replace(preset.get() + 1) % Preset::ALL.len()];
        let columns = forest.features.len();
        let batch = 67;
        let rows = generate::rows(&forest, batch, seed);
        let what = format!("{} on {name}\n{}", preset.name(), forest.to_text());
        let schedule = preset.schedule(&forest, true);
        let op = Arc::new(ForestOp::builder(forest.clone()).schedule(schedule).build().expect("a preset"));
        let x = || Tensor::<2>::from_data(TensorData::new(rows.clone(), [batch, columns]), &device);
        let slots = match op.leaf_slots(x()) {
            Ok(slots) => slots,
            Err(refused) if support::lacks_shared_memory(&refused) => return Ok(()),
            Err(refused) => return Err(TestCaseError::fail(format!("{what}: {refused}"))),
        };
        let slots: Vec<i32> = slots.into_data().convert::<i32>().try_to_vec().expect("i32");
        let row = |r: usize| &rows[r * columns..][..columns];
        let expected: Vec<i32> =
            (0..batch).flat_map(|r| reference::leaf_slots(&forest, row(r))).map(|slot| slot as i32).collect();
        prop_assert_eq!(slots, expected, "{}", what);
        let margins: Vec<f32> = op.margins(x()).expect("as the slots").into_data().try_to_vec().expect("f32");
        assert_margins(&what, &forest, &margins, |r| reference::margins(&forest, row(r)));
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
