//! Random forests and adversarial rows on a GPU, against the reference interpreter.
//!
//! Schedules are the presets: a kernel is compiled for each, which a software driver is slow at. `FANGORN_CASES` and
//! `FANGORN_SEED` ask for more cases, and for others.

#![cfg(feature = "cube")]

use crate::generate;
use crate::support;

use std::{cell::Cell, sync::Arc};

use burn::{
    backend::DispatchDevice,
    tensor::{Device, Tensor, TensorData},
};
use fangorn::{
    Forest, cube,
    forest::reference,
    op::ForestOp,
    schedule::{Preset, Schedule},
};
use proptest::{prelude::*, test_runner::TestCaseError};
use support::assert_margins;

/// The schedules of the default preset for the device, one for each size of a batch, and then every other preset's.
fn schedules(forest: &Forest, device: &Device) -> Vec<(String, Schedule)> {
    let DispatchDevice::Cube(device) = device.as_dispatch() else { panic!("a device of cubecl") };
    let by_batch = Preset::Default.schedules_on(forest, cube::device(&device.client()));
    let default = by_batch.buckets().map(|(rows, schedule)| (format!("default, {rows}"), schedule.clone()));
    let others = Preset::ALL.into_iter().filter(|preset| *preset != Preset::Default);
    default.chain(others.map(|preset| (preset.name().to_owned(), preset.schedule(forest, true)))).collect()
}

#[test]
fn random_forests_give_what_the_reference_gives() {
    let Some((name, device)) = support::gpu() else { return };
    let case = Cell::new(0);
    let mut runner = generate::runner(generate::wanted(10));
    let result = runner.run(&(generate::forest(), any::<u64>()), |(forest, seed)| {
        let mut schedules = schedules(&forest, &device);
        let (schedule_name, schedule) = schedules.swap_remove(case.replace(case.get() + 1) % schedules.len());
        let columns = forest.features.len();
        let batch = 67;
        let rows = generate::rows(&forest, batch, seed);
        let what = format!("{schedule_name} on {name}\n{}", forest.to_text());
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
