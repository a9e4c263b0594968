//! How many kernels a forest is, with what follows it. A test by itself: launches are counted for the whole process.

#![cfg(feature = "cube")]

mod support;

use std::sync::{Arc, Mutex};

use burn::tensor::{Device, Tensor, TensorData};
use cubecl::logging::{LaunchObservation, LaunchObserver};
use fangorn::{
    op::{Epilogue, EpilogueStep, ForestOp, forest_with_epilogue},
    schedule::Preset,
};

#[derive(Default)]
struct Seen(Mutex<Vec<&'static str>>);

impl LaunchObserver for Seen {
    fn launched(&self, kernel: &'static str) {
        self.0.lock().expect("no panic").push(kernel);
    }
}

/// The kernels that `run` launches until what it gives is read.
fn launches(run: impl Fn() -> Tensor<2>) -> Vec<&'static str> {
    // What is made at the first call is not counted.
    run().into_data();
    let seen = Arc::new(Seen::default());
    let watching = LaunchObservation::new(seen.clone());
    run().into_data();
    drop(watching);
    let seen = seen.0.lock().expect("no panic");
    seen.clone()
}

fn device() -> Option<Device> {
    support::gpu().map(|(_, device)| device)
}

#[test]
fn what_follows_a_forest_is_no_launch() {
    let Some(device) = device() else { return };
    let s = support::named("churn");
    let rows = Tensor::<2>::from_data(TensorData::new(s.rows.clone(), [s.count, s.columns()]), &device);
    let op = Arc::new(ForestOp::new(s.forest.clone()).expect("a forest"));
    let bare = launches(|| op.margins(rows.clone()).expect("rows"));
    assert_eq!(bare.len(), 1, "{bare:?}");
    let beside = Tensor::<2>::ones([s.count, 1], &device);
    let steps = [
        EpilogueStep::Affine { scale: 2.0, shift: 1.0 },
        EpilogueStep::Add,
        EpilogueStep::AffineEach { scale: vec![0.5], shift: vec![0.5] },
        EpilogueStep::Multiply,
        EpilogueStep::Sigmoid,
    ];
    let epilogue = Arc::new(Epilogue::of_margins(steps).expect("steps"));
    let found = launches(|| {
        let tensors = vec![beside.clone(), beside.clone()];
        forest_with_epilogue(rows.clone(), op.leaf_values(&device), tensors, &op, &epilogue).expect("rows")
    });
    assert_eq!(found.len(), 1, "{found:?}");

    // A unit that adds up a row's sums takes their softmax; where a row is several units', a last launch does.
    let s = support::named("softprob");
    let rows = Tensor::<2>::from_data(TensorData::new(s.rows.clone(), [s.count, s.columns()]), &device);
    let steps = [
        EpilogueStep::Affine { scale: 2.0, shift: 1.0 },
        EpilogueStep::Softmax,
        EpilogueStep::Affine { scale: 2.0, shift: 1.0 },
    ];
    let epilogue = Arc::new(Epilogue::of_margins(steps).expect("steps"));
    for (preset, more) in [(Preset::Default, 0), (Preset::TahoeDirect, 1), (Preset::RapidsFil, 1)] {
        let op = ForestOp::builder(s.forest.clone()).schedule(preset.schedule(&s.forest, true)).build();
        let op = Arc::new(op.expect("a schedule"));
        match op.margins(rows.clone()) {
            Ok(_) => {}
            Err(refused) => {
                assert!(support::lacks_shared_memory(&refused), "{}: {refused}", preset.name());
                continue;
            }
        }
        let bare = launches(|| op.margins(rows.clone()).expect("rows"));
        let followed = launches(|| {
            forest_with_epilogue(rows.clone(), op.leaf_values(&device), vec![], &op, &epilogue).expect("rows")
        });
        assert_eq!(followed.len(), bare.len() + more, "{}: {bare:?}, {followed:?}", preset.name());
        // The objective's own softmax runs there, too.
        let values = launches(|| op.values(rows.clone()).expect("rows"));
        assert_eq!(values.len(), bare.len() + more, "{}: {bare:?}, {values:?}", preset.name());
    }

    // Fusers are registered before anything runs.
    let late = fangorn::op::init().expect_err("tensor operations have run").to_string();
    assert!(late.contains("fangorn::op::init() first"), "{late}");
}
